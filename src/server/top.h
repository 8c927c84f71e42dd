/*
 * top: the keys that were denied most often, or took most, of all limits together.
 */
#ifndef RATION_SERVER_TOP_H
#define RATION_SERVER_TOP_H

#include "server/walk.h"

#define RATION_TOP_MAX 100 /* that are told at once */

struct ration_top_item {
    char limit_name[RATION_LIMIT_NAME_MAX + 1]; /* may be RATION_POLICY_THROTTLE */
    struct ration_top_key key;
    bool has_left;
    uint64_t left_tokens; /* what the key has now; only if all of its name is known */
};

/* The highest so far, in order. Limits are added one after the other. */
struct ration_top_list {
    enum ration_top by;
    uint64_t now_ns;
    bool has_limit_name;
    char limit_name[RATION_LIMIT_NAME_MAX + 1]; /* if so: others are passed over */
    size_t items_max;                           /* 1 to RATION_TOP_MAX */
    size_t count;
    struct ration_top_item items[RATION_TOP_MAX];
};

/* Adds the policy's limits from first on, count of them. */
void ration_top_add(struct ration_top_list *list, const struct ration_visit *visit, size_t first,
                    size_t count);

/* Adds the keys of limits that came with requests. */
void ration_top_add_throttle(struct ration_top_list *list, ration_gate *gate);

/* A reply that lists keys. Each protocol has its own kind of this walk; begin and visit are these. */
struct ration_top_walk {
    struct ration_walk walk;
    struct ration_top_list list;
};

void ration_top_walk_begin(struct ration_walk *walk);
void ration_top_walk_visit(struct ration_walk *walk, const struct ration_visit *visit, size_t first,
                           size_t count);

/* Sets what is listed, and starts. walk is a struct ration_top_walk; limit_name is copied, NULL: of all limits. */
void ration_top_walk_start(struct ration_walk *walk, enum ration_top by, size_t items_max,
                           const char *limit_name, uint64_t now_ns);

#endif
