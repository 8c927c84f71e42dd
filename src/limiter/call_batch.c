/*
 * call_batch: many keys in one call.
 *
 * A chunk of keys is hashed, and their slots are prefetched; by the time the first key is decided, most of the
 * other slots are on their way from memory. So the cache misses overlap instead of adding up.
 */
#include "limiter/call.h"
#include "limiter/fast.h"

static void take_by_op(struct ration_limiter *limiter, struct ration_batch_item *item,
                       uint64_t now_ns)
{
    struct ration_call_request ask = {limiter, item->request, item->cost_tokens, item->limit};
    struct ration_call call;

    call.op = (struct ration_op){.kind = item->is_peek ? RATION_OP_PEEK : RATION_OP_TAKE,
                                 .now_ns = now_ns};
    item->status = ration_call_take(&call, &ask, 1, item->decision, NULL);
    item->verdict = item->status == RATION_OK ? call.op.decision.verdict : RATION_DENY;
}

/* For limiters without a fast path: prefetches the memory that the ops will need. */
static void prefetch_keys(const struct ration_limiter *limiter,
                          const struct ration_batch_item *items, size_t item_count)
{
    for (size_t i = 0; i < item_count; i++) {
        struct ration_target target = {.section_index = limiter->section_index};
        char room[RATION_KEY_ROOM_SIZE];

        if (ration_limiter_key(limiter, items[i].request, room, &target.key) == RATION_OK)
            limiter->store->calls->fetch(limiter->store, &target);
    }
}

/* Whether an item needs more than a verdict: it wants a decision, is a peek, or has an inline limit. */
static bool wants_more(const struct ration_batch_item *items, size_t item_count)
{
    for (size_t i = 0; i < item_count; i++)
        if (items[i].decision != NULL || items[i].limit != NULL || items[i].is_peek)
            return true;
    return false;
}

static size_t take_chunk(struct ration_limiter *limiter, struct ration_batch_item *items,
                         size_t item_count, uint64_t now_ns)
{
    size_t allowed_count = 0;

    bool needs_decisions = wants_more(items, item_count);

    if (!ration_fast_is_possible(limiter) && limiter->store->calls->fetch != NULL)
        prefetch_keys(limiter, items, item_count);
    for (size_t done = 0; done < item_count; done++) {
        done += (needs_decisions ? ration_fast_decide_chunk : ration_fast_take_chunk)(
            limiter, items + done, item_count - done, now_ns, &allowed_count);
        if (done == item_count)
            break;
        take_by_op(limiter, &items[done], now_ns);
        allowed_count += items[done].status == RATION_OK && items[done].verdict == RATION_ALLOW;
    }
    return allowed_count;
}

size_t ration_limiter_take_batch(ration_limiter *limiter, struct ration_batch_item *items,
                                 size_t item_count, uint64_t now_ns)
{
    size_t allowed_count = 0;

    for (size_t i = 0; i < item_count; i += RATION_FAST_CHUNK) {
        size_t rest = item_count - i;

        allowed_count += take_chunk(limiter, items + i,
                                    rest < RATION_FAST_CHUNK ? rest : RATION_FAST_CHUNK, now_ns);
    }
    return allowed_count;
}
