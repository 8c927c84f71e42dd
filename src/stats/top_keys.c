#include "stats/top_keys.h"

#include <string.h>

/* The thread's own shard and the next ones. A thread holds at most one lock. */
#define TRIES_MAX 4u

struct ration_top_keys_shape ration_top_keys_shape_default(void)
{
    uint32_t count = ration_shards_private().exclusive_count;

    if (count > RATION_TOP_KEYS_SHARDS_MAX)
        count = RATION_TOP_KEYS_SHARDS_MAX;
    return (struct ration_top_keys_shape){RATION_TOP_KEYS_COUNT_DEFAULT, count};
}

static bool is_valid(struct ration_top_keys_shape shape)
{
    return shape.key_max > 0 && shape.key_max <= RATION_SPACE_SAVING_KEYS_MAX &&
           shape.shard_count > 0 && shape.shard_count <= RATION_TOP_KEYS_SHARDS_MAX &&
           (shape.shard_count & (shape.shard_count - 1)) == 0;
}

static size_t shard_bytes(struct ration_top_keys_shape shape)
{
    return ration_shards_align(offsetof(struct ration_top_keys_shard, sketch) +
                               ration_space_saving_size(shape.key_max));
}

size_t ration_top_keys_size(struct ration_top_keys_shape shape)
{
    if (!is_valid(shape))
        return 0;
    return sizeof(struct ration_top_keys) + shape.shard_count * shard_bytes(shape);
}

ration_status ration_top_keys_init(void *block, size_t block_size,
                                   struct ration_top_keys_shape shape,
                                   struct ration_top_keys **out_top)
{
    struct ration_top_keys *top = block;
    size_t size = ration_top_keys_size(shape);

    if (size == 0 || (uintptr_t)block % RATION_SHARD_ALIGN_BYTES != 0)
        return RATION_EINVAL;
    if (block_size < size)
        return RATION_ENOSPC;
    memset(block, 0, size);
    top->shape = shape;
    top->shard_bytes = shard_bytes(shape);
    for (uint32_t i = 0; i < shape.shard_count; i++)
        ration_space_saving_init(&ration_top_keys_shard(top, i)->sketch, shape.key_max);
    *out_top = top;
    return RATION_OK;
}

static bool try_add(struct ration_top_keys_shard *shard, const struct ration_top_key_ref *key,
                    uint64_t weight)
{
    if (!ration_top_keys_enter(shard))
        return false;

    /* before the sketch: if this thread dies while it changes the sketch, the weight is known */
    __atomic_store_n(&shard->total, ration_space_saving_add_or_max(shard->total, weight),
                     __ATOMIC_RELAXED);
    ration_space_saving_add(&shard->sketch, key, weight);
    ration_top_keys_leave(shard);
    return true;
}

/* Counts weight that no sketch took. Stops at UINT64_MAX, where a plain add would wrap. */
static void count_lost(struct ration_top_keys_shard *shard, uint64_t weight)
{
    uint64_t seen = __atomic_load_n(&shard->lost, __ATOMIC_RELAXED);

    while (!__atomic_compare_exchange_n(&shard->lost, &seen,
                                        ration_space_saving_add_or_max(seen, weight), true,
                                        __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
}

void ration_top_keys_add(struct ration_top_keys *top, const struct ration_top_key_ref *key,
                         uint64_t weight)
{
    uint32_t mask = top->shape.shard_count - 1;
    uint32_t first = ration_thread_index() & mask;

    if (weight == 0)
        return;
    for (uint32_t i = 0; i < TRIES_MAX; i++) {
        if (try_add(ration_top_keys_shard(top, (first + i) & mask), key, weight))
            return;
    }
    count_lost(ration_top_keys_shard(top, first), weight);
}
