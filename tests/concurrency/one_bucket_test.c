/*
 * Two threads, two cores, one bucket: R1 holds in every one of many short rounds, whichever functions the threads call, and
 * a bucket that checks and then acts is caught. Then a hundred threads.
 */
#include <inttypes.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "base/time.h"
#include "ration/clock.h"
#include "support/threads.h"

#define ROUND_COUNT       (60000 / THREADS_SHARE)
#define OTHER_ROUND_COUNT (10000 / THREADS_SHARE)

/* Other load on the machine may keep the two threads apart; then the control is repeated. */
#define CONTROL_TRIES_MAX 5

/*
 * A token lasts 333333333 ns and a fraction, so that both words of the bucket change. The control determines the burst:
 * the first thread spends a burst of 4 before the second one has left the barrier (caught in a quarter of the rounds),
 * but not a burst of 16 (98 %).
 */
#define LIMIT_TEXT "3/s burst 16"

static uint64_t seed;

/* Whether controls must be caught often, not just be run. */
static bool is_control_sure(void)
{
#ifdef __SANITIZE_THREAD__
    return false; /* the sanitizer's work between the atomics decides how often */
#else
    return threads_cpu_count() > 1;
#endif
}

static void expect_hold(struct totals totals, const char *name)
{
    print_message("  %s: %" PRIu64 " of %" PRIu64 " rounds wrong\n", name, totals.bad_count,
                  totals.round_count);
    assert_int_equal(totals.bad_count, 0);
}

/* Expects the control to fail in more than one in one_in rounds. */
static void expect_caught(struct totals (*control)(void), const char *name, uint64_t one_in)
{
    struct totals totals = {0, 0};

    for (unsigned i = 0; i < CONTROL_TRIES_MAX && totals.bad_count * one_in <= totals.round_count;
         i++) {
        totals = control();
        print_message("  control, %s: caught in %" PRIu64 " of %" PRIu64 " rounds\n", name,
                      totals.bad_count, totals.round_count);
        if (!is_control_sure())
            return;
    }
    assert_true(totals.bad_count * one_in > totals.round_count);
}

/* Takes ---------------------------------------------------------------------------------- */

static void r1_two_threads_get_exactly_the_burst_in_every_round(void **state)
{
    struct contest contest = contest_make(LIMIT_TEXT, ration_bucket_allow_at, seed);

    (void)state;
    expect_hold(contest_run(&contest, 2, ROUND_COUNT), LIMIT_TEXT);
}

static void r1_two_threads_get_exactly_the_burst_of_every_algorithm(void **state)
{
    static const char *const texts[] = {
        "16/s refill interval",
        "16/s fixed_window",
        "16/s sliding_window",
        "3/s burst 16 leaky_queue",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct contest contest = contest_make(texts[i], ration_bucket_allow_at, seed);

        expect_hold(contest_run(&contest, 2, OTHER_ROUND_COUNT), texts[i]);
    }
}

static struct totals racy_contest(void)
{
    struct contest contest = contest_make(LIMIT_TEXT, racy_allow_at, seed);

    return contest_run(&contest, 2, ROUND_COUNT);
}

static void check_then_act_is_caught(void **state)
{
    (void)state;
    expect_caught(racy_contest, "takes", 3);
}

/* Taken and returned --------------------------------------------------------------------- */

/* Starts with tat = now instead of 0, so that the end state can be compared byte by byte. */
static void prepare_full(void *context)
{
    struct contest *contest = context;

    contest_prepare(contest);
    ration_bucket_set(&contest->bucket, &contest->limit, contest->limit.burst, contest->now_ns);
}

/* Takes two tokens; one thread uses one of them, the other none. Returns the tokens used. */
static uint64_t reserve_and_settle(struct contest *contest, uint64_t used_tokens)
{
    struct ration_bucket_reservation reservation;
    struct ration_decision decision = ration_bucket_reserve(&contest->bucket, &contest->limit, 2, 0,
                                                            contest->now_ns, &reservation);

    if (decision.verdict != RATION_ALLOW)
        return 0;
    if (used_tokens == 0)
        ration_bucket_cancel(&contest->bucket, &contest->limit, &reservation, contest->now_ns);
    else
        ration_bucket_settle(&contest->bucket, &contest->limit, &reservation, used_tokens,
                             contest->now_ns);
    return used_tokens;
}

/*
 * Tokens that one thread has taken for a moment may be missing for the other. But the thread that returns last has all
 * its takes still to come, so in the end exactly the burst is used.
 */
static uint64_t lend_then_take(void *context, unsigned thread_index)
{
    struct contest *contest = context;
    /* not a refund: that might reduce what the other thread's reservation returns */
    uint64_t admitted = reserve_and_settle(contest, 0);

    admitted += reserve_and_settle(contest, thread_index % 2);

    for (uint64_t i = 0; i < contest->limit.burst; i++)
        admitted += contest->allow(&contest->bucket, &contest->limit, 1, contest->now_ns);
    return admitted;
}

/* Whether two token buckets are full at the same moment; how much was returned to each may differ. */
static bool is_same_tat(const struct ration_bucket *a, const struct ration_bucket *b)
{
    return a->words[0] == b->words[0] && (a->words[1] ^ b->words[1]) % RATION_FRAC_COUNT == 0;
}

static bool is_drained(void *context, uint64_t total)
{
    struct contest *contest = context;
    struct ration_bucket drained = {{0, 0}};

    ration_bucket_set(&drained, &contest->limit, 0, contest->now_ns);

    struct ration_decision peek =
        ration_bucket_peek(&contest->bucket, &contest->limit, 1, contest->now_ns);
    struct ration_decision expected =
        ration_bucket_peek(&drained, &contest->limit, 1, contest->now_ns);

    return total == contest->limit.burst && peek.verdict == RATION_DENY && peek.remaining == 0 &&
           peek.retry_after_ns == expected.retry_after_ns &&
           peek.reset_after_ns == expected.reset_after_ns &&
           is_same_tat(&contest->bucket, &drained);
}

static struct totals lend_rounds(allow_function *allow)
{
    struct contest contest = contest_make(LIMIT_TEXT, allow, seed);

    return rounds_run(&(struct rounds){
        .thread_count = 2,
        .round_count = ROUND_COUNT,
        .context = &contest,
        .prepare = prepare_full,
        .play = lend_then_take,
        .holds = is_drained,
    });
}

static void r1_returned_tokens_are_neither_lost_nor_created(void **state)
{
    (void)state;
    expect_hold(lend_rounds(ration_bucket_allow_at), "lend, reserve, take");
}

static struct totals racy_return_rounds(void)
{
    return lend_rounds(racy_allow_at);
}

static void racy_takes_after_correct_returns_are_caught(void **state)
{
    (void)state;
    expect_caught(racy_return_rounds, "racy takes after correct returns", 20);
}

/* Every change --------------------------------------------------------------------------- */

#define CHANGES_PER_ROUND 16
#define CHANGES_LIMIT     "3/s burst 64" /* large, because a denial cannot race */

/* One random change by a thread that has taken so many tokens. Returns the new number. */
static uint64_t change_once(struct contest *contest, uint64_t random, uint64_t taken)
{
    struct ration_bucket *bucket = &contest->bucket;
    const struct ration_limit *limit = &contest->limit;
    uint64_t now_ns = contest->now_ns;

    switch (random % 4) {
    case 0:
        return taken + contest->allow(bucket, limit, 1, now_ns);
    case 1:
        return taken + ration_bucket_take_up_to(bucket, limit, 3, now_ns, NULL);
    case 2:
        ration_bucket_charge(bucket, limit, 1, now_ns);
        return taken + 1;
    default:
        ration_bucket_refund(bucket, limit, taken, now_ns);
        return 0;
    }
}

static uint64_t change_often(void *context, unsigned thread_index)
{
    struct contest *contest = context;
    uint64_t random = contest->random + thread_index;
    uint64_t taken = 0;

    for (unsigned i = 0; i < CHANGES_PER_ROUND; i++)
        taken = change_once(contest, ration_random_next(&random) >> 32, taken);
    return taken;
}

/* The bucket is as if one thread had taken the total at once. */
static bool is_out(void *context, uint64_t total)
{
    struct contest *contest = context;
    struct ration_bucket expected = {{0, 0}};

    ration_bucket_set(&expected, &contest->limit, contest->limit.burst, contest->now_ns);
    ration_bucket_charge(&expected, &contest->limit, total, contest->now_ns);
    return is_same_tat(&contest->bucket, &expected);
}

static struct totals change_rounds(allow_function *allow)
{
    struct contest contest = contest_make(CHANGES_LIMIT, allow, seed);

    return rounds_run(&(struct rounds){
        .thread_count = 2,
        .round_count = ROUND_COUNT,
        .context = &contest,
        .prepare = prepare_full,
        .play = change_often,
        .holds = is_out,
    });
}

static void r1_every_change_of_two_threads_counts_once(void **state)
{
    (void)state;
    expect_hold(change_rounds(ration_bucket_allow_at), "take, take up to, charge, refund");
}

static struct totals racy_change_rounds(void)
{
    return change_rounds(racy_allow_at);
}

static void a_racy_change_is_caught(void **state)
{
    (void)state;
    expect_caught(racy_change_rounds, "racy takes among other changes", 20);
}

/* Many threads --------------------------------------------------------------------------- */

#define CROWD_COUNT      100
#define CROWD_CALL_COUNT (10000 / THREADS_SHARE)

struct crowd {
    struct contest contest;
    struct spin_barrier barrier;
    uint64_t admitted;
};

static void call_often(void *context, unsigned thread_index)
{
    struct crowd *crowd = context;
    struct contest *contest = &crowd->contest;
    uint64_t admitted = 0;

    (void)thread_index;
    spin_barrier_wait(&crowd->barrier);
    for (unsigned i = 0; i < CROWD_CALL_COUNT; i++) {
        admitted += ration_bucket_allow(&contest->bucket, &contest->limit);
        if (i % 64 == 0)
            sched_yield(); /* else each would be done within one time slice */
    }
    __atomic_fetch_add(&crowd->admitted, admitted, __ATOMIC_RELAXED);
}

/* Has no control: a check-then-act bucket may pass this test, which is about the real clock. */
static void r1_many_threads_stay_within_burst_plus_rate_times_time(void **state)
{
    struct crowd crowd = {.contest = contest_make("100000/s burst 500", NULL, seed)};
    const struct ration_limit *limit = &crowd.contest.limit;

    (void)state;
    spin_barrier_init(&crowd.barrier, CROWD_COUNT);

    uint64_t start_ns = ration_clock_default_now();
    threads_run(CROWD_COUNT, call_often, &crowd);
    uint64_t spent_ns = ration_clock_default_now() - start_ns;
    uint64_t most = limit->burst + spent_ns / (limit->period_ns / limit->tokens);

    print_message("  %d threads x %d calls in %" PRIu64 " us: %" PRIu64 " admitted of %" PRIu64
                  " at most\n",
                  CROWD_COUNT, CROWD_CALL_COUNT, spent_ns / 1000, crowd.admitted, most);
    assert_true(crowd.admitted >= limit->burst);
    assert_true(crowd.admitted <= most);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(r1_two_threads_get_exactly_the_burst_in_every_round),
        cmocka_unit_test(r1_two_threads_get_exactly_the_burst_of_every_algorithm),
        cmocka_unit_test(check_then_act_is_caught),
        cmocka_unit_test(r1_returned_tokens_are_neither_lost_nor_created),
        cmocka_unit_test(racy_takes_after_correct_returns_are_caught),
        cmocka_unit_test(r1_every_change_of_two_threads_counts_once),
        cmocka_unit_test(a_racy_change_is_caught),
        cmocka_unit_test(r1_many_threads_stay_within_burst_plus_rate_times_time),
    };

    seed = threads_seed("one_bucket_test");
    if (threads_cpu_count() < 2)
        print_message("only one CPU: threads are not pinned, controls run but may pass\n");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
