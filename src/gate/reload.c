/*
 * reload: another policy for a gate, while others check.
 *
 * First everything is made and checked that can fail: the plan, and limiters for limits that are new
 * or whose kind has changed. Then limits are changed and the plan is swapped. What was added for a
 * reload that failed is not asked, and is taken up by a later one that has such a limit.
 *
 * Limiters of limits that are gone are kept for when these come back: as many as the policy has limits, and
 * at least REMOVED_MIN. Beyond that, and when there is no spare memory, a new limit takes the place of one
 * of them, whose keys are then forgotten.
 */
#include <stdlib.h>
#include <string.h>

#include "base/refuse.h"
#include "core/change.h"
#include "gate/remote.h"
#include "limiter/limiter.h"

const char *ration_gate_change_name(enum ration_gate_change change)
{
    static const char *const names[] = {"added", "removed", "changed", "reset", "kept its size"};

    return change <= RATION_GATE_SAME_SIZE ? names[change] : "unknown";
}

#define MATCH_TEXT_SIZE 8192
#define REMOVED_MIN     8

/* What becomes of one limit of the new policy. */
struct step {
    bool is_new;     /* it has no limiter yet */
    bool is_changed; /* its limiter's rule is another */
    bool is_reset;   /* keys start anew */
    bool is_told;
    enum ration_gate_change told;
    char *key_text; /* owned: its limiter's, from now on. NULL: as it was */
};

/* A limiter whose limit is gone. */
struct removed {
    uint64_t number; /* as in struct ration_gate_table */
    size_t limiter_index;
};

struct reload {
    struct ration_gate *gate;
    const ration_policy *old; /* NULL: the gate has none yet */
    struct ration_gate_plan *plan;
    struct step *steps;      /* by limit */
    struct removed *removed; /* room for all limiters, as is the next */
    size_t *removed_indexes;
    struct ration_error *error;
};

static bool are_same_limits(const struct ration_limit *a, const struct ration_limit *b)
{
    return ration_change_is_none(a, b) && a->start == b->start &&
           a->start_tokens == b->start_tokens;
}

static bool are_same_rules(const struct ration_rule *a, const struct ration_rule *b)
{
    return are_same_limits(&a->limit, &b->limit) && a->is_shadow == b->is_shadow &&
           ration_rule_stale_after_ns(a) == ration_rule_stale_after_ns(b);
}

static const struct ration_policy_limit *find_limit(const ration_policy *policy, const char *name)
{
    for (size_t i = 0; policy != NULL && i < ration_policy_limit_count(policy); i++)
        if (strcmp(ration_policy_limit_at(policy, i)->limit.name, name) == 0)
            return ration_policy_limit_at(policy, i);
    return NULL;
}

/* What a limit says beside its rule and its key. */
static bool are_same_terms(const struct ration_policy_limit *a, const struct ration_policy_limit *b)
{
    return a->overflow == b->overflow && a->missing == b->missing && a->cost_kind == b->cost_kind &&
           a->cost_tokens == b->cost_tokens &&
           (a->cost_name == NULL || strcmp(a->cost_name, b->cost_name) == 0);
}

/* Whether a limit of both policies matches the same, as far as can be told in so many words. */
static bool are_same_matches(const struct reload *reload, const char *name)
{
    char before[MATCH_TEXT_SIZE], after[MATCH_TEXT_SIZE];
    size_t old_index = 0, new_index = 0;

    if (find_limit(reload->old, name) == NULL)
        return true;
    while (strcmp(ration_policy_limit_at(reload->old, old_index)->limit.name, name) != 0)
        old_index++;
    while (strcmp(ration_policy_limit_at(reload->plan->policy, new_index)->limit.name, name) != 0)
        new_index++;
    return strcmp(ration_policy_describe(reload->old, old_index, before, sizeof(before)),
                  ration_policy_describe(reload->plan->policy, new_index, after, sizeof(after))) ==
           0;
}

/*
 * Whether a limiter's table can hold a limit's buckets. One whose keys are the same goes on with the
 * size it has, since a key's place follows from it: debts count for more than room.
 */
static bool is_fit(const struct ration_gate *gate, size_t limiter_index,
                   const struct ration_policy_limit *limit, const struct ration_rule *rule,
                   const char *key_text)
{
    const struct ration_limiter *limiter = gate->stack->limiters[limiter_index];
    struct ration_walk_shape shape;

    limiter->store->calls->shape(limiter->store, limiter->section_index, &shape);
    return ration_configs_check(&limiter->configs, rule, 1, NULL) == RATION_OK &&
           (shape.keys_max == limit->keys_max ||
            strcmp(gate->tables[limiter_index].key_text, key_text) == 0);
}

/* The limiter that a limit of this name has, or had before it was removed; -1: none that fits. */
static int find_limiter(const struct ration_gate *gate, const struct ration_policy_limit *limit,
                        const struct ration_rule *rule, const char *key_text, bool is_used)
{
    size_t count = ration_stack_limiter_count(gate->stack);

    for (size_t i = count; i-- > 0;) {
        const struct ration_limiter *limiter = gate->stack->limiters[i];

        if (gate->tables[i].is_used == is_used && !gate->tables[i].is_planned &&
            strcmp(limiter->name, limit->limit.name) == 0 &&
            (is_used || is_fit(gate, i, limit, rule, key_text)))
            return (int)i;
    }
    return -1;
}

static bool is_removed(const struct ration_gate *gate, size_t limiter_index)
{
    return !gate->tables[limiter_index].is_used && !gate->tables[limiter_index].is_planned;
}

static int compare_removed(const void *a, const void *b)
{
    const struct removed *one = a, *other = b;

    return one->number < other->number ? -1 : one->number > other->number ? 1 : 0;
}

/* The limiters that are gone, those that are gone for longest first. Returns how many. */
static size_t list_removed(const struct reload *reload)
{
    const struct ration_gate *gate = reload->gate;
    size_t count = 0;

    for (size_t i = 0; i < ration_stack_limiter_count(gate->stack); i++)
        if (is_removed(gate, i))
            reload->removed[count++] = (struct removed){gate->tables[i].removed_number, i};
    qsort(reload->removed, count, sizeof(reload->removed[0]), compare_removed);
    for (size_t i = 0; i < count; i++)
        reload->removed_indexes[i] = reload->removed[i].limiter_index;
    return count;
}

/* A limiter for a limit that has none: in the place of one that is gone, or in spare memory. */
static ration_status make_limiter(const struct reload *reload,
                                  const struct ration_limiter_options *options, size_t *out_index)
{
    struct ration_gate *gate = reload->gate;
    size_t limit_count = ration_policy_limit_count(reload->plan->policy);
    /* while somebody may still use a plan that was replaced, its limiters are not gone */
    size_t count = gate->retired == NULL ? list_removed(reload) : 0;
    bool has_many = count > (limit_count > REMOVED_MIN ? limit_count : REMOVED_MIN);
    struct ration_error unfit;
    ration_status status = RATION_EUNFIT;

    if (has_many)
        status = ration_stack_replace(gate->stack, reload->removed_indexes, count, false, options,
                                      out_index, reload->error);
    if (status != RATION_EUNFIT)
        return status;
    status = ration_stack_add(gate->stack, options, out_index, reload->error);
    if (status == RATION_ENOMEM && count > 0 &&
        ration_stack_replace(gate->stack, reload->removed_indexes, count, true, options, out_index,
                             &unfit) == RATION_OK)
        status = RATION_OK;
    return status;
}

static ration_status add_limiter(struct reload *reload, size_t limit_index)
{
    struct ration_gate *gate = reload->gate;
    const struct ration_policy_limit *limit =
        ration_policy_limit_at(reload->plan->policy, limit_index);
    char key_text[RATION_GATE_KEY_TEXT_SIZE];
    struct ration_rule rule;
    struct ration_limiter_options options = ration_gate_limiter_options(gate, limit, &rule);
    size_t index;
    char *kept_text;
    ration_status status = RATION_ENOMEM;

    ration_gate_key_text(limit, key_text);
    kept_text = strdup(key_text);
    if (kept_text != NULL)
        status = make_limiter(reload, &options, &index);
    else
        ration_refuse(reload->error, status, "no memory for the policy");
    if (status != RATION_OK) {
        free(kept_text);
        return status;
    }
    free(gate->tables[index].key_text);
    gate->tables[index].key_text = kept_text;
    gate->tables[index].removed_number = 0;
    gate->tables[index].is_planned = true;
    reload->plan->limiter_indexes[limit_index] = (uint32_t)index;
    return RATION_OK;
}

/* What is to be done with a limiter that goes on as the limit's. */
static ration_status plan_step(struct reload *reload, const struct ration_policy_limit *limit,
                               const struct ration_rule *rule, const char *key_text, int found,
                               struct step *step)
{
    struct ration_gate *gate = reload->gate;
    const struct ration_policy_limit *old = find_limit(reload->old, limit->limit.name);
    bool has_other_keys = strcmp(gate->tables[found].key_text, key_text) != 0;
    struct ration_rule before;

    (void)ration_limiter_rule(gate->stack->limiters[found], 0, &before);
    /* one that was left long ago, for a limiter of another kind, has what was taken then */
    step->is_reset = has_other_keys || (step->is_told && step->told == RATION_GATE_RESET);
    step->is_changed = step->is_reset || !are_same_rules(&before, rule);
    if (!step->is_told && (step->is_changed || (old != NULL && !are_same_terms(old, limit)) ||
                           !are_same_matches(reload, limit->limit.name))) {
        step->is_told = true;
        step->told = step->is_reset ? RATION_GATE_RESET : RATION_GATE_CHANGED;
    }
    if (!step->is_reset && old != NULL && old->keys_max != limit->keys_max) {
        step->is_told = true;
        step->told = RATION_GATE_SAME_SIZE;
    }
    if (!has_other_keys)
        return RATION_OK;
    step->key_text = strdup(key_text);
    return step->key_text != NULL
               ? RATION_OK
               : ration_refuse(reload->error, RATION_ENOMEM, "no memory for the policy");
}

/* Finds the limiter of one limit, and what is to be done with it. */
static ration_status plan_limit(struct reload *reload, size_t limit_index)
{
    struct ration_gate *gate = reload->gate;
    const struct ration_policy_limit *limit =
        ration_policy_limit_at(reload->plan->policy, limit_index);
    uint32_t *limiter_index = &reload->plan->limiter_indexes[limit_index];
    struct step *step = &reload->steps[limit_index];
    char key_text[RATION_GATE_KEY_TEXT_SIZE];
    struct ration_rule rule;
    int found;

    (void)ration_gate_limiter_options(gate, limit, &rule);
    ration_gate_key_text(limit, key_text);
    found = find_limiter(gate, limit, &rule, key_text, true);
    step->is_told = found < 0;
    step->told = RATION_GATE_ADDED;
    if (found >= 0 && !is_fit(gate, (size_t)found, limit, &rule, key_text)) {
        step->is_told = true;
        step->told = RATION_GATE_RESET;
        found = -1;
    }
    if (found < 0)
        found = find_limiter(gate, limit, &rule, key_text, false);
    step->is_new = found < 0;
    if (found < 0)
        return RATION_OK;
    *limiter_index = (uint32_t)found;
    gate->tables[found].is_planned = true;
    return plan_step(reload, limit, &rule, key_text, found, step);
}

/* A limit that is as it was has been so since then. */
static void keep_changed_ns(const struct reload *reload, const struct ration_gate_plan *old)
{
    for (size_t i = 0; i < ration_policy_limit_count(reload->plan->policy); i++) {
        const struct ration_limit *limit = &ration_policy_limit_at(reload->plan->policy, i)->limit;

        for (size_t k = 0; k < ration_policy_limit_count(old->policy); k++) {
            const struct ration_limit *before = &ration_policy_limit_at(old->policy, k)->limit;

            if (strcmp(before->name, limit->name) == 0 && are_same_limits(before, limit))
                reload->plan->changed_ns[i] = old->changed_ns[k];
        }
    }
}

/* First those that have a limiter, or had one, lest another limit takes its place. */
static ration_status plan_limits(struct reload *reload)
{
    size_t limit_count = ration_policy_limit_count(reload->plan->policy);
    ration_status status = RATION_OK;

    for (size_t i = 0; i < reload->gate->table_max; i++)
        reload->gate->tables[i].is_planned = false;
    for (size_t i = 0; i < limit_count && status == RATION_OK; i++)
        status = plan_limit(reload, i);
    for (size_t i = 0; i < limit_count && status == RATION_OK; i++)
        if (reload->steps[i].is_new)
            status = add_limiter(reload, i);
    return status;
}

/* Nothing here can fail but by a bug: the rules were checked. */
static void change_limit(const struct reload *reload, size_t limit_index)
{
    struct ration_gate *gate = reload->gate;
    const struct ration_policy_limit *limit =
        ration_policy_limit_at(reload->plan->policy, limit_index);
    uint32_t limiter_index = reload->plan->limiter_indexes[limit_index];
    struct ration_limiter *limiter = gate->stack->limiters[limiter_index];
    struct step *step = &reload->steps[limit_index];
    struct ration_rule rule;

    (void)ration_gate_limiter_options(gate, limit, &rule);
    __atomic_store_n(&limiter->overflow, limit->overflow, __ATOMIC_RELAXED);
    if (!step->is_changed)
        return;
    (void)ration_limiter_change(limiter, &rule, 1,
                                step->is_reset ? RATION_CHANGE_RESET : RATION_CHANGE_KEEP, NULL);
    if (step->key_text != NULL) {
        free(gate->tables[limiter_index].key_text);
        gate->tables[limiter_index].key_text = step->key_text;
        step->key_text = NULL;
    }
}

static void tell(const struct reload *reload, ration_gate_change_fn *change, void *context)
{
    const ration_policy *policy = reload->plan->policy;

    for (size_t i = 0; i < ration_policy_limit_count(policy); i++)
        if (reload->steps[i].is_told)
            change(context, reload->steps[i].told, ration_policy_limit_at(policy, i)->limit.name);
    for (size_t i = 0; reload->old != NULL && i < ration_policy_limit_count(reload->old); i++) {
        const char *name = ration_policy_limit_at(reload->old, i)->limit.name;

        if (find_limit(policy, name) == NULL)
            change(context, RATION_GATE_REMOVED, name);
    }
}

static void publish(struct reload *reload)
{
    struct ration_gate *gate = reload->gate;
    size_t limit_count = ration_policy_limit_count(reload->plan->policy);

    for (size_t i = 0; i < limit_count; i++)
        change_limit(reload, i);
    gate->removal_count++;
    for (size_t i = 0; i < gate->table_max; i++) {
        struct ration_gate_table *table = &gate->tables[i];

        if (table->is_used && !table->is_planned)
            table->removed_number = gate->removal_count;
        table->is_used = table->is_planned;
    }
    /* pairs with the load in ration_gate_plan() */
    __atomic_store_n(&gate->plan, reload->plan, __ATOMIC_SEQ_CST);
}

/* Releases a plan that was replaced, and any before it, unless somebody is still inside. */
static void retire(struct ration_gate *gate, struct ration_gate_plan *old)
{
    old->next = gate->retired;
    gate->retired = old;
    if (ration_grace_wait(&gate->grace))
        ration_gate_free_retired(gate);
}

static void free_steps(struct step *steps, size_t limit_count)
{
    for (size_t i = 0; steps != NULL && i < limit_count; i++)
        free(steps[i].key_text);
    free(steps);
}

ration_status ration_gate_adopt(struct ration_gate *gate, ration_policy *policy,
                                ration_gate_change_fn *change, void *context,
                                struct ration_error *error)
{
    size_t limit_count = ration_policy_limit_count(policy);
    struct ration_gate_plan *old = gate->plan;
    struct reload reload = {
        .gate = gate,
        .old = old != NULL ? old->policy : NULL,
        .plan = ration_gate_plan_create(gate, policy),
        .steps = calloc(limit_count, sizeof(*reload.steps)),
        .removed = calloc(ration_stack_limiter_count(gate->stack), sizeof(*reload.removed)),
        .removed_indexes =
            calloc(ration_stack_limiter_count(gate->stack), sizeof(*reload.removed_indexes)),
        .error = error,
    };
    ration_status status =
        gate->remote != NULL ? ration_gate_remote_fits(gate, policy, error) : RATION_OK;

    if (status == RATION_OK && (reload.plan == NULL || reload.steps == NULL ||
                                reload.removed == NULL || reload.removed_indexes == NULL))
        status = ration_refuse(error, RATION_ENOMEM, "no memory for the policy");
    if (status == RATION_OK)
        status = plan_limits(&reload);
    free(reload.removed);
    free(reload.removed_indexes);
    if (status != RATION_OK) {
        free(reload.plan);
        free_steps(reload.steps, limit_count);
        return status;
    }
    reload.plan->generation = old != NULL ? old->generation + 1 : 1;
    if (old != NULL && gate->remote != NULL)
        keep_changed_ns(&reload, old);
    publish(&reload);
    if (change != NULL)
        tell(&reload, change, context);
    free_steps(reload.steps, limit_count);
    if (old != NULL)
        retire(gate, old);
    return RATION_OK;
}

ration_status ration_gate_reload(ration_gate *gate, ration_policy *policy,
                                 ration_gate_change_fn *change, void *context,
                                 struct ration_error *error)
{
    ration_status status;

    ration_gate_lock(gate);
    status = ration_gate_adopt(gate, policy, change, context, error);
    if (status == RATION_OK)
        __atomic_fetch_add(&gate->reload_count, 1, __ATOMIC_RELAXED);
    ration_gate_unlock(gate);
    return status;
}
