/*
 * shards: counters that many threads increment without contention.
 *
 * A count is stored several times, once per shard, and read by adding up the shards. The first
 * shards belong to one thread each, by its number (base/thread_index.h); all other threads share
 * the shards after those:
 *
 *     exclusive_count = 4, shared_count = 2
 *
 *     shard     0    1    2    3        4            5
 *     thread    0    1    2    3     4, 6, 8 ...  5, 7, 9 ...
 *     adds by   load, add, store     locked add
 *
 * A locked add costs 5 to 10 ns even without contention; a load, add and store costs a fraction of
 * a nanosecond, and is exact as long as a shard has one writer. So no other thread may ever add to
 * an exclusive shard, locked or not: that is why the shared ones are separate, and why memory that
 * several processes write has no exclusive ones.
 *
 * A count that a signal handler makes during an add of its own thread may be lost.
 */
#ifndef RATION_STATS_SHARDS_H
#define RATION_STATS_SHARDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/thread_index.h"

#define RATION_LINE_BYTES 64u

/* Two lines: CPUs fetch lines in pairs, so shards are separated by that much. */
#define RATION_SHARD_ALIGN_BYTES 128u

#define RATION_SHARDS_SHARED_MAX RATION_THREADS_MAX

struct ration_shards {
    uint32_t exclusive_count; /* at most RATION_THREADS_MAX */
    uint32_t shared_count;    /* a power of two, at most RATION_SHARDS_SHARED_MAX */
};

/* A shard, and whether the calling thread is its only writer. */
struct ration_shard {
    uint32_t index;
    bool is_exclusive;
};

/*
 * For memory of one process: two exclusive shards per CPU, at least 16, and half as many shared
 * ones.
 */
struct ration_shards ration_shards_private(void);

/* For memory shared by processes: as many shards, none of them exclusive. */
struct ration_shards ration_shards_common(void);

/* Returns whether the counts are within their bounds. */
bool ration_shards_valid(struct ration_shards shards);

static inline uint32_t ration_shards_count(struct ration_shards shards)
{
    return shards.exclusive_count + shards.shared_count;
}

/* Rounds size up so that the next shard starts on its own lines. */
static inline size_t ration_shards_align(size_t size)
{
    return (size + RATION_SHARD_ALIGN_BYTES - 1) & ~(size_t)(RATION_SHARD_ALIGN_BYTES - 1);
}

/* Returns the calling thread's shard. */
static inline struct ration_shard ration_shards_mine(const struct ration_shards *shards)
{
    uint32_t thread = ration_thread_index();

    if (__builtin_expect(thread < shards->exclusive_count, 1))
        return (struct ration_shard){thread, true};
    return (struct ration_shard){shards->exclusive_count + (thread & (shards->shared_count - 1)),
                                 false};
}

/*
 * Adds to a count of the shard that ration_shards_mine() returned. Relaxed: counts order no other
 * memory. base/thread_index.h explains why the next owner of an exclusive shard continues from the
 * last value of the previous one.
 */
static inline void ration_shards_add(struct ration_shard shard, uint64_t *count, uint64_t amount)
{
    if (__builtin_expect(shard.is_exclusive, 1))
        __atomic_store_n(count, __atomic_load_n(count, __ATOMIC_RELAXED) + amount,
                         __ATOMIC_RELAXED);
    else
        __atomic_fetch_add(count, amount, __ATOMIC_RELAXED);
}

#endif
