/*
 * An engine gets another policy: what the reload reports, and how it changes the buckets.
 */
#include "unit/engine/engine_kit.h"

#define HOUR (3600 * SECOND)

/* A limit with the given fields: "rate: 10/h". */
static const char *with(char *room, size_t room_size, const char *fields)
{
    snprintf(room, room_size, "limits: [{name: a, %s}]", fields);
    return room;
}

#define WITH(fields) with((char[512]){0}, 512, fields)

static void take(struct engine_kit *kit, const char *request, uint64_t tokens)
{
    struct ration_check check = engine_kit_ask(kit, request, tokens, 0);

    assert_int_equal(check.status, RATION_OK);
    assert_int_equal(check.decision.verdict, RATION_ALLOW);
}

/* Every kind of limit, in every form that a reload might confuse with another. */
static void the_same_policy_changes_nothing(void **state)
{
    static const char *const rows[] = {
        "key: ip, rate: 10/h",
        "key: [user, ip], rate: 10/h, burst: 10, ipv6_prefix: 48",
        "rate: 10/h",
        "key: ip, rate: 10/h, max_keys: 77, overflow: deny",
        "key: ip, rate: 10/h, refill: interval",
        "key: ip, rate: 10/h, algorithm: leaky_queue",
        "key: ip, rate: 10/h, algorithm: fixed_window",
        "key: ip, rate: 10/h, algorithm: sliding_window",
        "key: ip, rate: 10/h, algorithm: sliding_log",
        "key: ip, rate: 5/h, reserve: 1/d burst 5",
        "key: ip, rate: 10/h, start: 9, stale_after: 2h",
        "key: ip, rate: 10/h, start: 9",
        "key: ip, rate: 10/h, stale_after: 2h",
        "key: ip, rate: 10/h, cost: 1, missing: skip",
        "key: ip, rate: 10/h, cost: tokens, cost_default: 1",
    };

    (void)state;
    for (size_t i = 0; i < KIT_COUNT_OF(rows); i++) {
        struct ration_decision before;
        struct engine_kit kit;

        engine_kit_open(&kit, WITH(rows[i]));
        for (int k = 0; k < 3; k++)
            take(&kit, "ip=192.0.2.1 user=u", 1);
        kit.manual.ns += 7 * MS;
        before = engine_kit_ask(&kit, "ip=192.0.2.1 user=u", 1, 1).decision;
        for (int k = 0; k < 3; k++) {
            struct engine_kit_report reported = engine_kit_reload(&kit, WITH(rows[i]));

            if (reported.text[0] != '\0')
                fail_msg("%s: reported %s", rows[i], reported.text);
        }
        assert_same_decision(engine_kit_ask(&kit, "ip=192.0.2.1 user=u", 1, 1).decision, before);
        engine_kit_close(&kit);
    }
}

/* 4.5 tokens of 10/s become 4.5 of 20/s: 4 are left, and the fifth is there after 25 ms. */
static void another_rate_keeps_tokens_and_fraction(void **state)
{
    struct ration_check check;
    struct engine_kit kit;

    (void)state;
    engine_kit_open(&kit, WITH("key: ip, rate: 10/s"));
    take(&kit, "ip=192.0.2.1", 6);
    kit.manual.ns += 50 * MS;
    assert_string_equal(engine_kit_reload(&kit, WITH("key: ip, rate: 20/s")).text, "changed a");
    check = engine_kit_ask(&kit, "ip=192.0.2.1", 5, 0);
    assert_int_equal(check.decision.verdict, RATION_DENY);
    assert_int_equal(check.decision.remaining, 4);
    assert_int_equal(check.decision.retry_after_ns, 25 * MS);
    assert_int_equal(engine_kit_left(&kit, "ip=192.0.2.2"), 20); /* a full bucket stays full */
    assert_string_equal(engine_kit_reload(&kit, WITH("key: ip, rate: 20/s, burst: 7")).text,
                        "changed a");
    assert_int_equal(engine_kit_left(&kit, "ip=192.0.2.1"), 4);
    assert_int_equal(engine_kit_left(&kit, "ip=192.0.2.2"), 7);
    engine_kit_close(&kit);
}

static const struct {
    const char *before, *after, *reported;
    uint64_t left; /* of 10, of which 4 were taken */
} changes[] = {
    {"key: ip, rate: 10/h", "key: ip, rate: 10/h, algorithm: fixed_window", "changed a", 6},
    {"key: ip, rate: 10/h", "key: ip, rate: 10/h, algorithm: leaky_queue", "changed a", 6},
    {"key: ip, rate: 10/h", "key: ip, rate: 10/h, cost: 2", "changed a", 6},
    {"key: ip, rate: 10/h", "key: ip, rate: 10/h, cost: tokens", "changed a", 6},
    {"key: ip, rate: 10/h, cost: tokens", "key: ip, rate: 10/h, cost: other", "changed a", 6},
    {"key: ip, rate: 10/h", "key: ip, rate: 10/h, missing: skip", "changed a", 6},
    {"key: ip, rate: 10/h", "key: ip, rate: 10/h, overflow: deny", "changed a", 6},
    {"key: ip, rate: 10/h, start: 9", "key: ip, rate: 10/h, start: 9, stale_after: 1h", "changed a",
     5},
    {"key: ip, rate: 10/h, start: 9", "key: ip, rate: 10/h, start: 8", "changed a", 5},
    /* kinds that do not fit where the old state is */
    {"key: ip, rate: 10/h", "key: ip, rate: 10/h, algorithm: sliding_window", "reset a", 10},
    {"key: ip, rate: 10/h", "key: ip, rate: 10/h, algorithm: sliding_log", "reset a", 10},
    {"key: ip, rate: 10/h", "key: ip, rate: 10/h, reserve: 1/d burst 2", "reset a", 12},
    {"key: ip, rate: 10/h, algorithm: sliding_log", "key: ip, rate: 11/h, algorithm: sliding_log",
     "reset a", 11},
    {"key: ip, rate: 10/h, algorithm: sliding_log", "key: ip, rate: 9/h, algorithm: sliding_log",
     "changed a", 6},
    /* other keys */
    {"key: ip, rate: 10/h", "key: user, rate: 10/h", "reset a", 10},
    {"key: ip, rate: 10/h", "key: [ip, user], rate: 10/h", "reset a", 10},
    {"key: [user, ip], rate: 10/h", "key: [ip, user], rate: 10/h", "reset a", 10},
    {"key: ip, rate: 10/h", "rate: 10/h", "reset a", 10},
    {"key: ip, rate: 10/h", "key: ip, ipv6_prefix: 56, rate: 10/h", "reset a", 10},
    /* names that only look alike when they are joined */
    {"key: 'user|path', rate: 10/h", "key: [user, path], rate: 10/h", "reset a", 10},
    {"key: 'ip/64', rate: 10/h", "key: ip, rate: 10/h", "reset a", 10},
    {"key: [ip, /64], rate: 10/h", "key: ip, rate: 10/h", "reset a", 10},
    /* other tables */
    {"key: ip, rate: 10/h, max_keys: 100", "key: ip, rate: 10/h, max_keys: 200", "kept its size a",
     6},
    {"key: ip, rate: 10/h, max_keys: 100", "key: user, rate: 10/h, max_keys: 200", "reset a", 10},
};

static void report_why(size_t row, const char *what)
{
    fail_msg("%s -> %s: %s", changes[row].before, changes[row].after, what);
}

static void buckets_are_kept_or_start_again_as_is_reported(void **state)
{
    static const char request[] = "ip=2001:db8::1 user=2001:db8::/64 ip/64=2001:db8::/64";

    (void)state;
    for (size_t i = 0; i < KIT_COUNT_OF(changes); i++) {
        struct engine_kit_report reported;
        struct engine_kit kit;

        engine_kit_open(&kit, WITH(changes[i].before));
        for (int k = 0; k < 4; k++)
            take(&kit, request, 1);
        reported = engine_kit_reload(&kit, WITH(changes[i].after));
        if (strcmp(reported.text, changes[i].reported) != 0)
            report_why(i, reported.text[0] != '\0' ? reported.text : "nothing was reported");
        if (engine_kit_left(&kit, request) != changes[i].left)
            report_why(i, "other tokens are left");
        /* and back again, with the buckets unchanged meanwhile */
        reported = engine_kit_reload(&kit, WITH(changes[i].before));
        if (strcmp(reported.text, changes[i].reported) != 0 &&
            strcmp(reported.text, "changed a") != 0)
            report_why(i, reported.text[0] != '\0' ? reported.text
                                                   : "nothing was reported on the way back");
        if (strcmp(reported.text, "reset a") == 0 && engine_kit_left(&kit, request) != 10)
            report_why(i, "a reset was reported, but keys kept their state");
        engine_kit_close(&kit);
    }
}

/* Keys that have started empty are remembered as the new policy says. */
static void another_stale_after_takes_effect(void **state)
{
    struct engine_kit kit;

    (void)state;
    for (int is_longer = 0; is_longer <= 1; is_longer++) {
        engine_kit_open(&kit, WITH("key: ip, rate: 3/s, burst: 7, start: empty, stale_after: 1h"));
        engine_kit_check(&kit, "ip=192.0.2.1");
        if (is_longer)
            engine_kit_reload(&kit,
                              WITH("key: ip, rate: 3/s, burst: 7, start: empty, stale_after: 9h"));
        kit.manual.ns += HOUR / 2;
        assert_int_equal(engine_kit_check(&kit, "ip=192.0.2.1").decision.remaining, 6);
        kit.manual.ns += 3 * HOUR;
        assert_int_equal(engine_kit_left(&kit, "ip=192.0.2.1"), is_longer ? 7 : 0);
        engine_kit_close(&kit);
    }
}

static void a_removed_limit_continues_when_it_returns(void **state)
{
    static const char both[] = "limits: [{name: a, match: {path: /a}, key: ip, rate: 10/h}, "
                               "{name: b, match: {path: /b}, rate: 5/h}]";
    static const char only_b[] = "limits: [{name: b, match: {path: /b}, rate: 5/h}]";
    struct engine_kit kit;

    (void)state;
    engine_kit_open(&kit, both);
    take(&kit, "path=/a ip=192.0.2.1", 4);
    take(&kit, "path=/b ip=192.0.2.1", 4);
    assert_string_equal(engine_kit_reload(&kit, only_b).text, "removed a");
    assert_int_equal(engine_kit_left(&kit, "path=/a ip=192.0.2.1"), UINT64_MAX);
    kit.manual.ns += 360 * SECOND; /* a token of a */
    assert_string_equal(engine_kit_reload(&kit, both).text, "added a");
    assert_int_equal(engine_kit_left(&kit, "path=/a ip=192.0.2.1"), 7);
    assert_int_equal(engine_kit_left(&kit, "path=/b ip=192.0.2.1"), 1);
    /* as another one */
    engine_kit_reload(&kit, only_b);
    assert_string_equal(engine_kit_reload(&kit, "limits: [{name: a, key: ip, rate: 20/h}]").text,
                        "added a, removed b");
    assert_int_equal(engine_kit_left(&kit, "ip=192.0.2.1"), 7);
    /* by other keys */
    engine_kit_reload(&kit, only_b);
    assert_string_equal(engine_kit_reload(&kit, "limits: [{name: a, key: user, rate: 20/h}]").text,
                        "added a, removed b");
    assert_int_equal(engine_kit_left(&kit, "user=192.0.2.1"), 20);
    engine_kit_close(&kit);
}

static void a_limit_goes_into_the_shadow_and_comes_out(void **state)
{
    struct engine_kit kit;

    (void)state;
    engine_kit_open(&kit, WITH("key: ip, rate: 2/h"));
    take(&kit, "ip=192.0.2.1", 2);
    assert_string_equal(engine_kit_reload(&kit, WITH("key: ip, rate: 2/h, shadow: true")).text,
                        "changed a");
    assert_int_equal(engine_kit_check(&kit, "ip=192.0.2.1").decision.verdict, RATION_ALLOW);
    assert_int_equal(engine_kit_check(&kit, "ip=192.0.2.1").decision.limit, 0);
    assert_string_equal(engine_kit_reload(&kit, WITH("key: ip, rate: 2/h")).text, "changed a");
    assert_int_equal(engine_kit_check(&kit, "ip=192.0.2.1").decision.verdict, RATION_DENY);
    engine_kit_close(&kit);
}

/* More keys in debt than have a place. */
static void another_overflow_rule_takes_effect_at_once(void **state)
{
    struct engine_kit kit;
    char text[32];

    (void)state;
    engine_kit_open(&kit, WITH("key: user, rate: 2/h, max_keys: 1, overflow: deny"));
    for (int i = 0; i < 40; i++) {
        snprintf(text, sizeof(text), "user=u%d", i);
        engine_kit_check(&kit, text);
    }
    assert_int_equal(engine_kit_check(&kit, "user=one").decision.verdict, RATION_DENY);
    assert_string_equal(
        engine_kit_reload(&kit, WITH("key: user, rate: 2/h, max_keys: 1, overflow: allow")).text,
        "changed a");
    for (int i = 0; i < 5; i++)
        assert_int_equal(engine_kit_check(&kit, "user=one").decision.verdict, RATION_ALLOW);
    engine_kit_reload(&kit, WITH("key: user, rate: 2/h, max_keys: 1, overflow: shared"));
    take(&kit, "user=one", 2);
    assert_int_equal(engine_kit_check(&kit, "user=two").decision.verdict, RATION_DENY);
    engine_kit_reload(&kit, WITH("key: user, rate: 2/h, max_keys: 1, overflow: deny"));
    assert_int_equal(engine_kit_check(&kit, "user=three").decision.verdict, RATION_DENY);
    engine_kit_close(&kit);
}

static void buckets_follow_names_not_places(void **state)
{
    struct ration_check check;
    struct engine_kit kit;

    (void)state;
    engine_kit_open(&kit, "limits: [{name: a, key: ip, rate: 10/h}, {name: b, rate: 10/h}]");
    take(&kit, "ip=192.0.2.1", 3);
    assert_string_equal(engine_kit_reload(&kit, "limits: [{name: c, rate: 20/h}, "
                                                "{name: b, rate: 10/h}, "
                                                "{name: a, key: ip, rate: 10/h}]")
                            .text,
                        "added c");
    take(&kit, "ip=192.0.2.2", 2);
    assert_int_equal(engine_kit_left(&kit, "ip=192.0.2.1"), 5); /* b, which has no key */
    check = engine_kit_ask(&kit, "ip=192.0.2.1", 6, 0);
    assert_int_equal(check.decision.verdict, RATION_DENY);
    assert_int_equal(check.decision.limit_index, 1);
    assert_string_equal(engine_kit_reload(&kit, "limits: [{name: a, key: ip, rate: 10/h}]").text,
                        "removed c, removed b");
    assert_int_equal(engine_kit_left(&kit, "ip=192.0.2.1"), 7);
    /* another name is another limit */
    assert_string_equal(engine_kit_reload(&kit, "limits: [{name: z, key: ip, rate: 10/h}]").text,
                        "added z, removed a");
    assert_int_equal(engine_kit_left(&kit, "ip=192.0.2.1"), 10);
    engine_kit_close(&kit);
}

static void inline_limits_are_not_changed(void **state)
{
    struct ration_decision decision;
    struct ration_key key = RATION_KEY("k");
    struct ration_limit limit = kit_limit("10/h");
    struct ration_batch_item item = {
        .request = &key, .cost_tokens = 1, .limit = &limit, .decision = &decision};
    struct engine_kit kit;

    (void)state;
    engine_kit_open(&kit, WITH("rate: 1/h"));
    for (uint64_t left = 10; left-- > 7;) {
        ration_limiter_take_batch(ration_engine_inline_limiter(kit.engine), &item, 1, KIT_NOW_NS);
        assert_int_equal(decision.remaining, left);
        engine_kit_reload(&kit, left % 2 == 0 ? WITH("rate: 1/h") : WITH("key: ip, rate: 2/h"));
    }
    engine_kit_close(&kit);
}

/* The second limit finds no room when the first has been added and a third is to be changed. */
static void a_reload_that_fails_changes_nothing(void **state)
{
    static const char before[] = "limits: [{name: a, match: {path: /a}, key: ip, rate: 10/h}]";
    static const char too_large[] =
        "limits: [{name: b, match: {path: /b}, key: ip, rate: 10/h, max_keys: 100}, "
        "{name: large, key: ip, rate: 10/h, max_keys: 10000000}, "
        "{name: a, match: {path: /a}, key: ip, rate: 99/h, overflow: deny}]";
    static const char fits[] =
        "limits: [{name: b, match: {path: /b}, key: ip, rate: 10/h, max_keys: 100}, "
        "{name: a, match: {path: /a}, key: ip, rate: 99/h}]";
    struct ration_engine_stats stats;
    struct engine_kit kit;
    size_t bytes = 0;

    (void)state;
    engine_kit_plan(&kit);
    kit.options.spare_bytes = 1 << 20;
    assert_int_equal(
        ration_engine_create(&kit.options, engine_kit_policy(before), &kit.engine, NULL),
        RATION_OK);
    take(&kit, "path=/a ip=192.0.2.1", 4);
    for (int i = 0; i < 100; i++) {
        struct engine_kit_report reported = {.text = ""};
        struct ration_error error = {.message = ""};
        ration_policy *policy = engine_kit_policy(too_large);

        assert_int_equal(
            ration_engine_reload(kit.engine, policy, engine_kit_hear, &reported, &error),
            RATION_ENOMEM);
        assert_int_equal(error.status, RATION_ENOMEM);
        assert_non_null(strstr(error.message, "spare_bytes"));
        assert_string_equal(reported.text, "");
        assert_int_equal(ration_policy_limit_count(policy), 3); /* still the caller's */
        ration_policy_free(policy);
        assert_int_equal(engine_kit_left(&kit, "path=/a ip=192.0.2.1"), 6);
        assert_int_equal(engine_kit_left(&kit, "path=/b ip=192.0.2.1"), UINT64_MAX);
        if (i == 0)
            bytes = ration_engine_bytes(kit.engine);
        assert_int_equal(ration_engine_bytes(kit.engine), bytes);
    }
    ration_engine_read_stats(kit.engine, &stats);
    assert_int_equal(stats.reloads, 0);
    assert_string_equal(engine_kit_reload(&kit, fits).text, "added b, changed a");
    assert_int_equal(ration_engine_bytes(kit.engine),
                     bytes); /* with what the failed ones had added */
    assert_int_equal(engine_kit_left(&kit, "path=/a ip=192.0.2.1"), 6);
    ration_engine_read_stats(kit.engine, &stats);
    assert_int_equal(stats.reloads, 1);
    engine_kit_close(&kit);
}

/* Limits that are added and removed, and change their kind, key and size. */
static void reloads_back_and_forth_need_no_more_memory(void **state)
{
    static const char *const policies[] = {
        "limits: [{name: a, key: ip, rate: 10/h, max_keys: 1000}, {name: b, rate: 10/h}]",
        ("limits: [{name: b, rate: 10/h, algorithm: sliding_log}, "
         "{name: c, key: ip, rate: 5/h, max_keys: 1000}]"),
        "limits: [{name: a, key: user, rate: 10/h, max_keys: 2000}, {name: b, rate: 20/h}]",
    };
    struct engine_kit kit;
    size_t bytes = 0;

    (void)state;
    engine_kit_plan(&kit);
    kit.options.spare_bytes = 1 << 20;
    assert_int_equal(
        ration_engine_create(&kit.options, engine_kit_policy(policies[0]), &kit.engine, NULL),
        RATION_OK);
    for (size_t i = 1; i <= 120; i++) {
        engine_kit_reload(&kit, policies[i % KIT_COUNT_OF(policies)]);
        engine_kit_check(&kit, "ip=192.0.2.1 user=u");
        if (i == KIT_COUNT_OF(policies))
            bytes = ration_engine_bytes(kit.engine);
    }
    assert_int_equal(ration_engine_bytes(kit.engine), bytes);
    engine_kit_close(&kit);
}

static void changes_have_names(void **state)
{
    (void)state;
    assert_string_equal(ration_engine_change_name(RATION_ENGINE_ADDED), "added");
    assert_string_equal(ration_engine_change_name(RATION_ENGINE_RESET), "reset");
    assert_string_equal(ration_engine_change_name(RATION_ENGINE_SAME_SIZE), "kept its size");
    assert_string_equal(ration_engine_change_name((enum ration_engine_change)99), "unknown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_policy_changes_nothing),
        cmocka_unit_test(another_rate_keeps_tokens_and_fraction),
        cmocka_unit_test(buckets_are_kept_or_start_again_as_is_reported),
        cmocka_unit_test(another_stale_after_takes_effect),
        cmocka_unit_test(a_removed_limit_continues_when_it_returns),
        cmocka_unit_test(a_limit_goes_into_the_shadow_and_comes_out),
        cmocka_unit_test(another_overflow_rule_takes_effect_at_once),
        cmocka_unit_test(buckets_follow_names_not_places),
        cmocka_unit_test(inline_limits_are_not_changed),
        cmocka_unit_test(a_reload_that_fails_changes_nothing),
        cmocka_unit_test(reloads_back_and_forth_need_no_more_memory),
        cmocka_unit_test(changes_have_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
