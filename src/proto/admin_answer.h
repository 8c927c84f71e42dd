/*
 * admin_answer: the lists that people ask for, and the receipts of what they changed, as JSON.
 *
 *     GET /v1/limits    {"limits":[{"name":"login","limit":"5/min burst 10","tokens":5, ...}]}
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

void ration_admin_write_limits(struct ration_json *json,
                               const struct ration_policy_limit *const *limits, size_t limit_count);

void ration_admin_write_changed(struct ration_json *json, uint64_t limit_count);

#endif
