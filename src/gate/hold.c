/*
 * hold: keys that are blocked beside their buckets.
 *
 * A token bucket can say that nothing passes before a moment: it is full so much later. A window or a
 * log cannot, and what it has counted is to be there when the block is over. So keys of such limits are
 * held in a limiter of their own, one for all limits, whose buckets are one token that comes back within
 * a nanosecond. Nothing is ever taken from them: to block one is all that happens to it, and it is full,
 * and its place free, at the moment until which it was blocked.
 *
 * A key there is the hash of the limit's key, of whatever length, under a secret that the limit's name
 * and attributes make. So a limit that a reload keeps, or that comes back, keeps its holds; one whose
 * key is another has none; and a limit whose kind is another has those it had.
 */
#include <string.h>

#include "base/hash_siphash.h"
#include "base/time.h"
#include "gate/gate.h"
#include "limiter/limiter.h"
#include "limiter/quick.h"

#define HOLD_KEYS_MAX 65536 /* saved states are of this size: another one needs another version */
#define SCAN_ITEMS    64

struct ration_hash ration_gate_hold_secret(const struct ration_gate *gate,
                                           const struct ration_policy_limit *limit)
{
    const struct ration_hash_secret *secret = &gate->holds->quick_section->block->secret;
    size_t name_size = strlen(limit->limit.name) + 1; /* with its end, which no name has in it */
    char text[RATION_LIMIT_NAME_MAX + 1 + RATION_GATE_KEY_TEXT_SIZE];

    memcpy(text, limit->limit.name, name_size);
    ration_gate_key_text(limit, text + name_size);
    return ration_hash_key(secret, text, name_size + strlen(text + name_size));
}

static struct ration_hash hash_of(const struct ration_hash *secret, const struct ration_key *key)
{
    return ration_hash_siphash(secret, key->bytes, key->size);
}

uint64_t ration_gate_held_ns(const struct ration_gate *gate, const struct ration_hash *secret,
                             const struct ration_key *key, uint64_t now_ns)
{
    struct ration_hash hash = hash_of(secret, key);

    return ration_quick_full_after_ns(gate->holds, &(struct ration_key){&hash, sizeof(hash)},
                                      now_ns);
}

/* From now on those who check look for holds, until then. */
static void expect_holds(struct ration_gate *gate, uint64_t until_ns)
{
    uint64_t seen_ns = __atomic_load_n(&gate->held_until_ns, __ATOMIC_RELAXED);

    /* relaxed: who is to see a hold is told of it in some other way */
    while (seen_ns < until_ns &&
           !__atomic_compare_exchange_n(&gate->held_until_ns, &seen_ns, until_ns, false,
                                        __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
}

ration_status ration_gate_hold_until(struct ration_gate *gate, const struct ration_hash *secret,
                                     const struct ration_key *key, uint64_t until_ns,
                                     uint64_t now_ns)
{
    struct ration_hash hash = hash_of(secret, key);

    expect_holds(gate, until_ns);
    return ration_limiter_block_until(gate->holds, &(struct ration_key){&hash, sizeof(hash)},
                                      until_ns, now_ns);
}

ration_status ration_gate_let_go(struct ration_gate *gate, const struct ration_hash *secret,
                                 const struct ration_key *key, uint64_t now_ns)
{
    struct ration_hash hash = hash_of(secret, key);

    if (__atomic_load_n(&gate->held_until_ns, __ATOMIC_RELAXED) == 0)
        return RATION_OK; /* there were none yet, and their memory is not touched */
    return ration_limiter_reset(gate->holds, &(struct ration_key){&hash, sizeof(hash)}, now_ns);
}

/* Until when those that were loaded are held. */
static void find_last(struct ration_gate *gate)
{
    uint64_t now_ns = ration_time_clamp(ration_limiter_now(gate->holds));
    struct ration_scan_item items[SCAN_ITEMS];
    uint64_t cursor = 0;

    do {
        size_t count = ration_limiter_scan(gate->holds, &cursor, items, SCAN_ITEMS, now_ns);

        for (size_t i = 0; i < count; i++)
            expect_holds(gate, now_ns + items[i].full_after_ns);
    } while (cursor != 0);
}

ration_status ration_gate_make_holds(struct ration_gate *gate,
                                     const struct ration_gate_options *options, ration_reader *read,
                                     void *context, struct ration_error *error)
{
    struct ration_rule rule = {0};
    struct ration_limiter_options asked = {
        .struct_size = sizeof(asked),
        .rules = &rule,
        .rule_count = 1,
        .keys_max = HOLD_KEYS_MAX,
        .overflow = RATION_OVERFLOW_ALLOW, /* who has no place is not held */
        .clock = &gate->clock,
        .threads_max = options->threads_max,
    };
    ration_status status;

    (void)ration_limit_per(1, 1, &rule.limit); /* a token, back in a nanosecond */
    if (read == NULL)
        return ration_limiter_create(&asked, &gate->holds, error);
    status = ration_limiter_load(&asked, read, context, &gate->holds, error);
    if (status == RATION_OK)
        find_last(gate);
    return status;
}
