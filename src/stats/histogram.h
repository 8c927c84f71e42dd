/*
 * histogram: counts durations from 1 ns to 17 s, with an error of 3 %.
 *
 * Each power of two is divided into 32 buckets of equal width, so a bucket is at most 1/32 of its
 * values wide. Below 64 ns each bucket is one nanosecond:
 *
 *     200 ns    [200, 203]         bucket 114
 *     4.0 us    [3968, 4031]       bucket 254
 *     4.2 us    [4096, 4223]       bucket 256
 *
 * The leading six bits of a time select its bucket: two shifts and an addition, no search. Buckets
 * are counted in shards (stats/shards.h), which a read adds up. Any thread may record and any may
 * read, at any time. The caller decides when to record; see stats/sampler.h.
 */
#ifndef RATION_STATS_HISTOGRAM_H
#define RATION_STATS_HISTOGRAM_H

#include "ration/stats.h"
#include "ration/status.h"
#include "stats/shards.h"

#define RATION_HISTOGRAM_SUB_BITS 5u  /* 32 buckets per power of two */
#define RATION_HISTOGRAM_TOP_BITS 34u /* times from 2^34 ns on are in the last bucket */
#define RATION_HISTOGRAM_BUCKETS \
    ((RATION_HISTOGRAM_TOP_BITS - RATION_HISTOGRAM_SUB_BITS + 1) << RATION_HISTOGRAM_SUB_BITS)

#define RATION_PPM 1000000u

/* The header of a block without pointers, only read after init; the shards follow it. */
struct ration_histogram {
    _Alignas(RATION_SHARD_ALIGN_BYTES) struct ration_shards shards;
};

/* The counts of a histogram: one shard of the block, or the sum of several. */
struct ration_histogram_counts {
    _Alignas(RATION_SHARD_ALIGN_BYTES) uint64_t sum_ns;
    uint64_t max_ns;
    uint64_t buckets[RATION_HISTOGRAM_BUCKETS];
};

/* Returns the bytes that a histogram needs; 0 if the shards are not valid. */
size_t ration_histogram_size(struct ration_shards shards);

/*
 * Initialises an empty histogram in a block aligned to RATION_SHARD_ALIGN_BYTES. The histogram is
 * the block, may be copied with it, and needs no release. Returns RATION_EINVAL (shards not valid,
 * block not aligned) or RATION_ENOSPC.
 */
ration_status ration_histogram_init(void *block, size_t block_size, struct ration_shards shards,
                                    struct ration_histogram **out_histogram);

/* Counts one time. Lock-free. */
void ration_histogram_record(struct ration_histogram *histogram, uint64_t ns);

/* Reads the sum of all shards. */
void ration_histogram_read(const struct ration_histogram *histogram,
                           struct ration_histogram_counts *out_counts);

/*
 * Returns the time that ppm parts per million of the recorded times did not exceed (500000: the
 * median), at most 1/32 above the exact one and never below it; 0 if nothing was recorded.
 */
uint64_t ration_histogram_percentile(const struct ration_histogram_counts *counts, uint32_t ppm);

/* Returns the usual percentiles. */
struct ration_histogram_stats ration_histogram_summary(
    const struct ration_histogram_counts *counts);

/* The bucket of a time, and the shortest and longest time of a bucket. */
uint32_t ration_histogram_bucket(uint64_t ns);
uint64_t ration_histogram_lowest_ns(uint32_t bucket);
uint64_t ration_histogram_highest_ns(uint32_t bucket);

#endif
