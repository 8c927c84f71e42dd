/*
 * What ops return to buckets, as open reservations must know it: see ration_section_returned().
 *
 * It is counted before the bucket changes. The mark of a reservation that was published before the
 * bucket was read is older than the count; the thread that settles it reads the count after reading a
 * bucket to which this was returned.
 */
#include <string.h>

#include "base/u64.h"
#include "store/memory_find.h"

void ration_run_since_reserved(const struct ration_found *found, struct ration_item *item)
{
    struct ration_section_returns now = ration_section_returned(found->section, &found->place);

    item->returned_tokens = now.returned_tokens - item->mark->returned_tokens;
    item->refunded_tokens = now.refunded_tokens - item->mark->refunded_tokens;
}

/* What a call that is no settle takes back of any reservation made before it, at most. */
static uint64_t refunded_tokens(const struct ration_run *run, const struct ration_item *item)
{
    uint64_t burst = ration_any_burst(item->before.limit);

    if (ration_any_full_after_ns(&item->before, run->now_ns) == 0)
        return 0; /* nothing is outstanding, and nothing can be taken back */
    switch (run->op->kind) {
    case RATION_OP_REFUND:
        return ration_u64_min(item->cost_tokens, burst);
    case RATION_OP_RESET:
    case RATION_OP_BLOCK: /* also one that changes nothing: what is out then keeps the key blocked */
        return burst;
    default:
        return 0;
    }
}

/* The most that the op returns to one limit of a part's key. */
static struct ration_section_returns part_returns(const struct ration_run *run, uint32_t part_index)
{
    struct ration_section_returns most = {0, 0};

    for (uint32_t i = 0; i < run->c.item_count; i++) {
        const struct ration_item *item = &run->c.items[i];
        uint64_t refunded = refunded_tokens(run, item);
        uint64_t returned = ration_any_returned(&item->before, &item->after, run->now_ns);
        bool is_undone =
            run->op->kind == RATION_OP_SETTLE && item->returned_tokens == 0 &&
            memcmp(&item->before.state, &item->mark->state, sizeof(item->before.state)) == 0;

        /* The last in line moves nobody: there is no later reservation. */
        if (item->part_index != part_index || is_undone)
            continue;
        most.refunded_tokens = ration_u64_max(most.refunded_tokens, refunded);
        most.returned_tokens =
            ration_u64_max(most.returned_tokens, ration_u64_max(returned, refunded));
    }
    return most;
}

void ration_run_count_returned(const struct ration_run *run)
{
    if (run->op->kind <= RATION_OP_RESERVE)
        return;
    for (uint32_t p = 0; p < run->op->part_count; p++) {
        struct ration_section_returns returns = part_returns(run, p);

        if (returns.returned_tokens > 0)
            ration_section_count_returned(run->found[p].section, &run->found[p].place, &returns);
    }
}
