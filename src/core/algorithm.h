/*
 * algorithm: the algorithms whose state is 16 bytes, behind one interface.
 *
 * Each call looks at limit->algorithm and hands over to gcra.h, interval.h, fixed_window.h or
 * sliding_window.h. Two algorithms need more room and are called by their own names: reserve.h
 * (two moments) and sliding_log.h (a ring).
 *
 *     algorithm                      state                           take, look  wait in line
 *     token bucket                   tat                             yes         yes
 *     token bucket, interval refill  full_at, spare                  yes         yes
 *     leaky queue                    tat                             yes, told when to go
 *     fixed window                   window's end, count             yes         no
 *     sliding window                 window's end, two counts        yes         no
 *
 * Calls take any now and clamp it to RATION_NOW_MAX_NS.
 */
#ifndef RATION_CORE_ALGORITHM_H
#define RATION_CORE_ALGORITHM_H

#include <stdbool.h>
#include <stdint.h>

#include "core/gcra.h"
#include "core/state.h"

/* Whether a limit's state is 16 bytes. False also for a limit that was never made. */
static inline bool ration_algorithm_fits(const struct ration_limit *limit)
{
    return limit->algorithm == RATION_TOKEN_BUCKET || limit->algorithm == RATION_LEAKY_QUEUE ||
           limit->algorithm == RATION_FIXED_WINDOW || limit->algorithm == RATION_SLIDING_WINDOW;
}

static inline bool ration_algorithm_is_gcra(const struct ration_limit *limit)
{
    return limit->algorithm == RATION_TOKEN_BUCKET && limit->refill == RATION_REFILL_CONTINUOUS;
}

/* What ration_algorithm_take() does for all but the continuous token bucket. */
struct ration_step ration_algorithm_take_other(const struct ration_limit *limit,
                                               union ration_state state, uint64_t cost_tokens,
                                               uint64_t max_wait_ns, uint64_t now_ns);

/*
 * Decides cost tokens at now for a caller who would wait up to max_wait_ns for its turn (0: must
 * go now). Inline, for the loop that publishes the step.
 */
static inline struct ration_step ration_algorithm_take(const struct ration_limit *limit,
                                                       union ration_state state,
                                                       uint64_t cost_tokens, uint64_t max_wait_ns,
                                                       uint64_t now_ns)
{
    if (__builtin_expect(!ration_algorithm_is_gcra(limit), 0))
        return ration_algorithm_take_other(limit, state, cost_tokens, max_wait_ns, now_ns);

    struct ration_gcra_step step = ration_gcra_take(state.tat, &limit->rate, cost_tokens,
                                                    max_wait_ns, ration_time_clamp(now_ns));

    return (struct ration_step){step.verdict, step.wait_ns, {.tat = step.next}};
}

/* Everything about a step taken at now: what is left afterwards, and the waits. */
struct ration_decision ration_algorithm_describe(const struct ration_limit *limit,
                                                 const struct ration_step *step, uint64_t now_ns);

/* Whole tokens that could be taken now. */
uint64_t ration_algorithm_remaining(const struct ration_limit *limit, union ration_state state,
                                    uint64_t now_ns);

/* How long until the bucket is full. */
uint64_t ration_algorithm_full_after_ns(const struct ration_limit *limit, union ration_state state,
                                        uint64_t now_ns);

/* Whether the bucket is full, so that it carries no information and may be forgotten (R7). */
static inline bool ration_algorithm_is_idle(const struct ration_limit *limit,
                                            union ration_state state, uint64_t now_ns)
{
    return ration_algorithm_full_after_ns(limit, state, now_ns) == 0;
}

/* Gives tokens back. */
union ration_state ration_algorithm_refund(const struct ration_limit *limit,
                                           union ration_state state, uint64_t tokens,
                                           uint64_t now_ns);

/* Takes tokens whatever is left. */
union ration_state ration_algorithm_force(const struct ration_limit *limit,
                                          union ration_state state, uint64_t tokens,
                                          uint64_t now_ns);

/* A state that holds tokens (at most the burst) at now. */
union ration_state ration_algorithm_set(const struct ration_limit *limit, uint64_t tokens,
                                        uint64_t now_ns);

/* The state of a bucket that is new at now: the limit's initial fill. */
union ration_state ration_algorithm_start(const struct ration_limit *limit, uint64_t now_ns);

/* Whether the algorithm can deny everything until a moment: the ones that keep a moment can. */
bool ration_algorithm_can_block(const struct ration_limit *limit);

/* Nothing passes before until; one token is there at that moment. Only if it can block. */
union ration_state ration_algorithm_block(const struct ration_limit *limit,
                                          union ration_state state, uint64_t until_ns);

/*
 * The state after a reservation has ended: what was not used comes back as far as it is still
 * outstanding, so that what is used never exceeds the contract (R1). See gcra.h.
 */
union ration_state ration_algorithm_release(const struct ration_limit *limit,
                                            union ration_state state,
                                            const struct ration_release *release, uint64_t now_ns);

/* Whether somebody may wait for a turn that was promised. Of windows nobody does. */
bool ration_algorithm_is_waited(const struct ration_limit *limit, union ration_state state,
                                uint64_t now_ns);

/*
 * Tokens, not rounded down, by which a change made a bucket fuller, so that reservations made
 * before it are less outstanding than their marks say. 0 for windows: their releases name the
 * window that they were counted in.
 */
uint64_t ration_algorithm_returned(const struct ration_limit *limit, union ration_state before,
                                   union ration_state after, uint64_t now_ns);

#endif
