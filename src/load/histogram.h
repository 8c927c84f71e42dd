/*
 * histogram: latencies from 1 ns to 68 s, to three digits.
 *
 * Each power of two is cut into 2048 buckets of equal width, so a bucket is at most 1/2048 of its
 * values wide (below 4 us it is one nanosecond). This is the layout of HdrHistogram. Not shared:
 * each thread has its own, and they are added up in the end.
 */
#ifndef RATION_LOAD_HISTOGRAM_H
#define RATION_LOAD_HISTOGRAM_H

#include <stdint.h>

#define LOAD_HISTOGRAM_SUB_BITS 11u
#define LOAD_HISTOGRAM_TOP_BITS 36u /* longer times fall into the last bucket */
#define LOAD_HISTOGRAM_BUCKETS \
    ((LOAD_HISTOGRAM_TOP_BITS - LOAD_HISTOGRAM_SUB_BITS + 1) << LOAD_HISTOGRAM_SUB_BITS)

#define LOAD_PPM 1000000u

/* All zero bytes are an empty one. */
struct load_histogram {
    uint64_t count;
    uint64_t max_ns;
    double sum_ns;
    uint64_t buckets[LOAD_HISTOGRAM_BUCKETS];
};

void load_histogram_record(struct load_histogram *histogram, uint64_t ns, uint64_t times_count);

void load_histogram_add(struct load_histogram *histogram, const struct load_histogram *other);

/*
 * Fills in what a closed loop did not ask: a request that took longer than the interval at which a
 * connection usually asks kept others from being sent, which would have waited for the rest of
 * it. For each time t adds t - interval, t - 2 intervals, ... down to the interval. Writes to
 * *out_corrected, which is another histogram. An interval of 0 only copies.
 */
void load_histogram_correct(const struct load_histogram *histogram, uint64_t interval_ns,
                            struct load_histogram *out_corrected);

/*
 * The time that ppm parts per million of those recorded did not exceed (500000: the median), at
 * most 1/2048 above the exact one and never below it; 0 if nothing was recorded.
 */
uint64_t load_histogram_percentile(const struct load_histogram *histogram, uint32_t ppm);

/* How many fell from from_ns on and below to_ns, to the width of a bucket. */
uint64_t load_histogram_count_between(const struct load_histogram *histogram, uint64_t from_ns,
                                      uint64_t to_ns);

#endif
