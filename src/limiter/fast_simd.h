/*
 * fast_simd: the fastest path. It serves one token bucket per key, in this process's memory, if the key is in
 * its first cache line: the line that is searched first.
 *
 * While the CPU fetches a slot from memory, it executes what follows: about 200 instructions if a
 * compare-and-swap is among them; and a swap waits for all stores before it. So the number of calls in flight
 * at once depends on how few instructions and stores a call has. Hence one function with little on the stack,
 * for takes of one token, and with time in one word: the time that a bucket needs to fill up is at most its
 * capacity, and where that is below 2 hours it is a number of 2^-20 ns in 63 bits. (Longer capacities take a
 * few instructions more.)
 *
 * All other cases (the key is in another line or absent, another cost, other rules) continue in fast.c.
 */
#ifndef RATION_LIMITER_FAST_SIMD_H
#define RATION_LIMITER_FAST_SIMD_H

#include "base/hash.h"
#include "limiter/fast.h"

/* Whether the section's lines can be searched with AES and AVX instructions. */
bool ration_fast_simd_possible(const struct ration_section *section);

/* Decides, or calls ration_limiter_allow_any(). Not for limiters that sample latency or track top keys. */
bool ration_fast_simd_allow(struct ration_limiter *limiter, const void *request,
                            uint64_t cost_tokens, uint64_t now_ns);

/*
 * The same for one token now, by the TSC clock. Reading that clock takes longer than the whole computation, and
 * later instructions wait for it: so the key's line is prefetched first.
 */
bool ration_fast_simd_allow_by_tsc(struct ration_limiter *limiter, const void *request);

/* A chunk of a batch: the inputs of its decisions, and the slots found ahead of time. */
struct ration_fast_simd_chunk {
    struct ration_limiter *limiter;
    const struct ration_section *section;
    const struct ration_config *config;
    uint64_t config_number;
    uint64_t since_ns;
    struct ration_hash hashes[RATION_FAST_CHUNK];
    struct ration_pair *slots[RATION_FAST_CHUNK]; /* NULL: the key is not in its first line */
};

/*
 * Hashes up to RATION_FAST_CHUNK keys and prefetches their slots: each key's first line, then the other lines
 * for keys that are not in it. Returns the number of keys, up to the first item without a valid key.
 */
size_t ration_fast_simd_find(struct ration_fast_simd_chunk *chunk,
                             const struct ration_batch_item *items, size_t item_count);

/*
 * Decides the items in order from index first on, writes and counts their verdicts, and adds the allowed ones
 * to *allowed. Returns the index of the first item that it cannot decide, or item_count.
 */
size_t ration_fast_simd_take(struct ration_fast_simd_chunk *chunk, struct ration_batch_item *items,
                             size_t first, size_t item_count, size_t *allowed);

#endif
