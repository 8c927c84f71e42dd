/* request: the attributes of a request, indexed by the policy's numbers for their names. */
#ifndef RATION_POLICY_POLICY_REQUEST_H
#define RATION_POLICY_POLICY_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/policy_internal.h"

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

/* Whether a condition is true for the request. */
bool ration_policy_request_meets(const struct ration_policy_request *request,
                                 const struct ration_term *term);

/*
 * Returns the first condition of a rule that is false: the index of a term, or term_count plus the
 * index of a needed attribute that is absent. If the rule applies, returns term_count +
 * needed_count.
 */
size_t ration_policy_request_fails(const struct ration_policy_request *request,
                                   const struct ration_policy_rule *rule);

#endif
