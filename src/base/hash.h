/*
 * hash: a 128-bit hash of a key that an attacker cannot predict without the table's secret.
 *
 * Untrusted clients choose keys. A client that can find two keys with the same hash shares a bucket
 * with a victim; one that can find many keys for the same set of slots fills that set. So the hash
 * is keyed: 32 random bytes, expanded once and stored in the table.
 *
 * The construction, where the CPU has AES: a key is cut into blocks of 16 bytes, and its size is
 * one more block. Each block goes through A: four AES rounds under four secret round keys of its
 * own. The results are xored, and three rounds under other keys spread the sum over all bits:
 *
 *     hash = finish(A_size(size) ^ A_0(block 0) ^ A_1(block 1) ^ ...)   up to 128 bytes, 8 blocks
 *     hash = SipHash(sum of chunk 0, sum of chunk 1, ..., size)         above: chunks of 128 bytes
 *
 * "user-12345678901" is one block: its latency is seven rounds, and four more run in parallel.
 * "user-123456789012", one byte longer, is two blocks: its first 16 bytes and its last 16, which
 * overlap. Shorter keys are put into one block in pieces that overlap in the same way. So no byte
 * past the key is read, and the size and the blocks determine the key.
 *
 * Why two different keys, chosen without knowing the secret, do not collide:
 *
 *     Four AES rounds under independent random round keys turn a difference d into a difference e
 *     with probability below 2^-113, for any d but 0 and any e (Keliher and Sui, "Exact maximum
 *     expected differential and linear probability for two-round AES", 2007: (53/2^34)^4).
 *
 *     Up to 128 bytes, the two keys differ in a block (the size is one). Its round keys are
 *     independent of all others, so its A would have to produce exactly the difference that cancels
 *     all others: below 2^-113. finish() is a permutation; it neither causes nor hides a collision.
 *
 *     Above, two keys of one size differ in a chunk. Either its two sums are equal, 2^-113 as
 *     before, or SipHash gets two different messages, as it does for two sizes: 2^-128. One key
 *     above and one below: 2^-128, since SipHash's key is independent of the other keys.
 *
 * A table stores only a part of a hash. By the same theorem, the probability that some t bits of
 * two hashes agree is below 2^(15 - t) up to 128 bytes, since 2^(128 - t) differences leave them
 * unchanged, and 2^-113 + 2^-t above: 2^-49 for 64 bits. (About 2^-t is the expected value, but is
 * not proven.)
 *
 * The only assumption: SipHash-2-4 under a random key is pseudorandom. It derives the round keys
 * from the seed, so they are as good as independent; it combines the chunks; and it is the whole
 * hash where there is no AES: then any two keys collide with probability 2^-128.
 *
 * Not claimed: that this is a MAC, or that it hides keys. The bounds hold for keys chosen without
 * having seen hashes. Do not show hashes to untrusted clients: a client that sees enough of them
 * may find the round keys.
 */
#ifndef RATION_BASE_HASH_H
#define RATION_BASE_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RATION_HASH_SEED_SIZE   32
#define RATION_HASH_BLOCK_SIZE  16
#define RATION_HASH_BLOCK_COUNT 8 /* blocks per chunk, each with its own round keys */
#define RATION_HASH_CHUNK_SIZE  (RATION_HASH_BLOCK_COUNT * RATION_HASH_BLOCK_SIZE)

/* Stored in tables: never renumber. */
enum ration_hash_kind {
    RATION_HASH_AES = 1,
    RATION_HASH_SIPHASH = 2,
    RATION_HASH_TRUSTED = 3, /* without a secret: ration_hash_trusted() */
};

struct ration_hash {
    uint64_t words[2];
};

/*
 * An expanded secret: plain bytes without pointers, the same for every process of one machine.
 * A key of up to 16 bytes reads three of its cache lines.
 */
struct ration_hash_secret {
    uint64_t kind; /* enum ration_hash_kind */
    uint64_t unused[5];
    struct ration_hash siphash;
    struct ration_hash finish[4];
    struct ration_hash size[4]; /* round keys of the block with the size, ... */
    struct ration_hash blocks[RATION_HASH_BLOCK_COUNT][4]; /* ... and of the key's blocks */
    struct ration_hash starts[RATION_HASH_CHUNK_SIZE + 1]; /* one for each size, already mixed in */
    struct ration_hash padding[3];
} __attribute__((aligned(64)));

_Static_assert(sizeof(struct ration_hash_secret) == 2816, "no padding: tables hold these bytes");

/* Expands 32 random bytes into a secret of the best kind that this machine supports. */
void ration_hash_secret_init(struct ration_hash_secret *secret,
                             const uint8_t seed[RATION_HASH_SEED_SIZE]);

/* As ration_hash_secret_init(), with a kind chosen by the caller. */
void ration_hash_secret_init_kind(struct ration_hash_secret *secret,
                                  const uint8_t seed[RATION_HASH_SEED_SIZE],
                                  enum ration_hash_kind kind);

/* Returns whether this machine supports kind, which may come from a file and be any number. */
bool ration_hash_kind_usable(uint64_t kind);

/*
 * Returns the hash of any bytes; key may be NULL if key_size is 0. The secret's kind must be
 * usable: a process that attaches to a table written by another checks ration_hash_kind_usable()
 * first. Any thread.
 */
struct ration_hash ration_hash_key(const struct ration_hash_secret *secret, const void *key,
                                   size_t key_size);

/*
 * Returns a hash without a secret (XXH3, 128 bits), for keys that the program itself makes. A
 * client that chooses keys can make these collide at will.
 */
struct ration_hash ration_hash_trusted(const void *key, size_t key_size);

#endif
