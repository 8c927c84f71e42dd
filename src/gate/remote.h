/*
 * remote: a gate whose limits live in Redis.
 *
 * Checks are prepared as always, and then Redis is asked: one call of the script for each check, all
 * limits of it together. If it does not decide, each limit's on_backend_error says what happens:
 *
 *     local   the limiter in this process, which has one node's share of the limit
 *     allow   the limit is left out
 *     deny    the check cannot be decided: RATION_ESTORE
 */
#ifndef RATION_GATE_REMOTE_H
#define RATION_GATE_REMOTE_H

#include "base/mapping.h"
#include "gate/near.h"
#include "gate/pool.h"
#include "redis/client.h"

/* What a gate keeps for it. */
struct ration_gate_remote {
    struct ration_redis_options *options; /* in secret: they hold the password */
    struct ration_mapping secret;
    bool has_manual_clock; /* Redis is told the gate's time */

    struct ration_gate_pool pool;
    struct ration_near *near;
};

/* The later of a caller's now and the gate's: a lease that has ended is not spent by a now that is stale (R6). */
static inline uint64_t ration_gate_remote_now(const ration_gate *gate, uint64_t now_ns)
{
    uint64_t later_ns = gate->remote->has_manual_clock ? now_ns : ration_gate_now(gate);

    return later_ns > now_ns ? later_ns : now_ns;
}

/* Returns RATION_EINVAL, RATION_EUNFIT, RATION_ENOMEM; error tells why. */
ration_status ration_gate_remote_create(const struct ration_gate_options *options,
                                        const struct ration_clock *clock,
                                        struct ration_gate_remote **out_remote,
                                        struct ration_error *error);
void ration_gate_remote_free(struct ration_gate_remote *remote);

/*
 * Whether all limits of a policy can be kept in Redis: RATION_EUNFIT. The gate's first policy also says
 * whether all buckets share a slot of a cluster; for later ones this stays.
 */
ration_status ration_gate_remote_fits(const ration_gate *gate, const ration_policy *policy,
                                      struct ration_error *error);

/* What this node has of a limit while Redis is away: one part of node_count, at least one token. */
struct ration_limit ration_gate_share(const struct ration_gate_remote *remote,
                                      const struct ration_limit *limit);

/* Decides checks by the guard's policy and by Redis, and waits for it. */
void ration_gate_check_remote(const struct ration_visit *guard, struct ration_check *checks,
                              size_t check_count, uint64_t now_ns);

/* Edits buckets in Redis, and waits for it. */
ration_status ration_gate_edit_remote(ration_gate *gate, const struct ration_gate_task *task,
                                      size_t *out_count);

#endif
