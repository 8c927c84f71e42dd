/*
 * limit_text: parses the text of a limit. The grammar is in docs/reference/limit-text.md.
 *
 * The reader fills a spec and records the offset of each option. Only ration_limit_make() decides
 * whether the numbers are valid together. If it refuses the spec, the reader finds the option to blame by
 * leaving out one option at a time. So no rule about limits is implemented twice.
 */
#include "ration/limit.h"

#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

#include "base/text.h"
#include "base/units.h"
#include "core/algorithm.h"

#define TEXT_SIZE_MAX 1024

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

enum option {
    OPTION_BURST,
    OPTION_START,
    OPTION_REFILL,
    OPTION_ALGORITHM,
    OPTION_RESERVE,
    OPTION_RESERVE_BURST, /* has no keyword of its own */
    OPTION_NAME,
    OPTION_COUNT
};

static const struct keyword {
    const char *word;
    enum option option;
    enum ration_algorithm algorithm;
    const char *needs; /* what must follow the word; NULL if nothing follows */
} keywords[] = {{"burst", OPTION_BURST, 0, "a count: write burst 20"},
                {"start", OPTION_START, 0, "full, empty or a count: write start empty"},
                {"refill", OPTION_REFILL, 0, "continuous or interval: write refill interval"},
                {"reserve", OPTION_RESERVE, 0, "a rate: write reserve 100/h"},
                {"name", OPTION_NAME, 0, "a word: write name login"},
#define ALGORITHM_KEYWORD(word, algorithm) {word, OPTION_ALGORITHM, algorithm, NULL},
                RATION_ALGORITHM_WORDS(ALGORITHM_KEYWORD)
#undef ALGORITHM_KEYWORD
};

struct reader {
    const char *text;
    size_t size;
    size_t offset;
    struct ration_error *error;

    struct ration_limit_spec spec;
    size_t rate_offset;
    bool given[OPTION_COUNT];
    size_t offsets[OPTION_COUNT];       /* of the option's keyword, if given */
    size_t value_offsets[OPTION_COUNT]; /* of the text after the keyword */
    char name[RATION_LIMIT_NAME_MAX + 1];
};

static bool at_end(const struct reader *reader)
{
    return reader->offset == reader->size;
}

static void skip_blanks(struct reader *reader)
{
    while (!at_end(reader) && ration_text_is_blank(reader->text[reader->offset]))
        reader->offset++;
}

/* The size of the word at the current offset, up to a blank. Consumes nothing. */
static size_t word_size(const struct reader *reader)
{
    size_t end = reader->offset;
    while (end < reader->size && !ration_text_is_blank(reader->text[end]))
        end++;
    return end - reader->offset;
}

static bool word_is(const struct reader *reader, const char *word)
{
    size_t size = strlen(word);
    return word_size(reader) == size && !memcmp(reader->text + reader->offset, word, size);
}

typedef ration_status parse_unit(const char *text, size_t text_size, uint64_t *out_value,
                                 size_t *out_used_bytes, struct ration_error *error);

/*
 * Reads a count or a duration. If what (the name for error messages) is not NULL, the value must be
 * at least 1, because 0 in a spec selects the default. what is NULL where 0 is an ordinary value.
 */
static ration_status read_value(struct reader *reader, parse_unit *parse, const char *what,
                                uint64_t *out_value)
{
    uint64_t value;
    size_t used;
    size_t offset = reader->offset;
    ration_status status =
        parse(reader->text + offset, reader->size - offset, &value, &used, reader->error);
    if (status != RATION_OK) {
        if (reader->error)
            reader->error->offset += offset;
        return status;
    }
    if (value == 0 && what)
        return ration_text_fail(reader->error, offset, "%s must be at least 1%s (got 0)", what,
                                parse == ration_units_parse_duration ? "ns" : "");
    *out_value = value;
    reader->offset += used;
    return RATION_OK;
}

static const struct keyword *find_keyword(const struct reader *reader)
{
    for (size_t i = 0; i < COUNT_OF(keywords); i++) {
        if (word_is(reader, keywords[i].word))
            return &keywords[i];
    }
    return NULL;
}

/* Reports an error after a count that is followed neither by a slash nor by "per" and a period. */
static ration_status fail_after_count(struct reader *reader, size_t start, size_t end)
{
    char count[RATION_TEXT_QUOTE_SIZE];
    ration_text_quote(reader->text + start, end - start, count);
    if (at_end(reader) || find_keyword(reader))
        return ration_text_fail(reader->error, start, "'%s' has no period: write %s/s or %s per 5s",
                                count, count, count);
    ration_units_explain_rate(reader->text + start, reader->size - start, end - start,
                              reader->offset - start, reader->error);
    if (reader->error)
        reader->error->offset += start;
    return RATION_EINVAL;
}

/* Reads COUNT "/" PERIOD or COUNT "per" PERIOD. */
static ration_status read_rate(struct reader *reader, const char *tokens_what,
                               const char *period_what, uint64_t *out_tokens,
                               uint64_t *out_period_ns)
{
    size_t start = reader->offset;
    uint64_t tokens = 0;
    if (read_value(reader, ration_units_parse_rate_count, tokens_what, &tokens) != RATION_OK)
        return RATION_EINVAL;
    size_t end = reader->offset;
    skip_blanks(reader);
    bool slash = !at_end(reader) && reader->text[reader->offset] == '/';
    bool per = !slash && word_is(reader, "per");
    if (slash || per) {
        reader->offset += slash ? 1 : strlen("per");
        skip_blanks(reader);
    }
    if ((!slash && !per) || at_end(reader))
        return fail_after_count(reader, start, end);
    if (read_value(reader, ration_units_parse_duration, period_what, out_period_ns) != RATION_OK)
        return RATION_EINVAL;
    *out_tokens = tokens;
    return RATION_OK;
}

static ration_status fail_unknown_word(struct reader *reader)
{
    const char *known[COUNT_OF(keywords)];
    for (size_t i = 0; i < COUNT_OF(keywords); i++)
        known[i] = keywords[i].word;
    /* "burst=20" and "burst:20" are typical mistakes for burst too. */
    const char *word = reader->text + reader->offset;
    size_t size = word_size(reader), begin = 0;
    while (begin < size && word[begin] != '=' && word[begin] != ':')
        begin++;
    return ration_text_fail_unknown(
        reader->error, reader->offset, "word", word, size,
        ration_text_nearest(word, begin, known, COUNT_OF(known)),
        "options are burst, start, refill, reserve, name and the algorithms");
}

/* Reads one of two words. *out_second is whether it was the second. */
static ration_status read_choice(struct reader *reader, const char *what,
                                 const char *const is_keyword_conflict[2], const char *fix,
                                 bool *out_second)
{
    const char *word = reader->text + reader->offset;
    size_t size = word_size(reader);
    bool second = word_is(reader, is_keyword_conflict[1]);
    if (!second && !word_is(reader, is_keyword_conflict[0]))
        return ration_text_fail_unknown(reader->error, reader->offset, what, word, size,
                                        ration_text_nearest(word, size, is_keyword_conflict, 2),
                                        fix);
    *out_second = second;
    reader->offset += size;
    return RATION_OK;
}

static ration_status read_start(struct reader *reader)
{
    static const char begins_number[] = "0123456789+-.";
    ration_status status;
    bool empty;
    if (memchr(begins_number, reader->text[reader->offset], strlen(begins_number))) {
        reader->spec.start = RATION_START_TOKENS;
        return read_value(reader, ration_units_parse_count, NULL, &reader->spec.start_tokens);
    }
    status = read_choice(reader, "start", (const char *[]){"full", "empty"},
                         "write full, empty or a count", &empty);
    if (status == RATION_OK)
        reader->spec.start = empty ? RATION_START_EMPTY : RATION_START_FULL;
    return status;
}

static ration_status read_refill(struct reader *reader)
{
    bool interval;
    ration_status status = read_choice(reader, "refill", (const char *[]){"continuous", "interval"},
                                       "write continuous or interval", &interval);
    if (status == RATION_OK)
        reader->spec.refill = interval ? RATION_REFILL_INTERVAL : RATION_REFILL_CONTINUOUS;
    return status;
}

/* Calls ration_limit_make() with a name of this byte alone. */
static bool may_be_in_name(char byte)
{
    struct ration_limit unused;
    struct ration_limit_spec spec = {
        .tokens = 1, .period_ns = 1, .name = (const char[]){byte, '\0'}};
    return ration_limit_make(&spec, &unused, NULL) == RATION_OK;
}

static ration_status read_name(struct reader *reader)
{
    size_t size = word_size(reader);
    if (size > RATION_LIMIT_NAME_MAX)
        return ration_text_fail(reader->error, reader->offset,
                                "name has %zu bytes: at most %d are allowed", size,
                                RATION_LIMIT_NAME_MAX);
    for (size_t end = reader->offset + size, at = reader->offset; at < end; at++) {
        char quote[RATION_TEXT_QUOTE_SIZE];
        if (!may_be_in_name(reader->text[at]))
            return ration_text_fail(
                reader->error, at,
                "'%s' at byte %zu cannot be in a name: write letters, digits and _ - . : /",
                ration_text_quote(reader->text + at, 1, quote), at);
    }
    memcpy(reader->name, reader->text + reader->offset, size);
    reader->name[size] = '\0';
    reader->spec.name = reader->name;
    reader->offset += size;
    return RATION_OK;
}

static ration_status read_reserve(struct reader *reader)
{
    struct ration_limit_spec *spec = &reader->spec;
    if (read_rate(reader, "reserve tokens", "reserve period", &spec->reserve_tokens,
                  &spec->reserve_period_ns) != RATION_OK)
        return RATION_EINVAL;
    size_t rate_end = reader->offset;
    skip_blanks(reader);
    if (reader->offset == rate_end || !word_is(reader, "burst"))
        return RATION_OK;
    size_t offset = reader->offset;
    reader->given[OPTION_RESERVE_BURST] = true;
    reader->offsets[OPTION_RESERVE_BURST] = offset;
    reader->offset += strlen("burst");
    skip_blanks(reader);
    if (at_end(reader))
        return ration_text_fail(reader->error, offset, "burst of the reserve needs %s",
                                keywords[0].needs);
    reader->value_offsets[OPTION_RESERVE_BURST] = reader->offset;
    return read_value(reader, ration_units_parse_count, "reserve burst", &spec->reserve_burst);
}

/* Records that an option is given here. Refuses an option that conflicts with an earlier one. */
static ration_status record_option(struct reader *reader, const struct keyword *keyword)
{
    enum option option = keyword->option;
    if (reader->given[option]) {
        const char *what = option == OPTION_ALGORITHM ? "an algorithm" : keyword->word;
        return ration_text_fail(reader->error, reader->offset,
                                "%s is given twice, at byte %zu and at byte %zu: keep one", what,
                                reader->offsets[option], reader->offset);
    }
    reader->given[option] = true;
    reader->offsets[option] = reader->value_offsets[option] = reader->offset;
    if (option == OPTION_ALGORITHM)
        reader->spec.algorithm = keyword->algorithm;
    if (reader->given[OPTION_RESERVE] && reader->given[OPTION_ALGORITHM] &&
        reader->spec.algorithm != RATION_TOKEN_BUCKET)
        return ration_text_fail(
            reader->error, reader->offset,
            "a reserve goes with token_bucket only (reserve at byte %zu, algorithm at "
            "byte %zu)",
            reader->offsets[OPTION_RESERVE], reader->offsets[OPTION_ALGORITHM]);
    return RATION_OK;
}

static ration_status read_option(struct reader *reader)
{
    const struct keyword *keyword = find_keyword(reader);
    if (!keyword)
        return fail_unknown_word(reader);
    if (record_option(reader, keyword) != RATION_OK)
        return RATION_EINVAL;
    size_t offset = reader->offset;
    reader->offset += strlen(keyword->word);
    if (!keyword->needs)
        return RATION_OK;
    skip_blanks(reader);
    if (at_end(reader))
        return ration_text_fail(reader->error, offset, "%s needs %s", keyword->word,
                                keyword->needs);
    reader->value_offsets[keyword->option] = reader->offset;
    switch (keyword->option) {
    case OPTION_BURST:
        return read_value(reader, ration_units_parse_count, "burst", &reader->spec.burst);
    case OPTION_START:
        return read_start(reader);
    case OPTION_REFILL:
        return read_refill(reader);
    case OPTION_RESERVE:
        return read_reserve(reader);
    default:
        return read_name(reader);
    }
}

/* Fills the reader's spec from the whole text. */
static ration_status read_limit(struct reader *reader)
{
    if (reader->size > TEXT_SIZE_MAX)
        return ration_text_fail(reader->error, TEXT_SIZE_MAX,
                                "the text of a limit has at most %d bytes", TEXT_SIZE_MAX);
    const char *zero = reader->size ? memchr(reader->text, '\0', reader->size) : NULL;
    if (zero)
        return ration_text_fail(reader->error, (size_t)(zero - reader->text),
                                "the text contains a zero byte");
    skip_blanks(reader);
    reader->rate_offset = reader->offset;
    if (at_end(reader))
        return ration_text_fail(reader->error, reader->offset,
                                "a limit is missing: write for example 10/s");
    if (read_rate(reader, "tokens", "period", &reader->spec.tokens, &reader->spec.period_ns) !=
        RATION_OK)
        return RATION_EINVAL;
    for (skip_blanks(reader); !at_end(reader); skip_blanks(reader)) {
        if (read_option(reader) != RATION_OK)
            return RATION_EINVAL;
    }
    /* Set only now, because "token_bucket" may come before or after "reserve". */
    if (reader->given[OPTION_RESERVE])
        reader->spec.algorithm = RATION_BURST_RESERVE;
    return RATION_OK;
}

static struct ration_limit_spec spec_without(const struct ration_limit_spec *spec,
                                             enum option option)
{
    struct ration_limit_spec reduced = *spec;
    if (option == OPTION_BURST)
        reduced.burst = 0;
    if (option == OPTION_START)
        reduced.start = RATION_START_FULL, reduced.start_tokens = 0;
    if (option == OPTION_REFILL)
        reduced.refill = RATION_REFILL_CONTINUOUS;
    if (option == OPTION_ALGORITHM && spec->algorithm != RATION_BURST_RESERVE)
        reduced.algorithm = RATION_ALGORITHM_DEFAULT;
    if (option == OPTION_RESERVE) {
        reduced.algorithm = RATION_ALGORITHM_DEFAULT;
        reduced.reserve_tokens = reduced.reserve_period_ns = 0;
    }
    if (option == OPTION_RESERVE || option == OPTION_RESERVE_BURST)
        reduced.reserve_burst = 0;
    return reduced;
}

/*
 * Whether two errors of ration_limit_make() have different causes. Messages with RATION_ERANGE
 * repeat the whole limit and differ with every option, so they are not compared.
 */
static bool errors_differ(const struct ration_error *a, const struct ration_error *b)
{
    return a->status != b->status ||
           (a->status == RATION_EINVAL && strcmp(a->message, b->message) != 0);
}

/* The effect of leaving out one option of a refused spec. */
enum effect { EFFECT_NONE, EFFECT_CHANGES /* another error is reported */, EFFECT_FIXES };

static enum effect effect_without(const struct reader *reader, enum option option,
                                  const struct ration_error *refusal)
{
    struct ration_limit unused;
    struct ration_error error;
    struct ration_limit_spec reduced = spec_without(&reader->spec, option);
    if (!reader->given[option])
        return EFFECT_NONE;
    if (ration_limit_make(&reduced, &unused, &error) == RATION_OK)
        return EFFECT_FIXES;
    return errors_differ(&error, refusal) ? EFFECT_CHANGES : EFFECT_NONE;
}

/*
 * Returns the offset to report for a refused spec: the last option without which the limit would be
 * valid. With two errors, no single option is enough; then it is the last option without which
 * another error would be reported. Otherwise it is the rate.
 *
 * The offset is that of the option's value, unless leaving out the algorithm or the refill would
 * help as well: then two keywords conflict, whatever their values, and it is that of the keyword.
 */
static size_t find_error_offset(const struct reader *reader, const struct ration_error *refusal)
{
    enum effect effects[OPTION_COUNT], strongest = EFFECT_CHANGES;
    size_t offset = reader->rate_offset;
    enum option culprit = OPTION_COUNT;
    for (int option = 0; option < OPTION_COUNT; option++) {
        effects[option] = effect_without(reader, (enum option)option, refusal);
        if (effects[option] > strongest ||
            (effects[option] == strongest && reader->offsets[option] > offset)) {
            strongest = effects[option];
            culprit = (enum option)option;
            offset = reader->offsets[option];
        }
    }
    if (culprit == OPTION_COUNT)
        return offset;
    bool is_keyword_conflict =
        refusal->status == RATION_EINVAL &&
        (effects[OPTION_ALGORITHM] == strongest || effects[OPTION_REFILL] == strongest);
    return is_keyword_conflict ? offset : reader->value_offsets[culprit];
}

ration_status ration_limit_parse_bytes(const char *text, size_t text_size,
                                       struct ration_limit *out_limit, struct ration_error *error)
{
    struct reader reader = {.text = text, .size = text ? text_size : 0, .error = error};
    ration_status status = read_limit(&reader);
    if (status != RATION_OK)
        return status;
    struct ration_error refusal;
    status = ration_limit_make(&reader.spec, out_limit, &refusal);
    if (status != RATION_OK && error) {
        *error = refusal;
        error->offset = find_error_offset(&reader, &refusal);
    }
    return status;
}

ration_status ration_limit_parse(const char *text, struct ration_limit *out_limit,
                                 struct ration_error *error)
{
    size_t size = text ? strnlen(text, TEXT_SIZE_MAX + 1) : 0;
    return ration_limit_parse_bytes(text, size, out_limit, error);
}
