/*
 * limit_fields: builds a limit from the fields of an entry.
 *
 * The fields are joined to the text of a limit,
 *
 *     rate: 10/s    burst: 20    name: login      "10/s name login burst 20"
 *
 * which ration_limit_parse_bytes() parses. So no rule about limits is implemented twice, and a
 * field that repeats a word of the rate's text is detected like any repeated word. The byte offset
 * of an error determines the field, and the position in it.
 *
 * The name follows the rate, so that burst is never read as the burst of a reserve in the rate; the
 * reserve comes last, for the same reason.
 */
#include <string.h>

#include "core/algorithm.h"
#include "policy/schema.h"

#define PART_SIZE_MAX 256 /* of a field; the longest useful value is a name of 63 bytes */
#define PARTS_MAX     7

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

struct part {
    const struct ration_document_node *node;
    size_t begin; /* offset of the field's text in the joined text */
    size_t end;
};

struct composed {
    struct ration_schema *schema;
    char text[PARTS_MAX * (PART_SIZE_MAX + 16)];
    size_t size;
    struct part parts[PARTS_MAX];
    size_t part_count;
    bool has_error;
};

static void append_text(struct composed *composed, const char *text, size_t size)
{
    memcpy(composed->text + composed->size, text, size);
    composed->size += size;
}

/* Adds a field after its keyword, if it is present and valid by itself. */
static void add_part(struct composed *composed, const struct ration_document_node *node,
                     const char *what, const char *word, bool is_one_word)
{
    struct part part = {.node = node};

    if (!node)
        return;
    if (!(is_one_word ? ration_schema_word : ration_schema_text)(composed->schema, node, what)) {
        composed->has_error = true;
        return;
    }
    if (node->size > PART_SIZE_MAX) {
        RATION_SCHEMA_ERROR(composed->schema, node, "%s has at most %d bytes", what, PART_SIZE_MAX);
        composed->has_error = true;
        return;
    }
    append_text(composed, word, strlen(word));
    part.begin = composed->size;
    append_text(composed, node->text, node->size);
    part.end = composed->size;
    composed->parts[composed->part_count++] = part;
}

/*
 * Checks the algorithm. It has no keyword in the text of a limit, so any other word would be
 * accepted here.
 */
static void check_algorithm(struct composed *composed, const struct ration_document_node *node)
{
    static const char *const words[] = {
#define ALGORITHM_WORD(word, algorithm) word,
        RATION_ALGORITHM_WORDS(ALGORITHM_WORD)
#undef ALGORITHM_WORD
    };
    size_t unused;

    if (node &&
        !ration_schema_choice(composed->schema, node, "algorithm", words, COUNT_OF(words), &unused))
        composed->has_error = true;
}

/* Records an error of ration_limit_parse_bytes() at the field that contains its offset. */
static void report_parse_error(struct composed *composed, const struct ration_error *error)
{
    const struct part *part = &composed->parts[0];
    size_t offset = error->offset;

    for (size_t i = 1; i < composed->part_count; i++) {
        if (offset >= composed->parts[i - 1].end)
            part = &composed->parts[i];
    }
    offset = offset < part->begin ? 0 : offset - part->begin;
    ration_schema_error(composed->schema, part->node, offset, error->message);
}

bool ration_limit_fields_make(struct ration_schema *schema,
                              const struct ration_document_node *entry,
                              const struct ration_limit_fields *fields,
                              struct ration_limit *out_limit)
{
    struct composed composed = {.schema = schema};
    struct ration_error error;

    if (!fields->rate) {
        RATION_SCHEMA_ERROR(schema, entry, "the limit has no rate: write for example rate: 10/s");
        composed.has_error = true;
    }
    check_algorithm(&composed, fields->algorithm);
    add_part(&composed, fields->rate, "rate", "", false);
    add_part(&composed, fields->name, "name", " name ", true);
    if (!composed.has_error)
        add_part(&composed, fields->algorithm, "algorithm", " ", true);
    add_part(&composed, fields->refill, "refill", " refill ", true);
    add_part(&composed, fields->start, "start", " start ", true);
    add_part(&composed, fields->burst, "burst", " burst ", true);
    add_part(&composed, fields->reserve, "reserve", " reserve ", false);
    if (composed
            .has_error) { /* The remaining fields may not fit together; only the rate is still checked. */
        composed.size =
            fields->rate && composed.part_count && composed.parts[0].node == fields->rate
                ? composed.parts[0].end
                : 0;
        composed.part_count = 1;
    }
    if (composed.size &&
        ration_limit_parse_bytes(composed.text, composed.size, out_limit, &error) != RATION_OK) {
        report_parse_error(&composed, &error);
        return false;
    }
    return !composed.has_error;
}
