/*
 * reserve: a token bucket with a second, slower one behind it.
 *
 * 10/s burst 20 with a reserve of 100/h burst 500: everyday traffic is paid by the first. When
 * that is empty the reserve pays, and comes back slowly. So a rare peak of 520 passes, but not
 * two in an hour.
 *
 * A cost is paid whole from one of the two, never split: the sustained bucket if it can, else
 * the reserve. The told wait is the smaller of the two, and NEVER means that the cost exceeds
 * both. limit and remaining in a decision are the sums: so many single tokens.
 *
 * A part that is charged moves the other one up to the same now, if that is full: else a now
 * that runs back would find it as it was long ago, and fill it a second time.
 *
 * Calls take any now and clamp it to RATION_NOW_MAX_NS.
 */
#ifndef RATION_CORE_RESERVE_H
#define RATION_CORE_RESERVE_H

#include <stdbool.h>
#include <stdint.h>

#include "ration/decision.h"
#include "ration/limit.h"

enum ration_reserve_part { RATION_PART_SUSTAINED = 0, RATION_PART_RESERVE };

/* Both are moments, as in gcra.h. All-zero bytes are two full buckets. */
struct ration_reserve {
    struct ration_time tats[2]; /* by part */
};

/* A reservation that ends; as struct ration_release. */
struct ration_reserve_release {
    struct ration_reserve before;
    struct ration_reserve mark;
    uint64_t cost_tokens;
    uint64_t unused_tokens;
    uint64_t turn_ns;
    uint64_t returned_tokens;
    bool is_waited;
};

struct ration_reserve_step {
    struct ration_decision decision;
    enum ration_reserve_part part; /* on ALLOW with a cost: who paid */
    struct ration_reserve next;    /* equals the state given unless the verdict is ALLOW */
};

/*
 * Decides cost tokens at now for a caller who would wait up to max_wait_ns. Whichever part has
 * the shorter wait pays, the sustained one if they are equal.
 */
struct ration_reserve_step ration_reserve_take(struct ration_reserve state,
                                               const struct ration_limit *limit,
                                               uint64_t cost_tokens, uint64_t max_wait_ns,
                                               uint64_t now_ns);

/* Takes as many tokens as one part has, at most cost_max. *out_granted may be 0. */
struct ration_reserve_step ration_reserve_take_up_to(struct ration_reserve state,
                                                     const struct ration_limit *limit,
                                                     uint64_t cost_tokens_max, uint64_t now_ns,
                                                     uint64_t *out_granted_tokens);

/* Single tokens that could be taken now: the sum of both parts. */
uint64_t ration_reserve_remaining(struct ration_reserve state, const struct ration_limit *limit,
                                  uint64_t now_ns);

/* How long until both are full. */
uint64_t ration_reserve_full_after_ns(struct ration_reserve state, uint64_t now_ns);

/* Whether both are full, so that the state carries no information (R7). */
static inline bool ration_reserve_is_idle(struct ration_reserve state, uint64_t now_ns)
{
    return ration_reserve_full_after_ns(state, now_ns) == 0;
}

/*
 * Gives tokens back: to the sustained part as many whole ones as it lacks, what is over to the
 * reserve, and what that does not lack either to the sustained part again. Which part paid is not
 * known here, and may have been filled by time since.
 */
struct ration_reserve ration_reserve_refund(struct ration_reserve state,
                                            const struct ration_limit *limit, uint64_t tokens,
                                            uint64_t now_ns);

/*
 * The state after a reservation that the part paid has ended; see gcra.h. before and mark hold
 * both parts.
 */
struct ration_reserve ration_reserve_release(struct ration_reserve state,
                                             const struct ration_limit *limit,
                                             enum ration_reserve_part part,
                                             const struct ration_reserve_release *release,
                                             uint64_t now_ns);

/* Whether somebody may wait for a turn that one of the parts will pay. */
bool ration_reserve_is_waited(struct ration_reserve state, const struct ration_limit *limit,
                              uint64_t now_ns);

/* Tokens, not rounded down, by which a change made either part fuller. */
uint64_t ration_reserve_returned(struct ration_reserve before, struct ration_reserve after,
                                 const struct ration_limit *limit, uint64_t now_ns);

/* Takes tokens from the sustained part whatever is left. */
struct ration_reserve ration_reserve_force(struct ration_reserve state,
                                           const struct ration_limit *limit, uint64_t tokens,
                                           uint64_t now_ns);

/* Neither part gives anything before until. */
struct ration_reserve ration_reserve_block(struct ration_reserve state,
                                           const struct ration_limit *limit, uint64_t until_ns);

/* Two buckets that hold tokens together, the sustained one filled first. */
struct ration_reserve ration_reserve_set(const struct ration_limit *limit, uint64_t tokens,
                                         uint64_t now_ns);

/* The state when the limit becomes another: each part keeps its tokens; see change.h. */
struct ration_reserve ration_reserve_change(struct ration_reserve state,
                                            const struct ration_limit *old_limit,
                                            const struct ration_limit *new_limit, uint64_t now_ns);

#endif
