/*
 * create: the tables of a gate, as its policy asks for them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/process.h"
#include "base/refuse.h"
#include "gate/remote.h"
#include "limiter/limiter.h"

#define SPARE_BYTES_DEFAULT ((size_t)256 << 30)
#define SPARE_BYTES_MIN     ((size_t)1 << 20)
/* Of each limit fewer top keys are known where there are many limits: each costs some KB. */
#define TOP_KEYS_ALL 10000u
#define TOP_KEYS_MIN 4u

#define SPARE_LIMITERS        8192
#define THROTTLE_KEYS_DEFAULT 1000000

struct ration_limiter_options ration_gate_limiter_options(const struct ration_gate *gate,
                                                          const struct ration_policy_limit *limit,
                                                          struct ration_rule *rule)
{
    *rule = (struct ration_rule){
        .limit =
            gate->remote != NULL ? ration_gate_share(gate->remote, &limit->limit) : limit->limit,
        .stale_after_ns = limit->stale_after_ns,
        .is_shadow = limit->is_shadow,
    };
    return (struct ration_limiter_options){
        .struct_size = sizeof(struct ration_limiter_options),
        .rules = rule,
        .rule_count = 1,
        .keys_max = limit->keys_max,
        .overflow = limit->overflow,
        .name = limit->limit.name,
        .top_keys = limit->key_count > 0 ? gate->top_keys : 0,
    };
}

void ration_gate_key_text(const struct ration_policy_limit *limit, char *out_text)
{
    size_t used = 0;

    out_text[0] = '\0';
    for (size_t i = 0; i < limit->key_count; i++) {
        bool is_address = strcmp(limit->key_names[i], "ip") == 0;
        char prefix[16] = "";

        if (is_address)
            snprintf(prefix, sizeof(prefix), " /%u", (unsigned)limit->ipv6_prefix);
        used += (size_t)snprintf(out_text + used, RATION_GATE_KEY_TEXT_SIZE - used, "%s%s%s",
                                 i > 0 ? " " : "", limit->key_names[i], prefix);
    }
}

struct ration_gate_plan *ration_gate_plan_create(const struct ration_gate *gate,
                                                 ration_policy *policy)
{
    size_t count = ration_policy_limit_count(policy);
    size_t index_count = count + count % 2; /* what follows them is aligned */
    struct ration_gate_plan *plan =
        calloc(1, sizeof(*plan) + index_count * sizeof(plan->limiter_indexes[0]) +
                      count * (sizeof(plan->hold_secrets[0]) + sizeof(plan->changed_ns[0])));

    if (plan == NULL)
        return NULL;
    plan->policy = policy;
    plan->hold_secrets = (struct ration_hash *)(void *)(plan->limiter_indexes + index_count);
    plan->changed_ns = (uint64_t *)(void *)(plan->hold_secrets + count);
    for (size_t i = 0; i < count; i++) {
        plan->hold_secrets[i] = ration_gate_hold_secret(gate, ration_policy_limit_at(policy, i));
        plan->changed_ns[i] = ration_gate_now(gate);
    }
    return plan;
}

ration_status ration_gate_begin(const struct ration_gate_options *options,
                                struct ration_gate **out_gate, struct ration_error *error)
{
    struct ration_gate *gate;

    if (options == NULL || options->struct_size != sizeof(*options))
        return ration_refuse(error, RATION_EINVAL,
                             "struct_size must be sizeof(struct ration_gate_options)");
    if (options->clock != NULL && options->clock->now_ns == NULL)
        return ration_refuse(error, RATION_EINVAL, "clock has no function");
    if (options->attribute_bytes_max > RATION_ATTRIBUTE_BYTES_MAX)
        return ration_refuse(error, RATION_EINVAL, "attribute_bytes_max is at most 1048576");
    gate = calloc(1, sizeof(*gate));
    if (gate == NULL || ration_grace_init(&gate->grace) != RATION_OK) {
        free(gate);
        return ration_refuse(error, RATION_ENOMEM, "no memory for the gate");
    }
    gate->clock = options->clock != NULL ? *options->clock : ration_clock_tsc();
    gate->top_keys = options->top_keys;
    gate->attribute_bytes_max = options->attribute_bytes_max > 0 ? options->attribute_bytes_max
                                                                 : RATION_ATTRIBUTE_BYTES_DEFAULT;
    if (options->redis != NULL) {
        ration_status status =
            ration_gate_remote_create(options, &gate->clock, &gate->remote, error);

        if (status != RATION_OK) {
            ration_grace_done(&gate->grace);
            free(gate);
            return status;
        }
    }
    pthread_mutex_init(&gate->reload_lock, NULL);
    gate->lock_process = ration_process_id();
    *out_gate = gate;
    return RATION_OK;
}

/*
 * With as much to spare as was asked for, or as can be had: a system may allow a process fewer
 * addresses. A dump can be read once only, so what can be had is then found out with a new stack.
 */
static ration_status open_stack(struct ration_gate *gate, struct ration_stack_options *options,
                                const struct ration_gate_stack *stack, struct ration_error *error)
{
    struct ration_stack_options tried = *options;
    bool is_free = options->spare_bytes == 0;
    ration_stack *made = NULL;
    ration_status status;

    tried.spare_bytes = is_free ? SPARE_BYTES_DEFAULT : options->spare_bytes;
    if (stack->read != NULL)
        tried.is_prefaulted = 0;
    for (;;) {
        status = ration_stack_create(&tried, &made, error);
        if (status != RATION_ENOMEM || !is_free || tried.spare_bytes < SPARE_BYTES_MIN)
            break;
        tried.spare_bytes /= 2;
    }
    if (status != RATION_OK)
        return status;
    if (stack->read == NULL) {
        gate->stack = made;
        return RATION_OK;
    }
    ration_stack_free(made);
    tried.is_prefaulted = options->is_prefaulted;
    return ration_stack_load(&tried, stack->read, stack->context, &gate->stack, error);
}

ration_status ration_gate_make_stack(struct ration_gate *gate,
                                     const struct ration_gate_options *options,
                                     const struct ration_gate_stack *stack,
                                     struct ration_error *error)
{
    size_t count = stack->seed_count;
    struct ration_limiter_options *limiters = calloc(count, sizeof(*limiters));
    struct ration_rule *rules = calloc(count, sizeof(*rules));
    size_t limiters_max =
        count + SPARE_LIMITERS < RATION_STACK_MAX ? count + SPARE_LIMITERS : RATION_STACK_MAX;
    struct ration_stack_options asked = {
        .struct_size = sizeof(asked),
        .limiters = limiters,
        .limiter_count = count,
        .limiters_max = limiters_max,
        .spare_bytes = options->spare_bytes,
        .clock = &gate->clock,
        .threads_max = options->threads_max,
        .is_prefaulted = options->is_prefaulted,
        .uses_huge_pages = options->uses_huge_pages,
    };
    ration_status status = RATION_OK;

    if (gate->top_keys > 0 && count > TOP_KEYS_ALL / gate->top_keys)
        gate->top_keys =
            count < TOP_KEYS_ALL / TOP_KEYS_MIN ? TOP_KEYS_ALL / (uint32_t)count : TOP_KEYS_MIN;
    gate->tables = calloc(limiters_max, sizeof(gate->tables[0]));
    gate->table_max = limiters_max;
    if (limiters == NULL || rules == NULL || gate->tables == NULL)
        status = ration_refuse(error, RATION_ENOMEM, "no memory for the gate");
    for (size_t i = 0; i < count && status == RATION_OK; i++) {
        limiters[i] = ration_gate_limiter_options(gate, &stack->seeds[i].limit, &rules[i]);
        gate->tables[i].is_used = stack->seeds[i].is_used;
        gate->tables[i].removed_number = stack->seeds[i].removed_number;
        if (gate->removal_count < stack->seeds[i].removed_number)
            gate->removal_count = stack->seeds[i].removed_number;
        gate->tables[i].key_text = strdup(stack->seeds[i].key_text);
        if (gate->tables[i].key_text == NULL)
            status = ration_refuse(error, RATION_ENOMEM, "no memory for the gate");
    }
    if (status == RATION_OK)
        status = open_stack(gate, &asked, stack, error);
    free(limiters);
    free(rules);
    return status;
}

ration_status ration_gate_make_throttle(struct ration_gate *gate,
                                        const struct ration_gate_options *options,
                                        ration_reader *read, void *context,
                                        struct ration_error *error)
{
    struct ration_rule rule = {0};
    struct ration_limiter_options asked = {
        .struct_size = sizeof(asked),
        .rules = &rule,
        .rule_count = 1,
        .keys_max =
            options->throttle_keys_max > 0 ? options->throttle_keys_max : THROTTLE_KEYS_DEFAULT,
        .clock = &gate->clock,
        .name = RATION_POLICY_THROTTLE,
        .threads_max = options->threads_max,
        .is_prefaulted = options->is_prefaulted,
        .uses_huge_pages = 1 /* one table, and each request misses in it */,
        .top_keys = options->top_keys,
        .has_inline_limits = 1,
    };

    (void)ration_limit_per_second(1, &rule.limit); /* an example of its kind */
    if (read == NULL)
        return ration_limiter_create(&asked, &gate->throttle, error);
    asked.keys_max = 0; /* as it was saved */
    return ration_limiter_load(&asked, read, context, &gate->throttle, error);
}

ration_status ration_gate_clear_inline(ration_gate *gate)
{
    struct ration_rule rule = {0};

    if (gate->remote != NULL)
        return RATION_EUNFIT;
    (void)ration_limit_per_second(1, &rule.limit);
    ration_limiter_clear(gate->throttle, &rule, 1);
    return RATION_OK;
}

/* All limits of the policy, as they are: each a limiter of its own, in their order. */
static ration_status make_first_plan(struct ration_gate *gate,
                                     const struct ration_gate_options *options,
                                     ration_policy *policy, struct ration_error *error)
{
    size_t count = ration_policy_limit_count(policy);
    struct ration_gate_seed *seeds = calloc(count, sizeof(*seeds));
    char *key_texts = malloc(count * RATION_GATE_KEY_TEXT_SIZE);
    struct ration_gate_plan *plan = NULL;
    struct ration_gate_stack stack = {.seeds = seeds, .seed_count = count};
    ration_status status =
        gate->remote != NULL ? ration_gate_remote_fits(gate, policy, error) : RATION_OK;

    if (status == RATION_OK)
        status = ration_gate_make_holds(gate, options, NULL, NULL, error);
    if (status == RATION_OK)
        plan = ration_gate_plan_create(gate, policy);
    if (status == RATION_OK && (seeds == NULL || key_texts == NULL || plan == NULL))
        status = ration_refuse(error, RATION_ENOMEM, "no memory for the policy");
    for (size_t i = 0; i < count && status == RATION_OK; i++) {
        seeds[i].limit = *ration_policy_limit_at(policy, i);
        seeds[i].key_text = key_texts + i * RATION_GATE_KEY_TEXT_SIZE;
        ration_gate_key_text(&seeds[i].limit, seeds[i].key_text);
        seeds[i].is_used = true;
        plan->limiter_indexes[i] = (uint32_t)i;
    }
    if (status == RATION_OK)
        status = ration_gate_make_stack(gate, options, &stack, error);
    if (status == RATION_OK)
        status = ration_gate_make_throttle(gate, options, NULL, NULL, error);
    free(seeds);
    free(key_texts);
    if (status != RATION_OK) {
        free(plan);
        return status;
    }
    plan->generation = 1;
    gate->plan = plan;
    return RATION_OK;
}

ration_status ration_gate_create(const struct ration_gate_options *options, ration_policy *policy,
                                 ration_gate **out_gate, struct ration_error *error)
{
    struct ration_gate *gate;
    ration_status status = ration_gate_begin(options, &gate, error);

    if (status != RATION_OK)
        return status;
    status = make_first_plan(gate, options, policy, error);
    if (status != RATION_OK) {
        ration_gate_free(gate);
        return status;
    }
    *out_gate = gate;
    return RATION_OK;
}

/* As ration_limiter_lock() does: a child of fork() has not the thread that held it. */
void ration_gate_lock(struct ration_gate *gate)
{
    uint64_t process = ration_process_id();
    uint64_t seen = __atomic_load_n(&gate->lock_process, __ATOMIC_ACQUIRE);

    while (seen != process) {
        if (seen != UINT64_MAX &&
            __atomic_compare_exchange_n(&gate->lock_process, &seen, UINT64_MAX, false,
                                        __ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE)) {
            pthread_mutex_init(&gate->reload_lock, NULL);
            __atomic_store_n(&gate->lock_process, process, __ATOMIC_RELEASE);
        }
        seen = __atomic_load_n(&gate->lock_process, __ATOMIC_ACQUIRE);
    }
    pthread_mutex_lock(&gate->reload_lock);
}

void ration_gate_unlock(struct ration_gate *gate)
{
    pthread_mutex_unlock(&gate->reload_lock);
}

void ration_gate_free_retired(struct ration_gate *gate)
{
    while (gate->retired != NULL) {
        struct ration_gate_plan *plan = gate->retired;

        gate->retired = plan->next;
        ration_policy_free(plan->policy);
        free(plan);
    }
}

void ration_gate_free(ration_gate *gate)
{
    if (gate == NULL)
        return;
    for (size_t i = 0; gate->tables != NULL && i < gate->table_max; i++)
        free(gate->tables[i].key_text);
    if (gate->plan != NULL) {
        ration_policy_free(gate->plan->policy);
        free(gate->plan);
    }
    ration_gate_free_retired(gate);
    free(gate->tables);
    ration_stack_free(gate->stack);
    ration_limiter_free(gate->throttle);
    ration_limiter_free(gate->holds);
    ration_gate_remote_free(gate->remote);
    pthread_mutex_destroy(&gate->reload_lock);
    ration_grace_done(&gate->grace);
    free(gate);
}
