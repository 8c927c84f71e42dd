#include "base/hash_blake2b.h"

#include <string.h>

#define BLOCK_SIZE  128
#define ROUND_COUNT 12

static const uint64_t initial[8] = {UINT64_C(0x6a09e667f3bcc908), UINT64_C(0xbb67ae8584caa73b),
                                    UINT64_C(0x3c6ef372fe94f82b), UINT64_C(0xa54ff53a5f1d36f1),
                                    UINT64_C(0x510e527fade682d1), UINT64_C(0x9b05688c2b3e6c1f),
                                    UINT64_C(0x1f83d9abfb41bd6b), UINT64_C(0x5be0cd19137e2179)};

/* The order of the message words in each round; it repeats after ten rounds. */
static const uint8_t schedule[10][16] = {{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
                                         {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
                                         {11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4},
                                         {7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8},
                                         {9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13},
                                         {2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9},
                                         {12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11},
                                         {13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10},
                                         {6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5},
                                         {10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0}};

struct blake2b {
    uint64_t h[8];
    uint64_t size; /* bytes mixed in so far, including the key's block */
};

static uint64_t rotate_right(uint64_t word, unsigned bits)
{
    return word >> bits | word << (64 - bits);
}

static uint64_t load_word(const uint8_t *bytes)
{
    uint64_t word = 0;

    for (int i = 7; i >= 0; i--)
        word = word << 8 | bytes[i];
    return word;
}

static void mix_words(uint64_t *a, uint64_t *b, uint64_t *c, uint64_t *d, uint64_t x, uint64_t y)
{
    *a += *b + x;
    *d = rotate_right(*d ^ *a, 32);
    *c += *d;
    *b = rotate_right(*b ^ *c, 24);
    *a += *b + y;
    *d = rotate_right(*d ^ *a, 16);
    *c += *d;
    *b = rotate_right(*b ^ *c, 63);
}

static void compress_block(struct blake2b *state, const uint8_t block[BLOCK_SIZE], uint64_t size,
                           int is_last)
{
    uint64_t v[16], m[16];

    state->size += size;
    memcpy(v, state->h, sizeof(state->h));
    memcpy(v + 8, initial, sizeof(initial));
    v[12] ^= state->size;
    v[14] ^= is_last ? UINT64_MAX : 0;
    for (int i = 0; i < 16; i++)
        m[i] = load_word(block + 8 * i);
    for (int round = 0; round < ROUND_COUNT; round++) {
        const uint8_t *s = schedule[round % 10];

        for (int i = 0; i < 4; i++)
            mix_words(&v[i], &v[4 + i], &v[8 + i], &v[12 + i], m[s[2 * i]], m[s[2 * i + 1]]);
        for (int i = 0; i < 4; i++)
            mix_words(&v[i], &v[4 + (i + 1) % 4], &v[8 + (i + 2) % 4], &v[12 + (i + 3) % 4],
                      m[s[8 + 2 * i]], m[s[9 + 2 * i]]);
    }
    for (int i = 0; i < 8; i++)
        state->h[i] ^= v[i] ^ v[8 + i];
}

void ration_hash_blake2b(const void *key, size_t key_size, const void *message, size_t message_size,
                         uint8_t out_hash[RATION_BLAKE2B_SIZE])
{
    struct blake2b state = {.size = 0};
    uint8_t block[BLOCK_SIZE] = {0};
    const uint8_t *at = message;

    memcpy(state.h, initial, sizeof(state.h));
    state.h[0] ^= UINT64_C(0x01010000) ^ key_size << 8 ^ RATION_BLAKE2B_SIZE;
    if (key_size > 0) { /* the key is a block before the message */
        memcpy(block, key, key_size);
        compress_block(&state, block, BLOCK_SIZE, message_size == 0);
    }
    for (; message_size > BLOCK_SIZE; message_size -= BLOCK_SIZE, at += BLOCK_SIZE)
        compress_block(&state, at, BLOCK_SIZE, 0);
    if (message_size > 0 || key_size == 0) {
        memset(block, 0, sizeof(block));
        if (message_size > 0)
            memcpy(block, at, message_size);
        compress_block(&state, block, message_size, 1);
    }
    for (int i = 0; i < RATION_BLAKE2B_SIZE; i++)
        out_hash[i] = (uint8_t)(state.h[i / 8] >> 8 * (i % 8));
}
