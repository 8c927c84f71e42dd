/*
 * grace: when nobody can still be using what was replaced.
 *
 * Readers enter and leave, each by one add to a count of their thread's; they never wait. Who has
 * replaced something waits until all who entered before have left. There are two phases, and readers
 * enter the current one. The writer turns to the other phase and waits until the one before is empty,
 * twice: a reader may have read the phase and entered it only after the turn.
 *
 *     entered[phase] - left[phase], over all shards     readers inside
 *
 * left is added up before entered: whoever left during that was counted as entered, too, so the sum
 * is 0 only if there was a moment without readers of the phase.
 */
#ifndef RATION_GATE_GRACE_H
#define RATION_GATE_GRACE_H

#include "ration/status.h"
#include "stats/shards.h"

enum ration_grace_count {
    RATION_GRACE_EXEMPT = 0,
    RATION_GRACE_BANNED,
    RATION_GRACE_UNLIMITED,
    RATION_GRACE_ERRORS,
    RATION_GRACE_NEAR,     /* decided without asking Redis */
    RATION_GRACE_DEGRADED, /* Redis should have decided them, and did not */
    RATION_GRACE_COUNTS
};

/* Of one thread, or of several that share it. What a gate counts lies here, too. */
struct ration_grace_shard {
    _Alignas(RATION_SHARD_ALIGN_BYTES) uint64_t entered[2];
    uint64_t left[2];
    uint64_t counts[RATION_GRACE_COUNTS];
};

struct ration_grace {
    struct ration_shards shards;
    uint32_t phase; /* 0 or 1 */
    struct ration_grace_shard *cells;
};

/* Returns RATION_ENOMEM. Release: ration_grace_done(). */
ration_status ration_grace_init(struct ration_grace *grace);
void ration_grace_done(struct ration_grace *grace);

/* Returns the phase, for ration_grace_leave(). */
static inline uint32_t ration_grace_enter(struct ration_grace *grace)
{
    struct ration_shard shard = ration_shards_mine(&grace->shards);
    uint32_t phase = __atomic_load_n(&grace->phase, __ATOMIC_RELAXED);

    /* sequentially consistent, as are all of these: what is read next is read after the add */
    __atomic_fetch_add(&grace->cells[shard.index].entered[phase], 1, __ATOMIC_SEQ_CST);
    return phase;
}

/*
 * Enters once more the phase that the caller is inside already, for something that leaves later than the
 * caller does. The current phase would not do: if it has turned since the caller entered, a writer that
 * waits for the caller's phase only would release what the caller has handed on.
 */
static inline void ration_grace_enter_again(struct ration_grace *grace, uint32_t phase)
{
    struct ration_shard shard = ration_shards_mine(&grace->shards);

    __atomic_fetch_add(&grace->cells[shard.index].entered[phase], 1, __ATOMIC_SEQ_CST);
}

static inline void ration_grace_leave(struct ration_grace *grace, uint32_t phase)
{
    struct ration_shard shard = ration_shards_mine(&grace->shards);

    __atomic_fetch_add(&grace->cells[shard.index].left[phase], 1, __ATOMIC_SEQ_CST);
}

/*
 * Waits until all who are inside have left. One caller at a time. False if that took too long: a
 * thread sleeps inside, or was lost in a fork.
 */
bool ration_grace_wait(struct ration_grace *grace);

static inline void ration_grace_add(struct ration_grace *grace, enum ration_grace_count which)
{
    struct ration_shard shard = ration_shards_mine(&grace->shards);

    ration_shard_add(shard, &grace->cells[shard.index].counts[which], 1);
}

uint64_t ration_grace_read(const struct ration_grace *grace, enum ration_grace_count which);

#endif
