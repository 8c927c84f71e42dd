/*
 * The statistics of a limiter: the same for every kind of call, and complete.
 */
#include "base/random.h"
#include "unit/limiter/limiter_kit.h"

static const struct ration_key key = {"k", 1};

/* Decides by one of the calls. All are counted alike. */
enum way { BY_TAKE, BY_ALLOW, BY_BATCH, BY_RESERVE, WAY_COUNT };

static enum ration_verdict ask(struct kit *kit, enum way way, struct ration_key whose,
                               uint64_t cost)
{
    struct ration_batch_item item = {.request = &whose, .cost_tokens = cost};
    struct ration_decision decision;
    struct ration_reservation reservation;

    switch (way) {
    case BY_ALLOW:
        return ration_limiter_allow_at(kit->limiter, &whose, cost, kit->manual.ns) ? RATION_ALLOW
                                                                                   : RATION_DENY;
    case BY_BATCH:
        ration_limiter_take_batch(kit->limiter, &item, 1, kit->manual.ns);
        return item.verdict;
    case BY_RESERVE:
        ration_limiter_reserve(kit->limiter, &whose, cost, 0, kit->manual.ns, &decision,
                               &reservation);
        return decision.verdict;
    default:
        return kit_take_key(kit, whose, cost).verdict;
    }
}

static void decisions_are_counted_whatever_the_way(void **state)
{
    static const char *const texts[] = {"10/h", "10/h sliding_log", "10/h sliding_window",
                                        "10/h fixed_window"};

    (void)state;
    for (size_t i = 0; i < KIT_COUNT_OF(texts); i++)
        for (enum way way = BY_TAKE; way < WAY_COUNT; way++) {
            struct ration_limiter_report report;
            struct kit kit;

            KIT_BEGIN(&kit, texts[i]);
            for (int k = 0; k < 20; k++)
                ask(&kit, way, key, 3); /* 3 times, then denied */
            ask(&kit, way, key, 11);
            ask(&kit, way, key, UINT64_MAX);
            ask(&kit, way, kit_key("other"), 10);
            kit_peek(&kit, "k", 1); /* a peek is no decision */
            report = kit_report(&kit);
            assert_int_equal(report.rule_count, 1);
            assert_int_equal(report.rules[0].allowed, 4);
            assert_int_equal(report.rules[0].allowed_tokens, 19);
            assert_int_equal(report.rules[0].denied, 17);
            assert_int_equal(report.rules[0].never, 2);
            assert_int_equal(report.rules[0].errors, 0);
            assert_int_equal(report.limiter.created, 2);
            assert_int_equal(report.limiter.reclaimed, 0);
            assert_int_equal(ration_limit_stats_rejected_ppm(&report.rules[0]), 17 * 1000000 / 21);
            kit_end(&kit);
        }
}

static void up_to_counts_what_was_granted(void **state)
{
    struct ration_decision decision;
    struct ration_limiter_report report;
    uint64_t granted;
    struct kit kit;

    (void)state;
    KIT_BEGIN(&kit, "10/h", "12/h");
    for (int i = 0; i < 3; i++)
        ration_limiter_take_up_to(kit.limiter, &key, 7, KIT_NOW_NS, &granted, &decision);
    report = kit_report(&kit);
    for (int r = 0; r < 2; r++) {
        assert_int_equal(report.rules[r].allowed, 2);
        assert_int_equal(report.rules[r].allowed_tokens, 10);
    }
    assert_int_equal(report.rules[0].denied, 1);
    assert_int_equal(report.rules[1].denied, 0);
    kit_end(&kit);
}

static void several_rules_are_counted_by_who_denied(void **state)
{
    (void)state;
    for (enum way way = BY_TAKE; way < WAY_COUNT; way++) {
        struct ration_limiter_report report;
        struct kit kit;

        KIT_BEGIN(&kit, "5/h", "10/h", "5/h");
        for (int i = 0; i < 8; i++)
            ask(&kit, way, key, 1);
        report = kit_report(&kit);
        for (int r = 0; r < 3; r++)
            assert_int_equal(report.rules[r].allowed, 5);
        assert_int_equal(report.rules[0].denied, 3);
        assert_int_equal(report.rules[1].denied, 0);
        assert_int_equal(report.rules[2].denied, 3);
        kit_end(&kit);
    }
}

/* One rule says NEVER, another just not now: each is counted by its own verdict. */
static void never_and_denied_are_reported_apart_whatever_the_way(void **state)
{
    (void)state;
    for (enum way way = BY_TAKE; way < WAY_COUNT; way++) {
        struct ration_limiter_report report;
        struct kit kit;

        KIT_BEGIN(&kit, "3/h burst 3", "1/h burst 10");
        kit_take(&kit, "k", 3);
        kit_pass(&kit, 3600 * SECOND); /* 3 of 3, and 8 of 10 */
        kit_take(&kit, "k", 3);        /* 0 of 3, and 5 of 10 */
        ask(&kit, way, key, 6);
        report = kit_report(&kit);
        assert_int_equal(report.rules[0].never, 1);
        assert_int_equal(report.rules[0].denied, 0);
        assert_int_equal(report.rules[1].never, 0);
        assert_int_equal(report.rules[1].denied, 1);
        kit_end(&kit);
    }
}

static void errors_are_counted_apart(void **state)
{
    struct ration_key wrong = {NULL, 1};
    struct ration_batch_item item = {.request = &wrong, .cost_tokens = 1};
    struct ration_decision decision;
    struct ration_limiter_report report;
    struct kit kit;

    (void)state;
    KIT_BEGIN(&kit, "10/h", "20/h");
    ration_limiter_take(kit.limiter, &wrong, 1, KIT_NOW_NS, &decision, NULL);
    ration_limiter_allow(kit.limiter, &wrong);
    ration_limiter_take_batch(kit.limiter, &item, 1, KIT_NOW_NS);
    report = kit_report(&kit);
    for (int r = 0; r < 2; r++) {
        assert_int_equal(report.rules[r].errors, 3);
        assert_int_equal(report.rules[r].allowed + report.rules[r].denied + report.rules[r].never,
                         0);
        assert_int_equal(ration_limit_stats_rejected_ppm(&report.rules[r]), 0);
    }
    kit_end(&kit);
}

/* Keys that got a bucket, and full ones whose place another took. */
static void created_and_reclaimed_keys_add_up(void **state)
{
    (void)state;
    for (size_t rule_count = 1; rule_count <= 2; rule_count++)
        for (enum way way = BY_TAKE; way < WAY_COUNT; way++) {
            struct ration_limiter_stats before, now;
            struct kit_room room;
            struct kit kit;

            KIT_PLAN(&kit, "1/s", "2/s");
            kit.options.rule_count = rule_count;
            kit.options.keys_max = 1; /* 16 places */
            kit_open(&kit);
            for (uint64_t i = 0; i < 16; i++)
                ask(&kit, way, kit_numbered(&room, i), 1);
            now = kit_report(&kit).limiter;
            assert_int_equal(now.created, 16);
            assert_int_equal(now.reclaimed + now.overflow_shared, 0);
            kit_pass(&kit, SECOND);
            before = now;
            for (uint64_t i = 100; i < 110; i++)
                ask(&kit, way, kit_numbered(&room, i), 1);
            now = kit_report(&kit).limiter;
            now = ration_limiter_stats_since(&now, &before);
            assert_int_equal(now.created, 10);
            assert_int_equal(now.reclaimed, 10);
            kit_end(&kit);
        }
}

/* A key that is charged or blocked also gets a bucket. */
static void keys_that_got_a_bucket_by_hand_are_counted(void **state)
{
    struct kit kit;

    (void)state;
    KIT_BEGIN(&kit, "10/h");
    ration_limiter_charge(kit.limiter, &key, 1, KIT_NOW_NS);
    ration_limiter_block_until(kit.limiter, &(struct ration_key){"other", 5}, 2 * KIT_NOW_NS,
                               KIT_NOW_NS);
    assert_int_equal(kit_report(&kit).limiter.created, 2);
    kit_end(&kit);
}

static void one_decision_in_64_is_timed(void **state)
{
    struct kit kit;

    (void)state;
    for (size_t rule_count = 1; rule_count <= 2; rule_count++) {
        struct ration_histogram_stats latency;

        KIT_PLAN(&kit, "10/h", "20/h");
        kit.options.rule_count = rule_count;
        kit.options.sample_latency = 1;
        kit_open(&kit);
        for (int i = 0; i < 64 * 50; i++)
            ask(&kit, i % 2 == 0 ? BY_TAKE : BY_ALLOW, key, 1);
        latency = kit_report(&kit).latency;
        assert_int_equal(latency.count, 50);
        assert_true(latency.sum_ns > 0 && latency.max_ns <= latency.sum_ns);
        assert_true(latency.p50_ns <= latency.p90_ns && latency.p90_ns <= latency.p99_ns);
        assert_true(latency.p99_ns <= latency.p999_ns);
        assert_true(latency.p50_ns > 0);
        kit_end(&kit);
    }
    KIT_BEGIN(&kit, "10/h");
    ask(&kit, BY_TAKE, key, 1);
    assert_int_equal(kit_report(&kit).latency.count, 0);
    kit_end(&kit);
}

static void the_keys_denied_most_are_named(void **state)
{
    (void)state;
    for (enum way way = BY_TAKE; way < WAY_COUNT; way++)
        for (size_t rule_count = 1; rule_count <= 2; rule_count++) {
            struct ration_top_keys_stats stats;
            struct ration_top_key top[8];
            struct kit_room room;
            struct kit kit;

            KIT_PLAN(&kit, "1/h", "2/h");
            kit.options.rule_count = rule_count;
            kit.options.top_keys = 8;
            kit_open(&kit);
            for (uint64_t i = 0; i < 6; i++)
                for (uint64_t k = 0; k <= 10 * i; k++) /* one is allowed, 10 i are denied */
                    ask(&kit, way, kit_numbered(&room, i), 1);
            assert_int_equal(
                ration_limiter_top_keys(kit.limiter, RATION_TOP_DENIED, top, 8, &stats), 5);
            assert_int_equal(stats.total, 150);
            assert_int_equal(stats.lost, 0);
            for (uint64_t i = 0; i < 5; i++) {
                struct ration_key want = kit_numbered(&room, 5 - i);

                assert_int_equal(top[i].count, 10 * (5 - i));
                assert_int_equal(top[i].error, 0);
                assert_int_equal(top[i].name_size, want.size);
                assert_memory_equal(top[i].name, want.bytes, want.size);
            }
            assert_int_equal(ration_limiter_top_keys(kit.limiter, RATION_TOP_DENIED, top, 2, NULL),
                             2);
            kit_end(&kit);
        }
}

/* Estimated from one decision in 64. */
static void the_keys_that_took_most_are_named(void **state)
{
    char long_name[200];
    struct ration_key heavy = {long_name, sizeof(long_name)};
    struct ration_top_keys_stats stats;
    struct ration_top_key top[8];
    uint64_t random = 1;
    struct kit kit;

    (void)state;
    memset(long_name, 'h', sizeof(long_name));
    KIT_PLAN(&kit, "1G/s burst 1G");
    kit.options.top_keys = 8;
    kit_open(&kit);
    for (int i = 0; i < 64 * 500; i++) {
        bool is_heavy = ration_random_up_to(&random, 1) == 0;

        ask(&kit, i % 3 == 0 ? BY_BATCH : BY_ALLOW, is_heavy ? heavy : key, is_heavy ? 30 : 2);
    }
    assert_int_equal(ration_limiter_top_keys(kit.limiter, RATION_TOP_COST, top, 8, &stats), 2);
    assert_int_equal(top[0].name_size, sizeof(long_name));
    assert_memory_equal(top[0].name, long_name, RATION_TOP_KEY_NAME_MAX);
    assert_memory_equal(top[1].name, "k\0\0", 3);
    /* half of 32000 took 30, half 2, within the error of 500 samples */
    assert_in_range(top[0].count, 400000, 560000);
    assert_in_range(top[1].count, 25000, 39000);
    assert_int_equal(stats.total, top[0].count + top[1].count);
    assert_int_equal(ration_limiter_top_keys(kit.limiter, RATION_TOP_DENIED, top, 8, &stats), 0);
    kit_end(&kit);

    KIT_BEGIN(&kit, "10/h"); /* without top_keys there are none */
    kit_take(&kit, "k", 1);
    assert_int_equal(ration_limiter_top_keys(kit.limiter, RATION_TOP_COST, top, 8, NULL), 0);
    kit_end(&kit);
}

/* A take of nothing is a peek: ALLOW also of a key in debt or blocked, and not counted, whichever way it goes. */
static void a_cost_of_nothing_is_not_counted(void **state)
{
    static const char *const texts[][2] = {
        {"1/h burst 4", NULL}, {"1/h burst 4", "9/h"}, {"4/h sliding_log", "9/h"}};

    (void)state;
    for (size_t i = 0; i < KIT_COUNT_OF(texts); i++)
        for (int is_crowded = 0; is_crowded < 2; is_crowded++) {
            struct ration_decision decision;
            struct ration_limiter_report before, after;
            uint64_t granted;
            struct kit kit;

            KIT_PLAN(&kit, texts[i][0], texts[i][1] != NULL ? texts[i][1] : texts[i][0]);
            kit.options.rule_count = texts[i][1] != NULL ? 2 : 1;
            kit.options.keys_max = is_crowded ? 1 : 1000;
            kit.options.top_keys = 4;
            kit_open(&kit);
            for (uint64_t k = 0; k < 100 && is_crowded; k++) {
                struct kit_room room;

                kit_take_key(&kit, kit_numbered(&room, k), 4);
            }
            ration_limiter_charge(kit.limiter, &key, 20, KIT_NOW_NS);
            (void)ration_limiter_block_until(kit.limiter, &key, KIT_NOW_NS + RATION_NS_PER_DAY,
                                             KIT_NOW_NS);
            before = kit_report(&kit);
            for (size_t k = 0; k < 100; k++) {
                struct ration_batch_item items[2] = {{.request = &key, .decision = &decision},
                                                     {.request = &key}};

                assert_true(ration_limiter_allow_at(kit.limiter, &key, 0, KIT_NOW_NS));
                decision = kit_take_key(&kit, key, 0);
                assert_int_equal(decision.verdict, RATION_ALLOW);
                assert_int_equal(decision.remaining, 0);
                assert_int_equal(ration_limiter_take_up_to(kit.limiter, &key, 0, KIT_NOW_NS,
                                                           &granted, &decision),
                                 RATION_OK);
                assert_int_equal(
                    ration_limiter_take_batch(kit.limiter, items, 1 + k % 2, KIT_NOW_NS),
                    1 + k % 2);
            }
            after = kit_report(&kit);
            assert_memory_equal(&before, &after, sizeof(before));
            kit_end(&kit);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cost_of_nothing_is_not_counted),
        cmocka_unit_test(decisions_are_counted_whatever_the_way),
        cmocka_unit_test(up_to_counts_what_was_granted),
        cmocka_unit_test(several_rules_are_counted_by_who_denied),
        cmocka_unit_test(never_and_denied_are_reported_apart_whatever_the_way),
        cmocka_unit_test(errors_are_counted_apart),
        cmocka_unit_test(created_and_reclaimed_keys_add_up),
        cmocka_unit_test(keys_that_got_a_bucket_by_hand_are_counted),
        cmocka_unit_test(one_decision_in_64_is_timed),
        cmocka_unit_test(the_keys_denied_most_are_named),
        cmocka_unit_test(the_keys_that_took_most_are_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
