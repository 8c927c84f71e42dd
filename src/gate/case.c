#include "gate/case.h"

#include "limiter/limiter.h"
#include "limiter/tally.h"

/* What memory counts by itself. */
static void count(const struct ration_gate_case *c, const struct ration_redis_told *told)
{
    struct ration_op op = {.kind = RATION_OP_TAKE, .has_details = true, .decision = told->decision};

    for (uint32_t i = 0; i < c->prepared->match.limit_count; i++) {
        const struct ration_call_ask *ask = &c->prepared->asks[i];
        struct ration_op_part part = {
            .to = {.config = ration_configs_current(&ask->limiter->configs),
                   .key = c->prepared->keys[i]},
            .limits = {c->given},
            .costs = {ask->cost_tokens},
            .verdicts = {told->parts[i].verdict},
            .decisions = {told->parts[i]},
        };

        ration_tally_part(&ask->limiter->tally, &op, &part);
    }
}

void ration_gate_case_tell(const struct ration_gate_case *c, const struct ration_redis_told *told)
{
    struct ration_check *check = c->check;

    check->decision = told->decision;
    check->status = RATION_OK;
    if (!check->is_peek)
        count(c, told);
    if (c->given != NULL) {
        check->decision.limiter_index = 0;
        check->limit = NULL;
        return;
    }
    ration_gate_tell(c->plan, check, c->prepared, told->parts,
                     told->decision.limit > 0 ? (int)told->decision.limiter_index : -1);
}

struct ration_near_ask ration_gate_case_ask(const struct ration_gate_case *c, uint32_t part)
{
    uint32_t limit_index = c->prepared->match.limits[part];

    return (struct ration_near_ask){
        .limit = ration_policy_limit_at(c->plan->policy, limit_index),
        .secret = &c->plan->hold_secrets[limit_index],
        .key = &c->prepared->keys[part],
        .cost_tokens = c->prepared->asks[part].cost_tokens,
        .node_count = c->gate->remote->options->node_count,
    };
}

bool ration_gate_case_is_near(const struct ration_gate_case *c)
{
    if (c->given != NULL || c->check->is_peek)
        return false;
    for (uint32_t i = 0; i < c->prepared->match.limit_count; i++) {
        const struct ration_policy_limit *limit =
            ration_policy_limit_at(c->plan->policy, c->prepared->match.limits[i]);

        if (limit->mode == RATION_POLICY_STRICT || limit->is_shadow ||
            c->prepared->asks[i].cost_tokens == 0)
            return false;
    }
    return true;
}

/* The one that decided: it has the least left, or it denies. */
static void tell_near(const struct ration_gate_case *c, const struct ration_near_result *results,
                      int denied)
{
    struct ration_redis_told told;
    uint32_t binding = denied >= 0 ? (uint32_t)denied : 0;

    told.now_ns = c->now_ns;
    for (uint32_t i = 0; i < c->prepared->match.limit_count; i++) {
        told.parts[i] = results[i].decision;
        if (denied < 0 && told.parts[i].remaining < told.parts[binding].remaining)
            binding = i;
    }
    told.decision = told.parts[binding];
    told.decision.limiter_index = binding;
    ration_gate_case_tell(c, &told);
}

/* What is taken of some limits goes back if another one has to be asked, or denies. */
static void put_back(const struct ration_gate_case *c, const struct ration_near_result *results,
                     uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        struct ration_near_ask ask = ration_gate_case_ask(c, i);

        ration_near_put_back(c->gate->remote->near, &ask, &results[i], c->now_ns);
    }
}

bool ration_gate_case_decide_near(const struct ration_gate_case *c,
                                  struct ration_gate_draws *out_draws)
{
    struct ration_near_result results[RATION_POLICY_MATCHES_MAX];
    enum ration_near_answer answer = RATION_NEAR_TAKEN;
    uint32_t asked = 0, limit_count = c->prepared->match.limit_count;

    out_draws->count = 0;
    for (; asked < limit_count && answer == RATION_NEAR_TAKEN; asked++) {
        struct ration_near_ask ask = ration_gate_case_ask(c, asked);

        answer = ration_near_take(c->gate->remote->near, &ask, c->now_ns, &results[asked]);
    }
    if (answer != RATION_NEAR_TAKEN)
        put_back(c, results, asked - 1);
    if (answer == RATION_NEAR_LACKS)
        return false;
    for (uint32_t i = 0; i < asked && answer == RATION_NEAR_TAKEN; i++)
        if (results[i].lease_tokens > 0) {
            out_draws->parts[out_draws->count] = i;
            out_draws->tokens[out_draws->count++] = results[i].lease_tokens;
        }
    for (uint32_t i = asked; i < limit_count; i++) /* not asked */
        results[i].decision = (struct ration_decision){
            .verdict = RATION_ALLOW, .limit = ration_gate_case_ask(c, i).limit->limit.burst};
    ration_grace_add(&c->gate->grace, RATION_GRACE_NEAR);
    tell_near(c, results, answer == RATION_NEAR_DENIED ? (int)asked - 1 : -1);
    return true;
}
