/*
 * blocks: keys that are blocked outside their buckets.
 *
 * The state of a token bucket can express that it has no token before a given time: the bucket is full that much
 * later. The state of a window or a log cannot, and what it has counted must still be there when the block ends. So
 * the engine stores the blocks of such keys in a separate limiter, one for all limits. Each of its buckets has one
 * token, which is refilled within a nanosecond. No token is ever taken from these buckets; a bucket can only be
 * blocked. It is full, and its slot is free, when the block ends.
 *
 * A key of this limiter is the hash of the limit's key, whatever its length, under a secret derived from the limit's
 * name and key attributes. So a limit that a reload keeps or adds again keeps its blocks, also if its algorithm has
 * changed; a limit whose key has changed has none.
 */
#include <string.h>

#include "base/hash_siphash.h"
#include "base/time.h"
#include "engine/engine_internal.h"
#include "limiter/fast.h"
#include "limiter/limiter_internal.h"

#define BLOCKED_KEYS_MAX 65536 /* saved states have this size: to change it, change SAVED_VERSION */
#define SCAN_ITEMS       64

struct ration_hash ration_engine_block_secret(const struct ration_engine *engine,
                                              const struct ration_policy_limit *limit)
{
    const struct ration_hash_secret *secret = &engine->blocks->fast_section->block->secret;
    /* with the terminating 0, which separates the name from the key text */
    size_t name_size = strlen(limit->limit.name) + 1;
    char text[RATION_LIMIT_NAME_MAX + 1 + RATION_ENGINE_KEY_TEXT_SIZE];

    memcpy(text, limit->limit.name, name_size);
    ration_engine_key_text(limit, text + name_size);
    return ration_hash_key(secret, text, name_size + strlen(text + name_size));
}

static struct ration_hash hash_blocked_key(const struct ration_hash *secret,
                                           const struct ration_key *key)
{
    return ration_hash_siphash(secret, key->bytes, key->size);
}

uint64_t ration_engine_blocked_ns(const struct ration_engine *engine,
                                  const struct ration_hash *secret, const struct ration_key *key,
                                  uint64_t now_ns)
{
    struct ration_hash hash = hash_blocked_key(secret, key);

    return ration_fast_full_after_ns(engine->blocks, &(struct ration_key){&hash, sizeof(hash)},
                                     now_ns);
}

/* From now on, checks look up blocks until until_ns at least. */
static void expect_blocks(struct ration_engine *engine, uint64_t until_ns)
{
    uint64_t seen_ns = __atomic_load_n(&engine->blocked_until_ns, __ATOMIC_RELAXED);

    /* relaxed: a thread whose check must see the block has synchronized with the blocking thread in another way */
    while (seen_ns < until_ns &&
           !__atomic_compare_exchange_n(&engine->blocked_until_ns, &seen_ns, until_ns, false,
                                        __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
}

ration_status ration_engine_block_key(struct ration_engine *engine,
                                      const struct ration_hash *secret,
                                      const struct ration_key *key, uint64_t until_ns,
                                      uint64_t now_ns)
{
    struct ration_hash hash = hash_blocked_key(secret, key);

    expect_blocks(engine, until_ns);
    return ration_limiter_block_until(engine->blocks, &(struct ration_key){&hash, sizeof(hash)},
                                      until_ns, now_ns);
}

ration_status ration_engine_unblock_key(struct ration_engine *engine,
                                        const struct ration_hash *secret,
                                        const struct ration_key *key, uint64_t now_ns)
{
    struct ration_hash hash = hash_blocked_key(secret, key);

    if (__atomic_load_n(&engine->blocked_until_ns, __ATOMIC_RELAXED) == 0)
        return RATION_OK; /* no key was ever blocked: the table's memory stays unused */
    return ration_limiter_reset(engine->blocks, &(struct ration_key){&hash, sizeof(hash)}, now_ns);
}

/* Finds the time at which the last loaded block ends. */
static void find_last_block(struct ration_engine *engine)
{
    uint64_t now_ns = ration_time_clamp(ration_limiter_now(engine->blocks));
    struct ration_scan_item items[SCAN_ITEMS];
    uint64_t cursor = 0;

    do {
        size_t count = ration_limiter_scan(engine->blocks, &cursor, items, SCAN_ITEMS, now_ns);

        for (size_t i = 0; i < count; i++)
            expect_blocks(engine, now_ns + items[i].full_after_ns);
    } while (cursor != 0);
}

ration_status ration_engine_make_blocks(struct ration_engine *engine,
                                        const struct ration_engine_options *options,
                                        ration_reader *read, void *context,
                                        struct ration_error *error)
{
    struct ration_rule rule = {0};
    struct ration_limiter_options limiter_options = {
        .struct_size = sizeof(limiter_options),
        .rules = &rule,
        .rule_count = 1,
        .keys_max = BLOCKED_KEYS_MAX,
        .overflow = RATION_OVERFLOW_ALLOW, /* a key without a slot is not blocked */
        .clock = &engine->clock,
        .threads_max = options->threads_max,
    };
    ration_status status;

    (void)ration_limit_per(1, 1, &rule.limit); /* one token per nanosecond */
    if (read == NULL)
        return ration_limiter_create(&limiter_options, &engine->blocks, error);
    status = ration_limiter_load(&limiter_options, read, context, &engine->blocks, error);
    if (status == RATION_OK)
        find_last_block(engine);
    return status;
}
