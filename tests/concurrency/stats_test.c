/*
 * Many threads count events and times while one reads: no count is lost. The control loses some, and must be caught.
 */
#include <inttypes.h>
#include <pthread.h>

#include "stats/counters.h"
#include "stats/histogram.h"
#include "support/stats_keys.h"
#include "support/stats_race.h"
#include "support/unit.h"

#define ADD_COUNT      (400000u / THREADS_SHARE)
#define DUEL_ADD_COUNT 1000u
#define GUEST_COUNT    (600u / THREADS_SHARE)

/* Counters ------------------------------------------------------------------------------ */

struct counting {
    struct ration_counters *counters;
    uint64_t last_denied; /* the reader's */
    bool is_wrong;
};

static struct ration_counters *make_counters(struct ration_shards shards)
{
    size_t size = ration_counters_size(2, shards);
    struct ration_counters *counters = NULL;

    assert_int_equal(ration_counters_init(stats_block(size), size, 2, shards, &counters),
                     RATION_OK);
    return counters;
}

static void count_often(void *context, unsigned thread_index)
{
    struct counting *counting = context;

    (void)thread_index;
    for (uint32_t i = 0; i < ADD_COUNT; i++) {
        ration_counters_add(counting->counters, 0, RATION_COUNT_DENIED, 1);
        ration_counters_add_allowed(counting->counters, 1, 3);
    }
    ration_counters_add_limiter(counting->counters, RATION_COUNT_CREATED, 1);
}

static void read_counters(void *context)
{
    struct counting *counting = context;
    uint64_t denied = ration_counters_read(counting->counters, 0).denied;

    counting->is_wrong |= denied < counting->last_denied || denied > WRITER_COUNT * ADD_COUNT;
    counting->last_denied = denied;
}

static void no_count_is_lost_and_none_ever_decreases(void **state)
{
    /* all threads have a shard of their own, some, and none */
    const struct ration_shards shapes[] = {{16, 8}, {4, 2}, {0, 1}};

    (void)state;
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        struct counting counting = {.counters = make_counters(shapes[i])};

        race_run(count_often, read_counters, &counting);

        struct ration_limit_stats stats = ration_counters_read(counting.counters, 1);

        assert_false(counting.is_wrong);
        assert_int_equal(ration_counters_read(counting.counters, 0).denied,
                         WRITER_COUNT * ADD_COUNT);
        assert_int_equal(stats.allowed, WRITER_COUNT * ADD_COUNT);
        assert_int_equal(stats.allowed_tokens, 3 * WRITER_COUNT * ADD_COUNT);
        assert_int_equal(ration_counters_read_limiter(counting.counters).created, WRITER_COUNT);
        free(counting.counters);
    }
}

/* Two threads add to one counter at the same time, in many short rounds. */
struct duel {
    _Alignas(THREADS_LINE_BYTES) uint64_t count;
    struct ration_shard shard;
};

static void start_at_zero(void *context)
{
    struct duel *duel = context;

    __atomic_store_n(&duel->count, 0, __ATOMIC_RELAXED);
}

static uint64_t add_often(void *context, unsigned thread_index)
{
    struct duel *duel = context;

    (void)thread_index;
    for (unsigned i = 0; i < DUEL_ADD_COUNT; i++)
        ration_shards_add(duel->shard, &duel->count, 1);
    return DUEL_ADD_COUNT;
}

static bool is_all_there(void *context, uint64_t total)
{
    const struct duel *duel = context;

    return __atomic_load_n(&duel->count, __ATOMIC_RELAXED) == total;
}

/* Rounds in which counts were lost, with a shard that is shared or wrongly treated as exclusive. */
static struct totals duel_rounds(bool is_exclusive)
{
    struct duel duel = {.shard = {0, is_exclusive}};

    return rounds_run(&(struct rounds){
        .thread_count = 2,
        .round_count = 5000 / THREADS_SHARE,
        .context = &duel,
        .prepare = start_at_zero,
        .play = add_often,
        .holds = is_all_there,
    });
}

static void two_threads_lose_nothing_in_a_shared_shard(void **state)
{
    (void)state;
    assert_int_equal(duel_rounds(false).bad_count, 0);
}

static void two_threads_in_an_exclusive_shard_are_caught(void **state)
{
    struct totals totals = {0, 0};

    (void)state;
    for (unsigned i = 0; i < CONTROL_TRIES_MAX && totals.bad_count * 10 <= totals.round_count;
         i++) {
        totals = duel_rounds(true);
        print_message("  control: counts lost in %" PRIu64 " of %" PRIu64 " rounds\n",
                      totals.bad_count, totals.round_count);
        if (!is_control_sure())
            return;
    }
    assert_true(totals.bad_count * 10 > totals.round_count);
}

/* Threads that start and end, so that shards get new owners ----------------------------- */

static void *count_and_exit(void *context)
{
    for (unsigned i = 0; i < 100; i++)
        ration_counters_add(context, 0, RATION_COUNT_DENIED, 1);
    return NULL;
}

static void start_threads(void *context, unsigned thread_index)
{
    struct counting *counting = context;

    (void)thread_index;
    for (unsigned i = 0; i < GUEST_COUNT; i++) {
        pthread_t guest;

        if (pthread_create(&guest, NULL, count_and_exit, counting->counters) != 0)
            return;
        pthread_join(guest, NULL);
    }
}

static void no_count_is_lost_when_threads_start_and_end(void **state)
{
    struct counting counting = {.counters = make_counters((struct ration_shards){12, 2})};

    (void)state;
    race_run(start_threads, read_counters, &counting);
    assert_int_equal(ration_counters_read(counting.counters, 0).denied,
                     WRITER_COUNT * GUEST_COUNT * 100);
    assert_false(counting.is_wrong);
    free(counting.counters);
}

/* Histogram ----------------------------------------------------------------------------- */

static void record_often(void *context, unsigned thread_index)
{
    for (uint32_t i = 0; i < ADD_COUNT; i++)
        ration_histogram_record(context, 100 + i % 1000 + thread_index);
}

static void read_histogram(void *context)
{
    struct ration_histogram_counts counts;

    ration_histogram_read(context, &counts);
    ration_histogram_summary(&counts);
}

static void no_time_is_lost(void **state)
{
    const struct ration_shards shards = {3, 2};
    size_t size = ration_histogram_size(shards);
    struct ration_histogram *histogram = NULL;
    struct ration_histogram_counts counts;

    (void)state;
    assert_int_equal(ration_histogram_init(stats_block(size), size, shards, &histogram), RATION_OK);
    race_run(record_often, read_histogram, histogram);
    ration_histogram_read(histogram, &counts);
    assert_int_equal(ration_histogram_summary(&counts).count, WRITER_COUNT * ADD_COUNT);
    assert_int_equal(ration_histogram_summary(&counts).max_ns, 1099 + WRITER_COUNT - 1);
    free(histogram);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_count_is_lost_and_none_ever_decreases),
        cmocka_unit_test(two_threads_lose_nothing_in_a_shared_shard),
        cmocka_unit_test(two_threads_in_an_exclusive_shard_are_caught),
        cmocka_unit_test(no_count_is_lost_when_threads_start_and_end),
        cmocka_unit_test(no_time_is_lost),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
