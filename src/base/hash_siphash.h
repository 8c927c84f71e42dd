/*
 * hash_siphash: SipHash-2-4 with 128 bits of output, by Aumasson and Bernstein.
 *
 * Written out here although libraries have it, so that libration does not need one of them at run
 * time, for 60 lines that most machines use only to expand a seed and to combine the chunks of long
 * keys. The tests check it against the authors' vectors.
 */
#ifndef RATION_BASE_HASH_SIPHASH_H
#define RATION_BASE_HASH_SIPHASH_H

#include "base/hash.h"

struct ration_hash ration_hash_siphash(const struct ration_hash *key, const void *message,
                                       size_t message_size);

/* The same, word by word (little-endian), for messages that are produced while they are hashed. */
struct ration_hash_siphash_state {
    uint64_t v[4];
};

struct ration_hash_siphash_state ration_hash_siphash_start(const struct ration_hash *key);
void ration_hash_siphash_absorb(struct ration_hash_siphash_state *state, uint64_t word);

/* rest: the last message_size % 8 bytes, the first of them lowest. */
struct ration_hash ration_hash_siphash_finish(struct ration_hash_siphash_state *state,
                                              uint64_t rest, size_t message_size);

#endif
