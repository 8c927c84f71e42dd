#include "load/load_histogram.h"

#include <string.h>

#define SUB_COUNT (1u << LOAD_HISTOGRAM_SUB_BITS)

/* The width of a bucket is 2^shift. */
static uint32_t bucket_shift(uint32_t bucket)
{
    return bucket < 2 * SUB_COUNT ? 0 : bucket / SUB_COUNT - 1;
}

static uint32_t find_bucket(uint64_t ns)
{
    if (ns < SUB_COUNT)
        return (uint32_t)ns;
    if (ns >> LOAD_HISTOGRAM_TOP_BITS != 0)
        return LOAD_HISTOGRAM_BUCKETS - 1;

    uint32_t shift = 63u - (uint32_t)__builtin_clzll(ns) - LOAD_HISTOGRAM_SUB_BITS;

    return shift * SUB_COUNT + (uint32_t)(ns >> shift);
}

static uint64_t bucket_max_ns(uint32_t bucket)
{
    uint32_t shift = bucket_shift(bucket);

    return ((uint64_t)(bucket - shift * SUB_COUNT + 1) << shift) - 1;
}

void load_histogram_record(struct load_histogram *histogram, uint64_t ns, uint64_t times_count)
{
    histogram->buckets[find_bucket(ns)] += times_count;
    histogram->count += times_count;
    histogram->sum_ns += (double)ns * (double)times_count;
    if (ns > histogram->max_ns && times_count > 0)
        histogram->max_ns = ns;
}

void load_histogram_add(struct load_histogram *histogram, const struct load_histogram *other)
{
    for (uint32_t i = 0; i < LOAD_HISTOGRAM_BUCKETS; i++)
        histogram->buckets[i] += other->buckets[i];
    histogram->count += other->count;
    histogram->sum_ns += other->sum_ns;
    if (other->max_ns > histogram->max_ns)
        histogram->max_ns = other->max_ns;
}

void load_histogram_correct(const struct load_histogram *histogram, uint64_t interval_ns,
                            struct load_histogram *out_corrected)
{
    memcpy(out_corrected, histogram, sizeof(*out_corrected));
    if (interval_ns == 0)
        return;
    for (uint32_t i = 0; i < LOAD_HISTOGRAM_BUCKETS; i++) {
        uint64_t times_count = histogram->buckets[i];
        uint64_t ns = bucket_max_ns(i) < histogram->max_ns ? bucket_max_ns(i) : histogram->max_ns;

        if (times_count == 0)
            continue;
        for (; ns >= 2 * interval_ns; ns -= interval_ns)
            load_histogram_record(out_corrected, ns - interval_ns, times_count);
    }
}

/*
 * ceil(total * ppm / 10^6), but at least 1. Computed in two parts, because the product may
 * overflow.
 */
static uint64_t percentile_rank(uint64_t total, uint32_t ppm)
{
    uint64_t rest = total % LOAD_PPM * ppm;
    uint64_t rank = total / LOAD_PPM * ppm + (rest + LOAD_PPM - 1) / LOAD_PPM;

    return rank > 0 ? rank : 1;
}

uint64_t load_histogram_percentile(const struct load_histogram *histogram, uint32_t ppm)
{
    uint64_t rank = percentile_rank(histogram->count, ppm < LOAD_PPM ? ppm : LOAD_PPM);
    uint64_t seen = 0;

    for (uint32_t i = 0; i < LOAD_HISTOGRAM_BUCKETS - 1; i++) {
        seen += histogram->buckets[i];
        if (seen >= rank)
            return bucket_max_ns(i) < histogram->max_ns ? bucket_max_ns(i) : histogram->max_ns;
    }
    return histogram->max_ns;
}

uint64_t load_histogram_count_between(const struct load_histogram *histogram, uint64_t from_ns,
                                      uint64_t to_ns)
{
    uint64_t count = 0;
    uint32_t end = to_ns == UINT64_MAX ? LOAD_HISTOGRAM_BUCKETS : find_bucket(to_ns);

    for (uint32_t i = find_bucket(from_ns); i < end; i++)
        count += histogram->buckets[i];
    return count;
}
