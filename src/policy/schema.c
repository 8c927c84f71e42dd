#include "policy/schema.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "base/units.h"

#define WORDS_TEXT_SIZE 256

/* Writes "a, b and c". */
static const char *list_words(const char *const *words, size_t count, const char *last,
                              char text[WORDS_TEXT_SIZE])
{
    size_t used = 0;

    text[0] = '\0';
    for (size_t i = 0; i < count && used < WORDS_TEXT_SIZE; i++) {
        const char *between = i == 0 ? "" : i + 1 == count ? last : ", ";
        used += (size_t)snprintf(text + used, WORDS_TEXT_SIZE - used, "%s%s", between, words[i]);
    }
    return text;
}

static void report_unknown_field(struct ration_schema *schema,
                                 const struct ration_document_node *name,
                                 const struct ration_schema_fields *fields)
{
    char quote[RATION_TEXT_QUOTE_SIZE], text[WORDS_TEXT_SIZE];
    const char *suggestion =
        ration_text_nearest(name->text, name->size, fields->names, fields->count);

    ration_text_quote(name->text, name->size, quote);
    if (suggestion)
        RATION_SCHEMA_ERROR(schema, name, "%s has no field '%s': did you mean %s?", fields->what,
                            quote, suggestion);
    else
        RATION_SCHEMA_ERROR(schema, name, "%s has no field '%s': fields are %s", fields->what,
                            quote, list_words(fields->names, fields->count, " and ", text));
}

bool ration_schema_mapping(struct ration_schema *schema, const struct ration_document_node *node,
                           const struct ration_schema_fields *fields,
                           const struct ration_document_node **out_values)
{
    memset(out_values, 0, fields->count * sizeof(out_values[0]));
    if (node->kind != RATION_DOCUMENT_NODE_MAPPING) {
        RATION_SCHEMA_ERROR(schema, node, "%s is a mapping of fields (%s: ...), and this is %s",
                            fields->what, fields->names[0], ration_document_node_kind_text(node));
        return false;
    }
    for (const struct ration_document_node *member = node->first; member; member = member->next) {
        size_t i = 0;
        while (i < fields->count && !ration_document_node_is(member->name, fields->names[i]))
            i++;
        if (i == fields->count)
            report_unknown_field(schema, member->name, fields);
        else if (out_values[i])
            RATION_SCHEMA_ERROR(schema, member->name,
                                "%s is given twice, first in line %" PRIu32 ": keep one",
                                fields->names[i], out_values[i]->name->line);
        else
            out_values[i] = member;
    }
    return true;
}

bool ration_schema_list(struct ration_schema *schema, const struct ration_document_node *node,
                        const char *what, const char *example, size_t count_max)
{
    if (node->kind != RATION_DOCUMENT_NODE_LIST) {
        RATION_SCHEMA_ERROR(schema, node, "%s is a list, and this is %s: write %s", what,
                            ration_document_node_kind_text(node), example);
        return false;
    }
    if (node->count > count_max) {
        RATION_SCHEMA_ERROR(schema, node, "%s has at most %zu members (got %zu)", what, count_max,
                            node->count);
        return false;
    }
    return true;
}

bool ration_schema_text(struct ration_schema *schema, const struct ration_document_node *node,
                        const char *what)
{
    if (node->kind == RATION_DOCUMENT_NODE_SCALAR && node->size > 0)
        return true;
    if (node->kind == RATION_DOCUMENT_NODE_SCALAR)
        RATION_SCHEMA_ERROR(schema, node, "%s is empty: write a value, or leave %s out", what,
                            what);
    else
        RATION_SCHEMA_ERROR(schema, node, "%s is one value, and this is %s", what,
                            ration_document_node_kind_text(node));
    return false;
}

bool ration_schema_word(struct ration_schema *schema, const struct ration_document_node *node,
                        const char *what)
{
    if (!ration_schema_text(schema, node, what))
        return false;
    for (size_t i = 0; i < node->size; i++) {
        if (ration_text_is_blank(node->text[i])) {
            ration_schema_error(schema, node, i,
                                "there is a blank in a value that must be one word");
            return false;
        }
    }
    return true;
}

bool ration_schema_choice(struct ration_schema *schema, const struct ration_document_node *node,
                          const char *what, const char *const *words, size_t word_count,
                          size_t *out_index)
{
    char quote[RATION_TEXT_QUOTE_SIZE], text[WORDS_TEXT_SIZE];

    if (!ration_schema_text(schema, node, what))
        return false;
    for (size_t i = 0; i < word_count; i++) {
        if (ration_document_node_is(node, words[i])) {
            *out_index = i;
            return true;
        }
    }
    const char *suggestion = ration_text_nearest(node->text, node->size, words, word_count);
    ration_text_quote(node->text, node->size, quote);
    if (suggestion)
        RATION_SCHEMA_ERROR(schema, node, "%s cannot be '%s': did you mean %s?", what, quote,
                            suggestion);
    else
        RATION_SCHEMA_ERROR(schema, node, "%s cannot be '%s': write %s", what, quote,
                            list_words(words, word_count, " or ", text));
    return false;
}

/* Removes " at byte N" from a message: the position is reported as line and column. */
static void remove_byte_offsets(char *message)
{
    static const char phrase[] = " at byte ";
    char *position;

    while ((position = strstr(message, phrase))) {
        char *end = position + strlen(phrase);
        while (*end >= '0' && *end <= '9')
            end++;
        if (position > message && position[-1] == ',' && strncmp(end, " and at byte ", 13) == 0) {
            position--;
            end += 13;
            while (*end >= '0' && *end <= '9')
                end++;
        }
        memmove(position, end, strlen(end) + 1);
    }
}

void ration_schema_error(struct ration_schema *schema, const struct ration_document_node *node,
                         size_t offset, const char *message)
{
    char text[RATION_ERROR_MESSAGE_MAX];

    snprintf(text, sizeof(text), "%s", message);
    remove_byte_offsets(text);
    ration_policy_errors_add(schema->errors, node->line, ration_document_node_column(node, offset),
                             "%s", text);
}

typedef ration_status parse_unit(const char *text, size_t text_size, uint64_t *out_value,
                                 size_t *out_used_bytes, struct ration_error *error);

static bool read_unit(struct ration_schema *schema, const struct ration_document_node *node,
                      const char *what, parse_unit *parse, uint64_t *out_value)
{
    struct ration_error error;
    uint64_t value;
    size_t used;

    if (!ration_schema_text(schema, node, what))
        return false;
    if (parse(node->text, node->size, &value, &used, &error) != RATION_OK) {
        ration_schema_error(schema, node, error.offset, error.message);
        return false;
    }
    if (used != node->size) {
        char quote[RATION_TEXT_QUOTE_SIZE];
        ration_policy_errors_add(schema->errors, node->line,
                                 ration_document_node_column(node, used),
                                 "unexpected text after the number of %s (got '%s')", what,
                                 ration_text_quote(node->text + used, node->size - used, quote));
        return false;
    }
    *out_value = value;
    return true;
}

bool ration_schema_count(struct ration_schema *schema, const struct ration_document_node *node,
                         const char *what, uint64_t count_min, uint64_t count_max,
                         uint64_t *out_count)
{
    uint64_t count;

    if (!read_unit(schema, node, what, ration_units_parse_count, &count))
        return false;
    if (count < count_min || count > count_max) {
        RATION_SCHEMA_ERROR(schema, node,
                            "%s is a number from %" PRIu64 " to %" PRIu64 " (got %" PRIu64 ")",
                            what, count_min, count_max, count);
        return false;
    }
    *out_count = count;
    return true;
}

bool ration_schema_duration(struct ration_schema *schema, const struct ration_document_node *node,
                            const char *what, uint64_t max_ns, uint64_t *out_ns)
{
    char max_text[RATION_UNITS_TEXT_SIZE];
    uint64_t ns;

    if (!read_unit(schema, node, what, ration_units_parse_duration, &ns))
        return false;
    if (ns == 0 || ns > max_ns) {
        ration_units_print_duration(max_ns, max_text, sizeof(max_text));
        RATION_SCHEMA_ERROR(schema, node, "%s is a time from 1ns to %s", what, max_text);
        return false;
    }
    *out_ns = ns;
    return true;
}
