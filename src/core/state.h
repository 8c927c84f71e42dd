/*
 * state: the 16-byte state of a bucket, for every algorithm that needs no more.
 *
 * All-zero bytes are a full bucket in each of them.
 */
#ifndef RATION_CORE_STATE_H
#define RATION_CORE_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "ration/decision.h"
#include "ration/limit.h"

/* Interval token bucket. See interval.h. */
struct ration_interval {
    uint64_t full_at_ns;
    uint64_t spare_tokens;
};

/* Fixed window. See fixed_window.h. */
struct ration_fixed_window {
    uint64_t end_ns;
    uint64_t count_tokens;
};

/* Sliding-window counter. See sliding_window.h. */
struct ration_sliding_window {
    uint64_t end_ns; /* end of the current window */
    uint32_t previous_tokens;
    uint32_t current_tokens;
};

union ration_state {
    uint64_t words[2];
    struct ration_time tat; /* token bucket and leaky queue: gcra.h */
    struct ration_interval interval;
    struct ration_fixed_window fixed;
    struct ration_sliding_window sliding;
};

_Static_assert(sizeof(union ration_state) == 16, "a state is one 16-byte slot");

/*
 * A reservation that ends. Fields that struct ration_gcra_release also has are explained in gcra.h.
 */
struct ration_release {
    union ration_state before; /* the bucket before the reservation */
    union ration_state mark;   /* the bucket after it */
    uint64_t cost_tokens;
    uint64_t unused_tokens;
    uint64_t turn_ns;
    uint64_t returned_tokens;
    /*
     * A reservation waits under another limit of the key, so this bucket may have been charged for
     * a future time: nothing is returned.
     */
    bool is_waited;
};

/*
 * Returns whether the bucket is unchanged since the reservation: its state is the one the
 * reservation left.
 */
static inline bool ration_state_release_is_last(const struct ration_release *release,
                                                union ration_state state)
{
    return state.words[0] == release->mark.words[0] && state.words[1] == release->mark.words[1] &&
           release->returned_tokens == 0;
}

/*
 * Returns whether the whole reservation is cancelled and it is the last one. Then the bucket is
 * restored to its state before, even if it was charged for a future time because another limit
 * makes the caller wait.
 */
static inline bool ration_state_release_is_undone(const struct ration_release *release,
                                                  union ration_state state)
{
    return release->unused_tokens == release->cost_tokens &&
           ration_state_release_is_last(release, state);
}

/* The outcome of a take: the verdict, the wait, and the state to publish. */
struct ration_step {
    enum ration_verdict verdict;
    /* ALLOW: proceed after this wait. DENY: the exact wait, at least 1. NEVER: RATION_FOREVER. */
    uint64_t wait_ns;
    union ration_state next; /* equals the given state unless the verdict is ALLOW */
};

/*
 * Handles the requests that are decided without the state: for no tokens, or for more than the
 * limit can ever have. Returns true if it completed *step, which the caller initialised to ALLOW
 * and the unchanged state.
 */
static inline bool ration_state_step_is_plain(struct ration_step *step, uint64_t cost_tokens,
                                              uint64_t tokens_max)
{
    if (cost_tokens > tokens_max) {
        step->verdict = RATION_NEVER;
        step->wait_ns = RATION_FOREVER;
    }
    return cost_tokens == 0 || cost_tokens > tokens_max;
}

#endif
