/*
 * sliding_window: tokens per window, the window sliding, from two counts.
 *
 * The count of the previous window is taken to be spread evenly over it, so at x into the
 * current one
 *
 *     estimate = previous * (W - x) / W + current
 *
 * and a cost passes if estimate + cost <= tokens. No rounding: both sides are multiplied by W
 * and compared in 128 bits. In a window of 10 s, 8 in the previous one and 3 in the current,
 * 2.5 s into it: 8 * 7.5 / 10 + 3 = 9.
 *
 * The estimate's known error: what really passed in the last W may exceed the tokens by as much
 * as the previous window's traffic was bunched at its end (at most tokens, and nothing for an
 * even stream). Where that matters use sliding_log.
 *
 * A now that lies before the stored window counts as that window's start.
 */
#ifndef RATION_CORE_SLIDING_WINDOW_H
#define RATION_CORE_SLIDING_WINDOW_H

#include "core/state.h"

/* The counts are 32 bits, so that the state is 16 bytes. */
#define RATION_SLIDING_WINDOW_TOKENS_MAX UINT32_MAX

/* Decides cost tokens at now. */
struct ration_step ration_sliding_window_take(struct ration_sliding_window state,
                                              const struct ration_limit *limit,
                                              uint64_t cost_tokens, uint64_t now_ns);

/* Whole tokens that could be taken now. */
uint64_t ration_sliding_window_remaining(struct ration_sliding_window state,
                                         const struct ration_limit *limit, uint64_t now_ns);

/* How long until the bucket is full: until neither window's count weighs any more. */
uint64_t ration_sliding_window_full_after_ns(struct ration_sliding_window state,
                                             const struct ration_limit *limit, uint64_t now_ns);

/* Gives tokens back to the current window, and what exceeds its count to the previous one. */
struct ration_sliding_window ration_sliding_window_refund(struct ration_sliding_window state,
                                                          const struct ration_limit *limit,
                                                          uint64_t tokens, uint64_t now_ns);

/* Gives back unused tokens of a reservation to the window that it was counted in, while that weighs. */
struct ration_sliding_window ration_sliding_window_release(struct ration_sliding_window state,
                                                           const struct ration_limit *limit,
                                                           const struct ration_release *release);

/* Counts tokens whatever is left, up to what a count can hold. */
struct ration_sliding_window ration_sliding_window_force(struct ration_sliding_window state,
                                                         const struct ration_limit *limit,
                                                         uint64_t tokens, uint64_t now_ns);

/* A window in which tokens (at most the limit's) are left at now. */
struct ration_sliding_window ration_sliding_window_set(const struct ration_limit *limit,
                                                       uint64_t tokens, uint64_t now_ns);

#endif
