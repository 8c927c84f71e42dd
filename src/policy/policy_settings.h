/* settings: the section server:, saved as it is written. */
#ifndef RATION_POLICY_POLICY_SETTINGS_H
#define RATION_POLICY_POLICY_SETTINGS_H

#include "policy/schema.h"

/* Copies the section into the policy. Records errors in schema. */
void ration_policy_settings_read(struct ration_schema *schema,
                                 const struct ration_document_node *section);

#endif
