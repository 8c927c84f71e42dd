/*
 * state: the 16 bytes that a bucket is, for every algorithm that needs no more.
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
    uint64_t end_ns; /* of the current window */
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

/* A reservation that ends. See gcra.h for the fields that are there, too. */
struct ration_release {
    union ration_state before; /* the bucket as the reservation found it */
    union ration_state mark;   /* and as it left it */
    uint64_t cost_tokens;
    uint64_t unused_tokens;
    uint64_t turn_ns;
    uint64_t returned_tokens;
    bool is_waited; /* somebody waits for a turn under another limit of the key, so that this bucket
                       may have been charged for a moment to come: nothing comes back */
};

/* Whether nobody has changed the bucket since: its state is the one that the reservation left. */
static inline bool ration_release_is_last(const struct ration_release *release,
                                          union ration_state state)
{
    return state.words[0] == release->mark.words[0] && state.words[1] == release->mark.words[1] &&
           release->returned_tokens == 0;
}

/*
 * Whether the reservation is cancelled whole, and the last in line. Then the bucket becomes what
 * it was before, also where it was charged for a moment to come because another limit makes the
 * caller wait.
 */
static inline bool ration_release_is_undone(const struct ration_release *release,
                                            union ration_state state)
{
    return release->unused_tokens == release->cost_tokens && ration_release_is_last(release, state);
}

/* What a take would do: the verdict, the wait, and the state to publish. */
struct ration_step {
    enum ration_verdict verdict;
    /* ALLOW: go after this long. DENY: the exact wait, at least 1. NEVER: RATION_FOREVER. */
    uint64_t wait_ns;
    union ration_state next; /* equals the state given unless the verdict is ALLOW */
};

/*
 * The answers that need no look at the state: nothing was asked for, or more than there can ever
 * be. True if *step, which holds ALLOW and the state as it is, was completed so.
 */
static inline bool ration_step_is_plain(struct ration_step *step, uint64_t cost_tokens,
                                        uint64_t tokens_max)
{
    if (cost_tokens > tokens_max) {
        step->verdict = RATION_NEVER;
        step->wait_ns = RATION_FOREVER;
    }
    return cost_tokens == 0 || cost_tokens > tokens_max;
}

#endif
