/*
 * space_saving: finds the heaviest of any number of keys, in fixed memory, with a known error.
 *
 * Space-Saving (Metwally, Agrawal, El Abbadi 2005). It tracks K keys, each with a count. A new key
 * replaces one with the lowest count and starts from that count, because it may have been tracked
 * before and dropped; that start is recorded as its error. K = 2, one each of a, a, a, b, c:
 *
 *     a 3 error 0, b 1 error 0     then c replaces b     a 3 error 0, c 2 error 1
 *
 * With w the sum of all weights, and floor the count of the last key dropped:
 *
 *     count - error <= true count <= count     for a tracked key
 *     true count <= floor <= w / K             for any other
 *
 * Hence each key with more than w / K is tracked, whatever the others are, and a flood of new keys
 * only changes the errors.
 *
 * How the lowest count is found: a heap would sift at each count of each heavy key. Here a hand (as
 * in the clock algorithm) goes round the counts, which are adjacent in memory: those it has passed
 * are above floor, and the next one that equals floor is a lowest one. At the end of a round there
 * is none left, and the lowest count is computed again. That costs 2 K steps and raises floor, and
 * K * floor <= w, so there are never more than 2 steps per unit of weight: O(1) at weight 1, which
 * denials have. Larger weights, which are sampled, may cost a round each: 2 K at worst.
 *
 * One thread at a time. The block has no pointers in it and may be copied. Sums stop at UINT64_MAX.
 */
#ifndef RATION_STATS_SPACE_SAVING_H
#define RATION_STATS_SPACE_SAVING_H

#include <stddef.h>
#include <stdint.h>

#include "ration/stats.h"

#define RATION_SPACE_SAVING_KEYS_MAX 4096u

/* A key as passed by the caller. The name is borrowed for the call. */
struct ration_top_key_ref {
    /*
     * From a keyed hash, so that an attacker cannot aim at a slot, and 128 bits: equal hashes are
     * the same key.
     */
    uint64_t hash[2];
    const void *name; /* may be NULL if name_size is 0 */
    size_t name_size;
};

/* A tracked key. */
struct ration_space_saving_entry {
    uint64_t hash[2];
    uint64_t error;
    uint64_t name_size;                          /* of the whole name */
    unsigned char name[RATION_TOP_KEY_NAME_MAX]; /* its first bytes */
};

/* The header of the block; counts, entries and the hash table of their indexes follow it. */
struct ration_space_saving {
    uint32_t key_max;    /* K */
    uint32_t key_count;  /* tracked so far */
    uint32_t hand_index; /* once K keys are tracked: counts before it are above floor */
    uint32_t slot_mask;  /* slots of the hash table, minus one */
    uint64_t floor;
};

static inline uint64_t ration_space_saving_add_or_max(uint64_t a, uint64_t b)
{
    uint64_t sum;

    return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

/*
 * Returns the bytes that a sketch of key_max keys needs; key_max is 1 to
 * RATION_SPACE_SAVING_KEYS_MAX.
 */
size_t ration_space_saving_size(uint32_t key_max);

/* Initialises an empty sketch in a block of that size, aligned for uint64_t. */
void ration_space_saving_init(struct ration_space_saving *sketch, uint32_t key_max);

/* Adds weight to a key. */
void ration_space_saving_add(struct ration_space_saving *sketch,
                             const struct ration_top_key_ref *key, uint64_t weight);

/* Returns the index of a key, below key_count, or key_count if it is not tracked. */
uint32_t ration_space_saving_find(const struct ration_space_saving *sketch, const uint64_t hash[2]);

/* Return the key at an index below key_count, and its count. */
const struct ration_space_saving_entry *ration_space_saving_entry(
    const struct ration_space_saving *sketch, uint32_t index);
uint64_t ration_space_saving_count(const struct ration_space_saving *sketch, uint32_t index);

#endif
