/*
 * condition: parses the match: field of a rule into the terms of the rule.
 *
 *     path: /login                     a value
 *     path: [/login, {prefix: /api/}]  any of them
 *     path: {prefix: /api/, not: {glob: "*.png"}}   all of them: two terms
 */
#include "policy/schema.h"

#include <inttypes.h>
#include <string.h>

#include "base/text.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

enum kind { KIND_EXACT, KIND_PREFIX, KIND_GLOB, KIND_CIDR, KIND_NOT, KIND_COUNT };

static const char *const kind_words[] = {"exact", "prefix", "glob", "cidr", "not"};

/* The error for a mapping in a list, or after not:, that does not have exactly one kind. */
static const char one_kind[] = "write exactly one of exact, prefix, glob or cidr here";

struct condition {
    struct ration_schema *schema;
    struct ration_term terms[RATION_POLICY_CONDITIONS_MAX];
    size_t term_count;
    uint16_t name_index;
};

static bool read_network(struct condition *condition, enum kind kind,
                         const struct ration_document_node *node,
                         struct ration_pattern *out_pattern)
{
    struct ration_schema *schema = condition->schema;
    const char *reason = "";

    schema->policy->has_networks = true;
    *out_pattern = (struct ration_pattern){.kind = RATION_PATTERN_NETWORK};
    if (kind == KIND_PREFIX || kind == KIND_GLOB) {
        RATION_SCHEMA_ERROR(schema, node, "ip is an address: compare it with cidr, not with %s",
                            kind_words[kind]);
        return false;
    }
    if (!ration_address_network_parse(node->text, node->size, &out_pattern->network, &reason)) {
        char quote[RATION_TEXT_QUOTE_SIZE];
        RATION_SCHEMA_ERROR(schema, node, "'%s': %s",
                            ration_text_quote(node->text, node->size, quote), reason);
        return false;
    }
    return true;
}

static bool read_text(struct condition *condition, enum kind kind,
                      const struct ration_document_node *node, struct ration_pattern *out_pattern)
{
    struct ration_schema *schema = condition->schema;
    struct ration_arena *arena = &schema->policy->arena;

    if (kind == KIND_CIDR) {
        RATION_SCHEMA_ERROR(schema, node, "cidr can only be used with the attribute ip");
        return false;
    }
    if (kind == KIND_GLOB)
        return ration_pattern_make_glob(arena, node->text, node->size, out_pattern);
    return ration_pattern_make_text(
        arena, kind == KIND_PREFIX ? RATION_PATTERN_PREFIX : RATION_PATTERN_EXACT, node->text,
        node->size, out_pattern);
}

static bool is_named(const struct condition *condition, const char *name)
{
    const struct ration_policy_name *name_entry =
        &condition->schema->policy->names[condition->name_index];

    return name_entry->size == strlen(name) &&
           memcmp(name_entry->bytes, name, name_entry->size) == 0;
}

/* Every path begins with a slash, except the * of OPTIONS. */
static bool is_path(struct ration_schema *schema, enum kind kind,
                    const struct ration_document_node *node)
{
    char quote[RATION_TEXT_QUOTE_SIZE];
    bool is_escaped = kind == KIND_GLOB && node->size > 1 && node->text[0] == '\\';
    char first = node->text[is_escaped];

    if (node->size == 0 || first == '/' || (kind == KIND_GLOB && !is_escaped && first == '?'))
        return true;
    ration_text_quote(node->text, node->size, quote);
    if (first != '*')
        RATION_SCHEMA_ERROR(schema, node, "a path begins with /, as in /login (got '%s')", quote);
    else if (kind != KIND_GLOB && node->size > 1)
        RATION_SCHEMA_ERROR(schema, node, "a path with wildcards is a glob: write {glob: '%s'}",
                            quote);
    else
        return true;
    return false;
}

/* The server normalizes hosts, so a host in another form would never match. */
static bool is_host(struct ration_schema *schema, enum kind kind,
                    const struct ration_document_node *node)
{
    bool is_address = node->size > 0 && node->text[0] == '[';

    for (size_t i = 0; i < node->size; i++) {
        if (node->text[i] >= 'A' && node->text[i] <= 'Z') {
            ration_schema_error(schema, node, i, "hosts are in lower case: example.com");
            return false;
        }
        if (kind == KIND_EXACT && !is_address &&
            (node->text[i] == ':' || (node->text[i] == '.' && i + 1 == node->size))) {
            ration_schema_error(schema, node, i,
                                "a host has no port and no dot at its end here: example.com");
            return false;
        }
    }
    return true;
}

/* A limit on a value that no request can have would never apply, so it is an error. */
static bool can_ever_match(const struct condition *condition, enum kind kind,
                           const struct ration_document_node *node)
{
    struct ration_schema *schema = condition->schema;

    if (is_named(condition, "path") && kind != KIND_CIDR)
        return is_path(schema, kind, node);
    if (is_named(condition, "host"))
        return is_host(schema, kind, node);
    if (is_named(condition, "method"))
        for (size_t i = 0; i < node->size; i++)
            if (node->text[i] >= 'a' && node->text[i] <= 'z') {
                ration_schema_error(schema, node, i, "methods are in capitals: GET, POST");
                return false;
            }
    return true;
}

/* Adds a value to the term. The array of patterns has room for it. */
static void add_pattern(struct condition *condition, enum kind kind,
                        const struct ration_document_node *node, struct ration_term *term)
{
    struct ration_schema *schema = condition->schema;
    struct ration_pattern pattern;
    bool is_ip = condition->name_index == schema->policy->ip_name;

    if (node->kind != RATION_DOCUMENT_NODE_SCALAR) {
        RATION_SCHEMA_ERROR(schema, node, "a value to compare with must be text, and this is %s",
                            ration_document_node_kind_text(node));
        return;
    }
    if (ration_document_node_is_blank(node)) {
        RATION_SCHEMA_ERROR(schema, node,
                            "the value is missing: write one, or \"\" for the empty text");
        return;
    }
    if (ration_document_node_is_null(node)) {
        RATION_SCHEMA_ERROR(schema, node,
                            "for requests without %s, write {not: {glob: '*'}}; for the word "
                            "itself, write \"%s\" with quotes",
                            schema->policy->names[condition->name_index].bytes, node->text);
        return;
    }
    if (node->size > RATION_POLICY_VALUE_SIZE_MAX) {
        RATION_SCHEMA_ERROR(schema, node, "a value has at most %d bytes (got %zu)",
                            RATION_POLICY_VALUE_SIZE_MAX, node->size);
        return;
    }
    if (!can_ever_match(condition, kind, node))
        return;
    if (is_ip ? read_network(condition, kind, node, &pattern)
              : read_text(condition, kind, node, &pattern))
        term->patterns[term->pattern_count++] = pattern;
}

/* The number of values below a node; the array for them is allocated once. */
static size_t count_values(const struct ration_document_node *node)
{
    size_t count = 0;

    if (node->kind == RATION_DOCUMENT_NODE_SCALAR)
        return 1;
    for (const struct ration_document_node *member = node->first; member; member = member->next)
        count += count_values(member);
    return count;
}

static struct ration_term *open_term(struct condition *condition,
                                     const struct ration_document_node *node, bool is_negated)
{
    struct ration_schema *schema = condition->schema;
    size_t count = count_values(node);
    struct ration_term *term = &condition->terms[condition->term_count];

    if (condition->term_count == RATION_POLICY_CONDITIONS_MAX) {
        RATION_SCHEMA_ERROR(schema, node, "a match has at most %d conditions",
                            RATION_POLICY_CONDITIONS_MAX);
        return NULL;
    }
    if (count == 0) {
        RATION_SCHEMA_ERROR(schema, node, "an empty list matches nothing: write a value");
        return NULL;
    }
    if (count > RATION_POLICY_VALUES_MAX) {
        RATION_SCHEMA_ERROR(schema, node, "a condition has at most %d values (got %zu)",
                            RATION_POLICY_VALUES_MAX, count);
        return NULL;
    }
    *term = (struct ration_term){.name_index = condition->name_index, .is_negated = is_negated};
    term->patterns = ration_arena_take(&schema->policy->arena, count, sizeof(term->patterns[0]));
    if (!term->patterns)
        return NULL;
    condition->term_count++;
    return term;
}

/* Reads which kind of comparison the name of a member means. */
static bool read_kind(struct condition *condition, const struct ration_document_node *member,
                      enum kind *out_kind)
{
    char quote[RATION_TEXT_QUOTE_SIZE];
    const struct ration_document_node *name = member->name;

    for (int kind = 0; kind < KIND_COUNT; kind++) {
        if (ration_document_node_is(name, kind_words[kind])) {
            *out_kind = (enum kind)kind;
            return true;
        }
    }
    const char *suggestion =
        ration_text_nearest(name->text, name->size, kind_words, COUNT_OF(kind_words));
    RATION_SCHEMA_ERROR(condition->schema, name, "a condition cannot be '%s': %s%s%s",
                        ration_text_quote(name->text, name->size, quote),
                        suggestion ? "did you mean " : "write exact, prefix, glob, cidr or not",
                        suggestion ? suggestion : "", suggestion ? "?" : "");
    return false;
}

/* Adds a value, or a list of values, of one kind. */
static void add_values(struct condition *condition, enum kind kind,
                       const struct ration_document_node *node, struct ration_term *term)
{
    if (node->kind != RATION_DOCUMENT_NODE_LIST) {
        add_pattern(condition, kind, node, term);
        return;
    }
    for (const struct ration_document_node *member = node->first; member; member = member->next)
        add_pattern(condition, kind, member, term);
}

/* Adds the values of a mapping with one kind: {prefix: /api/}. */
static void add_kind(struct condition *condition, const struct ration_document_node *mapping,
                     struct ration_term *term)
{
    enum kind kind;

    if (mapping->count == 1 && !read_kind(condition, mapping->first, &kind))
        return;
    if (mapping->count != 1 || kind == KIND_NOT) {
        RATION_SCHEMA_ERROR(condition->schema, mapping, "%s", one_kind);
        return;
    }
    add_values(condition, kind, mapping->first, term);
}

/* Reads one term: a value, a mapping with one kind, or a list of both. */
static void read_term(struct condition *condition, const struct ration_document_node *node,
                      bool is_negated)
{
    struct ration_term *term = open_term(condition, node, is_negated);

    if (!term)
        return;
    if (node->kind == RATION_DOCUMENT_NODE_SCALAR)
        add_pattern(condition, KIND_EXACT, node, term);
    if (node->kind == RATION_DOCUMENT_NODE_MAPPING)
        add_kind(condition, node, term);
    if (node->kind != RATION_DOCUMENT_NODE_LIST)
        return;
    for (const struct ration_document_node *member = node->first; member; member = member->next) {
        if (member->kind == RATION_DOCUMENT_NODE_MAPPING)
            add_kind(condition, member, term);
        else
            add_pattern(condition, KIND_EXACT, member, term);
    }
}

static bool is_repeated(struct condition *condition, const struct ration_document_node *mapping,
                        const struct ration_document_node *member)
{
    for (const struct ration_document_node *before = mapping->first; before != member;
         before = before->next) {
        if (before->name->size == member->name->size &&
            memcmp(before->name->text, member->name->text, member->name->size) == 0) {
            char quote[RATION_TEXT_QUOTE_SIZE];
            RATION_SCHEMA_ERROR(condition->schema, member->name,
                                "%s is given twice, first in line %" PRIu32
                                ": write all its values in one list",
                                ration_text_quote(member->name->text, member->name->size, quote),
                                before->name->line);
            return true;
        }
    }
    return false;
}

/* Reads a mapping such as {prefix: ..., not: ...}, with one term for each member. */
static void read_kinds(struct condition *condition, const struct ration_document_node *mapping)
{
    struct ration_term *term;
    enum kind kind;

    if (mapping->count == 0)
        RATION_SCHEMA_ERROR(condition->schema, mapping,
                            "the condition is empty: write exact, prefix, glob, cidr or not");
    if (mapping->count > KIND_COUNT) {
        RATION_SCHEMA_ERROR(condition->schema, mapping, "a condition has at most %d kinds",
                            KIND_COUNT);
        return;
    }
    for (const struct ration_document_node *member = mapping->first; member;
         member = member->next) {
        if (!read_kind(condition, member, &kind) || is_repeated(condition, mapping, member))
            continue;
        if (kind == KIND_NOT)
            read_term(condition, member, true);
        else if ((term = open_term(condition, member, false)))
            add_values(condition, kind, member, term);
    }
}

void ration_condition_read(struct ration_schema *schema, const struct ration_document_node *match,
                           struct ration_policy_rule *rule)
{
    struct condition condition = {.schema = schema};
    size_t bytes;

    if (match->kind != RATION_DOCUMENT_NODE_MAPPING) {
        RATION_SCHEMA_ERROR(schema, match,
                            "a match is a mapping of attributes (path: /login), and this is %s",
                            ration_document_node_kind_text(match));
        return;
    }
    if (match->count > RATION_POLICY_CONDITIONS_MAX) {
        RATION_SCHEMA_ERROR(schema, match, "a match has at most %d conditions",
                            RATION_POLICY_CONDITIONS_MAX);
        return;
    }
    for (const struct ration_document_node *member = match->first; member; member = member->next) {
        if (is_repeated(&condition, match, member) ||
            !ration_schema_attribute(schema, member->name, &condition.name_index))
            continue;
        if (member->kind == RATION_DOCUMENT_NODE_MAPPING)
            read_kinds(&condition, member);
        else
            read_term(&condition, member, false);
    }
    bytes = condition.term_count * sizeof(condition.terms[0]);
    rule->terms = ration_arena_take(&schema->policy->arena, 1, bytes);
    if (!rule->terms)
        return;
    if (bytes)
        memcpy(rule->terms, condition.terms, bytes);
    rule->term_count = (uint16_t)condition.term_count;
}
