/*
 * judge: several buckets decided together, as a pure function of their states.
 *
 * All items that are enforced pass, or nothing is taken from any of them. NEVER beats DENY; of
 * several denials the longest wait is told, since after it all pass; of several that pass the one
 * with the least remaining. A shadow item is charged by its own verdict, whatever the others say.
 *
 * Where a turn is waited for (a queue, a reservation), all items are charged for the moment at
 * which the caller goes: the latest of their turns. What is used then must be there then, not
 * earlier. Those of one key have one line, and whoever comes later waits behind anyway. But a
 * bucket of another key, charged for a moment to come, would be closed to everyone until then. So
 * a reservation of several keys has no turn to wait for: it goes at once, or is denied.
 */
#ifndef RATION_LIMITER_JUDGE_H
#define RATION_LIMITER_JUDGE_H

#include "limiter/op.h"

#define RATION_ITEMS_MAX RATION_CALL_RULES_MAX

/* One limit of one key. */
struct ration_item {
    uint64_t cost_tokens;
    const struct ration_op_mark *mark; /* SETTLE */
    uint64_t returned_tokens;          /* SETTLE: by others, since the reservation */
    uint64_t
        refunded_tokens; /* SETTLE: of those, by refunds and by calls that replaced the state */
    bool is_waited;      /* SETTLE: somebody waits for a turn under another limit of the key */
    bool is_shadow;
    bool has_own_cost;      /* the rule's function has set it: it is not the caller's */
    int shares_with;        /* an earlier item, of another key, about the same bucket; -1: none */
    uint64_t hold_ns;       /* so long it is denied whatever its bucket holds. 0: it is not held */
    bool is_unlimited;      /* but for that: its key has no place, and would pass */
    bool is_turned_away;    /* its key has no place, and is denied until it has one */
    uint64_t free_after_ns; /* until its key, which has none, can have a place. 0: it has one */
    struct ration_any newborn; /* what it would have there; no limit: it does not share a bucket */
    uint32_t part_index;
    uint32_t limiter_index;
    uint32_t rule_index;

    struct ration_any before; /* its limit is the item's */
    struct ration_any after;
    uint64_t sum_tokens; /* with those of the items it shares with */
    enum ration_verdict verdict;
    uint64_t wait_ns;  /* DENY: until it passes */
    uint64_t delay_ns; /* ALLOW: until its turn */
    uint64_t left_ns;  /* SETTLE of a log: the moment from which to go on; 0: done */
    enum ration_reserve_part part;
};

struct ration_case {
    const struct ration_op *op;
    uint64_t now_ns;
    uint32_t item_count;
    struct ration_item items[RATION_ITEMS_MAX];

    /* Results. */
    enum ration_verdict verdict;
    uint64_t wait_ns;        /* ALLOW: until the turn. DENY: until all pass */
    uint64_t granted_tokens; /* UP_TO */
    int binding;             /* item that decided; -1 if no limit applies */
};

void ration_judge(struct ration_case *c);

/* The decision of one item alone. */
struct ration_decision ration_judge_describe(const struct ration_case *c,
                                             const struct ration_item *item);

/* The decision of all together. Finds the binding item of an ALLOW, which ration_judge() does not. */
struct ration_decision ration_judge_describe_all(struct ration_case *c);

#endif
