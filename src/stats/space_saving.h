/*
 * space_saving: the heaviest of any number of keys, in fixed memory, with a known error.
 *
 * Space-Saving (Metwally, Agrawal, El Abbadi 2005). K keys are kept, each with a count. A key that
 * is not kept takes the place of one with the lowest count, and goes on from that count, for it may
 * have been here before and have been dropped; that start is noted as its error. K = 2, one each of
 * a, a, a, b, c:
 *
 *     a 3 error 0, b 1 error 0     then c takes the place of b     a 3 error 0, c 2 error 1
 *
 * With w the sum of all weights, and floor the count of the last key dropped:
 *
 *     count - error <= true count <= count     for a key that is kept
 *     true count <= floor <= w / K             for any other
 *
 * Hence each key with more than w / K is kept, whatever the others are, and a flood of fresh keys
 * changes no more than the errors.
 *
 * How the lowest is found. A heap would sift at each count of each heavy key. Here a hand goes
 * round over the counts, which lie side by side: those it has passed are above floor, the next one
 * that equals it is a lowest. At the end of a round there is none left, and the lowest count is
 * looked up anew. That costs 2 K steps and raises floor, and K * floor <= w, so there are never
 * more than 2 steps per unit of weight: O(1) at weight 1, the denials. Larger weights, sampled, may
 * cost a round each: 2 K at the worst.
 *
 * One thread at a time. The block has no pointers in it and may be copied. Sums stop at UINT64_MAX.
 */
#ifndef RATION_STATS_SPACE_SAVING_H
#define RATION_STATS_SPACE_SAVING_H

#include <stddef.h>
#include <stdint.h>

#include "ration/stats.h"

#define RATION_SPACE_SAVING_KEYS_MAX 4096u

/* A key as the caller has it. The name is borrowed for the call. */
struct ration_top_key_ref {
    /* Keyed, so that nobody can aim at a slot, and of 128 bits: equal hashes are the same key. */
    uint64_t hash[2];
    const void *name; /* may be NULL if name_size is 0 */
    size_t name_size;
};

/* A key that is kept. */
struct ration_space_saving_entry {
    uint64_t hash[2];
    uint64_t error;
    uint64_t name_size;                          /* of the whole name */
    unsigned char name[RATION_TOP_KEY_NAME_MAX]; /* as much of it as there is room for */
};

/* The header of the block; counts, entries and the hash table of their indexes follow it. */
struct ration_space_saving {
    uint32_t key_max;    /* K */
    uint32_t key_count;  /* kept so far */
    uint32_t hand_index; /* once K are kept: counts before it are above floor */
    uint32_t slot_mask;  /* slots of the hash table, less one */
    uint64_t floor;
};

static inline uint64_t ration_add_or_max(uint64_t a, uint64_t b)
{
    uint64_t sum;

    return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

/* Bytes that a sketch of key_max keys needs; key_max is 1 to RATION_SPACE_SAVING_KEYS_MAX. */
size_t ration_space_saving_size(uint32_t key_max);

/* Makes an empty sketch of a block of that size, aligned for uint64_t. */
void ration_space_saving_init(struct ration_space_saving *sketch, uint32_t key_max);

/* Adds weight to a key. */
void ration_space_saving_add(struct ration_space_saving *sketch,
                             const struct ration_top_key_ref *key, uint64_t weight);

/* The index of a key below key_count, or key_count if it is not kept. */
uint32_t ration_space_saving_find(const struct ration_space_saving *sketch, const uint64_t hash[2]);

/* The key at an index below key_count, and its count. */
const struct ration_space_saving_entry *ration_space_saving_entry(
    const struct ration_space_saving *sketch, uint32_t index);
uint64_t ration_space_saving_count(const struct ration_space_saving *sketch, uint32_t index);

#endif
