/*
 * op: one call of a limiter or a stack, as the store receives it.
 *
 * A part is one limiter's share: a key, and for each rule the limit that applies (NULL: none) with its cost.
 * The store finds the buckets, has evaluation.h decide, publishes the new states, and fills in the results. All
 * parts pass or none does.
 */
#ifndef RATION_LIMITER_OP_H
#define RATION_LIMITER_OP_H

#include "limiter/config.h"

enum ration_op_kind {
    RATION_OP_TAKE,
    RATION_OP_PEEK,
    RATION_OP_UP_TO,   /* costs are upper bounds */
    RATION_OP_RESERVE, /* with max_wait_ns */
    RATION_OP_SETTLE,  /* costs are the reserved tokens; reads marks and used_tokens */
    RATION_OP_REFUND,
    RATION_OP_CHARGE,
    RATION_OP_RESET,
    RATION_OP_BLOCK /* with until_ns */
};

/* The location of a key, in the store's own format, as computed ahead of time. */
struct ration_key_location {
    uint64_t words[4];
};

struct ration_op_mark {
    union ration_bucket_words before; /* the bucket before the reservation */
    /*
     * The bucket after the reservation. For a log, SETTLE writes the work left to do: see
     * ration_bucket_state_release().
     */
    union ration_bucket_words state;
    /* the section's counter at that time: see ration_section_returned() */
    uint64_t returned_tokens;
    uint64_t refunded_tokens; /* the same for refunds */
    enum ration_reserve_part part;
    uint32_t is_overflow;
    uint32_t is_kept; /* SETTLE: no tokens can be returned to the bucket */
};

/* The key that a part is about, and the config under which it is decided. */
struct ration_target {
    const struct ration_config *config;
    uint64_t config_number;
    struct ration_key key;
    struct ration_key_location location;
    uint32_t section_index;
    uint32_t is_located; /* location is filled in */
};

struct ration_key_part {
    struct ration_target to;
    const struct ration_config_table *configs;
    enum ration_overflow overflow;

    /* Copied from the config when the call began: see ration_op_read_config(). */
    struct ration_limit *own_limits; /* the caller's memory, for RATION_RULES_MAX limits */
    uint64_t stale_after_ns;
    uint32_t rule_count;
    uint32_t shadow_mask;
    uint32_t one_budget_mask;

    /* each points into own_limits or to a limit of the caller */
    const struct ration_limit *limits[RATION_RULES_MAX];
    uint64_t costs[RATION_RULES_MAX];
    uint32_t own_cost_mask;                        /* bit i: the function of rule i set its cost */
    struct ration_op_mark marks[RATION_RULES_MAX]; /* read by SETTLE, written by RESERVE */

    /* Results. */
    struct ration_decision decisions[RATION_RULES_MAX]; /* filled in if the op has_details */
    enum ration_verdict verdicts[RATION_RULES_MAX];     /* only of rules that apply */
    uint32_t has_overflowed; /* the key has no slot: the overflow mode decided */
    uint32_t has_created;
    uint32_t has_reclaimed; /* its new slot had belonged to another key */
};

/*
 * Copies the current config into a part, whose own_limits has room. After this the call reads nothing that a
 * change may overwrite.
 */
static inline void ration_op_read_config(struct ration_key_part *part,
                                         const struct ration_config_table *configs)
{
    const struct ration_config *config = ration_config_table_current(configs);

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

static inline bool ration_op_part_is_shadow(const struct ration_key_part *part, uint32_t rule_index)
{
    return part->shadow_mask >> rule_index & 1;
}

static inline bool ration_op_part_is_one_budget(const struct ration_key_part *part,
                                                uint32_t rule_index)
{
    return part->one_budget_mask >> rule_index & 1;
}

struct ration_op {
    enum ration_op_kind kind;
    uint64_t now_ns;
    uint64_t max_wait_ns;
    uint64_t until_ns;
    uint64_t used_tokens;
    uint64_t ready_at_ns; /* start time of the reservation: written by RESERVE, read by SETTLE */
    /*
     * TAKE and PEEK: for each part, how long its key is denied whatever its buckets hold. NULL: no key is
     * blocked.
     */
    const uint64_t *blocks_ns;
    bool has_decision; /* the caller wants the whole decision, not just the verdict */
    bool has_details;  /* the caller wants each rule's own decision */

    uint32_t part_count;
    struct ration_key_part *parts;

    /* Results. */
    struct ration_decision decision;
    uint64_t granted_tokens;
    /* a config was replaced meanwhile: the caller must read it again and start over */
    bool is_outdated;

    /* For a store that answers asynchronously: the store calls it once, after filling in the results. */
    void (*done)(struct ration_op *op, ration_status status);
    void *done_context;
};

#endif
