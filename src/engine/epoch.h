/*
 * epoch: decides when no reader can still use a replaced object, so that it can be freed.
 *
 * A reader enters and leaves with one atomic add each, to a counter of its thread's shard; readers never wait. After a
 * writer has replaced an object, it waits until all readers that entered before have left. There are two phases, and
 * readers enter the current one. The writer switches to the other phase and waits until the previous phase is empty. It
 * does this twice, because a reader may have loaded the phase before the switch and entered it afterwards.
 *
 *     entered[phase] - left[phase], over all shards     readers inside
 *
 * The writer sums left before it sums entered: a reader that leaves in between has also been counted as entered, so the
 * difference is 0 only if there was a time without readers of the phase.
 */
#ifndef RATION_ENGINE_EPOCH_H
#define RATION_ENGINE_EPOCH_H

#include "ration/status.h"
#include "stats/shards.h"

enum ration_epoch_count {
    RATION_EPOCH_EXEMPT = 0,
    RATION_EPOCH_BANNED,
    RATION_EPOCH_UNLIMITED,
    RATION_EPOCH_ERRORS,
    RATION_EPOCH_LOCAL,    /* decided without a call to Redis */
    RATION_EPOCH_DEGRADED, /* Redis should have decided, and did not */
    RATION_EPOCH_COUNTS
};

/* The counters of one thread, or of several threads that share the shard. The engine's statistics are here, too. */
struct ration_epoch_shard {
    _Alignas(RATION_SHARD_ALIGN_BYTES) uint64_t entered[2];
    uint64_t left[2];
    uint64_t counts[RATION_EPOCH_COUNTS];
};

struct ration_epoch {
    struct ration_shards shards;
    uint32_t phase; /* 0 or 1 */
    struct ration_epoch_shard *cells;
};

/* Returns RATION_ENOMEM. Release: ration_epoch_done(). */
ration_status ration_epoch_init(struct ration_epoch *epoch);
void ration_epoch_done(struct ration_epoch *epoch);

/* Returns the phase to pass to ration_epoch_leave(). */
static inline uint32_t ration_epoch_enter(struct ration_epoch *epoch)
{
    struct ration_shard shard = ration_shards_mine(&epoch->shards);
    uint32_t phase = __atomic_load_n(&epoch->phase, __ATOMIC_RELAXED);

    /*
     * Sequentially consistent, like all accesses to entered and left: the caller's next loads (ration_engine_plan())
     * come after the add. Pairs with the loads in is_phase_empty().
     */
    __atomic_fetch_add(&epoch->cells[shard.index].entered[phase], 1, __ATOMIC_SEQ_CST);
    return phase;
}

/*
 * Enters again the phase that the caller is in, on behalf of an object that leaves later than the caller. The current
 * phase would be wrong: if a writer has switched the phase since the caller entered, it waits for the caller's phase
 * only, and would free what the caller has passed on.
 */
static inline void ration_epoch_enter_again(struct ration_epoch *epoch, uint32_t phase)
{
    struct ration_shard shard = ration_shards_mine(&epoch->shards);

    __atomic_fetch_add(&epoch->cells[shard.index].entered[phase], 1, __ATOMIC_SEQ_CST);
}

static inline void ration_epoch_leave(struct ration_epoch *epoch, uint32_t phase)
{
    struct ration_shard shard = ration_shards_mine(&epoch->shards);

    __atomic_fetch_add(&epoch->cells[shard.index].left[phase], 1, __ATOMIC_SEQ_CST);
}

/*
 * Waits until all readers that are inside have left. One caller at a time. Returns false after about 10 seconds per
 * phase: a reader sleeps inside, or its thread does not exist in this child of fork().
 */
bool ration_epoch_wait(struct ration_epoch *epoch);

static inline void ration_epoch_add(struct ration_epoch *epoch, enum ration_epoch_count which)
{
    struct ration_shard shard = ration_shards_mine(&epoch->shards);

    ration_shards_add(shard, &epoch->cells[shard.index].counts[which], 1);
}

uint64_t ration_epoch_read(const struct ration_epoch *epoch, enum ration_epoch_count which);

#endif
