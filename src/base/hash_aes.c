#include "base/hash_aes.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash_siphash.h"

#define CHUNK_SIZE ((size_t)RATION_HASH_BLOCK_COUNT * RATION_HASH_BLOCK_SIZE)

/*
 * The two machines' instructions do the same steps, but cut them at different places: x86 adds
 * its key after a round, arm before it. Both compute the same hash.
 */
#if defined(__x86_64__)

#include <immintrin.h>

#define WITH_AES __attribute__((target("aes")))

typedef __m128i block;

bool ration_hash_aes_usable(void)
{
    return __builtin_cpu_supports("aes");
}

static inline block block_load(const uint8_t *bytes)
{
    return _mm_loadu_si128((const __m128i *)(const void *)bytes);
}

static inline block block_join(struct ration_hash value)
{
    return _mm_unpacklo_epi64(_mm_cvtsi64_si128((long long)value.words[0]),
                              _mm_cvtsi64_si128((long long)value.words[1]));
}

static inline struct ration_hash block_split(block value)
{
    return (struct ration_hash){{(uint64_t)_mm_cvtsi128_si64(value),
                                 (uint64_t)_mm_cvtsi128_si64(_mm_unpackhi_epi64(value, value))}};
}

static inline block key_load(const struct ration_hash *key)
{
    return _mm_load_si128((const __m128i *)(const void *)key);
}

/* sum ^ A(input), where A is four rounds, each after the addition of its key. */
WITH_AES static inline block add(block sum, block input, const struct ration_hash keys[4])
{
    block mixed = _mm_xor_si128(input, key_load(&keys[0]));

    mixed = _mm_aesenc_si128(mixed, key_load(&keys[1]));
    mixed = _mm_aesenc_si128(mixed, key_load(&keys[2]));
    mixed = _mm_aesenc_si128(mixed, key_load(&keys[3]));
    return _mm_aesenc_si128(mixed, sum);
}

/* Three rounds, each before the addition of its key. */
WITH_AES static inline block finish(block sum, const struct ration_hash keys[3])
{
    sum = _mm_aesenc_si128(sum, key_load(&keys[0]));
    sum = _mm_aesenc_si128(sum, key_load(&keys[1]));
    return _mm_aesenc_si128(sum, key_load(&keys[2]));
}

#elif defined(__aarch64__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__

#include <arm_neon.h>
#include <sys/auxv.h>

#define WITH_AES

typedef uint8x16_t block;

bool ration_hash_aes_usable(void)
{
    return getauxval(AT_HWCAP) & HWCAP_AES;
}

static inline block block_load(const uint8_t *bytes)
{
    return vld1q_u8(bytes);
}

static inline block block_join(struct ration_hash value)
{
    return vreinterpretq_u8_u64(vld1q_u64(value.words));
}

static inline struct ration_hash block_split(block value)
{
    uint64x2_t words = vreinterpretq_u64_u8(value);

    return (struct ration_hash){{vgetq_lane_u64(words, 0), vgetq_lane_u64(words, 1)}};
}

static inline block key_load(const struct ration_hash *key)
{
    return vreinterpretq_u8_u64(vld1q_u64(key->words));
}

/* In assembly, since compilers have the intrinsics only where all code may use the instructions. */
static inline block round_after(block key, block value)
{
    __asm__(".arch_extension aes\n\t"
            "aese %0.16b, %1.16b\n\t"
            "aesmc %0.16b, %0.16b"
            : "+w"(value)
            : "w"(key));
    return value;
}

static inline block add(block sum, block input, const struct ration_hash keys[4])
{
    for (int i = 0; i < 4; i++)
        input = round_after(key_load(&keys[i]), input);
    return veorq_u8(sum, input);
}

static inline block finish(block sum, const struct ration_hash keys[3])
{
    sum = round_after(vdupq_n_u8(0), sum);
    sum = round_after(key_load(&keys[0]), sum);
    sum = round_after(key_load(&keys[1]), sum);
    return veorq_u8(sum, key_load(&keys[2]));
}

#else

#define WITHOUT_AES

bool ration_hash_aes_usable(void)
{
    return false;
}

struct ration_hash ration_hash_aes(const struct ration_hash_secret *secret, const void *key,
                                   size_t key_size)
{
    (void)secret, (void)key, (void)key_size;
    abort(); /* a bug: it was said to be unusable */
}

#endif

#if !defined(WITHOUT_AES)

/* The sum of 1 to CHUNK_SIZE bytes, before whose end at least a block can be read. */
WITH_AES static inline block add_chunk(block sum, const struct ration_hash_secret *secret,
                                       const uint8_t *bytes, size_t size)
{
    const struct ration_hash(*keys)[4] = secret->blocks;

    for (; size > RATION_HASH_BLOCK_SIZE; size -= RATION_HASH_BLOCK_SIZE) {
        sum = add(sum, block_load(bytes), *keys++);
        bytes += RATION_HASH_BLOCK_SIZE;
    }
    return add(sum, block_load(bytes + size - RATION_HASH_BLOCK_SIZE), *keys);
}

/* Up to 15 bytes in one block: with the size known, the block tells them. */
static inline block load_short(const uint8_t *bytes, size_t size)
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
    return block_join(value);
}

/* SipHash of the sums of all chunks, and the size. */
WITH_AES static __attribute__((noinline)) struct ration_hash hash_long(
    const struct ration_hash_secret *secret, const uint8_t *bytes, size_t key_size)
{
    struct ration_hash_siphash_state state = ration_hash_siphash_start(&secret->siphash);
    const block zero = block_join((struct ration_hash){{0, 0}});
    size_t message_size = sizeof(uint64_t);

    for (size_t left = key_size; left > 0;) {
        size_t size = left < CHUNK_SIZE ? left : CHUNK_SIZE;
        struct ration_hash sum = block_split(add_chunk(zero, secret, bytes, size));

        ration_hash_siphash_absorb(&state, sum.words[0]);
        ration_hash_siphash_absorb(&state, sum.words[1]);
        message_size += sizeof(sum);
        bytes += size;
        left -= size;
    }
    ration_hash_siphash_absorb(&state, key_size);
    return ration_hash_siphash_finish(&state, 0, message_size);
}

WITH_AES struct ration_hash ration_hash_aes(const struct ration_hash_secret *secret,
                                            const void *key, size_t key_size)
{
    block sum = key_load(&secret->finish[0]);

    if (key_size > CHUNK_SIZE)
        return hash_long(secret, key, key_size);
    sum = add(sum, block_join((struct ration_hash){{key_size, 0}}), secret->size);
    if (key_size >= RATION_HASH_BLOCK_SIZE)
        sum = add_chunk(sum, secret, key, key_size);
    else
        sum = add(sum, load_short(key, key_size), secret->blocks[0]);
    return block_split(finish(sum, &secret->finish[1]));
}

#endif
