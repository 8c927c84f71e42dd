/* Times against the same times in a sorted array, and the sampler that picks which to take. */
#include "stats/histogram.h"

#include <stdio.h>
#include <string.h>

#include "stats/sampler.h"
#include "support/stats_keys.h"
#include "support/unit.h"

#define TIMES_COUNT 20000u

static const struct ration_shards shards = {2, 1};

static struct ration_histogram *make(void)
{
    size_t size = ration_histogram_size(shards);
    struct ration_histogram *histogram = NULL;

    assert_int_equal(ration_histogram_init(stats_block(size), size, shards, &histogram), RATION_OK);
    return histogram;
}

/* Records on behalf of several threads, and returns the sum of what they recorded. */
static struct ration_histogram_counts counted(const uint64_t *times, size_t count)
{
    struct ration_histogram *histogram = make();
    struct ration_histogram_counts counts;
    uint32_t own = ration_thread_index();

    for (size_t i = 0; i < count; i++) {
        ration_thread_index_known = (uint32_t)(i % 5) + 1;
        ration_histogram_record(histogram, times[i]);
    }
    ration_thread_index_known = own + 1;
    ration_histogram_read(histogram, &counts);
    free(histogram);
    return counts;
}

/* Buckets ------------------------------------------------------------------------------- */

static void buckets_meet_without_gaps_and_are_at_most_a_32nd_wide(void **state)
{
    (void)state;
    assert_int_equal(ration_histogram_lowest_ns(0), 0);
    for (uint32_t i = 0; i < RATION_HISTOGRAM_BUCKETS; i++) {
        uint64_t lowest = ration_histogram_lowest_ns(i);
        uint64_t highest = ration_histogram_highest_ns(i);

        assert_int_equal(ration_histogram_bucket(lowest), i);
        assert_int_equal(ration_histogram_bucket(highest), i);
        assert_true((highest - lowest) * 32 <= lowest);
        if (i + 1 < RATION_HISTOGRAM_BUCKETS)
            assert_int_equal(ration_histogram_lowest_ns(i + 1), highest + 1);
        else
            assert_int_equal(highest, (UINT64_C(1) << RATION_HISTOGRAM_TOP_BITS) - 1);
    }
    assert_int_equal(ration_histogram_bucket(UINT64_MAX), RATION_HISTOGRAM_BUCKETS - 1);
}

static uint64_t median_of(uint64_t ns)
{
    const uint64_t times[] = {ns, ns, ns, 1000000};
    struct ration_histogram_counts counts = counted(times, 4);

    return ration_histogram_percentile(&counts, 500000);
}

static void times_that_differ_are_reported_apart(void **state)
{
    (void)state;
    assert_in_range(median_of(200), 200, 206);
    assert_in_range(median_of(4000), 4000, 4125);
    assert_in_range(median_of(4200), 4200, 4331);
    assert_true(median_of(4000) < median_of(4200));
    assert_true(median_of(10) < median_of(11));
}

/* Percentiles --------------------------------------------------------------------------- */

static int compare(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a;
    uint64_t right = *(const uint64_t *)b;

    return (left > right) - (left < right);
}

/* The number of percentiles of the counts that differ from those of the times by more than a 32nd above. */
static unsigned wrong_percentiles(const struct ration_histogram_counts *counts, uint64_t *times,
                                  size_t count)
{
    unsigned wrong = 0;

    qsort(times, count, sizeof(times[0]), compare);
    for (uint32_t ppm = 0; ppm <= RATION_PPM; ppm += 250) {
        uint64_t rank = ((uint64_t)count * ppm + RATION_PPM - 1) / RATION_PPM;
        uint64_t exact = times[rank > 0 ? rank - 1 : 0];
        uint64_t reported = ration_histogram_percentile(counts, ppm);

        wrong += reported < exact || (reported - exact) * 32 > exact;
    }
    return wrong;
}

/* Times of every size, most of them short. */
static void random_times(uint64_t *times, uint64_t *random)
{
    for (size_t i = 0; i < TIMES_COUNT; i++)
        times[i] = ration_random_next(random) >> (31 + ration_random_next(random) % 33);
}

static void percentiles_are_those_of_the_sorted_times(void **state)
{
    static uint64_t times[TIMES_COUNT];
    uint64_t random = 1;

    (void)state;
    for (unsigned round = 0; round < 10; round++) {
        random_times(times, &random);

        size_t count = round == 0 ? 1 : TIMES_COUNT - round;
        struct ration_histogram_counts counts = counted(times, count);
        struct ration_histogram_stats stats = ration_histogram_summary(&counts);
        uint64_t sum = 0;

        assert_int_equal(wrong_percentiles(&counts, times, count), 0);
        for (size_t i = 0; i < count; i++)
            sum += times[i];
        assert_int_equal(stats.count, count);
        assert_int_equal(stats.sum_ns, sum);
        assert_int_equal(stats.max_ns, times[count - 1]);
        assert_int_equal(stats.p50_ns, ration_histogram_percentile(&counts, 500000));
        assert_int_equal(stats.p90_ns, ration_histogram_percentile(&counts, 900000));
        assert_int_equal(stats.p99_ns, ration_histogram_percentile(&counts, 990000));
        assert_int_equal(stats.p999_ns, ration_histogram_percentile(&counts, 999000));
    }
}

/* The control: with 16 buckets per power of two the check above must find the error. */
static void buckets_of_a_16th_are_caught(void **state)
{
    static uint64_t times[TIMES_COUNT];
    uint64_t random = 1;

    (void)state;
    random_times(times, &random);

    struct ration_histogram_counts counts = counted(times, TIMES_COUNT);

    for (uint32_t i = 0; i < RATION_HISTOGRAM_BUCKETS; i += 2) {
        counts.buckets[i + 1] += counts.buckets[i];
        counts.buckets[i] = 0;
    }
    assert_true(wrong_percentiles(&counts, times, TIMES_COUNT) > 100);
}

static void nothing_recorded_is_all_zero(void **state)
{
    struct ration_histogram_counts counts = counted(NULL, 0);
    struct ration_histogram_stats stats = ration_histogram_summary(&counts);
    const struct ration_histogram_stats zero = {0};

    (void)state;
    assert_memory_equal(&stats, &zero, sizeof(stats));
}

static void longer_than_the_last_bucket_is_the_longest(void **state)
{
    const uint64_t times[] = {1, UINT64_C(1) << 40, (UINT64_C(1) << 40) + 5};
    struct ration_histogram_counts counts = counted(times, 3);

    (void)state;
    assert_int_equal(ration_histogram_percentile(&counts, 500000), (UINT64_C(1) << 40) + 5);
    assert_int_equal(ration_histogram_summary(&counts).max_ns, (UINT64_C(1) << 40) + 5);
    assert_int_equal(ration_histogram_percentile(&counts, 1), 1);
    assert_int_equal(ration_histogram_percentile(&counts, UINT32_MAX), (UINT64_C(1) << 40) + 5);
}

/* A time that another thread has added to its bucket, but not to the maximum yet. */
static void a_time_half_recorded_is_no_longer_than_the_longest(void **state)
{
    struct ration_histogram *histogram = make();
    struct ration_histogram_counts *shard = (struct ration_histogram_counts *)(histogram + 1);
    struct ration_histogram_counts counts;

    (void)state;
    shard->buckets[ration_histogram_bucket(4000)] = 1;
    ration_histogram_read(histogram, &counts);
    assert_int_equal(ration_histogram_summary(&counts).max_ns, 3968);
    assert_int_equal(ration_histogram_summary(&counts).p50_ns, 3968);
    free(histogram);
}

/* The sampler --------------------------------------------------------------------------- */

static struct ration_sampler *make_sampler(uint32_t one_in)
{
    size_t size = ration_sampler_size(shards);
    struct ration_sampler *sampler = NULL;

    assert_int_equal(ration_sampler_init(stats_block(size), size, one_in, shards, &sampler),
                     RATION_OK);
    return sampler;
}

static void each_run_of_n_calls_has_one_pick(void **state)
{
    const uint32_t ns[] = {1, 2, 3, 7, 8, 60, 64, 100, 1024};

    (void)state;
    for (size_t i = 0; i < sizeof(ns) / sizeof(ns[0]); i++) {
        struct ration_sampler *sampler = make_sampler(ns[i]);

        for (uint32_t run = 0; run < 200; run++) {
            uint32_t picks = 0;

            for (uint32_t call = 0; call < ns[i]; call++)
                picks += ration_sampler_due(sampler);
            assert_int_equal(picks, 1);
        }
        free(sampler);
    }
}

/* In batches as long as a run each position is picked once in N runs; with every N-th call it would always be the same. */
static void no_place_in_a_batch_is_left_out(void **state)
{
    struct ration_sampler *sampler = make_sampler(64);
    uint32_t picks[64] = {0};

    (void)state;
    for (uint32_t call = 0; call < 64 * 64; call++)
        picks[call % 64] += ration_sampler_due(sampler);
    for (uint32_t i = 0; i < 64; i++)
        assert_int_equal(picks[i], 1);
    free(sampler);
}

static void what_is_out_of_bounds_is_refused(void **state)
{
    const struct ration_shards bad = {1, 3};
    size_t size = ration_histogram_size(shards);
    unsigned char *block = stats_block(size);
    struct ration_histogram *histogram = NULL;
    struct ration_sampler *sampler = NULL;

    (void)state;
    assert_int_equal(ration_histogram_size(bad), 0);
    assert_int_equal(ration_histogram_init(block, size, bad, &histogram), RATION_EINVAL);
    assert_int_equal(ration_histogram_init(block + 64, size, shards, &histogram), RATION_EINVAL);
    assert_int_equal(ration_histogram_init(block, size - 1, shards, &histogram), RATION_ENOSPC);
    assert_null(histogram);
    assert_int_equal(ration_sampler_size(bad), 0);
    assert_int_equal(ration_sampler_init(block, size, 0, shards, &sampler), RATION_EINVAL);
    assert_int_equal(ration_sampler_init(block, 128, 64, shards, &sampler), RATION_ENOSPC);
    assert_int_equal(
        ration_sampler_init(block, size, RATION_SAMPLER_ONE_IN_MAX + 1, shards, &sampler),
        RATION_EINVAL);
    assert_null(sampler);
    free(block);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buckets_meet_without_gaps_and_are_at_most_a_32nd_wide),
        cmocka_unit_test(times_that_differ_are_reported_apart),
        cmocka_unit_test(percentiles_are_those_of_the_sorted_times),
        cmocka_unit_test(buckets_of_a_16th_are_caught),
        cmocka_unit_test(nothing_recorded_is_all_zero),
        cmocka_unit_test(longer_than_the_last_bucket_is_the_longest),
        cmocka_unit_test(a_time_half_recorded_is_no_longer_than_the_longest),
        cmocka_unit_test(each_run_of_n_calls_has_one_pick),
        cmocka_unit_test(no_place_in_a_batch_is_left_out),
        cmocka_unit_test(what_is_out_of_bounds_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
