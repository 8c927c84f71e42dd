/*
 * document: YAML to a tree of nodes that know where they stand.
 *
 * Of YAML this takes plain data in one document: scalars, lists and mappings. Aliases, merge keys and
 * tags are refused with a word on what to write instead: they make a small text large and a plain
 * value something else. Every scalar is text; who uses it says what it must be.
 */
#ifndef RATION_POLICY_DOCUMENT_H
#define RATION_POLICY_DOCUMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/faults.h"
#include "ration/status.h"

enum ration_node_kind { RATION_NODE_SCALAR, RATION_NODE_LIST, RATION_NODE_MAPPING };

struct ration_node {
    enum ration_node_kind kind;
    bool is_quoted; /* or a block: not a plain scalar */
    uint32_t line;  /* from 1 */
    uint32_t column;
    uint32_t text_column; /* of the text's first character; 0 if it is not written as it reads */
    const char *text;     /* of a scalar; terminated, may hold zero bytes */
    size_t size;
    const struct ration_node *name;  /* of a member of a mapping: a scalar */
    const struct ration_node *first; /* of a list or mapping: its members, by next */
    const struct ration_node *next;
    size_t count;
};

/*
 * Reads text into *out_root, which lives in arena. Returns RATION_EINVAL with a fault noted, or
 * RATION_ENOMEM.
 */
ration_status ration_document_read(const char *text, size_t text_size, struct ration_arena *arena,
                                   struct ration_faults *faults,
                                   const struct ration_node **out_root);

/* Whether a scalar is just this word. */
bool ration_node_is(const struct ration_node *node, const char *word);

/* The column of the byte at offset of a scalar's text, or that of the scalar. */
uint32_t ration_node_column(const struct ration_node *node, size_t offset);

/* "a list", "a mapping", "nothing" or "text". */
const char *ration_node_kind_text(const struct ration_node *node);

/* A scalar with nothing written: "key:" and no more. */
static inline bool ration_node_is_blank(const struct ration_node *node)
{
    return node->kind == RATION_NODE_SCALAR && node->size == 0 && !node->is_quoted;
}

/* A scalar that is nothing to other readers of YAML: null or ~ without quotes. */
bool ration_node_is_null(const struct ration_node *node);

/* A match with nothing in it. */
static inline bool ration_node_is_empty(const struct ration_node *node)
{
    return ration_node_is_blank(node) || ration_node_is_null(node) ||
           (node->kind == RATION_NODE_MAPPING && node->count == 0);
}

#endif
