/*
 * Blocked keys, whatever the algorithm of their limit: denied until the exact end of the block, and then decided as if
 * there had been no block.
 */
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "engine/engine_internal.h"
#include "limiter/limiter_internal.h"
#include "unit/engine/engine_kit.h"

#define UNTIL_NS (KIT_NOW_NS + 60 * SECOND + 1)

static ration_status block_or_reset(struct engine_kit *kit, const char *text,
                                    const char *limit_name, uint64_t until_ns, size_t *out_count)
{
    struct engine_kit_request request;
    struct ration_admin_op who = {.limit_name = limit_name};

    engine_kit_request(&request, text);
    who.attributes = request.attributes;
    who.attribute_count = request.count;
    return until_ns > 0
               ? ration_engine_block_until(kit->engine, &who, until_ns, kit->manual.ns, out_count)
               : ration_engine_reset(kit->engine, &who, kit->manual.ns, out_count);
}

/* Blocks under limit_name, or with NULL under all limits that apply, whose number is count. */
static void block(struct engine_kit *kit, const char *text, const char *limit_name,
                  uint64_t until_ns, size_t count)
{
    size_t got = 0;

    assert_int_equal(block_or_reset(kit, text, limit_name, until_ns, &got), RATION_OK);
    assert_int_equal(got, count);
}

static void reset(struct engine_kit *kit, const char *text, const char *limit_name, size_t count)
{
    block(kit, text, limit_name, 0, count);
}

static struct ration_decision peek(struct engine_kit *kit, const char *text, uint64_t cost_tokens)
{
    struct ration_check check = engine_kit_ask(kit, text, cost_tokens, 1);

    assert_int_equal(check.status, RATION_OK);
    return check.decision;
}

static bool is_allowed(struct engine_kit *kit, const char *text)
{
    return peek(kit, text, 1).verdict == RATION_ALLOW;
}

/* R4: the request passes after the reported wait, and not a nanosecond earlier. */
static void assert_exact_wait(struct engine_kit *kit, const char *text, uint64_t cost_tokens,
                              uint64_t wait_ns)
{
    struct ration_decision reported = engine_kit_ask(kit, text, cost_tokens, 0).decision;
    uint64_t now_ns = kit->manual.ns;

    assert_int_equal(reported.verdict, RATION_DENY);
    assert_int_equal(reported.retry_after_ns, wait_ns);
    kit->manual.ns = now_ns + wait_ns - 1;
    reported = engine_kit_ask(kit, text, cost_tokens, 0).decision;
    assert_int_equal(reported.verdict, RATION_DENY);
    assert_int_equal(reported.retry_after_ns, 1);
    kit->manual.ns = now_ns + wait_ns;
    assert_int_equal(peek(kit, text, cost_tokens).verdict, RATION_ALLOW);
    kit->manual.ns = now_ns;
}

/* One limit of 5 an hour, of each algorithm whose bucket cannot hold a block. */
static const char *const kinds[] = {"fixed_window", "sliding_window", "sliding_log"};

static void open_kind(struct engine_kit *kit, const char *kind, const char *more)
{
    char text[256];

    snprintf(text, sizeof(text), "limits: [{name: w, key: ip, rate: 5/h, algorithm: %s%s}]", kind,
             more);
    engine_kit_open(kit, text);
}

static void a_blocked_key_continues_as_if_there_had_been_no_block(void **state)
{
    (void)state;
    for (size_t i = 0; i < KIT_COUNT_OF(kinds); i++) {
        struct ration_decision decision;
        struct engine_kit kit, twin;

        open_kind(&kit, kinds[i], "");
        open_kind(&twin, kinds[i], "");
        engine_kit_ask(&kit, "ip=192.0.2.1", 2, 0);
        engine_kit_ask(&twin, "ip=192.0.2.1", 2, 0);
        block(&kit, "ip=192.0.2.1", NULL, UNTIL_NS, 1);
        block(&kit, "ip=192.0.2.1", NULL, UNTIL_NS - 1, 1); /* no shorter */

        decision = engine_kit_check(&kit, "ip=192.0.2.1").decision;
        assert_int_equal(decision.verdict, RATION_DENY);
        assert_int_equal(decision.limit, 5);
        assert_int_equal(decision.remaining, 0);
        assert_int_equal(decision.reset_after_ns, peek(&twin, "ip=192.0.2.1", 1).reset_after_ns);
        assert_exact_wait(&kit, "ip=192.0.2.1", 1, UNTIL_NS - KIT_NOW_NS);
        assert_exact_wait(&kit, "ip=192.0.2.1", 3, UNTIL_NS - KIT_NOW_NS);
        assert_int_equal(peek(&kit, "ip=192.0.2.1", 6).verdict, RATION_NEVER);
        assert_true(is_allowed(&kit, "ip=192.0.2.2"));

        kit.manual.ns = twin.manual.ns = UNTIL_NS;
        for (uint64_t cost = 0; cost < 7; cost++)
            assert_same_decision(peek(&kit, "ip=192.0.2.1", cost),
                                 peek(&twin, "ip=192.0.2.1", cost));
        assert_same_decision(engine_kit_check(&kit, "ip=192.0.2.1").decision,
                             engine_kit_check(&twin, "ip=192.0.2.1").decision);
        assert_int_equal(engine_kit_left(&kit, "ip=192.0.2.1"), 2);
        engine_kit_close(&kit);
        engine_kit_close(&twin);
    }
}

/* The later of the two is reported: when the block is over, or when there are tokens again. */
static void a_block_and_a_full_window_end_with_the_later_one(void **state)
{
    (void)state;
    for (size_t i = 0; i < KIT_COUNT_OF(kinds); i++) {
        struct engine_kit kit;
        uint64_t wait_ns;

        open_kind(&kit, kinds[i], "");
        engine_kit_ask(&kit, "ip=192.0.2.1", 5, 0);
        wait_ns = peek(&kit, "ip=192.0.2.1", 1).retry_after_ns;
        assert_true(wait_ns > 60 * SECOND + 1);
        block(&kit, "ip=192.0.2.1", NULL, UNTIL_NS, 1);
        assert_exact_wait(&kit, "ip=192.0.2.1", 1, wait_ns);
        block(&kit, "ip=192.0.2.1", NULL, KIT_NOW_NS + wait_ns + 7, 1);
        assert_exact_wait(&kit, "ip=192.0.2.1", 1, wait_ns + 7);
        /* longer than any tokens take to refill */
        block(&kit, "ip=192.0.2.1", NULL, KIT_NOW_NS + 72000 * SECOND, 1);
        assert_int_equal(peek(&kit, "ip=192.0.2.1", 1).reset_after_ns, 72000 * SECOND);
        assert_exact_wait(&kit, "ip=192.0.2.1", 5, 72000 * SECOND);
        engine_kit_close(&kit);
    }
}

static void a_peek_sees_it_and_what_takes_nothing_passes(void **state)
{
    struct ration_decision decision;
    struct engine_kit kit;

    (void)state;
    open_kind(&kit, "fixed_window", "");
    block(&kit, "ip=192.0.2.1", NULL, UNTIL_NS, 1);
    assert_int_equal(peek(&kit, "ip=192.0.2.1", 1).retry_after_ns, UNTIL_NS - KIT_NOW_NS);
    decision = engine_kit_ask(&kit, "ip=192.0.2.1", 0, 0).decision;
    assert_int_equal(decision.verdict, RATION_ALLOW); /* as for a token bucket */
    assert_int_equal(decision.remaining, 0);
    kit.manual.ns -= SECOND; /* a now that runs backwards */
    assert_int_equal(peek(&kit, "ip=192.0.2.1", 1).retry_after_ns, UNTIL_NS - kit.manual.ns);
    kit.manual.ns += SECOND;
    block(&kit, "ip=192.0.2.2", NULL, KIT_NOW_NS, 1); /* over already */
    assert_true(is_allowed(&kit, "ip=192.0.2.2"));
    block(&kit, "ip=192.0.2.3", NULL, KIT_NOW_NS + RATION_BLOCK_NS_MAX, 1);
    kit.manual.ns += RATION_BLOCK_NS_MAX - 1;
    assert_false(is_allowed(&kit, "ip=192.0.2.3"));
    kit.manual.ns++;
    assert_true(is_allowed(&kit, "ip=192.0.2.3"));
    engine_kit_close(&kit);
}

static const char mixed_text[] =
    "limits:\n"
    "  - {name: all, rate: 100/h}\n"
    "  - {name: bucket, key: ip, rate: 10/h}\n"
    "  - {name: window, key: ip, rate: 5/h, algorithm: fixed_window}\n"
    "  - {name: log, match: {path: /log}, key: [user, ip], rate: 3/h, algorithm: sliding_log}\n"
    "  - {name: trial, key: ip, rate: 2/h, algorithm: sliding_window, shadow: true}\n";

static void the_blocked_limit_is_reported(void **state)
{
    struct ration_check_part parts[RATION_POLICY_MATCHES_MAX];
    struct ration_check check = {.cost_tokens = 1, .parts = parts};
    struct ration_limiter_report report;
    struct engine_kit_request request;
    struct ration_engine_guard guard;
    struct engine_kit kit;

    (void)state;
    engine_kit_open(&kit, mixed_text);
    block(&kit, "path=/log ip=192.0.2.1 user=u", "log", UNTIL_NS, 1);
    engine_kit_request(&request, "path=/log ip=192.0.2.1 user=u");
    check.attributes = request.attributes;
    check.attribute_count = request.count;
    ration_engine_lock(kit.engine, &guard);
    ration_engine_check_guarded(&guard, &check, 1, KIT_NOW_NS);
    assert_int_equal(check.decision.verdict, RATION_DENY);
    assert_string_equal(check.limit->limit.name, "log");
    assert_int_equal(check.decision.limit_index, 3);
    assert_int_equal(check.decision.limit, 3);
    assert_int_equal(check.decision.remaining, 0);
    assert_int_equal(check.decision.retry_after_ns, UNTIL_NS - KIT_NOW_NS);
    assert_int_equal(check.part_count, 5);
    for (int i = 0; i < 3; i++) /* the others would pass, and nothing was taken from them (R2) */
        assert_int_equal(parts[i].decision.verdict, RATION_ALLOW);
    assert_int_equal(parts[2].decision.remaining, 5);
    assert_string_equal(parts[3].limit->limit.name, "log");
    assert_int_equal(parts[3].decision.verdict, RATION_DENY);
    assert_int_equal(parts[3].decision.limit_index, 3);
    assert_int_equal(parts[3].decision.limit, 3);
    assert_int_equal(parts[3].decision.remaining, 0);
    assert_int_equal(parts[3].decision.retry_after_ns, UNTIL_NS - KIT_NOW_NS);
    assert_int_equal(parts[4].decision.remaining, 1); /* a shadow is charged by its own verdict */
    ration_limiter_read_report(ration_engine_limiter(&guard, 3), &report);
    assert_int_equal(report.rules[0].denied, 1);
    ration_limiter_read_report(ration_engine_limiter(&guard, 2), &report);
    assert_int_equal(report.rules[0].denied, 0);
    ration_engine_unlock(&guard);
    /* another user, by the same address; and the same key under another limit */
    assert_true(is_allowed(&kit, "path=/log ip=192.0.2.1 user=v"));
    assert_true(is_allowed(&kit, "path=/ ip=192.0.2.1 user=u"));
    engine_kit_close(&kit);
}

static void limits_of_both_kinds_are_blocked_together(void **state)
{
    struct ration_check check;
    struct engine_kit kit;

    (void)state;
    engine_kit_open(&kit, mixed_text);
    block(&kit, "path=/log ip=192.0.2.1 user=u", NULL, UNTIL_NS, 3); /* not all, nor the shadow */
    assert_exact_wait(&kit, "path=/log ip=192.0.2.1 user=u", 1, UNTIL_NS - KIT_NOW_NS);
    assert_exact_wait(&kit, "path=/ ip=192.0.2.1", 1, UNTIL_NS - KIT_NOW_NS);
    assert_true(is_allowed(&kit, "path=/log ip=192.0.2.2 user=u"));
    kit.manual.ns = UNTIL_NS;
    check = engine_kit_check(&kit, "path=/log ip=192.0.2.1 user=u");
    assert_int_equal(check.decision.verdict, RATION_ALLOW);
    assert_int_equal(check.decision.remaining, 0); /* a token bucket has one token at that moment */
    assert_int_equal(check.decision.limit_index, 1);
    engine_kit_close(&kit);

    engine_kit_open(&kit, mixed_text);
    block(&kit, "ip=192.0.2.1", "bucket", UNTIL_NS + 1, 1); /* each by its own */
    block(&kit, "ip=192.0.2.1", "window", UNTIL_NS, 1);
    assert_int_equal(peek(&kit, "ip=192.0.2.1", 1).limit_index, 1);
    assert_exact_wait(&kit, "ip=192.0.2.1", 1, UNTIL_NS + 1 - KIT_NOW_NS);
    block(&kit, "ip=192.0.2.1", "window", UNTIL_NS + 2, 1);
    assert_int_equal(peek(&kit, "ip=192.0.2.1", 1).limit_index, 2);
    assert_exact_wait(&kit, "ip=192.0.2.1", 1, UNTIL_NS + 2 - KIT_NOW_NS);
    engine_kit_close(&kit);
}

static void shadows_are_not_blocked(void **state)
{
    struct engine_kit kit;
    size_t count = 7;

    (void)state;
    open_kind(&kit, "fixed_window", ", shadow: true");
    assert_int_equal(block_or_reset(&kit, "ip=192.0.2.1", NULL, UNTIL_NS, &count),
                     RATION_EUNSUPPORTED);
    assert_int_equal(count, 7);
    assert_true(is_allowed(&kit, "ip=192.0.2.1"));
    engine_kit_close(&kit);
}

static void a_reset_ends_it(void **state)
{
    struct engine_kit kit;

    (void)state;
    engine_kit_open(&kit, mixed_text);
    engine_kit_ask(&kit, "path=/log ip=192.0.2.1 user=u", 2, 0);
    block(&kit, "path=/log ip=192.0.2.1 user=u", NULL, UNTIL_NS, 3);
    block(&kit, "path=/log ip=192.0.2.2 user=u", NULL, UNTIL_NS, 3);
    reset(&kit, "path=/log ip=192.0.2.1 user=u", "window", 1);
    assert_int_equal(peek(&kit, "path=/log ip=192.0.2.1 user=u", 1).verdict, RATION_DENY);
    reset(&kit, "path=/log ip=192.0.2.1 user=u", NULL, 4);
    assert_int_equal(engine_kit_left(&kit, "path=/log ip=192.0.2.1 user=u"), 3);
    assert_true(is_allowed(&kit, "path=/log ip=192.0.2.1 user=u"));
    assert_false(is_allowed(&kit, "path=/log ip=192.0.2.2 user=u"));
    block(&kit, "path=/log ip=192.0.2.1 user=u", "log", UNTIL_NS, 1); /* and again */
    assert_exact_wait(&kit, "path=/log ip=192.0.2.1 user=u", 1, UNTIL_NS - KIT_NOW_NS);
    engine_kit_close(&kit);
}

/* The decision of the only limit as a shadow. */
static enum ration_verdict shadow_verdict(struct engine_kit *kit, const char *text)
{
    struct ration_check_part parts[RATION_POLICY_MATCHES_MAX];
    struct engine_kit_request request;
    struct ration_check check = {.cost_tokens = 1, .parts = parts};

    engine_kit_request(&request, text);
    check.attributes = request.attributes;
    check.attribute_count = request.count;
    ration_engine_check(kit->engine, &check, 1, kit->manual.ns);
    assert_int_equal(check.decision.verdict, RATION_ALLOW);
    assert_int_equal(check.part_count, 1);
    return parts[0].decision.verdict;
}

static void a_reload_keeps_it(void **state)
{
    struct engine_kit kit;

    (void)state;
    open_kind(&kit, "fixed_window", "");
    engine_kit_check(&kit, "ip=192.0.2.1"); /* an existing bucket takes a faster path */
    block(&kit, "ip=192.0.2.1", NULL, UNTIL_NS, 1);
    /* another limit, another kind that fits the table, others that do not */
    engine_kit_reload(&kit, "limits: [{name: w, key: ip, rate: 9/h, algorithm: fixed_window}]");
    assert_exact_wait(&kit, "ip=192.0.2.1", 1, UNTIL_NS - KIT_NOW_NS);
    assert_int_equal(peek(&kit, "ip=192.0.2.1", 1).limit, 9);
    engine_kit_reload(&kit, "limits: [{name: w, key: ip, rate: 9/h}]");
    assert_exact_wait(&kit, "ip=192.0.2.1", 1, UNTIL_NS - KIT_NOW_NS);
    engine_kit_reload(&kit, "limits: [{name: a, key: ip, rate: 9/h},"
                            " {name: w, key: ip, rate: 9/h, algorithm: sliding_log}]");
    assert_exact_wait(&kit, "ip=192.0.2.1", 1, UNTIL_NS - KIT_NOW_NS);
    assert_int_equal(peek(&kit, "ip=192.0.2.1", 1).limit_index, 1);
    /* not of another limit, of another key, or in the shadow */
    engine_kit_reload(&kit, "limits: [{name: v, key: ip, rate: 5/h, algorithm: fixed_window}]");
    assert_true(is_allowed(&kit, "ip=192.0.2.1"));
    engine_kit_reload(&kit, "limits: [{name: w, key: user, rate: 5/h, algorithm: fixed_window}]");
    assert_true(is_allowed(&kit, "user=192.0.2.1"));
    engine_kit_reload(&kit, "limits: [{name: w, key: ip, rate: 5/h, algorithm: fixed_window,"
                            " shadow: true}]");
    assert_int_equal(shadow_verdict(&kit, "ip=192.0.2.1"), RATION_ALLOW);
    /* it comes back as it was */
    engine_kit_reload(&kit, "limits: [{name: w, key: ip, rate: 5/h, algorithm: fixed_window}]");
    assert_exact_wait(&kit, "ip=192.0.2.1", 1, UNTIL_NS - KIT_NOW_NS);
    engine_kit_close(&kit);
}

/* As many limits as may apply to one request; all of their blocks fit. */
static void all_of_sixteen_limits_are_blocked(void **state)
{
    char text[RATION_POLICY_MATCHES_MAX * 80] = "limits:\n";
    struct ration_check_part parts[RATION_POLICY_MATCHES_MAX];
    struct ration_check check = {.cost_tokens = 1, .parts = parts};
    struct engine_kit_request request;
    struct ration_engine_guard guard;
    struct engine_kit kit;

    (void)state;
    for (int i = 0; i < RATION_POLICY_MATCHES_MAX; i++) {
        size_t used = strlen(text);

        snprintf(text + used, sizeof(text) - used,
                 "  - {name: l%d, key: ip, rate: %d/h, algorithm: %s, max_keys: 100}\n", i, 20 + i,
                 kinds[i % 3]);
    }
    engine_kit_open(&kit, text);
    engine_kit_check(&kit, "ip=192.0.2.1");
    for (uint64_t i = 0; i < RATION_POLICY_MATCHES_MAX; i++) {
        char name[8];

        snprintf(name, sizeof(name), "l%d", (int)i);
        block(&kit, "ip=192.0.2.1", name, UNTIL_NS + i, 1);
        assert_int_equal(peek(&kit, "ip=192.0.2.1", 1).limit_index, i);
    }
    engine_kit_request(&request, "ip=192.0.2.1");
    check.attributes = request.attributes;
    check.attribute_count = request.count;
    ration_engine_lock(kit.engine, &guard);
    ration_engine_check_guarded(&guard, &check, 1, KIT_NOW_NS);
    ration_engine_unlock(&guard);
    for (uint64_t i = 0; i < RATION_POLICY_MATCHES_MAX; i++)
        assert_int_equal(parts[i].decision.retry_after_ns, UNTIL_NS + i - KIT_NOW_NS);
    assert_exact_wait(&kit, "ip=192.0.2.1", 1,
                      UNTIL_NS + RATION_POLICY_MATCHES_MAX - 1 - KIT_NOW_NS);
    kit.manual.ns = UNTIL_NS + RATION_POLICY_MATCHES_MAX - 1;
    assert_int_equal(engine_kit_left(&kit, "ip=192.0.2.1"), 19);
    engine_kit_close(&kit);
}

static void a_batch_meets_each_block(void **state)
{
    enum { COUNT = 50 };
    static struct engine_kit_request requests[COUNT];
    static struct ration_check checks[COUNT];
    struct engine_kit kit;

    (void)state;
    engine_kit_open(&kit, mixed_text);
    for (int i = 0; i < COUNT; i++) {
        char text[64];

        snprintf(text, sizeof(text), "path=/log user=u ip=192.0.2.%d", i);
        engine_kit_request(&requests[i], text);
        checks[i] = (struct ration_check){.attributes = requests[i].attributes,
                                          .attribute_count = requests[i].count,
                                          .cost_tokens = 1};
        if (i % 3 == 0)
            block(&kit, text, "log", UNTIL_NS, 1);
    }
    ration_engine_check(kit.engine, checks, COUNT, KIT_NOW_NS);
    for (int i = 0; i < COUNT; i++)
        assert_int_equal(checks[i].decision.verdict, i % 3 == 0 ? RATION_DENY : RATION_ALLOW);
    engine_kit_close(&kit);
}

static void a_key_may_be_as_long_as_any(void **state)
{
    static char value[RATION_KEY_SIZE_MAX];
    struct ration_attribute user = {RATION_KEY("user"), {value, sizeof(value)}};
    struct ration_check check = {.attributes = &user, .attribute_count = 1, .cost_tokens = 1};
    struct ration_admin_op who = {.attributes = &user, .attribute_count = 1};
    struct engine_kit kit;

    (void)state;
    engine_kit_plan(&kit);
    kit.options.attribute_bytes_max = sizeof(value);
    engine_kit_open_planned(&kit,
                            "limits: [{name: w, key: user, rate: 5/h, algorithm: fixed_window}]");
    memset(value, 'v', sizeof(value));
    assert_int_equal(ration_engine_block_until(kit.engine, &who, UNTIL_NS, KIT_NOW_NS, NULL),
                     RATION_OK);
    ration_engine_check(kit.engine, &check, 1, KIT_NOW_NS);
    assert_int_equal(check.decision.retry_after_ns, UNTIL_NS - KIT_NOW_NS);
    value[sizeof(value) - 1] = 'w';
    ration_engine_check(kit.engine, &check, 1, KIT_NOW_NS);
    assert_int_equal(check.decision.verdict, RATION_ALLOW);
    user.value.size = 0;
    assert_int_equal(ration_engine_block_until(kit.engine, &who, UNTIL_NS, KIT_NOW_NS, NULL),
                     RATION_OK);
    ration_engine_check(kit.engine, &check, 1, KIT_NOW_NS);
    assert_int_equal(check.decision.verdict, RATION_DENY);
    engine_kit_close(&kit);
}

static const char *user_text(struct kit_room *room, uint64_t number)
{
    snprintf(room->text, sizeof(room->text), "user=%llu", (unsigned long long)number);
    return room->text;
}

/* Blocks as many keys as have a place. A key without a place gets an error, and is not blocked. */
static void a_key_without_a_place_is_not_blocked(void **state)
{
    enum { COUNT_MAX = 200000 };
    struct kit_room room;
    uint64_t count = 0;
    struct engine_kit kit;

    (void)state;
    engine_kit_open(&kit, "limits: [{name: w, key: user, rate: 5/h, algorithm: fixed_window}]");
    while (count < COUNT_MAX &&
           block_or_reset(&kit, user_text(&room, count), NULL, UNTIL_NS, NULL) == RATION_OK)
        count++;
    assert_true(count > 32768 && count < COUNT_MAX); /* 65536, but for one key in a million */
    assert_int_equal(block_or_reset(&kit, user_text(&room, count), NULL, UNTIL_NS, NULL),
                     RATION_ENOMEM);
    assert_true(is_allowed(&kit, user_text(&room, count)));
    assert_int_equal(engine_kit_check(&kit, user_text(&room, count)).decision.remaining, 4);
    for (uint64_t i = 0; i < count; i += 97)
        assert_int_equal(peek(&kit, user_text(&room, i), 1).retry_after_ns, UNTIL_NS - KIT_NOW_NS);
    /* a key that is unblocked frees its place, and so does the end of all blocks */
    reset(&kit, user_text(&room, 0), NULL, 1);
    assert_true(is_allowed(&kit, user_text(&room, 0)));
    kit.manual.ns = UNTIL_NS;
    block(&kit, user_text(&room, count), NULL, UNTIL_NS + 5, 1);
    assert_int_equal(peek(&kit, user_text(&room, count), 1).retry_after_ns, 5);
    engine_kit_close(&kit);
}

/* A block also applies to a key without a place in its limit's own table, whatever the overflow rule. */
static void a_block_needs_no_place_for_the_bucket(void **state)
{
    static const char *const rules[] = {"shared", "deny", "allow", "allow, start: empty"};

    (void)state;
    for (size_t i = 0; i < KIT_COUNT_OF(kinds); i++)
        for (size_t k = 0; k < KIT_COUNT_OF(rules) * 2; k++) {
            uint64_t until_ns = KIT_NOW_NS + (k % 2 == 0 ? 60 : 9000) * SECOND;
            char more[64], text[32];
            uint64_t wait_ns;
            struct engine_kit kit;

            snprintf(more, sizeof(more), ", max_keys: 1, overflow: %s", rules[k / 2]);
            open_kind(&kit, kinds[i], more);
            for (int number = 0; number < 200; number++) {
                snprintf(text, sizeof(text), "ip=192.0.2.%d", number);
                engine_kit_ask(&kit, text, 3, 0);
            }
            wait_ns = peek(&kit, "ip=198.51.100.1", 3).retry_after_ns; /* without a block */
            block(&kit, "ip=198.51.100.1", NULL, until_ns, 1);
            if (until_ns - KIT_NOW_NS > wait_ns)
                wait_ns = until_ns - KIT_NOW_NS;
            assert_exact_wait(&kit, "ip=198.51.100.1", 3, wait_ns);
            engine_kit_close(&kit);
        }
}

/* The pages wholly inside the table of blocks that have memory. */
static size_t pages_in_use(const struct engine_kit *kit)
{
    const struct ration_section *section = kit->engine->blocks->fast_section;
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t begin = ((uintptr_t)section->sets + page - 1) / page * page;
    uintptr_t end = (uintptr_t)(section->sets + (size_t)section->set_count * RATION_SET_SLOTS);
    size_t page_count = (end - begin) / page;
    unsigned char *are_there = malloc(page_count);
    size_t count = 0;

    assert_non_null(are_there);
    assert_true(page_count > 100);
    assert_int_equal(mincore((void *)begin, page_count * page, are_there), 0);
    for (size_t i = 0; i < page_count; i++)
        count += are_there[i] & 1;
    free(are_there);
    return count;
}

static void memory_is_not_touched_before_the_first(void **state)
{
    struct engine_kit kit;

    (void)state;
    engine_kit_plan(&kit);
    kit.options.is_prefaulted = 1;
    assert_int_equal(
        ration_engine_create(&kit.options, engine_kit_policy(mixed_text), &kit.engine, NULL),
        RATION_OK);
    for (int i = 0; i < 250; i++) {
        char text[64];

        snprintf(text, sizeof(text), "path=/log user=u ip=192.0.2.%d", i);
        engine_kit_check(&kit, text);
        reset(&kit, text, NULL, 4);
    }
    block(&kit, "ip=192.0.2.1", "bucket", UNTIL_NS, 1);
    engine_kit_reload(&kit, mixed_text);
    assert_int_equal(pages_in_use(&kit), 0);
    block(&kit, "ip=192.0.2.1", "window", UNTIL_NS, 1);
    engine_kit_check(&kit, "ip=192.0.2.1");
    assert_true(pages_in_use(&kit) >= 1 && pages_in_use(&kit) <= 6); /* two sets of three keys */
    engine_kit_close(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_blocked_key_continues_as_if_there_had_been_no_block),
        cmocka_unit_test(a_block_and_a_full_window_end_with_the_later_one),
        cmocka_unit_test(a_peek_sees_it_and_what_takes_nothing_passes),
        cmocka_unit_test(the_blocked_limit_is_reported),
        cmocka_unit_test(limits_of_both_kinds_are_blocked_together),
        cmocka_unit_test(shadows_are_not_blocked),
        cmocka_unit_test(a_reset_ends_it),
        cmocka_unit_test(a_reload_keeps_it),
        cmocka_unit_test(all_of_sixteen_limits_are_blocked),
        cmocka_unit_test(a_batch_meets_each_block),
        cmocka_unit_test(a_key_may_be_as_long_as_any),
        cmocka_unit_test(a_key_without_a_place_is_not_blocked),
        cmocka_unit_test(a_block_needs_no_place_for_the_bucket),
        cmocka_unit_test(memory_is_not_touched_before_the_first),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
