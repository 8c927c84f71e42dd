/*
 * request: the attributes of a request by the numbers that a policy gave their names.
 */
#ifndef RATION_POLICY_REQUEST_H
#define RATION_POLICY_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/policy.h"

struct ration_request {
    const struct ration_key *values[RATION_POLICY_NAMES_MAX]; /* NULL: absent */
    struct ration_address address; /* of ip, if that is there and has_networks */
    struct ration_glob_work *work; /* set by the caller; NULL: what globs cost is not counted */
};

/* Returns RATION_EINVAL as ration_policy_find_matches() does. Only as many values as there are names are set. */
ration_status ration_request_read(const struct ration_policy *policy,
                                  const struct ration_attribute *attributes, size_t attribute_count,
                                  struct ration_request *out_request);

/* Whether a condition holds. */
bool ration_request_meets(const struct ration_request *request, const struct ration_term *term);

/*
 * The first condition of a rule that does not hold: the index of a term, or term_count plus the
 * index of a needed attribute that is absent. Both counts together: the rule applies.
 */
size_t ration_request_fails(const struct ration_request *request,
                            const struct ration_policy_rule *rule);

#endif
