/* limit_entry: parses one member of the list limits:. */
#ifndef RATION_POLICY_LIMIT_ENTRY_H
#define RATION_POLICY_LIMIT_ENTRY_H

#include "policy/schema.h"

/* The fields that define the limit itself; NULL where a field is absent. */
struct ration_limit_fields {
    const struct ration_document_node *name;
    const struct ration_document_node *rate;
    const struct ration_document_node *algorithm;
    const struct ration_document_node *refill;
    const struct ration_document_node *start;
    const struct ration_document_node *burst;
    const struct ration_document_node *reserve;
};

/* Builds a limit from its fields. An error about a missing field points at entry. */
bool ration_limit_fields_make(struct ration_schema *schema,
                              const struct ration_document_node *entry,
                              const struct ration_limit_fields *fields,
                              struct ration_limit *out_limit);

/*
 * Reads an entry. *out_name is the node of its name, NULL if it has none. Records errors in schema.
 */
void ration_limit_entry_read(struct ration_schema *schema, const struct ration_document_node *node,
                             struct ration_limit_entry *entry, struct ration_policy_rule *rule,
                             const struct ration_document_node **out_name);

#endif
