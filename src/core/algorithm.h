/*
 * algorithm: the algorithms whose state is 16 bytes, behind one interface.
 *
 * Each call dispatches on limit->algorithm to gcra.h, interval.h, fixed_window.h or
 * sliding_window.h. Two algorithms need a larger state: reserve.h (two times), and the sliding log,
 * whose ring lies in a table (limiter/log_ring.h).
 *
 *     algorithm                      state                           take, peek  reservations wait
 *     token bucket                   tat                             yes         yes
 *     token bucket, interval refill  full_at, spare                  yes         yes
 *     leaky queue                    tat                             yes; every take has a delay
 *     fixed window                   window's end, count             yes         no
 *     sliding window                 window's end, two counts        yes         no
 *
 * Calls accept any now and clamp it to RATION_NOW_MAX_NS.
 */
#ifndef RATION_CORE_ALGORITHM_H
#define RATION_CORE_ALGORITHM_H

#include <stdbool.h>
#include <stdint.h>

#include "core/fixed_window.h"
#include "core/gcra.h"
#include "core/interval.h"
#include "core/sliding_window.h"
#include "core/state.h"

/* The words for algorithms in the text of a limit. A burst reserve has none: it is written as its rate. */
#define RATION_ALGORITHM_WORDS(X)              \
    X("token_bucket", RATION_TOKEN_BUCKET)     \
    X("leaky_queue", RATION_LEAKY_QUEUE)       \
    X("fixed_window", RATION_FIXED_WINDOW)     \
    X("sliding_window", RATION_SLIDING_WINDOW) \
    X("sliding_log", RATION_SLIDING_LOG)

/* Returns whether a limit's state is 16 bytes. False also for a limit that was never made. */
static inline bool ration_algorithm_fits(const struct ration_limit *limit)
{
    return limit->algorithm == RATION_TOKEN_BUCKET || limit->algorithm == RATION_LEAKY_QUEUE ||
           limit->algorithm == RATION_FIXED_WINDOW || limit->algorithm == RATION_SLIDING_WINDOW;
}

static inline bool ration_algorithm_is_gcra(const struct ration_limit *limit)
{
    return limit->algorithm == RATION_TOKEN_BUCKET && limit->refill == RATION_REFILL_CONTINUOUS;
}

static inline bool ration_algorithm_is_window(const struct ration_limit *limit)
{
    return limit->algorithm == RATION_FIXED_WINDOW || limit->algorithm == RATION_SLIDING_WINDOW;
}

/* A caller accepted into the queue proceeds when those before it have gone: at the old tat. */
static inline struct ration_step ration_algorithm_take_queue(const struct ration_limit *limit,
                                                             struct ration_time tat,
                                                             uint64_t cost_tokens, uint64_t now_ns)
{
    struct ration_gcra_step step = ration_gcra_take(tat, &limit->rate, cost_tokens, 0, now_ns);

    if (step.verdict == RATION_ALLOW && cost_tokens > 0)
        step.wait_ns = ration_gcra_full_after_ns(tat, now_ns);
    return (struct ration_step){step.verdict, step.wait_ns, {.tat = step.next}};
}

/*
 * Always inline, for loops compiled for one algorithm. Not in coverage builds, where each copy
 * would have to take every branch.
 */
#ifdef __OPTIMIZE__
#define RATION_ALGORITHM_INLINE inline __attribute__((always_inline))
#else
#define RATION_ALGORITHM_INLINE inline
#endif

/*
 * Decides cost_tokens at now for a caller that would wait up to max_wait_ns (0: it must proceed
 * now). Inline, for the loop that publishes the step.
 */
static RATION_ALGORITHM_INLINE struct ration_step ration_algorithm_take(
    const struct ration_limit *limit, union ration_state state, uint64_t cost_tokens,
    uint64_t max_wait_ns, uint64_t now_ns)
{
    now_ns = ration_time_clamp(now_ns);
    if (__builtin_expect(ration_algorithm_is_gcra(limit), 1)) {
        struct ration_gcra_step step =
            ration_gcra_take(state.tat, &limit->rate, cost_tokens, max_wait_ns, now_ns);

        return (struct ration_step){step.verdict, step.wait_ns, {.tat = step.next}};
    }
    if (limit->algorithm == RATION_FIXED_WINDOW)
        return ration_fixed_window_take(state.fixed, limit, cost_tokens, now_ns);
    if (limit->algorithm == RATION_SLIDING_WINDOW)
        return ration_sliding_window_take(state.sliding, limit, cost_tokens, now_ns);
    if (limit->refill == RATION_REFILL_INTERVAL)
        return ration_interval_take(state.interval, limit, cost_tokens, max_wait_ns, now_ns);
    return ration_algorithm_take_queue(limit, state.tat, cost_tokens, now_ns);
}

/* Returns the full decision for a step taken at now: the tokens left afterwards, and the waits. */
struct ration_decision ration_algorithm_describe(const struct ration_limit *limit,
                                                 const struct ration_step *step, uint64_t now_ns);

/* Returns the whole tokens available now. */
uint64_t ration_algorithm_remaining(const struct ration_limit *limit, union ration_state state,
                                    uint64_t now_ns);

/* Returns how long until the bucket is full. */
uint64_t ration_algorithm_full_after_ns(const struct ration_limit *limit, union ration_state state,
                                        uint64_t now_ns);

/* Returns whether the bucket is full, so that it carries no information and may be evicted (R7). */
static inline bool ration_algorithm_is_idle(const struct ration_limit *limit,
                                            union ration_state state, uint64_t now_ns)
{
    return ration_algorithm_full_after_ns(limit, state, now_ns) == 0;
}

/* Returns tokens to the bucket. */
union ration_state ration_algorithm_refund(const struct ration_limit *limit,
                                           union ration_state state, uint64_t tokens,
                                           uint64_t now_ns);

/* Takes tokens even if fewer are left. */
union ration_state ration_algorithm_charge(const struct ration_limit *limit,
                                           union ration_state state, uint64_t tokens,
                                           uint64_t now_ns);

/* Returns a state with tokens (at most the burst) available at now. */
union ration_state ration_algorithm_set(const struct ration_limit *limit, uint64_t tokens,
                                        uint64_t now_ns);

/* Returns the state of a bucket created at now: the limit's initial fill. */
union ration_state ration_algorithm_start(const struct ration_limit *limit, uint64_t now_ns);

/*
 * Returns whether the algorithm can deny everything until a given time: only states that store a
 * time can.
 */
bool ration_algorithm_can_block(const struct ration_limit *limit);

/*
 * Denies everything before until_ns; one token is available at until_ns. Only if the algorithm can
 * block.
 */
union ration_state ration_algorithm_block(const struct ration_limit *limit,
                                          union ration_state state, uint64_t until_ns);

/*
 * Returns the state after a reservation ended: unused tokens are returned as far as they are still
 * outstanding, so that the tokens used never exceed the limit (R1). See gcra.h.
 */
union ration_state ration_algorithm_release(const struct ration_limit *limit,
                                            union ration_state state,
                                            const struct ration_release *release, uint64_t now_ns);

/* Returns whether a reservation may still be waiting for its ready time. Never for windows. */
bool ration_algorithm_is_waited(const struct ration_limit *limit, union ration_state state,
                                uint64_t now_ns);

/*
 * Returns the tokens, rounded up, by which a change made the bucket fuller, so that earlier
 * reservations are less outstanding than their mark says. 0 for windows: their releases name the
 * window that they were counted in.
 */
uint64_t ration_algorithm_returned(const struct ration_limit *limit, union ration_state before,
                                   union ration_state after, uint64_t now_ns);

#endif
