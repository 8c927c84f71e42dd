/*
 * walk: visits the keys of a section one after the other, while other threads decide; and stores keys in a
 * section that no thread uses yet.
 *
 * A key stays in its slot until it is idle, so a walk through all slots visits every key that is in use from
 * its beginning to its end. The state of each key is consistent; the states of two keys need not be of the same
 * time.
 */
#ifndef RATION_LIMITER_TABLE_WALK_H
#define RATION_LIMITER_TABLE_WALK_H

#include "base/hash.h"
#include "limiter/config.h"

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

#endif
