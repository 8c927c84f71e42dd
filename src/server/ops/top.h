/*
 * top: the keys that were denied most often, or took most tokens, over all limits.
 */
#ifndef RATION_SERVER_OPS_TOP_H
#define RATION_SERVER_OPS_TOP_H

#include "server/ops/walk.h"

#define RATION_TOP_MAX 100 /* keys in one reply */

struct ration_top_item {
    char limit_name[RATION_LIMIT_NAME_MAX + 1]; /* may be RATION_POLICY_INLINE */
    struct ration_top_key key;
    bool has_remaining;
    uint64_t remaining_tokens; /* of the key, now; only if its whole name was recorded */
};

/* The keys with the highest counts so far, in descending order. Limits are added one after the other. */
struct ration_top_list {
    enum ration_top by;
    uint64_t now_ns;
    bool has_limit_name;
    char limit_name[RATION_LIMIT_NAME_MAX + 1]; /* if has_limit_name: other limits are skipped */
    size_t items_max;                           /* 1 to RATION_TOP_MAX */
    size_t count;
    struct ration_top_item items[RATION_TOP_MAX];
};

/* Adds the top keys of count limits of the policy, from index first on. */
void ration_top_add(struct ration_top_list *list, const struct ration_engine_guard *guard,
                    size_t first, size_t count);

/* Adds the top keys of inline limits. */
void ration_top_add_inline(struct ration_top_list *list, ration_engine *engine);

/* A reply that lists keys. Each protocol has its own kind of this walk, with the begin and visit below. */
struct ration_top_walk {
    struct ration_walk walk;
    struct ration_top_list list;
};

void ration_top_walk_begin(struct ration_walk *walk);
void ration_top_walk_visit(struct ration_walk *walk, const struct ration_engine_guard *guard,
                           size_t first, size_t count);

/* Starts a walk, which is a struct ration_top_walk. limit_name is copied; NULL: all limits. */
void ration_top_walk_start(struct ration_walk *walk, enum ration_top by, size_t items_max,
                           const char *limit_name, uint64_t now_ns);

#endif
