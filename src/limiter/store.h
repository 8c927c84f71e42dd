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
#include "limiter/walk.h"
#include "table/section.h"

struct ration_store;

struct ration_store_calls {
    ration_status (*begin)(struct ration_store *store, struct ration_op *op);

    /* Begins to fetch what an op on the target will need. May be NULL: there is nothing to gain. */
    void (*fetch)(const struct ration_store *store, const struct ration_target *target);

    /*
     * The section of this process's memory where the buckets lie, and the secret of its hash, for
     * the short way (quick.h). May be NULL: there is none.
     */
    const struct ration_section *(*section)(struct ration_store *store, uint32_t section_index);

    /*
     * Converts every bucket of the section that is in debt, and the overflow bucket, to the current config.
     * Returns how many keys lost their slot.
     */
    uint64_t (*renew)(struct ration_store *store, const struct ration_configs *configs,
                      uint32_t section_index, uint64_t now_ns);

    /*
     * For a change that resets all buckets: each starts over when it is met, and its place is free for others
     * (table/create.h). Removes only what has the number of the next generation. And the overflow buckets.
     * Returns how many keys lost their slot.
     */
    uint64_t (*clear)(struct ration_store *store, const struct ration_configs *configs,
                      uint32_t section_index, uint64_t now_ns);

    /*
     * Goes through a section from a cursor on, 0 being the beginning. Returns the cursor to go on
     * from, 0 at the end. These three may be NULL: buckets cannot be listed or dumped.
     */
    uint64_t (*walk)(struct ration_store *store, const struct ration_walk *walk, uint64_t cursor);
    void (*shape)(const struct ration_store *store, uint32_t section_index,
                  struct ration_walk_shape *out_shape);

    /*
     * Puts what a walk told into a section of that shape that nobody uses yet, as buckets of the
     * current config. Returns RATION_EINVAL if the item's set has no place left.
     */
    ration_status (*put)(struct ration_store *store, const struct ration_configs *configs,
                         uint32_t section_index, const struct ration_walk_item *item,
                         uint64_t now_ns);

    size_t (*size_bytes)(const struct ration_store *store);
    void (*free)(struct ration_store *store);
};

struct ration_store {
    const struct ration_store_calls *calls;
    uint64_t epoch_ns; /* from which cells count */
};

#endif
