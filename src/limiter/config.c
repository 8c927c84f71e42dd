#include "limiter/config.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "core/limit_bounds.h"
#include "table/block.h"

/* Rules with one limit each: a rule that chooses from several limits becomes adjacent rules. */
struct flat_rules {
    uint32_t count;
    struct ration_rule rules[RATION_RULES_MAX];
};

/* Checks the fields of a rule that concern its choose function. */
static ration_status check_choice(const struct ration_rule *rule, size_t rule_index,
                                  struct ration_error *error)
{
    if (rule->choose == NULL && (rule->limit_count > 0 || rule->is_one_budget))
        return ration_error_set(error, RATION_EINVAL,
                                "rule %zu has no function (choose) that chooses from its limits",
                                rule_index);
    if (rule->limit_count > 0 && rule->limits == NULL)
        return ration_error_set(error, RATION_EINVAL,
                                "rule %zu: limits is NULL, with a limit_count of %zu", rule_index,
                                rule->limit_count);
    if (rule->limit_count > 0 && rule->is_one_budget)
        return ration_error_set(
            error, RATION_EINVAL,
            "rule %zu: limits have a bucket each, is_one_budget means one for all; "
            "set one of them",
            rule_index);
    return RATION_OK;
}

static ration_status flatten_rules(const struct ration_rule *rules, size_t rule_count,
                                   struct flat_rules *out_flat, struct ration_error *error)
{
    if (rules == NULL && rule_count > 0)
        return ration_error_set(error, RATION_EINVAL, "rules is NULL, with a rule_count of %zu",
                                rule_count);
    out_flat->count = 0;
    for (size_t i = 0; i < rule_count && rule_count <= RATION_RULES_MAX; i++) {
        size_t limit_count = rules[i].limit_count > 0 ? rules[i].limit_count : 1;
        ration_status status = check_choice(&rules[i], i, error);

        if (status != RATION_OK)
            return status;
        if (limit_count > RATION_RULES_MAX - out_flat->count)
            return ration_error_set(
                error, RATION_EINVAL,
                "the rules have more than %d limits in total; put what is limited "
                "into the key instead",
                RATION_RULES_MAX);
        for (size_t k = 0; k < limit_count; k++) {
            struct ration_rule *flat = &out_flat->rules[out_flat->count++];

            *flat = rules[i];
            if (rules[i].limit_count > 0)
                flat->limit = rules[i].limits[k];
        }
    }
    if (out_flat->count == 0)
        return ration_error_set(error, RATION_EINVAL, "a limiter has 1 to %d rules (got %zu)",
                                RATION_RULES_MAX, rule_count);
    return RATION_OK;
}

static ration_status check_rules(const struct flat_rules *flat, struct ration_error *error)
{
    const struct ration_rule *rules = flat->rules;
    uint32_t cell_count = 0;
    uint32_t log_count = 0;

    for (size_t i = 0; i < flat->count; i++) {
        if (!ration_limit_is_made(&rules[i].limit))
            return ration_error_set(
                error, RATION_EINVAL,
                "rule %zu has a limit that was never made; use ration_limit_make() or "
                "ration_limit_parse()",
                i);
        if (rules[i].stale_after_ns > RATION_REMEMBERED_NS_MAX)
            return ration_error_set(error, RATION_EINVAL,
                                    "rule %zu: stale_after is at most 365 days (got %" PRIu64
                                    " ns)",
                                    i, rules[i].stale_after_ns);
        cell_count += ration_bucket_state_layout(&rules[i].limit).cell_count;
        log_count += rules[i].limit.algorithm == RATION_SLIDING_LOG;
    }
    if (log_count > 1)
        return ration_error_set(error, RATION_EUNSUPPORTED,
                                "a limiter has at most one sliding_log (got %" PRIu32 ")",
                                log_count);
    if (cell_count > RATION_SECTION_CELLS_MAX)
        return ration_error_set(error, RATION_EUNSUPPORTED,
                                "these rules need %" PRIu32 " cells per key; there are at most %d",
                                cell_count, RATION_SECTION_CELLS_MAX);
    return RATION_OK;
}

/* Flattens and checks the rules. Returns RATION_OK, RATION_EINVAL or RATION_EUNSUPPORTED. */
static ration_status flatten_and_check(const struct ration_rule *rules, size_t rule_count,
                                       struct flat_rules *out_flat, struct ration_error *error)
{
    ration_status status = flatten_rules(rules, rule_count, out_flat, error);

    return status == RATION_OK ? check_rules(out_flat, error) : status;
}

uint64_t ration_config_rule_stale_after_ns(const struct ration_rule *rule)
{
    if (rule->limit.start == RATION_START_FULL)
        return 0;
    return rule->stale_after_ns > 0 ? rule->stale_after_ns : RATION_NS_PER_DAY;
}

static bool is_simple_rule(const struct ration_rule *rule)
{
    return ration_algorithm_is_gcra(&rule->limit) && rule->choose == NULL && !rule->is_shadow &&
           rule->limit.start == RATION_START_FULL;
}

/* The result is valid only for capacities up to RATION_SHORT_NS_MAX. */
static struct ration_config_short short_rate_of(const struct ration_rate *rate)
{
    return (struct ration_config_short){
        .token = rate->token.ns << RATION_FRAC_BITS | rate->token.frac,
        .capacity = rate->capacity.ns << RATION_FRAC_BITS | rate->capacity.frac,
        .capacity_ns = rate->capacity.ns,
    };
}

/* Fills in the terms and rules of a config. */
static void fill_config(const struct flat_rules *flat, struct ration_config_terms *terms,
                        struct ration_config_rule *out_rules)
{
    const struct ration_rule *rules = flat->rules;
    uint32_t choice_index = 0;

    terms->was_current = 1;
    terms->is_simple = 1;
    terms->short_rate = short_rate_of(&rules[0].limit.rate);
    for (size_t i = 0; i < flat->count; i++) {
        uint64_t stale_after_ns = ration_config_rule_stale_after_ns(&rules[i]);

        out_rules[i] = (struct ration_config_rule){
            .limit = rules[i].limit,
            .choose = rules[i].choose,
            .choose_context = rules[i].choose_context,
            .choices = rules[i].limits,
            .is_shadow = rules[i].is_shadow,
            .sets_cost = rules[i].sets_cost,
            .is_one_budget = rules[i].is_one_budget,
            .choice_index = choice_index,
            .choice_count = rules[i].limit_count,
        };
        choice_index = choice_index + 1 < rules[i].limit_count ? choice_index + 1 : 0;
        terms->shadow_mask |= (uint32_t)(rules[i].is_shadow != 0) << i;
        terms->one_budget_mask |= (uint32_t)(rules[i].is_one_budget != 0) << i;
        if (!is_simple_rule(&rules[i]))
            terms->is_simple = 0;
        if (stale_after_ns > terms->stale_after_ns)
            terms->stale_after_ns = stale_after_ns;
    }
    terms->is_short = terms->is_simple && rules[0].limit.rate.capacity.ns <= RATION_SHORT_NS_MAX;
    /*
     * A key is remembered as a whole: otherwise a wait reported for one rule could outlast the memory of
     * another.
     */
    for (size_t i = 0; i < flat->count; i++)
        out_rules[i].stale_after_ns = terms->stale_after_ns;
}

/* Assigns cells to the states of the rules. */
static void assign_cells(struct ration_config_table *configs, const struct flat_rules *flat)
{
    configs->rule_count = flat->count;
    for (size_t i = 0; i < flat->count; i++) {
        struct ration_bucket_state_layout layout =
            ration_bucket_state_layout(&flat->rules[i].limit);

        configs->places[i] = (struct ration_config_place){
            .first_cell = configs->cell_count,
            .cell_count = layout.cell_count,
            .has_ring = layout.ring_cells > 0,
        };
        configs->expiry_mask |= layout.expiry_mask << configs->cell_count;
        configs->cell_count += layout.cell_count;
        configs->ring_cells += layout.ring_cells;
    }
}

ration_status ration_config_table_init(struct ration_config_table *configs,
                                       const struct ration_rule *rules, size_t rule_count,
                                       struct ration_error *error)
{
    struct flat_rules flat;
    ration_status status = flatten_and_check(rules, rule_count, &flat, error);

    if (status != RATION_OK)
        return status;
    memset(configs, 0, sizeof(*configs));

    struct ration_config_rule *room =
        calloc(RATION_CONFIG_COUNT * flat.count, sizeof(struct ration_config_rule));

    if (room == NULL)
        return ration_error_set(error, RATION_ENOMEM, "no memory for the rules");
    for (uint32_t i = 0; i < RATION_CONFIG_COUNT; i++) {
        configs->configs[i].rules = room + i * flat.count;
        configs->configs[i].generation = i;
        configs->configs[i].established_flags = i | RATION_FLAG_ESTABLISHED;
    }
    fill_config(&flat, &configs->configs[0].terms, configs->configs[0].rules);
    assign_cells(configs, &flat);
    configs->current = &configs->configs[0];
    return RATION_OK;
}

void ration_config_table_done(struct ration_config_table *configs)
{
    free(configs->configs[0].rules);
}

ration_status ration_config_table_check(const struct ration_config_table *configs,
                                        const struct ration_rule *rules, size_t rule_count,
                                        struct ration_error *error)
{
    const struct ration_config *current = ration_config_table_current(configs);
    struct flat_rules flat;
    ration_status status = flatten_and_check(rules, rule_count, &flat, error);

    if (status != RATION_OK)
        return status;
    if (flat.count != configs->rule_count)
        return ration_error_set(error, RATION_EUNSUPPORTED,
                                "the limiter has %" PRIu32
                                " rules, and a change cannot add or remove any (got %" PRIu32 ")",
                                configs->rule_count, flat.count);
    for (size_t i = 0; i < flat.count; i++) {
        struct ration_bucket_state_layout old =
            ration_bucket_state_layout(&current->rules[i].limit);
        struct ration_bucket_state_layout new = ration_bucket_state_layout(&flat.rules[i].limit);

        if (old.cell_count != new.cell_count || old.expiry_mask != new.expiry_mask ||
            (new.ring_cells > 0) != (old.ring_cells > 0))
            return ration_error_set(
                error, RATION_EUNSUPPORTED,
                "rule %zu: the new limit's state does not fit where the old one's is", i);
        if (new.ring_cells > configs->ring_cells)
            return ration_error_set(error, RATION_EUNSUPPORTED,
                                    "rule %zu: the log was created for at most %" PRIu32
                                    " tokens (got %" PRIu32 ")",
                                    i, configs->ring_cells, new.ring_cells);
    }
    return RATION_OK;
}

ration_status ration_config_table_check_stacked(const struct ration_rule *rules, size_t rule_count,
                                                struct ration_error *error)
{
    struct flat_rules flat;
    ration_status status = flatten_rules(rules, rule_count, &flat, error);

    for (size_t i = 0; i < flat.count && status == RATION_OK; i++)
        if (flat.rules[i].limit.algorithm == RATION_LEAKY_QUEUE)
            return ration_error_set(
                error, RATION_EUNSUPPORTED,
                "rule %zu is a queue, which cannot be in a stack with other limiters: a caller "
                "that "
                "waits in it would keep the others' buckets closed; use a token bucket",
                i);
    return status;
}

typedef uint64_t __attribute__((may_alias)) word;

/*
 * Copies words over a config that a deciding thread may still read after a long sleep; that thread then finds
 * the number changed.
 */
static void overwrite_words(void *to, const void *from, size_t size)
{
    word *target = to;
    const word *source = from;

    for (size_t i = 0; i < size / sizeof(word); i++)
        __atomic_store_n(&target[i], source[i], __ATOMIC_RELAXED);
}

_Static_assert(sizeof(struct ration_config_terms) % sizeof(word) == 0 &&
                   sizeof(struct ration_config_rule) % sizeof(word) == 0,
               "configs are overwritten by words");

void ration_config_table_replace(struct ration_config_table *configs,
                                 const struct ration_rule *rules, size_t rule_count,
                                 enum ration_change change, uint64_t now_ns)
{
    uint64_t number = configs->current->number + 1;
    struct ration_config *config = &configs->configs[number % RATION_CONFIG_COUNT];
    struct ration_config_rule room[RATION_RULES_MAX];
    struct ration_config_terms terms = {
        .changed_ns = now_ns,
        .is_reset = change == RATION_CHANGE_RESET,
    };
    struct flat_rules flat = {0};

    (void)flatten_rules(rules, rule_count, &flat, NULL); /* the caller has checked them */
    memset(room, 0, sizeof(room));
    fill_config(&flat, &terms, room);
    __atomic_store_n(&config->number, UINT64_MAX, __ATOMIC_RELAXED);
    /*
     * release: pairs with the fence in ration_config_is_current(): a thread that reads a word written below
     * also sees UINT64_MAX
     */
    ration_fence_release();
    overwrite_words(config->rules, room, flat.count * sizeof(room[0]));
    overwrite_words(&config->terms, &terms, sizeof(terms));
    __atomic_store_n(&config->number, number, __ATOMIC_RELEASE);
    __atomic_store_n(&configs->current, config, __ATOMIC_RELEASE);
}

void ration_config_table_read_rule(const struct ration_config_table *configs, uint32_t rule_index,
                                   struct ration_rule *out_rule)
{
    const struct ration_config *config;
    uint64_t number;

    do { /* repeat if a change overwrote the config meanwhile */
        struct ration_config_rule rule;
        const word *source;
        word *target = (word *)&rule;

        config = ration_config_table_current(configs);
        number = __atomic_load_n(&config->number, __ATOMIC_ACQUIRE);
        source = (const word *)&config->rules[rule_index];
        for (size_t i = 0; i < sizeof(rule) / sizeof(word); i++)
            target[i] = RATION_CONFIG_READ(source[i]);
        *out_rule = (struct ration_rule){
            .limit = rule.limit,
            .choose = rule.choose,
            .choose_context = rule.choose_context,
            .limits = rule.choices,
            .limit_count = rule.choice_count,
            .stale_after_ns = rule.stale_after_ns,
            .is_shadow = rule.is_shadow,
            .sets_cost = rule.sets_cost,
            .is_one_budget = rule.is_one_budget,
        };
    } while (!ration_config_is_current(config, number));
}

bool ration_config_table_is_reset(const struct ration_config_table *configs,
                                  const struct ration_config *current, uint32_t generation)
{
    uint32_t index = generation;

    while (index != current->generation) {
        index = (index + 1) % RATION_CONFIG_COUNT;
        if (RATION_CONFIG_READ(configs->configs[index].terms.is_reset))
            return true;
    }
    return false;
}

struct ration_bucket_state ration_config_table_convert(const struct ration_config_table *configs,
                                                       const struct ration_config *current,
                                                       uint32_t generation, uint32_t rule_index,
                                                       const struct ration_bucket_state *bucket,
                                                       const struct ration_limit *limit,
                                                       uint64_t idle_at_ns, uint64_t now_ns)
{
    struct ration_bucket_state next = *bucket;
    struct ration_limit between[2]; /* next.limit points to one while the other is filled in */
    uint32_t between_index = 0;
    uint32_t index = generation;

    while (index != current->generation) {
        index = (index + 1) % RATION_CONFIG_COUNT;

        const struct ration_config *config = &configs->configs[index];

        if (!RATION_CONFIG_READ(config->terms.was_current)) /* see ration_config_table_of() */
            continue;

        const struct ration_limit *next_limit = config == current ? limit : &between[between_index];
        uint64_t changed_ns = RATION_CONFIG_READ(config->terms.changed_ns);
        uint64_t reset_ns = changed_ns < now_ns ? changed_ns : now_ns;

        if (config != current)
            ration_config_read_limit(&config->rules[rule_index].limit, &between[between_index]);
        between_index ^= 1;
        if (RATION_CONFIG_READ(config->terms.is_reset) && idle_at_ns > reset_ns) {
            next.limit = next_limit;
            next = ration_bucket_state_start(&next, reset_ns);
        } else {
            next = ration_bucket_state_change_at(&next, next_limit, changed_ns, now_ns);
        }
    }
    return next;
}
