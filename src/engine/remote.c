/*
 * remote: creates the Redis part of an engine, and decides for callers without an event loop, which wait for Redis.
 */
#include "engine/remote.h"

#include <stdlib.h>

#include "base/error.h"
#include "engine/pending_check.h"

ration_status ration_engine_remote_create(const struct ration_engine_options *options,
                                          const struct ration_clock *clock,
                                          struct ration_engine_remote **out_remote,
                                          struct ration_error *error)
{
    struct ration_engine_remote *remote = calloc(1, sizeof(*remote));
    ration_status status;

    if (remote == NULL)
        return ration_error_set(error, RATION_ENOMEM, "no memory for the engine");
    status =
        ration_mapping_init(sizeof(*remote->options),
                            (struct ration_mapping_options){.is_secret = true}, &remote->secret);
    remote->options = remote->secret.memory;
    if (status == RATION_OK)
        status = ration_redis_options_read(options->redis, remote->options, error);
    else
        (void)ration_error_set(error, status, "no memory for the engine");
    if (status == RATION_OK)
        status =
            ration_local_cache_create(clock, options->threads_max, &remote->local_cache, error);
    if (status != RATION_OK) {
        ration_mapping_done(&remote->secret);
        free(remote);
        return status;
    }
    remote->has_manual_clock = options->sends_time != 0;
    ration_engine_pool_init(&remote->pool);
    *out_remote = remote;
    return RATION_OK;
}

void ration_engine_remote_free(struct ration_engine_remote *remote)
{
    if (remote == NULL)
        return;
    ration_engine_pool_done(&remote->pool);
    ration_local_cache_free(remote->local_cache);
    ration_mapping_done(&remote->secret);
    free(remote);
}

/* All buckets of a request must be on one node of a cluster, because one script decides them. */
static ration_status fit_cluster(const ration_engine *engine, const ration_policy *policy,
                                 struct ration_error *error)
{
    struct ration_redis_options *options = engine->remote->options;
    bool is_one_slot = ration_policy_is_one_slot(policy);
    size_t limit_index, other_index;

    if (!is_one_slot && ration_policy_find_two_keys(policy, &limit_index, &other_index)) {
        const struct ration_policy_limit *limit = ration_policy_limit_at(policy, limit_index);
        const struct ration_policy_limit *other = ration_policy_limit_at(policy, other_index);

        return ration_error_set(
            error, RATION_EUNSUPPORTED,
            "limits %s, line %u, and %s, line %u, may apply to one request and "
            "have different keys, which a cluster may store on different nodes: "
            "give both the same key, or write cluster: one_slot",
            limit->limit.name, (unsigned)limit->line, other->limit.name, (unsigned)other->line);
    }
    if (engine->plan == NULL)
        options->is_one_slot = is_one_slot;
    else if (options->is_one_slot != is_one_slot)
        return ration_error_set(
            error, RATION_EUNSUPPORTED,
            "cluster: one_slot cannot be changed by a reload, because it changes "
            "the names of all buckets: restart all nodes together");
    return RATION_OK;
}

ration_status ration_engine_remote_fits(const ration_engine *engine, const ration_policy *policy,
                                        struct ration_error *error)
{
    for (size_t i = 0; i < ration_policy_limit_count(policy); i++) {
        const struct ration_policy_limit *limit = ration_policy_limit_at(policy, i);
        struct ration_error reason;

        if (ration_redis_is_supported(&limit->limit, &reason) != RATION_OK)
            return ration_error_set(error, RATION_EUNSUPPORTED, "limit %s, line %u: %s",
                                    limit->limit.name, (unsigned)limit->line, reason.message);
        if (limit->mode == RATION_POLICY_LOCAL_FIRST &&
            limit->limit.rate.capacity.ns >
                RATION_LOCAL_CACHE_FILL_NS_MAX / engine->remote->options->node_count)
            return ration_error_set(
                error, RATION_EUNSUPPORTED,
                "limit %s, line %u: with redis_mode: local_first each node has a bucket of this "
                "burst "
                "with 1/%u of the rate, which takes more than 16 years to fill: set "
                "redis_mode: strict or lease",
                limit->limit.name, (unsigned)limit->line,
                (unsigned)engine->remote->options->node_count);
    }
    if (engine->remote->options->url.kind == RATION_REDIS_CLUSTER)
        return fit_cluster(engine, policy, error);
    return RATION_OK;
}

/* Returns the whole limit if its share is not a valid limit. */
struct ration_limit ration_engine_share(const struct ration_engine_remote *remote,
                                        const struct ration_limit *limit)
{
    uint64_t nodes = remote->options->node_count;
    struct ration_limit_spec spec = {
        .tokens = limit->tokens,
        .period_ns = limit->period_ns,
        .burst = limit->burst,
        .algorithm = limit->algorithm,
        .refill = limit->refill,
        .start = limit->start,
        .start_tokens = limit->start == RATION_START_TOKENS ? limit->start_tokens / nodes : 0,
        .reserve_tokens = limit->reserve_tokens,
        .reserve_period_ns = limit->reserve_period_ns * nodes,
        .reserve_burst = (limit->reserve_burst + nodes - 1) / nodes,
        .name = limit->name,
    };
    bool counts_windows = limit->algorithm == RATION_FIXED_WINDOW ||
                          limit->algorithm == RATION_SLIDING_WINDOW ||
                          limit->algorithm == RATION_SLIDING_LOG;
    struct ration_limit share;

    if (nodes == 1)
        return *limit;
    /* Rounded down, but at least 1. */
    spec.burst = limit->burst / nodes > 0 ? limit->burst / nodes : 1;
    if (counts_windows)
        spec.tokens = spec.burst;
    else
        spec.period_ns = limit->period_ns * nodes;
    return ration_limit_make(&spec, &share, NULL) == RATION_OK ? share : *limit;
}

bool ration_engine_is_remote(const ration_engine *engine)
{
    return engine->remote != NULL;
}

/* Waiting -------------------------------------------------------------------------------------- */

static void set_done(void *context)
{
    *(bool *)context = true;
}

/* Copies a result, with its parts if the caller has room for them. */
static void copy_answer(const struct ration_check *answer, struct ration_check *check)
{
    struct ration_check_part *parts = check->parts;
    struct ration_check copy = *answer;

    for (uint32_t i = 0; parts != NULL && i < copy.part_count; i++)
        parts[i] = answer->parts[i];
    copy.parts = parts;
    copy.attributes = check->attributes;
    copy.attribute_count = check->attribute_count;
    *check = copy;
}

/* Decides the checks of one batch. False: no memory, and none is decided. */
static bool check_batch(struct ration_engine_connection *connection,
                        const struct ration_engine_guard *guard, struct ration_check *checks,
                        size_t count, uint64_t now_ns, uint64_t deadline_ns)
{
    bool is_done = false;
    ration_engine_batch *batch =
        ration_engine_batch_create(connection, guard, now_ns, set_done, &is_done);
    bool has_all = batch != NULL;

    if (has_all)
        batch->deadline_ns = deadline_ns;
    for (size_t i = 0; i < count && has_all; i++)
        has_all = ration_engine_batch_add(batch, &checks[i]) == RATION_OK;
    if (has_all) {
        is_done = ration_engine_batch_send(batch);
        while (!is_done)
            ration_poll_loop_run(connection->poll_loop);
        for (size_t i = 0; i < count; i++)
            copy_answer(ration_engine_batch_check(batch, i), &checks[i]);
    }
    ration_engine_batch_free(batch);
    return has_all;
}

/* Sends requests for leases. The next thread that takes the connection from the pool receives the answers. */
static void request_leases(const struct ration_remote_check *remote_check,
                           const struct ration_lease_requests *requests)
{
    uint64_t deadline_ns;
    struct ration_engine_connection *connection =
        ration_engine_pool_take(remote_check->engine, &deadline_ns);

    if (connection == NULL)
        return;
    ration_engine_connection_acquire(connection, remote_check, requests);
    ration_poll_loop_poll(connection->poll_loop);
    ration_engine_pool_give_back(remote_check->engine, connection);
}

/*
 * Decides a check from the local cache, without a lock or an allocation unless it requests a lease. False: Redis has to
 * decide, or a requested lease may have arrived.
 */
static bool check_locally(const struct ration_engine_guard *guard, struct ration_check *check,
                          uint64_t now_ns)
{
    ration_engine *engine = guard->engine;
    char room[RATION_CHECK_KEYS_ROOM];
    struct ration_engine_prepared prepared;
    struct ration_lease_requests requests = {.count = 0};
    struct ration_engine_key_scratch scratch = {
        .engine = engine, .plan = guard->plan, .room = room, .room_size = sizeof(room)};
    struct ration_remote_check remote_check = {.engine = engine,
                                               .plan = guard->plan,
                                               .check = check,
                                               .prepared = &prepared,
                                               .now_ns = now_ns};
    bool is_decided;

    if (ration_engine_pool_has_lease_requests(engine))
        return false;
    /* never RATION_ENOSPC: the room is unused */
    (void)ration_engine_prepare(&scratch, check, &prepared);
    is_decided = check->status != RATION_OK || prepared.match.limit_count == 0 ||
                 (ration_remote_check_is_local(&remote_check) &&
                  ration_remote_check_decide_locally(&remote_check, &requests));
    if (is_decided && check->status == RATION_OK && prepared.match.limit_count == 0)
        ration_engine_answer_without_limits(engine, check);
    if (requests.count > 0)
        request_leases(&remote_check, &requests);
    return is_decided;
}

static void check_with_redis(const struct ration_engine_guard *guard, struct ration_check *checks,
                             size_t check_count, uint64_t now_ns)
{
    ration_engine *engine = guard->engine;
    uint64_t deadline_ns = 0;
    struct ration_engine_connection *connection = ration_engine_pool_take(engine, &deadline_ns);
    size_t done = 0;

    while (done < check_count) {
        size_t batch_count = check_count - done < RATION_ENGINE_BATCH_MAX ? check_count - done
                                                                          : RATION_ENGINE_BATCH_MAX;

        if (connection == NULL ||
            !check_batch(connection, guard, checks + done, batch_count, now_ns, deadline_ns))
            for (size_t i = 0; i < batch_count; i++)
                ration_engine_fail_check(engine, &checks[done + i], RATION_ENOMEM,
                                         "no memory for a call to Redis");
        done += batch_count;
        deadline_ns = 0; /* calls of later batches have their own deadlines */
    }
    if (connection != NULL)
        ration_engine_pool_give_back(engine, connection);
}

void ration_engine_check_remote(const struct ration_engine_guard *guard,
                                struct ration_check *checks, size_t check_count, uint64_t now_ns)
{
    size_t done = 0;

    now_ns = ration_engine_remote_now(guard->engine, now_ns);
    while (done < check_count && check_locally(guard, &checks[done], now_ns))
        done++;
    if (done < check_count)
        check_with_redis(guard, checks + done, check_count - done, now_ns);
}

/* The result of an admin operation. */
struct admin_result {
    bool is_done;
    ration_status status;
    size_t count;
};

static void set_admin_result(void *context, ration_status status, size_t count)
{
    *(struct admin_result *)context = (struct admin_result){true, status, count};
}

ration_status ration_engine_admin_remote(ration_engine *engine,
                                         const struct ration_engine_admin_task *task,
                                         size_t *out_count)
{
    uint64_t deadline_ns;
    struct ration_engine_connection *connection = ration_engine_pool_take(engine, &deadline_ns);
    struct admin_result admin_result = {.status = RATION_ENOMEM};

    if (connection == NULL)
        return RATION_ENOMEM;
    (void)ration_engine_admin_begin(connection, task, set_admin_result, &admin_result);
    while (!admin_result.is_done)
        ration_poll_loop_run(connection->poll_loop);
    ration_engine_pool_give_back(engine, connection);
    if (admin_result.status == RATION_OK && out_count != NULL)
        *out_count = admin_result.count;
    return admin_result.status;
}
