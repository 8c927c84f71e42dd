/*
 * remote_check: a prepared check of an engine with Redis, and how the node decides it without a call to Redis.
 *
 * Batches use it for their pending checks. A caller that waits for Redis first tries to decide each check here, which
 * takes no lock and allocates nothing.
 */
#ifndef RATION_ENGINE_REMOTE_CHECK_H
#define RATION_ENGINE_REMOTE_CHECK_H

#include "engine/remote.h"

/* All pointers are borrowed. The owner holds a guard on plan. */
struct ration_remote_check {
    ration_engine *engine;
    const struct ration_engine_plan *plan;
    struct ration_check *check;
    const struct ration_engine_prepared *prepared;
    const struct ration_limit *inline_limit; /* NULL: the limits are the policy's */
    uint64_t now_ns;
};

/* Leases to request ahead of need. */
struct ration_lease_requests {
    uint32_t count;
    uint32_t parts[RATION_POLICY_MATCHES_MAX];
    uint64_t tokens[RATION_POLICY_MATCHES_MAX];
};

/* The request to the local cache for one limit of the check. */
struct ration_local_cache_request ration_remote_check_request(
    const struct ration_remote_check *remote_check, uint32_t part);

/* Whether all limits of the check may be decided from the local cache. */
bool ration_remote_check_is_local(const struct ration_remote_check *remote_check);

/*
 * Decides the check from the local cache, writes its result and counts it. False: Redis has to decide, and the tokens
 * that were taken are put back.
 */
bool ration_remote_check_decide_locally(const struct ration_remote_check *remote_check,
                                        struct ration_lease_requests *out_requests);

/* Writes the result of the check and of each limit, and counts it. */
void ration_remote_check_report(const struct ration_remote_check *remote_check,
                                const struct ration_redis_take_result *result);

#endif
