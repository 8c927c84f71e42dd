/*
 * quick: the short way of a decision: token buckets of one key that lies in this process's memory,
 * and nothing wanted but the verdict; or, of a single limit, its decision.
 *
 * Where it can, quick_line.h does the same in still fewer instructions.
 */
#ifndef RATION_LIMITER_QUICK_H
#define RATION_LIMITER_QUICK_H

#include "limiter/limiter.h"

/* Besides enum ration_verdict: it takes a whole op (calls.h). */
#define RATION_QUICK_NOT (-1)

/*
 * Decides and counts: a verdict. Whatever it cannot do, and if the limiter has no quick_section:
 * RATION_QUICK_NOT, with nothing done.
 */
int ration_quick_take(struct ration_limiter *limiter, const void *request, uint64_t cost_tokens,
                      uint64_t now_ns);

/* The same for some keys, 1 to RATION_QUICK_CHUNK, whose places are fetched ahead. */
#define RATION_QUICK_CHUNK 32

/*
 * Decides items in their order up to the first that takes a whole op, writes what was decided, adds
 * to *allowed, and returns how many they are.
 */
size_t ration_quick_take_chunk(struct ration_limiter *limiter, struct ration_batch_item *items,
                               size_t item_count, uint64_t now_ns, size_t *allowed);

/*
 * The same where decisions are to be told, or limits come with the requests: one token bucket per
 * key.
 */
size_t ration_quick_tell_chunk(struct ration_limiter *limiter, struct ration_batch_item *items,
                               size_t item_count, uint64_t now_ns, size_t *allowed);

/* The same for one request, which is charged by the limiter's own limit. False: it takes a whole op. */
bool ration_quick_tell(struct ration_limiter *limiter, const void *request, uint64_t cost_tokens,
                       uint64_t now_ns, struct ration_decision *out_decision);

/*
 * How long until the bucket of a key is full; 0 also for a key without a place. For a limiter that is not
 * stackable, of one token bucket that never changes. Counts nothing.
 */
uint64_t ration_quick_full_after_ns(const struct ration_limiter *limiter,
                                    const struct ration_key *key, uint64_t now_ns);

/* Whether there is a short way at all, with the rules as they are. */
bool ration_quick_is_possible(const struct ration_limiter *limiter);

#endif
