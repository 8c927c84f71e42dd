/*
 * limiter_items: several models decided together, written from the rules.
 *
 *     all that are enforced pass, or nothing is taken from any
 *     NEVER beats DENY; of several denials the longest wait; of several that pass the smallest
 *     remaining; of equals the first
 *     a shadow is charged by its own verdict
 *     if one has to wait for its turn, all are charged for the moment of that turn
 */
#ifndef RATION_TESTS_LIMITER_ITEMS_H
#define RATION_TESTS_LIMITER_ITEMS_H

#include "limiter_step.h"
#include "model.h"

/* One limit of one key. */
struct limiter_item {
    struct model *model;
    uint64_t tokens;
    bool is_shadow;
    unsigned limiter;
    unsigned key;
    unsigned rule;
    struct ration_decision own; /* by itself, before anything is taken */
    struct model_mark before;   /* RESERVE */
};

struct limiter_items {
    uint64_t now_ns;
    bool may_wait; /* there is one key only */
    unsigned count;
    struct limiter_item items[LIMITER_DETAILS_MAX * 2];
};

struct ration_decision limiter_items_take(struct limiter_items *c);
struct ration_decision limiter_items_peek(struct limiter_items *c);
struct ration_decision limiter_items_up_to(struct limiter_items *c, uint64_t tokens_max,
                                           uint64_t *out_granted);
struct ration_decision limiter_items_reserve(struct limiter_items *c, uint64_t max_wait_ns);

/* The decision of each item alone, one after the other. */
void limiter_items_details(const struct limiter_items *c, struct ration_decision *out_details);

#endif
