/*
 * match: finds the rules of a policy that apply to a request, and counts the work.
 *
 * Work is counted in steps: one byte searched by a glob, or other work of about the same time
 * (about 1 ns). The event loop pauses between two requests when they have used many steps.
 */
#ifndef RATION_POLICY_MATCH_H
#define RATION_POLICY_MATCH_H

#include "ration/policy.h"

/* Like ration_policy_find_matches(). *out_steps is written on failure too. */
ration_status ration_match_find(const ration_policy *policy,
                                const struct ration_attribute *attributes, size_t attribute_count,
                                struct ration_policy_match *out_match, uint64_t *out_steps);

#endif
