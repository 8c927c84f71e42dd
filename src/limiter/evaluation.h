/*
 * evaluation: decides several buckets together, as a pure function of their states.
 *
 * All enforced items pass, or nothing is taken from any of them. NEVER outranks DENY. Of several denials, the
 * decision reports the longest wait, since after it all pass; of several items that pass, it reports the one
 * with the fewest tokens remaining. A shadow item is charged by its own verdict, whatever the others say.
 *
 * Where the caller waits for its start time (a queue, a reservation), all items are charged as of the time at
 * which the caller starts: the latest start time of all items. Tokens used then must be available then, not
 * earlier. Items of one key share one queue, and later callers wait behind this one anyway. But a bucket of
 * another key, charged for a future time, would be closed to everyone until then. So a reservation of several
 * keys never waits: it starts at once, or is denied.
 */
#ifndef RATION_LIMITER_EVALUATION_H
#define RATION_LIMITER_EVALUATION_H

#include "limiter/op.h"

#define RATION_EVALUATION_LIMITS_MAX RATION_CALL_RULES_MAX

/* One limit of one key. */
struct ration_limit_eval {
    uint64_t cost_tokens;
    const struct ration_op_mark *mark; /* SETTLE */
    uint64_t returned_tokens;          /* SETTLE: returned by other calls since the reservation */
    /* SETTLE: the share of returned_tokens that came from refunds and from calls that replaced the state */
    uint64_t refunded_tokens;
    /* SETTLE: another caller waits for its start time under another limit of the key */
    bool is_waited;
    bool is_shadow;
    bool has_own_cost; /* the rule's function set the cost, not the caller */
    /* index of an earlier item, of another key, that uses the same bucket; -1: none */
    int shares_with;
    /* the key is denied for this long, whatever its bucket holds. 0: it is not blocked */
    uint64_t blocked_ns;
    /* unless it is blocked, it passes: its key has no slot, and the overflow mode is ALLOW */
    bool is_unlimited;
    bool is_turned_away; /* its key has no slot, and is denied until it has one */
    /* time until its key, which has no slot, can get one. 0: it has one */
    uint64_t free_after_ns;
    /*
     * The state that the key would start with in a slot of its own. Its limit is NULL if the item does not
     * share a bucket.
     */
    struct ration_bucket_state fresh;
    uint32_t part_index;
    uint32_t limiter_index;
    uint32_t rule_index;

    struct ration_bucket_state before; /* before.limit is the limit of this item */
    struct ration_bucket_state after;
    uint64_t sum_tokens; /* cost including the costs of the items that share the bucket */
    enum ration_verdict verdict;
    uint64_t wait_ns;  /* DENY: time until it passes */
    uint64_t delay_ns; /* ALLOW: time until the caller may start */
    uint64_t left_ns;  /* SETTLE of a log: the time at which the next step continues; 0: done */
    enum ration_reserve_part part;
};

struct ration_evaluation {
    const struct ration_op *op;
    uint64_t now_ns;
    uint32_t item_count;
    struct ration_limit_eval items[RATION_EVALUATION_LIMITS_MAX];

    /* Results. */
    enum ration_verdict verdict;
    /* ALLOW: time until the caller may start. DENY: time until all items pass */
    uint64_t wait_ns;
    uint64_t granted_tokens; /* UP_TO */
    int binding;             /* index of the item that decided; -1 if no limit applies */
};

void ration_evaluation_run(struct ration_evaluation *eval);

/* Returns the decision of one item alone. */
struct ration_decision ration_evaluation_describe(const struct ration_evaluation *eval,
                                                  const struct ration_limit_eval *item);

/*
 * Returns the decision of all items together. Finds the binding item of an ALLOW, which ration_evaluation_run()
 * does not.
 */
struct ration_decision ration_evaluation_describe_all(struct ration_evaluation *eval);

#endif
