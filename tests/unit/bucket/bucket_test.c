/* The embeddable bucket's edges; what it decides is in tests/rows and tests/model. */
#include "ration/ration.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/algorithm.h"
#include "core/reserve.h"
#include "support/large_state.h"
#include "support/unit.h"

#define S RATION_NS_PER_SECOND

static struct ration_limit parse(const char *text)
{
    struct ration_limit limit;
    struct ration_error error;

    if (ration_limit_parse(text, &limit, &error) != RATION_OK)
        fail_msg("%s: %s", text, error.message);
    return limit;
}

static struct ration_bucket in_static_storage;

static void zero_bytes_in_static_storage_are_full(void **state)
{
    struct ration_limit limit = parse("1/h burst 3");

    (void)state;
    assert_int_equal(sizeof(struct ration_bucket), 16);
    assert_true(ration_bucket_allow(&in_static_storage, &limit));
    assert_true(ration_bucket_allow(&in_static_storage, &limit));
    assert_true(ration_bucket_allow(&in_static_storage, &limit));
    assert_false(ration_bucket_allow(&in_static_storage, &limit));
}

/* One of each algorithm that fits a bucket. */
static const char *const one_of_each[] = {"5/s", "5/s refill interval", "5/s leaky_queue",
                                          "5/s fixed_window", "5/s sliding_window"};

static void R2_a_denial_or_peek_writes_nothing(void **state)
{
    (void)state;
    for (size_t index = 0; index < 5; index++) {
        struct ration_limit limit = parse(one_of_each[index]);
        struct ration_bucket bucket = {{0, 0}};
        struct ration_bucket before;

        ration_bucket_peek(&bucket, &limit, 3, 1);
        ration_bucket_take(&bucket, &limit, 0, 1);
        assert_int_equal(bucket.words[0] | bucket.words[1], 0);
        assert_true(ration_bucket_allow_at(&bucket, &limit, 5, 1));
        before = bucket;
        assert_false(ration_bucket_allow_at(&bucket, &limit, 1, 1));
        assert_int_equal(ration_bucket_take(&bucket, &limit, 6, 1).verdict, RATION_NEVER);
        assert_int_equal(ration_bucket_take_up_to(&bucket, &limit, 2, 1, NULL), 0);
        ration_bucket_charge(&bucket, &limit, 0, 1);
        assert_memory_equal(&bucket, &before, sizeof(bucket));
    }
}

/* R6: any now and any cost, in any order; the bucket answers and R1 holds at each end of time. */
static void R6_extreme_times_and_costs_are_safe(void **state)
{
    const char *const texts[] = {"1/ns",
                                 "1/y burst 16",
                                 "3/16y refill interval",
                                 "1/16y fixed_window",
                                 "1/ns sliding_window",
                                 "7/s leaky_queue"};
    const uint64_t nows[] = {0, 1, UINT64_MAX, UINT64_MAX / 2, UINT64_MAX / 2 + 1, S, 0};
    const uint64_t costs[] = {0, 1, 2, UINT64_MAX, UINT64_MAX / 2};

    (void)state;
    for (size_t text = 0; text < sizeof(texts) / sizeof(texts[0]); text++) {
        struct ration_limit limit;
        struct ration_bucket bucket = {{0, 0}};
        struct ration_bucket_reservation reservation;

        limit = parse(texts[text]);
        for (size_t now = 0; now < 7; now++) {
            for (size_t cost = 0; cost < 5; cost++) {
                struct ration_decision decision =
                    ration_bucket_take(&bucket, &limit, costs[cost], nows[now]);

                assert_true(decision.remaining <= limit.burst);
                assert_true((decision.verdict == RATION_NEVER) == (costs[cost] > limit.burst));
                ration_bucket_refund(&bucket, &limit, costs[cost], nows[now]);
                ration_bucket_charge(&bucket, &limit, costs[cost], nows[now]);
                ration_bucket_block_until(&bucket, &limit, nows[now]);
                if (ration_bucket_reserve(&bucket, &limit, costs[cost], UINT64_MAX, nows[now],
                                          &reservation)
                        .verdict == RATION_ALLOW)
                    ration_bucket_settle(&bucket, &limit, &reservation, costs[4 - cost],
                                         nows[6 - now]);
                ration_bucket_set(&bucket, &limit, costs[cost], nows[now]);
            }
        }
    }
}

static void a_reservation_is_closed_once(void **state)
{
    struct ration_limit limit = parse("5/s");
    struct ration_bucket bucket = {{0, 0}};
    struct ration_bucket_reservation reservation;

    (void)state;
    assert_int_equal(ration_bucket_reserve(&bucket, &limit, 5, 0, S, &reservation).verdict,
                     RATION_ALLOW);
    assert_int_equal(reservation.ready_at_ns, S);
    assert_int_equal(ration_bucket_settle(&bucket, &limit, &reservation, 2, S), RATION_OK);
    assert_int_equal(ration_bucket_settle(&bucket, &limit, &reservation, 0, S), RATION_ECLOSED);
    assert_int_equal(ration_bucket_cancel(&bucket, &limit, &reservation, S), RATION_ECLOSED);
    assert_int_equal(ration_bucket_peek(&bucket, &limit, 0, S).remaining, 3);
    assert_int_equal(ration_bucket_reserve(&bucket, &limit, 0, 0, S, &reservation).verdict,
                     RATION_ALLOW);
    assert_int_equal(ration_bucket_settle(&bucket, &limit, &reservation, 0, S), RATION_OK);
    assert_int_equal(ration_bucket_peek(&bucket, &limit, 0, S).remaining, 3);
}

static void what_does_not_fit_is_refused(void **state)
{
    struct ration_limit fits = parse("5/s");
    struct ration_limit window = parse("5/s sliding_window");
    struct ration_limit larger[] = {parse("5/s sliding_log"), parse("5/s reserve 1/s")};
    struct ration_bucket bucket = {{3, 4}};

    (void)state;
    for (size_t index = 0; index < 2; index++) {
        assert_false(ration_bucket_fits(&larger[index]));
        assert_int_equal(ration_bucket_init(&bucket, &larger[index], 0), RATION_EUNSUPPORTED);
        assert_int_equal(
            ration_bucket_change(&bucket, &fits, &larger[index], RATION_CHANGE_KEEP, 0),
            RATION_EUNSUPPORTED);
    }
    assert_int_equal(ration_bucket_block_until(&bucket, &window, 9), RATION_EUNSUPPORTED);
    assert_int_equal(bucket.words[0], 3);
    assert_int_equal(bucket.words[1], 4);
    assert_true(ration_bucket_fits(&fits));
}

/* Using a limit that was never made is a bug, and must not look like an answer. */
static void a_limit_that_was_never_made_stops_the_program(void **state)
{
    pid_t child = fork();
    int status = 0;

    (void)state;
    if (child == 0) {
        struct ration_limit never_made;
        struct ration_bucket bucket = {{0, 0}};

        signal(SIGILL, SIG_DFL);
        signal(SIGTRAP, SIG_DFL);
        memset(&never_made, 0, sizeof(never_made));
        ration_bucket_allow(&bucket, &never_made);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_false(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void a_change_may_reset_to_the_initial_fill(void **state)
{
    struct ration_limit old = parse("5/s");
    struct ration_limit new_limit = parse("10/s start 4");
    struct ration_bucket bucket = {{0, 0}};

    (void)state;
    ration_bucket_take(&bucket, &old, 5, S);
    assert_int_equal(ration_bucket_change(&bucket, &old, &new_limit, RATION_CHANGE_RESET, S),
                     RATION_OK);
    assert_int_equal(ration_bucket_peek(&bucket, &new_limit, 0, S).remaining, 4);
}

/* A policy that is loaded again has the same limits: a sliding window keeps both counts and its end. */
static void a_change_to_an_equal_limit_changes_nothing(void **state)
{
    (void)state;
    for (size_t index = 0; index < 5; index++) {
        struct ration_limit limit = parse(one_of_each[index]);
        struct ration_bucket bucket = {{0, 0}};
        struct ration_bucket before;

        for (uint64_t now_ns = S + 1; now_ns < 4 * S; now_ns += S / 3) {
            ration_bucket_take(&bucket, &limit, 2, now_ns);
            before = bucket;
            ration_bucket_change(&bucket, &limit, &limit, RATION_CHANGE_KEEP, now_ns + S / 7);
            assert_memory_equal(&bucket, &before, sizeof(bucket));
        }
    }
}

/*
 * A full bucket of portions of 10 has 3 tokens to spare; one of portions of 1 has room for none. A now before the moment at
 * which it was full finds one portion out, not 2^64 - 2 tokens.
 */
static void a_full_bucket_has_no_more_to_spare_than_the_new_limit_brings(void **state)
{
    const char *const texts[] = {"1/d burst 15 refill interval", "4/d burst 15 refill interval"};
    const uint64_t left[] = {14, 14}; /* 15 - 1, and 15 - (4 - 3) */

    (void)state;
    for (size_t index = 0; index < 2; index++) {
        struct ration_limit old = parse("10/h refill interval");
        struct ration_limit new_limit = parse(texts[index]);
        struct ration_bucket bucket = {{0, 0}};

        ration_bucket_take(&bucket, &old, 7, S);
        assert_int_equal(
            ration_bucket_change(&bucket, &old, &new_limit, RATION_CHANGE_KEEP, 3601 * S),
            RATION_OK);
        assert_int_equal(ration_bucket_peek(&bucket, &new_limit, 0, 3600 * S).remaining,
                         left[index]);
        assert_int_equal(ration_bucket_peek(&bucket, &new_limit, 0, 3601 * S).remaining, 15);
    }
}

/* At the end of time a debt under a small burst becomes one under a large burst and must fit. */
static void a_change_at_the_end_of_time_saturates(void **state)
{
    struct ration_limit small = parse("1/s");
    struct ration_limit large = parse("1/y burst 16");
    struct ration_bucket bucket = {{0, 0}};

    (void)state;
    ration_bucket_charge(&bucket, &small, UINT64_MAX, UINT64_MAX);
    ration_bucket_change(&bucket, &small, &large, RATION_CHANGE_KEEP, UINT64_MAX);
    assert_true(bucket.words[0] == UINT64_MAX / 2 + (UINT64_C(1) << 59));
    assert_false(ration_bucket_allow_at(&bucket, &large, 1, UINT64_MAX));
}

/* The part that paid is the part that gets back. */
static void a_reserve_releases_to_the_part_that_paid(void **state)
{
    struct ration_limit limit = parse("10/s burst 2 reserve 1/s burst 8");
    struct ration_reserve reserve = {{{0, 0}, {0, 0}}};
    struct ration_reserve_step step = ration_reserve_take(reserve, &limit, 5, 0, S);

    (void)state;
    assert_int_equal(step.part, RATION_PART_RESERVE);
    reserve = ration_reserve_release(
        step.next, &limit, step.part,
        &(struct ration_reserve_release){
            .mark = step.next, .cost_tokens = 5, .unused_tokens = 4, .turn_ns = S},
        S);
    assert_int_equal(ration_reserve_remaining(reserve, &limit, S), 9);
    reserve = ration_reserve_refund(reserve, &limit, 1, S);
    assert_int_equal(ration_reserve_remaining(reserve, &limit, S), 10);
    assert_int_equal(ration_reserve_full_after_ns(reserve, S), 0);
    assert_int_not_equal(ration_reserve_full_after_ns(step.next, S), 0);
}

/* While a caller waits under another limit of the key, only the last in line returns tokens. */
static void tokens_promised_elsewhere_are_not_returned(void **state)
{
    static const char *const texts[] = {"10/s burst 10", "10/s refill interval"};

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct ration_limit limit = parse(texts[i]);
        struct ration_step step =
            ration_algorithm_take(&limit, (union ration_state){.words = {0, 0}}, 5, 0, S);
        struct ration_step other = ration_algorithm_take(&limit, step.next, 1, 0, S);
        struct ration_release release = {.mark = step.next,
                                         .cost_tokens = 5,
                                         .unused_tokens = 3,
                                         .turn_ns = S,
                                         .is_waited = true};
        union ration_state last = ration_algorithm_release(&limit, step.next, &release, S);
        union ration_state behind = ration_algorithm_release(&limit, other.next, &release, S);

        assert_int_equal(ration_algorithm_remaining(&limit, last, S), 8);
        assert_memory_equal(&behind, &other.next, sizeof(behind));
        release.is_waited = false;
        behind = ration_algorithm_release(&limit, other.next, &release, S);
        assert_int_equal(ration_algorithm_remaining(&limit, behind, S), 7);
    }
}

static void R7_each_algorithm_is_idle_from_the_moment_it_is_full(void **state)
{
    const char *const texts[] = {"5/s", "5/s refill interval", "5/s leaky_queue",
                                 "5/s fixed_window", "5/s sliding_window"};
    struct ration_limit log_limit = parse("5/s sliding_log");
    uint64_t words[5] = {0};
    struct array_log log = {.ring = words};

    (void)state;
    for (size_t index = 0; index < 5; index++) {
        struct ration_limit limit = parse(texts[index]);
        union ration_state bucket = {.words = {0, 0}};

        assert_true(ration_algorithm_is_idle(&limit, bucket, S));
        bucket = ration_algorithm_take(&limit, bucket, 1, 0, S).next;

        uint64_t full_at_ns = S + ration_algorithm_full_after_ns(&limit, bucket, S);

        assert_false(ration_algorithm_is_idle(&limit, bucket, full_at_ns - 1));
        assert_true(ration_algorithm_is_idle(&limit, bucket, full_at_ns));
    }
    assert_int_equal(array_log_full_after_ns(&log, &log_limit, S), 0);
    assert_int_equal(array_log_take(&log, &log_limit, 1, S).verdict, RATION_ALLOW);
    assert_int_equal(array_log_full_after_ns(&log, &log_limit, 2 * S - 1), 1);
    assert_int_equal(array_log_full_after_ns(&log, &log_limit, 2 * S), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(zero_bytes_in_static_storage_are_full),
        cmocka_unit_test(R2_a_denial_or_peek_writes_nothing),
        cmocka_unit_test(R6_extreme_times_and_costs_are_safe),
        cmocka_unit_test(a_reservation_is_closed_once),
        cmocka_unit_test(what_does_not_fit_is_refused),
        cmocka_unit_test(a_limit_that_was_never_made_stops_the_program),
        cmocka_unit_test(a_change_may_reset_to_the_initial_fill),
        cmocka_unit_test(a_change_to_an_equal_limit_changes_nothing),
        cmocka_unit_test(a_full_bucket_has_no_more_to_spare_than_the_new_limit_brings),
        cmocka_unit_test(a_change_at_the_end_of_time_saturates),
        cmocka_unit_test(R7_each_algorithm_is_idle_from_the_moment_it_is_full),
        cmocka_unit_test(a_reserve_releases_to_the_part_that_paid),
        cmocka_unit_test(tokens_promised_elsewhere_are_not_returned),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
