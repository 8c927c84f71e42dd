/*
 * R10: the keyed hash. Its values, against SipHash's vectors and AES worked out bit by bit; what
 * it reads; and that it spreads keys which were made to collide.
 */
#include "base/hash.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/hash_aes.h"
#include "base/hash_siphash.h"
#include "base/random.h"
#include "support/guard.h"
#include "support/unit.h"

#define EVERY_SIZE 300 /* every size up to this: two chunks and a rest */

#ifdef RATION_TESTS_SHORT
#define AVALANCHE_SIZE 17
#define KEY_COUNT      200000u
#define FLOOD_COUNT    200
#else
#define AVALANCHE_SIZE 129
#define KEY_COUNT      1000000u
#define FLOOD_COUNT    2000
#endif

static const enum ration_hash_kind kinds[] = {RATION_HASH_AES, RATION_HASH_SIPHASH,
                                              RATION_HASH_TRUSTED};
#define KEYED_COUNT 2 /* the first of them have a secret */
#define KIND_COUNT  3

static uint64_t random_state; /* set by main */

static void fill(uint8_t *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        bytes[i] = (uint8_t)ration_random_next(&random_state);
}

static struct ration_hash_secret any_secret(enum ration_hash_kind kind)
{
    struct ration_hash_secret secret;
    uint8_t seed[RATION_HASH_SEED_SIZE];

    fill(seed, sizeof(seed));
    ration_hash_secret_init_kind(&secret, seed, kind);
    return secret;
}

static bool equal(struct ration_hash a, struct ration_hash b)
{
    return a.words[0] == b.words[0] && a.words[1] == b.words[1];
}

static void need_aes(void)
{
    if (!ration_hash_kind_usable(RATION_HASH_AES))
        skip();
}

/* Values --------------------------------------------------------------------------------- */

/* The authors' vectors_sip128: key 00 01 ... 0f, messages of 0 to 63 bytes 00 01 ... */
static const struct ration_hash siphash_vectors[64] = {
    {{0xe6a825ba047f81a3, 0x930255c71472f66d}}, {{0x44af996bd8c187da, 0x45fc229b11597634}},
    {{0xc75da4a48d227781, 0xe4ff0af6de8ba3fc}}, {{0x4ea967520cb6709c, 0x51ed8529b0b6335f}},
    {{0xaf8f9c2dc16481f8, 0x7955cd7b7c6e0f7d}}, {{0x886f778059876813, 0x27960e69077a5254}},
    {{0x1386208b33caee14, 0x5ea1d78f30a05e48}}, {{0x53c1dbd8beebf1a1, 0x3982f01fa64ab8c0}},
    {{0x61f55862baa9623b, 0xb49714f364e2830f}}, {{0xabbad90a06994426, 0xed716dbb028b7fc4}},
    {{0x56691478c30d1100, 0xbafbd0f3d34754c9}}, {{0x77666b3868c55101, 0x18dce5816fdcb4a2}},
    {{0x58f35e9066b226d6, 0x25c13285f64d6382}}, {{0x108bc0e947e26998, 0xf752b9c44f9329d0}},
    {{0x9cded766aceffc31, 0x024949e45f48c77e}}, {{0x11a8b03399e99354, 0xd9c3cf970fec087e}},
    {{0xbb54b067caa4e26e, 0x77052385bf1533fd}}, {{0x98b88d73e8063d47, 0x4077e47ac466c054}},
    {{0x8548bf23e4e526a4, 0x23f7aefe81a44d29}}, {{0xb0fa65cf31770178, 0xb12e51528920d574}},
    {{0x7390223f83fc259e, 0xeb3938e8a544933e}}, {{0x215a52be5a498e56, 0x121d073ecd14228a}},
    {{0x9a6bd15245b5294a, 0xae0aff8e52109c46}}, {{0xe0f5a9d5dd84d1c9, 0x1c69bf9a9ae28ccf}},
    {{0xd850bd78ae79b42d, 0xad32618a178a2a88}}, {{0x7b445e2d045fce8e, 0x6f8f8dcbeab95150}},
    {{0xe807c3b3b4530b9c, 0x661f147886e0ae7e}}, {{0xe4eaa669af48f2ab, 0x94eb9e122febd3bf}},
    {{0x884b576816da6406, 0xf4ae587302f335b9}}, {{0xe97d33bfc49d4baa, 0xb76a7c463cfdd40c}},
    {{0xde6baf1f477f5cea, 0x87226d68d4d71a2b}}, {{0xfcfa233218b03929, 0x353dc4524fde2317}},
    {{0x3efcea5eca56397c, 0x68eb4665559d3e36}}, {{0x321cf0467107c677, 0xcfffa94e5f9db6b6}},
    {{0xdf7e84b86c98a637, 0xde549b30f1f02509}}, {{0xf9a8a99de6f005a7, 0xc88c3c922e1a2407}},
    {{0x4648c4291f7dc43d, 0x11674f90ed769e1e}}, {{0x1a0efce601bf620d, 0x2b69d3c551473c0d}},
    {{0x9e667cca8b46038c, 0xb5e7be4b085efde4}}, {{0x9c2caf3bb95b8a52, 0xd92bd2d0e5cc7344}},
    {{0xad5dc9951e306adf, 0xd83b91c6c80cae97}}, {{0x397f852c90891180, 0xdbb6705e289135e7}},
    {{0xbb31c2c96a3417e6, 0x5b0ccacc34ae5036}}, {{0xaa21b7ef3734d927, 0x89df5aecdc211840}},
    {{0x785e9ced9d7d2389, 0x4273cc66b1c9b1d8}}, {{0x657d5ebf91806d4a, 0x4cb150a294fa8911}},
    {{0x89aee75560f9330e, 0x022949cf3d0efc3f}}, {{0xd1190b722b431ce6, 0x1b1563dc4bd8c88e}},
    {{0xcf82f749f5aee5f7, 0x169b2608a6559037}}, {{0x4fa5b7d00f038d43, 0x03641a20adf237a8}},
    {{0xe304bf4feed390a5, 0x3f4286f2270d7e24}}, {{0xc493fe72a1c1e25f, 0x38f5f9ae7cd35cb1}},
    {{0x6eb306bd5c32972c, 0x7c013a8bd03d13b2}}, {{0x94ca6b7a2214c892, 0x9ed32a009f65f09f}},
    {{0x8c32d80b1150e8dc, 0x871d91d64108d5fb}}, {{0x1279dac78449f167, 0xda832592b52be348}},
    {{0xe94ed572cff23819, 0x362a1da96f16947e}}, {{0xfe49ed46961e4874, 0x8e6904163024620f}},
    {{0xd8d6a998dea5fc57, 0x1d8a3d58d0386400}}, {{0xbe1cdcef1cdeec9f, 0x595357d9743676d4}},
    {{0x53f128eb000c04e3, 0x40e772d8cb73ca66}}, {{0xfe1d836a9a009776, 0x7a0f6793591ca9cc}},
    {{0xa067f52123545358, 0xbd5947f0a447d505}}, {{0x4a83502f77d15051, 0x7cbd3f979a063e50}},
};

static void R10_siphash_gives_the_vectors_of_its_authors(void **state)
{
    struct ration_hash key;
    uint8_t bytes[64];

    (void)state;
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (uint8_t)i;
    memcpy(&key, bytes, sizeof(key));
    for (size_t size = 0; size < 64; size++)
        assert_true(equal(ration_hash_siphash(&key, bytes, size), siphash_vectors[size]));
}

static void trusted_is_xxh3_of_128_bits(void **state)
{
    struct ration_hash empty = {{UINT64_C(0x6001c324468d497f), UINT64_C(0x99aa06d3014798d8)}};
    struct ration_hash a = {{UINT64_C(0xe6c632b61e964e1f), UINT64_C(0xa96faf705af16834)}};
    struct ration_hash_secret secret = any_secret(RATION_HASH_TRUSTED);

    (void)state;
    assert_true(equal(ration_hash_trusted(NULL, 0), empty));
    assert_true(equal(ration_hash_trusted("a", 1), a));
    assert_true(equal(ration_hash_key(&secret, "a", 1), a));
}

/* AES by its definition in FIPS 197, on bytes: multiplication in GF(2^8), inverses by search. */

struct state {
    uint8_t bytes[16];
};

static uint8_t times(uint8_t a, uint8_t b)
{
    unsigned product = 0;

    for (int bit = 7; bit >= 0; bit--) {
        product = product << 1 ^ (product & 0x80 ? 0x11B : 0);
        if (b >> bit & 1)
            product ^= a;
    }
    return (uint8_t)product;
}

static uint8_t substitute(uint8_t byte)
{
    unsigned inverse = 0, result = 0x63;

    for (unsigned i = 1; i < 256; i++)
        if (times(byte, (uint8_t)i) == 1)
            inverse = i;
    for (int i = 0; i < 5; i++)
        result ^= inverse << i | inverse >> (8 - i);
    return (uint8_t)result;
}

static struct state slow_xor(struct state a, struct state b)
{
    for (int i = 0; i < 16; i++)
        a.bytes[i] ^= b.bytes[i];
    return a;
}

/* SubBytes, ShiftRows and MixColumns. */
static struct state slow_round(struct state in)
{
    static uint8_t table[256];
    struct state shifted, out;

    for (int i = 0; table[0] == 0 && i < 256; i++)
        table[255 - i] = substitute((uint8_t)(255 - i));
    for (int column = 0; column < 4; column++)
        for (int row = 0; row < 4; row++)
            shifted.bytes[4 * column + row] = table[in.bytes[4 * ((column + row) % 4) + row]];
    for (int i = 0; i < 16; i++) {
        const uint8_t *column = &shifted.bytes[i / 4 * 4];

        out.bytes[i] = (uint8_t)(times(2, column[i % 4]) ^ times(3, column[(i + 1) % 4]) ^
                                 column[(i + 2) % 4] ^ column[(i + 3) % 4]);
    }
    return out;
}

static struct state state_of(struct ration_hash value)
{
    struct state state;

    for (int i = 0; i < 16; i++)
        state.bytes[i] = (uint8_t)(value.words[i / 8] >> (8 * (i % 8)));
    return state;
}

static struct ration_hash state_value(struct state state)
{
    struct ration_hash value = {{0, 0}};

    for (int i = 0; i < 16; i++)
        value.words[i / 8] |= (uint64_t)state.bytes[i] << (8 * (i % 8));
    return value;
}

static struct state slow_mix(struct state input, const struct ration_hash keys[4])
{
    for (int i = 0; i < 4; i++)
        input = slow_round(slow_xor(input, state_of(keys[i])));
    return input;
}

/* The sum of a chunk of size bytes at key + start. A short last block is moved back to be full. */
static struct state slow_sum(const struct ration_hash_secret *secret, const uint8_t *key,
                             size_t start, size_t size)
{
    struct state sum = {{0}};

    for (size_t block = 0; block == 0 || 16 * block < size; block++) {
        size_t from = 16 * block + 16 > size ? start + size - 16 : start + 16 * block;
        struct state input;

        memcpy(input.bytes, key + from, 16);
        sum = slow_xor(sum, slow_mix(input, secret->blocks[block]));
    }
    return sum;
}

/* The block of a key that is too short for one. */
static struct state slow_short(const uint8_t *key, size_t size)
{
    struct state block = {{0}};
    size_t piece = size >= 8 ? 8 : size >= 4 ? 4 : 0;

    memcpy(block.bytes, key, piece);
    memcpy(block.bytes + piece, key + size - piece, piece);
    if (piece == 0 && size > 0) {
        block.bytes[0] = key[0];
        block.bytes[1] = size == 1 ? key[0] : key[1];
        block.bytes[2] = key[size - 1];
    }
    return block;
}

static struct ration_hash slow_hash(const struct ration_hash_secret *secret, const uint8_t *key,
                                    size_t size)
{
    struct state sum = state_of(secret->finish[0]);

    if (size > 128) {
        size_t chunk_count = (size + 127) / 128;
        struct ration_hash *message = calloc(chunk_count + 1, sizeof(*message));
        struct ration_hash hash;

        for (size_t i = 0; i < chunk_count; i++)
            message[i] = state_value(
                slow_sum(secret, key, 128 * i, i + 1 < chunk_count ? 128 : size - 128 * i));
        message[chunk_count].words[0] = size;
        hash = ration_hash_siphash(&secret->siphash, message, 16 * chunk_count + 8);
        free(message);
        return hash;
    }
    sum = slow_xor(sum, slow_mix(state_of((struct ration_hash){{size, 0}}), secret->size));
    sum = slow_xor(sum, size < 16 ? slow_mix(slow_short(key, size), secret->blocks[0])
                                  : slow_sum(secret, key, 0, size));
    for (int i = 1; i < 4; i++)
        sum = slow_xor(slow_round(sum), state_of(secret->finish[i]));
    return state_value(sum);
}

/* FIPS 197, appendix B, round 1. */
static void the_slow_round_is_that_of_the_standard(void **state)
{
    static const struct state start = {{0x19, 0x3d, 0xe3, 0xbe, 0xa0, 0xf4, 0xe2, 0x2b, 0x9a, 0xc6,
                                        0x8d, 0x2a, 0xe9, 0xf8, 0x48, 0x08}};
    static const struct state mixed = {{0x04, 0x66, 0x81, 0xe5, 0xe0, 0xcb, 0x19, 0x9a, 0x48, 0xf8,
                                        0xd3, 0x7a, 0x28, 0x06, 0x26, 0x4c}};

    (void)state;
    assert_memory_equal(slow_round(start).bytes, mixed.bytes, 16);
}

static void R10_aes_hash_equals_the_slow_one(void **state)
{
    static uint8_t key[70000];
    static const size_t large[] = {511, 512, 513, 1000, 65535, 65536, 65537, sizeof(key)};

    (void)state;
    need_aes();
    for (size_t size = 0; size <= EVERY_SIZE; size++) {
        struct ration_hash_secret secret = any_secret(RATION_HASH_AES);

        fill(key, size);
        assert_true(equal(ration_hash_key(&secret, key, size), slow_hash(&secret, key, size)));
    }
    for (size_t i = 0; i < sizeof(large) / sizeof(large[0]); i++) {
        struct ration_hash_secret secret = any_secret(RATION_HASH_AES);

        fill(key, large[i]);
        assert_true(
            equal(ration_hash_key(&secret, key, large[i]), slow_hash(&secret, key, large[i])));
    }
}

/* Secrets -------------------------------------------------------------------------------- */

static void kinds_of_this_machine_are_known(void **state)
{
    struct ration_hash_secret secret;
    uint8_t seed[RATION_HASH_SEED_SIZE] = {0};

    (void)state;
    ration_hash_secret_init(&secret, seed);
    assert_true(secret.kind == RATION_HASH_AES || secret.kind == RATION_HASH_SIPHASH);
    assert_true(ration_hash_kind_usable(secret.kind));
    assert_int_equal(ration_hash_kind_usable(RATION_HASH_AES), secret.kind == RATION_HASH_AES);
    assert_true(ration_hash_kind_usable(RATION_HASH_SIPHASH));
    assert_true(ration_hash_kind_usable(RATION_HASH_TRUSTED));
    assert_false(ration_hash_kind_usable(0));
    assert_false(ration_hash_kind_usable(4));
    assert_false(ration_hash_kind_usable(UINT64_C(1) << 32 | RATION_HASH_SIPHASH));
}

static void R10_every_byte_of_the_seed_counts_and_no_two_round_keys_are_equal(void **state)
{
    static struct ration_hash_secret secrets[RATION_HASH_SEED_SIZE + 1];
    static struct ration_hash all[(RATION_HASH_SEED_SIZE + 1) * 41];
    struct ration_hash_secret again;
    uint8_t seed[RATION_HASH_SEED_SIZE];
    size_t count = 0;

    (void)state;
    fill(seed, sizeof(seed));
    for (size_t i = 0; i <= RATION_HASH_SEED_SIZE; i++) {
        const struct ration_hash *blocks = &secrets[i].blocks[0][0];

        ration_hash_secret_init(&secrets[i], seed);
        ration_hash_secret_init(&again, seed);
        assert_memory_equal(&secrets[i], &again, sizeof(again));
        all[count++] = secrets[i].siphash;
        for (size_t j = 0; j < 4; j++) {
            all[count++] = secrets[i].finish[j];
            all[count++] = secrets[i].size[j];
        }
        for (size_t j = 0; j < sizeof(again.blocks) / sizeof(*blocks); j++)
            all[count++] = secrets[i].blocks[j / 4][j % 4];
        if (i < RATION_HASH_SEED_SIZE)
            seed[i] ^= 1;
    }
    assert_int_equal(count, sizeof(all) / sizeof(all[0]));
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < i; j++)
            assert_true(all[i].words[0] != all[j].words[0] && all[i].words[1] != all[j].words[1]);
}

static void R10_another_secret_is_another_hash(void **state)
{
    uint8_t key[EVERY_SIZE];

    (void)state;
    fill(key, sizeof(key));
    for (size_t i = 0; i < KEYED_COUNT; i++) {
        if (!ration_hash_kind_usable(kinds[i]))
            continue;
        for (size_t size = 0; size <= sizeof(key); size++) {
            struct ration_hash_secret one = any_secret(kinds[i]), other = any_secret(kinds[i]);
            struct ration_hash a = ration_hash_key(&one, key, size);
            struct ration_hash b = ration_hash_key(&other, key, size);

            assert_true(a.words[0] != b.words[0] && a.words[1] != b.words[1]);
            assert_true(equal(a, ration_hash_key(&one, key, size)));
        }
    }
}

/* Reading -------------------------------------------------------------------------------- */

static void R10_no_byte_outside_the_key_is_read(void **state)
{
    char copy[EVERY_SIZE + 16];

    (void)state;
    for (size_t i = 0; i < KIND_COUNT; i++) {
        struct ration_hash_secret secret = any_secret(kinds[i]);

        if (!ration_hash_kind_usable(kinds[i]))
            continue;
        for (size_t size = 0; size <= EVERY_SIZE; size++) {
            char *start = guard - size;
            struct ration_hash hash;

            fill((uint8_t *)start - 32, size + 32);
            hash = ration_hash_key(&secret, start, size);
            /* The bytes around the key, and its address, do not matter. */
            for (size_t offset = 0; offset < 16; offset++) {
                fill((uint8_t *)copy, sizeof(copy));
                memcpy(copy + offset, start, size);
                assert_true(equal(ration_hash_key(&secret, copy + offset, size), hash));
            }
        }
        assert_true(equal(ration_hash_key(&secret, NULL, 0), ration_hash_key(&secret, guard, 0)));
    }
}

/* Spreading ------------------------------------------------------------------------------ */

static uint64_t fnv(const uint8_t *key, size_t size)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);

    for (size_t i = 0; i < size; i++)
        hash = (hash ^ key[i]) * UINT64_C(0x100000001b3);
    return hash;
}

/* The controls: hashes that the checks below must reject. NULL stands for them. */
static struct ration_hash hash_or_fnv(const struct ration_hash_secret *secret, const uint8_t *key,
                                      size_t size)
{
    if (secret)
        return ration_hash_key(secret, key, size);
    return (struct ration_hash){{fnv(key, size), fnv(key, size / 2)}};
}

#define AVALANCHE_ROUNDS 256
#define AVALANCHE_FAR    56 /* seven standard deviations of 256 coins */

/* How many (bit of the key, bit of the hash) pairs do not flip together half of the time. */
static unsigned lazy_pairs(const struct ration_hash_secret *secret, size_t size)
{
    unsigned lazy = 0;
    uint8_t key[EVERY_SIZE];

    for (size_t in = 0; in < 8 * size; in++) {
        int flips[128] = {0};

        for (int round = 0; round < AVALANCHE_ROUNDS; round++) {
            struct ration_hash a, b;

            fill(key, size);
            a = hash_or_fnv(secret, key, size);
            key[in / 8] ^= (uint8_t)(1 << in % 8);
            b = hash_or_fnv(secret, key, size);
            for (int out = 0; out < 128; out++)
                flips[out] += (int)((a.words[out / 64] ^ b.words[out / 64]) >> out % 64 & 1);
        }
        for (int out = 0; out < 128; out++)
            lazy += abs(flips[out] - AVALANCHE_ROUNDS / 2) > AVALANCHE_FAR;
    }
    return lazy;
}

static void R10_every_bit_of_a_key_flips_half_of_the_hash(void **state)
{
    /* Not 1: the 256 keys of one byte make fewer pairs than there are rounds. */
    static const size_t sizes[] = {2, 3, 5, 8, 11, 16, 17, 33, 129};

    (void)state;
    for (size_t i = 0; i < KEYED_COUNT; i++) {
        struct ration_hash_secret secret = any_secret(kinds[i]);

        if (!ration_hash_kind_usable(kinds[i]))
            continue;
        for (size_t j = 0; j < sizeof(sizes) / sizeof(sizes[0]) && sizes[j] <= AVALANCHE_SIZE; j++)
            assert_int_equal(lazy_pairs(&secret, sizes[j]), 0);
    }
    assert_true(lazy_pairs(NULL, 16) > 1000);
}

/* Blocks of these are equal for many sizes: only the size tells them apart. */
static void R10_longer_keys_of_the_same_bytes_differ(void **state)
{
    static const uint8_t bytes[] = {0, 'a', 0xFF};
    struct ration_hash hashes[EVERY_SIZE + 1];
    uint8_t key[EVERY_SIZE];

    (void)state;
    for (size_t i = 0; i < KEYED_COUNT * sizeof(bytes); i++) {
        enum ration_hash_kind kind = kinds[i / sizeof(bytes)];
        struct ration_hash_secret secret = any_secret(kind);

        memset(key, bytes[i % sizeof(bytes)], sizeof(key));
        for (size_t size = 0; ration_hash_kind_usable(kind) && size <= sizeof(key); size++) {
            hashes[size] = ration_hash_key(&secret, key, size);
            for (size_t j = 0; j < size; j++)
                assert_true(hashes[size].words[0] != hashes[j].words[0] &&
                            hashes[size].words[1] != hashes[j].words[1]);
        }
    }
}

#define SET_COUNT   65536u
#define CHI_FAR     (6 * 362) /* six standard deviations: sqrt(2 * 65535) = 362 */
#define NAME_LENGTH 11

static int compare_words(const void *a, const void *b)
{
    uint64_t x, y;

    memcpy(&x, a, sizeof(x));
    memcpy(&y, b, sizeof(y));
    return (x > y) - (x < y);
}

/* How far from random: the chi-square of the 16 bits from shift, less its expected value. */
static double chi_excess(const struct ration_hash *hashes, int word, int shift)
{
    static unsigned loads[SET_COUNT];
    double expected = (double)KEY_COUNT / SET_COUNT, sum = 0;

    memset(loads, 0, sizeof(loads));
    for (size_t i = 0; i < KEY_COUNT; i++)
        loads[hashes[i].words[word] >> shift & (SET_COUNT - 1)]++;
    for (size_t i = 0; i < SET_COUNT; i++)
        sum += (loads[i] - expected) * (loads[i] - expected) / expected;
    return sum - (SET_COUNT - 1);
}

static void hash_sequential(const struct ration_hash_secret *secret, struct ration_hash *hashes)
{
    for (unsigned i = 0; i < KEY_COUNT; i++) {
        char name[NAME_LENGTH + 1] = "key-0000000";

        for (unsigned rest = i, at = NAME_LENGTH - 1; rest > 0; rest /= 10, at--)
            name[at] = (char)('0' + rest % 10);
        hashes[i] = hash_or_fnv(secret, (const uint8_t *)name, NAME_LENGTH);
    }
}

static void R10_hashes_of_sequential_keys_look_random(void **state)
{
    struct ration_hash *hashes = calloc(KEY_COUNT, sizeof(*hashes));
    uint64_t *words = calloc(KEY_COUNT, sizeof(*words));

    (void)state;
    assert_true(hashes && words);
    for (size_t i = 0; i < KEYED_COUNT; i++) {
        struct ration_hash_secret secret = any_secret(kinds[i]);

        if (!ration_hash_kind_usable(kinds[i]))
            continue;
        hash_sequential(&secret, hashes);
        for (int word = 0; word < 2; word++) {
            for (int shift = 0; shift < 64; shift += 16) {
                double excess = chi_excess(hashes, word, shift);

                if (excess < -CHI_FAR || excess > CHI_FAR)
                    fail_msg("kind %d, word %d, shift %d: chi-square is off by %.0f", kinds[i],
                             word, shift, excess);
            }
            for (size_t j = 0; j < KEY_COUNT; j++)
                words[j] = hashes[j].words[word];
            qsort(words, KEY_COUNT, sizeof(*words), compare_words);
            for (size_t j = 1; j < KEY_COUNT; j++)
                assert_true(words[j - 1] != words[j]);
        }
    }
    hash_sequential(NULL, hashes); /* the control */
    assert_true(chi_excess(hashes, 0, 48) > CHI_FAR);
    free(words);
    free(hashes);
}

/* Flooding: keys made to share one set of 4096 when the hash is known. */

#define FLOOD_SETS 4096u
#define FLOOD_MAX  12 /* of 2000 random keys, 13 share a set once in ten billion tables */

struct flood {
    uint64_t keys[FLOOD_COUNT][2];
};

static unsigned set_of(const struct ration_hash_secret *secret, const uint64_t key[2])
{
    return (unsigned)(ration_hash_key(secret, key, 16).words[0] % FLOOD_SETS);
}

static void flood_craft(const struct ration_hash_secret *known, struct flood *flood)
{
    uint64_t key[2] = {ration_random_next(&random_state), 0};

    for (size_t count = 0; count < FLOOD_COUNT; key[1]++)
        if (set_of(known, key) == 7)
            memcpy(flood->keys[count++], key, sizeof(key));
}

static unsigned flood_load(const struct ration_hash_secret *secret, const struct flood *flood)
{
    unsigned loads[FLOOD_SETS] = {0}, most = 0;

    for (size_t i = 0; i < FLOOD_COUNT; i++) {
        unsigned load = ++loads[set_of(secret, flood->keys[i])];

        most = load > most ? load : most;
    }
    return most;
}

static void R10_keys_made_to_collide_do_so_only_under_the_hash_they_were_made_for(void **state)
{
    static struct flood flood;

    (void)state;
    for (size_t i = 0; i < KIND_COUNT; i++) {
        struct ration_hash_secret known = any_secret(kinds[i]);

        if (!ration_hash_kind_usable(kinds[i]))
            continue;
        flood_craft(&known, &flood);
        assert_int_equal(flood_load(&known, &flood), FLOOD_COUNT);
        for (size_t j = 0; j < KEYED_COUNT; j++) {
            struct ration_hash_secret secret = any_secret(kinds[j]);

            if (ration_hash_kind_usable(kinds[j]))
                assert_in_range(flood_load(&secret, &flood), 1, FLOOD_MAX);
        }
    }
    /* Without a secret another table is no refuge. */
    struct ration_hash_secret one = any_secret(RATION_HASH_TRUSTED);
    struct ration_hash_secret other = any_secret(RATION_HASH_TRUSTED);

    flood_craft(&one, &flood);
    assert_int_equal(flood_load(&other, &flood), FLOOD_COUNT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(R10_siphash_gives_the_vectors_of_its_authors),
        cmocka_unit_test(trusted_is_xxh3_of_128_bits),
        cmocka_unit_test(the_slow_round_is_that_of_the_standard),
        cmocka_unit_test(R10_aes_hash_equals_the_slow_one),
        cmocka_unit_test(kinds_of_this_machine_are_known),
        cmocka_unit_test(R10_every_byte_of_the_seed_counts_and_no_two_round_keys_are_equal),
        cmocka_unit_test(R10_another_secret_is_another_hash),
        cmocka_unit_test(R10_no_byte_outside_the_key_is_read),
        cmocka_unit_test(R10_every_bit_of_a_key_flips_half_of_the_hash),
        cmocka_unit_test(R10_longer_keys_of_the_same_bytes_differ),
        cmocka_unit_test(R10_hashes_of_sequential_keys_look_random),
        cmocka_unit_test(R10_keys_made_to_collide_do_so_only_under_the_hash_they_were_made_for),
    };
    const char *given = getenv("RATION_TEST_SEED");

    if (given)
        random_state = strtoull(given, NULL, 0);
    else if (getrandom(&random_state, sizeof(random_state), 0) != (ssize_t)sizeof(random_state))
        return 1;
    print_message("hash_test: RATION_TEST_SEED=%" PRIu64 "\n", random_state);
    return cmocka_run_group_tests(tests, guard_map, guard_unmap);
}
