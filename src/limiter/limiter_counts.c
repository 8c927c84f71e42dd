#include "limiter/limiter_counts.h"

#include "base/os.h"

#include <stdlib.h>

#include "base/mapping.h"

#define COST_ONE_IN 64u

/*
 * The parts of one block, one after the other: first their sizes are added up, then their addresses are
 * computed.
 */
struct layout {
    size_t end;
};

static size_t reserve_bytes(struct layout *layout, size_t size)
{
    size_t start = layout->end;

    layout->end += ration_shards_align(size);
    return start;
}

static ration_status init_top_keys(struct ration_limiter_counts *counts, char *block, size_t denied,
                                   size_t cost, size_t sampler, size_t secret)
{
    size_t size = ration_top_keys_size(counts->top_shape);
    uint8_t seed[RATION_HASH_SEED_SIZE];
    ration_status status;

    if (!ration_os_random(seed, sizeof(seed)))
        return RATION_ENOMEM;
    counts->secret = (struct ration_hash_secret *)(void *)(block + secret);
    ration_hash_secret_init(counts->secret, seed);
    status = ration_top_keys_init(block + denied, size, counts->top_shape, &counts->top_denied);
    if (status == RATION_OK)
        status = ration_top_keys_init(block + cost, size, counts->top_shape, &counts->top_cost);
    if (status == RATION_OK)
        status = ration_sampler_init(block + sampler, ration_sampler_size(ration_shards_private()),
                                     COST_ONE_IN, ration_shards_private(), &counts->cost_sampler);
    return status;
}

ration_status ration_limiter_counts_init(struct ration_limiter_counts *counts, uint32_t rule_count,
                                         const struct ration_limiter_options *options)
{
    struct ration_shards shards =
        options->is_shared_by_forks ? ration_shards_common() : ration_shards_private();
    struct layout layout = {0};
    size_t counters = reserve_bytes(&layout, ration_counters_size(rule_count, shards));
    size_t latency = 0;
    size_t latency_sampler = 0;
    size_t top[4] = {0};
    ration_status status;

    *counts = (struct ration_limiter_counts){.top_shape = ration_top_keys_shape_default()};
    if (options->sample_latency) {
        latency = reserve_bytes(&layout, ration_histogram_size(shards));
        latency_sampler = reserve_bytes(&layout, ration_sampler_size(shards));
    }
    if (options->top_keys > 0) {
        counts->top_shape.key_max = options->top_keys;
        if (ration_top_keys_size(counts->top_shape) == 0)
            return RATION_EINVAL;
        top[0] = reserve_bytes(&layout, ration_top_keys_size(counts->top_shape));
        top[1] = reserve_bytes(&layout, ration_top_keys_size(counts->top_shape));
        top[2] = reserve_bytes(&layout, ration_sampler_size(ration_shards_private()));
        top[3] = reserve_bytes(&layout, sizeof(struct ration_hash_secret));
    }

    char *block = aligned_alloc(RATION_SHARD_ALIGN_BYTES, layout.end);

    if (block == NULL)
        return RATION_ENOMEM;
    counts->block = block;
    counts->block_bytes = layout.end;
    status = ration_counters_init(block + counters, layout.end - counters, rule_count, shards,
                                  &counts->counters);
    if (status == RATION_OK && options->sample_latency) {
        status =
            ration_histogram_init(block + latency, layout.end - latency, shards, &counts->latency);
        if (status == RATION_OK)
            status = ration_sampler_init(block + latency_sampler, layout.end - latency_sampler,
                                         RATION_SAMPLER_ONE_IN_DEFAULT, shards,
                                         &counts->latency_sampler);
    }
    if (status == RATION_OK && options->top_keys > 0)
        status = init_top_keys(counts, block, top[0], top[1], top[2], top[3]);
    if (status != RATION_OK)
        ration_limiter_counts_done(counts);
    return status;
}

void ration_limiter_counts_done(struct ration_limiter_counts *counts)
{
    free(counts->block);
    *counts = (struct ration_limiter_counts){0};
}

static void add_key(const struct ration_limiter_counts *counts, struct ration_top_keys *top,
                    struct ration_key key, uint64_t weight)
{
    struct ration_hash hash = ration_hash_key(counts->secret, key.bytes, key.size);
    struct ration_top_key_ref ref = {
        .hash = {hash.words[0], hash.words[1]}, .name = key.bytes, .name_size = key.size};

    ration_top_keys_add(top, &ref, weight);
}

void ration_limiter_counts_add_denied_key(struct ration_limiter_counts *counts,
                                          struct ration_key key)
{
    if (counts->top_denied != NULL)
        add_key(counts, counts->top_denied, key, 1);
}

void ration_limiter_counts_add_key_cost(struct ration_limiter_counts *counts, struct ration_key key,
                                        uint64_t cost_tokens)
{
    if (counts->top_cost != NULL && ration_sampler_due(counts->cost_sampler))
        add_key(counts, counts->top_cost, key,
                cost_tokens < UINT32_MAX ? cost_tokens * COST_ONE_IN : UINT32_MAX);
}

static void count_rule(struct ration_limiter_counts *counts, const struct ration_key_part *part,
                       uint32_t rule_index, enum ration_verdict verdict)
{
    enum ration_verdict own_verdict = part->verdicts[rule_index];

    if (ration_op_part_is_shadow(part, rule_index)) {
        if (own_verdict != RATION_ALLOW)
            ration_counters_add(counts->counters, rule_index, RATION_COUNT_SHADOW_DENIED, 1);
        else
            ration_counters_add_allowed(counts->counters, rule_index, part->costs[rule_index]);
    } else if (own_verdict == RATION_NEVER) {
        ration_counters_add(counts->counters, rule_index, RATION_COUNT_NEVER, 1);
    } else if (own_verdict == RATION_DENY) {
        ration_counters_add(counts->counters, rule_index, RATION_COUNT_DENIED, 1);
    } else if (verdict == RATION_ALLOW) {
        ration_counters_add_allowed(counts->counters, rule_index, part->costs[rule_index]);
    }
}

void ration_limiter_counts_add_created(struct ration_limiter_counts *counts,
                                       const struct ration_key_part *part)
{
    if (part->has_created)
        ration_counters_add_limiter(counts->counters, RATION_COUNT_CREATED, 1);
    if (part->has_reclaimed)
        ration_counters_add_limiter(counts->counters, RATION_COUNT_RECLAIMED, 1);
}

void ration_limiter_counts_add_result(struct ration_limiter_counts *counts,
                                      const struct ration_op *op,
                                      const struct ration_key_part *part)
{
    enum ration_verdict verdict = op->decision.verdict;
    bool is_denied_here = false;
    bool takes = false;
    uint64_t cost = 0;

    for (uint32_t i = 0; i < part->rule_count; i++) {
        takes |= part->costs[i] > 0;
        if (part->limits[i] == NULL || part->costs[i] == 0) /* a peek is not counted */
            continue;
        count_rule(counts, part, i, verdict);
        if (op->has_details && verdict == RATION_ALLOW && part->verdicts[i] == RATION_ALLOW &&
            ration_limiter_counts_is_near_limit(&part->decisions[i]))
            ration_counters_add(counts->counters, i, RATION_COUNT_NEAR_LIMIT, 1);
        is_denied_here |= part->verdicts[i] != RATION_ALLOW && !ration_op_part_is_shadow(part, i);
        cost = part->costs[i] > cost ? part->costs[i] : cost;
    }
    if (part->has_overflowed && takes)
        ration_counters_add_limiter(
            counts->counters,
            part->overflow == RATION_OVERFLOW_SHARED ? RATION_COUNT_OVERFLOW_SHARED
            : part->overflow == RATION_OVERFLOW_DENY ? RATION_COUNT_OVERFLOW_DENY
                                                     : RATION_COUNT_OVERFLOW_ALLOW,
            1);
    if (is_denied_here)
        ration_limiter_counts_add_denied_key(counts, part->to.key);
    else if (verdict == RATION_ALLOW && cost > 0)
        ration_limiter_counts_add_key_cost(counts, part->to.key, cost);
}

void ration_limiter_counts_add_error(struct ration_limiter_counts *counts, uint32_t rule_count)
{
    for (uint32_t i = 0; i < rule_count; i++)
        ration_counters_add(counts->counters, i, RATION_COUNT_ERRORS, 1);
}
