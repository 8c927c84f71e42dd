/*
 * reload: another policy for a gate, while others check.
 *
 * First everything is made and checked that can fail: the plan, and limiters for limits that are new
 * or whose kind has changed. Then limits are changed and the plan is swapped. What was added for a
 * reload that failed is not asked, and is taken up by a later one that has such a limit.
 */
#include <stdlib.h>
#include <string.h>

#include "base/refuse.h"
#include "gate/gate.h"
#include "limiter/limiter.h"

const char *ration_gate_change_name(enum ration_gate_change change)
{
    static const char *const names[] = {"added", "removed", "changed", "reset"};

    return change <= RATION_GATE_RESET ? names[change] : "unknown";
}

/* What becomes of one limit of the new policy. */
struct step {
    bool is_changed; /* its limiter's rule is another */
    bool is_reset;   /* keys start anew */
    bool is_told;
    enum ration_gate_change told;
};

struct reload {
    struct ration_gate *gate;
    struct ration_gate_plan *plan;
    struct step *steps; /* by limit */
    struct ration_error *error;
};

static bool are_same_rules(const struct ration_rule *a, const struct ration_rule *b)
{
    return memcmp(&a->limit, &b->limit, sizeof(a->limit)) == 0 && a->is_shadow == b->is_shadow;
}

/* Whether a limiter's table can hold a limit's buckets. */
static bool is_fit(const struct ration_limiter *limiter, const struct ration_rule *rule,
                   uint64_t keys_max)
{
    struct ration_walk_shape shape;

    limiter->store->calls->shape(limiter->store, limiter->section_index, &shape);
    return ration_configs_check(&limiter->configs, rule, 1, NULL) == RATION_OK &&
           shape.keys_max == keys_max;
}

/* The limiter that a limit of this name has, or had before it was removed; -1: none that fits. */
static int find_limiter(const struct ration_gate *gate, const struct ration_policy_limit *limit,
                        const struct ration_rule *rule, bool is_used)
{
    size_t count = ration_stack_limiter_count(gate->stack);

    for (size_t i = count; i-- > 0;) {
        const struct ration_limiter *limiter = gate->stack->limiters[i];

        if (gate->tables[i].is_used == is_used && strcmp(limiter->name, limit->limit.name) == 0 &&
            (!is_used ? is_fit(limiter, rule, limit->keys_max) : true))
            return (int)i;
    }
    return -1;
}

static ration_status add_limiter(struct reload *reload, const struct ration_policy_limit *limit,
                                 const char *key_text, uint32_t *out_index)
{
    struct ration_gate *gate = reload->gate;
    struct ration_rule rule;
    struct ration_limiter_options options = ration_gate_limiter_options(gate, limit, &rule);
    char *kept_text = strdup(key_text);
    size_t index;
    ration_status status = RATION_ENOMEM;

    if (kept_text != NULL)
        status = ration_stack_add(gate->stack, &options, &index, reload->error);
    else
        ration_refuse(reload->error, status, "no memory for the policy");
    if (status != RATION_OK) {
        free(kept_text);
        return status;
    }
    gate->tables[index].key_text = kept_text;
    *out_index = (uint32_t)index;
    return RATION_OK;
}

/* Finds or makes the limiter of one limit, and what is to be done with it. */
static ration_status plan_limit(struct reload *reload, size_t limit_index)
{
    struct ration_gate *gate = reload->gate;
    const struct ration_policy_limit *limit =
        ration_policy_limit(reload->plan->policy, limit_index);
    uint32_t *limiter_index = &reload->plan->limiter_indexes[limit_index];
    struct step *step = &reload->steps[limit_index];
    char key_text[RATION_GATE_KEY_TEXT_SIZE];
    struct ration_rule rule, before;
    int found;

    (void)ration_gate_limiter_options(gate, limit, &rule);
    ration_gate_key_text(limit, key_text);
    found = find_limiter(gate, limit, &rule, true);
    step->is_told = found < 0;
    step->told = RATION_GATE_ADDED;
    if (found >= 0 && !is_fit(gate->stack->limiters[found], &rule, limit->keys_max)) {
        step->is_told = true;
        step->told = RATION_GATE_RESET;
        found = -1;
    }
    if (found < 0)
        found = find_limiter(gate, limit, &rule, false);
    if (found < 0)
        return add_limiter(reload, limit, key_text, limiter_index);
    *limiter_index = (uint32_t)found;
    (void)ration_limiter_rule(gate->stack->limiters[found], 0, &before);
    step->is_reset = strcmp(gate->tables[found].key_text, key_text) != 0;
    step->is_changed = step->is_reset || !are_same_rules(&before, &rule);
    if (!step->is_told && step->is_changed) {
        step->is_told = true;
        step->told = step->is_reset ? RATION_GATE_RESET : RATION_GATE_CHANGED;
    }
    return RATION_OK;
}

/* Nothing here can fail but by a bug: the rules were checked. */
static void change_limit(const struct reload *reload, size_t limit_index)
{
    struct ration_gate *gate = reload->gate;
    const struct ration_policy_limit *limit =
        ration_policy_limit(reload->plan->policy, limit_index);
    uint32_t limiter_index = reload->plan->limiter_indexes[limit_index];
    struct ration_limiter *limiter = gate->stack->limiters[limiter_index];
    const struct step *step = &reload->steps[limit_index];
    struct ration_rule rule;

    (void)ration_gate_limiter_options(gate, limit, &rule);
    __atomic_store_n(&limiter->overflow, limit->overflow, __ATOMIC_RELAXED);
    if (!step->is_changed)
        return;
    (void)ration_limiter_change(limiter, &rule, 1,
                                step->is_reset ? RATION_CHANGE_RESET : RATION_CHANGE_KEEP, NULL);
    if (step->is_reset) {
        char key_text[RATION_GATE_KEY_TEXT_SIZE];
        char *kept_text;

        ration_gate_key_text(limit, key_text);
        kept_text = strdup(key_text);
        if (kept_text != NULL) { /* without memory keys start anew once more at the next reload */
            free(gate->tables[limiter_index].key_text);
            gate->tables[limiter_index].key_text = kept_text;
        }
    }
}

static bool has_limit(const ration_policy *policy, const char *name)
{
    for (size_t i = 0; i < ration_policy_limit_count(policy); i++)
        if (strcmp(ration_policy_limit(policy, i)->limit.name, name) == 0)
            return true;
    return false;
}

static void tell(const struct reload *reload, const struct ration_gate_plan *old,
                 ration_gate_change_fn *change, void *context)
{
    const ration_policy *policy = reload->plan->policy;

    for (size_t i = 0; i < ration_policy_limit_count(policy); i++)
        if (reload->steps[i].is_told)
            change(context, reload->steps[i].told, ration_policy_limit(policy, i)->limit.name);
    for (size_t i = 0; old != NULL && i < ration_policy_limit_count(old->policy); i++) {
        const char *name = ration_policy_limit(old->policy, i)->limit.name;

        if (!has_limit(policy, name))
            change(context, RATION_GATE_REMOVED, name);
    }
}

static void publish(struct reload *reload)
{
    struct ration_gate *gate = reload->gate;
    size_t limit_count = ration_policy_limit_count(reload->plan->policy);

    for (size_t i = 0; i < limit_count; i++)
        change_limit(reload, i);
    for (size_t i = 0; i < gate->table_max; i++)
        gate->tables[i].is_used = false;
    for (size_t i = 0; i < limit_count; i++)
        gate->tables[reload->plan->limiter_indexes[i]].is_used = true;
    /* release: pairs with the acquire in ration_gate_plan() */
    __atomic_store_n(&gate->plan, reload->plan, __ATOMIC_SEQ_CST);
}

ration_status ration_gate_adopt(struct ration_gate *gate, ration_policy *policy,
                                ration_gate_change_fn *change, void *context,
                                struct ration_error *error)
{
    size_t limit_count = ration_policy_limit_count(policy);
    const struct ration_gate_plan *old = gate->plan;
    struct reload reload = {
        .gate = gate,
        .plan = ration_gate_plan_create(policy),
        .steps = calloc(limit_count, sizeof(*reload.steps)),
        .error = error,
    };
    ration_status status = RATION_OK;

    if (reload.plan == NULL || reload.steps == NULL)
        status = ration_refuse(error, RATION_ENOMEM, "no memory for the policy");
    for (size_t i = 0; i < limit_count && status == RATION_OK; i++)
        status = plan_limit(&reload, i);
    if (status != RATION_OK) {
        free(reload.plan);
        free(reload.steps);
        return status;
    }
    reload.plan->generation = old != NULL ? old->generation + 1 : 1;
    publish(&reload);
    if (change != NULL)
        tell(&reload, old, change, context);
    free(reload.steps);
    if (old == NULL)
        return RATION_OK;
    gate->stop_freeing |= !ration_grace_wait(&gate->grace);
    if (!gate->stop_freeing) {
        ration_policy_free(old->policy);
        free((void *)(uintptr_t)old);
    }
    return RATION_OK;
}

ration_status ration_gate_reload(ration_gate *gate, ration_policy *policy,
                                 ration_gate_change_fn *change, void *context,
                                 struct ration_error *error)
{
    ration_status status;

    pthread_mutex_lock(&gate->reload_lock);
    status = ration_gate_adopt(gate, policy, change, context, error);
    if (status == RATION_OK)
        __atomic_fetch_add(&gate->reload_count, 1, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&gate->reload_lock);
    return status;
}
