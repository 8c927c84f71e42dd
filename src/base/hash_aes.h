/*
 * hash_aes: the keyed hash with AES instructions. hash.h explains what it computes and why.
 *
 * It is inline for callers whose whole path is a few nanoseconds. Those must be compiled for these
 * instructions themselves (RATION_WITH_AES), and run only where the instructions are usable.
 */
#ifndef RATION_BASE_HASH_AES_H
#define RATION_BASE_HASH_AES_H

#include <string.h>

#include "base/hash.h"

/* Returns whether this machine has the instructions. */
bool ration_hash_aes_usable(void);

/* Returns the hash of a key. Only where the instructions are usable. */
struct ration_hash ration_hash_aes(const struct ration_hash_secret *secret, const void *key,
                                   size_t key_size);

/* As ration_hash_aes(), for keys longer than RATION_HASH_CHUNK_SIZE. */
struct ration_hash ration_hash_aes_long(const struct ration_hash_secret *secret, const void *key,
                                        size_t key_size);

/* Computes the secret's starts from its round keys. */
void ration_hash_aes_prepare(struct ration_hash_secret *secret);

/*
 * The instructions of the two architectures do the same steps but group them differently: x86 adds
 * the key after a round, arm before it. Both compute the same hash.
 */
#if defined(__x86_64__)

#include <immintrin.h>

#define RATION_WITH_AES __attribute__((target("aes,sse4.1")))

typedef __m128i ration_aes_block;

static inline ration_aes_block ration_hash_aes_load(const uint8_t *bytes)
{
    return _mm_loadu_si128((const __m128i *)(const void *)bytes);
}

static inline ration_aes_block ration_hash_aes_join(struct ration_hash value)
{
    return _mm_unpacklo_epi64(_mm_cvtsi64_si128((long long)value.words[0]),
                              _mm_cvtsi64_si128((long long)value.words[1]));
}

static inline struct ration_hash ration_hash_aes_split(ration_aes_block value)
{
    return (struct ration_hash){{(uint64_t)_mm_cvtsi128_si64(value),
                                 (uint64_t)_mm_cvtsi128_si64(_mm_unpackhi_epi64(value, value))}};
}

static inline ration_aes_block ration_hash_aes_key_load(const struct ration_hash *key)
{
    return _mm_load_si128((const __m128i *)(const void *)key);
}

/* sum ^ A(input), where A is four rounds, each after the addition of its key. */
RATION_WITH_AES static inline ration_aes_block ration_hash_aes_add(ration_aes_block sum,
                                                                   ration_aes_block input,
                                                                   const struct ration_hash keys[4])
{
    ration_aes_block mixed = _mm_xor_si128(input, ration_hash_aes_key_load(&keys[0]));

    mixed = _mm_aesenc_si128(mixed, ration_hash_aes_key_load(&keys[1]));
    mixed = _mm_aesenc_si128(mixed, ration_hash_aes_key_load(&keys[2]));
    mixed = _mm_aesenc_si128(mixed, ration_hash_aes_key_load(&keys[3]));
    return _mm_aesenc_si128(mixed, sum);
}

/* Three rounds, each before the addition of its key. */
RATION_WITH_AES static inline ration_aes_block ration_hash_aes_finish(
    ration_aes_block sum, const struct ration_hash keys[3])
{
    sum = _mm_aesenc_si128(sum, ration_hash_aes_key_load(&keys[0]));
    sum = _mm_aesenc_si128(sum, ration_hash_aes_key_load(&keys[1]));
    return _mm_aesenc_si128(sum, ration_hash_aes_key_load(&keys[2]));
}

#elif defined(__aarch64__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__

#include <arm_neon.h>
#include <sys/auxv.h>

#define RATION_WITH_AES

typedef uint8x16_t ration_aes_block;

static inline ration_aes_block ration_hash_aes_load(const uint8_t *bytes)
{
    return vld1q_u8(bytes);
}

static inline ration_aes_block ration_hash_aes_join(struct ration_hash value)
{
    return vreinterpretq_u8_u64(vld1q_u64(value.words));
}

static inline struct ration_hash ration_hash_aes_split(ration_aes_block value)
{
    uint64x2_t words = vreinterpretq_u64_u8(value);

    return (struct ration_hash){{vgetq_lane_u64(words, 0), vgetq_lane_u64(words, 1)}};
}

static inline ration_aes_block ration_hash_aes_key_load(const struct ration_hash *key)
{
    return vreinterpretq_u8_u64(vld1q_u64(key->words));
}

/*
 * In assembly, because compilers offer the intrinsics only where all code may use the instructions.
 */
static inline ration_aes_block ration_hash_aes_round_after(ration_aes_block key,
                                                           ration_aes_block value)
{
    __asm__(".arch_extension aes\n\t"
            "aese %0.16b, %1.16b\n\t"
            "aesmc %0.16b, %0.16b"
            : "+w"(value)
            : "w"(key));
    return value;
}

static inline ration_aes_block ration_hash_aes_add(ration_aes_block sum, ration_aes_block input,
                                                   const struct ration_hash keys[4])
{
    for (int i = 0; i < 4; i++)
        input = ration_hash_aes_round_after(ration_hash_aes_key_load(&keys[i]), input);
    return veorq_u8(sum, input);
}

static inline ration_aes_block ration_hash_aes_finish(ration_aes_block sum,
                                                      const struct ration_hash keys[3])
{
    sum = ration_hash_aes_round_after(vdupq_n_u8(0), sum);
    sum = ration_hash_aes_round_after(ration_hash_aes_key_load(&keys[0]), sum);
    sum = ration_hash_aes_round_after(ration_hash_aes_key_load(&keys[1]), sum);
    return veorq_u8(sum, ration_hash_aes_key_load(&keys[2]));
}

#else

#define RATION_WITHOUT_AES

#endif

#if !defined(RATION_WITHOUT_AES)

/*
 * Adds 1 to RATION_HASH_CHUNK_SIZE bytes to sum. At least a block must be readable before their
 * end.
 */
RATION_WITH_AES static inline ration_aes_block ration_hash_aes_add_chunk(
    ration_aes_block sum, const struct ration_hash_secret *secret, const uint8_t *bytes,
    size_t size)
{
    const struct ration_hash(*keys)[4] = secret->blocks;

    for (; size > RATION_HASH_BLOCK_SIZE; size -= RATION_HASH_BLOCK_SIZE) {
        sum = ration_hash_aes_add(sum, ration_hash_aes_load(bytes), *keys++);
        bytes += RATION_HASH_BLOCK_SIZE;
    }
    return ration_hash_aes_add(sum, ration_hash_aes_load(bytes + size - RATION_HASH_BLOCK_SIZE),
                               *keys);
}

/* Loads up to 15 bytes into one block. Together with the size, the block determines them. */
static inline ration_aes_block ration_hash_aes_load_short(const uint8_t *bytes, size_t size)
{
    struct ration_hash value = {{0, 0}};

    if (size >= 8) {
        memcpy(&value.words[0], bytes, 8);
        memcpy(&value.words[1], bytes + size - 8, 8);
    } else if (size >= 4) {
        uint32_t first, last;

        memcpy(&first, bytes, 4);
        memcpy(&last, bytes + size - 4, 4);
        value.words[0] = (uint64_t)last << 32 | first;
    } else if (size > 0) {
        value.words[0] =
            bytes[0] | (uint64_t)bytes[size / 2] << 8 | (uint64_t)bytes[size - 1] << 16;
    }
    return ration_hash_aes_join(value);
}

/* The hash of a key of up to RATION_HASH_CHUNK_SIZE bytes. */
RATION_WITH_AES static inline __attribute__((always_inline)) struct ration_hash
ration_hash_aes_chunk(const struct ration_hash_secret *secret, const void *key, size_t key_size)
{
    ration_aes_block sum = ration_hash_aes_key_load(&secret->starts[key_size]);

    if (__builtin_expect(key_size >= RATION_HASH_BLOCK_SIZE, 1))
        sum = ration_hash_aes_add_chunk(sum, secret, key, key_size);
    else
        sum =
            ration_hash_aes_add(sum, ration_hash_aes_load_short(key, key_size), secret->blocks[0]);
    return ration_hash_aes_split(ration_hash_aes_finish(sum, &secret->finish[1]));
}

RATION_WITH_AES static inline struct ration_hash ration_hash_aes_inline(
    const struct ration_hash_secret *secret, const void *key, size_t key_size)
{
    if (__builtin_expect(key_size > RATION_HASH_CHUNK_SIZE, 0))
        return ration_hash_aes_long(secret, key, key_size);
    return ration_hash_aes_chunk(secret, key, key_size);
}

#endif

#endif
