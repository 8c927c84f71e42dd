#include "base/hash.h"

#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL /* header only: no library to link */
#include <xxhash.h>

#include "base/hash_aes.h"
#include "base/hash_siphash.h"

/*
 * The next 16 bytes of the secret: SipHash, keyed by half of the seed, of the other half and a
 * counter.
 */
struct expansion {
    struct ration_hash key;
    uint64_t message[3];
};

static struct ration_hash expand_key(struct expansion *expansion)
{
    struct ration_hash next =
        ration_hash_siphash(&expansion->key, expansion->message, sizeof(expansion->message));

    expansion->message[2]++;
    return next;
}

static void expand_four(struct expansion *expansion, struct ration_hash keys[4])
{
    for (size_t i = 0; i < 4; i++)
        keys[i] = expand_key(expansion);
}

void ration_hash_secret_init_kind(struct ration_hash_secret *secret,
                                  const uint8_t seed[RATION_HASH_SEED_SIZE],
                                  enum ration_hash_kind kind)
{
    struct expansion expansion = {0};

    memcpy(&expansion.key, seed, sizeof(expansion.key));
    memcpy(expansion.message, seed + sizeof(expansion.key), sizeof(expansion.key));
    *secret = (struct ration_hash_secret){.kind = kind};
    secret->siphash = expand_key(&expansion);
    expand_four(&expansion, secret->finish);
    expand_four(&expansion, secret->size);
    for (size_t i = 0; i < RATION_HASH_BLOCK_COUNT; i++)
        expand_four(&expansion, secret->blocks[i]);
    if (kind == RATION_HASH_AES)
        ration_hash_aes_prepare(secret);
}

void ration_hash_secret_init(struct ration_hash_secret *secret,
                             const uint8_t seed[RATION_HASH_SEED_SIZE])
{
    ration_hash_secret_init_kind(secret, seed,
                                 ration_hash_aes_usable() ? RATION_HASH_AES : RATION_HASH_SIPHASH);
}

bool ration_hash_kind_usable(uint64_t kind)
{
    switch (kind) {
    case RATION_HASH_AES:
        return ration_hash_aes_usable();
    case RATION_HASH_SIPHASH:
    case RATION_HASH_TRUSTED:
        return true;
    default:
        return false;
    }
}

struct ration_hash ration_hash_trusted(const void *key, size_t key_size)
{
    XXH128_hash_t hash = XXH3_128bits(key, key_size);

    return (struct ration_hash){{hash.low64, hash.high64}};
}

struct ration_hash ration_hash_key(const struct ration_hash_secret *secret, const void *key,
                                   size_t key_size)
{
    if (__builtin_expect(secret->kind == RATION_HASH_AES, 1))
        return ration_hash_aes(secret, key, key_size);
    if (secret->kind == RATION_HASH_SIPHASH)
        return ration_hash_siphash(&secret->siphash, key, key_size);
    if (secret->kind == RATION_HASH_TRUSTED)
        return ration_hash_trusted(key, key_size);
    abort(); /* a bug: attaching must check ration_hash_kind_usable() first */
}
