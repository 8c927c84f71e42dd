/*
 * pending_check: the checks of a batch, on their way to Redis and back.
 *
 * A batch copies what its checks need, including keys, because the engine decides them itself if Redis does not. The
 * batch holds a guard until it is freed, so that the policy that prepared its checks still exists when results are
 * written.
 */
#include <stdlib.h>
#include <string.h>

#include "engine/pending_check.h"
#include "limiter/limiter_internal.h"

#define CAPACITY_FIRST 4
#define POLL_EVERY     128 /* checks */

ration_engine_batch *ration_engine_batch_create(ration_engine_connection *connection,
                                                const struct ration_engine_guard *guard,
                                                uint64_t now_ns, ration_engine_batch_done *done,
                                                void *context)
{
    ration_engine_batch *batch = calloc(1, sizeof(*batch));

    if (batch == NULL)
        return NULL;
    batch->connection = connection;
    batch->now_ns = now_ns;
    batch->done = done;
    batch->context = context;
    ration_engine_guard_plan(connection->engine, guard, &batch->guard);
    batch->plan = batch->guard.plan;
    return batch;
}

static void free_batch(ration_engine_batch *batch)
{
    for (size_t i = 0; i < batch->count; i++) {
        if (batch->pending_checks[i]->keys != batch->pending_checks[i]->key_buffer)
            free(batch->pending_checks[i]->keys);
        free(batch->pending_checks[i]);
    }
    ration_engine_unlock(&batch->guard);
    free(batch->pending_checks);
    free(batch);
}

void ration_engine_batch_free(ration_engine_batch *batch)
{
    if (batch == NULL)
        return;
    if (batch->unanswered_count > 0)
        batch->is_abandoned = true;
    else
        free_batch(batch);
}

size_t ration_engine_batch_count(const ration_engine_batch *batch)
{
    return batch->count;
}

const struct ration_check *ration_engine_batch_check(const ration_engine_batch *batch, size_t index)
{
    return &batch->pending_checks[index]->check;
}

/* Adding --------------------------------------------------------------------------------------- */

static struct ration_pending_check *add_pending_check(ration_engine_batch *batch)
{
    struct ration_pending_check *pending;

    if (batch->count == batch->capacity) {
        size_t capacity = batch->capacity > 0 ? 2 * batch->capacity : CAPACITY_FIRST;
        struct ration_pending_check **pending_checks =
            realloc(batch->pending_checks, capacity * sizeof(pending_checks[0]));

        if (pending_checks == NULL)
            return NULL;
        batch->pending_checks = pending_checks;
        batch->capacity = capacity;
    }
    pending = malloc(sizeof(*pending));
    if (pending == NULL)
        return NULL;
    pending->batch = batch;
    pending->is_inline = false;
    pending->followers = pending->next = NULL;
    pending->followers_end = &pending->followers;
    pending->follower_count = pending->wanted_tokens = pending->deadline_ns = 0;
    pending->keys = pending->key_buffer;
    pending->check.parts = pending->parts;
    batch->pending_checks[batch->count++] = pending;
    return pending;
}

/* Copies the keys, which must outlive the request. False: no memory. */
static bool copy_keys(struct ration_pending_check *pending)
{
    struct ration_engine_prepared *prepared = &pending->prepared;
    size_t size = 0, used = 0;

    for (uint32_t i = 0; i < prepared->match.limit_count; i++)
        size += prepared->keys[i].size;
    if (size > sizeof(pending->key_buffer)) {
        char *keys = malloc(size);

        if (keys == NULL)
            return false;
        pending->keys = keys;
    }
    for (uint32_t i = 0; i < prepared->match.limit_count; i++) {
        struct ration_key *key = &prepared->keys[i];

        if (key->size > 0)
            memcpy(pending->keys + used, key->bytes, key->size);
        key->bytes = pending->keys + used;
        used += key->size;
        prepared->limiter_calls[i].request = key;
    }
    return true;
}

ration_status ration_engine_batch_add(ration_engine_batch *batch, const struct ration_check *check)
{
    char room[RATION_CHECK_KEYS_ROOM];
    struct ration_engine_key_scratch scratch = {.engine = batch->connection->engine,
                                                .plan = batch->plan,
                                                .room = room,
                                                .room_size = sizeof(room)};
    struct ration_pending_check *pending = add_pending_check(batch);

    if (pending == NULL)
        return RATION_ENOMEM;
    pending->check = *check;
    pending->check.parts = pending->parts;
    /* never RATION_ENOSPC: the room is unused */
    (void)ration_engine_prepare(&scratch, &pending->check, &pending->prepared);
    if (pending->check.status == RATION_OK && !copy_keys(pending)) {
        ration_engine_fail_check(batch->connection->engine, &pending->check, RATION_ENOMEM,
                                 ration_status_text(RATION_ENOMEM));
        pending->prepared.match.limit_count = 0;
    }
    pending->check.attributes = NULL;
    pending->check.attribute_count = 0;
    return RATION_OK;
}

ration_status ration_engine_batch_add_inline(ration_engine_batch *batch,
                                             const struct ration_key *key,
                                             const struct ration_limit *limit, uint64_t cost_tokens,
                                             bool is_peek)
{
    ration_limiter *inline_limiter = batch->connection->engine->inline_limit;
    struct ration_pending_check *pending;

    if (!ration_algorithm_is_gcra(limit) || limit->start != RATION_START_FULL)
        return RATION_EUNSUPPORTED;
    if (key->size > RATION_KEY_SIZE_MAX)
        return RATION_EINVAL;
    pending = add_pending_check(batch);
    if (pending == NULL)
        return RATION_ENOMEM;
    pending->is_inline = true;
    pending->limit = *limit;
    strcpy(pending->limit.name, RATION_POLICY_INLINE);
    pending->check = (struct ration_check){
        .cost_tokens = cost_tokens, .is_peek = is_peek, .parts = pending->parts};
    pending->prepared.match = (struct ration_policy_match){.limit_count = 1};
    pending->prepared.keys[0] = *key;
    pending->prepared.limiter_calls[0] =
        (struct ration_call_request){inline_limiter, key, cost_tokens, &pending->limit};
    if (!copy_keys(pending)) {
        free(pending);
        batch->count--;
        return RATION_ENOMEM;
    }
    return RATION_OK;
}

struct ration_remote_check ration_pending_check_remote(struct ration_pending_check *pending)
{
    return (struct ration_remote_check){
        .engine = pending->batch->connection->engine,
        .plan = pending->batch->plan,
        .check = &pending->check,
        .prepared = &pending->prepared,
        .inline_limit = pending->is_inline ? &pending->limit : NULL,
        .now_ns = pending->batch->now_ns,
    };
}

/* Without Redis -------------------------------------------------------------------------------- */

/* Reduces the check to the limits that decide locally. False: a limit's on_redis_error is deny. */
static bool keep_local_limits(const struct ration_engine_plan *plan,
                              struct ration_engine_prepared *prepared)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < prepared->match.limit_count; i++) {
        const struct ration_policy_limit *limit =
            ration_policy_limit_at(plan->policy, prepared->match.limits[i]);

        if (limit->on_redis_error == RATION_POLICY_FALLBACK_DENY && !limit->is_shadow)
            return false;
        if (limit->on_redis_error != RATION_POLICY_FALLBACK_LOCAL)
            continue;
        prepared->match.limits[count] = prepared->match.limits[i];
        prepared->keys[count] = prepared->keys[i];
        prepared->limiter_calls[count] = prepared->limiter_calls[i];
        prepared->limiter_calls[count].request = &prepared->keys[count];
        count++;
    }
    prepared->match.limit_count = count;
    return true;
}

/* Decides by this node's share of the inline limit. */
static void decide_inline_locally(struct ration_pending_check *pending)
{
    ration_engine *engine = pending->batch->connection->engine;
    struct ration_limit share = ration_engine_share(engine->remote, &pending->limit);
    struct ration_batch_item item = {
        .request = &pending->prepared.keys[0],
        .cost_tokens = pending->check.cost_tokens,
        .limit = &share,
        .decision = &pending->check.decision,
        .is_peek = pending->check.is_peek,
    };

    ration_limiter_take_batch(engine->inline_limit, &item, 1, pending->batch->now_ns);
    pending->check.status = item.status;
}

void ration_pending_check_decide_without_redis(struct ration_pending_check *pending)
{
    ration_engine_batch *batch = pending->batch;
    ration_engine *engine = batch->connection->engine;
    struct ration_check *check = &pending->check;

    ration_epoch_add(&engine->epoch, RATION_EPOCH_DEGRADED);
    if (pending->is_inline) {
        decide_inline_locally(pending);
    } else if (!keep_local_limits(batch->plan, &pending->prepared)) {
        ration_engine_fail_check(engine, check, RATION_ESTORE,
                                 "Redis is unavailable, and the policy denies requests without it");
    } else {
        check->part_count = pending->prepared.match.limit_count;
        ration_engine_decide(engine, batch->plan, check, &pending->prepared, batch->now_ns);
    }
    check->is_degraded = 1;
}

/* Answers -------------------------------------------------------------------------------------- */

void ration_engine_batch_complete(ration_engine_batch *batch)
{
    if (batch->unanswered_count > 0 || batch->is_sending)
        return;
    if (batch->is_abandoned)
        free_batch(batch);
    else
        batch->done(batch->context);
}

void ration_pending_check_answer(struct ration_pending_check *pending,
                                 const struct ration_redis_take_result *result,
                                 struct ration_redis_grant grant)
{
    ration_engine_batch *batch = pending->batch;
    struct ration_remote_check remote_check = ration_pending_check_remote(pending);

    if (result != NULL)
        ration_pending_check_learn(pending, result, grant);
    else
        ration_pending_check_report_debt_again(pending);
    if (result != NULL && result->decision.verdict == RATION_ALLOW)
        ration_pending_check_acquire_leases(pending);
    if (!batch->is_abandoned && result != NULL)
        ration_remote_check_report(&remote_check, result);
    else if (!batch->is_abandoned)
        ration_pending_check_decide_without_redis(pending);
    ration_pending_check_serve_followers(pending, result != NULL);
    /* only now: the followers may be the last checks of the same batch */
    batch->unanswered_count--;
    ration_engine_batch_complete(batch);
}

static void on_decided(void *context, const struct ration_redis_take_result *result,
                       enum ration_redis_undecided why)
{
    struct ration_pending_check *pending = context;

    if (result == NULL && why == RATION_REDIS_UNKNOWN) /* Redis may have received the debts */
        memset(pending->debt_tokens, 0, sizeof(pending->debt_tokens));
    ration_pending_check_answer(pending, result, (struct ration_redis_grant){0, 0});
}

void ration_pending_check_send(struct ration_pending_check *pending)
{
    ration_engine_batch *batch = pending->batch;
    const struct ration_engine_prepared *prepared = &pending->prepared;
    struct ration_redis_take_request request = {
        .is_peek = pending->check.is_peek,
        .has_now = batch->connection->engine->remote->has_manual_clock,
        .now_ns = batch->now_ns,
        .deadline_ns = pending->deadline_ns > 0 ? pending->deadline_ns : batch->deadline_ns,
        .part_count = prepared->match.limit_count,
    };

    for (uint32_t i = 0; i < request.part_count; i++) {
        const struct ration_policy_limit *limit =
            pending->is_inline
                ? NULL
                : ration_policy_limit_at(batch->plan->policy, prepared->match.limits[i]);

        request.parts[i] = (struct ration_redis_part){
            .limit = limit != NULL ? &limit->limit : &pending->limit,
            .key = prepared->keys[i],
            .cost_tokens = prepared->limiter_calls[i].cost_tokens,
            .stale_after_ns = limit != NULL && limit->stale_after_ns > 0 ? limit->stale_after_ns
                                                                         : RATION_NS_PER_DAY,
            .changed_ago_ns =
                limit != NULL ? ration_engine_changed_ago_ns(batch->plan, prepared->match.limits[i],
                                                             batch->now_ns)
                              : 0,
            .is_shadow = limit != NULL && limit->is_shadow,
            .is_given = limit == NULL,
        };
        pending->debt_tokens[i] = limit == NULL ? 0 : ration_pending_check_drain_debt(pending, i);
        request.parts[i].debt_tokens = pending->debt_tokens[i];
    }
    batch->unanswered_count++;
    ration_redis_client_take(batch->connection->client, &request, on_decided, pending);
}

void ration_engine_batch_flush(ration_engine_batch *batch, size_t index)
{
    if (batch->connection->poll_loop != NULL && index % POLL_EVERY == POLL_EVERY - 1)
        ration_poll_loop_poll(batch->connection->poll_loop);
}

bool ration_engine_batch_send(ration_engine_batch *batch)
{
    struct ration_pending_check *leaders = NULL;

    batch->is_sending = true;
    /* the caller may have waited for a connection, or added checks over several iterations of its loop */
    batch->now_ns = ration_engine_remote_now(batch->connection->engine, batch->now_ns);
    for (size_t i = 0; i < batch->count; i++) {
        struct ration_pending_check *pending = batch->pending_checks[i];
        struct ration_remote_check remote_check = ration_pending_check_remote(pending);

        ration_engine_batch_flush(batch, i);
        if (pending->check.status != RATION_OK)
            continue;
        if (pending->prepared.match.limit_count == 0)
            ration_engine_answer_without_limits(batch->connection->engine, &pending->check);
        else if (!ration_remote_check_is_local(&remote_check))
            ration_pending_check_send(pending);
        else if (ration_pending_check_decide_locally(pending))
            continue;
        else if (ration_pending_check_has_lease(pending))
            ration_pending_check_join(pending, &leaders);
        else
            ration_pending_check_send(pending);
    }
    ration_pending_check_send_leaders(leaders);
    batch->is_sending = false;
    return batch->unanswered_count == 0;
}
