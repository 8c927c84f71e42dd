#include "stats/counters.h"

#include <string.h>

_Static_assert(sizeof(struct ration_counters) == RATION_SHARD_ALIGN_BYTES,
               "the first shard starts on lines of its own");

/* Lines from one shard to the next: the limiter's, the limits', and padding for alignment. */
static uint32_t lines_per_shard(uint32_t limit_count)
{
    size_t size = (1 + (size_t)limit_count) * RATION_LINE_BYTES;

    return (uint32_t)(ration_shards_align(size) / RATION_LINE_BYTES);
}

size_t ration_counters_size(uint32_t limit_count, struct ration_shards shards)
{
    if (limit_count == 0 || limit_count > RATION_COUNTERS_LIMITS_MAX ||
        !ration_shards_valid(shards))
        return 0;
    return sizeof(struct ration_counters) +
           (size_t)ration_shards_count(shards) * lines_per_shard(limit_count) * RATION_LINE_BYTES;
}

ration_status ration_counters_init(void *block, size_t block_size, uint32_t limit_count,
                                   struct ration_shards shards,
                                   struct ration_counters **out_counters)
{
    struct ration_counters *counters = block;
    size_t size = ration_counters_size(limit_count, shards);

    if (size == 0 || (uintptr_t)block % RATION_SHARD_ALIGN_BYTES != 0)
        return RATION_EINVAL;
    if (block_size < size)
        return RATION_ENOSPC;
    memset(block, 0, size);
    counters->shards = shards;
    counters->limit_count = limit_count;
    counters->shard_lines = lines_per_shard(limit_count);
    *out_counters = counters;
    return RATION_OK;
}

static uint64_t sum_shards(const struct ration_counters *counters, uint32_t line, uint32_t which)
{
    /* only read here, but the hot path needs the same function without const */
    struct ration_counters *block = (struct ration_counters *)(uintptr_t)counters;
    uint64_t total = 0;

    for (uint32_t shard = 0; shard < ration_shards_count(counters->shards); shard++)
        total +=
            __atomic_load_n(&ration_counters_line(block, shard, line)[which], __ATOMIC_RELAXED);
    return total;
}

struct ration_limit_stats ration_counters_read(const struct ration_counters *counters,
                                               uint32_t limit_index)
{
    ration_counters_expect(counters, limit_index);
    return (struct ration_limit_stats){
#define LIMIT_FIELD(name, field) \
    .field = sum_shards(counters, limit_index + 1, RATION_COUNT_##name),
        RATION_LIMIT_COUNT_MAP(LIMIT_FIELD)
#undef LIMIT_FIELD
    };
}

struct ration_limiter_stats ration_counters_read_limiter(const struct ration_counters *counters)
{
    struct ration_limiter_stats stats = {
#define LIMITER_FIELD(name, field) .field = sum_shards(counters, 0, RATION_COUNT_##name),
        RATION_LIMITER_COUNT_MAP(LIMITER_FIELD)
#undef LIMITER_FIELD
    };

    for (uint32_t limit = 0; limit < counters->limit_count; limit++)
        stats.shadow_denied += sum_shards(counters, limit + 1, RATION_COUNT_SHADOW_DENIED);
    return stats;
}
