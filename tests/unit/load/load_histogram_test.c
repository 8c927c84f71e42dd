/*
 * Percentiles against a sorted list, the three digits, and what correction adds.
 */
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "load/load_histogram.h"
#include "support/unit.h"

#define TIMES_COUNT 20000

static struct load_histogram histogram;
static struct load_histogram corrected;

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

static void record(const uint64_t *times_ns, size_t count)
{
    memset(&histogram, 0, sizeof(histogram));
    for (size_t i = 0; i < count; i++)
        load_histogram_record(&histogram, times_ns[i], 1);
}

static void check_percentile(const uint64_t *sorted, size_t count, uint32_t ppm)
{
    size_t rank = (size_t)(((uint64_t)count * ppm + LOAD_PPM - 1) / LOAD_PPM);
    uint64_t exact_ns = sorted[rank > 0 ? rank - 1 : 0];
    uint64_t found_ns = load_histogram_percentile(&histogram, ppm);

    assert_true(found_ns >= exact_ns);
    assert_true(found_ns <= exact_ns + exact_ns / 2048);
}

static void percentiles_are_those_of_the_sorted_list(void **state)
{
    static uint64_t times_ns[TIMES_COUNT];
    uint64_t seed = 1;

    (void)state;
    for (unsigned bits = 4; bits <= 35; bits++) {
        for (size_t i = 0; i < TIMES_COUNT; i++)
            times_ns[i] = ration_random_up_to(&seed, (UINT64_C(1) << bits) - 1);
        record(times_ns, TIMES_COUNT);
        qsort(times_ns, TIMES_COUNT, sizeof(times_ns[0]), compare);
        for (uint32_t ppm = 0; ppm < LOAD_PPM; ppm += 12345)
            check_percentile(times_ns, TIMES_COUNT, ppm);
        check_percentile(times_ns, TIMES_COUNT, 999900);
        check_percentile(times_ns, TIMES_COUNT, LOAD_PPM);
        assert_int_equal(load_histogram_percentile(&histogram, LOAD_PPM), histogram.max_ns);
    }
}

static void small_times_are_exact(void **state)
{
    (void)state;
    for (uint64_t ns = 0; ns < 4096; ns++) {
        record(&ns, 1);
        assert_int_equal(load_histogram_percentile(&histogram, 1), ns);
        assert_int_equal(load_histogram_count_between(&histogram, ns, ns + 1), 1);
    }
}

static void a_minute_fits_and_more_is_kept_as_the_maximum(void **state)
{
    uint64_t times_ns[] = {UINT64_C(60000000000), UINT64_MAX};

    (void)state;
    record(times_ns, 2);
    assert_in_range(load_histogram_percentile(&histogram, 500000), times_ns[0],
                    times_ns[0] + times_ns[0] / 2048);
    assert_true(load_histogram_percentile(&histogram, LOAD_PPM) == UINT64_MAX);
}

static void nothing_recorded_is_zero(void **state)
{
    (void)state;
    memset(&histogram, 0, sizeof(histogram));
    assert_int_equal(load_histogram_percentile(&histogram, 990000), 0);
    load_histogram_record(&histogram, 5, 0);
    assert_int_equal(histogram.count, 0);
    assert_int_equal(histogram.max_ns, 0);
}

static void times_add_up(void **state)
{
    uint64_t first_ns = 100;
    uint64_t second_ns = 2000;

    (void)state;
    record(&first_ns, 1);
    corrected = histogram;
    record(&second_ns, 1);
    load_histogram_add(&corrected, &histogram);
    load_histogram_record(&corrected, 300, 2);
    assert_int_equal(corrected.count, 4);
    assert_int_equal(corrected.max_ns, 2000);
    assert_int_equal((uint64_t)corrected.sum_ns, 2700);
    assert_int_equal(load_histogram_percentile(&corrected, 250000), 100);
    assert_int_equal(load_histogram_percentile(&corrected, 750000), 300);
}

/* Asked every 100, one answer took 1000: nine others would have waited 900, 800, ... 100. */
static void correction_adds_those_who_were_not_asked(void **state)
{
    uint64_t times_ns[] = {100, 100, 1000};

    (void)state;
    record(times_ns, 3);
    load_histogram_correct(&histogram, 100, &corrected);
    assert_int_equal(corrected.count, 3 + 9);
    for (uint64_t ns = 200; ns <= 1000; ns += 100)
        assert_int_equal(load_histogram_count_between(&corrected, ns, ns + 1), 1);
    assert_int_equal(load_histogram_count_between(&corrected, 100, 101), 3);
    assert_int_equal(corrected.max_ns, 1000);

    load_histogram_correct(&histogram, 0, &corrected);
    assert_int_equal(corrected.count, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(percentiles_are_those_of_the_sorted_list),
        cmocka_unit_test(small_times_are_exact),
        cmocka_unit_test(a_minute_fits_and_more_is_kept_as_the_maximum),
        cmocka_unit_test(nothing_recorded_is_zero),
        cmocka_unit_test(times_add_up),
        cmocka_unit_test(correction_adds_those_who_were_not_asked),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
