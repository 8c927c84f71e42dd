/*
 * change: converts a bucket's state from one limit to another.
 *
 * The bucket keeps its tokens, with their fraction, and a full bucket stays full: 4.5 of 10 tokens
 * become 4.5 of 20, or 3 of 3 if that is the new limit's burst. A bucket below zero (by a block,
 * waiting reservations or a charge) has its first token at the same time as before, or one token's
 * time of the new limit after it reaches zero, whichever is later: that time was reported to a
 * client or set by an operator, and a bucket below zero must not be better off than an empty one.
 * No tokens are created: fractions are rounded down to 2^-20 ns.
 *
 * Between different algorithms, and between windows, whole tokens are kept, and a debt lasts at
 * least until the same time.
 *
 * A change to an equal limit leaves the state as it is: converting a window would lose its fraction
 * and which of its tokens are refilled first.
 */
#ifndef RATION_CORE_CHANGE_H
#define RATION_CORE_CHANGE_H

#include "core/state.h"

/*
 * Returns whether two limits differ at most in start and name: a state of one is a state of the
 * other.
 */
bool ration_change_is_none(const struct ration_limit *a, const struct ration_limit *b);

/* Converts a 16-byte state, for limits for which ration_algorithm_fits(). */
union ration_state ration_change_keep(union ration_state state,
                                      const struct ration_limit *old_limit,
                                      const struct ration_limit *new_limit, uint64_t now_ns);

/* Converts one tat (gcra.h), for states that consist of several. */
struct ration_time ration_change_rate(struct ration_time tat, const struct ration_rate *old_rate,
                                      const struct ration_rate *new_rate, uint64_t now_ns);

#endif
