/*
 * store: the interface between a limiter and the memory of its buckets.
 *
 * A store carries out ops (op.h). It may answer at once or asynchronously: begin() returns RATION_OK with the
 * results filled in; or RATION_EPENDING, and the store calls op->done() once, on a thread that the store's
 * owner chooses; or another status, and nothing was done. The memory store always answers at once.
 */
#ifndef RATION_LIMITER_STORE_H
#define RATION_LIMITER_STORE_H

#include "limiter/op.h"
#include "limiter/table_walk.h"
#include "table/section.h"

struct ration_store;

struct ration_store_calls {
    ration_status (*begin)(struct ration_store *store, struct ration_op *op);

    /* Prefetches the memory that an op on the target will need. May be NULL: the store does not prefetch. */
    void (*fetch)(const struct ration_store *store, const struct ration_target *target);

    /*
     * Returns the section of this process's memory that contains the buckets, and the secret of its hash, for
     * the fast path (fast.h). May be NULL: there is none.
     */
    const struct ration_section *(*section)(struct ration_store *store, uint32_t section_index);

    /*
     * Converts every bucket of the section that is in use, and the overflow buckets, to the current config.
     * Returns how many keys lost their slot.
     */
    uint64_t (*renew)(struct ration_store *store, const struct ration_config_table *configs,
                      uint32_t section_index, uint64_t now_ns);

    /*
     * For a change that resets all buckets: a bucket starts over when a call next reads it, and other keys may
     * claim its slot (table/claim.h). Resets the overflow buckets, and removes only the keys that have the
     * number of the next generation. Returns how many keys lost their slot.
     */
    uint64_t (*clear)(struct ration_store *store, const struct ration_config_table *configs,
                      uint32_t section_index, uint64_t now_ns);

    /*
     * Walks a section from a cursor on, 0 being the start. Returns the cursor at which to continue, 0 at the
     * end. walk, shape and put may be NULL: then buckets cannot be listed or dumped.
     */
    uint64_t (*walk)(struct ration_store *store, const struct ration_walk *walk, uint64_t cursor);
    void (*shape)(const struct ration_store *store, uint32_t section_index,
                  struct ration_walk_shape *out_shape);

    /*
     * Stores an item of a walk in a section of the same shape that no thread uses yet, as buckets of the
     * current config. Returns RATION_EINVAL if the item's set has no free slot.
     */
    ration_status (*put)(struct ration_store *store, const struct ration_config_table *configs,
                         uint32_t section_index, const struct ration_walk_item *item,
                         uint64_t now_ns);

    size_t (*size_bytes)(const struct ration_store *store);
    void (*free)(struct ration_store *store);
};

struct ration_store {
    const struct ration_store_calls *calls;
    uint64_t epoch_ns; /* start of the time that cells count */
};

#endif
