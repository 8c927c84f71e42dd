/*
 * The decisions of a limiter: one limit decides like a bucket, several as if each decided alone and all were charged or
 * none.
 */
#include "base/random.h"
#include "unit/limiter/limiter_kit.h"

/* Algorithms that a bucket holds too, as the oracle for one limit. */
static const char *const bucket_texts[] = {"10/s burst 20",
                                           "3/s burst 7",
                                           "900000/s burst 5000",
                                           "1/d burst 3",
                                           "7/s burst 5 leaky_queue",
                                           "9/s fixed_window",
                                           "5/s burst 12 refill interval",
                                           "9/s sliding_window",
                                           "2M/s burst 3M refill interval"};

static uint64_t random_cost(uint64_t *random, uint64_t burst)
{
    switch (ration_random_up_to(random, 9)) {
    case 0:
        return ration_random_up_to(random, 2) == 0 ? UINT64_MAX : burst + 1;
    case 1:
        return 0;
    case 2:
        return burst;
    default:
        return 1 + ration_random_up_to(random, burst / 3);
    }
}

static void one_limit_answers_as_a_bucket(void **state)
{
    (void)state;
    for (size_t i = 0; i < KIT_COUNT_OF(bucket_texts); i++) {
        struct ration_bucket bucket = {{0}};
        struct kit kit;
        uint64_t random = i + 1;

        KIT_BEGIN(&kit, bucket_texts[i]);

        const struct ration_limit *limit = &kit.rules[0].limit;
        struct ration_key key = kit_key("k");

        for (int k = 0; k < 3000; k++) {
            uint64_t cost = random_cost(&random, limit->burst);
            struct ration_decision want, got, detail;
            uint64_t granted;

            kit_pass(&kit, ration_random_up_to(&random, 3 * limit->period_ns / limit->tokens));
            want = ration_bucket_peek(&bucket, limit, cost, kit.manual.ns);
            assert_same_decision(kit_peek_key(&kit, key, cost), want);
            switch (ration_random_up_to(&random, 3)) {
            case 0:
                assert_int_equal(ration_limiter_allow_at(kit.limiter, &key, cost, kit.manual.ns),
                                 ration_bucket_allow_at(&bucket, limit, cost, kit.manual.ns));
                break;
            case 1:
                want = (struct ration_decision){0};
                assert_int_equal(ration_limiter_take_up_to(kit.limiter, &key, cost, kit.manual.ns,
                                                           &granted, &got),
                                 RATION_OK);
                assert_int_equal(
                    granted, ration_bucket_take_up_to(&bucket, limit, cost, kit.manual.ns, &want));
                assert_same_decision(got, want);
                break;
            default:
                want = ration_bucket_take(&bucket, limit, cost, kit.manual.ns);
                assert_int_equal(
                    ration_limiter_take(kit.limiter, &key, cost, kit.manual.ns, &got, &detail),
                    RATION_OK);
                assert_same_decision(got, want);
                assert_same_decision(detail, want);
            }
        }
        kit_end(&kit);
    }
}

static void allow_reads_the_limiters_clock(void **state)
{
    struct ration_key key = RATION_KEY("k");
    struct kit kit;

    (void)state;
    KIT_BEGIN(&kit, "1/s");
    assert_int_equal(ration_limiter_now(kit.limiter), KIT_NOW_NS);
    assert_true(ration_limiter_allow(kit.limiter, &key));
    assert_false(ration_limiter_allow(kit.limiter, &key));
    kit_pass(&kit, SECOND - 1);
    assert_false(ration_limiter_allow(kit.limiter, &key));
    kit_pass(&kit, 1);
    assert_true(ration_limiter_allow(kit.limiter, &key));
    assert_false(ration_limiter_allow(kit.limiter, NULL)); /* an error is a no */
    kit_end(&kit);
}

/* Limits together, and the same ones alone. */
static const char *const several_texts[][RATION_RULES_MAX + 1] = {
    {"10/s burst 20", "3/s burst 30"},
    {"3/s burst 7", "11/min", "100/h"},
    {"3/s burst 7", "9/s fixed_window", "9/s sliding_window", "9/s sliding_log"},
    {"5/s burst 12 refill interval", "3/s burst 4 reserve 7/min burst 9",
     "2M/s burst 3M refill interval"},
    {"9/s", "8/s", "7/s", "6/s burst 9", "5/s burst 10", "4/s burst 11", "3/s burst 12",
     "2/s burst 13"},
};

/* What follows from each limit's own answer. */
static struct ration_decision together(const struct ration_decision *alone, size_t count)
{
    struct ration_decision all = alone[0];

    all.limit_index = 0;
    for (size_t i = 1; i < count; i++) {
        bool is_worse = alone[i].verdict != all.verdict ? alone[i].verdict > all.verdict
                        : all.verdict == RATION_DENY
                            ? alone[i].retry_after_ns > all.retry_after_ns
                            : all.verdict == RATION_ALLOW && alone[i].remaining < all.remaining;

        if (is_worse) {
            all = alone[i];
            all.limit_index = (uint32_t)i;
        }
    }
    return all;
}

static void several_answer_as_each_alone_all_or_nothing(void **state)
{
    (void)state;
    for (size_t i = 0; i < KIT_COUNT_OF(several_texts); i++) {
        struct ration_key key = RATION_KEY("k");
        struct kit kit, alone[RATION_RULES_MAX];
        uint64_t random = i + 1;
        uint64_t denied_count = 0;

        kit_plan(&kit, several_texts[i]);
        kit_open(&kit);
        for (size_t r = 0; r < kit.options.rule_count; r++)
            KIT_BEGIN(&alone[r], several_texts[i][r]);
        for (int k = 0; k < 4000; k++) {
            uint64_t cost = random_cost(&random, 6);
            struct ration_decision got, want, details[RATION_RULES_MAX], own[RATION_RULES_MAX];
            bool is_take = ration_random_up_to(&random, 3) > 0;

            kit_pass(&kit, ration_random_up_to(&random, 800 * MS));
            for (size_t r = 0; r < kit.options.rule_count; r++) {
                alone[r].manual.ns = kit.manual.ns;
                own[r] = kit_peek_key(&alone[r], key, cost);
            }
            want = together(own, kit.options.rule_count);
            for (size_t r = 0; r < kit.options.rule_count && is_take; r++)
                if (want.verdict == RATION_ALLOW)
                    own[r] = kit_take_key(&alone[r], key, cost);
            want = together(own, kit.options.rule_count);
            denied_count += want.verdict == RATION_DENY;
            if (want.verdict == RATION_DENY)
                assert_wait_is_exact(&kit, key, cost, want);
            assert_int_equal((is_take ? ration_limiter_take : ration_limiter_peek)(
                                 kit.limiter, &key, cost, kit.manual.ns, &got, details),
                             RATION_OK);
            assert_same_decision(got, want);
            for (size_t r = 0; r < kit.options.rule_count; r++) {
                own[r].limit_index = (uint32_t)r;
                assert_same_decision(details[r], own[r]);
            }
        }
        assert_true(denied_count > 100);
        for (size_t r = 0; r < kit.options.rule_count; r++)
            kit_end(&alone[r]);
        kit_end(&kit);
    }
}

static void up_to_takes_what_every_limit_has(void **state)
{
    (void)state;
    for (size_t i = 0; i < KIT_COUNT_OF(several_texts); i++) {
        struct ration_key key = RATION_KEY("k");
        struct kit kit;
        uint64_t random = i + 1;

        kit_plan(&kit, several_texts[i]);
        kit_open(&kit);
        for (int k = 0; k < 2000; k++) {
            uint64_t cost_max = random_cost(&random, 12);
            uint64_t most = 0, granted = 77;
            struct ration_decision got, want;

            kit_pass(&kit, ration_random_up_to(&random, 900 * MS));
            while (most < cost_max && most < 100 &&
                   kit_peek_key(&kit, key, most + 1).verdict == RATION_ALLOW)
                most++;
            want = kit_peek_key(&kit, key, 1);
            assert_int_equal(ration_limiter_take_up_to(kit.limiter, &key, cost_max, kit.manual.ns,
                                                       &granted, &got),
                             RATION_OK);
            assert_int_equal(granted, most);
            if (most == 0 && cost_max > 0)
                assert_same_decision(got, want);
            else
                assert_same_decision(got, kit_peek_key(&kit, key, 0));
        }
        kit_end(&kit);
    }
}

static void the_limit_that_binds_is_reported(void **state)
{
    struct ration_decision details[2], got;
    struct ration_key key = RATION_KEY("k");
    struct kit kit;

    (void)state;
    KIT_BEGIN(&kit, "1/s burst 5", "1/min burst 10");
    got = kit_take(&kit, "k", 1);
    assert_answer(got, RATION_ALLOW, 4, 0);
    assert_int_equal(got.limit_index, 0); /* 4 left of one, 9 of the other */
    assert_int_equal(got.limit, 5);
    assert_int_equal(got.reset_after_ns, SECOND);

    kit_take(&kit, "k", 4);
    kit_pass(&kit, 5 * SECOND);
    got = kit_take(&kit, "k", 5);
    assert_answer(got, RATION_ALLOW, 0, 0); /* 0 left of both: the first */
    kit_pass(&kit, 5 * SECOND);
    got = kit_take(&kit, "k", 1);
    assert_answer(got, RATION_DENY, 0, 50 * SECOND); /* the one with the longer wait */
    assert_int_equal(got.limit_index, 1);
    assert_int_equal(got.limit, 10);

    /* NEVER beats DENY, though its wait is not longer */
    assert_int_equal(ration_limiter_take(kit.limiter, &key, 6, kit.manual.ns, &got, details),
                     RATION_OK);
    assert_answer(got, RATION_NEVER, 5, RATION_FOREVER);
    assert_int_equal(got.limit_index, 0);
    assert_int_equal(details[1].verdict, RATION_DENY);
    kit_end(&kit);
}

/* R6: cost 0 peeks without creating anything, whatever the call and the key. */
static void a_cost_of_0_creates_nothing(void **state)
{
    static const char *const texts[] = {"1/h", "1/h start empty", "5/h sliding_log"};

    (void)state;
    for (size_t i = 0; i < KIT_COUNT_OF(texts); i++) {
        struct kit_room room;
        struct kit kit;
        uint64_t granted;

        KIT_BEGIN(&kit, texts[i]);
        for (uint64_t k = 0; k < 100; k++) {
            struct ration_key key = kit_numbered(&room, k);
            struct ration_decision decision;

            assert_true(ration_limiter_allow_at(kit.limiter, &key, 0, KIT_NOW_NS));
            assert_int_equal(kit_take_key(&kit, key, 0).verdict, RATION_ALLOW);
            ration_limiter_take_up_to(kit.limiter, &key, 0, KIT_NOW_NS, &granted, &decision);
            assert_int_equal(decision.verdict, RATION_ALLOW);
            kit_peek_key(&kit, key, 3);
        }
        assert_int_equal(kit_report(&kit).limiter.created, 0);

        struct ration_scan_item item;
        uint64_t cursor = 0;

        do
            assert_int_equal(ration_limiter_scan(kit.limiter, &cursor, &item, 1, KIT_NOW_NS), 0);
        while (cursor != 0);
        kit_end(&kit);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_limit_answers_as_a_bucket),
        cmocka_unit_test(allow_reads_the_limiters_clock),
        cmocka_unit_test(several_answer_as_each_alone_all_or_nothing),
        cmocka_unit_test(up_to_takes_what_every_limit_has),
        cmocka_unit_test(the_limit_that_binds_is_reported),
        cmocka_unit_test(a_cost_of_0_creates_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
