/*
 * batch: many keys in one call.
 *
 * A chunk of keys is hashed, and their places begin to be fetched from memory; by the time the
 * first is decided, most of the others are on their way. So the misses overlap instead of adding
 * up.
 */
#include "limiter/calls.h"
#include "limiter/short.h"

#define CHUNK 32

/* Hashes the keys of a chunk, and starts fetching where they stand. */
static void locate_chunk(struct ration_limiter *limiter, const struct ration_config *config,
                         struct ration_batch_item *items, size_t item_count,
                         struct ration_target *targets)
{
    for (size_t i = 0; i < item_count; i++) {
        items[i].status = ration_short_aim(limiter, config, items[i].request, &targets[i]);
        if (items[i].status == RATION_OK)
            limiter->store->calls->locate(limiter->store, &targets[i]);
    }
}

static void take_long(struct ration_limiter *limiter, struct ration_batch_item *item,
                      uint64_t now_ns)
{
    struct ration_call call;

    call.op = (struct ration_op){.kind = RATION_OP_TAKE, .now_ns = now_ns};
    item->status = ration_call_run(
        &call, &(struct ration_call_ask){limiter, item->request, item->cost_tokens}, 1);
    item->verdict = item->status == RATION_OK ? call.op.decision.verdict : RATION_DENY;
}

static size_t take_chunk(struct ration_limiter *limiter, const struct ration_config *config,
                         struct ration_batch_item *items, size_t item_count, uint64_t now_ns)
{
    struct ration_target targets[CHUNK];
    size_t allowed_count = 0;

    locate_chunk(limiter, config, items, item_count, targets);
    for (size_t i = 0; i < item_count; i++) {
        int verdict = RATION_TAKE_LONG;

        if (items[i].status == RATION_OK)
            verdict = ration_short_take(limiter, &targets[i], items[i].cost_tokens, now_ns);
        if (verdict == RATION_TAKE_LONG)
            take_long(limiter, &items[i], now_ns);
        else
            items[i].verdict = (enum ration_verdict)verdict;
        allowed_count += items[i].status == RATION_OK && items[i].verdict == RATION_ALLOW;
    }
    return allowed_count;
}

size_t ration_limiter_take_batch(ration_limiter *limiter, struct ration_batch_item *items,
                                 size_t item_count, uint64_t now_ns)
{
    const struct ration_config *config = ration_configs_current(&limiter->configs);
    bool is_short = ration_short_is_open(limiter, config);
    size_t allowed_count = 0;

    for (size_t i = 0; i < item_count && is_short; i += CHUNK)
        allowed_count += take_chunk(limiter, config, items + i,
                                    item_count - i < CHUNK ? item_count - i : CHUNK, now_ns);
    for (size_t i = 0; i < item_count && !is_short; i++) {
        take_long(limiter, &items[i], now_ns);
        allowed_count += items[i].status == RATION_OK && items[i].verdict == RATION_ALLOW;
    }
    return allowed_count;
}
