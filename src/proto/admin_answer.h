/*
 * admin_answer: the lists that people ask for, and the receipts of what they changed, as JSON.
 *
 *     GET /v1/limits    {"limits":[{"name":"login","limit":"5/min burst 10","match": ...}]}
 *     POST /v1/refund   {"changed":2}        of so many limits; also reset and block
 */
#ifndef RATION_PROTO_ADMIN_ANSWER_H
#define RATION_PROTO_ADMIN_ANSWER_H

#include <stddef.h>
#include <stdint.h>

#include "proto/json_write.h"
#include "ration/limiter.h"
#include "ration/policy.h"
#include "ration/stats.h"

#define RATION_ADMIN_MATCH_SIZE 512

/* What is told of a limit in numbers, in this order. */
#define RATION_ADMIN_NUMBERS_MAP(X) \
    X(tokens)                       \
    X(period_ns)                    \
    X(burst)                        \
    X(keys_max)                     \
    X(keys) /* that have a place */ \
    X(allowed)                      \
    X(denied)                       \
    X(never)                        \
    X(near)                         \
    X(shadow_denied)                \
    X(overflow) /* decided for a key without a place */

/* One limit, as it is listed; RESP has the same under the same names. */
struct ration_admin_limit {
    const struct ration_policy_limit *limit; /* its name and key, and whether it is a shadow */
    char text[RATION_LIMIT_TEXT_SIZE];       /* as in a policy, without its name */
    char match[RATION_ADMIN_MATCH_SIZE];     /* ration_policy_describe() */
#define ADMIN_NUMBER(name) uint64_t name;
    RATION_ADMIN_NUMBERS_MAP(ADMIN_NUMBER)
#undef ADMIN_NUMBER
};

/* Around all limits, and each of them. */
void ration_admin_begin_limits(struct ration_json *json);
void ration_admin_write_limit(struct ration_json *json, const struct ration_admin_limit *limit);
void ration_admin_end_limits(struct ration_json *json);

void ration_admin_write_changed(struct ration_json *json, uint64_t limit_count);

#endif
