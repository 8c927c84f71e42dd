/*
 * tally: what a limiter counts of its decisions.
 */
#ifndef RATION_LIMITER_TALLY_H
#define RATION_LIMITER_TALLY_H

#include "base/hash.h"
#include "limiter/op.h"
#include "stats/counters.h"
#include "stats/histogram.h"
#include "stats/sampler.h"
#include "stats/top_keys.h"

#define RATION_NEAR_ONE_IN 5u

struct ration_tally {
    struct ration_counters *counters;
    struct ration_sampler *latency_sampler; /* NULL: not timed */
    struct ration_histogram *latency;
    struct ration_top_keys *top_denied; /* NULL: none kept */
    struct ration_top_keys *top_cost;
    struct ration_sampler *cost_sampler;
    struct ration_top_keys_shape top_shape;
    struct ration_hash_secret *secret; /* of the top keys' hashes */
    void *block;                       /* that all of them lie in */
    size_t block_bytes;
};

/* Returns RATION_ENOMEM, RATION_EINVAL (too many top keys). Release: ration_tally_done(). */
ration_status ration_tally_init(struct ration_tally *tally, uint32_t rule_count,
                                const struct ration_limiter_options *options);
void ration_tally_done(struct ration_tally *tally);

/* A denial's key. */
void ration_tally_denied_key(struct ration_tally *tally, struct ration_key key);

/* Tokens taken by a key, sampled. */
void ration_tally_cost_of_key(struct ration_tally *tally, struct ration_key key,
                              uint64_t cost_tokens);

/* Whether an op, of any kind, has made or taken a place. */
void ration_tally_places(struct ration_tally *tally, const struct ration_op_part *part);

/* One limiter's part of an op that was decided: takes only. */
void ration_tally_part(struct ration_tally *tally, const struct ration_op *op,
                       const struct ration_op_part *part);

/* An op that could not be decided. */
void ration_tally_error(struct ration_tally *tally, uint32_t rule_count);

/* Whether less than a fifth of the burst is left. */
static inline bool ration_tally_is_near(const struct ration_decision *decision)
{
    uint64_t limit = decision->limit;

    return decision->remaining < limit / RATION_NEAR_ONE_IN + (limit % RATION_NEAR_ONE_IN != 0);
}

/* For timing one decision in 64: 0, or when it began. */
static inline uint64_t ration_tally_begin(struct ration_tally *tally)
{
    if (tally->latency_sampler == NULL || !ration_sampler_due(tally->latency_sampler))
        return 0;
    return ration_now();
}

static inline void ration_tally_end(struct ration_tally *tally, uint64_t began_ns)
{
    if (__builtin_expect(began_ns != 0, 0))
        ration_histogram_record(tally->latency, ration_now() - began_ns);
}

#endif
