/*
 * store: what a limiter needs of the place where its buckets live.
 *
 * A store carries out ops (op.h). It may answer at once or later: begin() returns RATION_OK with
 * the results in place, or RATION_EPENDING and then calls op->done() once, from wherever its
 * owner lets it run; or another status, and nothing was done. Memory always answers at once.
 */
#ifndef RATION_LIMITER_STORE_H
#define RATION_LIMITER_STORE_H

#include "limiter/op.h"

struct ration_store;

/* Besides enum ration_verdict. */
#define RATION_TAKE_LONG (-1)

struct ration_store_calls {
    ration_status (*begin)(struct ration_store *store, struct ration_op *op);

    /*
     * Token buckets of a config that is_simple, and nothing wanted but the verdict: that, or
     * RATION_TAKE_LONG if it takes a whole op. *out_denied_mask: which rules denied. May be NULL.
     */
    int (*take_simple)(struct ration_store *store, const struct ration_target *target,
                       uint64_t cost_tokens, uint64_t now_ns, uint32_t *out_denied_mask);

    /* Computes the target's spot ahead of time and starts fetching it. */
    void (*locate)(struct ration_store *store, struct ration_target *target);

    /*
     * Gives every bucket of the section that has this generation the next one's number, before
     * the number is used again.
     */
    void (*retire)(struct ration_store *store, uint32_t section_index, uint32_t generation);

    size_t (*size_bytes)(const struct ration_store *store);
    void (*free)(struct ration_store *store);
};

struct ration_store {
    const struct ration_store_calls *calls;
    uint64_t epoch_ns; /* from which cells count */
};

#endif
