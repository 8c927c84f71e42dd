/*
 * condition: a match of the text to the terms of a rule.
 */
#ifndef RATION_POLICY_CONDITION_H
#define RATION_POLICY_CONDITION_H

#include "policy/schema.h"

/* Reads a mapping of attributes to what they must be. Faults are noted. */
void ration_condition_read(struct ration_schema *schema, const struct ration_node *match,
                           struct ration_policy_rule *rule);

#endif
