/*
 * top: the keys that were denied most often, or took most, of all limits together.
 */
#ifndef RATION_SERVER_TOP_H
#define RATION_SERVER_TOP_H

#include "ration/ration.h"

#define RATION_TOP_MAX 100 /* that are told at once */

struct ration_top_item {
    char limit_name[RATION_LIMIT_NAME_MAX + 1]; /* may be RATION_POLICY_THROTTLE */
    struct ration_top_key key;
    bool has_left;
    uint64_t left_tokens; /* what the key has now; only if all of its name is known */
};

/*
 * Writes up to items_max, highest first, of the limit of this name (NULL: of all), and returns how
 * many. Takes memory for a moment; none: 0.
 */
size_t ration_top_collect(ration_gate *gate, enum ration_top by, const char *limit_name,
                          uint64_t now_ns, struct ration_top_item *items, size_t items_max);

#endif
