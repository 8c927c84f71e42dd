/*
 * sampler: selects 1 of N decisions, for work that is too expensive to do at each.
 *
 * Each thread counts down by itself. It does not select every N-th call: of calls that come in
 * batches of 64 it would then always select the same position, and of 64 keys requested in rotation
 * it would only ever see one. Instead each run of N calls has exactly one selected call, and its
 * position in the run advances by about 0.62 N from run to run, so that N runs select each position
 * once. With N = 8:
 *
 *     x------- -----x-- --x----- -------x ----x--- -x------ ------x- ---x----
 *
 * Threads that share a shard may overwrite each other's countdown, and then select slightly less or
 * more often.
 */
#ifndef RATION_STATS_SAMPLER_H
#define RATION_STATS_SAMPLER_H

#include "ration/status.h"
#include "stats/shards.h"

#define RATION_SAMPLER_ONE_IN_DEFAULT 64u
#define RATION_SAMPLER_ONE_IN_MAX     (1u << 20)

/* The state of a thread. All zero: selects the next call. */
struct ration_sampler_state {
    _Alignas(RATION_SHARD_ALIGN_BYTES) uint32_t skip_count; /* calls before the next selected one */
    uint32_t position;                                      /* position of that call in its run */
};

/* The header of a block without pointers, only read after init; the states follow it. */
struct ration_sampler {
    _Alignas(RATION_SHARD_ALIGN_BYTES) struct ration_shards shards;
    uint32_t one_in;
    uint32_t step; /* positions to advance from run to run */
};

/* Returns the bytes that a sampler needs; 0 if the shards are not valid. */
size_t ration_sampler_size(struct ration_shards shards);

/*
 * Initialises a sampler for 1 of one_in calls (1 to RATION_SAMPLER_ONE_IN_MAX) in a block aligned
 * to RATION_SHARD_ALIGN_BYTES. The sampler is the block, and needs no release. Returns
 * RATION_EINVAL (out of bounds, block not aligned) or RATION_ENOSPC.
 */
ration_status ration_sampler_init(void *block, size_t block_size, uint32_t one_in,
                                  struct ration_shards shards, struct ration_sampler **out_sampler);

/* Returns true for 1 of one_in calls in each thread, including the first one. */
static inline bool ration_sampler_due(struct ration_sampler *sampler)
{
    struct ration_sampler_state *states = (struct ration_sampler_state *)(void *)(sampler + 1);
    struct ration_sampler_state *state = &states[ration_shards_mine(&sampler->shards).index];
    uint32_t skip_count = __atomic_load_n(&state->skip_count, __ATOMIC_RELAXED);

    if (__builtin_expect(skip_count > 0, 1)) {
        __atomic_store_n(&state->skip_count, skip_count - 1, __ATOMIC_RELAXED);
        return false;
    }

    uint32_t position = __atomic_load_n(&state->position, __ATOMIC_RELAXED);
    uint32_t next_position = (position + sampler->step) % sampler->one_in;

    /* the rest of this run, and the calls of the next one before its selected position */
    __atomic_store_n(&state->skip_count, sampler->one_in - 1 - position + next_position,
                     __ATOMIC_RELAXED);
    __atomic_store_n(&state->position, next_position, __ATOMIC_RELAXED);
    return true;
}

#endif
