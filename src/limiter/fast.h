/*
 * fast: the fast path of a decision. It serves token buckets of one key in this process's memory, where the
 * caller wants only the verdict or, for a single limit, its decision.
 *
 * Where possible, fast_simd.h does the same in still fewer instructions.
 */
#ifndef RATION_LIMITER_FAST_H
#define RATION_LIMITER_FAST_H

#include "limiter/limiter_internal.h"

/* A value beside enum ration_verdict: the call needs a whole op (call.h). */
#define RATION_FAST_MISS (-1)

/*
 * Decides and counts one request. Returns a verdict; or RATION_FAST_MISS, with nothing done, if the fast path
 * cannot decide it or the limiter has no fast_section.
 */
int ration_fast_take(struct ration_limiter *limiter, const void *request, uint64_t cost_tokens,
                     uint64_t now_ns);

/* The largest number of keys in a chunk. Their slots are prefetched before the first is decided. */
#define RATION_FAST_CHUNK 32

/*
 * Decides items in order up to the first that needs a whole op, writes their verdicts, and adds the allowed
 * ones to *allowed. Returns how many items it decided.
 */
size_t ration_fast_take_chunk(struct ration_limiter *limiter, struct ration_batch_item *items,
                              size_t item_count, uint64_t now_ns, size_t *allowed);

/* The same where the caller wants decisions, or requests carry their own limits: one token bucket per key. */
size_t ration_fast_decide_chunk(struct ration_limiter *limiter, struct ration_batch_item *items,
                                size_t item_count, uint64_t now_ns, size_t *allowed);

/* The same for one request, under the limiter's own limit. Returns false if it needs a whole op. */
bool ration_fast_decide(struct ration_limiter *limiter, const void *request, uint64_t cost_tokens,
                        uint64_t now_ns, struct ration_decision *out_decision);

/*
 * Time until the bucket of a key is full; 0 also for a key without a slot. The limiter must not be stackable
 * and must have one token bucket that never changes. Counts nothing.
 */
uint64_t ration_fast_full_after_ns(const struct ration_limiter *limiter,
                                   const struct ration_key *key, uint64_t now_ns);

/* Whether the limiter has a fast path under its current rules. */
bool ration_fast_is_possible(const struct ration_limiter *limiter);

#endif
