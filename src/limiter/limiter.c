#include "limiter/limiter_internal.h"

#include <stdio.h>
#include <string.h>

#include "base/os.h"
#include "core/change.h"
#include "limiter/fast_simd.h"

static bool allow_now(struct ration_limiter *limiter, const void *request)
{
    return limiter->allow(limiter, request, 1, ration_clock_now(&limiter->clock));
}

/* Chooses the fastest functions that remain valid: rules may change later, but the options checked here do not. */
static void choose_allow(struct ration_limiter *limiter,
                         const struct ration_limiter_options *options)
{
    const struct ration_store *store = limiter->store;

    limiter->allow = ration_limiter_allow_any;
    limiter->allow_now = allow_now;
    if (options->key_func != NULL || store->calls->section == NULL)
        return;
    limiter->fast_section = store->calls->section(limiter->store, limiter->section_index);
    if (ration_fast_simd_possible(limiter->fast_section) && options->top_keys == 0 &&
        !options->sample_latency)
        limiter->allow = ration_fast_simd_allow;
    if (limiter->allow == ration_fast_simd_allow &&
        limiter->clock.now_ns == ration_clock_tsc().now_ns &&
        limiter->clock.kind == RATION_CLOCK_TSC)
        limiter->allow_now = ration_fast_simd_allow_by_tsc;
}

ration_status ration_limiter_init(struct ration_limiter *limiter,
                                  const struct ration_limiter_options *options,
                                  struct ration_config_table *configs, struct ration_store *store,
                                  uint32_t section_index, struct ration_clock clock)
{
    memset(limiter, 0, sizeof(*limiter));

    ration_status status =
        ration_limiter_counts_init(&limiter->counts, configs->rule_count, options);

    if (status != RATION_OK)
        return status;
    limiter->store = store;
    limiter->section_index = section_index;
    limiter->key_func = options->key_func;
    limiter->key_context = options->key_context;
    limiter->overflow = options->overflow;
    limiter->clock = clock;
    choose_allow(limiter, options);
    if (options->name != NULL)
        snprintf(limiter->name, sizeof(limiter->name), "%s", options->name);
    limiter->configs = *configs;
    limiter->configs.current = &limiter->configs.configs[0];
    pthread_mutex_init(&limiter->change_lock, NULL);
    limiter->lock_process = ration_os_process_id();
    return RATION_OK;
}

void ration_limiter_done(struct ration_limiter *limiter)
{
    pthread_mutex_destroy(&limiter->change_lock);
    ration_limiter_counts_done(&limiter->counts);
    ration_config_table_done(&limiter->configs);
}

uint64_t ration_limiter_now(const ration_limiter *limiter)
{
    return ration_clock_now(&limiter->clock);
}

size_t ration_limiter_rule_count(const ration_limiter *limiter)
{
    return limiter->configs.rule_count;
}

const char *ration_limiter_name(const ration_limiter *limiter)
{
    return limiter->name;
}

ration_status ration_limiter_rule(const ration_limiter *limiter, size_t rule_index,
                                  struct ration_rule *out_rule)
{
    if (rule_index >= limiter->configs.rule_count)
        return RATION_EINVAL;
    ration_config_table_read_rule(&limiter->configs, (uint32_t)rule_index, out_rule);
    return RATION_OK;
}

ration_status ration_limiter_key(const struct ration_limiter *limiter, const void *request,
                                 char *room, struct ration_key *out_key)
{
    if (limiter->key_func == NULL) {
        if (request == NULL)
            return RATION_EINVAL;
        *out_key = *(const struct ration_key *)request;
    } else {
        ration_status status = limiter->key_func(limiter->key_context, request, room, out_key);

        if (status != RATION_OK)
            return status;
    }
    if (out_key->size > RATION_KEY_SIZE_MAX || (out_key->bytes == NULL && out_key->size > 0))
        return RATION_EINVAL;
    return RATION_OK;
}

/* Whether a limit equals the rule's limit, including its name. */
static bool is_limit_of_rule(const struct ration_key_part *part, uint32_t rule_index,
                             const struct ration_limit *limit)
{
    struct ration_rule rule;

    ration_config_table_read_rule(part->configs, rule_index, &rule);
    return ration_change_is_none(&rule.limit, limit) && rule.limit.start == limit->start &&
           rule.limit.start_tokens == limit->start_tokens &&
           strcmp(rule.limit.name, limit->name) == 0;
}

/* How a rule's limit is chosen: a copy, since a change may overwrite the config meanwhile. */
struct choice {
    ration_limit_func *choose;
    void *context;
    const struct ration_limit *limits;
    uint32_t limit_count; /* 0: the rule has one limit */
    bool sets_cost;
};

static struct choice read_choice(const struct ration_key_part *part, uint32_t rule_index)
{
    const struct ration_config_rule *rule = &part->to.config->rules[rule_index];

    return (struct choice){
        .choose = RATION_CONFIG_READ(rule->choose),
        .context = RATION_CONFIG_READ(rule->choose_context),
        .limits = RATION_CONFIG_READ(rule->choices),
        .limit_count = (uint32_t)RATION_CONFIG_READ(rule->choice_count),
        .sets_cost = RATION_CONFIG_READ(rule->sets_cost) != 0,
    };
}

/*
 * Applies the limit that a rule's function returned: of the limits that the rule chooses from, that one applies
 * and the others do not. Returns RATION_EUNSUPPORTED if the function may not return that limit.
 */
static ration_status apply_choice(struct ration_key_part *part, uint32_t rule_index,
                                  const struct choice *choice, const struct ration_limit *chosen,
                                  uint64_t cost_tokens)
{
    const struct ration_limit *own = &part->own_limits[rule_index];
    bool is_one_budget = ration_op_part_is_one_budget(part, rule_index);
    bool is_found = chosen == NULL;

    for (uint32_t k = 0; k < choice->limit_count; k++) {
        bool is_chosen = chosen != NULL && chosen == choice->limits + k;

        part->limits[rule_index + k] = is_chosen ? own + k : NULL;
        part->costs[rule_index + k] = cost_tokens;
        is_found |= is_chosen;
    }
    if (choice->limit_count > 0)
        return is_found ? RATION_OK : RATION_EUNSUPPORTED;
    part->costs[rule_index] = cost_tokens;
    part->limits[rule_index] = chosen == NULL || is_one_budget ? chosen : own;
    if (is_found)
        return RATION_OK;
    return (is_one_budget ? ration_bucket_state_is_same_layout(own, chosen)
                          : is_limit_of_rule(part, rule_index, chosen))
               ? RATION_OK
               : RATION_EUNSUPPORTED;
}

/* Calls a rule's function. Returns false if the config was replaced while it was read. */
static bool call_choose(struct ration_key_part *part, uint32_t rule_index,
                        const struct choice *choice, const void *request, uint64_t cost_tokens,
                        ration_status *out_status)
{
    uint64_t cost = cost_tokens;
    const struct ration_limit *chosen;

    /* a function is called only with its own context */
    if (!ration_config_is_current(part->to.config, part->to.config_number))
        return false;
    chosen = choice->choose(choice->context, request, &cost);
    if (cost_tokens == 0)
        cost = 0; /* a peek stays a peek */
    *out_status = apply_choice(part, rule_index, choice, chosen, cost);
    if (choice->sets_cost || cost != cost_tokens)
        for (uint32_t k = 0; k == 0 || k < choice->limit_count; k++)
            part->own_cost_mask |= 1u << (rule_index + k);
    return *out_status == RATION_OK ||
           ration_config_is_current(part->to.config, part->to.config_number);
}

static bool choose_all(const struct ration_limiter *limiter, const void *request,
                       uint64_t cost_tokens, struct ration_key_part *part,
                       ration_status *out_status)
{
    uint32_t rule_step;

    *out_status = RATION_OK;
    part->own_cost_mask = 0;
    ration_op_read_config(part, &limiter->configs);
    for (uint32_t i = 0; i < part->rule_count && *out_status == RATION_OK; i += rule_step) {
        struct choice choice = read_choice(part, i);

        rule_step = choice.limit_count > 0 ? choice.limit_count : 1;
        part->limits[i] = &part->own_limits[i];
        part->costs[i] = cost_tokens;
        if (choice.choose != NULL &&
            !call_choose(part, i, &choice, request, cost_tokens, out_status))
            return false;
    }
    return true;
}

/* Chooses, from the current config, the rules that apply to a part whose key is known. */
static ration_status choose_rules(const struct ration_limiter *limiter, const void *request,
                                  uint64_t cost_tokens, struct ration_key_part *part)
{
    ration_status status;

    while (!choose_all(limiter, request, cost_tokens, part, &status))
        ; /* each round means that another thread changed the limits */
    return status;
}

ration_status ration_limiter_open_part(const struct ration_limiter *limiter, const void *request,
                                       char *room, uint64_t cost_tokens,
                                       struct ration_key_part *out_part)
{
    ration_status status = ration_limiter_key(limiter, request, room, &out_part->to.key);

    if (status != RATION_OK)
        return status;
    out_part->to.section_index = limiter->section_index;
    out_part->to.is_located = 0;
    out_part->overflow = __atomic_load_n(&limiter->overflow, __ATOMIC_RELAXED);
    out_part->has_overflowed = 0;
    out_part->has_created = 0;
    out_part->has_reclaimed = 0;
    return choose_rules(limiter, request, cost_tokens, out_part);
}
