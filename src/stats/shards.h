/*
 * shards: counts that many threads keep without getting in each other's way.
 *
 * A count is kept in several places, the shards, and read by adding them up. The first shards
 * belong to one thread each, by its number (base/thread_index.h); all other threads meet in the
 * shards behind those:
 *
 *     exclusive_count = 4, shared_count = 2
 *
 *     shard     0    1    2    3        4            5
 *     thread    0    1    2    3     4, 6, 8 ...  5, 7, 9 ...
 *     adds by   load, add, store     locked add
 *
 * A locked add costs 5 to 10 ns even if nobody else is there; the other way a fraction of one, and
 * is exact as long as a shard has one writer. So no other thread may ever add to an exclusive
 * shard, locked or not: that is why the shared ones are apart, and why memory that several
 * processes write has no exclusive ones.
 *
 * What a signal handler counts in the middle of its own thread's add may be lost.
 */
#ifndef RATION_STATS_SHARDS_H
#define RATION_STATS_SHARDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/thread_index.h"

#define RATION_LINE_BYTES 64u

/* Two lines: CPUs fetch them in pairs, so shards are kept apart by that much. */
#define RATION_SHARD_ALIGN_BYTES 128u

#define RATION_SHARDS_SHARED_MAX RATION_THREADS_MAX

struct ration_shards {
    uint32_t exclusive_count; /* at most RATION_THREADS_MAX */
    uint32_t shared_count;    /* a power of two, at most RATION_SHARDS_SHARED_MAX */
};

/* One of them, and whether the calling thread is its only writer. */
struct ration_shard {
    uint32_t index;
    bool is_exclusive;
};

/* CPUs of this machine, rounded up to a power of two. Makes system calls. */
uint32_t ration_shards_cpu_count(void);

/* For memory of one process: two per CPU, but 16 at least, exclusive, and half as many shared. */
struct ration_shards ration_shards_private(void);

/* For memory that processes share: as many, none of them exclusive. */
struct ration_shards ration_shards_common(void);

/* Whether the counts are within their bounds. */
bool ration_shards_valid(struct ration_shards shards);

static inline uint32_t ration_shards_count(struct ration_shards shards)
{
    return shards.exclusive_count + shards.shared_count;
}

/* size rounded up so that the next shard starts on lines of its own. */
static inline size_t ration_shards_align(size_t size)
{
    return (size + RATION_SHARD_ALIGN_BYTES - 1) & ~(size_t)(RATION_SHARD_ALIGN_BYTES - 1);
}

/* The calling thread's shard. */
static inline struct ration_shard ration_shards_mine(const struct ration_shards *shards)
{
    uint32_t thread = ration_thread_index();

    if (__builtin_expect(thread < shards->exclusive_count, 1))
        return (struct ration_shard){thread, true};
    return (struct ration_shard){shards->exclusive_count + (thread & (shards->shared_count - 1)),
                                 false};
}

/*
 * Adds to a count of the shard that ration_shards_mine() gave. Relaxed: counts order nothing. That
 * the next owner of an exclusive shard goes on from the last one's is in base/thread_index.h.
 */
static inline void ration_shard_add(struct ration_shard shard, uint64_t *count, uint64_t amount)
{
    if (__builtin_expect(shard.is_exclusive, 1))
        __atomic_store_n(count, __atomic_load_n(count, __ATOMIC_RELAXED) + amount,
                         __ATOMIC_RELAXED);
    else
        __atomic_fetch_add(count, amount, __ATOMIC_RELAXED);
}

#endif
