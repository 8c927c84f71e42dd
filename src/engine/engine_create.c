/*
 * engine_create: creates an engine and the tables that its policy needs.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/os.h"
#include "engine/remote.h"
#include "limiter/limiter_internal.h"

#define SPARE_BYTES_DEFAULT ((size_t)256 << 30)
#define SPARE_BYTES_MIN     ((size_t)1 << 20)
/* With many limits each limit tracks fewer top keys, because each takes memory: about this many in total. */
#define TOP_KEYS_ALL 10000u
#define TOP_KEYS_MIN 4u

#define SPARE_LIMITERS      8192
#define INLINE_KEYS_DEFAULT 1000000

struct ration_limiter_options ration_engine_limiter_options(const struct ration_engine *engine,
                                                            const struct ration_policy_limit *limit,
                                                            struct ration_rule *rule)
{
    *rule = (struct ration_rule){
        .limit = engine->remote != NULL ? ration_engine_share(engine->remote, &limit->limit)
                                        : limit->limit,
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
        .top_keys = limit->key_count > 0 ? engine->top_keys : 0,
    };
}

void ration_engine_key_text(const struct ration_policy_limit *limit, char *out_text)
{
    size_t used = 0;

    out_text[0] = '\0';
    for (size_t i = 0; i < limit->key_count; i++) {
        bool is_address = strcmp(limit->key_names[i], "ip") == 0;
        char prefix[16] = "";

        if (is_address)
            snprintf(prefix, sizeof(prefix), " /%u", (unsigned)limit->ipv6_prefix);
        used += (size_t)snprintf(out_text + used, RATION_ENGINE_KEY_TEXT_SIZE - used, "%s%s%s",
                                 i > 0 ? " " : "", limit->key_names[i], prefix);
    }
}

struct ration_engine_plan *ration_engine_plan_create(const struct ration_engine *engine,
                                                     ration_policy *policy)
{
    size_t count = ration_policy_limit_count(policy);
    size_t index_count = count + count % 2; /* even, so that the arrays after it are aligned */
    struct ration_engine_plan *plan =
        calloc(1, sizeof(*plan) + index_count * sizeof(plan->limiter_indexes[0]) +
                      count * (sizeof(plan->block_secrets[0]) + sizeof(plan->changed_ns[0])));

    if (plan == NULL)
        return NULL;
    plan->policy = policy;
    plan->block_secrets = (struct ration_hash *)(void *)(plan->limiter_indexes + index_count);
    plan->changed_ns = (uint64_t *)(void *)(plan->block_secrets + count);
    for (size_t i = 0; i < count; i++) {
        plan->block_secrets[i] =
            ration_engine_block_secret(engine, ration_policy_limit_at(policy, i));
        plan->changed_ns[i] = ration_engine_now(engine);
    }
    return plan;
}

ration_status ration_engine_begin(const struct ration_engine_options *options,
                                  struct ration_engine **out_engine, struct ration_error *error)
{
    struct ration_engine *engine;

    if (options == NULL || options->struct_size != sizeof(*options))
        return ration_error_set(error, RATION_EINVAL,
                                "struct_size must be sizeof(struct ration_engine_options)");
    if (options->clock != NULL && options->clock->now_ns == NULL)
        return ration_error_set(error, RATION_EINVAL, "clock has no function");
    if (options->attribute_bytes_max > RATION_ATTRIBUTE_BYTES_MAX)
        return ration_error_set(error, RATION_EINVAL, "attribute_bytes_max is at most 1048576");
    engine = calloc(1, sizeof(*engine));
    if (engine == NULL || ration_epoch_init(&engine->epoch) != RATION_OK) {
        free(engine);
        return ration_error_set(error, RATION_ENOMEM, "no memory for the engine");
    }
    engine->clock = options->clock != NULL ? *options->clock : ration_clock_tsc();
    engine->top_keys = options->top_keys;
    engine->attribute_bytes_max = options->attribute_bytes_max > 0 ? options->attribute_bytes_max
                                                                   : RATION_ATTRIBUTE_BYTES_DEFAULT;
    if (options->redis != NULL) {
        ration_status status =
            ration_engine_remote_create(options, &engine->clock, &engine->remote, error);

        if (status != RATION_OK) {
            ration_epoch_done(&engine->epoch);
            free(engine);
            return status;
        }
    }
    pthread_mutex_init(&engine->reload_lock, NULL);
    engine->lock_process = ration_os_process_id();
    *out_engine = engine;
    return RATION_OK;
}

/*
 * Creates or loads the stack with the configured spare_bytes. If they are not configured, halves the default until
 * the system allows it: a process may have less address space. A dump can be read only once, so for a dump the size
 * is found by creating an empty stack first.
 */
static ration_status open_stack(struct ration_engine *engine, struct ration_stack_options *options,
                                const struct ration_engine_stack *stack, struct ration_error *error)
{
    struct ration_stack_options attempt = *options;
    bool has_default_spare = options->spare_bytes == 0;
    ration_stack *created = NULL;
    ration_status status;

    attempt.spare_bytes = has_default_spare ? SPARE_BYTES_DEFAULT : options->spare_bytes;
    if (stack->read != NULL)
        attempt.is_prefaulted = 0;
    for (;;) {
        status = ration_stack_create(&attempt, &created, error);
        if (status != RATION_ENOMEM || !has_default_spare || attempt.spare_bytes < SPARE_BYTES_MIN)
            break;
        attempt.spare_bytes /= 2;
    }
    if (status != RATION_OK)
        return status;
    if (stack->read == NULL) {
        engine->stack = created;
        return RATION_OK;
    }
    ration_stack_free(created);
    attempt.is_prefaulted = options->is_prefaulted;
    return ration_stack_load(&attempt, stack->read, stack->context, &engine->stack, error);
}

ration_status ration_engine_make_stack(struct ration_engine *engine,
                                       const struct ration_engine_options *options,
                                       const struct ration_engine_stack *stack,
                                       struct ration_error *error)
{
    size_t count = stack->limiter_plan_count;
    struct ration_limiter_options *limiters = calloc(count, sizeof(*limiters));
    struct ration_rule *rules = calloc(count, sizeof(*rules));
    size_t limiters_max =
        count + SPARE_LIMITERS < RATION_STACK_MAX ? count + SPARE_LIMITERS : RATION_STACK_MAX;
    struct ration_stack_options stack_options = {
        .struct_size = sizeof(stack_options),
        .limiters = limiters,
        .limiter_count = count,
        .limiters_max = limiters_max,
        .spare_bytes = options->spare_bytes,
        .clock = &engine->clock,
        .threads_max = options->threads_max,
        .is_prefaulted = options->is_prefaulted,
        .uses_huge_pages = options->uses_huge_pages,
    };
    ration_status status = RATION_OK;

    if (engine->top_keys > 0 && count > TOP_KEYS_ALL / engine->top_keys)
        engine->top_keys =
            count < TOP_KEYS_ALL / TOP_KEYS_MIN ? TOP_KEYS_ALL / (uint32_t)count : TOP_KEYS_MIN;
    engine->tables = calloc(limiters_max, sizeof(engine->tables[0]));
    engine->table_max = limiters_max;
    if (limiters == NULL || rules == NULL || engine->tables == NULL)
        status = ration_error_set(error, RATION_ENOMEM, "no memory for the engine");
    for (size_t i = 0; i < count && status == RATION_OK; i++) {
        limiters[i] =
            ration_engine_limiter_options(engine, &stack->limiter_plans[i].limit, &rules[i]);
        engine->tables[i].is_used = stack->limiter_plans[i].is_used;
        engine->tables[i].removed_number = stack->limiter_plans[i].removed_number;
        if (engine->removal_count < stack->limiter_plans[i].removed_number)
            engine->removal_count = stack->limiter_plans[i].removed_number;
        engine->tables[i].key_text = strdup(stack->limiter_plans[i].key_text);
        if (engine->tables[i].key_text == NULL)
            status = ration_error_set(error, RATION_ENOMEM, "no memory for the engine");
    }
    if (status == RATION_OK)
        status = open_stack(engine, &stack_options, stack, error);
    free(limiters);
    free(rules);
    return status;
}

ration_status ration_engine_make_inline_limiter(struct ration_engine *engine,
                                                const struct ration_engine_options *options,
                                                ration_reader *read, void *context,
                                                struct ration_error *error)
{
    struct ration_rule rule = {0};
    struct ration_limiter_options limiter_options = {
        .struct_size = sizeof(limiter_options),
        .rules = &rule,
        .rule_count = 1,
        .keys_max = options->inline_keys_max > 0 ? options->inline_keys_max : INLINE_KEYS_DEFAULT,
        .clock = &engine->clock,
        .name = RATION_POLICY_INLINE,
        .threads_max = options->threads_max,
        .is_prefaulted = options->is_prefaulted,
        .uses_huge_pages = 1 /* one large table with random access */,
        .top_keys = options->top_keys,
        .has_inline_limits = 1,
    };

    /* any token bucket: requests carry the real limit */
    (void)ration_limit_per_second(1, &rule.limit);
    if (read == NULL)
        return ration_limiter_create(&limiter_options, &engine->inline_limit, error);
    limiter_options.keys_max = 0; /* the size that was saved */
    return ration_limiter_load(&limiter_options, read, context, &engine->inline_limit, error);
}

ration_status ration_engine_clear_inline(ration_engine *engine)
{
    struct ration_rule rule = {0};

    if (engine->remote != NULL)
        return RATION_EUNSUPPORTED;
    (void)ration_limit_per_second(1, &rule.limit);
    ration_limiter_clear(engine->inline_limit, &rule, 1);
    return RATION_OK;
}

/* Creates one limiter for each limit of the policy, in the policy's order, and the plan. */
static ration_status make_first_plan(struct ration_engine *engine,
                                     const struct ration_engine_options *options,
                                     ration_policy *policy, struct ration_error *error)
{
    size_t count = ration_policy_limit_count(policy);
    struct ration_engine_limiter_plan *limiter_plans = calloc(count, sizeof(*limiter_plans));
    char *key_texts = malloc(count * RATION_ENGINE_KEY_TEXT_SIZE);
    struct ration_engine_plan *plan = NULL;
    struct ration_engine_stack stack = {.limiter_plans = limiter_plans,
                                        .limiter_plan_count = count};
    ration_status status =
        engine->remote != NULL ? ration_engine_remote_fits(engine, policy, error) : RATION_OK;

    if (status == RATION_OK)
        status = ration_engine_make_blocks(engine, options, NULL, NULL, error);
    if (status == RATION_OK)
        plan = ration_engine_plan_create(engine, policy);
    if (status == RATION_OK && (limiter_plans == NULL || key_texts == NULL || plan == NULL))
        status = ration_error_set(error, RATION_ENOMEM, "no memory for the policy");
    for (size_t i = 0; i < count && status == RATION_OK; i++) {
        limiter_plans[i].limit = *ration_policy_limit_at(policy, i);
        limiter_plans[i].key_text = key_texts + i * RATION_ENGINE_KEY_TEXT_SIZE;
        ration_engine_key_text(&limiter_plans[i].limit, limiter_plans[i].key_text);
        limiter_plans[i].is_used = true;
        plan->limiter_indexes[i] = (uint32_t)i;
    }
    if (status == RATION_OK)
        status = ration_engine_make_stack(engine, options, &stack, error);
    if (status == RATION_OK)
        status = ration_engine_make_inline_limiter(engine, options, NULL, NULL, error);
    free(limiter_plans);
    free(key_texts);
    if (status != RATION_OK) {
        free(plan);
        return status;
    }
    plan->generation = 1;
    engine->plan = plan;
    return RATION_OK;
}

ration_status ration_engine_create(const struct ration_engine_options *options,
                                   ration_policy *policy, ration_engine **out_engine,
                                   struct ration_error *error)
{
    struct ration_engine *engine;
    ration_status status = ration_engine_begin(options, &engine, error);

    if (status != RATION_OK)
        return status;
    status = make_first_plan(engine, options, policy, error);
    if (status != RATION_OK) {
        ration_engine_free(engine);
        return status;
    }
    *out_engine = engine;
    return RATION_OK;
}

/*
 * Like ration_limiter_lock(): in a child of fork() the thread that held the mutex does not exist, so the first caller
 * in the child initializes the mutex again. UINT64_MAX: a thread is doing that.
 */
void ration_engine_lock_reload(struct ration_engine *engine)
{
    uint64_t process = ration_os_process_id();
    uint64_t seen = __atomic_load_n(&engine->lock_process, __ATOMIC_ACQUIRE);

    while (seen != process) {
        if (seen != UINT64_MAX &&
            __atomic_compare_exchange_n(&engine->lock_process, &seen, UINT64_MAX, false,
                                        __ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE)) {
            pthread_mutex_init(&engine->reload_lock, NULL);
            __atomic_store_n(&engine->lock_process, process, __ATOMIC_RELEASE);
        }
        seen = __atomic_load_n(&engine->lock_process, __ATOMIC_ACQUIRE);
    }
    pthread_mutex_lock(&engine->reload_lock);
}

void ration_engine_unlock_reload(struct ration_engine *engine)
{
    pthread_mutex_unlock(&engine->reload_lock);
}

void ration_engine_free_retired(struct ration_engine *engine)
{
    while (engine->retired != NULL) {
        struct ration_engine_plan *plan = engine->retired;

        engine->retired = plan->next;
        ration_policy_free(plan->policy);
        free(plan);
    }
}

void ration_engine_free(ration_engine *engine)
{
    if (engine == NULL)
        return;
    for (size_t i = 0; engine->tables != NULL && i < engine->table_max; i++)
        free(engine->tables[i].key_text);
    if (engine->plan != NULL) {
        ration_policy_free(engine->plan->policy);
        free(engine->plan);
    }
    ration_engine_free_retired(engine);
    free(engine->tables);
    ration_stack_free(engine->stack);
    ration_limiter_free(engine->inline_limit);
    ration_limiter_free(engine->blocks);
    ration_engine_remote_free(engine->remote);
    pthread_mutex_destroy(&engine->reload_lock);
    ration_epoch_done(&engine->epoch);
    free(engine);
}
