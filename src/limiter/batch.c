/*
 * batch: many keys in one call.
 *
 * A chunk of keys is hashed, and their places begin to be fetched from memory; by the time the
 * first is decided, most of the others are on their way. So the misses overlap instead of adding
 * up.
 */
#include "limiter/calls.h"
#include "limiter/quick.h"

static void take_long(struct ration_limiter *limiter, struct ration_batch_item *item,
                      uint64_t now_ns)
{
    struct ration_call_ask ask = {limiter, item->request, item->cost_tokens, item->limit};
    struct ration_call call;

    call.op = (struct ration_op){.kind = item->is_peek ? RATION_OP_LOOK : RATION_OP_TAKE,
                                 .now_ns = now_ns};
    item->status = ration_call_take(&call, &ask, 1, item->decision, NULL);
    item->verdict = item->status == RATION_OK ? call.op.decision.verdict : RATION_DENY;
}

/* Without a short way: at least begins to fetch what will be needed. */
static void fetch(const struct ration_limiter *limiter, const struct ration_batch_item *items,
                  size_t item_count)
{
    for (size_t i = 0; i < item_count; i++) {
        struct ration_target target = {.section_index = limiter->section_index};
        char room[RATION_KEY_ROOM_SIZE];

        if (ration_limiter_key(limiter, items[i].request, room, &target.key) == RATION_OK)
            limiter->store->calls->fetch(limiter->store, &target);
    }
}

/* Whether one of them wants to be told more than the verdict, or less to happen, or brings its limit. */
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

    bool is_told = wants_more(items, item_count);

    if (!ration_quick_is_possible(limiter) && limiter->store->calls->fetch != NULL)
        fetch(limiter, items, item_count);
    for (size_t done = 0; done < item_count; done++) {
        done += (is_told ? ration_quick_tell_chunk : ration_quick_take_chunk)(
            limiter, items + done, item_count - done, now_ns, &allowed_count);
        if (done == item_count)
            break;
        take_long(limiter, &items[done], now_ns);
        allowed_count += items[done].status == RATION_OK && items[done].verdict == RATION_ALLOW;
    }
    return allowed_count;
}

size_t ration_limiter_take_batch(ration_limiter *limiter, struct ration_batch_item *items,
                                 size_t item_count, uint64_t now_ns)
{
    size_t allowed_count = 0;

    for (size_t i = 0; i < item_count; i += RATION_QUICK_CHUNK) {
        size_t rest = item_count - i;

        allowed_count += take_chunk(limiter, items + i,
                                    rest < RATION_QUICK_CHUNK ? rest : RATION_QUICK_CHUNK, now_ns);
    }
    return allowed_count;
}
