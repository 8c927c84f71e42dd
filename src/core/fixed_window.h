/*
 * fixed_window: so many tokens per window, windows aligned to the clock's zero.
 *
 *     0          10 s         20 s         30 s        10 per 10s
 *     |--- 7 ----|--- 10 -----|--- 3 ...
 *
 * The state is the end of the window last used and the count in it. Simple and easily explained,
 * but twice the tokens may pass around a boundary: prefer a token bucket.
 *
 * A now that lies before the stored window counts in the stored window: it may be denied for
 * it, and never resets a count.
 *
 *     end <= now, or count = 0        the bucket is full and may be forgotten
 */
#ifndef RATION_CORE_FIXED_WINDOW_H
#define RATION_CORE_FIXED_WINDOW_H

#include "core/state.h"

/* Decides cost tokens at now. */
struct ration_step ration_fixed_window_take(struct ration_fixed_window state,
                                            const struct ration_limit *limit, uint64_t cost_tokens,
                                            uint64_t now_ns);

/* Whole tokens that could be taken now. */
uint64_t ration_fixed_window_remaining(struct ration_fixed_window state,
                                       const struct ration_limit *limit, uint64_t now_ns);

/* How long until the bucket is full. */
uint64_t ration_fixed_window_full_after_ns(struct ration_fixed_window state, uint64_t now_ns);

/* Gives tokens back to the window last used. */
struct ration_fixed_window ration_fixed_window_refund(struct ration_fixed_window state,
                                                      uint64_t tokens);

/* Gives back unused tokens of a reservation, if the window that it was counted in is the stored one. */
struct ration_fixed_window ration_fixed_window_release(struct ration_fixed_window state,
                                                       const struct ration_release *release);

/* Counts tokens whatever is left. */
struct ration_fixed_window ration_fixed_window_force(struct ration_fixed_window state,
                                                     const struct ration_limit *limit,
                                                     uint64_t tokens, uint64_t now_ns);

/* A window in which tokens (at most the limit's) are left at now. */
struct ration_fixed_window ration_fixed_window_set(const struct ration_limit *limit,
                                                   uint64_t tokens, uint64_t now_ns);

#endif
