/*
 * schema: checks that the nodes of a document have the required type and reads their values.
 *
 * Each function returns false after it has recorded an error. Callers continue with the next field,
 * so that one pass finds all errors of a policy.
 */
#ifndef RATION_POLICY_SCHEMA_H
#define RATION_POLICY_SCHEMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/document.h"
#include "policy/policy_errors.h"
#include "policy/policy_internal.h"

struct ration_schema {
    struct ration_policy *policy;
    struct ration_arena *scratch;
    struct ration_policy_errors *errors;
};

/* Records an error at the position of a node. */
#define RATION_SCHEMA_ERROR(schema, node, ...) \
    ration_policy_errors_add((schema)->errors, (node)->line, (node)->column, __VA_ARGS__)

/* Names of the fields a mapping may have. */
struct ration_schema_fields {
    const char *what; /* "a limit" */
    const char *const *names;
    size_t count;
};

/*
 * Stores the members of a mapping in out_values, one for each name, NULL where a field is absent.
 * Returns false, with all of them NULL, if node is not a mapping. Unknown and repeated fields are
 * recorded as errors and skipped.
 */
bool ration_schema_mapping(struct ration_schema *schema, const struct ration_document_node *node,
                           const struct ration_schema_fields *fields,
                           const struct ration_document_node **out_values);

/* Requires a list of at most count_max members. The error message shows example. */
bool ration_schema_list(struct ration_schema *schema, const struct ration_document_node *node,
                        const char *what, const char *example, size_t count_max);

/* Requires text that is not empty. */
bool ration_schema_text(struct ration_schema *schema, const struct ration_document_node *node,
                        const char *what);

/* Requires text without blanks. */
bool ration_schema_word(struct ration_schema *schema, const struct ration_document_node *node,
                        const char *what);

/* Requires one of the words; *out_index is its index. */
bool ration_schema_choice(struct ration_schema *schema, const struct ration_document_node *node,
                          const char *what, const char *const *words, size_t word_count,
                          size_t *out_index);

/* Reads a count in the notation of limits (10k), between count_min and count_max. */
bool ration_schema_count(struct ration_schema *schema, const struct ration_document_node *node,
                         const char *what, uint64_t count_min, uint64_t count_max,
                         uint64_t *out_count);

/* Reads a duration in the notation of limits (250ms), from 1 ns to max_ns. */
bool ration_schema_duration(struct ration_schema *schema, const struct ration_document_node *node,
                            const char *what, uint64_t max_ns, uint64_t *out_ns);

/* Reads the name of an attribute. *out_name_index is its index among the policy's names. */
bool ration_schema_attribute(struct ration_schema *schema, const struct ration_document_node *node,
                             uint16_t *out_name_index);

/* Records an error at the byte offset of node's text. */
void ration_schema_error(struct ration_schema *schema, const struct ration_document_node *node,
                         size_t offset, const char *message);

/* The readers of the parts of a policy. Each is in a file of its own, which its name begins with. ---- */

/*
 * Reads a mapping from attribute names to the values that they must have. Records errors in schema.
 */
void ration_condition_read(struct ration_schema *schema, const struct ration_document_node *match,
                           struct ration_policy_rule *rule);

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

/*
 * Records an error for each leaky_queue limit that may apply to a request together with another
 * limit: a leaky queue makes its callers wait, and this cannot be decided atomically with limits
 * that deny.
 */
void ration_overlap_check(struct ration_schema *schema);

/* Copies the section into the policy. Records errors in schema. */
void ration_policy_settings_read(struct ration_schema *schema,
                                 const struct ration_document_node *section);

#endif
