/*
 * pending_check_local: checks decided from the local cache, and requests for leases.
 *
 * A check that finds no leased tokens requests a lease in the same call as its own cost: it is the leader of its key.
 * Checks of the same key that arrive before the answer, from any batch of the connection, are its followers and wait
 * for the lease. A lease that is requested ahead of need has no waiting checks.
 */
#include <stdlib.h>
#include <string.h>

#include "engine/pending_check.h"
#include "redis/lease_acquire.h"

/* Leases ahead of need ------------------------------------------------------------------------- */

/* A request for a lease. It may outlive the batch, so it owns copies of everything. */
struct acquire {
    struct ration_engine_connection *connection;
    struct ration_policy_limit limit;
    struct ration_hash secret;
    struct ration_key key;
    uint64_t wanted_tokens;
    uint64_t requested_ns;
    char bytes[];
};

/* For connections of the pool: as long as the count is not 0, the next thread checks whether a lease has arrived. */
static void count_lease_request(struct ration_engine_connection *connection, int change)
{
    if (connection->poll_loop == NULL)
        return;
    connection->lease_request_count += (uint32_t)change;
    __atomic_add_fetch(&connection->engine->remote->pool.lease_request_count, (uint32_t)change,
                       __ATOMIC_RELAXED);
}

static void on_acquired(void *context, const struct ration_redis_take_result *result,
                        struct ration_redis_grant grant)
{
    struct acquire *acquire = context;
    ration_engine *engine = acquire->connection->engine;
    struct ration_local_cache_request request = {
        .limit = &acquire->limit,
        .secret = &acquire->secret,
        .key = &acquire->key,
        .cost_tokens = 1,
        .node_count = engine->remote->options->node_count,
    };

    if (result != NULL)
        ration_local_lease_fill(engine->remote->local_cache, &request,
                                &(struct ration_local_lease_granted){grant, acquire->wanted_tokens,
                                                                     acquire->requested_ns},
                                ration_engine_now(engine));
    count_lease_request(acquire->connection, -1);
    free(acquire);
}

static void begin_acquire(struct ration_engine_connection *connection,
                          const struct ration_local_cache_request *request, uint64_t tokens,
                          uint64_t now_ns)
{
    struct ration_engine_remote *remote = connection->engine->remote;
    struct ration_local_lease_return unused;
    struct ration_redis_lease lease = {
        .limit = &request->limit->limit,
        .key = *request->key,
        .want_tokens = tokens,
        .length_ns = ration_local_lease_ns(request->limit),
        .has_now = remote->has_manual_clock,
        .now_ns = now_ns,
    };
    struct acquire *acquire = malloc(sizeof(*acquire) + request->key->size);

    if (acquire == NULL)
        return;
    *acquire = (struct acquire){.connection = connection,
                                .limit = *request->limit,
                                .secret = *request->secret,
                                .key = {acquire->bytes, request->key->size},
                                .wanted_tokens = tokens,
                                .requested_ns = now_ns};
    if (request->key->size > 0)
        memcpy(acquire->bytes, request->key->bytes, request->key->size);
    unused = ration_local_lease_unused(remote->local_cache, request, now_ns);
    lease.back_tokens = unused.tokens;
    lease.back_number = unused.number;
    lease.back_age_ns = unused.age_ns;
    count_lease_request(connection, 1);
    ration_redis_lease_acquire(connection->client, &lease, on_acquired, acquire);
}

void ration_engine_connection_acquire(struct ration_engine_connection *connection,
                                      const struct ration_remote_check *remote_check,
                                      const struct ration_lease_requests *requests)
{
    for (uint32_t i = 0; i < requests->count; i++) {
        struct ration_local_cache_request request =
            ration_remote_check_request(remote_check, requests->parts[i]);

        begin_acquire(connection, &request, requests->tokens[i], remote_check->now_ns);
    }
}

static struct ration_local_cache_request local_request(struct ration_pending_check *pending,
                                                       uint32_t part)
{
    struct ration_remote_check remote_check = ration_pending_check_remote(pending);

    return ration_remote_check_request(&remote_check, part);
}

/* Debts reported to Redis, and decisions learned from it ---------------------------------------- */

void ration_pending_check_learn(struct ration_pending_check *pending,
                                const struct ration_redis_take_result *result,
                                struct ration_redis_grant grant)
{
    struct ration_engine_remote *remote = pending->batch->connection->engine->remote;
    struct ration_local_lease_granted granted = {grant, pending->wanted_tokens,
                                                 pending->batch->now_ns};

    for (uint32_t i = 0; i < pending->prepared.match.limit_count && !pending->is_inline; i++) {
        struct ration_local_cache_request request = local_request(pending, i);

        if (request.limit->mode == RATION_POLICY_STRICT || pending->check.is_peek ||
            request.cost_tokens == 0)
            continue;
        ration_local_cache_learn(remote->local_cache, &request, &result->parts[i], &granted,
                                 ration_engine_now(pending->batch->connection->engine));
    }
}

/* With several limits, each limit has its own lease, which is requested after Redis has decided all of them. */
void ration_pending_check_acquire_leases(struct ration_pending_check *pending)
{
    struct ration_remote_check remote_check = ration_pending_check_remote(pending);
    struct ration_engine_remote *remote = remote_check.engine->remote;
    struct ration_lease_requests requests = {.count = 0};

    if (pending->prepared.match.limit_count < 2 || !ration_remote_check_is_local(&remote_check))
        return;
    for (uint32_t i = 0; i < pending->prepared.match.limit_count; i++) {
        struct ration_local_cache_request request = ration_remote_check_request(&remote_check, i);
        uint64_t tokens = ration_local_lease_want_apart(
            remote->local_cache, &request, remote->options->times.timeout_ns, remote_check.now_ns);

        if (tokens > 0) {
            requests.parts[requests.count] = i;
            requests.tokens[requests.count++] = tokens;
        }
    }
    ration_engine_connection_acquire(pending->batch->connection, &remote_check, &requests);
}

uint64_t ration_pending_check_drain_debt(struct ration_pending_check *pending, uint32_t part)
{
    struct ration_local_cache_request request = local_request(pending, part);

    if (pending->check.is_peek || request.cost_tokens == 0)
        return 0;
    return ration_local_bucket_drain_debt(pending->batch->connection->engine->remote->local_cache,
                                          &request, pending->batch->now_ns);
}

void ration_pending_check_report_debt_again(struct ration_pending_check *pending)
{
    struct ration_engine_remote *remote = pending->batch->connection->engine->remote;

    for (uint32_t i = 0; i < pending->prepared.match.limit_count && !pending->is_inline; i++) {
        struct ration_local_cache_request request = local_request(pending, i);

        ration_local_bucket_report_debt(remote->local_cache, &request, pending->debt_tokens[i],
                                        pending->batch->now_ns);
    }
}

/* Leaders and followers -------------------------------------------------------------------------- */

/* The list of leaders that may contain a leader of the check's key. */
static struct ration_pending_check **leader_list(const struct ration_pending_check *pending)
{
    const struct ration_key *key = &pending->prepared.keys[0];
    const unsigned char *bytes = key->bytes;
    unsigned hash = key->size == 0 ? 0 : bytes[key->size - 1] * 31u + bytes[key->size / 2];

    return &pending->batch->connection->leaders[hash % RATION_ENGINE_LEADER_LISTS];
}

static void stop_leading(struct ration_pending_check *pending)
{
    for (struct ration_pending_check **cursor = leader_list(pending); *cursor != NULL;
         cursor = &(*cursor)->next_leader)
        if (*cursor == pending) {
            *cursor = pending->next_leader;
            return;
        }
}

/*
 * If Redis has answered, followers are decided from the new lease, and those that find too few tokens call Redis
 * themselves. If Redis did not answer the leader, followers are decided without Redis.
 */
void ration_pending_check_serve_followers(struct ration_pending_check *leader, bool is_answered)
{
    struct ration_pending_check *pending = leader->followers;

    leader->followers = NULL;
    while (pending != NULL) {
        struct ration_pending_check *next = pending->next;
        ration_engine_batch *batch = pending->batch;

        if (!batch->is_abandoned && !is_answered)
            ration_pending_check_decide_without_redis(pending);
        else if (!batch->is_abandoned && !ration_pending_check_decide_locally(pending))
            ration_pending_check_send(pending);
        batch->unanswered_count--;
        ration_engine_batch_complete(batch);
        pending = next;
    }
}

static void on_leader_answered(void *context, const struct ration_redis_take_result *result,
                               struct ration_redis_grant grant)
{
    stop_leading(context);
    ration_pending_check_answer(context, result, grant);
}

/*
 * For a check with a single limit of mode lease: charges its cost and requests a lease in one call. A key without an
 * entry and without followers gets no lease, because most such keys are not used again.
 */
static void send_with_lease(struct ration_pending_check *pending)
{
    ration_engine_batch *batch = pending->batch;
    struct ration_engine_remote *remote = batch->connection->engine->remote;
    struct ration_local_cache_request request = local_request(pending, 0);
    uint64_t want_tokens = ration_local_lease_want(remote->local_cache, &request,
                                                   pending->follower_count, batch->now_ns);
    struct ration_local_lease_return unused =
        ration_local_lease_unused(remote->local_cache, &request, batch->now_ns);
    struct ration_redis_lease lease = {
        .limit = &request.limit->limit,
        .key = *request.key,
        .cost_tokens = request.cost_tokens,
        .want_tokens = want_tokens,
        .back_tokens = unused.tokens,
        .back_number = unused.number,
        .back_age_ns = unused.age_ns,
        .length_ns = ration_local_lease_ns(request.limit),
        .changed_ago_ns = ration_engine_changed_ago_ns(
            batch->plan, pending->prepared.match.limits[0], batch->now_ns),
        .has_now = remote->has_manual_clock,
        .now_ns = batch->now_ns,
        .deadline_ns = batch->deadline_ns,
    };

    if (want_tokens == 0 && unused.tokens == 0) {
        ration_pending_check_send(pending);
        return;
    }
    pending->debt_tokens[0] = 0;
    pending->wanted_tokens = want_tokens;
    pending->next_leader = *leader_list(pending);
    *leader_list(pending) = pending;
    batch->unanswered_count++;
    ration_redis_lease_acquire(batch->connection->client, &lease, on_leader_answered, pending);
}

/* Deciding locally ----------------------------------------------------------------------------- */

bool ration_pending_check_decide_locally(struct ration_pending_check *pending)
{
    struct ration_remote_check remote_check = ration_pending_check_remote(pending);
    struct ration_lease_requests requests;

    if (!ration_remote_check_decide_locally(&remote_check, &requests))
        return false;
    ration_engine_connection_acquire(pending->batch->connection, &remote_check, &requests);
    return true;
}

bool ration_pending_check_has_lease(struct ration_pending_check *pending)
{
    const struct ration_policy_limit *limit =
        ration_policy_limit_at(pending->batch->plan->policy, pending->prepared.match.limits[0]);

    return pending->prepared.match.limit_count == 1 && limit->mode == RATION_POLICY_LEASE &&
           pending->prepared.limiter_calls[0].cost_tokens <= limit->limit.burst;
}

static bool has_same_key(const struct ration_pending_check *a, const struct ration_pending_check *b)
{
    const struct ration_key *key = &a->prepared.keys[0], *other = &b->prepared.keys[0];

    return a->batch->plan == b->batch->plan &&
           a->prepared.match.limits[0] == b->prepared.match.limits[0] && key->size == other->size &&
           memcmp(key->bytes, other->bytes, key->size) == 0;
}

static void add_follower(struct ration_pending_check *leader, struct ration_pending_check *pending)
{
    pending->next = NULL;
    pending->deadline_ns = ration_redis_client_deadline(pending->batch->connection->client);
    *leader->followers_end = pending;
    leader->followers_end = &pending->next;
    leader->follower_count++;
    pending->batch->unanswered_count++;
}

void ration_pending_check_join(struct ration_pending_check *pending,
                               struct ration_pending_check **leaders)
{
    struct ration_pending_check *leader = *leader_list(pending);

    while (leader != NULL && !has_same_key(leader, pending))
        leader = leader->next_leader;
    if (leader == NULL) {
        leader = *leaders;
        while (leader != NULL && !has_same_key(leader, pending))
            leader = leader->next;
    }
    if (leader != NULL) {
        add_follower(leader, pending);
    } else {
        pending->next = *leaders;
        *leaders = pending;
    }
}

void ration_pending_check_send_leaders(struct ration_pending_check *leaders)
{
    for (size_t i = 0; leaders != NULL; i++) {
        struct ration_pending_check *leader = leaders;

        leaders = leader->next;
        leader->next = NULL;
        ration_engine_batch_flush(leader->batch, i);
        send_with_lease(leader);
    }
}
