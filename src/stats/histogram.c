#include "stats/histogram.h"

#include <string.h>

#define SUB_COUNT (1u << RATION_HISTOGRAM_SUB_BITS)

/* Buckets ------------------------------------------------------------------------------- */

/* The position of the bucket's leading bits, from the right: its width is 2^shift. */
static uint32_t shift_of(uint32_t bucket)
{
    return bucket < 2 * SUB_COUNT ? 0 : bucket / SUB_COUNT - 1;
}

uint32_t ration_histogram_bucket(uint64_t ns)
{
    if (ns < SUB_COUNT)
        return (uint32_t)ns;
    if (ns >> RATION_HISTOGRAM_TOP_BITS != 0)
        return RATION_HISTOGRAM_BUCKETS - 1;

    uint32_t shift = 63u - (uint32_t)__builtin_clzll(ns) - RATION_HISTOGRAM_SUB_BITS;

    return shift * SUB_COUNT + (uint32_t)(ns >> shift);
}

uint64_t ration_histogram_lowest_ns(uint32_t bucket)
{
    uint32_t shift = shift_of(bucket);

    return (uint64_t)(bucket - shift * SUB_COUNT) << shift;
}

uint64_t ration_histogram_highest_ns(uint32_t bucket)
{
    return ration_histogram_lowest_ns(bucket) + (UINT64_C(1) << shift_of(bucket)) - 1;
}

/* The shared histogram ------------------------------------------------------------------ */

size_t ration_histogram_size(struct ration_shards shards)
{
    if (!ration_shards_valid(shards))
        return 0;
    return sizeof(struct ration_histogram) +
           ration_shards_count(shards) * sizeof(struct ration_histogram_counts);
}

ration_status ration_histogram_init(void *block, size_t block_size, struct ration_shards shards,
                                    struct ration_histogram **out_histogram)
{
    struct ration_histogram *histogram = block;
    size_t size = ration_histogram_size(shards);

    if (size == 0 || (uintptr_t)block % RATION_SHARD_ALIGN_BYTES != 0)
        return RATION_EINVAL;
    if (block_size < size)
        return RATION_ENOSPC;
    memset(block, 0, size);
    histogram->shards = shards;
    *out_histogram = histogram;
    return RATION_OK;
}

/* Exclusive shard or not: times above the longest so far are rare. */
static void raise_max(uint64_t *max_ns, uint64_t ns)
{
    uint64_t seen = __atomic_load_n(max_ns, __ATOMIC_RELAXED);

    while (ns > seen && !__atomic_compare_exchange_n(max_ns, &seen, ns, true, __ATOMIC_RELAXED,
                                                     __ATOMIC_RELAXED)) {
    }
}

void ration_histogram_record(struct ration_histogram *histogram, uint64_t ns)
{
    struct ration_shard shard = ration_shards_mine(&histogram->shards);
    struct ration_histogram_counts *counts =
        (struct ration_histogram_counts *)(void *)(histogram + 1) + shard.index;

    ration_shards_add(shard, &counts->sum_ns, ns);
    raise_max(&counts->max_ns, ns);
    ration_shards_add(shard, &counts->buckets[ration_histogram_bucket(ns)], 1);
}

/* Adds a shard that threads may be writing, or a copy that no thread writes. */
static void add_counts(struct ration_histogram_counts *counts,
                       const struct ration_histogram_counts *other)
{
    uint64_t max_ns = __atomic_load_n(&other->max_ns, __ATOMIC_RELAXED);

    counts->sum_ns += __atomic_load_n(&other->sum_ns, __ATOMIC_RELAXED);
    if (max_ns > counts->max_ns)
        counts->max_ns = max_ns;
    for (uint32_t i = 0; i < RATION_HISTOGRAM_BUCKETS; i++)
        counts->buckets[i] += __atomic_load_n(&other->buckets[i], __ATOMIC_RELAXED);
}

/* The bucket of the longest time; 0 if there is none. */
static uint32_t last_bucket(const struct ration_histogram_counts *counts)
{
    uint32_t bucket = RATION_HISTOGRAM_BUCKETS - 1;

    while (bucket > 0 && counts->buckets[bucket] == 0)
        bucket--;
    return bucket;
}

void ration_histogram_read(const struct ration_histogram *histogram,
                           struct ration_histogram_counts *out_counts)
{
    const struct ration_histogram_counts *shards =
        (const struct ration_histogram_counts *)(const void *)(histogram + 1);

    memset(out_counts, 0, sizeof(*out_counts));
    for (uint32_t i = 0; i < ration_shards_count(histogram->shards); i++)
        add_counts(out_counts, &shards[i]);

    /* A time recorded meanwhile may be in its bucket but not yet in the maximum read before. */
    uint64_t lowest_ns = ration_histogram_lowest_ns(last_bucket(out_counts));

    if (out_counts->max_ns < lowest_ns)
        out_counts->max_ns = lowest_ns;
}

/* The counts ---------------------------------------------------------------------------- */

static uint64_t total_of(const struct ration_histogram_counts *counts)
{
    uint64_t total = 0;

    for (uint32_t i = 0; i < RATION_HISTOGRAM_BUCKETS; i++)
        total += counts->buckets[i];
    return total;
}

/* ceil(total * ppm / 10^6), at least 1. In two parts, because the product may not fit. */
static uint64_t rank_of(uint64_t total, uint32_t ppm)
{
    uint64_t rest = total % RATION_PPM * ppm;
    uint64_t rank = total / RATION_PPM * ppm + (rest + RATION_PPM - 1) / RATION_PPM;

    return rank > 0 ? rank : 1;
}

uint64_t ration_histogram_percentile(const struct ration_histogram_counts *counts, uint32_t ppm)
{
    uint64_t total = total_of(counts);
    uint64_t rank = rank_of(total, ppm < RATION_PPM ? ppm : RATION_PPM);
    uint64_t seen = 0;

    if (total == 0)
        return 0;
    for (uint32_t i = 0; i < RATION_HISTOGRAM_BUCKETS - 1; i++) {
        uint64_t highest_ns = ration_histogram_highest_ns(i);

        seen += counts->buckets[i];
        if (seen >= rank)
            return highest_ns < counts->max_ns ? highest_ns : counts->max_ns;
    }
    return counts->max_ns;
}

struct ration_histogram_stats ration_histogram_summary(const struct ration_histogram_counts *counts)
{
    uint64_t total = total_of(counts);

    return (struct ration_histogram_stats){
        .count = total,
        .sum_ns = counts->sum_ns,
        .p50_ns = ration_histogram_percentile(counts, 500000),
        .p90_ns = ration_histogram_percentile(counts, 900000),
        .p99_ns = ration_histogram_percentile(counts, 990000),
        .p999_ns = ration_histogram_percentile(counts, 999000),
        .max_ns = total > 0 ? counts->max_ns : 0,
    };
}
