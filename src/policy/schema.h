/*
 * schema: nodes of a document taken for what they must be, or a fault.
 *
 * Each of these returns false once it has noted a fault; readers go on with the next field, so that all
 * faults of a text are found in one pass.
 */
#ifndef RATION_POLICY_SCHEMA_H
#define RATION_POLICY_SCHEMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/document.h"
#include "policy/faults.h"
#include "policy/policy.h"

struct ration_schema {
    struct ration_policy *policy;
    struct ration_arena *scratch;
    struct ration_faults *faults;
};

/* Notes a fault about a node. */
#define RATION_SCHEMA_FAULT(schema, node, ...) \
    ration_faults_add((schema)->faults, (node)->line, (node)->column, __VA_ARGS__)

/* Names of the fields a mapping may have. */
struct ration_schema_fields {
    const char *what; /* "a limit" */
    const char *const *names;
    size_t count;
};

/*
 * Sorts the members of a mapping into out_values, one for each name, NULL where there is none. False,
 * with all of them NULL, if node is no mapping; unknown and repeated fields are faults and skipped.
 */
bool ration_schema_mapping(struct ration_schema *schema, const struct ration_node *node,
                           const struct ration_schema_fields *fields,
                           const struct ration_node **out_values);

/* A list of at most count_max. example is what to write. */
bool ration_schema_list(struct ration_schema *schema, const struct ration_node *node,
                        const char *what, const char *example, size_t count_max);

/* Text that is not empty. */
bool ration_schema_text(struct ration_schema *schema, const struct ration_node *node,
                        const char *what);

/* Text without blanks. */
bool ration_schema_word(struct ration_schema *schema, const struct ration_node *node,
                        const char *what);

/* One of the words; *out_index says which. */
bool ration_schema_choice(struct ration_schema *schema, const struct ration_node *node,
                          const char *what, const char *const *words, size_t word_count,
                          size_t *out_index);

/* A count as limits have it (10k), from least to most. */
bool ration_schema_count(struct ration_schema *schema, const struct ration_node *node,
                         const char *what, uint64_t least, uint64_t most, uint64_t *out_count);

/* A duration as limits have it (250ms), from 1 ns to most. */
bool ration_schema_duration(struct ration_schema *schema, const struct ration_node *node,
                            const char *what, uint64_t most_ns, uint64_t *out_ns);

/* The name of an attribute, as the index of it among the policy's names. */
bool ration_schema_attribute(struct ration_schema *schema, const struct ration_node *node,
                             uint16_t *out_name_index);

/* Notes an error of the units' and limits' readers, at the byte of node's text that it names. */
void ration_schema_error(struct ration_schema *schema, const struct ration_node *node,
                         size_t offset, const char *message);

#endif
