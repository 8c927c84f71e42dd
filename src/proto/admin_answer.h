/*
 * admin_answer: the lists that people ask for, and the receipts of what they changed, as JSON.
 *
 *     GET /v1/limits    {"limits":[{"name":"login","limit":"5/min burst 10","tokens":5, ...}]}
 *     GET /v1/top       {"limit":"login","by":"denied","keys":[{"key":"192.0.2.7","count":12, ...}], ...}
 *     POST /v1/refund   {"changed":2}        of so many limits; also reset and block
 *     POST /v1/reload   {"generation":3,"limits":12}
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

struct ration_admin_top {
    const char *limit_name;
    enum ration_top by;
    const struct ration_top_key *keys;
    size_t key_count;
    struct ration_top_keys_stats stats;
};

void ration_admin_write_top(struct ration_json *json, const struct ration_admin_top *top);

void ration_admin_write_changed(struct ration_json *json, uint64_t limit_count);

void ration_admin_write_reloaded(struct ration_json *json, uint64_t generation,
                                 uint64_t limit_count);

#endif
