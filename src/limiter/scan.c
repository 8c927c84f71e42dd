/*
 * scan: the keys in debt, a few at a time.
 */
#include "limiter/limiter.h"
#include "limiter/walk.h"
#include "ration/dump.h"

#define SETS_PER_CALL 64

struct scan {
    struct ration_scan_item *items;
    size_t items_max;
    size_t item_count;
    size_t rule_count;
    uint64_t now_ns;
};

static bool visit(void *context, const struct ration_walk_item *found)
{
    struct scan *scan = context;
    struct ration_scan_item item = {.tag = found->tag, .rule_count = scan->rule_count};

    for (size_t i = 0; i < scan->rule_count; i++) {
        uint64_t full_after_ns = ration_any_full_after_ns(&found->anys[i], scan->now_ns);

        if (full_after_ns > item.full_after_ns)
            item.full_after_ns = full_after_ns;
        item.remaining[i] = ration_any_remaining(&found->anys[i], scan->now_ns);
    }
    if (item.full_after_ns == 0) /* not in debt, only remembered */
        return true;
    if (scan->item_count == scan->items_max)
        return false;
    scan->items[scan->item_count++] = item;
    return true;
}

size_t ration_limiter_scan(ration_limiter *limiter, uint64_t *cursor,
                           struct ration_scan_item *items, size_t items_max, uint64_t now_ns)
{
    struct ration_store *store = limiter->store;
    struct scan scan = {.items = items, .items_max = items_max};
    struct ration_walk walk = {
        .configs = &limiter->configs,
        .section_index = limiter->section_index,
        .now_ns = now_ns,
        .sets_max = SETS_PER_CALL,
        .visit = visit,
        .context = &scan,
    };

    if (items_max == 0)
        return 0;
    if (store->calls->walk == NULL) {
        *cursor = 0;
        return 0;
    }
    scan.now_ns = ration_block_now(store->epoch_ns, now_ns) + store->epoch_ns;
    ration_limiter_lock(limiter);
    scan.rule_count = ration_configs_current(&limiter->configs)->rule_count;
    *cursor = store->calls->walk(store, &walk, *cursor);
    ration_limiter_unlock(limiter);
    return scan.item_count;
}
