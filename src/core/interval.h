/*
 * interval: a token bucket that is refilled in portions.
 *
 * 3 per 10s with burst 5: every 10 s, three tokens come at once. The grid of those moments
 * starts at the take that finds the bucket full, so a bucket that was forgotten while full
 * answers like one that was kept.
 *
 * The state is the grid point at which the bucket will be full, and how many tokens of the last
 * portion are not needed for that. With m = grid points still to come,
 *
 *     tokens out = m * amount - spare            0 <= spare < amount
 *
 *     now        full_at
 *      |----+--------+--------+        m = 3, amount 3, spare 1: 8 tokens are out
 *
 *     full_at <= now            the bucket is full and may be forgotten
 *
 * Over any interval t it admits at most burst + amount * (floor(t / interval) + 1).
 *
 * Every now is at most RATION_NOW_MAX_NS. The limit is one that ration_limit_make() made.
 */
#ifndef RATION_CORE_INTERVAL_H
#define RATION_CORE_INTERVAL_H

#include "core/state.h"

/* Decides cost tokens at now for a caller who would wait up to max_wait_ns. */
struct ration_step ration_interval_take(struct ration_interval state,
                                        const struct ration_limit *limit, uint64_t cost_tokens,
                                        uint64_t max_wait_ns, uint64_t now_ns);

/* Whole tokens that could be taken now. */
uint64_t ration_interval_remaining(struct ration_interval state, const struct ration_limit *limit,
                                   uint64_t now_ns);

/* How long until the bucket is full. */
static inline uint64_t ration_interval_full_after_ns(struct ration_interval state, uint64_t now_ns)
{
    return state.full_at_ns > now_ns ? state.full_at_ns - now_ns : 0;
}

/* Gives tokens back on the same grid. */
struct ration_interval ration_interval_refund(struct ration_interval state,
                                              const struct ration_limit *limit, uint64_t tokens);

/* Takes tokens whatever is left. A debt stops growing RATION_SPAN_NS ahead of now. */
struct ration_interval ration_interval_force(struct ration_interval state,
                                             const struct ration_limit *limit, uint64_t tokens,
                                             uint64_t now_ns);

/* Nothing passes before until; one token is there at that moment. A longer debt stays. */
struct ration_interval ration_interval_block(struct ration_interval state,
                                             const struct ration_limit *limit, uint64_t until_ns);

/* A bucket that holds tokens (at most its burst) at now, where its grid starts. */
struct ration_interval ration_interval_set(const struct ration_limit *limit, uint64_t tokens,
                                           uint64_t now_ns);

/*
 * The bucket after a reservation has ended whose turn has come: unused tokens come back as far as
 * they are outstanding, and nobody waits; see gcra.h. The grid may have started again since the
 * turn, so that one point more than whole intervals may have passed.
 */
struct ration_interval ration_interval_release(struct ration_interval state,
                                               const struct ration_limit *limit,
                                               const struct ration_release *release,
                                               uint64_t now_ns);

/* Whether more is out than the burst: somebody waits for a turn. */
bool ration_interval_is_waited(struct ration_interval state, const struct ration_limit *limit,
                               uint64_t now_ns);

/* Tokens by which a bucket is fuller after a change than before. */
uint64_t ration_interval_returned(struct ration_interval before, struct ration_interval after,
                                  const struct ration_limit *limit, uint64_t now_ns);

/*
 * The state of the new limit that holds the tokens of the old one, and in which the same part of
 * an interval has passed. A bucket that owes more than it holds does so until the same moment,
 * and as much later as an interval of the new limit is longer.
 * The bucket is not full at now.
 */
struct ration_interval ration_interval_change(struct ration_interval state,
                                              const struct ration_limit *old_limit,
                                              const struct ration_limit *new_limit,
                                              uint64_t now_ns);

#endif
