/*
 * remote: an engine whose buckets are in Redis.
 *
 * The engine prepares a check as it does in memory, and then calls Redis: one call of the script for each check, which
 * decides all of its limits together. If Redis does not decide, each limit's on_redis_error says what happens:
 *
 *     local   the limiter in this process decides, with one node's share of the limit
 *     allow   the limit is skipped
 *     deny    the check fails with RATION_ESTORE
 */
#ifndef RATION_ENGINE_REMOTE_H
#define RATION_ENGINE_REMOTE_H

#include "base/mapping.h"
#include "engine/engine_connection.h"
#include "engine/local_cache.h"
#include "redis/client.h"

/* What an engine with Redis has in addition. */
struct ration_engine_remote {
    struct ration_redis_options *options; /* stored in secret, because they contain the password */
    struct ration_mapping secret;
    bool has_manual_clock; /* the engine sends its time to Redis */

    struct ration_engine_pool pool;
    struct ration_local_cache *local_cache;
};

/* The later of the caller's now_ns and the engine's clock: a stale now_ns must not spend an expired lease (R6). */
static inline uint64_t ration_engine_remote_now(const ration_engine *engine, uint64_t now_ns)
{
    uint64_t later_ns = engine->remote->has_manual_clock ? now_ns : ration_engine_now(engine);

    return later_ns > now_ns ? later_ns : now_ns;
}

/* Returns RATION_EINVAL, RATION_EUNSUPPORTED or RATION_ENOMEM, with the reason in *error. */
ration_status ration_engine_remote_create(const struct ration_engine_options *options,
                                          const struct ration_clock *clock,
                                          struct ration_engine_remote **out_remote,
                                          struct ration_error *error);
void ration_engine_remote_free(struct ration_engine_remote *remote);

/*
 * Returns RATION_EUNSUPPORTED if a limit of the policy cannot be stored in Redis. The engine's first policy also
 * determines whether all buckets share one hash slot of a cluster; later policies cannot change that.
 */
ration_status ration_engine_remote_fits(const ration_engine *engine, const ration_policy *policy,
                                        struct ration_error *error);

/* This node's share of a limit while Redis is unavailable: 1 / node_count of it, at least one token. */
struct ration_limit ration_engine_share(const struct ration_engine_remote *remote,
                                        const struct ration_limit *limit);

/* Decides checks by the guard's policy, and waits for Redis where it has to decide. */
void ration_engine_check_remote(const struct ration_engine_guard *guard,
                                struct ration_check *checks, size_t check_count, uint64_t now_ns);

/* Runs an admin operation on buckets in Redis, and waits for it. */
ration_status ration_engine_admin_remote(ration_engine *engine,
                                         const struct ration_engine_admin_task *task,
                                         size_t *out_count);

#endif
