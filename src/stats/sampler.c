#include "stats/sampler.h"

#include <string.h>

static uint32_t common_divisor(uint32_t a, uint32_t b)
{
    while (b != 0) {
        uint32_t rest = a % b;

        a = b;
        b = rest;
    }
    return a;
}

/*
 * The golden ratio spreads the first few positions best; a step without a common divisor visits all
 * of them.
 */
static uint32_t step_for(uint32_t one_in)
{
    uint32_t step = (uint32_t)((uint64_t)one_in * 618 / 1000);

    while (common_divisor(step, one_in) != 1)
        step++;
    return step;
}

size_t ration_sampler_size(struct ration_shards shards)
{
    if (!ration_shards_valid(shards))
        return 0;
    return sizeof(struct ration_sampler) +
           ration_shards_count(shards) * sizeof(struct ration_sampler_state);
}

ration_status ration_sampler_init(void *block, size_t block_size, uint32_t one_in,
                                  struct ration_shards shards, struct ration_sampler **out_sampler)
{
    struct ration_sampler *sampler = block;
    size_t size = ration_sampler_size(shards);

    if (size == 0 || one_in == 0 || one_in > RATION_SAMPLER_ONE_IN_MAX ||
        (uintptr_t)block % RATION_SHARD_ALIGN_BYTES != 0)
        return RATION_EINVAL;
    if (block_size < size)
        return RATION_ENOSPC;
    memset(block, 0, size);
    sampler->shards = shards;
    sampler->one_in = one_in;
    sampler->step = step_for(one_in);
    *out_sampler = sampler;
    return RATION_OK;
}
