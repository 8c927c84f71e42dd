/*
 * admin_answer: writes the lists and results of admin requests as JSON.
 *
 *     GET /v1/limits    {"limits":[{"name":"login","limit":"5/min burst 10","match": ...}]}
 *     POST /v1/refund   {"changed":2}        the number of limits changed; also for reset and block
 */
#ifndef RATION_CODEC_JSON_ADMIN_ANSWER_H
#define RATION_CODEC_JSON_ADMIN_ANSWER_H

#include <stddef.h>
#include <stdint.h>

#include "codec/json/json_write.h"
#include "ration/limiter.h"
#include "ration/policy.h"
#include "ration/stats.h"

#define RATION_ADMIN_MATCH_SIZE 512

/* The numbers reported for a limit, in this order. */
#define RATION_ADMIN_NUMBERS_MAP(X) \
    X(tokens)                       \
    X(period_ns)                    \
    X(burst)                        \
    X(keys_max)                     \
    X(keys) /* keys in the table */ \
    X(allowed)                      \
    X(denied)                       \
    X(never)                        \
    X(near_limit)                   \
    X(shadow_denied)                \
    X(overflow) /* decisions for keys that found no free slot */

/* One limit of the list. RESP reports the same fields under the same names. */
struct ration_admin_limit {
    const struct ration_policy_limit *limit; /* its name, key and shadow flag */
    char text[RATION_LIMIT_TEXT_SIZE];       /* the limit in policy syntax, without its name */
    char match[RATION_ADMIN_MATCH_SIZE];     /* text of ration_policy_describe() */
#define ADMIN_NUMBER(name) uint64_t name;
    RATION_ADMIN_NUMBERS_MAP(ADMIN_NUMBER)
#undef ADMIN_NUMBER
};

/* Call begin once, write for each limit, and end once. */
void ration_admin_begin_limits(struct ration_json *json);
void ration_admin_write_limit(struct ration_json *json, const struct ration_admin_limit *limit);
void ration_admin_end_limits(struct ration_json *json);

void ration_admin_write_changed(struct ration_json *json, uint64_t limit_count);

#endif
