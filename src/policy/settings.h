/*
 * settings: the section server:, kept as it is written.
 */
#ifndef RATION_POLICY_SETTINGS_H
#define RATION_POLICY_SETTINGS_H

#include "policy/schema.h"

/* Copies the section into the policy. Faults are noted. */
void ration_settings_read(struct ration_schema *schema, const struct ration_node *section);

#endif
