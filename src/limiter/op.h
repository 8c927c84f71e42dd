/*
 * op: one call of a limiter or a stack, as its store gets it.
 *
 * A part is one limiter's share: a key, and for each rule the limit that applies (NULL: none) with
 * its cost. The store finds the buckets, has judge.h decide, publishes what follows, and fills in
 * the results. All parts pass or none does.
 */
#ifndef RATION_LIMITER_OP_H
#define RATION_LIMITER_OP_H

#include "limiter/config.h"

enum ration_op_kind {
    RATION_OP_TAKE,
    RATION_OP_LOOK,
    RATION_OP_UP_TO,   /* costs are the most that is wanted */
    RATION_OP_RESERVE, /* with max_wait_ns */
    RATION_OP_SETTLE,  /* costs are what was reserved; marks and used_tokens */
    RATION_OP_REFUND,
    RATION_OP_FORCE,
    RATION_OP_RESET,
    RATION_OP_BLOCK /* with until_ns */
};

/* Where a store keeps what it found out about a key ahead of time. */
struct ration_spot {
    uint64_t words[4];
};

/* What a reservation did to a bucket. */
struct ration_op_mark {
    union ration_any_state before; /* the bucket as it was */
    union ration_any_state state;  /* and as the reservation left it. SETTLE writes what is left to
                                      do for a log, see ration_any_release() */
    uint64_t returned_tokens;      /* as ration_section_returned() counted them then */
    uint64_t refunded_tokens;      /* likewise */
    enum ration_reserve_part part;
    uint32_t is_overflow;
    uint32_t is_kept; /* SETTLE: nothing can be given back */
};

/* Whose bucket it is about. */
struct ration_target {
    const struct ration_config *config;
    uint64_t config_number;
    struct ration_key key;
    struct ration_spot spot;
    uint32_t section_index;
    uint32_t is_located; /* spot is filled in */
};

struct ration_op_part {
    struct ration_target to;
    const struct ration_configs *configs;
    enum ration_overflow overflow;

    /* Of the config, as it was when the call began: see ration_part_read_config(). */
    struct ration_limit *own_limits; /* in room of the caller's, for RATION_RULES_MAX */
    uint64_t stale_after_ns;
    uint32_t rule_count;
    uint32_t shadow_mask;
    uint32_t one_budget_mask;

    const struct ration_limit *limits[RATION_RULES_MAX]; /* of own_limits, or the caller's */
    uint64_t costs[RATION_RULES_MAX];
    uint32_t own_cost_mask; /* bit i: the cost of rule i is not the caller's */
    struct ration_op_mark marks[RATION_RULES_MAX]; /* read by SETTLE, written by RESERVE */

    /* Results. */
    struct ration_decision decisions[RATION_RULES_MAX]; /* if the op has_details */
    enum ration_verdict verdicts[RATION_RULES_MAX];     /* of rules that apply */
    uint32_t has_overflowed;                            /* the overflow rule decided */
    uint32_t has_created;
    uint32_t has_reclaimed; /* the place that was given to it had been another key's */
};

/*
 * Takes the current config into a part, whose own_limits has room: from here on nobody reads what may be
 * overwritten.
 */
static inline void ration_part_read_config(struct ration_op_part *part,
                                           const struct ration_configs *configs)
{
    const struct ration_config *config = ration_configs_current(configs);

    part->configs = configs;
    part->to.config = config;
    part->to.config_number = __atomic_load_n(&config->number, __ATOMIC_ACQUIRE);
    part->rule_count = configs->rule_count;
    part->stale_after_ns = RATION_CONFIG_READ(config->terms.stale_after_ns);
    part->shadow_mask = RATION_CONFIG_READ(config->terms.shadow_mask);
    part->one_budget_mask = RATION_CONFIG_READ(config->terms.one_budget_mask);
    for (uint32_t i = 0; i < configs->rule_count; i++)
        ration_config_read_limit(&config->rules[i].limit, &part->own_limits[i]);
}

static inline bool ration_part_is_shadow(const struct ration_op_part *part, uint32_t rule_index)
{
    return part->shadow_mask >> rule_index & 1;
}

static inline bool ration_part_is_one_budget(const struct ration_op_part *part, uint32_t rule_index)
{
    return part->one_budget_mask >> rule_index & 1;
}

struct ration_op {
    enum ration_op_kind kind;
    uint64_t now_ns;
    uint64_t max_wait_ns;
    uint64_t until_ns;
    uint64_t used_tokens;
    uint64_t ready_at_ns;     /* of what is settled; written by RESERVE */
    const uint64_t *holds_ns; /* TAKE and LOOK: by part, for how long its key is denied whatever its
                                 buckets hold. NULL: none is */
    bool has_decision;        /* the decision is wanted whole, not just the verdict */
    bool has_details;         /* each rule's own decision is wanted */

    uint32_t part_count;
    struct ration_op_part *parts;

    /* Results. */
    struct ration_decision decision;
    uint64_t granted_tokens;
    bool is_outdated; /* a config was replaced meanwhile: read it anew, and begin again */

    /* For a store that answers later: called once, with the results in place. */
    void (*done)(struct ration_op *op, ration_status status);
    void *done_context;
};

#endif
