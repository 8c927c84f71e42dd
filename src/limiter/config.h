/*
 * config: a limiter's rules, the current ones and the previous ones.
 *
 * A change of limits makes a new config, and every bucket records in a number of 0 to 6, its generation, which
 * config wrote it. The changing thread walks the table and converts the buckets in use (store.h); a call that
 * reads a bucket before that converts it likewise, as of the time of the change. A call already in progress may
 * still create a bucket of an older config. So the last 7 configs are retained.
 *
 * Deciding threads read the current config without a lock. One that slept through 7 changes could read a config
 * while it is overwritten. So a change writes, and a deciding thread reads, by atomic words; the deciding
 * thread copies what it uses (ration_config_read_limit() and the functions next to it); and each config has a
 * number, which the thread checks once more before it publishes its result. A thread that holds the limiter's
 * lock may read without atomics.
 */
#ifndef RATION_LIMITER_CONFIG_H
#define RATION_LIMITER_CONFIG_H

#include "base/fence.h"
#include "limiter/bucket_state.h"
#include "ration/limiter.h"
#include "table/slot.h"

#define RATION_CONFIG_COUNT RATION_GENERATION_COUNT

/* Where the state of a rule lies among a key's cells. A change of limits does not change it. */
struct ration_config_place {
    uint32_t first_cell;
    uint32_t cell_count;
    bool has_ring;
};

/* Any field may be overwritten by a change: see above. */
struct ration_config_rule {
    struct ration_limit limit;
    ration_limit_func *choose;
    void *choose_context;
    /* the caller's array: only addresses into it are compared */
    const struct ration_limit *choices;
    uint64_t stale_after_ns; /* the same for all rules of the config */
    uint32_t is_shadow;
    uint32_t sets_cost;
    uint32_t is_one_budget;
    uint32_t choice_index; /* index of this limit among those that choose() chooses from */
    /* the number of those limits, which are adjacent rules. 0: the rule has one limit */
    uint64_t choice_count;
};

/* The first rule's rate with each time in one word; for fast_simd.h. */
struct ration_config_short {
    uint64_t token;    /* in units of 2^-20 ns, like capacity */
    uint64_t capacity; /* valid up to RATION_SHORT_NS_MAX nanoseconds */
    uint64_t capacity_ns;
};

#define RATION_SHORT_NS_MAX ((UINT64_C(1) << 43) - 1)

/* Properties of all rules of a config. Any field may be overwritten by a change. */
struct ration_config_terms {
    /*
     * How long a key is remembered when all its buckets are full: the longest time of the rules that do not
     * start full.
     */
    uint64_t stale_after_ns;
    uint32_t is_reset;    /* buckets of older configs start over */
    uint32_t was_current; /* the config is, or was, current in this process */
    /* all rules are continuous token buckets with a fixed limit, enforced, and start full */
    uint32_t is_simple;
    uint32_t is_short; /* is_simple, and the capacity of the first rule fits short_rate */
    struct ration_config_short short_rate;
    uint64_t changed_ns;  /* when it became current, by the limiter's clock; 0: the first config */
    uint32_t shadow_mask; /* bit i: rule i is a shadow */
    uint32_t one_budget_mask;
};

struct ration_config {
    uint64_t number; /* the number of changes before it; UINT64_MAX while it is written */
    struct ration_config_terms terms;
    struct ration_config_rule *rules;
    uint32_t generation; /* number % RATION_CONFIG_COUNT */
    /* slot flags of a key that this config charges again: see table/slot.h */
    uint32_t established_flags;
};

struct ration_config_table {
    /* points into configs below, whose addresses do not change */
    const struct ration_config *current;
    uint32_t rule_count;
    uint32_t cell_count;
    uint32_t expiry_mask;
    uint32_t ring_cells;
    struct ration_config_place places[RATION_RULES_MAX]; /* indexed by rule */
    struct ration_config configs[RATION_CONFIG_COUNT];
};

/* Reads a field of a config or of one of its rules, which a change may overwrite meanwhile. */
#define RATION_CONFIG_READ(field) __atomic_load_n(&(field), __ATOMIC_RELAXED)

/*
 * How long a full bucket of the rule is remembered: 0 if the limit starts full, else the rule's stale_after_ns,
 * by default one day.
 */
uint64_t ration_config_rule_stale_after_ns(const struct ration_rule *rule);

/* Index of the first of the limits that a rule chooses from; of a rule with one limit, its own index. */
static inline uint32_t ration_config_first_choice(const struct ration_config *config,
                                                  uint32_t rule_index)
{
    return rule_index - RATION_CONFIG_READ(config->rules[rule_index].choice_index);
}

/* Copies a rate that a change may overwrite meanwhile. */
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

/* Copies a limit, without its name, that a change may overwrite meanwhile. */
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

/* Reads the current rule, in the form of the public interface. The caller has checked rule_index. */
void ration_config_table_read_rule(const struct ration_config_table *configs, uint32_t rule_index,
                                   struct ration_rule *out_rule);

/*
 * Checks the rules and makes the first config from them. A rule with several limits to choose from becomes as
 * many rules of the config, of which at most one applies to a request; otherwise they are treated like any
 * other rule. Computes the cells that buckets need. Returns RATION_EINVAL or RATION_EUNSUPPORTED, with the
 * reason in error (may be NULL), or RATION_ENOMEM. Release: ration_config_table_done().
 */
ration_status ration_config_table_init(struct ration_config_table *configs,
                                       const struct ration_rule *rules, size_t rule_count,
                                       struct ration_error *error);
void ration_config_table_done(struct ration_config_table *configs);

/*
 * Whether the rules could replace the current ones: RATION_OK, RATION_EINVAL or RATION_EUNSUPPORTED. No other
 * thread may change the rules meanwhile.
 */
ration_status ration_config_table_check(const struct ration_config_table *configs,
                                        const struct ration_rule *rules, size_t rule_count,
                                        struct ration_error *error);

/*
 * Whether checked rules may be in a stack with other limiters. A queue may not, since its start times lie in
 * the future: RATION_EUNSUPPORTED.
 */
ration_status ration_config_table_check_stacked(const struct ration_rule *rules, size_t rule_count,
                                                struct ration_error *error);

/* Makes checked rules the current ones. No bucket has the new generation's number any more. */
void ration_config_table_replace(struct ration_config_table *configs,
                                 const struct ration_rule *rules, size_t rule_count,
                                 enum ration_change change, uint64_t now_ns);

static inline const struct ration_config *ration_config_table_current(
    const struct ration_config_table *configs)
{
    /* acquire: pairs with the release in ration_config_table_replace() */
    return __atomic_load_n(&configs->current, __ATOMIC_ACQUIRE);
}

/* Whether a config that was read under this number was complete then, and has not been replaced since. */
static inline bool ration_config_is_current(const struct ration_config *config, uint64_t number)
{
    ration_fence_acquire();
    return __atomic_load_n(&config->number, __ATOMIC_RELAXED) == number && number != UINT64_MAX;
}

/*
 * Returns the config that wrote a bucket of this generation. If this process never had that config, another
 * process that shares the buckets made it: then returns the current config, and the bucket's times are used as
 * they are.
 */
static inline const struct ration_config *ration_config_table_of(
    const struct ration_config_table *configs, uint32_t generation)
{
    const struct ration_config *config = &configs->configs[generation % RATION_CONFIG_COUNT];

    return RATION_CONFIG_READ(config->terms.was_current) ? config
                                                         : ration_config_table_current(configs);
}

/* Whether buckets of an older generation start over, because a change since then was a reset. */
bool ration_config_table_is_reset(const struct ration_config_table *configs,
                                  const struct ration_config *current, uint32_t generation);

/*
 * Converts the bucket of a rule from an older generation to limit, which is of the current config. Each change
 * is applied as of its own time, not as of the call that reads the bucket (now_ns): so a denial need not write
 * the converted bucket for its wait to be true, and no other caller can observe the denied call (R2, R4).
 *
 * From idle_at_ns on the whole key carried no information. A reset after that time finds no key: the bucket
 * stays full, as that of an absent key is, instead of taking the start of a limit under which the key was never
 * requested (R7).
 */
struct ration_bucket_state ration_config_table_convert(const struct ration_config_table *configs,
                                                       const struct ration_config *current,
                                                       uint32_t generation, uint32_t rule_index,
                                                       const struct ration_bucket_state *bucket,
                                                       const struct ration_limit *limit,
                                                       uint64_t idle_at_ns, uint64_t now_ns);

#endif
