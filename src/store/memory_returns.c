/*
 * Counts the tokens that ops return to buckets, which the settling of open reservations needs: see
 * ration_section_returned().
 *
 * The returning thread counts before it changes the bucket. If a reservation was published before the returning
 * thread read the bucket, its counters were read before this count. The settling thread reads the counters after it
 * has read a bucket to which the tokens were returned.
 */
#include <string.h>

#include "base/u64.h"
#include "store/lookup.h"

void ration_memory_run_since_reserved(const struct ration_lookup *lookup,
                                      struct ration_limit_eval *item)
{
    struct ration_section_returns now = ration_section_returned(lookup->section, &lookup->location);

    item->returned_tokens = now.returned_tokens - item->mark->returned_tokens;
    item->refunded_tokens = now.refunded_tokens - item->mark->refunded_tokens;
}

/* The most tokens that an op other than SETTLE can take back from reservations made before it. */
static uint64_t refunded_tokens(const struct ration_memory_run *run,
                                const struct ration_limit_eval *item)
{
    uint64_t burst = ration_bucket_state_burst(item->before.limit);

    if (ration_bucket_state_full_after_ns(&item->before, run->now_ns) == 0)
        return 0; /* no tokens are in use, so none can be taken back */
    switch (run->op->kind) {
    case RATION_OP_REFUND:
        return ration_u64_min(item->cost_tokens, burst);
    case RATION_OP_RESET:
    case RATION_OP_BLOCK: /* even if it changes nothing: tokens that are in use then keep the key blocked */
        return burst;
    default:
        return 0;
    }
}

/* The most tokens that the op returns to one limit of a part's key. */
static struct ration_section_returns part_returns(const struct ration_memory_run *run,
                                                  uint32_t part_index)
{
    struct ration_section_returns most = {0, 0};

    for (uint32_t i = 0; i < run->evaluation.item_count; i++) {
        const struct ration_limit_eval *item = &run->evaluation.items[i];
        uint64_t refunded = refunded_tokens(run, item);
        uint64_t returned = ration_bucket_state_returned(&item->before, &item->after, run->now_ns);
        bool is_undone =
            run->op->kind == RATION_OP_SETTLE && item->returned_tokens == 0 &&
            memcmp(&item->before.state, &item->mark->state, sizeof(item->before.state)) == 0;

        /* Undoing the latest reservation moves no other: there is no later one. */
        if (item->part_index != part_index || is_undone)
            continue;
        most.refunded_tokens = ration_u64_max(most.refunded_tokens, refunded);
        most.returned_tokens =
            ration_u64_max(most.returned_tokens, ration_u64_max(returned, refunded));
    }
    return most;
}

void ration_memory_run_count_returned(const struct ration_memory_run *run)
{
    if (run->op->kind <= RATION_OP_RESERVE)
        return;
    for (uint32_t p = 0; p < run->op->part_count; p++) {
        struct ration_section_returns returns = part_returns(run, p);

        if (returns.returned_tokens > 0)
            ration_section_count_returned(run->lookup[p].section, &run->lookup[p].location,
                                          &returns);
    }
}
