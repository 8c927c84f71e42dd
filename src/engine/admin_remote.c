/*
 * admin_remote: admin operations on buckets in Redis, one bucket after the other.
 *
 * A script changes token buckets. Any other bucket is read, its next state is computed here by the same functions as in
 * memory, and the bucket is replaced if it has not changed in between. If it has, all of that is repeated, until the
 * deadline.
 */
#include <stdlib.h>
#include <string.h>

#include "engine/engine_connection.h"
#include "engine/local_cache.h"
#include "engine/remote.h"
#include "limiter/bucket_state.h"
#include "limiter/limiter_internal.h"
#include "redis/redis_admin.h"

#define KEEP_EXTRA_MS 3600000 /* added to the expiry if the engine sends its own time to Redis */

/* A bucket to change. */
struct target {
    const struct ration_limit *limit;
    const struct ration_policy_limit *rule; /* NULL: an inline limit */
    const struct ration_hash *secret;       /* the rule's */
    struct ration_key key;
    uint64_t tokens;
    uint64_t keep_ms;
    uint64_t changed_ago_ns; /* time since the limit last changed */
};

struct ration_engine_admin_run {
    ration_engine_connection *connection;
    struct ration_engine_guard guard;
    enum ration_admin_op_kind kind;
    uint64_t until_ns;
    uint64_t now_ns;
    ration_engine_admin_done *done; /* NULL: the caller does not want the result */
    void *context;
    bool is_beginning;
    bool is_over;

    size_t index;         /* of the current target */
    uint64_t deadline_ns; /* of all calls for the current target */
    ration_status status;
    size_t changed_count;
    size_t unsupported_count;
    size_t target_count;
    struct target *targets;
    char *keys;
    struct ration_limit inline_limit;
};

static void change_next_target(struct ration_engine_admin_run *run);
static void read_bucket(struct ration_engine_admin_run *run);

static void free_run(struct ration_engine_admin_run *run)
{
    ration_engine_unlock(&run->guard);
    free(run->targets);
    free(run->keys);
    free(run);
}

static void finish_run(struct ration_engine_admin_run *run)
{
    ration_status status = run->status;

    if (status == RATION_OK && run->changed_count == 0 && run->unsupported_count > 0)
        status = RATION_EUNSUPPORTED;
    if (run->done != NULL)
        run->done(run->context, status, run->changed_count);
    run->is_over = true;
    if (!run->is_beginning)
        free_run(run);
}

/* One target ------------------------------------------------------------------------------------ */

static const struct target *current_target(const struct ration_engine_admin_run *run)
{
    return &run->targets[run->index];
}

static struct ration_redis_bucket current_bucket(const struct ration_engine_admin_run *run)
{
    const struct target *target = current_target(run);

    return (struct ration_redis_bucket){target->limit, target->key,
                                        target->limit == &run->inline_limit};
}

/* Drops what the local cache knows about the bucket. */
static void invalidate_local(const struct ration_engine_admin_run *run)
{
    const struct ration_engine_remote *remote = run->connection->engine->remote;
    const struct target *target = current_target(run);
    struct ration_local_cache_request request = {
        .limit = target->rule,
        .secret = target->secret,
        .key = &target->key,
        .cost_tokens = 1,
        .node_count = remote->options->node_count,
    };

    if (target->rule != NULL)
        ration_local_cache_apply_admin(remote->local_cache, &request, run->kind, run->now_ns);
}

static void finish_target(struct ration_engine_admin_run *run)
{
    invalidate_local(run);
    run->index++;
    change_next_target(run);
}

static void fail_run(struct ration_engine_admin_run *run)
{
    invalidate_local(run); /* Redis may have changed the bucket */
    run->status = RATION_ESTORE;
    finish_run(run);
}

static void on_removed(void *context, uint64_t count, bool is_known)
{
    struct ration_engine_admin_run *run = context;

    if (!is_known) {
        fail_run(run);
        return;
    }
    /* for the policy's limits every target is counted; for inline limits only buckets that existed */
    run->changed_count += current_target(run)->limit == &run->inline_limit ? count : 1;
    finish_target(run);
}

/* Deletes the bucket, whatever its state. */
static void remove_bucket(struct ration_engine_admin_run *run)
{
    struct ration_redis_bucket bucket = current_bucket(run);

    ration_redis_remove(run->connection->client, &bucket, run->deadline_ns, on_removed, run);
}

static void on_swapped(void *context, uint64_t count, bool is_known)
{
    struct ration_engine_admin_run *run = context;

    if (!is_known) {
        fail_run(run);
    } else if (count == 0) {
        read_bucket(run);
    } else {
        run->changed_count++;
        finish_target(run);
    }
}

/* Whether the bucket does not exist and its next state is that of an unused key: then nothing is written. */
static bool is_still_unused(const struct ration_redis_take_result *result,
                            const struct ration_redis_next *next)
{
    return result->texts[0].bytes == NULL && next->blocked_ns == 0 &&
           memcmp(&next->any.state, &result->befores[0].state, sizeof(next->any.state)) == 0;
}

static void on_bucket_read(void *context, const struct ration_redis_take_result *result,
                           enum ration_redis_undecided why)
{
    struct ration_engine_admin_run *run = context;
    const struct target *target = current_target(run);
    struct ration_redis_bucket bucket = current_bucket(run);
    struct ration_redis_next next = {.keep_ms = target->keep_ms};
    uint64_t until_ns; /* run->until_ns by the clock of the answer */

    if (result == NULL) {
        if (run->kind == RATION_ADMIN_RESET && why == RATION_REDIS_NOT_DONE)
            remove_bucket(run);
        else
            fail_run(run);
        return;
    }
    if (run->kind == RATION_ADMIN_RESET && result->texts[0].bytes == NULL) {
        on_swapped(run, 1, true); /* the bucket starts with its first request */
        return;
    }
    until_ns = result->now_ns + (run->until_ns > run->now_ns ? run->until_ns - run->now_ns : 0);
    next.any = result->befores[0];
    next.blocked_ns = result->blocks_ns[0];
    if (run->kind == RATION_ADMIN_RESET) {
        next.any = ration_bucket_state_start(&next.any, result->now_ns);
        next.blocked_ns = 0;
    } else if (run->kind == RATION_ADMIN_REFUND) {
        next.any = ration_bucket_state_refund(&next.any, target->tokens, result->now_ns);
    } else if (ration_bucket_state_can_block(target->limit)) {
        next.any = ration_bucket_state_block(&next.any, until_ns);
    } else if (next.blocked_ns < until_ns) {
        next.blocked_ns = until_ns;
    }
    if (is_still_unused(result, &next))
        on_swapped(run, 1, true);
    else
        ration_redis_swap(run->connection->client, &bucket, result, &next, run->deadline_ns,
                          on_swapped, run);
}

static void read_bucket(struct ration_engine_admin_run *run)
{
    struct ration_redis_bucket bucket = current_bucket(run);
    struct ration_redis_take_request request = {
        .is_peek = true,
        .has_now = run->connection->engine->remote->has_manual_clock,
        .now_ns = run->now_ns,
        .deadline_ns = run->deadline_ns,
        .part_count = 1,
        .parts = {{.limit = bucket.limit,
                   .key = bucket.key,
                   .changed_ago_ns = current_target(run)->changed_ago_ns,
                   .is_given = bucket.is_given}},
    };

    ration_redis_client_take(run->connection->client, &request, on_bucket_read, run);
}

static void on_admin_done(void *context, enum ration_redis_admin_outcome outcome)
{
    struct ration_engine_admin_run *run = context;

    if (outcome == RATION_REDIS_ADMIN_SCHEMA_MISMATCH)
        read_bucket(run);
    else if (outcome == RATION_REDIS_ADMIN_ERROR && run->kind == RATION_ADMIN_RESET)
        remove_bucket(run);
    else if (outcome == RATION_REDIS_ADMIN_ERROR)
        fail_run(run);
    else if (run->kind == RATION_ADMIN_RESET)
        on_removed(run, outcome == RATION_REDIS_ADMIN_DONE, outcome != RATION_REDIS_ADMIN_UNKNOWN);
    else
        on_swapped(run, 1, outcome != RATION_REDIS_ADMIN_UNKNOWN);
}

static void run_script(struct ration_engine_admin_run *run)
{
    static const enum ration_redis_admin_kind kinds[] = {
        [RATION_ADMIN_REFUND] = RATION_REDIS_REFUND,
        [RATION_ADMIN_RESET] = RATION_REDIS_FILL,
        [RATION_ADMIN_BLOCK] = RATION_REDIS_BLOCK,
    };
    struct ration_redis_admin op = {
        .bucket = current_bucket(run),
        .kind = kinds[run->kind],
        .tokens = current_target(run)->tokens,
        .block_ns = run->until_ns > run->now_ns ? run->until_ns - run->now_ns : 0,
        .has_now = run->connection->engine->remote->has_manual_clock,
        .now_ns = run->now_ns,
    };

    ration_redis_admin(run->connection->client, &op, run->deadline_ns, on_admin_done, run);
}

static void change_next_target(struct ration_engine_admin_run *run)
{
    struct ration_redis_bucket bucket;

    if (run->index == run->target_count) {
        finish_run(run);
        return;
    }
    bucket = current_bucket(run);
    run->deadline_ns = ration_redis_client_deadline(run->connection->client);
    /* A bucket that starts full equals a deleted one. Any other bucket starts now. */
    if (ration_redis_admin_is_supported(bucket.limit))
        run_script(run);
    /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): each target has a limit */
    else if (run->kind == RATION_ADMIN_RESET && bucket.limit->start == RATION_START_FULL)
        remove_bucket(run);
    else
        read_bucket(run);
}

/* All of them ------------------------------------------------------------------------------------ */

static uint64_t keep_ms_of(const struct ration_engine *engine,
                           const struct ration_policy_limit *limit)
{
    uint64_t stale_ns = limit == NULL || limit->limit.start == RATION_START_FULL ? 0
                        : limit->stale_after_ns > 0 ? limit->stale_after_ns
                                                    : RATION_NS_PER_DAY;

    return stale_ns / RATION_NS_PER_MS + (engine->remote->has_manual_clock ? KEEP_EXTRA_MS : 0);
}

/* Copies a target and its key. */
static void add_target(struct ration_engine_admin_run *run, const struct target *target,
                       size_t *keys_used)
{
    struct target *copy = &run->targets[run->target_count++];

    *copy = *target;
    if (target->key.size > 0)
        memcpy(run->keys + *keys_used, target->key.bytes, target->key.size);
    copy->key.bytes = run->keys + *keys_used;
    *keys_used += target->key.size;
}

/* Adds the limits of a request as targets. */
static ration_status add_limit_targets(struct ration_engine_admin_run *run,
                                       const struct ration_engine_admin_task *task)
{
    const struct ration_engine *engine = run->connection->engine;
    const struct ration_engine_plan *plan = run->guard.plan;
    const ration_policy *policy = plan->policy;
    const struct ration_admin_op *op = task->op;
    struct ration_policy_match match;
    size_t keys_used = 0;

    run->targets = calloc(RATION_POLICY_MATCHES_MAX, sizeof(run->targets[0]));
    run->keys = malloc((size_t)RATION_POLICY_MATCHES_MAX * (RATION_KEY_SIZE_MAX + 1));
    if (run->targets == NULL || run->keys == NULL)
        return RATION_ENOMEM;
    if (ration_engine_match_admin_op(engine, policy, op, &match) != RATION_OK)
        return RATION_EINVAL;
    for (uint32_t i = 0; i < match.limit_count; i++) {
        const struct ration_policy_limit *limit = ration_policy_limit_at(policy, match.limits[i]);
        struct target target = {
            .limit = &limit->limit,
            .rule = limit,
            .secret = &plan->block_secrets[match.limits[i]],
            .keep_ms = keep_ms_of(engine, limit),
            .changed_ago_ns = ration_engine_changed_ago_ns(plan, match.limits[i], task->now_ns)};
        char room[RATION_CHECK_KEYS_ROOM];

        if (!ration_engine_admin_applies(limit, op, task->kind))
            continue;
        if (ration_policy_key(policy, match.limits[i], op->attributes, op->attribute_count, room,
                              sizeof(room), &target.key) != RATION_OK ||
            ration_policy_cost(policy, match.limits[i], op->attributes, op->attribute_count,
                               task->tokens, &target.tokens) != RATION_OK)
            return RATION_EINVAL;
        if (task->kind == RATION_ADMIN_BLOCK && limit->is_shadow)
            run->unsupported_count++;
        else
            add_target(run, &target, &keys_used);
    }
    return RATION_OK;
}

/* Adds keys of inline limits as targets. */
static ration_status add_inline_targets(struct ration_engine_admin_run *run,
                                        const struct ration_engine_admin_task *task)
{
    size_t size = 1, keys_used = 0;

    if (task->limit != NULL)
        run->inline_limit = *task->limit;
    else
        /* any: a block or a reset does not depend on it */
        (void)ration_limit_per_second(1, &run->inline_limit);
    strcpy(run->inline_limit.name, RATION_POLICY_INLINE);
    for (size_t i = 0; i < task->key_count; i++)
        size += task->keys[i].size;
    run->targets = calloc(task->key_count + 1, sizeof(run->targets[0]));
    run->keys = malloc(size);
    if (run->targets == NULL || run->keys == NULL)
        return RATION_ENOMEM;
    for (size_t i = 0; i < task->key_count; i++) {
        struct target target = {.limit = &run->inline_limit,
                                .key = task->keys[i],
                                .tokens = task->tokens,
                                .keep_ms = keep_ms_of(run->connection->engine, NULL)};

        add_target(run, &target, &keys_used);
    }
    return RATION_OK;
}

static ration_status add_targets(struct ration_engine_admin_run *run,
                                 const struct ration_engine_admin_task *task)
{
    if (task->kind == RATION_ADMIN_BLOCK &&
        !ration_limiter_block_fits(task->until_ns, task->now_ns))
        return RATION_ERANGE;
    return task->op != NULL ? add_limit_targets(run, task) : add_inline_targets(run, task);
}

ration_engine_admin_run *ration_engine_admin_begin(ration_engine_connection *connection,
                                                   const struct ration_engine_admin_task *task,
                                                   ration_engine_admin_done *done, void *context)
{
    struct ration_engine_admin_run *run;

    if ((unsigned)task->kind > RATION_ADMIN_BLOCK) {
        done(context, RATION_EINVAL, 0);
        return NULL;
    }
    run = calloc(1, sizeof(*run));
    if (run == NULL) {
        done(context, RATION_ENOMEM, 0);
        return NULL;
    }
    run->connection = connection;
    ration_engine_guard_plan(connection->engine, task->op != NULL ? task->op->guard : NULL,
                             &run->guard);
    run->kind = task->kind;
    run->until_ns = task->until_ns;
    run->now_ns = task->now_ns;
    run->done = done;
    run->context = context;
    run->status = add_targets(run, task);
    run->is_beginning = true;
    if (run->status == RATION_OK)
        change_next_target(run);
    else
        finish_run(run);
    run->is_beginning = false;
    if (!run->is_over)
        return run;
    free_run(run);
    return NULL;
}

void ration_engine_admin_forget(ration_engine_admin_run *run)
{
    if (run != NULL)
        run->done = NULL;
}
