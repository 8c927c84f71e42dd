/*
 * pattern: one value that a condition compares with.
 *
 * Text is compared exactly, by its beginning, or with a glob (* for any bytes, ? for one, \ before
 * one that means itself). A glob that says no more than one of the others becomes it. Addresses are
 * compared with networks; one address is a network of its own.
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
    const char *bytes; /* terminated */
    const char *start; /* what every value that matches begins with; of EXACT all of it */
    const struct ration_glob *glob; /* of GLOB */
    struct ration_network network;
};

/* A glob, or what it amounts to. False if there is no memory. */
bool ration_pattern_make_glob(struct ration_arena *arena, const char *text, size_t size,
                              struct ration_pattern *out_pattern);

/* A pattern of kind EXACT or PREFIX. False if there is no memory. */
bool ration_pattern_make_text(struct ration_arena *arena, enum ration_pattern_kind kind,
                              const char *text, size_t size, struct ration_pattern *out_pattern);

/*
 * Whether a value matches; address is the value where the pattern is a network. work (may be NULL)
 * counts what globs cost.
 */
bool ration_pattern_matches(const struct ration_pattern *pattern, const struct ration_key *value,
                            const struct ration_address *address, struct ration_glob_work *work);

/* Whether it is certain that no value matches both. */
bool ration_patterns_exclude(const struct ration_pattern *a, const struct ration_pattern *b);

/* Whether it is certain that every value that matches b matches a. */
bool ration_pattern_covers(const struct ration_pattern *a, const struct ration_pattern *b);

#endif
