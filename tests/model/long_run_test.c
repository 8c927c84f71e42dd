/*
 * Long runs at awkward rates (R5), and the failures of other limiters as rows.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "greedy.h"
#include "history.h"
#include "ration/bucket.h"
#include "trace.h"

#ifdef RATION_TESTS_SHORT
#define SHARE 100
#else
#define SHARE 1
#endif

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

static uint64_t decisions;

static struct ration_limit limit_of(const char *text)
{
    struct ration_limit limit;
    struct ration_error error;

    if (ration_limit_parse(text, &limit, &error) != RATION_OK)
        fail_msg("%s cannot be made", text);
    return limit;
}

static bool take(struct ration_bucket *bucket, const struct ration_limit *limit, uint64_t cost,
                 uint64_t now_ns)
{
    decisions++;
    return ration_bucket_allow_at(bucket, limit, cost, now_ns);
}

/* Single tokens that can be taken at now. */
static uint64_t take_all(struct ration_bucket *bucket, const struct ration_limit *limit,
                         uint64_t now_ns)
{
    uint64_t count = 0;

    while (count < UINT64_C(1) << 32 && take(bucket, limit, 1, now_ns))
        count++;
    return count;
}

static uint64_t remaining(struct ration_bucket *bucket, const struct ration_limit *limit,
                          uint64_t now_ns)
{
    decisions++;
    return ration_bucket_peek(bucket, limit, 0, now_ns).remaining;
}

/* Takes whenever it may, at every step from 0 to end. */
static uint64_t poll(const struct ration_limit *limit, uint64_t step_ns, uint64_t end_ns)
{
    struct ration_bucket bucket = {{0, 0}};
    uint64_t count = 0;

    for (uint64_t now_ns = 0; now_ns <= end_ns; now_ns += step_ns)
        count += take(&bucket, limit, 1, now_ns);
    return count;
}

/* --- R5 --- */

static void R5_greedy_callers_get_the_rate_and_no_more(void **state)
{
    static const char *const texts[] = {"3/s",
                                        "3/s burst 2",
                                        "7/s",
                                        "7/s burst 100",
                                        "8001/s",
                                        "8001/s burst 2",
                                        "900000/s",
                                        "900000/s burst 2",
                                        "900000/s burst 1000",
                                        "30M/s",
                                        "30M/s burst 2",
                                        "700M/s",
                                        "700M/s burst 2",
                                        "700M/s burst 1G",
                                        "10 per 13s",
                                        "1/y burst 2",
                                        "1/min",
                                        "1000000/s burst 3",
                                        "999999999/s burst 7",
                                        "3/s burst 1",
                                        "900000/s burst 1",
                                        "700M/s burst 1"};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        struct ration_limit limit = limit_of(texts[i]);
        uint64_t count = limit.period_ns / limit.tokens > RATION_NS_PER_DAY ? 100 : 2000000 / SHARE;
        struct greedy_result r = greedy_run(&subject_bucket, &limit, 5, count);

        decisions += r.decisions;
        print_message("%-20s %" PRIu64 " tokens in %" PRIu64 " ns\n", texts[i], r.admitted_tokens,
                      r.last_ns - 5);
        assert_true(r.keeps_contract);
        assert_true(history_is_greedy_enough(&limit, r.admitted_tokens, 5, r.last_ns));
    }
}

static void R5_low_rates_polled_quickly_are_not_starved(void **state)
{
    struct ration_limit minute = limit_of("1 per 60s");
    struct ration_limit odd = limit_of("10 per 13s");

    (void)state;
    assert_int_equal(poll(&minute, 100 * RATION_NS_PER_US, RATION_NS_PER_HOUR / SHARE),
                     1 + 60 / SHARE);
    /* 2769 whole tokens come in an hour, and ten are there at first. */
    assert_int_equal(poll(&odd, RATION_NS_PER_MS, RATION_NS_PER_HOUR), 10 + 2769);
    /* Polling finely does not lose the fractions of a nanosecond. */
    struct ration_limit fast = limit_of("700M/s burst 2");
    assert_in_range(poll(&fast, 1, 10000000), 6999993, 7000002);
}

static void R5_intervals_bring_exactly_their_amount(void **state)
{
    static const char *const texts[] = {
        "3 per 10s burst 5 refill interval", "7 per 1s refill interval",
        "7 per 13ns burst 20 refill interval", "3 per 1s burst 1000 refill interval"};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        struct ration_limit limit = limit_of(texts[i]);
        uint64_t count = limit.tokens * 10000;
        struct greedy_result r = greedy_run(&subject_bucket, &limit, 5, count);

        decisions += r.decisions;
        assert_true(r.keeps_contract);
        assert_int_equal(r.last_ns, 5 + 10000 * limit.period_ns);
        assert_int_equal(r.admitted_tokens, limit.burst + count);
    }
}

/* The number of tokens that a greedy caller takes before the end of the clock. */
static uint64_t count_within_clock(const struct ration_limit *limit, uint64_t per_period)
{
    uint64_t periods = (UINT64_MAX >> 3) / limit->period_ns;

    return periods > 300 / per_period ? 300 : periods * per_period;
}

static void R5_greedy_callers_of_random_token_buckets(void **state)
{
    struct trace_random random = {2024};

    (void)state;
    for (unsigned i = 0; i < 20000 / SHARE; i++) {
        struct ration_limit limit = trace_random_limit(&random, TRACE_TOKEN);
        uint64_t count = count_within_clock(&limit, limit.tokens);
        struct greedy_result r = greedy_run(&subject_bucket, &limit, 5, count);

        decisions += r.decisions;
        if (!r.keeps_contract || !history_is_greedy_enough(&limit, r.admitted_tokens, 5, r.last_ns))
            fail_msg("%" PRIu64 " per %" PRIu64 " ns burst %" PRIu64 ": %" PRIu64
                     " tokens in %" PRIu64 " ns",
                     limit.tokens, limit.period_ns, limit.burst, r.admitted_tokens, r.last_ns - 5);
    }
}

/* These refill a whole interval at once, so the moment of the last token is known. */
static void R5_greedy_callers_of_random_intervals(void **state)
{
    static const enum trace_kind kinds[] = {TRACE_INTERVAL, TRACE_FIXED, TRACE_LOG};
    struct trace_random random = {2025};

    (void)state;
    for (unsigned i = 0; i < 20000 / SHARE; i++) {
        enum trace_kind kind = kinds[i % COUNT_OF(kinds)];
        struct ration_limit limit = trace_random_limit(&random, kind);
        uint64_t take_tokens = limit.tokens < limit.burst ? limit.tokens : limit.burst;
        uint64_t count = count_within_clock(&limit, take_tokens);
        struct greedy_result r = greedy_run(subject_of(&limit), &limit, 5, count);
        uint64_t start_ns = kind == TRACE_FIXED ? 5 / limit.period_ns * limit.period_ns : 5;

        decisions += r.decisions;
        assert_true(r.keeps_contract);
        if (count > 0)
            assert_int_equal(r.last_ns,
                             start_ns + ((count - 1) / take_tokens + 1) * limit.period_ns);
    }
}

static void R5_a_burst_at_once_equals_one_by_one(void **state)
{
    static const char *const texts[] = {"3/s burst 1000",
                                        "7/s burst 77",
                                        "8001/s",
                                        "900000/s",
                                        "30M/s burst 12345",
                                        "700M/s burst 999999",
                                        "10 per 13s",
                                        "3/s burst 10 leaky_queue",
                                        "7 per 13s burst 50 refill interval",
                                        "100/s fixed_window",
                                        "100/s sliding_window"};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        struct ration_limit limit = limit_of(texts[i]);
        struct ration_bucket whole = {{0, 0}};
        struct ration_bucket single = {{0, 0}};

        assert_true(take(&whole, &limit, limit.burst, 12345));
        assert_int_equal(take_all(&single, &limit, 12345), limit.burst);
        assert_memory_equal(&whole, &single, sizeof whole);
        assert_false(take(&whole, &limit, 1, 12345));
    }
}

/* --- what others got wrong --- */

static void failure_1_slow_traffic_and_idleness_store_the_burst_and_no_more(void **state)
{
    struct ration_limit limit = limit_of("100/s burst 10");
    struct ration_bucket bucket = {{0, 0}};
    uint64_t now_ns = 0;

    (void)state;
    for (; now_ns < RATION_NS_PER_HOUR; now_ns += RATION_NS_PER_SECOND)
        assert_true(take(&bucket, &limit, 1, now_ns));
    assert_int_equal(take_all(&bucket, &limit, now_ns), 10);
    /* An hour of idle time fills the bucket completely, not by one tick. */
    assert_int_equal(take_all(&bucket, &limit, now_ns + RATION_NS_PER_HOUR), 10);
    /* A refund does not store more either. */
    ration_bucket_refund(&bucket, &limit, 1000000, now_ns + RATION_NS_PER_HOUR);
    assert_int_equal(take_all(&bucket, &limit, now_ns + RATION_NS_PER_HOUR), 10);
}

static void failure_4_fractions_are_not_lost_at_190_ms(void **state)
{
    struct ration_limit limit = limit_of("10/s");
    struct ration_bucket bucket = {{0, 0}};
    uint64_t now_ns = 0;

    (void)state;
    assert_true(take(&bucket, &limit, 10, now_ns));
    for (unsigned i = 0; i < 1000; i++) {
        now_ns += 190 * RATION_NS_PER_MS;
        assert_true(take(&bucket, &limit, 1, now_ns));
    }
    assert_int_equal(remaining(&bucket, &limit, now_ns), 9);
}

static void failure_5_one_microsecond_back_fills_nothing(void **state)
{
    static const uint64_t moments_ns[] = {RATION_NS_PER_SECOND, (UINT64_C(1) << 32) * 1000,
                                          (UINT64_C(1) << 32), UINT64_C(1) << 62};
    struct ration_limit limit = limit_of("10/s");

    (void)state;
    for (size_t i = 0; i < COUNT_OF(moments_ns); i++) {
        struct ration_bucket bucket = {{0, 0}};

        assert_true(take(&bucket, &limit, 10, moments_ns[i]));
        assert_false(take(&bucket, &limit, 1, moments_ns[i] - 1000));
        assert_int_equal(remaining(&bucket, &limit, moments_ns[i] - 1000), 0);
        assert_false(take(&bucket, &limit, 1, moments_ns[i]));
        assert_false(take(&bucket, &limit, 1, 0));
    }
}

static void failure_6_huge_costs_neither_pass_nor_mint(void **state)
{
    static const char *const texts[] = {"10/s",
                                        "1/y burst 10",
                                        "10/s refill interval",
                                        "10/s leaky_queue",
                                        "10/s fixed_window",
                                        "10/s sliding_window"};
    static const uint64_t costs[] = {UINT64_MAX,
                                     UINT64_MAX - 9,
                                     UINT64_C(1) << 63,
                                     (UINT64_C(1) << 63) + 1,
                                     UINT64_C(1) << 32,
                                     UINT64_MAX / 100000000,
                                     UINT64_MAX / 100000000 + 2,
                                     11};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(texts) * COUNT_OF(costs); i++) {
        struct ration_limit limit = limit_of(texts[i / COUNT_OF(costs)]);
        struct ration_bucket bucket = {{0, 0}};
        uint64_t cost = costs[i % COUNT_OF(costs)];

        assert_true(take(&bucket, &limit, 4, 1000));
        assert_int_equal(ration_bucket_take(&bucket, &limit, cost, 1000).verdict, RATION_NEVER);
        assert_int_equal(remaining(&bucket, &limit, 1000), 6);
        /* A huge charge stays charged, and a refund of too much stores no more than the burst. */
        ration_bucket_charge(&bucket, &limit, cost, 1000);
        assert_false(take(&bucket, &limit, 1, 1000));
        ration_bucket_refund(&bucket, &limit, UINT64_MAX, 1000);
        assert_in_range(take_all(&bucket, &limit, 1000), 0, 10);
    }
}

static void failure_8_ten_at_once_after_idling_not_seventeen(void **state)
{
    struct ration_limit limit = limit_of("10/s");

    (void)state;
    for (uint64_t idle_ns = 1; idle_ns < RATION_NS_PER_YEAR; idle_ns = idle_ns * 3 + 1) {
        struct ration_bucket bucket = {{0, 0}};

        assert_int_equal(take_all(&bucket, &limit, 1000), 10);
        assert_in_range(take_all(&bucket, &limit, 1000 + idle_ns), 0, 10);
        assert_int_equal(take_all(&bucket, &limit, 1000 + idle_ns + RATION_NS_PER_DAY), 10);
    }
}

/* The bucket is forgotten whenever it may be, as a table would. */
static void failure_9_state_lives_as_long_as_its_debt(void **state)
{
    struct ration_limit limit = limit_of("1/s burst 200");
    struct ration_bucket bucket = {{0, 0}};
    uint64_t admitted = 0;

    (void)state;
    for (uint64_t ms = 0; ms <= 600000; ms += 3) {
        uint64_t now_ns = ms * RATION_NS_PER_MS;

        if (ration_bucket_peek(&bucket, &limit, 0, now_ns).reset_after_ns == 0)
            memset(&bucket, 0, sizeof bucket);
        admitted += take(&bucket, &limit, 1, now_ns);
    }
    assert_int_equal(admitted, 800);
}

static void failure_11_the_reported_wait_suffices_at_3_per_second(void **state)
{
    struct ration_limit limit = limit_of("3/s");
    struct ration_bucket bucket = {{0, 0}};

    (void)state;
    assert_true(take(&bucket, &limit, 3, 0));

    struct ration_decision d = ration_bucket_take(&bucket, &limit, 1, 0);
    assert_int_equal(d.verdict, RATION_DENY);
    assert_int_equal(d.retry_after_ns, 333333334);
    assert_false(take(&bucket, &limit, 1, 333333333));
    assert_true(take(&bucket, &limit, 1, 333333334));
}

static void failure_12_timestamps_out_of_order_rewind_nothing(void **state)
{
    static const char *const texts[] = {"1/h burst 3", "3/h refill interval", "3/h fixed_window",
                                        "3/h sliding_window", "1/h burst 3 leaky_queue"};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        struct ration_limit limit = limit_of(texts[i]);
        struct ration_bucket bucket = {{0, 0}};
        uint64_t base_ns = 1000 * RATION_NS_PER_HOUR;
        unsigned admitted = 0;

        for (unsigned call = 0; call < 1000; call++)
            admitted += take(&bucket, &limit, 1, base_ns - call % 7 * 10 * RATION_NS_PER_MINUTE);
        assert_int_equal(admitted, 3);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(R5_greedy_callers_get_the_rate_and_no_more),
        cmocka_unit_test(R5_low_rates_polled_quickly_are_not_starved),
        cmocka_unit_test(R5_intervals_bring_exactly_their_amount),
        cmocka_unit_test(R5_greedy_callers_of_random_token_buckets),
        cmocka_unit_test(R5_greedy_callers_of_random_intervals),
        cmocka_unit_test(R5_a_burst_at_once_equals_one_by_one),
        cmocka_unit_test(failure_1_slow_traffic_and_idleness_store_the_burst_and_no_more),
        cmocka_unit_test(failure_4_fractions_are_not_lost_at_190_ms),
        cmocka_unit_test(failure_5_one_microsecond_back_fills_nothing),
        cmocka_unit_test(failure_6_huge_costs_neither_pass_nor_mint),
        cmocka_unit_test(failure_8_ten_at_once_after_idling_not_seventeen),
        cmocka_unit_test(failure_9_state_lives_as_long_as_its_debt),
        cmocka_unit_test(failure_11_the_reported_wait_suffices_at_3_per_second),
        cmocka_unit_test(failure_12_timestamps_out_of_order_rewind_nothing),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);

    printf("decisions: %" PRIu64 "\n", decisions);
    return failed;
}
