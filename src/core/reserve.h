/*
 * reserve: a token bucket with a second, slower one behind it.
 *
 * 10/s burst 20 with a reserve of 100/h burst 500: the first bucket (the sustained part) pays for
 * everyday traffic. When it is empty the reserve pays, and refills slowly. So a rare peak of 520 is
 * allowed, but not two in an hour.
 *
 * A cost is paid whole by one of the two, never split: by the sustained part if it can, otherwise
 * by the reserve. The reported wait is the smaller of the two, and NEVER means that the cost
 * exceeds both. limit and remaining in a decision are sums: the number of single tokens.
 *
 * Charging one part moves the other one, if it is full, up to the same now: otherwise a now that
 * runs backwards would find it at a much earlier time and refill it a second time.
 *
 * Calls accept any now and clamp it to RATION_NOW_MAX_NS.
 */
#ifndef RATION_CORE_RESERVE_H
#define RATION_CORE_RESERVE_H

#include <stdbool.h>
#include <stdint.h>

#include "ration/decision.h"
#include "ration/limit.h"

enum ration_reserve_part { RATION_PART_SUSTAINED = 0, RATION_PART_RESERVE };

/* Both are tats, as in gcra.h. All-zero bytes are two full buckets. */
struct ration_reserve {
    struct ration_time tats[2]; /* indexed by part */
};

/* A reservation that ends; see struct ration_release. */
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
    enum ration_reserve_part part; /* on ALLOW with a cost: the part that paid */
    struct ration_reserve next;    /* equals the given state unless the verdict is ALLOW */
};

/*
 * Decides cost_tokens at now for a caller that would wait up to max_wait_ns. The part with the
 * shorter wait pays, the sustained part if both are equal.
 */
struct ration_reserve_step ration_reserve_take(struct ration_reserve state,
                                               const struct ration_limit *limit,
                                               uint64_t cost_tokens, uint64_t max_wait_ns,
                                               uint64_t now_ns);

/* Returns the single tokens available now: the sum of both parts. */
uint64_t ration_reserve_remaining(struct ration_reserve state, const struct ration_limit *limit,
                                  uint64_t now_ns);

/* Returns how long until both parts are full: 0 if the state carries no information (R7). */
uint64_t ration_reserve_full_after_ns(struct ration_reserve state, uint64_t now_ns);

/*
 * Returns tokens to the state: to the sustained part as many whole tokens as it lacks, then to the
 * reserve as many as it lacks, and the remainder to the sustained part. The part that paid is not
 * known here and may have been refilled since.
 */
struct ration_reserve ration_reserve_refund(struct ration_reserve state,
                                            const struct ration_limit *limit, uint64_t tokens,
                                            uint64_t now_ns);

/*
 * Returns the state after a reservation that part paid has ended; see gcra.h. before and mark
 * contain both parts.
 */
struct ration_reserve ration_reserve_release(struct ration_reserve state,
                                             const struct ration_limit *limit,
                                             enum ration_reserve_part part,
                                             const struct ration_reserve_release *release,
                                             uint64_t now_ns);

/* Returns whether a reservation may still be waiting for its ready time in one of the parts. */
bool ration_reserve_is_waited(struct ration_reserve state, const struct ration_limit *limit,
                              uint64_t now_ns);

/*
 * Returns the tokens, rounded up, by which a change made either part fuller (the larger of the
 * two).
 */
uint64_t ration_reserve_returned(struct ration_reserve before, struct ration_reserve after,
                                 const struct ration_limit *limit, uint64_t now_ns);

/* Takes tokens from the sustained part even if fewer are left. */
struct ration_reserve ration_reserve_charge(struct ration_reserve state,
                                            const struct ration_limit *limit, uint64_t tokens,
                                            uint64_t now_ns);

/* Denies everything before until_ns in both parts. */
struct ration_reserve ration_reserve_block(struct ration_reserve state,
                                           const struct ration_limit *limit, uint64_t until_ns);

/* Returns two buckets with tokens in total, the sustained part filled first. */
struct ration_reserve ration_reserve_set(const struct ration_limit *limit, uint64_t tokens,
                                         uint64_t now_ns);

/* Converts the state to another limit: each part keeps its tokens; see change.h. */
struct ration_reserve ration_reserve_change(struct ration_reserve state,
                                            const struct ration_limit *old_limit,
                                            const struct ration_limit *new_limit, uint64_t now_ns);

#endif
