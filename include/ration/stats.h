/*
 * stats: what a limiter did, as values to look at.
 *
 * Everything is counted since the limiter was created. For what happened lately, keep the last
 * values and subtract:
 *
 *     struct ration_limit_stats lately = ration_limit_stats_since(&now, &before);
 *     ration_limit_stats_rejected_ppm(&lately)     // 250000: one in four was denied
 *
 * Counts are read while other threads decide: fields of one value may be some decisions apart.
 * Integers only; rates are in parts per million.
 */
#ifndef RATION_STATS_H
#define RATION_STATS_H

#include <stdint.h>

#include "ration/export.h"

RATION_C_BEGIN

/* Decisions of one limit. What takes nothing (cost 0, a look) is not counted. */
struct ration_limit_stats {
    uint64_t allowed;
    uint64_t denied;         /* not now */
    uint64_t never;          /* cost above the burst */
    uint64_t errors;         /* could not decide */
    uint64_t allowed_tokens; /* the costs of those allowed */
    uint64_t shadow_denied;  /* would have been denied, were the limit enforced */
    uint64_t near;           /* allowed with less than a fifth of the burst left; counted where each
                                limit's decision is told */
};

/* What became of a limiter's keys. */
struct ration_limiter_stats {
    uint64_t overflow_shared; /* no room for a new key: decided by the shared bucket ... */
    uint64_t overflow_deny;   /* ... denied ... */
    uint64_t overflow_allow;  /* ... or allowed without a limit */
    uint64_t created;         /* keys that got a bucket */
    uint64_t reclaimed;       /* full buckets that lost their slot */
    uint64_t shadow_denied;   /* of all limits together */
};

/*
 * How long decisions took. A percentile is at most 1/32 above a time that was measured (3.2 %),
 * never below it; from 16.9 seconds on it is the longest one.
 */
struct ration_histogram_stats {
    uint64_t count; /* decisions that were measured */
    uint64_t sum_ns;
    uint64_t p50_ns;
    uint64_t p90_ns;
    uint64_t p99_ns;
    uint64_t p999_ns; /* 99.9 % took no longer */
    uint64_t max_ns;  /* exact */
};

#define RATION_TOP_KEY_NAME_MAX 64

/*
 * A key with a high count. What is true of it lies from count - error to count + lost, where lost
 * is that of the list (struct ration_top_keys_stats).
 */
struct ration_top_key {
    uint64_t count;
    uint64_t error;
    uint64_t hash[2];
    uint64_t name_size;                          /* of the whole name */
    unsigned char name[RATION_TOP_KEY_NAME_MAX]; /* its first bytes: any, and zeros after them */
};

/* What a list of top keys is worth. */
struct ration_top_keys_stats {
    uint64_t total; /* of all keys, lost not included */
    uint64_t lost;  /* not counted for any key, since counting never waits */
    /*
     * A key that is not in the list has at most unlisted_max + lost. In a list with room for all
     * the keys that are kept, unlisted_max is at most total / kept keys.
     */
    uint64_t unlisted_max;
};

/* The growth of one count. One that shrank belongs to a new limiter, and started at zero. */
static inline uint64_t ration_stats_growth(uint64_t later, uint64_t earlier)
{
    return later < earlier ? later : later - earlier;
}

/* What happened between two reads of the same limit. */
static inline struct ration_limit_stats ration_limit_stats_since(
    const struct ration_limit_stats *later, const struct ration_limit_stats *earlier)
{
    struct ration_limit_stats growth;

    growth.allowed = ration_stats_growth(later->allowed, earlier->allowed);
    growth.denied = ration_stats_growth(later->denied, earlier->denied);
    growth.never = ration_stats_growth(later->never, earlier->never);
    growth.errors = ration_stats_growth(later->errors, earlier->errors);
    growth.allowed_tokens = ration_stats_growth(later->allowed_tokens, earlier->allowed_tokens);
    growth.shadow_denied = ration_stats_growth(later->shadow_denied, earlier->shadow_denied);
    growth.near = ration_stats_growth(later->near, earlier->near);
    return growth;
}

/* What happened between two reads of the same limiter. */
static inline struct ration_limiter_stats ration_limiter_stats_since(
    const struct ration_limiter_stats *later, const struct ration_limiter_stats *earlier)
{
    struct ration_limiter_stats growth;

    growth.overflow_shared = ration_stats_growth(later->overflow_shared, earlier->overflow_shared);
    growth.overflow_deny = ration_stats_growth(later->overflow_deny, earlier->overflow_deny);
    growth.overflow_allow = ration_stats_growth(later->overflow_allow, earlier->overflow_allow);
    growth.created = ration_stats_growth(later->created, earlier->created);
    growth.reclaimed = ration_stats_growth(later->reclaimed, earlier->reclaimed);
    growth.shadow_denied = ration_stats_growth(later->shadow_denied, earlier->shadow_denied);
    return growth;
}

/*
 * denied / (allowed + denied) in parts per million, rounded down; 0 where nothing was decided.
 * NEVER and errors are neither: no rate would have let them pass.
 */
static inline uint32_t ration_limit_stats_rejected_ppm(const struct ration_limit_stats *stats)
{
    uint64_t denied = stats->denied;
    uint64_t allowed = stats->allowed;

    while (denied > UINT64_MAX / 1000000 || allowed > UINT64_MAX / 2) {
        denied /= 2;
        allowed /= 2;
    }
    return allowed + denied == 0 ? 0 : (uint32_t)(denied * 1000000 / (allowed + denied));
}

RATION_C_END

#endif
