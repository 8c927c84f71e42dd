/*
 * edit: what is done to the keys of a request, limit by limit.
 */
#include <string.h>

#include "gate/remote.h"
#include "limiter/limiter.h"

struct task {
    enum ration_gate_edit_kind kind;
    uint64_t cost_tokens;
    uint64_t until_ns;
    uint64_t now_ns;
};

bool ration_gate_is_meant(const struct ration_policy_limit *limit, const struct ration_edit *edit,
                          enum ration_gate_edit_kind kind)
{
    if (edit->limit_name != NULL)
        return strcmp(limit->limit.name, edit->limit_name) == 0;
    return kind == RATION_EDIT_REFUND || limit->key_count > 0;
}

static ration_limiter *limiter_of(const struct ration_gate *gate,
                                  const struct ration_gate_plan *plan, uint32_t limit_index)
{
    return gate->stack->limiters[plan->limiter_indexes[limit_index]];
}

/* In its bucket, or where that cannot say it, beside it. Shadow limits deny nobody. */
static ration_status block(ration_gate *gate, const struct ration_gate_plan *plan,
                           uint32_t limit_index, const struct ration_key *key,
                           const struct task *task)
{
    const struct ration_policy_limit *limit = ration_policy_limit_at(plan->policy, limit_index);
    ration_status status = RATION_EUNFIT;

    if (limit->is_shadow)
        return status;
    if (ration_any_can_block(&limit->limit))
        status = ration_limiter_block_until(limiter_of(gate, plan, limit_index), key,
                                            task->until_ns, task->now_ns);
    if (status == RATION_EUNFIT) /* also if a reload has changed the limiter already */
        status = ration_gate_hold_until(gate, &plan->hold_secrets[limit_index], key, task->until_ns,
                                        task->now_ns);
    return status;
}

static ration_status reset(ration_gate *gate, const struct ration_gate_plan *plan,
                           uint32_t limit_index, const struct ration_key *key, uint64_t now_ns)
{
    ration_status status = ration_limiter_reset(limiter_of(gate, plan, limit_index), key, now_ns);

    if (status != RATION_OK)
        return status;
    return ration_gate_let_go(gate, &plan->hold_secrets[limit_index], key, now_ns);
}

/* What a limit is edited for: a key, which may lie in the room, and its cost. */
struct subject {
    struct ration_key key;
    uint64_t cost_tokens;
    char room[RATION_CHECK_KEYS_ROOM];
};

static bool find_subject(const struct ration_gate_plan *plan, uint32_t limit_index,
                         const struct ration_edit *edit, const struct task *task,
                         struct subject *subject)
{
    return ration_policy_key(plan->policy, limit_index, edit->attributes, edit->attribute_count,
                             subject->room, sizeof(subject->room), &subject->key) == RATION_OK &&
           ration_policy_cost(plan->policy, limit_index, edit->attributes, edit->attribute_count,
                              task->cost_tokens, &subject->cost_tokens) == RATION_OK;
}

static ration_status edit_limit(ration_gate *gate, const struct ration_gate_plan *plan,
                                uint32_t limit_index, const struct ration_edit *edit,
                                const struct task *task)
{
    struct subject subject;

    if (!find_subject(plan, limit_index, edit, task, &subject))
        return RATION_EINVAL;
    switch (task->kind) {
    case RATION_EDIT_REFUND:
        return ration_limiter_refund(limiter_of(gate, plan, limit_index), &subject.key,
                                     subject.cost_tokens, task->now_ns);
    case RATION_EDIT_RESET:
        return reset(gate, plan, limit_index, &subject.key, task->now_ns);
    default:
        return block(gate, plan, limit_index, &subject.key, task);
    }
}

static bool is_meant(const struct ration_gate_plan *plan, uint32_t limit_index,
                     const struct ration_edit *edit, const struct task *task)
{
    return ration_gate_is_meant(ration_policy_limit_at(plan->policy, limit_index), edit,
                                task->kind);
}

/* Whether each limit has its key and cost: if not, nothing is done to any. */
static bool is_whole(const struct ration_gate_plan *plan, const struct ration_policy_match *match,
                     const struct ration_edit *edit, const struct task *task)
{
    struct subject subject;

    for (uint32_t i = 0; i < match->limit_count; i++)
        if (is_meant(plan, match->limits[i], edit, task) &&
            !find_subject(plan, match->limits[i], edit, task, &subject))
            return false;
    return true;
}

ration_status ration_gate_match_edit(const struct ration_gate *gate, const ration_policy *policy,
                                     const struct ration_edit *edit,
                                     struct ration_policy_match *out_match)
{
    const char *reason;
    uint64_t steps;

    return ration_gate_match(gate, policy, edit->attributes, edit->attribute_count, out_match,
                             edit->match_steps != NULL ? edit->match_steps : &steps, &reason);
}

/* A limit that cannot be blocked is no fault if another one can. The first other fault is told. */
static ration_status edit_plan(ration_gate *gate, const struct ration_gate_plan *plan,
                               const struct ration_edit *edit, const struct task *task,
                               size_t *out_count)
{
    struct ration_policy_match match;
    ration_status result = RATION_OK;
    size_t unfit_count = 0;
    size_t count = 0;

    if (ration_gate_match_edit(gate, plan->policy, edit, &match) != RATION_OK ||
        !is_whole(plan, &match, edit, task))
        return RATION_EINVAL;
    for (uint32_t i = 0; i < match.limit_count; i++) {
        uint32_t limit_index = match.limits[i];
        ration_status status;

        if (!is_meant(plan, limit_index, edit, task))
            continue;
        status = edit_limit(gate, plan, limit_index, edit, task);
        if (status == RATION_OK)
            count++;
        else if (status == RATION_EUNFIT)
            unfit_count++;
        else if (result == RATION_OK)
            result = status;
    }
    if (result == RATION_OK && count == 0 && unfit_count > 0)
        result = RATION_EUNFIT;
    if (result == RATION_OK && out_count != NULL)
        *out_count = count;
    return result;
}

static ration_status run(ration_gate *gate, const struct ration_edit *edit, const struct task *task,
                         size_t *out_count)
{
    struct ration_visit guard;
    ration_status status;

    if (gate->remote != NULL) {
        struct ration_gate_task remote = {
            .kind = task->kind,
            .edit = edit,
            .tokens = task->cost_tokens,
            .until_ns = task->until_ns,
            .now_ns = task->now_ns,
        };

        return ration_gate_edit_remote(gate, &remote, out_count);
    }
    ration_gate_hold_plan(gate, edit->guard, &guard);
    status = edit_plan(gate, guard.plan, edit, task, out_count);
    ration_gate_leave(&guard);
    return status;
}

ration_status ration_gate_refund(ration_gate *gate, const struct ration_edit *edit,
                                 uint64_t cost_tokens, uint64_t now_ns, size_t *out_count)
{
    struct task task = {.kind = RATION_EDIT_REFUND, .cost_tokens = cost_tokens, .now_ns = now_ns};

    return run(gate, edit, &task, out_count);
}

ration_status ration_gate_reset(ration_gate *gate, const struct ration_edit *edit, uint64_t now_ns,
                                size_t *out_count)
{
    struct task task = {.kind = RATION_EDIT_RESET, .now_ns = now_ns};

    return run(gate, edit, &task, out_count);
}

ration_status ration_gate_block_until(ration_gate *gate, const struct ration_edit *edit,
                                      uint64_t until_ns, uint64_t now_ns, size_t *out_count)
{
    struct task task = {.kind = RATION_EDIT_BLOCK, .until_ns = until_ns, .now_ns = now_ns};

    if (!ration_limiter_block_fits(until_ns, now_ns))
        return RATION_ERANGE;
    return run(gate, edit, &task, out_count);
}
