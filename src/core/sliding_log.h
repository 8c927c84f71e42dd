/*
 * sliding_log: exactly so many tokens in any window, by remembering each.
 *
 * The log is a ring of one word per token of the limit: the moment at which that token comes
 * back (when it was taken, plus the window). Oldest first from the head:
 *
 *     head
 *      v
 *     [ 12.1 | 12.4 | 15.0 | 19.9 ]      4 per 10s, now = 12.3: the first has come back
 *
 * A cost of c passes if the c-th oldest has come back, one comparison; it then takes the places
 * of the c oldest. Zero bytes are moments long past: a full bucket.
 *
 * A now that runs back is counted at the newest moment in the ring, so the order holds. Calls
 * take any now and clamp it to RATION_NOW_MAX_NS.
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
    uint64_t head_index;  /* of the oldest */
};

/* What a take did. */
struct ration_sliding_log_step {
    enum ration_verdict verdict;
    uint64_t wait_ns; /* ALLOW: 0. DENY: the exact wait. NEVER: RATION_FOREVER. */
};

/* Decides cost tokens at now and, on ALLOW, writes them to the ring. One comparison; O(cost). */
struct ration_sliding_log_step ration_sliding_log_take(struct ration_sliding_log *log,
                                                       const struct ration_limit *limit,
                                                       uint64_t cost_tokens, uint64_t now_ns);

/* Everything about a step taken at now. O(log tokens), for what is left. */
struct ration_decision ration_sliding_log_describe(const struct ration_sliding_log *log,
                                                   const struct ration_limit *limit,
                                                   struct ration_sliding_log_step step,
                                                   uint64_t now_ns);

/* Whole tokens that could be taken now. O(log tokens). */
uint64_t ration_sliding_log_remaining(const struct ration_sliding_log *log,
                                      const struct ration_limit *limit, uint64_t now_ns);

/* How long until every token has come back. */
uint64_t ration_sliding_log_full_after_ns(const struct ration_sliding_log *log,
                                          const struct ration_limit *limit, uint64_t now_ns);

/* Whether every token has come back, so that the log carries no information (R7). */
static inline bool ration_sliding_log_is_idle(const struct ration_sliding_log *log,
                                              const struct ration_limit *limit, uint64_t now_ns)
{
    return ration_sliding_log_full_after_ns(log, limit, now_ns) == 0;
}

/* Gives the newest tokens back. O(tokens). */
void ration_sliding_log_refund(struct ration_sliding_log *log, const struct ration_limit *limit,
                               uint64_t tokens);

/* Writes tokens whatever is left; the ring remembers as many as the limit has. */
void ration_sliding_log_force(struct ration_sliding_log *log, const struct ration_limit *limit,
                              uint64_t tokens, uint64_t now_ns);

/*
 * Fills the log of a new limit with the tokens that the old one holds; a full log stays full.
 * O(new_limit->tokens).
 */
void ration_sliding_log_change(const struct ration_sliding_log *old_log,
                               const struct ration_limit *old_limit,
                               struct ration_sliding_log *new_log,
                               const struct ration_limit *new_limit, uint64_t now_ns);

/* Makes the log hold tokens (at most the limit's) at now. O(limit->tokens). */
void ration_sliding_log_set(struct ration_sliding_log *log, const struct ration_limit *limit,
                            uint64_t tokens, uint64_t now_ns);

#endif
