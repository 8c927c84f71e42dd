/*
 * config: a limiter's rules, as they are at one time and as they were.
 *
 * A change of limits makes a new config, and every bucket remembers by a number of 0 to 6, its
 * generation, which config wrote it. The changer goes through the table and converts what is in debt
 * (store.h); a call that meets a bucket before converts it likewise, as of the time of the change. A call
 * that was under way may still create a bucket of an older config. So the last 7 configs are kept.
 *
 * Deciders read the current config without a lock. One that slept through 7 changes could read a config
 * while it is overwritten. So what a change writes is written and read by atomic words, a decider copies
 * what it goes by (ration_config_read_limit() and the functions beside it), and each config has a number that
 * is checked once more before what was computed is published. Who holds the limiter's lock may read plainly.
 */
#ifndef RATION_LIMITER_CONFIG_H
#define RATION_LIMITER_CONFIG_H

#include "base/fence.h"
#include "limiter/state.h"
#include "ration/limiter.h"
#include "table/slot.h"

#define RATION_CONFIG_COUNT RATION_GENERATION_COUNT

/* What a change does not change: where the state of a rule lies among a key's cells. */
struct ration_config_place {
    uint32_t first_cell;
    uint32_t cell_count;
    bool has_ring;
};

/* All of it may be overwritten: see above. */
struct ration_config_rule {
    struct ration_limit limit;
    ration_chooser *choose;
    void *choose_context;
    const struct ration_limit *choices; /* the caller's array: only addresses in it are compared */
    uint64_t stale_after_ns;            /* the config's */
    uint32_t is_shadow;
    uint32_t sets_cost;
    uint32_t is_one_budget;
    uint32_t choice_index; /* of this limit among those that choose() chooses from, ... */
    uint64_t choice_count; /* ... which stand side by side. 0: it has no such choice */
};

/* The first rule's rate in one word each; for quick_line.h. */
struct ration_config_short {
    uint64_t token;    /* in 2^-20 ns, as is the next */
    uint64_t capacity; /* of up to RATION_SHORT_NS_MAX */
    uint64_t capacity_ns;
};

#define RATION_SHORT_NS_MAX ((UINT64_C(1) << 43) - 1)

/* What holds for all rules of a config; may be overwritten likewise. */
struct ration_config_terms {
    uint64_t stale_after_ns; /* how long a key is remembered when all its buckets are full: the
                                longest of its rules that do not start full */
    uint32_t is_reset;       /* buckets of older configs start anew */
    uint32_t is_known;       /* it is, or was, in force in this process */
    uint32_t is_simple; /* all rules are continuous token buckets, fixed, enforced, full at first */
    uint32_t is_short;  /* is_simple, and the capacity of the first rule fits */
    struct ration_config_short in_short;
    uint64_t changed_ns;  /* when it came into force, by the limiter's clock; 0: the first */
    uint32_t shadow_mask; /* bit i: of rule i */
    uint32_t one_budget_mask;
};

struct ration_config {
    uint64_t number; /* how many changes came before; UINT64_MAX while it is written */
    struct ration_config_terms terms;
    struct ration_config_rule *rules;
    uint32_t generation;       /* number % RATION_CONFIG_COUNT */
    uint32_t established_mark; /* of a key that this config charges again: see table/slot.h */
};

struct ration_configs {
    const struct ration_config *current; /* of those below: configs stay where they were made */
    uint32_t rule_count;
    uint32_t cell_count;
    uint32_t moment_mask;
    uint32_t ring_cells;
    struct ration_config_place places[RATION_RULES_MAX]; /* by rule */
    struct ration_config configs[RATION_CONFIG_COUNT];
};

/* A field of a config, or of a rule of it, which may be overwritten meanwhile. */
#define RATION_CONFIG_READ(field) __atomic_load_n(&(field), __ATOMIC_RELAXED)

/* Limits that do not start full are remembered for a while when they are: one day if not told. */
uint64_t ration_rule_stale_after_ns(const struct ration_rule *rule);

/* The first of the limits that a rule chooses from; of a rule without such a choice, the rule. */
static inline uint32_t ration_config_first_choice(const struct ration_config *config,
                                                  uint32_t rule_index)
{
    return rule_index - RATION_CONFIG_READ(config->rules[rule_index].choice_index);
}

/* A rate that may be overwritten meanwhile. */
static inline struct ration_rate ration_config_read_rate(const struct ration_rate *rate)
{
    return (struct ration_rate){
        .token = {RATION_CONFIG_READ(rate->token.ns), RATION_CONFIG_READ(rate->token.frac)},
        .capacity = {RATION_CONFIG_READ(rate->capacity.ns),
                     RATION_CONFIG_READ(rate->capacity.frac)},
        .burst = RATION_CONFIG_READ(rate->burst),
        .span_tokens = RATION_CONFIG_READ(rate->span_tokens),
    };
}

/* A limit that may be overwritten meanwhile, without its name. */
static inline void ration_config_read_limit(const struct ration_limit *limit,
                                            struct ration_limit *out_limit)
{
    out_limit->tokens = RATION_CONFIG_READ(limit->tokens);
    out_limit->period_ns = RATION_CONFIG_READ(limit->period_ns);
    out_limit->burst = RATION_CONFIG_READ(limit->burst);
    out_limit->algorithm = RATION_CONFIG_READ(limit->algorithm);
    out_limit->refill = RATION_CONFIG_READ(limit->refill);
    out_limit->start = RATION_CONFIG_READ(limit->start);
    out_limit->start_tokens = RATION_CONFIG_READ(limit->start_tokens);
    out_limit->reserve_tokens = RATION_CONFIG_READ(limit->reserve_tokens);
    out_limit->reserve_period_ns = RATION_CONFIG_READ(limit->reserve_period_ns);
    out_limit->reserve_burst = RATION_CONFIG_READ(limit->reserve_burst);
    out_limit->name[0] = '\0';
    out_limit->rate = ration_config_read_rate(&limit->rate);
    if (out_limit->algorithm == RATION_BURST_RESERVE)
        out_limit->reserve_rate = ration_config_read_rate(&limit->reserve_rate);
}

/* The rule in force, in the form of the public interface. The caller has checked rule_index. */
void ration_configs_read_rule(const struct ration_configs *configs, uint32_t rule_index,
                              struct ration_rule *out_rule);

/*
 * The first config, of rules that are checked here. A rule with limits to choose from becomes as many rules
 * of the config, of which at most one applies to a request; everything else about rules holds for them as
 * for any other: RATION_EINVAL or RATION_EUNFIT with error
 * (may be NULL) telling why, RATION_ENOMEM. Sets the cells that buckets need. Release:
 * ration_configs_done().
 */
ration_status ration_configs_init(struct ration_configs *configs, const struct ration_rule *rules,
                                  size_t rule_count, struct ration_error *error);
void ration_configs_done(struct ration_configs *configs);

/*
 * Whether the rules could replace the current ones: RATION_OK, RATION_EINVAL or RATION_EUNFIT. One
 * changer at a time.
 */
ration_status ration_configs_check(const struct ration_configs *configs,
                                   const struct ration_rule *rules, size_t rule_count,
                                   struct ration_error *error);

/*
 * Whether checked rules may stand beside other limiters' in a stack: not a queue, whose turns lie ahead.
 * RATION_EUNFIT.
 */
ration_status ration_configs_check_stacked(const struct ration_rule *rules, size_t rule_count,
                                           struct ration_error *error);

/* Makes checked rules the current ones. What had the new generation's number is gone already. */
void ration_configs_replace(struct ration_configs *configs, const struct ration_rule *rules,
                            size_t rule_count, enum ration_change change, uint64_t now_ns);

static inline const struct ration_config *ration_configs_current(
    const struct ration_configs *configs)
{
    /* acquire: pairs with the release in ration_configs_replace() */
    return __atomic_load_n(&configs->current, __ATOMIC_ACQUIRE);
}

/* Whether a config that was read as number was whole, and still is that one. */
static inline bool ration_config_stands(const struct ration_config *config, uint64_t number)
{
    ration_fence_acquire();
    return __atomic_load_n(&config->number, __ATOMIC_RELAXED) == number && number != UINT64_MAX;
}

/*
 * The config that wrote a bucket of this generation. One that this process never had was made by
 * another that shares the buckets: then the current one, and the bucket's moments are kept.
 */
static inline const struct ration_config *ration_configs_of(const struct ration_configs *configs,
                                                            uint32_t generation)
{
    const struct ration_config *config = &configs->configs[generation % RATION_CONFIG_COUNT];

    return RATION_CONFIG_READ(config->terms.is_known) ? config : ration_configs_current(configs);
}

/* Whether buckets of an older generation start over: a change since then was a reset. */
bool ration_configs_is_reset(const struct ration_configs *configs,
                             const struct ration_config *current, uint32_t generation);

/*
 * The bucket of a rule that an older generation wrote, as it is under limit, which is of the current config.
 * Each change is made as of its own time, not as of the call that meets the bucket (now_ns): so a denial
 * need not write the converted bucket for its wait to be true, and nobody can tell that it was made (R2, R4).
 *
 * From idle_at_ns on the whole key carried no information. A reset after that finds no key: the bucket stays full,
 * as that of an absent key is, instead of keeping the start of a limit under which nobody asked for the key (R7).
 */
struct ration_any ration_configs_convert(const struct ration_configs *configs,
                                         const struct ration_config *current, uint32_t generation,
                                         uint32_t rule_index, const struct ration_any *any,
                                         const struct ration_limit *limit, uint64_t idle_at_ns,
                                         uint64_t now_ns);

#endif
