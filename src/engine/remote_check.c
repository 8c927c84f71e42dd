#include "engine/remote_check.h"

#include "limiter/limiter_counts.h"
#include "limiter/limiter_internal.h"

/* Counts the result in the statistics of the limiters, which count only their own decisions. */
static void count_result(const struct ration_remote_check *remote_check,
                         const struct ration_redis_take_result *result)
{
    struct ration_op op = {
        .kind = RATION_OP_TAKE, .has_details = true, .decision = result->decision};

    for (uint32_t i = 0; i < remote_check->prepared->match.limit_count; i++) {
        const struct ration_call_request *request = &remote_check->prepared->limiter_calls[i];
        const struct ration_limit *limit = remote_check->inline_limit;
        struct ration_key_part part = {
            .to = {.key = remote_check->prepared->keys[i]},
            .rule_count = 1,
            .costs = {request->cost_tokens},
            .verdicts = {result->parts[i].verdict},
            .decisions = {result->parts[i]},
        };

        if (limit == NULL) {
            const struct ration_policy_limit *policy_limit = ration_policy_limit_at(
                remote_check->plan->policy, remote_check->prepared->match.limits[i]);

            limit = &policy_limit->limit;
            part.shadow_mask = policy_limit->is_shadow;
        }
        part.limits[0] = limit;
        ration_limiter_counts_add_result(&request->limiter->counts, &op, &part);
    }
}

void ration_remote_check_report(const struct ration_remote_check *remote_check,
                                const struct ration_redis_take_result *result)
{
    struct ration_check *check = remote_check->check;

    check->decision = result->decision;
    check->status = RATION_OK;
    if (!check->is_peek)
        count_result(remote_check, result);
    if (remote_check->inline_limit != NULL) {
        check->decision.limiter_index = 0;
        check->limit = NULL;
        return;
    }
    ration_engine_write_result(remote_check->plan, check, remote_check->prepared, result->parts,
                               result->decision.limit > 0 ? (int)result->decision.limiter_index
                                                          : -1);
}

struct ration_local_cache_request ration_remote_check_request(
    const struct ration_remote_check *remote_check, uint32_t part)
{
    uint32_t limit_index = remote_check->prepared->match.limits[part];

    return (struct ration_local_cache_request){
        .limit = ration_policy_limit_at(remote_check->plan->policy, limit_index),
        .secret = &remote_check->plan->block_secrets[limit_index],
        .key = &remote_check->prepared->keys[part],
        .cost_tokens = remote_check->prepared->limiter_calls[part].cost_tokens,
        .node_count = remote_check->engine->remote->options->node_count,
    };
}

bool ration_remote_check_is_local(const struct ration_remote_check *remote_check)
{
    if (remote_check->inline_limit != NULL || remote_check->check->is_peek)
        return false;
    for (uint32_t i = 0; i < remote_check->prepared->match.limit_count; i++) {
        const struct ration_policy_limit *limit = ration_policy_limit_at(
            remote_check->plan->policy, remote_check->prepared->match.limits[i]);

        if (limit->mode == RATION_POLICY_STRICT || limit->is_shadow ||
            remote_check->prepared->limiter_calls[i].cost_tokens == 0)
            return false;
    }
    return true;
}

/* The limit that denies has decided, or the one with the fewest tokens left. */
static void report_local(const struct ration_remote_check *remote_check,
                         const struct ration_local_cache_result *results, int denied)
{
    struct ration_redis_take_result result;
    uint32_t binding = denied >= 0 ? (uint32_t)denied : 0;

    result.now_ns = remote_check->now_ns;
    for (uint32_t i = 0; i < remote_check->prepared->match.limit_count; i++) {
        result.parts[i] = results[i].decision;
        if (denied < 0 && result.parts[i].remaining < result.parts[binding].remaining)
            binding = i;
    }
    result.decision = result.parts[binding];
    result.decision.limiter_index = binding;
    ration_remote_check_report(remote_check, &result);
}

/* Returns the tokens of the first limits, because a later limit denies or needs Redis. */
static void put_back_first(const struct ration_remote_check *remote_check,
                           const struct ration_local_cache_result *results, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        struct ration_local_cache_request request = ration_remote_check_request(remote_check, i);

        ration_local_cache_put_back(remote_check->engine->remote->local_cache, &request,
                                    &results[i], remote_check->now_ns);
    }
}

bool ration_remote_check_decide_locally(const struct ration_remote_check *remote_check,
                                        struct ration_lease_requests *out_requests)
{
    struct ration_local_cache_result results[RATION_POLICY_MATCHES_MAX];
    enum ration_local_cache_answer answer = RATION_LOCAL_CACHE_TAKEN;
    uint32_t tried_count = 0, limit_count = remote_check->prepared->match.limit_count;

    out_requests->count = 0;
    for (; tried_count < limit_count && answer == RATION_LOCAL_CACHE_TAKEN; tried_count++) {
        struct ration_local_cache_request request =
            ration_remote_check_request(remote_check, tried_count);

        answer = ration_local_cache_take(remote_check->engine->remote->local_cache, &request,
                                         remote_check->now_ns, &results[tried_count]);
    }
    if (answer != RATION_LOCAL_CACHE_TAKEN)
        put_back_first(remote_check, results, tried_count - 1);
    if (answer == RATION_LOCAL_CACHE_MISS)
        return false;
    for (uint32_t i = 0; i < tried_count && answer == RATION_LOCAL_CACHE_TAKEN; i++)
        if (results[i].lease_tokens > 0) {
            out_requests->parts[out_requests->count] = i;
            out_requests->tokens[out_requests->count++] = results[i].lease_tokens;
        }
    for (uint32_t i = tried_count; i < limit_count; i++) /* after the limit that denied */
        results[i].decision = (struct ration_decision){
            .verdict = RATION_ALLOW,
            .limit = ration_remote_check_request(remote_check, i).limit->limit.burst};
    ration_epoch_add(&remote_check->engine->epoch, RATION_EPOCH_LOCAL);
    report_local(remote_check, results,
                 answer == RATION_LOCAL_CACHE_DENIED ? (int)tried_count - 1 : -1);
    return true;
}
