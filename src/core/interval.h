/*
 * interval: a token bucket that is refilled with all tokens of a period at once.
 *
 * 3 per 10s with burst 5: every 10 s, three tokens arrive at once (the amount). The grid of these
 * refill times starts at the take that finds the bucket full, so a bucket that was evicted while
 * full behaves like one that was not.
 *
 * The state is the grid point at which the bucket will be full, and how many tokens of the last
 * refill are not needed for that (spare). With m = grid points still to come,
 *
 *     tokens in use = m * amount - spare            0 <= spare < amount
 *
 *     now        full_at
 *      |----+--------+--------+        m = 3, amount 3, spare 1: 8 tokens are in use
 *
 *     full_at <= now            the bucket is full and may be evicted
 *
 * Over any interval t it allows at most burst + amount * (floor(t / interval) + 1).
 *
 * Every now is at most RATION_NOW_MAX_NS. The limit was made by ration_limit_make().
 */
#ifndef RATION_CORE_INTERVAL_H
#define RATION_CORE_INTERVAL_H

#include "core/state.h"

/* Decides cost_tokens at now for a caller that would wait up to max_wait_ns. */
struct ration_step ration_interval_take(struct ration_interval state,
                                        const struct ration_limit *limit, uint64_t cost_tokens,
                                        uint64_t max_wait_ns, uint64_t now_ns);

/* Returns the whole tokens available now. */
uint64_t ration_interval_remaining(struct ration_interval state, const struct ration_limit *limit,
                                   uint64_t now_ns);

/* Returns how long until the bucket is full. */
static inline uint64_t ration_interval_full_after_ns(struct ration_interval state, uint64_t now_ns)
{
    return state.full_at_ns > now_ns ? state.full_at_ns - now_ns : 0;
}

/* Returns tokens to the bucket, on the same grid. */
struct ration_interval ration_interval_refund(struct ration_interval state,
                                              const struct ration_limit *limit, uint64_t tokens);

/* Takes tokens even if fewer are left. The debt stops growing RATION_SPAN_NS ahead of now. */
struct ration_interval ration_interval_charge(struct ration_interval state,
                                              const struct ration_limit *limit, uint64_t tokens,
                                              uint64_t now_ns);

/*
 * Denies everything before until_ns; one token is available at until_ns. A longer debt is not
 * shortened.
 */
struct ration_interval ration_interval_block(struct ration_interval state,
                                             const struct ration_limit *limit, uint64_t until_ns);

/* Returns a bucket with tokens (at most its burst) available at now, where its grid starts. */
struct ration_interval ration_interval_set(const struct ration_limit *limit, uint64_t tokens,
                                           uint64_t now_ns);

/*
 * Returns the bucket after a reservation ended: once its ready time has come and while no other
 * reservation waits, unused tokens are returned as far as they are outstanding; see gcra.h. The
 * grid may have started again since the ready time, so one grid point more than the whole intervals
 * may have passed.
 */
struct ration_interval ration_interval_release(struct ration_interval state,
                                               const struct ration_limit *limit,
                                               const struct ration_release *release,
                                               uint64_t now_ns);

/* Returns whether more tokens than the burst are in use: a reservation waits for its ready time. */
bool ration_interval_is_waited(struct ration_interval state, const struct ration_limit *limit,
                               uint64_t now_ns);

/* Returns the tokens by which a bucket is fuller after a change than before. */
uint64_t ration_interval_returned(struct ration_interval before, struct ration_interval after,
                                  const struct ration_limit *limit, uint64_t now_ns);

/*
 * Converts the state of a bucket that is not full at now: it keeps its tokens under the new limit,
 * and the same fraction of an interval has passed. A bucket below zero stays so until the same
 * time, plus the difference if an interval of the new limit is longer.
 */
struct ration_interval ration_interval_change(struct ration_interval state,
                                              const struct ration_limit *old_limit,
                                              const struct ration_limit *new_limit,
                                              uint64_t now_ns);

#endif
