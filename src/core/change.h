/*
 * change: a bucket's state when its limit becomes another.
 *
 * Tokens are kept, with their fraction, and full stays full: 4.5 of 10 tokens become 4.5 of 20,
 * or 3 of 3 if that is all the new limit holds. A bucket that owes more than it holds (a block, a
 * line of reservations, a forced debt) has its first token back at the same moment as before, or
 * a token's time of the new limit after it stops owing, whichever is later: the moment was told
 * or ordered, and owing must not be better than being empty. Nothing is minted: fractions round
 * down, at 2^-20 ns.
 *
 * Between algorithms of different kinds, and between windows, whole tokens are kept, and what is owed
 * until at least the same moment.
 *
 * A change to an equal limit leaves the state as it is: a window that was converted would lose its fraction
 * and which of its tokens come back first.
 */
#ifndef RATION_CORE_CHANGE_H
#define RATION_CORE_CHANGE_H

#include "core/state.h"

/* Whether both limits count alike, however they start: a state of one is a state of the other. */
bool ration_change_is_none(const struct ration_limit *a, const struct ration_limit *b);

/* Both limits' states are 16 bytes (ration_algorithm_fits()). */
union ration_state ration_change_keep(union ration_state state,
                                      const struct ration_limit *old_limit,
                                      const struct ration_limit *new_limit, uint64_t now_ns);

/* The same for a moment as gcra.h keeps it, for states of more than one. */
struct ration_time ration_change_rate(struct ration_time tat, const struct ration_rate *old_rate,
                                      const struct ration_rate *new_rate, uint64_t now_ns);

#endif
