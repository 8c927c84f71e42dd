/*
 * quick: the short way of a decision: token buckets of one key that lies in this process's memory,
 * and nothing wanted but the verdict.
 *
 * The miss in the cache for the key's slot takes far longer than everything else, but a CPU goes
 * on with what follows meanwhile, as far as some hundred instructions ahead: to the next call, and
 * its miss. So the fewer instructions, the more misses at the same time. Hence all is inline here,
 * the hash included, and the four slots of a cache line are compared at once instead of one after
 * the other with a branch that is hard to predict.
 */
#ifndef RATION_LIMITER_QUICK_H
#define RATION_LIMITER_QUICK_H

#include "limiter/limiter.h"

/* Besides enum ration_verdict: it takes a whole op (calls.h). */
#define RATION_QUICK_NOT (-1)

/*
 * Finds the limiter's short way, over a section or NULL if its buckets do not lie in this process:
 * limiter->quick_take() decides and counts. Whatever it cannot do: RATION_QUICK_NOT, nothing done.
 */
void ration_quick_choose(struct ration_limiter *limiter, const struct ration_section *section);

/* The same for some keys, 1 to RATION_QUICK_CHUNK, whose places are fetched ahead. */
#define RATION_QUICK_CHUNK 32

/*
 * Decides items in their order up to the first that takes a whole op, writes their verdicts, and
 * returns how many they are.
 */
size_t ration_quick_take_chunk(struct ration_limiter *limiter,
                               const struct ration_batch_item *items, size_t item_count,
                               uint64_t now_ns, int *out_verdicts);

/* Whether there is a short way at all, with the rules as they are. */
bool ration_quick_is_possible(const struct ration_limiter *limiter);

#endif
