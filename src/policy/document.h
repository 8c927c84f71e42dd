/*
 * document: parses YAML into a tree of nodes, each with its line and column.
 *
 * The parser accepts plain data in one document: scalars, lists and mappings. It refuses aliases,
 * merge keys and tags with a hint on what to write instead: they can make a small text large or
 * change the meaning of a plain value. Every scalar is text; the code that uses it decides what it
 * must contain.
 */
#ifndef RATION_POLICY_DOCUMENT_H
#define RATION_POLICY_DOCUMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/policy_errors.h"
#include "ration/status.h"

enum ration_document_node_kind {
    RATION_DOCUMENT_NODE_SCALAR,
    RATION_DOCUMENT_NODE_LIST,
    RATION_DOCUMENT_NODE_MAPPING
};

struct ration_document_node {
    enum ration_document_node_kind kind;
    bool is_quoted; /* the scalar is quoted or a block, not plain */
    uint32_t line;  /* line and column count from 1 */
    uint32_t column;
    /* Column of the first character of text; 0 if the source has escapes or several lines */
    uint32_t text_column;
    const char *text; /* of a scalar; zero-terminated, may contain zero bytes */
    size_t size;
    const struct ration_document_node *name; /* of a member of a mapping: its name, a scalar */
    /* Of a list or mapping: its first member; the others follow by next */
    const struct ration_document_node *first;
    const struct ration_document_node *next;
    size_t count;
};

/*
 * Parses text into *out_root, which is owned by the arena. Returns RATION_EINVAL after recording an
 * error in errors, or RATION_ENOMEM.
 */
ration_status ration_document_read(const char *text, size_t text_size, struct ration_arena *arena,
                                   struct ration_policy_errors *errors,
                                   const struct ration_document_node **out_root);

/* Whether a node is a scalar that equals this word. */
bool ration_document_node_is(const struct ration_document_node *node, const char *word);

/*
 * The column of the byte at offset of a scalar's text, or the column of the scalar if text_column
 * is 0.
 */
uint32_t ration_document_node_column(const struct ration_document_node *node, size_t offset);

/* "a list", "a mapping", "nothing" or "text". */
const char *ration_document_node_kind_text(const struct ration_document_node *node);

/* Whether the value is missing, as in "key:" with nothing after it. */
static inline bool ration_document_node_is_blank(const struct ration_document_node *node)
{
    return node->kind == RATION_DOCUMENT_NODE_SCALAR && node->size == 0 && !node->is_quoted;
}

/* Whether other YAML parsers would read the scalar as null: null or ~ without quotes. */
bool ration_document_node_is_null(const struct ration_document_node *node);

/* Whether a match has no conditions: it is missing, null or an empty mapping. */
static inline bool ration_document_node_is_empty(const struct ration_document_node *node)
{
    return ration_document_node_is_blank(node) || ration_document_node_is_null(node) ||
           (node->kind == RATION_DOCUMENT_NODE_MAPPING && node->count == 0);
}

#endif
