#include "base/hash_aes.h"

#include <stdlib.h>

#include "base/hash_siphash.h"

#if defined(RATION_WITHOUT_AES)

bool ration_hash_aes_usable(void)
{
    return false;
}

struct ration_hash ration_hash_aes(const struct ration_hash_secret *secret, const void *key,
                                   size_t key_size)
{
    (void)secret, (void)key, (void)key_size;
    abort(); /* a bug: ration_hash_aes_usable() returned false */
}

void ration_hash_aes_prepare(struct ration_hash_secret *secret)
{
    (void)secret;
}

#else

#if defined(__x86_64__)

bool ration_hash_aes_usable(void)
{
    return __builtin_cpu_supports("aes") && __builtin_cpu_supports("sse4.1");
}

#else

#include <sys/auxv.h>

bool ration_hash_aes_usable(void)
{
    return getauxval(AT_HWCAP) & HWCAP_AES;
}

#endif

RATION_WITH_AES void ration_hash_aes_prepare(struct ration_hash_secret *secret)
{
    for (size_t size = 0; size <= RATION_HASH_CHUNK_SIZE; size++)
        secret->starts[size] = ration_hash_aes_split(ration_hash_aes_add(
            ration_hash_aes_key_load(&secret->finish[0]),
            ration_hash_aes_join((struct ration_hash){{size, 0}}), secret->size));
}

/* SipHash of the sums of all chunks, and the size. */
RATION_WITH_AES struct ration_hash ration_hash_aes_long(const struct ration_hash_secret *secret,
                                                        const void *key, size_t key_size)
{
    struct ration_hash_siphash_state state = ration_hash_siphash_start(&secret->siphash);
    const ration_aes_block zero = ration_hash_aes_join((struct ration_hash){{0, 0}});
    const uint8_t *bytes = key;
    size_t message_size = sizeof(uint64_t);

    for (size_t left = key_size; left > 0;) {
        size_t size = left < RATION_HASH_CHUNK_SIZE ? left : RATION_HASH_CHUNK_SIZE;
        struct ration_hash sum =
            ration_hash_aes_split(ration_hash_aes_add_chunk(zero, secret, bytes, size));

        ration_hash_siphash_absorb(&state, sum.words[0]);
        ration_hash_siphash_absorb(&state, sum.words[1]);
        message_size += sizeof(sum);
        bytes += size;
        left -= size;
    }
    ration_hash_siphash_absorb(&state, key_size);
    return ration_hash_siphash_finish(&state, 0, message_size);
}

RATION_WITH_AES struct ration_hash ration_hash_aes(const struct ration_hash_secret *secret,
                                                   const void *key, size_t key_size)
{
    return ration_hash_aes_inline(secret, key, key_size);
}

#endif
