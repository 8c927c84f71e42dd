/*
 * limiter_counts: the statistics of a limiter's decisions.
 */
#ifndef RATION_LIMITER_LIMITER_COUNTS_H
#define RATION_LIMITER_LIMITER_COUNTS_H

#include "base/hash.h"
#include "limiter/op.h"
#include "stats/counters.h"
#include "stats/histogram.h"
#include "stats/sampler.h"
#include "stats/top_keys.h"

#define RATION_NEAR_LIMIT_ONE_IN 5u

struct ration_limiter_counts {
    struct ration_counters *counters;
    struct ration_sampler *latency_sampler; /* NULL: latency is not sampled */
    struct ration_histogram *latency;
    struct ration_top_keys *top_denied; /* NULL: the limiter does not track top keys */
    struct ration_top_keys *top_cost;
    struct ration_sampler *cost_sampler;
    struct ration_top_keys_shape top_shape;
    struct ration_hash_secret *secret; /* secret of the hashes of top keys */
    void *block;                       /* the memory that contains all of the above */
    size_t block_bytes;
};

/* Returns RATION_ENOMEM, RATION_EINVAL (too many top keys). Release: ration_limiter_counts_done(). */
ration_status ration_limiter_counts_init(struct ration_limiter_counts *counts, uint32_t rule_count,
                                         const struct ration_limiter_options *options);
void ration_limiter_counts_done(struct ration_limiter_counts *counts);

/* Counts the key of a denial. */
void ration_limiter_counts_add_denied_key(struct ration_limiter_counts *counts,
                                          struct ration_key key);

/* Counts the tokens that a key took, sampled. */
void ration_limiter_counts_add_key_cost(struct ration_limiter_counts *counts, struct ration_key key,
                                        uint64_t cost_tokens);

/* Counts the slot that an op of any kind created or reclaimed. */
void ration_limiter_counts_add_created(struct ration_limiter_counts *counts,
                                       const struct ration_key_part *part);

/* Counts one limiter's part of a decided op: takes only. */
void ration_limiter_counts_add_result(struct ration_limiter_counts *counts,
                                      const struct ration_op *op,
                                      const struct ration_key_part *part);

/* Counts an op that could not be decided. */
void ration_limiter_counts_add_error(struct ration_limiter_counts *counts, uint32_t rule_count);

/* Whether less than a fifth of the burst is left. */
static inline bool ration_limiter_counts_is_near_limit(const struct ration_decision *decision)
{
    uint64_t limit = decision->limit;

    return decision->remaining <
           limit / RATION_NEAR_LIMIT_ONE_IN + (limit % RATION_NEAR_LIMIT_ONE_IN != 0);
}

/* Samples one decision in 64 for the latency histogram. Returns its start time, or 0 if it is not sampled. */
static inline uint64_t ration_limiter_counts_begin(struct ration_limiter_counts *counts)
{
    if (counts->latency_sampler == NULL || !ration_sampler_due(counts->latency_sampler))
        return 0;
    return ration_clock_default_now();
}

static inline void ration_limiter_counts_end(struct ration_limiter_counts *counts,
                                             uint64_t began_ns)
{
    if (__builtin_expect(began_ns != 0, 0))
        ration_histogram_record(counts->latency, ration_clock_default_now() - began_ns);
}

#endif
