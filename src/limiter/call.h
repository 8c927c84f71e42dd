/*
 * call: builds an op, runs it and counts it, for limiters and stacks.
 */
#ifndef RATION_LIMITER_CALL_H
#define RATION_LIMITER_CALL_H

#include "limiter/limiter_internal.h"

/* One request to one limiter. */
struct ration_call_request {
    struct ration_limiter *limiter;
    const void *request;
    uint64_t cost_tokens;
    /* used instead of the limit of the only rule; NULL: the rule's own */
    const struct ration_limit *limit;
};

/* A call while it is built and run. Large: it lives on the caller's stack. */
struct ration_call {
    struct ration_op op;
    struct ration_key_part parts[RATION_CALL_KEYS_MAX];
    /* the limits of the parts, and of one part too many */
    struct ration_limit own_limits[RATION_CALL_RULES_MAX + RATION_RULES_MAX];
    struct ration_limiter *limiters[RATION_CALL_KEYS_MAX]; /* indexed by part */
    char rooms[RATION_CALL_KEYS_MAX][RATION_KEY_ROOM_SIZE];
};

/*
 * Runs call->op on all requests. The caller has set the kind and the other inputs of the op; if blocks_ns is
 * set, all requests are for different buckets, so that each becomes a part. Counts the result of takes. Results
 * are in call->op and call->parts. Returns RATION_EINVAL, RATION_EUNSUPPORTED, or the store's status.
 */
ration_status ration_call_run(struct ration_call *call, const struct ration_call_request *requests,
                              size_t request_count);

/* The same, and copies the decisions out: out_decision and details may be NULL. */
ration_status ration_call_take(struct ration_call *call, const struct ration_call_request *requests,
                               size_t request_count, struct ration_decision *out_decision,
                               struct ration_decision *details);

/* Reserves tokens; see ration_limiter_reserve(). */
ration_status ration_call_reserve(const struct ration_call_request *requests, size_t request_count,
                                  uint64_t max_wait_ns, uint64_t now_ns,
                                  struct ration_decision *out_decision,
                                  struct ration_reservation *out_reservation);

/*
 * Ends a reservation of these limiters, which are in the order of their index in the reservation. Returns
 * RATION_ECLOSED, or RATION_EINVAL for a reservation of other limiters.
 */
ration_status ration_call_settle(struct ration_limiter *const *limiters, uint32_t limiter_count,
                                 struct ration_reservation *reservation, uint64_t used_tokens,
                                 uint64_t now_ns);

#endif
