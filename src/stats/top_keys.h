/*
 * top_keys: finds the keys that were denied most, or cost most, from many threads at once.
 *
 * There are several sketches (stats/space_saving.h), each behind a try-lock. A thread tries the
 * sketch of its number, then the next three; if all are busy, its weight is added to a count of
 * lost weight. So counting never waits and never makes another thread wait (R3), and the resulting
 * error is known:
 *
 *     count - error <= true count <= count + lost
 *
 * With a sketch for each thread, weight is rarely lost. With fewer, a thread that the kernel
 * preempts during an add keeps other threads out until it runs again, some milliseconds later.
 *
 * Reading tries longer, and copies one sketch after the other. A sketch whose lock stays busy,
 * because its holder was killed or does not exist in this child of a fork(), is reported as lost as
 * a whole.
 *
 * Reading adds up the sketches. In each sketch a key has either its count, or at most that sketch's
 * floor, which is then added to both count and error. No K + 1 keys can have more in a sketch than
 * its weight plus its floor; hence of K keys besides x at least one is below x if x has more than 1
 * / K of everything: the first K keys of the sum include all of those, as they would in one sketch.
 *
 * Sampled weights, 1 of N and multiplied by N, make counts estimates: the bounds then hold for the
 * sample.
 *
 * One block of memory without pointers, which processes may share.
 */
#ifndef RATION_STATS_TOP_KEYS_H
#define RATION_STATS_TOP_KEYS_H

#include "ration/stats.h"
#include "ration/status.h"
#include "stats/shards.h"
#include "stats/space_saving.h"

#define RATION_TOP_KEYS_COUNT_DEFAULT 128u
#define RATION_TOP_KEYS_SHARDS_MAX    64u

struct ration_top_keys_shape {
    uint32_t key_max;     /* K, at most RATION_SPACE_SAVING_KEYS_MAX */
    uint32_t shard_count; /* a power of two, at most RATION_TOP_KEYS_SHARDS_MAX */
};

/* The block's header, only read after init. The shards follow it. */
struct ration_top_keys {
    _Alignas(RATION_SHARD_ALIGN_BYTES) struct ration_top_keys_shape shape;
    uint64_t shard_bytes; /* from one shard to the next */
};

/* One sketch; its memory follows it. */
struct ration_top_keys_shard {
    _Alignas(RATION_SHARD_ALIGN_BYTES) uint32_t busy; /* 1 while a thread holds the lock */
    /*
     * Weight in the sketch. The lock's holder raises it before it changes the sketch; any thread
     * may read it.
     */
    uint64_t total;
    /*
     * Weight from threads whose first sketch is this one and that found all sketches they tried
     * busy.
     */
    uint64_t lost;
    _Alignas(RATION_LINE_BYTES) struct ration_space_saving sketch;
};

/* RATION_TOP_KEYS_COUNT_DEFAULT keys; two shards per CPU, at least 16. About 14 KiB each. */
struct ration_top_keys_shape ration_top_keys_shape_default(void);

/* Returns the bytes that top keys of this shape need; 0 if the shape is out of bounds. */
size_t ration_top_keys_size(struct ration_top_keys_shape shape);

/*
 * Initialises empty top keys in a block aligned to RATION_SHARD_ALIGN_BYTES. They are the block,
 * and need no release. Returns RATION_EINVAL (shape out of bounds, block not aligned) or
 * RATION_ENOSPC.
 */
ration_status ration_top_keys_init(void *block, size_t block_size,
                                   struct ration_top_keys_shape shape,
                                   struct ration_top_keys **out_top);

/* Adds weight to a key, which is borrowed for the call. Never waits. */
void ration_top_keys_add(struct ration_top_keys *top, const struct ration_top_key_ref *key,
                         uint64_t weight);

/* Returns the bytes of scratch memory that ration_top_keys_read() needs. */
size_t ration_top_keys_scratch_size(struct ration_top_keys_shape shape);

/*
 * Writes up to keys_max keys, the highest count first, and their accuracy. Returns how many.
 * Everything added before the call is within the reported bounds; weight added meanwhile may be.
 * scratch, of ration_top_keys_scratch_size() bytes aligned for uint64_t, is borrowed for the call.
 * Any thread, any time; where a sketch is busy it sleeps, at most 20 ms each.
 */
uint32_t ration_top_keys_read(struct ration_top_keys *top, void *scratch,
                              struct ration_top_key *out_keys, uint32_t keys_max,
                              struct ration_top_keys_stats *out_stats);

/* Returns a shard of the block. */
static inline struct ration_top_keys_shard *ration_top_keys_shard(struct ration_top_keys *top,
                                                                  uint32_t index)
{
    unsigned char *shards = (unsigned char *)(top + 1);

    return (struct ration_top_keys_shard *)(void *)(shards + index * top->shard_bytes);
}

/* Locks a shard if it is not locked. */
static inline bool ration_top_keys_enter(struct ration_top_keys_shard *shard)
{
    /* acquire: pairs with the release in ration_top_keys_leave() */
    return __atomic_load_n(&shard->busy, __ATOMIC_RELAXED) == 0 &&
           __atomic_exchange_n(&shard->busy, 1, __ATOMIC_ACQUIRE) == 0;
}

static inline void ration_top_keys_leave(struct ration_top_keys_shard *shard)
{
    __atomic_store_n(&shard->busy, 0, __ATOMIC_RELEASE);
}

#endif
