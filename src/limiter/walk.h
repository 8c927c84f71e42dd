/*
 * walk: the keys of a section one after the other, while others decide; and keys put into a
 * section that nobody uses yet.
 *
 * A key stays in its place until it is idle, so a walk through all places meets every key that is
 * in debt all the while. What it is told of a key was so at one time; of two keys, not
 * necessarily at the same.
 */
#ifndef RATION_LIMITER_WALK_H
#define RATION_LIMITER_WALK_H

#include "base/hash.h"
#include "limiter/config.h"

enum ration_walk_kind {
    RATION_WALK_KEY = 1,  /* not idle: in debt, or remembered */
    RATION_WALK_OVERFLOW, /* an overflow bucket */
    RATION_WALK_MARK      /* a set, keys of which may have debt in the overflow bucket */
};

struct ration_walk_item {
    enum ration_walk_kind kind;
    uint32_t set_index;
    uint64_t tag;        /* OVERFLOW: which of the overflow buckets */
    bool is_established; /* KEY: it keeps its place for a while when it is idle (table/slot.h) */

    /* Of each rule, under its current limit. A log is read through it until visit() returns. */
    struct ration_any anys[RATION_RULES_MAX];

    /* KEY: until when a rule's bucket is remembered though full; 0 if it is not.
       MARK: [0], until when the keys may have debt. */
    uint64_t kept_until_ns[RATION_RULES_MAX];
};

struct ration_walk {
    const struct ration_configs *configs; /* not changed meanwhile: the caller sees to that */
    uint32_t section_index;
    uint64_t now_ns;
    uint64_t sets_max; /* look at no more of them */
    bool is_whole;     /* marks and the overflow bucket too, not only keys */

    /* Told each item. False: stop, so that the walk can go on from this one. */
    bool (*visit)(void *context, const struct ration_walk_item *item);
    void *context;
};

/* What a dump must tell of the place where a section's keys lie. */
struct ration_walk_shape {
    uint64_t keys_max;
    uint32_t set_count;
    uint32_t hash_kind;
    uint8_t seed[RATION_HASH_SEED_SIZE]; /* of the hash's secret */
};

#endif
