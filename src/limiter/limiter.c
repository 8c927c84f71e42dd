#include "limiter/limiter.h"

#include <stdio.h>
#include <string.h>

#include "base/process.h"
#include "core/change.h"
#include "limiter/quick_line.h"

static bool allow_now(struct ration_limiter *limiter, const void *request)
{
    return limiter->allow(limiter, request, 1, ration_clock_now(&limiter->clock));
}

/* The shortest way that fits for good: rules may change, what is asked here does not. */
static void choose_way(struct ration_limiter *limiter, const struct ration_limiter_options *options)
{
    const struct ration_store *store = limiter->store;

    limiter->allow = ration_limiter_allow_any;
    limiter->allow_now = allow_now;
    if (options->keyer != NULL || store->calls->section == NULL)
        return;
    limiter->quick_section = store->calls->section(limiter->store, limiter->section_index);
    if (ration_quick_line_possible(limiter->quick_section) && options->top_keys == 0 &&
        !options->sample_latency)
        limiter->allow = ration_quick_line_allow;
    if (limiter->allow == ration_quick_line_allow &&
        limiter->clock.now_ns == ration_clock_tsc().now_ns &&
        limiter->clock.kind == RATION_CLOCK_TSC)
        limiter->allow_now = ration_quick_line_allow_by_tsc;
}

ration_status ration_limiter_init(struct ration_limiter *limiter,
                                  const struct ration_limiter_options *options,
                                  struct ration_configs *configs, struct ration_store *store,
                                  uint32_t section_index, struct ration_clock clock)
{
    memset(limiter, 0, sizeof(*limiter));

    ration_status status = ration_tally_init(&limiter->tally, configs->rule_count, options);

    if (status != RATION_OK)
        return status;
    limiter->store = store;
    limiter->section_index = section_index;
    limiter->keyer = options->keyer;
    limiter->keyer_context = options->keyer_context;
    limiter->overflow = options->overflow;
    limiter->clock = clock;
    choose_way(limiter, options);
    if (options->name != NULL)
        snprintf(limiter->name, sizeof(limiter->name), "%s", options->name);
    limiter->configs = *configs;
    limiter->configs.current = &limiter->configs.configs[0];
    pthread_mutex_init(&limiter->change_lock, NULL);
    limiter->lock_process = ration_process_id();
    return RATION_OK;
}

void ration_limiter_done(struct ration_limiter *limiter)
{
    pthread_mutex_destroy(&limiter->change_lock);
    ration_tally_done(&limiter->tally);
    ration_configs_done(&limiter->configs);
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
    ration_configs_read_rule(&limiter->configs, (uint32_t)rule_index, out_rule);
    return RATION_OK;
}

ration_status ration_limiter_key(const struct ration_limiter *limiter, const void *request,
                                 char *room, struct ration_key *out_key)
{
    if (limiter->keyer == NULL) {
        if (request == NULL)
            return RATION_EINVAL;
        *out_key = *(const struct ration_key *)request;
    } else {
        ration_status status = limiter->keyer(limiter->keyer_context, request, room, out_key);

        if (status != RATION_OK)
            return status;
    }
    if (out_key->size > RATION_KEY_SIZE_MAX || (out_key->bytes == NULL && out_key->size > 0))
        return RATION_EINVAL;
    return RATION_OK;
}

/* Whether a limit is the rule's, name and all. */
static bool is_of_rule(const struct ration_op_part *part, uint32_t rule_index,
                       const struct ration_limit *limit)
{
    struct ration_rule rule;

    ration_configs_read_rule(part->configs, rule_index, &rule);
    return ration_change_is_none(&rule.limit, limit) && rule.limit.start == limit->start &&
           rule.limit.start_tokens == limit->start_tokens &&
           strcmp(rule.limit.name, limit->name) == 0;
}

/* How a rule's limit is chosen: a copy, as it may be overwritten meanwhile. */
struct choice {
    ration_chooser *choose;
    void *context;
    const struct ration_limit *limits;
    uint32_t limit_count; /* 0: it does not choose from several */
    bool sets_cost;
};

static struct choice read_choice(const struct ration_op_part *part, uint32_t rule_index)
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
 * What a rule's function returned, as the limits that apply: of those that it chooses from one, with the
 * others beside it that do not. RATION_EUNFIT if it may not return that.
 */
static ration_status take_choice(struct ration_op_part *part, uint32_t rule_index,
                                 const struct choice *choice, const struct ration_limit *chosen,
                                 uint64_t cost_tokens)
{
    const struct ration_limit *own = &part->own_limits[rule_index];
    bool is_one_budget = ration_part_is_one_budget(part, rule_index);
    bool is_found = chosen == NULL;

    for (uint32_t k = 0; k < choice->limit_count; k++) {
        bool is_chosen = chosen != NULL && chosen == choice->limits + k;

        part->limits[rule_index + k] = is_chosen ? own + k : NULL;
        part->costs[rule_index + k] = cost_tokens;
        is_found |= is_chosen;
    }
    if (choice->limit_count > 0)
        return is_found ? RATION_OK : RATION_EUNFIT;
    part->costs[rule_index] = cost_tokens;
    part->limits[rule_index] = chosen == NULL || is_one_budget ? chosen : own;
    if (is_found)
        return RATION_OK;
    return (is_one_budget ? ration_any_is_alike(own, chosen) : is_of_rule(part, rule_index, chosen))
               ? RATION_OK
               : RATION_EUNFIT;
}

/* Asks a rule's function. False: the config was replaced while it was read. */
static bool ask(struct ration_op_part *part, uint32_t rule_index, const struct choice *choice,
                const void *request, uint64_t cost_tokens, ration_status *out_status)
{
    uint64_t cost = cost_tokens;
    const struct ration_limit *chosen;

    /* a function is called only with the context that it came with */
    if (!ration_config_stands(part->to.config, part->to.config_number))
        return false;
    chosen = choice->choose(choice->context, request, &cost);
    if (cost_tokens == 0)
        cost = 0; /* a look stays one */
    *out_status = take_choice(part, rule_index, choice, chosen, cost);
    if (choice->sets_cost || cost != cost_tokens)
        for (uint32_t k = 0; k == 0 || k < choice->limit_count; k++)
            part->own_cost_mask |= 1u << (rule_index + k);
    return *out_status == RATION_OK ||
           ration_config_stands(part->to.config, part->to.config_number);
}

static bool choose_all(const struct ration_limiter *limiter, const void *request,
                       uint64_t cost_tokens, struct ration_op_part *part, ration_status *out_status)
{
    uint32_t step;

    *out_status = RATION_OK;
    part->own_cost_mask = 0;
    ration_part_read_config(part, &limiter->configs);
    for (uint32_t i = 0; i < part->rule_count && *out_status == RATION_OK; i += step) {
        struct choice choice = read_choice(part, i);

        step = choice.limit_count > 0 ? choice.limit_count : 1;
        part->limits[i] = &part->own_limits[i];
        part->costs[i] = cost_tokens;
        if (choice.choose != NULL && !ask(part, i, &choice, request, cost_tokens, out_status))
            return false;
    }
    return true;
}

ration_status ration_limiter_choose(const struct ration_limiter *limiter, const void *request,
                                    uint64_t cost_tokens, struct ration_op_part *part)
{
    ration_status status;

    while (!choose_all(limiter, request, cost_tokens, part, &status))
        ; /* each turn means that limits were changed */
    return status;
}

ration_status ration_limiter_open_part(const struct ration_limiter *limiter, const void *request,
                                       char *room, uint64_t cost_tokens,
                                       struct ration_op_part *out_part)
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
    return ration_limiter_choose(limiter, request, cost_tokens, out_part);
}
