#include "base/hash_siphash.h"

#include <endian.h>
#include <string.h>

static inline uint64_t rotate_left(uint64_t word, unsigned bits)
{
    return word << bits | word >> (64 - bits);
}

static inline void mix_rounds(struct ration_hash_siphash_state *state, int count)
{
    uint64_t *v = state->v;

    while (count-- > 0) {
        v[0] += v[1];
        v[2] += v[3];
        v[1] = rotate_left(v[1], 13) ^ v[0];
        v[3] = rotate_left(v[3], 16) ^ v[2];
        v[0] = rotate_left(v[0], 32);
        v[2] += v[1];
        v[0] += v[3];
        v[1] = rotate_left(v[1], 17) ^ v[2];
        v[3] = rotate_left(v[3], 21) ^ v[0];
        v[2] = rotate_left(v[2], 32);
    }
}

static inline uint64_t fold_state(const struct ration_hash_siphash_state *state)
{
    return state->v[0] ^ state->v[1] ^ state->v[2] ^ state->v[3];
}

struct ration_hash_siphash_state ration_hash_siphash_start(const struct ration_hash *key)
{
    /* "somepseudorandomlygeneratedbytes", and 0xEE for 128 bits of output */
    return (struct ration_hash_siphash_state){{
        key->words[0] ^ UINT64_C(0x736f6d6570736575),
        key->words[1] ^ UINT64_C(0x646f72616e646f6d) ^ 0xEE,
        key->words[0] ^ UINT64_C(0x6c7967656e657261),
        key->words[1] ^ UINT64_C(0x7465646279746573),
    }};
}

void ration_hash_siphash_absorb(struct ration_hash_siphash_state *state, uint64_t word)
{
    state->v[3] ^= word;
    mix_rounds(state, 2);
    state->v[0] ^= word;
}

struct ration_hash ration_hash_siphash_finish(struct ration_hash_siphash_state *state,
                                              uint64_t rest, size_t message_size)
{
    struct ration_hash hash;

    ration_hash_siphash_absorb(state, rest | (uint64_t)message_size << 56);
    state->v[2] ^= 0xEE;
    mix_rounds(state, 4);
    hash.words[0] = fold_state(state);
    state->v[1] ^= 0xDD;
    mix_rounds(state, 4);
    hash.words[1] = fold_state(state);
    return hash;
}

struct ration_hash ration_hash_siphash(const struct ration_hash *key, const void *message,
                                       size_t message_size)
{
    struct ration_hash_siphash_state state = ration_hash_siphash_start(key);
    const uint8_t *bytes = message;
    size_t left = message_size;
    uint64_t word;

    for (; left >= sizeof(word); left -= sizeof(word), bytes += sizeof(word)) {
        memcpy(&word, bytes, sizeof(word));
        ration_hash_siphash_absorb(&state, le64toh(word));
    }
    word = 0;
    while (left > 0)
        word = word << 8 | bytes[--left];
    return ration_hash_siphash_finish(&state, word, message_size);
}
