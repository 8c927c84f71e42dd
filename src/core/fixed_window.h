/*
 * fixed_window: tokens per window; windows are aligned to the clock's zero.
 *
 *     0          10 s         20 s         30 s        10 per 10s
 *     |--- 7 ----|--- 10 -----|--- 3 ...
 *
 * The state is the end of the window last used and the count in it. Simple and easy to explain, but
 * twice the tokens may be used around a boundary: prefer a token bucket.
 *
 * A now before the stored window counts in the stored window: the request may be denied because of
 * that, but a count is never reset.
 *
 *     end <= now, or count = 0        the bucket is full and may be evicted
 */
#ifndef RATION_CORE_FIXED_WINDOW_H
#define RATION_CORE_FIXED_WINDOW_H

#include "core/state.h"

/* Decides cost_tokens at now. */
struct ration_step ration_fixed_window_take(struct ration_fixed_window state,
                                            const struct ration_limit *limit, uint64_t cost_tokens,
                                            uint64_t now_ns);

/* Returns the whole tokens available now. */
uint64_t ration_fixed_window_remaining(struct ration_fixed_window state,
                                       const struct ration_limit *limit, uint64_t now_ns);

/* Returns how long until the bucket is full. */
uint64_t ration_fixed_window_full_after_ns(struct ration_fixed_window state, uint64_t now_ns);

/* Returns tokens to the window last used. */
struct ration_fixed_window ration_fixed_window_refund(struct ration_fixed_window state,
                                                      uint64_t tokens);

/* Returns unused tokens of a reservation if the stored window is the one it was counted in. */
struct ration_fixed_window ration_fixed_window_release(struct ration_fixed_window state,
                                                       const struct ration_release *release);

/* Counts tokens even if fewer are left. */
struct ration_fixed_window ration_fixed_window_charge(struct ration_fixed_window state,
                                                      const struct ration_limit *limit,
                                                      uint64_t tokens, uint64_t now_ns);

/* Returns a window with tokens (at most the limit's) left at now. */
struct ration_fixed_window ration_fixed_window_set(const struct ration_limit *limit,
                                                   uint64_t tokens, uint64_t now_ns);

#endif
