/*
 * limiter_report: reads the statistics of a limiter.
 */
#include <stdlib.h>
#include <string.h>

#include "limiter/limiter_internal.h"

void ration_limiter_read_report(const ration_limiter *limiter,
                                struct ration_limiter_report *out_report)
{
    const struct ration_limiter_counts *counts = &limiter->counts;
    struct ration_histogram_counts latencies;

    memset(out_report, 0, sizeof(*out_report));
    out_report->rule_count = ration_limiter_rule_count(limiter);
    for (uint32_t i = 0; i < out_report->rule_count; i++)
        out_report->rules[i] = ration_counters_read(counts->counters, i);
    out_report->limiter = ration_counters_read_limiter(counts->counters);
    if (counts->latency != NULL) {
        ration_histogram_read(counts->latency, &latencies);
        out_report->latency = ration_histogram_summary(&latencies);
    }
}

size_t ration_limiter_top_keys(ration_limiter *limiter, enum ration_top by,
                               struct ration_top_key *keys, size_t keys_max,
                               struct ration_top_keys_stats *out_stats)
{
    struct ration_limiter_counts *counts = &limiter->counts;
    struct ration_top_keys *top = by == RATION_TOP_COST ? counts->top_cost : counts->top_denied;
    struct ration_top_keys_stats stats = {0};
    void *scratch;
    size_t count;

    if (top == NULL || (unsigned)by > RATION_TOP_COST)
        return 0;
    scratch = malloc(ration_top_keys_scratch_size(counts->top_shape));
    if (scratch == NULL)
        return 0;
    count = ration_top_keys_read(top, scratch, keys,
                                 keys_max < UINT32_MAX ? (uint32_t)keys_max : UINT32_MAX, &stats);
    free(scratch);
    if (out_stats != NULL)
        *out_stats = stats;
    return count;
}

size_t ration_limiter_bytes(const ration_limiter *limiter)
{
    const struct ration_config_table *configs = &limiter->configs;

    return sizeof(*limiter) + limiter->counts.block_bytes +
           RATION_CONFIG_COUNT * configs->rule_count * sizeof(struct ration_config_rule) +
           (limiter->stack == NULL ? limiter->store->calls->size_bytes(limiter->store) : 0);
}

size_t ration_stack_bytes(const ration_stack *stack)
{
    return sizeof(*stack) + stack->limiter_max * sizeof(stack->limiters[0]) +
           stack->store->calls->size_bytes(stack->store) +
           __atomic_load_n(&stack->limiter_bytes, __ATOMIC_RELAXED);
}
