/*
 * admin_op: refund, reset and block for the keys of a request, limit by limit, in memory.
 */
#include <string.h>

#include "engine/remote.h"
#include "limiter/limiter_internal.h"

/* The operation, without its attributes. */
struct op_args {
    enum ration_admin_op_kind kind;
    uint64_t cost_tokens;
    uint64_t until_ns;
    uint64_t now_ns;
};

bool ration_engine_admin_applies(const struct ration_policy_limit *limit,
                                 const struct ration_admin_op *op, enum ration_admin_op_kind kind)
{
    if (op->limit_name != NULL)
        return strcmp(limit->limit.name, op->limit_name) == 0;
    return kind == RATION_ADMIN_REFUND || limit->key_count > 0;
}

static ration_limiter *limiter_at(const struct ration_engine *engine,
                                  const struct ration_engine_plan *plan, uint32_t limit_index)
{
    return engine->stack->limiters[plan->limiter_indexes[limit_index]];
}

/*
 * Blocks the key in its bucket, or where the bucket's state cannot express that, in engine->blocks. Shadow limits
 * deny no request.
 */
static ration_status block_in_limit(ration_engine *engine, const struct ration_engine_plan *plan,
                                    uint32_t limit_index, const struct ration_key *key,
                                    const struct op_args *args)
{
    const struct ration_policy_limit *limit = ration_policy_limit_at(plan->policy, limit_index);
    ration_status status = RATION_EUNSUPPORTED;

    if (limit->is_shadow)
        return status;
    if (ration_bucket_state_can_block(&limit->limit))
        status = ration_limiter_block_until(limiter_at(engine, plan, limit_index), key,
                                            args->until_ns, args->now_ns);
    if (status == RATION_EUNSUPPORTED) /* also if a reload has just changed the limiter */
        status = ration_engine_block_key(engine, &plan->block_secrets[limit_index], key,
                                         args->until_ns, args->now_ns);
    return status;
}

static ration_status reset_in_limit(ration_engine *engine, const struct ration_engine_plan *plan,
                                    uint32_t limit_index, const struct ration_key *key,
                                    uint64_t now_ns)
{
    ration_status status = ration_limiter_reset(limiter_at(engine, plan, limit_index), key, now_ns);

    if (status != RATION_OK)
        return status;
    return ration_engine_unblock_key(engine, &plan->block_secrets[limit_index], key, now_ns);
}

/* A key of a limit, which may be stored in room, and its cost. */
struct target {
    struct ration_key key;
    uint64_t cost_tokens;
    char room[RATION_CHECK_KEYS_ROOM];
};

static bool find_target(const struct ration_engine_plan *plan, uint32_t limit_index,
                        const struct ration_admin_op *op, const struct op_args *args,
                        struct target *target)
{
    return ration_policy_key(plan->policy, limit_index, op->attributes, op->attribute_count,
                             target->room, sizeof(target->room), &target->key) == RATION_OK &&
           ration_policy_cost(plan->policy, limit_index, op->attributes, op->attribute_count,
                              args->cost_tokens, &target->cost_tokens) == RATION_OK;
}

static ration_status change_limit(ration_engine *engine, const struct ration_engine_plan *plan,
                                  uint32_t limit_index, const struct ration_admin_op *op,
                                  const struct op_args *args)
{
    struct target target;

    if (!find_target(plan, limit_index, op, args, &target))
        return RATION_EINVAL;
    switch (args->kind) {
    case RATION_ADMIN_REFUND:
        return ration_limiter_refund(limiter_at(engine, plan, limit_index), &target.key,
                                     target.cost_tokens, args->now_ns);
    case RATION_ADMIN_RESET:
        return reset_in_limit(engine, plan, limit_index, &target.key, args->now_ns);
    default:
        return block_in_limit(engine, plan, limit_index, &target.key, args);
    }
}

static bool is_selected(const struct ration_engine_plan *plan, uint32_t limit_index,
                        const struct ration_admin_op *op, const struct op_args *args)
{
    return ration_engine_admin_applies(ration_policy_limit_at(plan->policy, limit_index), op,
                                       args->kind);
}

/* Whether every limit has a valid key and cost: if not, no limit is changed. */
static bool are_targets_valid(const struct ration_engine_plan *plan,
                              const struct ration_policy_match *match,
                              const struct ration_admin_op *op, const struct op_args *args)
{
    struct target target;

    for (uint32_t i = 0; i < match->limit_count; i++)
        if (is_selected(plan, match->limits[i], op, args) &&
            !find_target(plan, match->limits[i], op, args, &target))
            return false;
    return true;
}

ration_status ration_engine_match_admin_op(const struct ration_engine *engine,
                                           const ration_policy *policy,
                                           const struct ration_admin_op *op,
                                           struct ration_policy_match *out_match)
{
    const char *reason;
    uint64_t steps;

    return ration_engine_match(engine, policy, op->attributes, op->attribute_count, out_match,
                               op->match_steps != NULL ? op->match_steps : &steps, &reason);
}

/* A limit that cannot be blocked is an error only if no other limit is changed. Returns the first other error. */
static ration_status change_limits(ration_engine *engine, const struct ration_engine_plan *plan,
                                   const struct ration_admin_op *op, const struct op_args *args,
                                   size_t *out_count)
{
    struct ration_policy_match match;
    ration_status result = RATION_OK;
    size_t unsupported_count = 0;
    size_t count = 0;

    if (ration_engine_match_admin_op(engine, plan->policy, op, &match) != RATION_OK ||
        !are_targets_valid(plan, &match, op, args))
        return RATION_EINVAL;
    for (uint32_t i = 0; i < match.limit_count; i++) {
        uint32_t limit_index = match.limits[i];
        ration_status status;

        if (!is_selected(plan, limit_index, op, args))
            continue;
        status = change_limit(engine, plan, limit_index, op, args);
        if (status == RATION_OK)
            count++;
        else if (status == RATION_EUNSUPPORTED)
            unsupported_count++;
        else if (result == RATION_OK)
            result = status;
    }
    if (result == RATION_OK && count == 0 && unsupported_count > 0)
        result = RATION_EUNSUPPORTED;
    if (result == RATION_OK && out_count != NULL)
        *out_count = count;
    return result;
}

static ration_status run_admin_op(ration_engine *engine, const struct ration_admin_op *op,
                                  const struct op_args *args, size_t *out_count)
{
    struct ration_engine_guard guard;
    ration_status status;

    if (engine->remote != NULL) {
        struct ration_engine_admin_task remote = {
            .kind = args->kind,
            .op = op,
            .tokens = args->cost_tokens,
            .until_ns = args->until_ns,
            .now_ns = args->now_ns,
        };

        return ration_engine_admin_remote(engine, &remote, out_count);
    }
    ration_engine_guard_plan(engine, op->guard, &guard);
    status = change_limits(engine, guard.plan, op, args, out_count);
    ration_engine_unlock(&guard);
    return status;
}

ration_status ration_engine_refund(ration_engine *engine, const struct ration_admin_op *op,
                                   uint64_t cost_tokens, uint64_t now_ns, size_t *out_count)
{
    struct op_args args = {
        .kind = RATION_ADMIN_REFUND, .cost_tokens = cost_tokens, .now_ns = now_ns};

    return run_admin_op(engine, op, &args, out_count);
}

ration_status ration_engine_reset(ration_engine *engine, const struct ration_admin_op *op,
                                  uint64_t now_ns, size_t *out_count)
{
    struct op_args args = {.kind = RATION_ADMIN_RESET, .now_ns = now_ns};

    return run_admin_op(engine, op, &args, out_count);
}

ration_status ration_engine_block_until(ration_engine *engine, const struct ration_admin_op *op,
                                        uint64_t until_ns, uint64_t now_ns, size_t *out_count)
{
    struct op_args args = {.kind = RATION_ADMIN_BLOCK, .until_ns = until_ns, .now_ns = now_ns};

    if (!ration_limiter_block_fits(until_ns, now_ns))
        return RATION_ERANGE;
    return run_admin_op(engine, op, &args, out_count);
}
