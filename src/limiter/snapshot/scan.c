/*
 * scan: lists the keys in use, a few at a time; and counts them.
 */
#include "limiter/limiter_internal.h"
#include "limiter/store.h"
#include "ration/dump.h"

#define SETS_PER_CALL 64

struct scan {
    struct ration_scan_item *items;
    size_t items_max;
    size_t item_count;
    size_t rule_count;
    uint64_t now_ns;
};

/* Time until all buckets of a key are full; 0: it is not in use, only remembered. */
static uint64_t full_after_ns(const struct scan *scan, const struct ration_walk_item *walk_item)
{
    uint64_t latest_ns = 0;

    for (size_t i = 0; i < scan->rule_count; i++) {
        uint64_t after_ns = ration_bucket_state_full_after_ns(&walk_item->buckets[i], scan->now_ns);

        latest_ns = after_ns > latest_ns ? after_ns : latest_ns;
    }
    return latest_ns;
}

static bool add_key(void *context, const struct ration_walk_item *walk_item)
{
    struct scan *scan = context;
    struct ration_scan_item item = {.tag = walk_item->tag,
                                    .rule_count = scan->rule_count,
                                    .full_after_ns = full_after_ns(scan, walk_item)};

    if (item.full_after_ns == 0)
        return true;
    if (scan->item_count == scan->items_max)
        return false;
    for (size_t i = 0; i < scan->rule_count; i++)
        item.remaining[i] = ration_bucket_state_remaining(&walk_item->buckets[i], scan->now_ns);
    scan->items[scan->item_count++] = item;
    return true;
}

static bool count_key(void *context, const struct ration_walk_item *walk_item)
{
    struct scan *scan = context;

    scan->item_count += full_after_ns(scan, walk_item) > 0;
    return true;
}

/* Walks from a cursor on. Returns the next cursor, 0 at the end. */
static uint64_t walk_from(ration_limiter *limiter, struct scan *scan,
                          bool (*visit_item)(void *context,
                                             const struct ration_walk_item *walk_item),
                          uint64_t cursor, uint64_t now_ns)
{
    struct ration_store *store = limiter->store;
    struct ration_walk walk = {
        .configs = &limiter->configs,
        .section_index = limiter->section_index,
        .now_ns = now_ns,
        .sets_max = SETS_PER_CALL,
        .visit = visit_item,
        .context = scan,
    };

    if (store->calls->walk == NULL)
        return 0;
    scan->now_ns = ration_block_now(store->epoch_ns, now_ns) + store->epoch_ns;
    ration_limiter_lock(limiter);
    scan->rule_count = limiter->configs.rule_count;
    cursor = store->calls->walk(store, &walk, cursor);
    ration_limiter_unlock(limiter);
    return cursor;
}

size_t ration_limiter_scan(ration_limiter *limiter, uint64_t *cursor,
                           struct ration_scan_item *items, size_t items_max, uint64_t now_ns)
{
    struct scan scan = {.items = items, .items_max = items_max};

    if (items_max > 0)
        *cursor = walk_from(limiter, &scan, add_key, *cursor, now_ns);
    return scan.item_count;
}

size_t ration_limiter_count(ration_limiter *limiter, uint64_t now_ns)
{
    struct scan scan = {.item_count = 0};
    uint64_t cursor = 0;

    do
        cursor = walk_from(limiter, &scan, count_key, cursor, now_ns);
    while (cursor != 0);
    return scan.item_count;
}
