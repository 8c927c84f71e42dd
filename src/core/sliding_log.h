/*
 * sliding_log: exactly as many tokens as the limit in any window, from one timestamp per token.
 *
 * The log is a ring with one word per token of the limit: the time at which that token is available
 * again (when it was taken, plus the window). Oldest first from the head:
 *
 *     head
 *      v
 *     [ 12.1 | 12.4 | 15.0 | 19.9 ]      4 per 10s, now = 12.3: the first is available again
 *
 * A cost of c is allowed if the c-th oldest token is available again, one comparison; it then
 * overwrites the c oldest words. Zero bytes are times long past: a full bucket.
 *
 * A now that runs backwards is counted at the newest time in the ring, so the ring stays in order.
 * Calls accept any now and clamp it to RATION_NOW_MAX_NS.
 */
#ifndef RATION_CORE_SLIDING_LOG_H
#define RATION_CORE_SLIDING_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "ration/decision.h"
#include "ration/limit.h"

#define RATION_SLIDING_LOG_TOKENS_MAX UINT32_MAX

struct ration_sliding_log {
    uint64_t *back_at_ns; /* limit->tokens words, borrowed; all zero at first */
    uint64_t head_index;  /* of the oldest word */
};

/* The outcome of a take. */
struct ration_sliding_log_step {
    enum ration_verdict verdict;
    uint64_t wait_ns; /* ALLOW: 0. DENY: the exact wait. NEVER: RATION_FOREVER. */
};

/* Decides cost_tokens at now and, on ALLOW, writes them to the ring. One comparison; O(cost). */
struct ration_sliding_log_step ration_sliding_log_take(struct ration_sliding_log *log,
                                                       const struct ration_limit *limit,
                                                       uint64_t cost_tokens, uint64_t now_ns);

/* Returns the full decision for a step taken at now. O(log tokens), for the remaining tokens. */
struct ration_decision ration_sliding_log_describe(const struct ration_sliding_log *log,
                                                   const struct ration_limit *limit,
                                                   struct ration_sliding_log_step step,
                                                   uint64_t now_ns);

/* Returns the whole tokens available now. O(log tokens). */
uint64_t ration_sliding_log_remaining(const struct ration_sliding_log *log,
                                      const struct ration_limit *limit, uint64_t now_ns);

/* Returns how long until every token is available again. */
uint64_t ration_sliding_log_full_after_ns(const struct ration_sliding_log *log,
                                          const struct ration_limit *limit, uint64_t now_ns);

/* Returns whether every token is available, so that the log carries no information (R7). */
static inline bool ration_sliding_log_is_idle(const struct ration_sliding_log *log,
                                              const struct ration_limit *limit, uint64_t now_ns)
{
    return ration_sliding_log_full_after_ns(log, limit, now_ns) == 0;
}

/* Returns the newest tokens. O(tokens). */
void ration_sliding_log_refund(struct ration_sliding_log *log, const struct ration_limit *limit,
                               uint64_t tokens);

/* Writes tokens even if fewer are left; the ring remembers as many as the limit has. */
void ration_sliding_log_charge(struct ration_sliding_log *log, const struct ration_limit *limit,
                               uint64_t tokens, uint64_t now_ns);

/*
 * Fills the log of a new limit so that it has the tokens available under the old one; a full log
 * stays full. O(new_limit->tokens).
 */
void ration_sliding_log_change(const struct ration_sliding_log *old_log,
                               const struct ration_limit *old_limit,
                               struct ration_sliding_log *new_log,
                               const struct ration_limit *new_limit, uint64_t now_ns);

/* Makes tokens (at most the limit's) available at now. O(limit->tokens). */
void ration_sliding_log_set(struct ration_sliding_log *log, const struct ration_limit *limit,
                            uint64_t tokens, uint64_t now_ns);

#endif
