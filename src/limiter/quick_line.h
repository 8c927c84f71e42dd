/*
 * quick_line: the shortest way: one token bucket per key, found in the cache line in which it is looked
 * for first, in this process's memory.
 *
 * While a slot is fetched from memory a CPU goes on with what follows, for about 200 instructions if
 * there is a compare-and-swap among them; and a swap waits for all stores before it. So how many
 * calls are under way at once is a matter of how few instructions and stores a call has. Hence one
 * function with little on the stack, for takes of one token, and time in one word: what a bucket owes
 * is at most its capacity, and where that is below 2 hours it is a number of 2^-20 ns in 63 bits. (Longer
 * ones take a few instructions more.)
 *
 * Whatever is not so (the key is elsewhere or absent, the cost or the rules are others) goes on in
 * quick.c.
 */
#ifndef RATION_LIMITER_QUICK_LINE_H
#define RATION_LIMITER_QUICK_LINE_H

#include "base/hash.h"
#include "limiter/quick.h"

/* Whether the section's lines can be read so: by AES and AVX instructions. */
bool ration_quick_line_possible(const struct ration_section *section);

/* Decides, or has ration_limiter_allow_any() decide. Not for limiters that time or name keys. */
bool ration_quick_line_allow(struct ration_limiter *limiter, const void *request,
                             uint64_t cost_tokens, uint64_t now_ns);

/*
 * The same for one token now, by the TSC clock. It takes longer to read than all else takes to compute,
 * and what comes after it waits for it: so the key's line is fetched first.
 */
bool ration_quick_line_allow_by_tsc(struct ration_limiter *limiter, const void *request);

/* A chunk of a batch: what its decisions rest on, and what was found ahead. */
struct ration_line_chunk {
    struct ration_limiter *limiter;
    const struct ration_section *section;
    const struct ration_config *config;
    uint64_t config_number;
    uint64_t since_ns;
    struct ration_hash hashes[RATION_QUICK_CHUNK];
    struct ration_pair
        *slots[RATION_QUICK_CHUNK]; /* NULL: not in the line it is looked for first */
};

/*
 * Hashes up to RATION_QUICK_CHUNK keys and begins to fetch their places: first the lines in which they
 * are looked for first, then the rest for those that are not there. Returns how many: up to the first
 * that is no key.
 */
size_t ration_quick_line_find(struct ration_line_chunk *chunk,
                              const struct ration_batch_item *items, size_t item_count);

/*
 * Decides them in their order from first on, writes and counts what was decided, and adds to *allowed.
 * Returns the index of the first that it cannot decide, or item_count.
 */
size_t ration_quick_line_take(struct ration_line_chunk *chunk, struct ration_batch_item *items,
                              size_t first, size_t item_count, size_t *allowed);

#endif
