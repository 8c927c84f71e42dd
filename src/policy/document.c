#include "policy/document.h"

#include <stdalign.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "base/text.h"

static bool is_continuation(unsigned char byte)
{
    return (byte & 0xC0) == 0x80;
}

/*
 * Returns the size of the character at text, of which size bytes remain; 0 if it is not valid
 * UTF-8. The limits of the second byte exclude overlong forms, surrogates and code points above
 * U+10FFFF.
 */
static size_t character_size(const unsigned char *text, size_t size)
{
    unsigned char first = text[0];
    unsigned char second_min = 0x80, second_max = 0xBF;
    size_t expected_size;

    if (first < 0x80)
        return 1;
    if (first < 0xC2 || first > 0xF4)
        return 0;
    expected_size = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
    if (first == 0xE0)
        second_min = 0xA0;
    if (first == 0xED)
        second_max = 0x9F;
    if (first == 0xF0)
        second_min = 0x90;
    if (first == 0xF4)
        second_max = 0x8F;
    if (size < expected_size || text[1] < second_min || text[1] > second_max)
        return 0;
    for (size_t i = 2; i < expected_size; i++) {
        if (!is_continuation(text[i]))
            return 0;
    }
    return expected_size;
}

static size_t count_characters(const char *text, size_t text_size)
{
    size_t count = 0;

    for (size_t i = 0; i < text_size; i++)
        count += !is_continuation((unsigned char)text[i]);
    return count;
}

/* Computes the line and column, both from 1, of the byte at offset. */
static void find_position(const char *text, size_t text_size, size_t offset, uint32_t *out_line,
                          uint32_t *out_column)
{
    size_t begin = 0;

    if (offset > text_size)
        offset = text_size;
    *out_line = 1;
    for (size_t i = 0; i < offset; i++) {
        if (text[i] == '\n') {
            ++*out_line;
            begin = i + 1;
        }
    }
    *out_column = (uint32_t)count_characters(text + begin, offset - begin) + 1;
}

/* Whether all of text is UTF-8. Records the first invalid position as an error. */
static bool check_utf8(const char *text, size_t text_size, struct ration_policy_errors *errors)
{
    for (size_t at = 0; at < text_size;) {
        size_t size = character_size((const unsigned char *)text + at, text_size - at);
        uint32_t line, column;
        if (size == 0) {
            find_position(text, text_size, at, &line, &column);
            ration_policy_errors_add(errors, line, column,
                                     "the byte 0x%02X is not UTF-8: save the file as UTF-8",
                                     (unsigned)(unsigned char)text[at]);
            return false;
        }
        at += size;
    }
    return true;
}

/* Each node yields at most two events: a list or mapping has an end event too. */
#define EVENTS_MAX (2 * RATION_POLICY_NODES_MAX)

/* A list or mapping that is being read. */
struct level {
    struct ration_document_node *node;
    struct ration_document_node *name; /* of a mapping: the name whose value comes next */
    struct ration_document_node *last;
};

struct builder {
    yaml_parser_t parser;
    const char *text;
    size_t text_size;
    struct ration_arena *arena;
    struct ration_policy_errors *errors;
    struct level levels[RATION_POLICY_DEPTH_MAX];
    size_t depth;
    struct ration_document_node *root;
};

static ration_status report_error(struct builder *builder, yaml_mark_t mark, const char *message)
{
    ration_policy_errors_add(builder->errors, (uint32_t)mark.line + 1, (uint32_t)mark.column + 1,
                             "%s", message);
    return RATION_EINVAL;
}

/* Whether the line is indented with a tab; libyaml's own message for this is less helpful. */
static bool begins_with_tab(const struct builder *builder, size_t line)
{
    const char *cursor = builder->text, *end = cursor + builder->text_size;

    while (line-- > 0 && cursor < end) {
        const char *newline = memchr(cursor, '\n', (size_t)(end - cursor));
        cursor = newline ? newline + 1 : end;
    }
    while (cursor < end && *cursor == ' ')
        cursor++;
    return cursor < end && *cursor == '\t';
}

static ration_status report_syntax_error(struct builder *builder)
{
    const yaml_parser_t *parser = &builder->parser;
    const char *problem = parser->problem ? parser->problem : "it cannot be read";
    yaml_mark_t mark = parser->problem_mark;
    uint32_t line, column;

    if (parser->error == YAML_MEMORY_ERROR)
        return RATION_ENOMEM;
    if (parser->error == YAML_READER_ERROR) {
        find_position(builder->text, builder->text_size, parser->problem_offset, &line, &column);
        ration_policy_errors_add(builder->errors, line, column, "not YAML: %s", problem);
        return RATION_EINVAL;
    }
    if (begins_with_tab(builder, mark.line))
        return report_error(builder, mark,
                            "not YAML: the line begins with a tab; indent with spaces");
    if (parser->context && parser->context_mark.line != mark.line)
        ration_policy_errors_add(builder->errors, (uint32_t)mark.line + 1,
                                 (uint32_t)mark.column + 1,
                                 "not YAML: %s (%s that begins in line %zu)", problem,
                                 parser->context, parser->context_mark.line + 1);
    else
        ration_policy_errors_add(
            builder->errors, (uint32_t)mark.line + 1, (uint32_t)mark.column + 1, "not YAML: %s%s%s",
            problem, parser->context ? ", " : "", parser->context ? parser->context : "");
    return RATION_EINVAL;
}

static struct ration_document_node *new_node(struct builder *builder, const yaml_event_t *event,
                                             enum ration_document_node_kind kind)
{
    struct ration_document_node *node = ration_arena_take(builder->arena, 1, sizeof(*node));

    if (!node)
        return NULL;
    node->kind = kind;
    node->line = (uint32_t)event->start_mark.line + 1;
    node->column = (uint32_t)event->start_mark.column + 1;
    return node;
}

/* The column of a scalar's first character, or 0 if it has escapes or several lines. */
static uint32_t text_column(const yaml_event_t *event, size_t character_count)
{
    size_t width = event->end_mark.column - event->start_mark.column;
    bool is_plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;

    if (event->start_mark.line != event->end_mark.line)
        return 0;
    if (width != character_count + (is_plain ? 0 : 2))
        return 0;
    return (uint32_t)event->start_mark.column + (is_plain ? 1 : 2);
}

static struct ration_document_node *new_scalar(struct builder *builder, const yaml_event_t *event)
{
    const char *value = (const char *)event->data.scalar.value;
    size_t size = event->data.scalar.length;
    struct ration_document_node *node = new_node(builder, event, RATION_DOCUMENT_NODE_SCALAR);

    if (!node || !(node->text = ration_arena_copy(builder->arena, value, size)))
        return NULL;
    node->size = size;
    node->is_quoted = event->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
    node->text_column = text_column(event, count_characters(value, size));
    return node;
}

/*
 * Adds a node to the tree: as the root, as a member of the innermost list or mapping, or as the
 * name of the next member.
 */
static ration_status add_node(struct builder *builder, struct ration_document_node *node)
{
    if (builder->depth == 0) {
        builder->root = node;
        return RATION_OK;
    }
    struct level *level = &builder->levels[builder->depth - 1];
    if (level->node->kind == RATION_DOCUMENT_NODE_MAPPING && !level->name) {
        if (node->kind != RATION_DOCUMENT_NODE_SCALAR) {
            ration_policy_errors_add(builder->errors, node->line, node->column,
                                     "%s cannot be a name: write NAME: VALUE",
                                     ration_document_node_kind_text(node));
            return RATION_EINVAL;
        }
        if (!node->is_quoted && ration_document_node_is(node, "<<")) {
            ration_policy_errors_add(builder->errors, node->line, node->column,
                                     "merge keys (<<) are not supported: write the fields out");
            return RATION_EINVAL;
        }
        level->name = node;
        return RATION_OK;
    }
    node->name = level->name;
    level->name = NULL;
    if (level->last)
        level->last->next = node;
    else
        level->node->first = node;
    level->last = node;
    level->node->count++;
    return RATION_OK;
}

static ration_status open_level(struct builder *builder, const yaml_event_t *event,
                                enum ration_document_node_kind kind)
{
    struct ration_document_node *node = new_node(builder, event, kind);
    ration_status status;

    if (!node)
        return RATION_ENOMEM;
    if (builder->depth == RATION_POLICY_DEPTH_MAX) {
        ration_policy_errors_add(builder->errors, node->line, node->column,
                                 "lists and mappings are nested deeper than %d",
                                 RATION_POLICY_DEPTH_MAX);
        return RATION_EINVAL;
    }
    status = add_node(builder, node);
    if (status == RATION_OK)
        builder->levels[builder->depth++] = (struct level){node, NULL, NULL};
    return status;
}

static const yaml_char_t *event_tag(const yaml_event_t *event)
{
    switch (event->type) {
    case YAML_SCALAR_EVENT:
        return event->data.scalar.tag;
    case YAML_SEQUENCE_START_EVENT:
        return event->data.sequence_start.tag;
    case YAML_MAPPING_START_EVENT:
        return event->data.mapping_start.tag;
    default:
        return NULL;
    }
}

static ration_status handle_event(struct builder *builder, const yaml_event_t *event)
{
    struct ration_document_node *node;

    if (event_tag(event))
        return report_error(builder, event->start_mark,
                            "tags (such as !!str) are not supported: leave it out");
    switch (event->type) {
    case YAML_DOCUMENT_START_EVENT:
        return builder->root
                   ? report_error(builder, event->start_mark,
                                  "a policy must be one document: move everything to the first")
                   : RATION_OK;
    case YAML_ALIAS_EVENT:
        return report_error(builder, event->start_mark,
                            "aliases (such as *name) are not supported: write the value again");
    case YAML_SCALAR_EVENT:
        node = new_scalar(builder, event);
        return node ? add_node(builder, node) : RATION_ENOMEM;
    case YAML_SEQUENCE_START_EVENT:
        return open_level(builder, event, RATION_DOCUMENT_NODE_LIST);
    case YAML_MAPPING_START_EVENT:
        return open_level(builder, event, RATION_DOCUMENT_NODE_MAPPING);
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        builder->depth--;
        return RATION_OK;
    default:
        return RATION_OK;
    }
}

/*
 * Wiping ----------------------------------------------------------------------------------------
 *
 * A policy may contain passwords. The copies that libyaml makes are wiped before libyaml frees
 * them: its buffers, and the text of each value. While libyaml reads a value, it doubles the block
 * that holds it, and realloc() may leave the smaller blocks behind unwiped. Right after each value
 * of the section server:, these blocks are found again, because malloc() returns them next.
 */

#define VALUE_BYTES_MIN 16 /* size of libyaml's first block for a value */
#define BLOCKS_MAX      16 /* of one size: glibc first returns the blocks that were freed last */

/* Whether the innermost list or mapping is the section server: or inside it. */
static bool is_setting(const struct builder *builder)
{
    const struct ration_document_node *name =
        builder->depth > 1 ? builder->levels[1].node->name : NULL;

    return name && ration_document_node_is(name, "server");
}

static void wipe_event(const yaml_event_t *event)
{
    if (event->type == YAML_SCALAR_EVENT)
        explicit_bzero(event->data.scalar.value, event->data.scalar.length);
}

static void wipe_parser(yaml_parser_t *parser)
{
    explicit_bzero(parser->raw_buffer.start,
                   (size_t)(parser->raw_buffer.end - parser->raw_buffer.start));
    explicit_bzero(parser->buffer.start, (size_t)(parser->buffer.end - parser->buffer.start));
    for (yaml_token_t *token = parser->tokens.head; token != parser->tokens.tail; token++) {
        if (token->type == YAML_SCALAR_TOKEN)
            explicit_bzero(token->data.scalar.value, token->data.scalar.length);
    }
}

static bool wipe_blocks(size_t size)
{
    char *blocks[BLOCKS_MAX];
    bool is_done = true;

    for (size_t i = 0; i < BLOCKS_MAX; i++) {
        blocks[i] = malloc(size);
        is_done &= blocks[i] != NULL;
        if (blocks[i])
            explicit_bzero(blocks[i], size);
    }
    for (size_t i = 0; i < BLOCKS_MAX; i++)
        free(blocks[i]);
    return is_done;
}

/*
 * Wipes the smaller blocks that a value of value_bytes has outgrown. Returns false if memory ran
 * out before they were found. A block may be one allocator step larger than requested, and glibc
 * then files it under that size.
 */
static bool wipe_released(size_t value_bytes)
{
    bool is_done = true;

    for (size_t size = VALUE_BYTES_MIN; size <= value_bytes; size *= 2)
        is_done = wipe_blocks(size) && wipe_blocks(size + alignof(max_align_t)) && is_done;
    return is_done;
}

static ration_status handle_events(struct builder *builder)
{
    for (size_t count = 0; count < EVENTS_MAX; count++) {
        yaml_event_t event;
        if (!yaml_parser_parse(&builder->parser, &event))
            return report_syntax_error(builder);
        ration_status status = handle_event(builder, &event);
        bool is_end = event.type == YAML_STREAM_END_EVENT;
        wipe_event(&event);
        if (is_setting(builder) && event.type == YAML_SCALAR_EVENT &&
            !wipe_released(event.data.scalar.length))
            status = RATION_ENOMEM;
        yaml_event_delete(&event);
        if (status != RATION_OK || is_end)
            return status;
    }
    return report_error(builder, builder->parser.mark,
                        "the policy has too many values; the maximum is reached here");
}

ration_status ration_document_read(const char *text, size_t text_size, struct ration_arena *arena,
                                   struct ration_policy_errors *errors,
                                   const struct ration_document_node **out_root)
{
    struct builder builder = {
        .text = text, .text_size = text_size, .arena = arena, .errors = errors};
    ration_status status;

    if (!check_utf8(text, text_size, errors))
        return RATION_EINVAL;
    if (!yaml_parser_initialize(&builder.parser))
        return RATION_ENOMEM;
    yaml_parser_set_encoding(&builder.parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&builder.parser, (const unsigned char *)text, text_size);
    status = handle_events(&builder);
    wipe_parser(&builder.parser);
    yaml_parser_delete(&builder.parser);
    if (status != RATION_OK)
        return status;
    if (!builder.root) {
        ration_policy_errors_add(errors, 1, 1, "the policy is empty: it begins with limits:");
        return RATION_EINVAL;
    }
    *out_root = builder.root;
    return RATION_OK;
}

bool ration_document_node_is(const struct ration_document_node *node, const char *word)
{
    return node->kind == RATION_DOCUMENT_NODE_SCALAR && node->size == strlen(word) &&
           memcmp(node->text, word, node->size) == 0;
}

bool ration_document_node_is_null(const struct ration_document_node *node)
{
    return !node->is_quoted &&
           (ration_document_node_is(node, "null") || ration_document_node_is(node, "Null") ||
            ration_document_node_is(node, "NULL") || ration_document_node_is(node, "~"));
}

uint32_t ration_document_node_column(const struct ration_document_node *node, size_t offset)
{
    if (node->text_column == 0)
        return node->column;
    if (offset > node->size)
        offset = node->size;
    return node->text_column + (uint32_t)count_characters(node->text, offset);
}

const char *ration_document_node_kind_text(const struct ration_document_node *node)
{
    if (node->kind == RATION_DOCUMENT_NODE_LIST)
        return "a list";
    if (node->kind == RATION_DOCUMENT_NODE_MAPPING)
        return "a mapping";
    return ration_document_node_is_blank(node) ? "nothing" : "text";
}
