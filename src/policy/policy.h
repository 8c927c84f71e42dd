/*
 * policy: what a policy is in memory.
 *
 * Items of banned and exempt, and limits, are rules: terms that must all hold. They are numbered in
 * this order, so that one index finds them all, and the lowest number that matches decides.
 */
#ifndef RATION_POLICY_POLICY_H
#define RATION_POLICY_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/arena.h"
#include "policy/index.h"
#include "policy/pattern.h"
#include "ration/policy.h"

/* One condition: a value of the attribute matches one of the patterns, or (negated) none. */
struct ration_term {
    uint16_t name_index;
    bool is_negated; /* then an absent attribute passes as well */
    uint32_t pattern_count;
    struct ration_pattern *patterns;
};

struct ration_policy_rule {
    struct ration_term *terms;
    uint16_t term_count;
    uint16_t needed_count;  /* attributes that must be there: the key's, with missing: skip */
    const uint16_t *needed; /* indexes of names */
    uint16_t indexed_term;  /* found by it; RATION_INDEX_NONE: always compared */
    uint32_t line;
    uint32_t compare_steps; /* of comparing it with a request, beside what globs search */
};

struct ration_policy_name {
    const char *bytes; /* terminated */
    size_t size;
};

struct ration_limit_entry {
    struct ration_policy_limit view;
    uint16_t key_names[RATION_POLICY_KEY_PARTS_MAX]; /* indexes of names */
    uint16_t cost_name;
    uint32_t column; /* where it stands in its line */
    bool has_fault;  /* while reading: what it matches is not known */
};

struct ration_policy {
    struct ration_arena arena; /* of everything below */

    struct ration_policy_name names[RATION_POLICY_NAMES_MAX]; /* of attributes it uses */
    size_t name_count;
    uint16_t ip_name;  /* the one that is an address; RATION_INDEX_NONE: not used */
    bool has_networks; /* conditions compare it */

    struct ration_policy_rule *rules; /* banned, exempt, limits */
    size_t banned_count;
    size_t exempt_count;
    size_t limit_count;
    struct ration_limit_entry *limits;

    bool is_one_slot; /* in a cluster of Redis */

    struct ration_policy_setting *settings;
    size_t setting_count;

    struct ration_index index;
};

static inline size_t ration_policy_rule_count(const struct ration_policy *policy)
{
    return policy->banned_count + policy->exempt_count + policy->limit_count;
}

static inline const struct ration_policy_rule *ration_policy_limit_rule(
    const struct ration_policy *policy, size_t limit_index)
{
    return &policy->rules[policy->banned_count + policy->exempt_count + limit_index];
}

#endif
