/*
 * store: the interface between a limiter and the memory of its buckets.
 *
 * A store carries out ops (op.h). It may answer at once or asynchronously: begin() returns RATION_OK with the
 * results filled in; or RATION_EPENDING, and the store calls op->done() once, on a thread that the store's
 * owner chooses; or another status, and nothing was done. The memory store always answers at once.
 */
#ifndef RATION_LIMITER_STORE_H
#define RATION_LIMITER_STORE_H

#include "base/hash.h"
#include "limiter/config.h"
#include "limiter/op.h"
#include "table/section.h"

struct ration_store;

/*
 * A walk visits the keys of a section one after the other, while other threads decide; and stores keys in a
 * section that no thread uses yet.
 *
 * A key stays in its slot until it is idle, so a walk through all slots visits every key that is in use from
 * its beginning to its end. The state of each key is consistent; the states of two keys need not be of the same
 * time.
 */
enum ration_walk_kind {
    RATION_WALK_KEY = 1,  /* not idle: in use, or remembered */
    RATION_WALK_OVERFLOW, /* an overflow bucket */
    /* the overflow watermark of a set: its keys may have tokens in use in the overflow bucket */
    RATION_WALK_MARK
};

struct ration_walk_item {
    enum ration_walk_kind kind;
    uint32_t set_index;
    uint64_t tag; /* OVERFLOW: index of the overflow bucket */
    /* KEY: it keeps its slot for a while after it becomes idle (table/slot.h) */
    bool is_established;

    /* The bucket of each rule, under its current limit. A log's ring may be read until visit() returns. */
    struct ration_bucket_state buckets[RATION_RULES_MAX];

    /*
     * KEY: until when a rule's bucket is remembered although it is full; 0 if it is not. MARK: [0] is the time
     * until which the keys may have tokens in use.
     */
    uint64_t kept_until_ns[RATION_RULES_MAX];
};

struct ration_walk {
    /* the caller ensures that it does not change meanwhile */
    const struct ration_config_table *configs;
    uint32_t section_index;
    uint64_t now_ns;
    uint64_t sets_max; /* the most sets to visit in one call */
    bool is_whole;     /* visits overflow watermarks and buckets too, not only keys */

    /* Called for each item. Returns false to stop; the walk can then be continued at this item. */
    bool (*visit)(void *context, const struct ration_walk_item *item);
    void *context;
};

/* The properties of a section that a dump must contain. */
struct ration_walk_shape {
    uint64_t keys_max;
    uint32_t set_count;
    uint32_t hash_kind;
    uint8_t seed[RATION_HASH_SEED_SIZE]; /* seed of the hash secret */
};

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
