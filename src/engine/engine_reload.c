/*
 * engine_reload: replaces the policy of an engine while other threads check.
 *
 * The reload first does everything that can fail: it creates the plan, and limiters for limits that are new or whose
 * kind has changed. Then it changes the existing limits and swaps the plan. Checks do not use limiters that a failed
 * reload has added; a later reload that has such a limit uses them.
 *
 * The limiters of removed limits are retained in case the limits return: as many as the policy has limits, and at least
 * REMOVED_MIN. If there are more, or if there is no spare memory, a new limit replaces one of them, and the keys of the
 * removed limit are lost.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "core/change.h"
#include "engine/remote.h"
#include "limiter/limiter_internal.h"

const char *ration_engine_change_name(enum ration_engine_change change)
{
    static const char *const names[] = {"added", "removed", "changed", "reset", "kept its size"};

    return change <= RATION_ENGINE_SAME_SIZE ? names[change] : "unknown";
}

#define MATCH_TEXT_SIZE 8192
#define REMOVED_MIN     8

/* What the reload does with one limit of the new policy. */
struct limit_change {
    bool is_new;      /* it needs a new limiter */
    bool is_changed;  /* the rule of its limiter changes */
    bool is_reset;    /* its keys start again */
    bool is_reported; /* to the caller's ration_engine_change_func */
    enum ration_engine_change result;
    char *key_text; /* owned: new key text of its limiter. NULL: unchanged */
};

/* A limiter whose limit was removed. */
struct removed {
    uint64_t number; /* as in struct ration_engine_table */
    size_t limiter_index;
};

struct reload {
    struct ration_engine *engine;
    const ration_policy *old; /* NULL: the engine has no policy yet */
    struct ration_engine_plan *plan;
    struct limit_change *changes; /* by limit */
    struct removed *removed;      /* room for all limiters, like removed_indexes */
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
           ration_config_rule_stale_after_ns(a) == ration_config_rule_stale_after_ns(b);
}

static const struct ration_policy_limit *find_limit_by_name(const ration_policy *policy,
                                                            const char *name)
{
    for (size_t i = 0; policy != NULL && i < ration_policy_limit_count(policy); i++)
        if (strcmp(ration_policy_limit_at(policy, i)->limit.name, name) == 0)
            return ration_policy_limit_at(policy, i);
    return NULL;
}

/* Compares the settings of a limit other than its rule and its key. */
static bool have_same_settings(const struct ration_policy_limit *a,
                               const struct ration_policy_limit *b)
{
    return a->overflow == b->overflow && a->missing == b->missing && a->cost_kind == b->cost_kind &&
           a->cost_tokens == b->cost_tokens &&
           (a->cost_name == NULL || strcmp(a->cost_name, b->cost_name) == 0);
}

/* Whether a limit matches the same requests in both policies, by the first MATCH_TEXT_SIZE bytes of its description. */
static bool match_same_requests(const struct reload *reload, const char *name)
{
    char before[MATCH_TEXT_SIZE], after[MATCH_TEXT_SIZE];
    size_t old_index = 0, new_index = 0;

    if (find_limit_by_name(reload->old, name) == NULL)
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
 * Whether a limiter's table can store the limit's buckets. If the keys are the same, the table keeps its size, because
 * the location of a key depends on it: the tokens in use matter more than the new size.
 */
static bool can_use_limiter(const struct ration_engine *engine, size_t limiter_index,
                            const struct ration_policy_limit *limit, const struct ration_rule *rule,
                            const char *key_text)
{
    const struct ration_limiter *limiter = engine->stack->limiters[limiter_index];
    struct ration_walk_shape shape;

    limiter->store->calls->shape(limiter->store, limiter->section_index, &shape);
    return ration_config_table_check(&limiter->configs, rule, 1, NULL) == RATION_OK &&
           (shape.keys_max == limit->keys_max ||
            strcmp(engine->tables[limiter_index].key_text, key_text) == 0);
}

/* The limiter that a limit of this name has (is_used), or had before it was removed (!is_used); -1: none that fits. */
static int find_limiter(const struct ration_engine *engine, const struct ration_policy_limit *limit,
                        const struct ration_rule *rule, const char *key_text, bool is_used)
{
    size_t count = ration_stack_limiter_count(engine->stack);

    for (size_t i = count; i-- > 0;) {
        const struct ration_limiter *limiter = engine->stack->limiters[i];

        if (engine->tables[i].is_used == is_used && !engine->tables[i].is_planned &&
            strcmp(limiter->name, limit->limit.name) == 0 &&
            (is_used || can_use_limiter(engine, i, limit, rule, key_text)))
            return (int)i;
    }
    return -1;
}

static bool is_removed(const struct ration_engine *engine, size_t limiter_index)
{
    return !engine->tables[limiter_index].is_used && !engine->tables[limiter_index].is_planned;
}

static int compare_removed(const void *a, const void *b)
{
    const struct removed *one = a, *other = b;

    return one->number < other->number ? -1 : one->number > other->number ? 1 : 0;
}

/* Lists the limiters of removed limits, those removed first at the front. Returns their number. */
static size_t list_removed_limiters(const struct reload *reload)
{
    const struct ration_engine *engine = reload->engine;
    size_t count = 0;

    for (size_t i = 0; i < ration_stack_limiter_count(engine->stack); i++)
        if (is_removed(engine, i))
            reload->removed[count++] = (struct removed){engine->tables[i].removed_number, i};
    qsort(reload->removed, count, sizeof(reload->removed[0]), compare_removed);
    for (size_t i = 0; i < count; i++)
        reload->removed_indexes[i] = reload->removed[i].limiter_index;
    return count;
}

/* Creates a limiter for a new limit: it replaces the limiter of a removed limit, or uses spare memory. */
static ration_status make_limiter(const struct reload *reload,
                                  const struct ration_limiter_options *options, size_t *out_index)
{
    struct ration_engine *engine = reload->engine;
    size_t limit_count = ration_policy_limit_count(reload->plan->policy);
    /* while a reader may still use a retired plan, its limiters must not be replaced */
    size_t count = engine->retired == NULL ? list_removed_limiters(reload) : 0;
    bool has_many = count > (limit_count > REMOVED_MIN ? limit_count : REMOVED_MIN);
    struct ration_error replace_error;
    ration_status status = RATION_EUNSUPPORTED;

    if (has_many)
        status = ration_stack_replace(engine->stack, reload->removed_indexes, count, false, options,
                                      out_index, reload->error);
    if (status != RATION_EUNSUPPORTED)
        return status;
    status = ration_stack_add(engine->stack, options, out_index, reload->error);
    if (status == RATION_ENOMEM && count > 0 &&
        ration_stack_replace(engine->stack, reload->removed_indexes, count, true, options,
                             out_index, &replace_error) == RATION_OK)
        status = RATION_OK;
    return status;
}

static ration_status add_limiter(struct reload *reload, size_t limit_index)
{
    struct ration_engine *engine = reload->engine;
    const struct ration_policy_limit *limit =
        ration_policy_limit_at(reload->plan->policy, limit_index);
    char key_text[RATION_ENGINE_KEY_TEXT_SIZE];
    struct ration_rule rule;
    struct ration_limiter_options options = ration_engine_limiter_options(engine, limit, &rule);
    size_t index;
    char *key_text_copy;
    ration_status status = RATION_ENOMEM;

    ration_engine_key_text(limit, key_text);
    key_text_copy = strdup(key_text);
    if (key_text_copy != NULL)
        status = make_limiter(reload, &options, &index);
    else
        ration_error_set(reload->error, status, "no memory for the policy");
    if (status != RATION_OK) {
        free(key_text_copy);
        return status;
    }
    free(engine->tables[index].key_text);
    engine->tables[index].key_text = key_text_copy;
    engine->tables[index].removed_number = 0;
    engine->tables[index].is_planned = true;
    reload->plan->limiter_indexes[limit_index] = (uint32_t)index;
    return RATION_OK;
}

/* Plans the changes of an existing limiter that the limit will use. */
static ration_status plan_limiter_change(struct reload *reload,
                                         const struct ration_policy_limit *limit,
                                         const struct ration_rule *rule, const char *key_text,
                                         int found_index, struct limit_change *change)
{
    struct ration_engine *engine = reload->engine;
    const struct ration_policy_limit *old = find_limit_by_name(reload->old, limit->limit.name);
    bool has_other_keys = strcmp(engine->tables[found_index].key_text, key_text) != 0;
    struct ration_rule before;

    (void)ration_limiter_rule(engine->stack->limiters[found_index], 0, &before);
    /* a limiter that the limit used before its kind changed still has the tokens in use at that time */
    change->is_reset =
        has_other_keys || (change->is_reported && change->result == RATION_ENGINE_RESET);
    change->is_changed = change->is_reset || !are_same_rules(&before, rule);
    if (!change->is_reported &&
        (change->is_changed || (old != NULL && !have_same_settings(old, limit)) ||
         !match_same_requests(reload, limit->limit.name))) {
        change->is_reported = true;
        change->result = change->is_reset ? RATION_ENGINE_RESET : RATION_ENGINE_CHANGED;
    }
    if (!change->is_reset && old != NULL && old->keys_max != limit->keys_max) {
        change->is_reported = true;
        change->result = RATION_ENGINE_SAME_SIZE;
    }
    if (!has_other_keys)
        return RATION_OK;
    change->key_text = strdup(key_text);
    return change->key_text != NULL
               ? RATION_OK
               : ration_error_set(reload->error, RATION_ENOMEM, "no memory for the policy");
}

/* Finds the limiter of one limit, and plans its changes. */
static ration_status plan_limit(struct reload *reload, size_t limit_index)
{
    struct ration_engine *engine = reload->engine;
    const struct ration_policy_limit *limit =
        ration_policy_limit_at(reload->plan->policy, limit_index);
    uint32_t *limiter_index = &reload->plan->limiter_indexes[limit_index];
    struct limit_change *change = &reload->changes[limit_index];
    char key_text[RATION_ENGINE_KEY_TEXT_SIZE];
    struct ration_rule rule;
    int found_index;

    (void)ration_engine_limiter_options(engine, limit, &rule);
    ration_engine_key_text(limit, key_text);
    found_index = find_limiter(engine, limit, &rule, key_text, true);
    change->is_reported = found_index < 0;
    change->result = RATION_ENGINE_ADDED;
    if (found_index >= 0 && !can_use_limiter(engine, (size_t)found_index, limit, &rule, key_text)) {
        change->is_reported = true;
        change->result = RATION_ENGINE_RESET;
        found_index = -1;
    }
    if (found_index < 0)
        found_index = find_limiter(engine, limit, &rule, key_text, false);
    change->is_new = found_index < 0;
    if (found_index < 0)
        return RATION_OK;
    *limiter_index = (uint32_t)found_index;
    engine->tables[found_index].is_planned = true;
    return plan_limiter_change(reload, limit, &rule, key_text, found_index, change);
}

/* Copies changed_ns of the limits that this reload does not change. */
static void copy_changed_ns(const struct reload *reload, const struct ration_engine_plan *old)
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

/* Plans limits that have or had a limiter first, so that no new limit replaces that limiter. */
static ration_status plan_limits(struct reload *reload)
{
    size_t limit_count = ration_policy_limit_count(reload->plan->policy);
    ration_status status = RATION_OK;

    for (size_t i = 0; i < reload->engine->table_max; i++)
        reload->engine->tables[i].is_planned = false;
    for (size_t i = 0; i < limit_count && status == RATION_OK; i++)
        status = plan_limit(reload, i);
    for (size_t i = 0; i < limit_count && status == RATION_OK; i++)
        if (reload->changes[i].is_new)
            status = add_limiter(reload, i);
    return status;
}

/* This cannot fail: plan_limits() has checked the rules. */
static void change_limit(const struct reload *reload, size_t limit_index)
{
    struct ration_engine *engine = reload->engine;
    const struct ration_policy_limit *limit =
        ration_policy_limit_at(reload->plan->policy, limit_index);
    uint32_t limiter_index = reload->plan->limiter_indexes[limit_index];
    struct ration_limiter *limiter = engine->stack->limiters[limiter_index];
    struct limit_change *change = &reload->changes[limit_index];
    struct ration_rule rule;

    (void)ration_engine_limiter_options(engine, limit, &rule);
    __atomic_store_n(&limiter->overflow, limit->overflow, __ATOMIC_RELAXED);
    if (!change->is_changed)
        return;
    (void)ration_limiter_change(limiter, &rule, 1,
                                change->is_reset ? RATION_CHANGE_RESET : RATION_CHANGE_KEEP, NULL);
    if (change->key_text != NULL) {
        free(engine->tables[limiter_index].key_text);
        engine->tables[limiter_index].key_text = change->key_text;
        change->key_text = NULL;
    }
}

static void report_changes(const struct reload *reload, ration_engine_change_func *change,
                           void *context)
{
    const ration_policy *policy = reload->plan->policy;

    for (size_t i = 0; i < ration_policy_limit_count(policy); i++)
        if (reload->changes[i].is_reported)
            change(context, reload->changes[i].result,
                   ration_policy_limit_at(policy, i)->limit.name);
    for (size_t i = 0; reload->old != NULL && i < ration_policy_limit_count(reload->old); i++) {
        const char *name = ration_policy_limit_at(reload->old, i)->limit.name;

        if (find_limit_by_name(policy, name) == NULL)
            change(context, RATION_ENGINE_REMOVED, name);
    }
}

static void publish_plan(struct reload *reload)
{
    struct ration_engine *engine = reload->engine;
    size_t limit_count = ration_policy_limit_count(reload->plan->policy);

    for (size_t i = 0; i < limit_count; i++)
        change_limit(reload, i);
    engine->removal_count++;
    for (size_t i = 0; i < engine->table_max; i++) {
        struct ration_engine_table *table = &engine->tables[i];

        if (table->is_used && !table->is_planned)
            table->removed_number = engine->removal_count;
        table->is_used = table->is_planned;
    }
    /* sequentially consistent: pairs with the load in ration_engine_plan() */
    __atomic_store_n(&engine->plan, reload->plan, __ATOMIC_SEQ_CST);
}

/* Releases the replaced plan and earlier retired plans, unless ration_epoch_wait() gives up on a reader. */
static void retire_plan(struct ration_engine *engine, struct ration_engine_plan *old)
{
    old->next = engine->retired;
    engine->retired = old;
    if (ration_epoch_wait(&engine->epoch))
        ration_engine_free_retired(engine);
}

static void free_changes(struct limit_change *changes, size_t limit_count)
{
    for (size_t i = 0; changes != NULL && i < limit_count; i++)
        free(changes[i].key_text);
    free(changes);
}

ration_status ration_engine_adopt(struct ration_engine *engine, ration_policy *policy,
                                  ration_engine_change_func *change, void *context,
                                  struct ration_error *error)
{
    size_t limit_count = ration_policy_limit_count(policy);
    struct ration_engine_plan *old = engine->plan;
    struct reload reload = {
        .engine = engine,
        .old = old != NULL ? old->policy : NULL,
        .plan = ration_engine_plan_create(engine, policy),
        .changes = calloc(limit_count, sizeof(*reload.changes)),
        .removed = calloc(ration_stack_limiter_count(engine->stack), sizeof(*reload.removed)),
        .removed_indexes =
            calloc(ration_stack_limiter_count(engine->stack), sizeof(*reload.removed_indexes)),
        .error = error,
    };
    ration_status status =
        engine->remote != NULL ? ration_engine_remote_fits(engine, policy, error) : RATION_OK;

    if (status == RATION_OK && (reload.plan == NULL || reload.changes == NULL ||
                                reload.removed == NULL || reload.removed_indexes == NULL))
        status = ration_error_set(error, RATION_ENOMEM, "no memory for the policy");
    if (status == RATION_OK)
        status = plan_limits(&reload);
    free(reload.removed);
    free(reload.removed_indexes);
    if (status != RATION_OK) {
        free(reload.plan);
        free_changes(reload.changes, limit_count);
        return status;
    }
    reload.plan->generation = old != NULL ? old->generation + 1 : 1;
    if (old != NULL && engine->remote != NULL)
        copy_changed_ns(&reload, old);
    publish_plan(&reload);
    if (change != NULL)
        report_changes(&reload, change, context);
    free_changes(reload.changes, limit_count);
    if (old != NULL)
        retire_plan(engine, old);
    return RATION_OK;
}

ration_status ration_engine_reload(ration_engine *engine, ration_policy *policy,
                                   ration_engine_change_func *change, void *context,
                                   struct ration_error *error)
{
    ration_status status;

    ration_engine_lock_reload(engine);
    status = ration_engine_adopt(engine, policy, change, context, error);
    if (status == RATION_OK)
        __atomic_fetch_add(&engine->reload_count, 1, __ATOMIC_RELAXED);
    ration_engine_unlock_reload(engine);
    return status;
}
