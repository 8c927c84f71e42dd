/*
 * sampler: picks 1 of N decisions, for what is too dear to do at each.
 *
 * Each thread counts down by itself. It does not pick every N-th: calls that come in batches of 64
 * would then be looked at always in the same place, and of 64 keys asked in turn only one would
 * ever be seen. Instead each run of N calls has exactly one pick, and its place in the run moves on
 * by about 0.62 N from run to run, so that N runs pick each place once. With N = 8:
 *
 *     x------- -----x-- --x----- -------x ----x--- -x------ ------x- ---x----
 *
 * Threads that share a shard may overwrite each other's countdown, and then pick a little less or
 * more often.
 */
#ifndef RATION_STATS_SAMPLER_H
#define RATION_STATS_SAMPLER_H

#include "ration/status.h"
#include "stats/shards.h"

#define RATION_SAMPLER_ONE_IN_DEFAULT 64u
#define RATION_SAMPLER_ONE_IN_MAX     (1u << 20)

/* A thread's place. All zero: picks the next call. */
struct ration_sampler_state {
    _Alignas(RATION_SHARD_ALIGN_BYTES) uint32_t skip_count; /* calls not to pick before the next */
    uint32_t place;                                         /* of that next one in its run */
};

/* The header of a block without pointers, only read after init; the states follow it. */
struct ration_sampler {
    _Alignas(RATION_SHARD_ALIGN_BYTES) struct ration_shards shards;
    uint32_t one_in;
    uint32_t step; /* places to move on from run to run */
};

/* Bytes that a sampler needs; 0 if the shards are not valid. */
size_t ration_sampler_size(struct ration_shards shards);

/*
 * Makes a sampler of a block aligned to RATION_SHARD_ALIGN_BYTES, for 1 of one_in (1 to
 * RATION_SAMPLER_ONE_IN_MAX). It is the block, and needs no end.
 * Returns RATION_EINVAL (out of bounds, block not aligned), RATION_ENOSPC.
 */
ration_status ration_sampler_init(void *block, size_t block_size, uint32_t one_in,
                                  struct ration_shards shards, struct ration_sampler **out_sampler);

/* True for 1 of one_in calls in each thread, the first one included. */
static inline bool ration_sampler_due(struct ration_sampler *sampler)
{
    struct ration_sampler_state *states = (struct ration_sampler_state *)(void *)(sampler + 1);
    struct ration_sampler_state *state = &states[ration_shards_mine(&sampler->shards).index];
    uint32_t skip_count = __atomic_load_n(&state->skip_count, __ATOMIC_RELAXED);

    if (__builtin_expect(skip_count > 0, 1)) {
        __atomic_store_n(&state->skip_count, skip_count - 1, __ATOMIC_RELAXED);
        return false;
    }

    uint32_t place = __atomic_load_n(&state->place, __ATOMIC_RELAXED);
    uint32_t next_place = (place + sampler->step) % sampler->one_in;

    /* the rest of this run, and the next one's calls before its place */
    __atomic_store_n(&state->skip_count, sampler->one_in - 1 - place + next_place,
                     __ATOMIC_RELAXED);
    __atomic_store_n(&state->place, next_place, __ATOMIC_RELAXED);
    return true;
}

#endif
