/*
 * stats: statistics of a limiter.
 *
 * All counters start when the limiter is created. For the activity of an interval, save the
 * previous values and subtract:
 *
 *     struct ration_limit_stats recent = ration_limit_stats_since(&now, &before);
 *     ration_limit_stats_rejected_ppm(&recent)     // 250000: one in four was denied
 *
 * Counters are read while other threads decide: the fields of one struct may differ by a few
 * decisions. All values are integers; ratios are in parts per million.
 */
#ifndef RATION_STATS_H
#define RATION_STATS_H

#include <stdint.h>

#include "ration/export.h"

RATION_C_BEGIN

/* Decisions of one limit. Calls that take nothing (cost 0, a peek) are not counted. */
struct ration_limit_stats {
    uint64_t allowed;
    uint64_t denied;         /* DENY */
    uint64_t never;          /* NEVER: the cost exceeds the burst */
    uint64_t errors;         /* could not be decided */
    uint64_t allowed_tokens; /* total cost of the allowed requests */
    uint64_t shadow_denied;  /* would have been denied if the limit were enforced */
    /*
     * Allowed with less than a fifth of the burst left. Counted only by calls that compute each
     * limit's full decision.
     */
    uint64_t near_limit;
};

/* Keys of a limiter. */
struct ration_limiter_stats {
    uint64_t overflow_shared; /* for a key without a slot: decided by the shared bucket, ... */
    uint64_t overflow_deny;   /* ... denied, ... */
    uint64_t overflow_allow;  /* ... or allowed without a limit */
    uint64_t created;         /* keys that were given a slot */
    uint64_t reclaimed;       /* idle keys (full buckets) whose slot was given to another key */
    uint64_t shadow_denied;   /* of all limits together */
};

/*
 * Latency of decisions. A percentile is never below the measured time and at most 1/32 (3.2 %)
 * above it; from 16.9 seconds on it is the longest measured time.
 */
struct ration_histogram_stats {
    uint64_t count; /* measured decisions */
    uint64_t sum_ns;
    uint64_t p50_ns;
    uint64_t p90_ns;
    uint64_t p99_ns;
    uint64_t p999_ns; /* 99.9 % took no longer */
    uint64_t max_ns;  /* exact */
};

#define RATION_TOP_KEY_NAME_MAX 64

/*
 * A key with a high count. Its true count lies between count - error and count + lost, where lost
 * is that of the list (struct ration_top_keys_stats).
 */
struct ration_top_key {
    uint64_t count;
    uint64_t error;
    uint64_t hash[2];
    uint64_t name_size;                          /* bytes of the whole name */
    unsigned char name[RATION_TOP_KEY_NAME_MAX]; /* its first bytes (any values), padded with
                                                    zeros */
};

/* Accuracy of a list of top keys. */
struct ration_top_keys_stats {
    uint64_t total; /* sum over all keys, without lost */
    uint64_t lost;  /* not attributed to any key, because counting never waits */
    /*
     * Upper bound for keys not in the list: unlisted_max + lost. In a list with room for all
     * tracked keys, unlisted_max is at most total / number of tracked keys.
     */
    uint64_t unlisted_max;
};

/* Growth of one counter. A counter that shrank belongs to a new limiter and started at zero. */
static inline uint64_t ration_stats_growth(uint64_t later, uint64_t earlier)
{
    return later < earlier ? later : later - earlier;
}

/* Activity between two reads of the same limit. */
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
    growth.near_limit = ration_stats_growth(later->near_limit, earlier->near_limit);
    return growth;
}

/* Activity between two reads of the same limiter. */
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
 * Returns denied / (allowed + denied) in parts per million, rounded down; 0 if nothing was decided.
 * NEVER and errors are not included, because no rate would have allowed them.
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
