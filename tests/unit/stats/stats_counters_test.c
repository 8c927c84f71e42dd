/* Counters of one thread: every name has its own field, in a block at any address. */
#include "stats/counters.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/stats_keys.h"
#include "support/unit.h"

#define LIMITS 3u

static const struct ration_shards shards = {2, 2};

static struct ration_counters *make(uint32_t limit_count, struct ration_shards wanted)
{
    size_t size = ration_counters_size(limit_count, wanted);
    struct ration_counters *counters = NULL;

    assert_int_equal(ration_counters_init(stats_block(size), size, limit_count, wanted, &counters),
                     RATION_OK);
    return counters;
}

static void each_count_is_a_field_of_its_own(void **state)
{
    struct ration_counters *counters = make(LIMITS, shards);

    (void)state;
    for (uint32_t limit = 0; limit < LIMITS; limit++)
        for (uint32_t which = 0; which < RATION_LIMIT_COUNTS; which++)
            ration_counters_add(counters, limit, (enum ration_limit_count)which,
                                100 * (limit + 1) + which);
    for (uint32_t which = 0; which < RATION_LIMITER_COUNTS; which++)
        ration_counters_add_limiter(counters, (enum ration_limiter_count)which, 1000 + which);

    for (uint32_t limit = 0; limit < LIMITS; limit++) {
        struct ration_limit_stats stats = ration_counters_read(counters, limit);
        uint64_t first = 100 * (limit + 1);

        assert_int_equal(stats.allowed, first);
        assert_int_equal(stats.denied, first + 1);
        assert_int_equal(stats.never, first + 2);
        assert_int_equal(stats.errors, first + 3);
        assert_int_equal(stats.allowed_tokens, first + 4);
        assert_int_equal(stats.shadow_denied, first + 5);
    }

    struct ration_limiter_stats limiter = ration_counters_read_limiter(counters);

    assert_int_equal(limiter.overflow_shared, 1000);
    assert_int_equal(limiter.overflow_deny, 1001);
    assert_int_equal(limiter.overflow_allow, 1002);
    assert_int_equal(limiter.created, 1003);
    assert_int_equal(limiter.reclaimed, 1004);
    assert_int_equal(limiter.shadow_denied, 105 + 205 + 305);
    free(counters);
}

static void allowed_counts_one_and_its_tokens(void **state)
{
    struct ration_counters *counters = make(LIMITS, shards);
    struct ration_limit_stats stats;

    (void)state;
    ration_counters_add_allowed(counters, 1, 7);
    ration_counters_add_allowed(counters, 1, UINT64_C(1) << 40);
    stats = ration_counters_read(counters, 1);
    assert_int_equal(stats.allowed, 2);
    assert_int_equal(stats.allowed_tokens, 7 + (UINT64_C(1) << 40));
    assert_int_equal(ration_counters_read(counters, 0).allowed, 0);
    assert_int_equal(ration_counters_read(counters, 2).allowed, 0);
    free(counters);
}

/* Every thread's number, own or shared, in the first shard and in the last. */
static void all_numbers_of_threads_are_counted(void **state)
{
    const struct ration_shards shapes[] = {{2, 2}, {0, 1}, {16, 8}, {RATION_THREADS_MAX, 1024}};
    uint32_t own = ration_thread_index();

    (void)state;
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        struct ration_counters *counters = make(LIMITS, shapes[i]);

        for (uint32_t thread = 0; thread < 2 * RATION_THREADS_MAX; thread++) {
            ration_thread_index_known = thread + 1; /* as if this were that thread */
            ration_counters_add(counters, LIMITS - 1, RATION_COUNT_SHADOW_DENIED, 1);
            ration_counters_add_limiter(counters, RATION_COUNT_OVERFLOW_SHARED, 1);
        }
        ration_thread_index_known = own + 1;
        assert_int_equal(ration_counters_read(counters, LIMITS - 1).shadow_denied,
                         2 * RATION_THREADS_MAX);
        assert_int_equal(ration_counters_read_limiter(counters).overflow_shared,
                         2 * RATION_THREADS_MAX);
        free(counters);
    }
}

/* No other thread writes to an exclusive shard, whatever its number. */
static void an_exclusive_shard_has_one_writer(void **state)
{
    uint32_t own = ration_thread_index();

    (void)state;
    for (uint32_t thread = 0; thread < 2 * RATION_THREADS_MAX; thread++) {
        ration_thread_index_known = thread + 1;

        struct ration_shard mine = ration_shards_mine(&shards);

        assert_int_equal(mine.is_exclusive, thread < shards.exclusive_count);
        assert_int_equal(mine.is_exclusive, mine.index < shards.exclusive_count);
        assert_true(mine.is_exclusive ? mine.index == thread
                                      : mine.index < ration_shards_count(shards));
    }
    ration_thread_index_known = own + 1;
}

static void shards_for_processes_have_no_exclusive_ones(void **state)
{
    (void)state;
    assert_true(ration_shards_valid(ration_shards_private()));
    assert_true(ration_shards_private().exclusive_count >= 16);
    assert_true(ration_shards_valid(ration_shards_common()));
    assert_int_equal(ration_shards_common().exclusive_count, 0);
}

static void a_block_may_be_copied(void **state)
{
    struct ration_counters *counters = make(LIMITS, shards);
    size_t size = ration_counters_size(LIMITS, shards);
    struct ration_counters *copy = stats_block(size);

    (void)state;
    ration_counters_add(counters, 2, RATION_COUNT_DENIED, 5);
    memcpy(copy, counters, size);
    memset(counters, 0xff, size);
    free(counters);
    ration_counters_add(copy, 2, RATION_COUNT_DENIED, 1);
    assert_int_equal(ration_counters_read(copy, 2).denied, 6);
    free(copy);
}

static void what_is_out_of_bounds_is_refused(void **state)
{
    const struct ration_shards bad[] = {{1, 0}, {1, 3}, {RATION_THREADS_MAX + 1, 1}, {0, 2048}};
    size_t size = ration_counters_size(LIMITS, shards);
    unsigned char *block = stats_block(size + 1);
    struct ration_counters *out = (struct ration_counters *)(void *)block;
    struct ration_counters *before = out;

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(ration_counters_size(LIMITS, bad[i]), 0);
    assert_int_equal(ration_counters_size(0, shards), 0);
    assert_int_equal(ration_counters_size(RATION_COUNTERS_LIMITS_MAX + 1, shards), 0);
    assert_int_equal(ration_counters_init(block, size, LIMITS, bad[0], &out), RATION_EINVAL);
    assert_int_equal(ration_counters_init(block + 1, size, LIMITS, shards, &out), RATION_EINVAL);
    assert_int_equal(ration_counters_init(block, size - 1, LIMITS, shards, &out), RATION_ENOSPC);
    assert_ptr_equal(out, before);
    free(block);
}

static void a_limit_that_is_not_there_stops_the_program(void **state)
{
    struct ration_counters *counters = make(LIMITS, shards);
    int status = 0;
    pid_t child = fork();

    (void)state;
    if (child == 0) {
        signal(SIGILL, SIG_DFL);
        ration_counters_add(counters, LIMITS, RATION_COUNT_DENIED, 1);
        _exit(0);
    }
    waitpid(child, &status, 0);
    assert_true(status != 0);
    free(counters);
}

/* Rates --------------------------------------------------------------------------------- */

static void a_rate_is_in_parts_per_million(void **state)
{
    const struct {
        uint64_t allowed, denied;
        uint32_t ppm;
    } rows[] = {
        {0, 0, 0},
        {1, 0, 0},
        {0, 1, 1000000},
        {3, 1, 250000},
        {2, 1, 333333},
        {UINT64_MAX, 0, 0},
        {0, UINT64_MAX, 1000000},
        {UINT64_MAX, UINT64_MAX, 500000},
        {UINT64_MAX / 4 * 3, UINT64_MAX / 4, 250000},
        {UINT64_MAX, UINT64_MAX / 1000, 999},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct ration_limit_stats stats = {.allowed = rows[i].allowed, .denied = rows[i].denied};
        uint32_t ppm = ration_limit_stats_rejected_ppm(&stats);

        /* numbers near 2^64 are halved first, which may cost the last part */
        assert_in_range(ppm, rows[i].ppm - (rows[i].ppm > 0), rows[i].ppm);
    }
}

static void an_interval_is_the_difference_of_two_reads(void **state)
{
    const struct ration_limit_stats before = {10, 20, 30, 40, 50, 60, 70};
    const struct ration_limit_stats after = {13, 21, 35, 47, 61, 73, 87};
    struct ration_limit_stats lately = ration_limit_stats_since(&after, &before);
    const struct ration_limit_stats expected = {3, 1, 5, 7, 11, 13, 17};
    const struct ration_limiter_stats limiter_before = {1, 2, 3, 4, 5, 6};
    const struct ration_limiter_stats limiter_after = {2, 4, 6, 8, 10, 12};
    struct ration_limiter_stats limiter =
        ration_limiter_stats_since(&limiter_after, &limiter_before);

    (void)state;
    assert_memory_equal(&lately, &expected, sizeof(lately));
    assert_int_equal(ration_limit_stats_rejected_ppm(&lately), 250000);
    assert_memory_equal(&limiter, &limiter_before, sizeof(limiter));

    /* recreated in between: all counts are new */
    lately = ration_limit_stats_since(&before, &after);
    assert_memory_equal(&lately, &before, sizeof(lately));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_count_is_a_field_of_its_own),
        cmocka_unit_test(allowed_counts_one_and_its_tokens),
        cmocka_unit_test(all_numbers_of_threads_are_counted),
        cmocka_unit_test(an_exclusive_shard_has_one_writer),
        cmocka_unit_test(shards_for_processes_have_no_exclusive_ones),
        cmocka_unit_test(a_block_may_be_copied),
        cmocka_unit_test(what_is_out_of_bounds_is_refused),
        cmocka_unit_test(a_limit_that_is_not_there_stops_the_program),
        cmocka_unit_test(a_rate_is_in_parts_per_million),
        cmocka_unit_test(an_interval_is_the_difference_of_two_reads),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
