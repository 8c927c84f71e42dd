/*
 * counters: counts the decisions of each limit, and the keys, of a limiter.
 *
 * One block of memory, provided by the caller and without pointers in it:
 *
 *     header | shard 0: keys, limit 0, limit 1, ... | shard 1: keys, limit 0, ... | ...
 *
 * where each of "keys" and "limit n" is a cache line of 8 counts. A decision touches only the line
 * of its limit in its thread's shard (stats/shards.h). Any thread may count and any may read, at
 * any time, while threads start and exit.
 *
 * Counts are 64 bits and only grow. A read adds up the shards: it includes every count made before
 * it, and may include some made meanwhile. Two fields of one read need not belong to the same
 * instant.
 */
#ifndef RATION_STATS_COUNTERS_H
#define RATION_STATS_COUNTERS_H

#include "ration/stats.h"
#include "ration/status.h"
#include "stats/shards.h"

#define RATION_COUNTERS_LIMITS_MAX 4096u
#define RATION_COUNTERS_PER_LINE   (RATION_LINE_BYTES / sizeof(uint64_t))

/* Per limit. Each is a field of struct ration_limit_stats. */
#define RATION_LIMIT_COUNT_MAP(X)     \
    X(ALLOWED, allowed)               \
    X(DENIED, denied)                 \
    X(NEVER, never)                   \
    X(ERRORS, errors)                 \
    X(ALLOWED_TOKENS, allowed_tokens) \
    X(SHADOW_DENIED, shadow_denied)   \
    X(NEAR_LIMIT, near_limit)

/* Per limiter. Each is a field of struct ration_limiter_stats. */
#define RATION_LIMITER_COUNT_MAP(X)     \
    X(OVERFLOW_SHARED, overflow_shared) \
    X(OVERFLOW_DENY, overflow_deny)     \
    X(OVERFLOW_ALLOW, overflow_allow)   \
    X(CREATED, created)                 \
    X(RECLAIMED, reclaimed)

#define RATION_COUNT_ENUM(name, field) RATION_COUNT_##name,
enum ration_limit_count { RATION_LIMIT_COUNT_MAP(RATION_COUNT_ENUM) RATION_LIMIT_COUNTS };
enum ration_limiter_count { RATION_LIMITER_COUNT_MAP(RATION_COUNT_ENUM) RATION_LIMITER_COUNTS };
#undef RATION_COUNT_ENUM

struct ration_counters_line {
    uint64_t counts[RATION_COUNTERS_PER_LINE];
};

_Static_assert(RATION_LIMIT_COUNTS <= RATION_COUNTERS_PER_LINE, "a limit has one line");
_Static_assert(RATION_LIMITER_COUNTS <= RATION_COUNTERS_PER_LINE, "a limiter has one line");

/* The block's header, only read after init. */
struct ration_counters {
    _Alignas(RATION_SHARD_ALIGN_BYTES) struct ration_shards shards;
    uint32_t limit_count;
    uint32_t shard_lines; /* lines from one shard to the next */
};

/*
 * Returns the bytes that counters for limit_count limits need; 0 if that is 0 or above
 * RATION_COUNTERS_LIMITS_MAX, or if the shards are not valid.
 */
size_t ration_counters_size(uint32_t limit_count, struct ration_shards shards);

/*
 * Initialises counters, all zero, in a block aligned to RATION_SHARD_ALIGN_BYTES. The counters are
 * the block, may be copied with it, and need no release. Returns RATION_EINVAL (counts out of
 * bounds, block not aligned) or RATION_ENOSPC.
 */
ration_status ration_counters_init(void *block, size_t block_size, uint32_t limit_count,
                                   struct ration_shards shards,
                                   struct ration_counters **out_counters);

/* Line 0 of a shard belongs to the limiter, line 1 to limit 0. For the functions below. */
static inline uint64_t *ration_counters_line(struct ration_counters *counters, uint32_t shard,
                                             uint32_t line)
{
    struct ration_counters_line *lines = (struct ration_counters_line *)(void *)(counters + 1);

    return lines[(size_t)shard * counters->shard_lines + line].counts;
}

/* A limit outside the counters is a bug and would write into another limit's line. */
static inline void ration_counters_expect(const struct ration_counters *counters,
                                          uint32_t limit_index)
{
    if (__builtin_expect(limit_index >= counters->limit_count, 0))
        __builtin_trap();
}

/* Adds amount to one count of a limit. */
static inline void ration_counters_add(struct ration_counters *counters, uint32_t limit_index,
                                       enum ration_limit_count which, uint64_t amount)
{
    struct ration_shard shard = ration_shards_mine(&counters->shards);

    ration_counters_expect(counters, limit_index);
    ration_shards_add(shard, &ration_counters_line(counters, shard.index, limit_index + 1)[which],
                      amount);
}

/* Counts one allowed decision and its tokens: two adds cost hardly more than one. */
static inline void ration_counters_add_allowed(struct ration_counters *counters,
                                               uint32_t limit_index, uint64_t cost_tokens)
{
    struct ration_shard shard = ration_shards_mine(&counters->shards);
    uint64_t *line = ration_counters_line(counters, shard.index, limit_index + 1);

    ration_counters_expect(counters, limit_index);
    ration_shards_add(shard, &line[RATION_COUNT_ALLOWED], 1);
    ration_shards_add(shard, &line[RATION_COUNT_ALLOWED_TOKENS], cost_tokens);
}

/* Adds amount to one count of the limiter. */
static inline void ration_counters_add_limiter(struct ration_counters *counters,
                                               enum ration_limiter_count which, uint64_t amount)
{
    struct ration_shard shard = ration_shards_mine(&counters->shards);

    ration_shards_add(shard, &ration_counters_line(counters, shard.index, 0)[which], amount);
}

/* Returns the counts of one limit so far. */
struct ration_limit_stats ration_counters_read(const struct ration_counters *counters,
                                               uint32_t limit_index);

/* Returns the counts of the limiter so far; shadow_denied is the sum over its limits. */
struct ration_limiter_stats ration_counters_read_limiter(const struct ration_counters *counters);

#endif
