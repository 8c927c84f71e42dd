/*
 * pattern: one value that a condition compares with.
 *
 * Text is compared exactly, by prefix, or with a glob (* for any bytes, ? for one, \ before a
 * literal byte). A glob that is equivalent to an exact value or a prefix is converted to it.
 * Addresses are compared with networks; a single address is a network with all bits in its prefix.
 */
#ifndef RATION_POLICY_PATTERN_H
#define RATION_POLICY_PATTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/address.h"
#include "policy/arena.h"
#include "policy/glob.h"
#include "ration/limiter.h"

enum ration_pattern_kind {
    RATION_PATTERN_EXACT,
    RATION_PATTERN_PREFIX,
    RATION_PATTERN_GLOB,
    RATION_PATTERN_NETWORK
};

struct ration_pattern {
    enum ration_pattern_kind kind;
    uint32_t size;
    uint32_t start_size;
    const char *bytes; /* zero-terminated */
    const char *start; /* the prefix that every matching value has; for EXACT the whole value */
    const struct ration_glob *glob; /* for GLOB only */
    struct ration_network network;
};

/* Makes a glob, or the simpler pattern it is equivalent to. Returns false if memory runs out. */
bool ration_pattern_make_glob(struct ration_arena *arena, const char *text, size_t size,
                              struct ration_pattern *out_pattern);

/* Makes a pattern of kind EXACT or PREFIX. Returns false if memory runs out. */
bool ration_pattern_make_text(struct ration_arena *arena, enum ration_pattern_kind kind,
                              const char *text, size_t size, struct ration_pattern *out_pattern);

/*
 * Whether a value matches. If the pattern is a network, address is the parsed value. The steps of
 * globs are added to work (may be NULL).
 */
bool ration_pattern_matches(const struct ration_pattern *pattern, const struct ration_key *value,
                            const struct ration_address *address, struct ration_glob_work *work);

/* True only if no value can match both patterns. */
bool ration_pattern_exclude_each_other(const struct ration_pattern *a,
                                       const struct ration_pattern *b);

/* True only if every value that matches b also matches a. */
bool ration_pattern_covers(const struct ration_pattern *a, const struct ration_pattern *b);

#endif
