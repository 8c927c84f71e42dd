/*
 * histogram: latencies from 1 ns to 68 s, with a precision of three digits.
 *
 * Each power of two is divided into 2048 buckets of equal width, so the width of a bucket is at
 * most 1/2048 of its values (below 4 us it is one nanosecond). This is the layout of HdrHistogram.
 * Histograms are not shared: each thread has its own, and they are added at the end.
 */
#ifndef RATION_LOAD_LOAD_HISTOGRAM_H
#define RATION_LOAD_LOAD_HISTOGRAM_H

#include <stdint.h>

#define LOAD_HISTOGRAM_SUB_BITS 11u
#define LOAD_HISTOGRAM_TOP_BITS 36u /* longer times are counted in the last bucket */
#define LOAD_HISTOGRAM_BUCKETS \
    ((LOAD_HISTOGRAM_TOP_BITS - LOAD_HISTOGRAM_SUB_BITS + 1) << LOAD_HISTOGRAM_SUB_BITS)

#define LOAD_PPM 1000000u

/* All zero bytes: an empty histogram. */
struct load_histogram {
    uint64_t count;
    uint64_t max_ns;
    double sum_ns;
    uint64_t buckets[LOAD_HISTOGRAM_BUCKETS];
};

void load_histogram_record(struct load_histogram *histogram, uint64_t ns, uint64_t times_count);

void load_histogram_add(struct load_histogram *histogram, const struct load_histogram *other);

/*
 * Adds the requests that a closed loop did not send (coordinated omission). A request that took
 * longer than the usual interval between requests of a connection delayed others, which would have
 * waited for the remaining time. For each time t, adds t - interval, t - 2 intervals, ... down to
 * the interval. Writes to *out_corrected, which must be another histogram. An interval of 0 only
 * copies.
 */
void load_histogram_correct(const struct load_histogram *histogram, uint64_t interval_ns,
                            struct load_histogram *out_corrected);

/*
 * Returns the time that ppm parts per million of the recorded times did not exceed (500000: the
 * median), at most 1/2048 above the exact value and never below it; 0 if nothing was recorded.
 */
uint64_t load_histogram_percentile(const struct load_histogram *histogram, uint32_t ppm);

/*
 * The number of times from from_ns up to but not including to_ns, with the precision of a bucket.
 */
uint64_t load_histogram_count_between(const struct load_histogram *histogram, uint64_t from_ns,
                                      uint64_t to_ns);

#endif
