/*
 * More threads than cores: the kernel decides which thread runs, and rarely stops one between its load and its swap. So
 * this program has a bucket.c of its own, built with yield points, and gives up the CPU there at random from a fixed seed.
 */
#include <inttypes.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/random.h"
#include "support/threads.h"

#ifndef RATION_YIELD_POINTS
#error "build this test, threads.c and bucket.c with RATION_YIELD_POINTS"
#endif

#define ROUND_COUNT      (12000 / THREADS_SHARE)
#define CAUGHT_COUNT_MIN 100
#define LIMIT_TEXT       "3/s burst 4"

static uint64_t seed;
static unsigned
    reservation; /* numbers the threads, so that each one has a random sequence of its own */
static uint64_t yield_count;

static _Thread_local uint64_t die;

/* Yields about once in three times: often enough for other threads to run in between, not so often that they alternate. */
void ration_yield_point(void)
{
    if (die == 0)
        die = seed + __atomic_add_fetch(&reservation, 1, __ATOMIC_RELAXED) * UINT64_C(0x10000);
    if (ration_random_up_to(&die, 2) != 0)
        return;
    __atomic_add_fetch(&yield_count, 1, __ATOMIC_RELAXED);
    sched_yield();
}

static uint64_t wrong_count(allow_function *allow, unsigned thread_count, const char *name)
{
    struct contest contest = contest_make(LIMIT_TEXT, allow, seed);

    __atomic_store_n(&yield_count, 0, __ATOMIC_RELAXED);

    struct totals totals = contest_run(&contest, thread_count, ROUND_COUNT);

    print_message("  %s, %u threads: %" PRIu64 " of %" PRIu64 " rounds wrong, %" PRIu64 " yields\n",
                  name, thread_count, totals.bad_count, totals.round_count, yield_count);
    /* none would mean that the library's own bucket was linked, not the one built for this */
    assert_true(yield_count > 0);
    return totals.bad_count;
}

static void r1_more_threads_than_cores_get_exactly_the_burst(void **state)
{
    (void)state;
    assert_int_equal(wrong_count(ration_bucket_allow_at, 4, "bucket"), 0);
    assert_int_equal(wrong_count(ration_bucket_allow_at, 8, "bucket"), 0);
}

static void check_then_act_is_caught_there_too(void **state)
{
    (void)state;
    assert_true(wrong_count(racy_allow_at, 4, "control") >= CAUGHT_COUNT_MIN);
    assert_true(wrong_count(racy_allow_at, 8, "control") >= CAUGHT_COUNT_MIN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(r1_more_threads_than_cores_get_exactly_the_burst),
        cmocka_unit_test(check_then_act_is_caught_there_too),
    };

    seed = threads_seed("yield_test");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
