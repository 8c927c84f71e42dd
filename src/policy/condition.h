/* condition: parses the match: field of a rule into the terms of that rule. */
#ifndef RATION_POLICY_CONDITION_H
#define RATION_POLICY_CONDITION_H

#include "policy/schema.h"

/*
 * Reads a mapping from attribute names to the values that they must have. Records errors in schema.
 */
void ration_condition_read(struct ration_schema *schema, const struct ration_document_node *match,
                           struct ration_policy_rule *rule);

#endif
