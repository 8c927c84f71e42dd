/*
 * match: what a policy says of a request, and what finding that out cost.
 *
 * The cost is counted in steps: a byte that a glob searches, or as much time as that takes (about 1 ns). An
 * event loop stops between two requests when their steps are many.
 */
#ifndef RATION_POLICY_MATCH_H
#define RATION_POLICY_MATCH_H

#include "ration/policy.h"

/* As ration_policy_find_matches(). *out_steps is written on failure too. */
ration_status ration_match_find(const ration_policy *policy,
                                const struct ration_attribute *attributes, size_t attribute_count,
                                struct ration_policy_match *out_match, uint64_t *out_steps);

#endif
