/*
 * limit_entry: one member of limits.
 */
#ifndef RATION_POLICY_LIMIT_ENTRY_H
#define RATION_POLICY_LIMIT_ENTRY_H

#include "policy/schema.h"

/* The fields that make the limit itself, NULL where they are not given. */
struct ration_limit_fields {
    const struct ration_node *name;
    const struct ration_node *rate;
    const struct ration_node *algorithm;
    const struct ration_node *refill;
    const struct ration_node *start;
    const struct ration_node *burst;
    const struct ration_node *reserve;
};

/* Makes a limit of its fields; entry is where to say that something is missing. */
bool ration_limit_fields_make(struct ration_schema *schema, const struct ration_node *entry,
                              const struct ration_limit_fields *fields,
                              struct ration_limit *out_limit);

/* Reads an entry. *out_name is the node of its name, NULL if it has none. Faults are noted. */
void ration_limit_entry_read(struct ration_schema *schema, const struct ration_node *node,
                             struct ration_limit_entry *entry, struct ration_policy_rule *rule,
                             const struct ration_node **out_name);

#endif
