/*
 * sliding_window: tokens per sliding window, estimated from two counts.
 *
 * The count of the previous window is assumed to be spread evenly over it, so at x into the current
 * one
 *
 *     estimate = previous * (W - x) / W + current
 *
 * and a cost is allowed if estimate + cost <= tokens. There is no rounding: both sides are
 * multiplied by W and compared in 128 bits. In a window of 10 s, with 8 in the previous one and 3
 * in the current, 2.5 s into it: 8 * 7.5 / 10 + 3 = 9.
 *
 * Known error of the estimate: the tokens really used in the last W may exceed the limit by as much
 * as the previous window's traffic was concentrated at its end (at most tokens, and nothing for an
 * even stream). Where that matters use sliding_log.
 *
 * A now before the stored window counts as that window's start.
 */
#ifndef RATION_CORE_SLIDING_WINDOW_H
#define RATION_CORE_SLIDING_WINDOW_H

#include "core/state.h"

/* The counts are 32 bits, so that the state is 16 bytes. */
#define RATION_SLIDING_WINDOW_TOKENS_MAX UINT32_MAX

/* Decides cost_tokens at now. */
struct ration_step ration_sliding_window_take(struct ration_sliding_window state,
                                              const struct ration_limit *limit,
                                              uint64_t cost_tokens, uint64_t now_ns);

/* Returns the whole tokens available now. */
uint64_t ration_sliding_window_remaining(struct ration_sliding_window state,
                                         const struct ration_limit *limit, uint64_t now_ns);

/* Returns how long until the bucket is full: until neither window's count has any weight. */
uint64_t ration_sliding_window_full_after_ns(struct ration_sliding_window state,
                                             const struct ration_limit *limit, uint64_t now_ns);

/* Returns tokens to the current window, and those that exceed its count to the previous one. */
struct ration_sliding_window ration_sliding_window_refund(struct ration_sliding_window state,
                                                          const struct ration_limit *limit,
                                                          uint64_t tokens, uint64_t now_ns);

/* Returns unused tokens of a reservation to the window it was counted in, while that has weight. */
struct ration_sliding_window ration_sliding_window_release(struct ration_sliding_window state,
                                                           const struct ration_limit *limit,
                                                           const struct ration_release *release);

/* Counts tokens even if fewer are left, up to the maximum of a count. */
struct ration_sliding_window ration_sliding_window_charge(struct ration_sliding_window state,
                                                          const struct ration_limit *limit,
                                                          uint64_t tokens, uint64_t now_ns);

/* Returns a window with tokens (at most the limit's) left at now. */
struct ration_sliding_window ration_sliding_window_set(const struct ration_limit *limit,
                                                       uint64_t tokens, uint64_t now_ns);

#endif
