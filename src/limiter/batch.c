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
    struct ration_call call;

    call.op = (struct ration_op){.kind = RATION_OP_TAKE, .now_ns = now_ns};
    item->status = ration_call_run(
        &call, &(struct ration_call_ask){limiter, item->request, item->cost_tokens}, 1);
    item->verdict = item->status == RATION_OK ? call.op.decision.verdict : RATION_DENY;
}

static size_t take_chunk(struct ration_limiter *limiter, struct ration_batch_item *items,
                         size_t item_count, uint64_t now_ns)
{
    int verdicts[RATION_QUICK_CHUNK];
    size_t allowed_count = 0;

    ration_quick_take_chunk(limiter, items, item_count, now_ns, verdicts);
    for (size_t i = 0; i < item_count; i++) {
        if (__builtin_expect(verdicts[i] == RATION_QUICK_NOT, 0)) {
            take_long(limiter, &items[i], now_ns);
        } else {
            items[i].verdict = (enum ration_verdict)verdicts[i];
            items[i].status = RATION_OK;
        }
        allowed_count += items[i].status == RATION_OK && items[i].verdict == RATION_ALLOW;
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
