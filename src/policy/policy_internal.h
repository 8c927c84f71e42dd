/*
 * policy: a policy in memory.
 *
 * The entries of banned, of exempt and of limits are rules: lists of terms that must all be true.
 * They are numbered in this order, so that one index finds them all, and the lowest number that
 * matches decides.
 */
#ifndef RATION_POLICY_POLICY_INTERNAL_H
#define RATION_POLICY_POLICY_INTERNAL_H

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
    bool is_negated; /* a negated term is also true when the attribute is absent */
    uint32_t pattern_count;
    struct ration_pattern *patterns;
};

struct ration_policy_rule {
    struct ration_term *terms;
    uint16_t term_count;
    /* Attributes that must be present: those of the key, with missing: skip. */
    uint16_t needed_count;
    const uint16_t *needed; /* indexes of names */
    /* The term in the index; RATION_INDEX_NONE: the rule is always compared. */
    uint16_t indexed_term;
    uint32_t line;
    uint32_t compare_steps; /* cost of comparing it with a request, without glob searches */
};

struct ration_policy_name {
    const char *bytes; /* zero-terminated */
    size_t size;
};

struct ration_limit_entry {
    struct ration_policy_limit view;
    uint16_t key_names[RATION_POLICY_KEY_PARTS_MAX]; /* indexes of names */
    uint16_t cost_name;
    uint32_t column; /* column of the entry in the policy file */
    bool has_error;  /* while parsing: an error was found, so its conditions are incomplete */
};

struct ration_policy {
    struct ration_arena arena; /* owns everything below */

    /* The names of the attributes that the policy uses. */
    struct ration_policy_name names[RATION_POLICY_NAMES_MAX];
    size_t name_count;
    uint16_t ip_name;  /* index of the name "ip"; RATION_INDEX_NONE: not used */
    bool has_networks; /* some condition compares ip with a network */

    struct ration_policy_rule *rules; /* in this order: banned, exempt, limits */
    size_t banned_count;
    size_t exempt_count;
    size_t limit_count;
    struct ration_limit_entry *limits;

    bool is_one_slot; /* cluster: one_slot is set; used only with a Redis cluster */

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

/* The attributes of a request, indexed by the policy's numbers for their names. */
struct ration_policy_request {
    const struct ration_key *values[RATION_POLICY_NAMES_MAX]; /* NULL: absent */
    /* Parsed value of ip, if it is present and the policy has_networks */
    struct ration_address address;
    struct ration_glob_work *work; /* set by the caller; NULL: glob steps are not counted */
};

/*
 * Returns RATION_EINVAL as ration_policy_find_matches() does. Sets only the first name_count
 * values.
 */
ration_status ration_policy_request_read(const struct ration_policy *policy,
                                         const struct ration_attribute *attributes,
                                         size_t attribute_count,
                                         struct ration_policy_request *out_request);

/*
 * Returns the first condition of a rule that is false: the index of a term, or term_count plus the
 * index of a needed attribute that is absent. If the rule applies, returns term_count +
 * needed_count.
 */
size_t ration_policy_request_fails(const struct ration_policy_request *request,
                                   const struct ration_policy_rule *rule);

#endif
