/*
 * An engine with a policy: which limits decide, with which keys, and the admin operations on them.
 */
#include "unit/engine/engine_kit.h"

static const char policy_text[] =
    "limits:\n"
    "  - {name: all, rate: 100/h}\n"
    "  - {name: client, key: ip, rate: 10/h}\n"
    "  - {name: login, match: {path: /login}, key: [user, ip], rate: 3/h}\n"
    "  - {name: tokens, match: {path: /llm}, key: user, rate: 1000/h, cost: tokens}\n"
    "  - {name: trial, match: {path: /login}, key: ip, rate: 1/h, shadow: true}\n"
    "exempt:\n"
    "  - ip: 10.0.0.0/8\n"
    "banned:\n"
    "  - user: mallory\n";

static void a_request_is_charged_to_all_matching_limits_or_to_none(void **state)
{
    struct engine_kit kit;
    struct ration_check check;
    size_t allowed_count = 0;

    (void)state;
    engine_kit_open(&kit, policy_text);
    for (int i = 0; i < 1000; i++)
        allowed_count += engine_kit_check(&kit, "ip=192.0.2.1").decision.verdict == RATION_ALLOW;
    assert_int_equal(allowed_count, 10);
    /* one abuser does not use up the budget of others */
    assert_int_equal(engine_kit_left(&kit, "ip=192.0.2.2"), 10);
    for (int i = 0; i < 9; i++)
        for (int k = 0; k < 10; k++) {
            char text[32];

            snprintf(text, sizeof(text), "ip=198.51.100.%d", i);
            assert_int_equal(engine_kit_check(&kit, text).decision.verdict, RATION_ALLOW);
        }
    check = engine_kit_check(&kit, "ip=192.0.2.2"); /* 10 + 90 of 100 */
    assert_int_equal(check.decision.verdict, RATION_DENY);
    assert_int_equal(check.decision.limit_index, 0);
    assert_int_equal(check.decision.limit, 100);
    assert_int_equal(check.decision.retry_after_ns, 36 * SECOND);
    engine_kit_close(&kit);
}

static void the_limit_that_decided_is_reported(void **state)
{
    struct ration_check_part parts[RATION_POLICY_MATCHES_MAX];
    struct engine_kit_request request;
    struct ration_engine_guard guard;
    struct ration_check check = {.cost_tokens = 1, .parts = parts};
    struct engine_kit kit;

    (void)state;
    engine_kit_open(&kit, policy_text);
    engine_kit_request(&request, "path=/login user=alice ip=2001:db8::7");
    check.attributes = request.attributes;
    check.attribute_count = request.count;
    ration_engine_lock(kit.engine, &guard);
    for (int i = 0; i < 2; i++)
        ration_engine_check_guarded(&guard, &check, 1, kit.manual.ns);
    assert_int_equal(check.status, RATION_OK);
    assert_int_equal(check.decision.verdict, RATION_ALLOW);
    assert_string_equal(check.limit->limit.name, "login");
    assert_int_equal(check.decision.remaining, 1);
    assert_int_equal(check.part_count, 4);
    assert_string_equal(parts[0].limit->limit.name, "all");
    assert_int_equal(parts[0].decision.remaining, 98);
    assert_int_equal(parts[1].decision.remaining, 8);
    assert_int_equal(parts[2].decision.limit_index, 2);
    assert_string_equal(parts[3].limit->limit.name, "trial");
    assert_int_equal(parts[3].decision.verdict, RATION_DENY); /* in the shadow */
    check.cost_tokens = 2;
    ration_engine_check_guarded(&guard, &check, 1, kit.manual.ns);
    assert_int_equal(check.decision.verdict, RATION_DENY);
    assert_string_equal(check.limit->limit.name, "login");
    check.cost_tokens = 11;
    ration_engine_check_guarded(&guard, &check, 1, kit.manual.ns);
    assert_int_equal(check.decision.verdict, RATION_NEVER);
    assert_string_equal(ration_policy_limit_at(ration_engine_policy(&guard), 3)->limit.name,
                        "tokens");
    assert_null(ration_engine_limiter(&guard, 5));
    ration_engine_unlock(&guard);
    /* IPv6 by its network */
    assert_int_equal(engine_kit_left(&kit, "ip=2001:db8::ffff:1"), 8);
    assert_int_equal(engine_kit_left(&kit, "ip=2001:db8:0:1::1"), 10);
    engine_kit_close(&kit);
}

static void exempt_and_banned_come_first(void **state)
{
    struct ration_engine_stats stats;
    struct ration_check check;
    struct engine_kit kit;

    (void)state;
    engine_kit_open(&kit, policy_text);
    check = engine_kit_check(&kit, "ip=10.1.2.3");
    assert_int_equal(check.decision.verdict, RATION_ALLOW);
    assert_int_equal(check.policy_verdict, RATION_POLICY_EXEMPT);
    assert_int_equal(check.decision.limit, 0);
    assert_null(check.limit);
    check = engine_kit_check(&kit, "ip=10.1.2.3 user=mallory");
    assert_int_equal(check.decision.verdict, RATION_NEVER);
    assert_int_equal(check.policy_verdict, RATION_POLICY_BANNED);
    check = engine_kit_check(&kit, "ip=nonsense");
    assert_int_equal(check.status, RATION_EINVAL);
    assert_non_null(strstr(check.reason, "an ip that is an address"));
    check = engine_kit_check(&kit, "path=/llm ip=192.0.2.1 user=u tokens=-1");
    assert_int_equal(check.status, RATION_EINVAL);
    assert_non_null(strstr(check.reason, "cost"));
    assert_int_equal(engine_kit_left(&kit, "ip=192.0.2.1"), 10); /* nothing was taken */
    ration_engine_read_stats(kit.engine, &stats);
    assert_int_equal(stats.exempt, 1);
    assert_int_equal(stats.banned, 1);
    assert_int_equal(stats.errors, 2);
    engine_kit_close(&kit);

    engine_kit_open(&kit, "limits: [{name: a, match: {plan: free}, rate: 1/h}]");
    check = engine_kit_check(&kit, "plan=paid");
    assert_int_equal(check.decision.verdict, RATION_ALLOW);
    assert_int_equal(check.decision.remaining, UINT64_MAX);
    ration_engine_read_stats(kit.engine, &stats);
    assert_int_equal(stats.unlimited, 1);
    engine_kit_close(&kit);
}

static void a_limit_may_charge_an_attribute(void **state)
{
    struct engine_kit kit;

    (void)state;
    engine_kit_open(&kit, policy_text);
    assert_int_equal(
        engine_kit_check(&kit, "path=/llm ip=192.0.2.1 user=u tokens=400").decision.verdict,
        RATION_ALLOW);
    assert_int_equal(
        engine_kit_check(&kit, "path=/llm ip=192.0.2.2 user=u tokens=601").decision.verdict,
        RATION_DENY);
    assert_int_equal(engine_kit_left(&kit, "ip=192.0.2.1"), 9); /* the request's own cost */
    assert_int_equal(engine_kit_left(&kit, "ip=192.0.2.2"), 10);
    engine_kit_close(&kit);
}

/* Many checks in one call, more than a chunk, with composed keys. */
static void a_batch_answers_as_one_call_after_the_other(void **state)
{
    enum { COUNT = 100 };
    static struct engine_kit_request requests[COUNT];
    static struct ration_check checks[COUNT];
    struct engine_kit one, many;

    (void)state;
    engine_kit_open(&one, policy_text);
    engine_kit_open(&many, policy_text);
    for (int i = 0; i < COUNT; i++) {
        char text[200];

        snprintf(text, sizeof(text), "ip=192.0.2.%d user=u%d path=%s%s", i % 7, i % 5,
                 i % 3 == 0 ? "/login" : "/x", i % 11 == 0 ? " ip=twice" : "");
        engine_kit_request(&requests[i], text);
        checks[i] = (struct ration_check){.attributes = requests[i].attributes,
                                          .attribute_count = requests[i].count,
                                          .cost_tokens = (uint64_t)(i % 4),
                                          .is_peek = i % 13 == 0};
    }
    ration_engine_check(many.engine, checks, COUNT, KIT_NOW_NS);
    for (int i = 0; i < COUNT; i++) {
        struct ration_check alone = checks[i];

        ration_engine_check(one.engine, &alone, 1, KIT_NOW_NS);
        assert_int_equal(alone.status, checks[i].status);
        assert_int_equal(alone.part_count, checks[i].part_count);
        if (alone.status == RATION_OK)
            assert_same_decision(alone.decision, checks[i].decision);
    }
    engine_kit_close(&one);
    engine_kit_close(&many);
}

/* However the batch is divided by cost, the decisions equal those of the whole batch. */
static void parts_of_a_batch_are_decided_like_the_whole(void **state)
{
    enum { COUNT = 100 };
    struct engine_kit_request request;
    struct ration_check all[COUNT], some[COUNT];
    struct engine_kit kits[2];
    struct ration_engine_guard guard;
    uint64_t steps;

    (void)state;
    for (int i = 0; i < 2; i++)
        engine_kit_open(&kits[i], policy_text);
    engine_kit_request(&request, "ip=192.0.2.1 user=u path=/login");
    for (int i = 0; i < COUNT; i++)
        all[i] = some[i] = (struct ration_check){
            .attributes = request.attributes, .attribute_count = request.count, .cost_tokens = 1};
    ration_engine_check(kits[0].engine, all, COUNT, KIT_NOW_NS);
    steps = all[0].match_steps;
    assert_true(steps > 0);
    ration_engine_lock(kits[1].engine, &guard);
    assert_int_equal(ration_engine_check_some(&guard, some, 0, steps, KIT_NOW_NS), 0);
    assert_int_equal(ration_engine_check_some(&guard, some, COUNT, 0, KIT_NOW_NS), 1);
    assert_int_equal(ration_engine_check_some(&guard, some + 1, COUNT - 1, steps, KIT_NOW_NS), 1);
    assert_int_equal(
        ration_engine_check_some(&guard, some + 2, COUNT - 2, 20 * steps + 1, KIT_NOW_NS), 21);
    assert_int_equal(
        ration_engine_check_some(&guard, some + 23, COUNT - 23, UINT64_MAX, KIT_NOW_NS),
        COUNT - 23);
    ration_engine_unlock(&guard);
    for (int i = 0; i < COUNT; i++) {
        assert_int_equal(some[i].status, RATION_OK);
        assert_int_equal(some[i].match_steps, steps);
        assert_same_decision(some[i].decision, all[i].decision);
    }
    for (int i = 0; i < 2; i++)
        engine_kit_close(&kits[i]);
}

static void long_keys_end_a_chunk_or_are_refused(void **state)
{
    enum { COUNT = 20, SIZE = 9000 };
    static char values[COUNT][SIZE + 1];
    struct ration_attribute attributes[COUNT][2];
    struct ration_check checks[COUNT];
    struct engine_kit kit;

    (void)state;
    engine_kit_plan(&kit);
    kit.options.attribute_bytes_max = SIZE;
    engine_kit_open_planned(&kit, "limits: [{name: a, key: [user, path], rate: 5/h}]");
    for (int i = 0; i < COUNT; i++) {
        memset(values[i], 'a' + i % 4, SIZE);
        attributes[i][0] = (struct ration_attribute){RATION_KEY("user"), {values[i], SIZE}};
        attributes[i][1] = (struct ration_attribute){RATION_KEY("path"), RATION_KEY("/")};
        checks[i] = (struct ration_check){
            .attributes = attributes[i], .attribute_count = 2, .cost_tokens = 1};
    }
    ration_engine_check(kit.engine, checks, COUNT, KIT_NOW_NS);
    for (int i = 0; i < COUNT; i++) {
        assert_int_equal(checks[i].status, RATION_OK);
        assert_int_equal(checks[i].decision.remaining, 4 - i / 4);
    }
    attributes[0][1].value = (struct ration_key){values[1], SIZE}; /* 18001 together */
    ration_engine_check(kit.engine, checks, 1, KIT_NOW_NS);
    assert_int_equal(checks[0].status, RATION_EINVAL);
    assert_non_null(strstr(checks[0].reason, "too long"));
    engine_kit_close(&kit);
}

/* The status of a check, and of an admin operation, whose attribute has a value of so many bytes. */
static ration_status status_of_size(struct engine_kit *kit, const char *name, size_t size)
{
    static const char value[RATION_ATTRIBUTE_BYTES_MAX + 1];
    struct ration_attribute attribute = {{name, strlen(name)}, {value, size}};
    struct ration_check check = {.attributes = &attribute, .attribute_count = 1, .cost_tokens = 1};
    struct ration_admin_op op = {.attributes = &attribute, .attribute_count = 1};

    ration_engine_check(kit->engine, &check, 1, KIT_NOW_NS);
    assert_int_equal(ration_engine_refund(kit->engine, &op, 1, KIT_NOW_NS, NULL), check.status);
    if (check.status != RATION_OK) {
        assert_non_null(strstr(check.reason, "max-attribute-size"));
        assert_int_equal(check.decision.verdict, RATION_NEVER); /* not what it was before */
    }
    return check.status;
}

static void a_value_longer_than_the_bound_is_an_error(void **state)
{
    struct engine_kit kit;

    (void)state;
    engine_kit_open(&kit, "limits: [{name: a, key: user, rate: 5/h}]");
    assert_int_equal(status_of_size(&kit, "user", RATION_ATTRIBUTE_BYTES_DEFAULT), RATION_OK);
    assert_int_equal(status_of_size(&kit, "user", RATION_ATTRIBUTE_BYTES_DEFAULT + 1),
                     RATION_EINVAL);
    assert_int_equal(status_of_size(&kit, "unused", RATION_ATTRIBUTE_BYTES_DEFAULT + 1),
                     RATION_EINVAL);
    engine_kit_close(&kit);
    engine_kit_plan(&kit);
    kit.options.attribute_bytes_max = 100;
    engine_kit_open_planned(&kit, "limits: [{name: a, key: user, rate: 5/h}]");
    assert_int_equal(status_of_size(&kit, "user", 100), RATION_OK);
    assert_int_equal(status_of_size(&kit, "user", 101), RATION_EINVAL);
    engine_kit_close(&kit);
}

static void admin_operations_reach_the_callers_own_buckets(void **state)
{
    struct engine_kit_request request;
    struct ration_admin_op op;
    struct engine_kit kit;
    size_t count = 0;

    (void)state;
    engine_kit_open(&kit, policy_text);
    for (int i = 0; i < 10; i++)
        engine_kit_check(&kit, "ip=192.0.2.1");
    engine_kit_request(&request, "ip=192.0.2.1");
    op = (struct ration_admin_op){.attributes = request.attributes,
                                  .attribute_count = request.count};
    assert_int_equal(ration_engine_refund(kit.engine, &op, 4, KIT_NOW_NS, &count), RATION_OK);
    assert_int_equal(count, 2);
    assert_int_equal(engine_kit_left(&kit, "ip=192.0.2.1"), 4);
    assert_int_equal(ration_engine_reset(kit.engine, &op, KIT_NOW_NS, &count), RATION_OK);
    assert_int_equal(count, 1); /* not everybody's */
    assert_int_equal(engine_kit_left(&kit, "ip=192.0.2.1"), 10);

    assert_int_equal(
        ration_engine_block_until(kit.engine, &op, KIT_NOW_NS + 60 * SECOND, KIT_NOW_NS, &count),
        RATION_OK);
    assert_int_equal(count, 1);
    assert_int_equal(engine_kit_check(&kit, "ip=192.0.2.1").decision.retry_after_ns, 60 * SECOND);
    assert_int_equal(engine_kit_check(&kit, "ip=192.0.2.2").decision.verdict, RATION_ALLOW);

    op.limit_name = "all";
    assert_int_equal(ration_engine_reset(kit.engine, &op, KIT_NOW_NS, &count), RATION_OK);
    assert_int_equal(count, 1); /* it was named */
    op.limit_name = "none";
    assert_int_equal(ration_engine_reset(kit.engine, &op, KIT_NOW_NS, &count), RATION_OK);
    assert_int_equal(count, 0);
    engine_kit_request(&request, "ip=wrong");
    assert_int_equal(ration_engine_reset(kit.engine, &op, KIT_NOW_NS, &count), RATION_EINVAL);
    engine_kit_close(&kit);
}

static void a_queue_reports_when_to_go(void **state)
{
    struct engine_kit kit;

    (void)state;
    engine_kit_open(&kit,
                    "limits:\n"
                    "  - {name: q, match: {path: /q}, key: ip, rate: 1/s, burst: 3, algorithm: "
                    "leaky_queue}\n"
                    "  - {name: b, match: {path: /b}, key: ip, rate: 1/s}\n");
    assert_int_equal(engine_kit_check(&kit, "path=/q ip=192.0.2.1").decision.delay_ns, 0);
    assert_int_equal(engine_kit_check(&kit, "path=/q ip=192.0.2.1").decision.delay_ns, SECOND);
    assert_int_equal(engine_kit_check(&kit, "path=/b ip=192.0.2.1").decision.verdict, RATION_ALLOW);
    engine_kit_close(&kit);
}

static void limits_may_be_inline(void **state)
{
    struct ration_decision decision;
    struct ration_key key = RATION_KEY("user123");
    struct ration_limit limit;
    struct ration_batch_item item = {
        .request = &key, .cost_tokens = 1, .limit = &limit, .decision = &decision};
    struct engine_kit kit;

    (void)state;
    engine_kit_open(&kit, policy_text);
    ration_limit_parse("30 per 60s burst 16", &limit, NULL);
    ration_limiter_take_batch(ration_engine_inline_limiter(kit.engine), &item, 1, KIT_NOW_NS);
    assert_int_equal(item.status, RATION_OK);
    assert_int_equal(decision.remaining, 15);
    assert_int_equal(decision.reset_after_ns, 2 * SECOND);
    engine_kit_close(&kit);
}

static void near_limit_is_less_than_a_fifth(void **state)
{
    struct ration_limiter_report report;
    struct ration_engine_guard guard;
    struct engine_kit kit;

    (void)state;
    engine_kit_open(&kit, "limits: [{name: a, key: ip, rate: 10/h}]");
    for (int i = 0; i < 12; i++)
        engine_kit_check(&kit, "ip=192.0.2.1");
    ration_engine_lock(kit.engine, &guard);
    ration_limiter_read_report(ration_engine_limiter(&guard, 0), &report);
    ration_engine_unlock(&guard);
    assert_int_equal(report.rules[0].allowed, 10);
    assert_int_equal(report.rules[0].denied, 2);
    assert_int_equal(report.rules[0].near_limit, 2); /* 1 and 0 left */
    engine_kit_close(&kit);
}

static void wrong_options_are_refused(void **state)
{
    struct ration_clock none = {0};
    struct ration_error error;
    ration_policy *policy = engine_kit_policy(policy_text);
    struct engine_kit kit;

    (void)state;
    engine_kit_plan(&kit);
    kit.options.struct_size--;
    assert_int_equal(ration_engine_create(&kit.options, policy, &kit.engine, &error),
                     RATION_EINVAL);
    kit.options.struct_size++;
    kit.options.clock = &none;
    assert_int_equal(ration_engine_create(&kit.options, policy, &kit.engine, &error),
                     RATION_EINVAL);
    kit.options.clock = NULL;
    kit.options.attribute_bytes_max = RATION_ATTRIBUTE_BYTES_MAX + 1;
    assert_int_equal(ration_engine_create(&kit.options, policy, &kit.engine, &error),
                     RATION_EINVAL);
    kit.options.attribute_bytes_max = 0;
    kit.options.threads_max = 100000;
    assert_int_equal(ration_engine_create(&kit.options, policy, &kit.engine, &error),
                     RATION_EINVAL);
    assert_null(kit.engine);
    ration_policy_free(policy);
    ration_engine_free(NULL);
}

/* Takes the only token of a key under a daily limit. */
static bool take_inline(struct engine_kit *kit, uint64_t number)
{
    char name[32];
    struct ration_key key = {name, (size_t)snprintf(name, sizeof(name), "k%d", (int)number)};
    struct ration_limit limit;
    struct ration_batch_item item = {.request = &key, .cost_tokens = 1, .limit = &limit};

    assert_int_equal(ration_limit_parse("1 per 1d burst 1", &limit, NULL), RATION_OK);
    ration_limiter_take_batch(ration_engine_inline_limiter(kit->engine), &item, 1, kit->manual.ns);
    assert_int_equal(item.status, RATION_OK);
    return item.verdict == RATION_ALLOW;
}

/*
 * A cleared table has places for other keys, and the earlier use does not reappear, after any number of flushes: more
 * than there are generations.
 */
static void inline_limits_are_cleared_any_number_of_times(void **state)
{
    (void)state;
    for (unsigned clear_count = 1; clear_count <= 20; clear_count++) {
        struct engine_kit kit;
        uint64_t allowed_count = 0;

        engine_kit_open(&kit, "limits: [{name: a, rate: 1/s}]");
        for (uint64_t i = 0; i < 6000; i++) /* 3000 keys, twice; there are places for 1000 */
            (void)take_inline(&kit, i % 3000);
        for (unsigned i = 0; i < clear_count; i++)
            assert_int_equal(ration_engine_clear_inline(kit.engine), RATION_OK);
        /* keys that had a place, and new ones; so few that none of them finds both of its sets full */
        for (uint64_t i = 0; i < 250; i++)
            allowed_count += take_inline(&kit, i) + take_inline(&kit, 5000 + i);
        assert_int_equal(allowed_count, 500);
        assert_false(take_inline(&kit, 1));
        engine_kit_close(&kit);
    }
}

/* Keys that are removed from the table are not counted as keys of it. */
static void cleared_inline_keys_are_not_counted(void **state)
{
    struct ration_limiter_report report;
    struct engine_kit kit;

    (void)state;
    engine_kit_open(&kit, "limits: [{name: a, rate: 1/s}]");
    for (unsigned round = 1; round <= 3; round++) {
        for (uint64_t i = 0; i < 500; i++)
            assert_true(take_inline(&kit, i));
        ration_limiter_read_report(ration_engine_inline_limiter(kit.engine), &report);
        assert_int_equal(report.limiter.created - report.limiter.reclaimed, 500);
        for (unsigned i = 0; i < 9; i++)
            assert_int_equal(ration_engine_clear_inline(kit.engine), RATION_OK);
        ration_limiter_read_report(ration_engine_inline_limiter(kit.engine), &report);
        assert_int_equal(report.limiter.created, round * 500);
        assert_int_equal(report.limiter.reclaimed, round * 500);
    }
    engine_kit_close(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_is_charged_to_all_matching_limits_or_to_none),
        cmocka_unit_test(the_limit_that_decided_is_reported),
        cmocka_unit_test(exempt_and_banned_come_first),
        cmocka_unit_test(a_limit_may_charge_an_attribute),
        cmocka_unit_test(cleared_inline_keys_are_not_counted),
        cmocka_unit_test(a_batch_answers_as_one_call_after_the_other),
        cmocka_unit_test(parts_of_a_batch_are_decided_like_the_whole),
        cmocka_unit_test(long_keys_end_a_chunk_or_are_refused),
        cmocka_unit_test(a_value_longer_than_the_bound_is_an_error),
        cmocka_unit_test(admin_operations_reach_the_callers_own_buckets),
        cmocka_unit_test(a_queue_reports_when_to_go),
        cmocka_unit_test(limits_may_be_inline),
        cmocka_unit_test(inline_limits_are_cleared_any_number_of_times),
        cmocka_unit_test(near_limit_is_less_than_a_fifth),
        cmocka_unit_test(wrong_options_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
