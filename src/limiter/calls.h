/*
 * calls: an op begun and seen through, with its statistics. For limiters and stacks alike.
 */
#ifndef RATION_LIMITER_CALLS_H
#define RATION_LIMITER_CALLS_H

#include "limiter/limiter.h"

/* One thing asked of one limiter. */
struct ration_call_ask {
    struct ration_limiter *limiter;
    const void *request;
    uint64_t cost_tokens;
    const struct ration_limit *limit; /* in place of the only rule's; NULL: none */
};

/* A call in the making; large, so it lives on the stack of who makes it. */
struct ration_call {
    struct ration_op op;
    struct ration_op_part parts[RATION_CALL_KEYS_MAX];
    struct ration_limit own_limits[RATION_CALL_RULES_MAX + RATION_RULES_MAX]; /* of the parts, and
                                                                                 of one too many */
    struct ration_limiter *limiters[RATION_CALL_KEYS_MAX];                    /* by part */
    char rooms[RATION_CALL_KEYS_MAX][RATION_KEY_ROOM_SIZE];
};

/*
 * Carries out an op of this kind on all that is asked for. The caller has set the op's other
 * fields; with holds_ns, all that is asked for are different buckets, so that each is a part. Counts
 * it if it takes. Results are in call->op and call->parts.
 * Returns RATION_EINVAL, RATION_EUNFIT, or what the store returns.
 */
ration_status ration_call_run(struct ration_call *call, const struct ration_call_ask *asks,
                              size_t ask_count);

/* The same, for a decision that is told: out_decision and details may be NULL. */
ration_status ration_call_take(struct ration_call *call, const struct ration_call_ask *asks,
                               size_t ask_count, struct ration_decision *out_decision,
                               struct ration_decision *details);

/* Takes places in line; see ration_limiter_reserve(). */
ration_status ration_call_reserve(const struct ration_call_ask *asks, size_t ask_count,
                                  uint64_t max_wait_ns, uint64_t now_ns,
                                  struct ration_decision *out_decision,
                                  struct ration_ticket *out_ticket);

/*
 * Ends a reservation of these limiters, by their index in the ticket. Returns RATION_ECLOSED, or
 * RATION_EINVAL for a ticket of another.
 */
ration_status ration_call_settle(struct ration_limiter *const *limiters, uint32_t limiter_count,
                                 struct ration_ticket *ticket, uint64_t used_tokens,
                                 uint64_t now_ns);

#endif
