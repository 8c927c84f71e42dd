/*
 * units: see units.h. Parsing has three separate steps: cut the word, check its form, compute its
 * value. Messages are written where the form is found wrong.
 */
#include "base/units.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/text.h"

#define NS_PER_SECOND UINT64_C(1000000000)
#define NS_PER_DAY    (86400 * NS_PER_SECOND)

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/*
 * Largest first: printing uses the first that divides. Spellings are separated by spaces; rejected
 * ones are common enough elsewhere that the error names the accepted unit.
 */
static const struct unit {
    const char *name;
    uint64_t ns;
    const char *accepted;
    const char *rejected;
} units[] = {
    {"y", 365 * NS_PER_DAY, "y year years", "yr yrs"},
    {"w", 7 * NS_PER_DAY, "w week weeks", "wk wks"},
    {"d", NS_PER_DAY, "d day days", ""},
    {"h", 3600 * NS_PER_SECOND, "h hr hour hours", "hrs"},
    {"min", 60 * NS_PER_SECOND, "m min minute minutes", "mins"},
    {"s", NS_PER_SECOND, "s sec second seconds", "secs"},
    {"ms", 1000000, "ms", "msec msecs millis millisecond milliseconds"},
    {"us", 1000, "us \xC2\xB5s \xCE\xBCs", "usec usecs micros microsecond microseconds"},
    {"ns", 1, "ns", "nsec nsecs nanos nanosecond nanoseconds"},
};

static const char *const long_names[] = {"second", "seconds", "minute", "minutes", "hour", "hours",
                                         "day",    "days",    "week",   "weeks",   "year", "years"};

static const char month_spellings[] = "mo mon mth month months";

static bool is_digit(char byte)
{
    return byte >= '0' && byte <= '9';
}

static bool is_letter(char byte)
{
    return ration_text_lower(byte) >= 'a' && ration_text_lower(byte) <= 'z';
}

static size_t word_size_of(const char *text, size_t text_size)
{
    size_t size = 0;
    while (size < text_size && !ration_text_is_blank(text[size]) && text[size] != '/')
        size++;
    return size;
}

/* Digits and the _ that groups them. */
static size_t digits_size_of(const char *text, size_t text_size)
{
    size_t size = 0;
    while (size < text_size && (is_digit(text[size]) || text[size] == '_'))
        size++;
    return size;
}

/* Every _ is between two digits, and there is at least one digit. */
static bool is_grouping_valid(const char *digits, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if (digits[i] == '_' && (i == 0 || i + 1 == size || digits[i + 1] == '_'))
            return false;
    }
    return size > 0;
}

/* False if the value does not fit. */
static bool value_of(const char *digits, size_t size, uint64_t *out_value)
{
    uint64_t value = 0;
    for (size_t i = 0; i < size; i++) {
        if (digits[i] == '_')
            continue;
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(digits[i] - '0'), &value))
            return false;
    }
    *out_value = value;
    return true;
}

static const struct unit *find_unit(const char *word, size_t size)
{
    for (size_t i = 0; i < COUNT_OF(units); i++) {
        if (ration_text_is_listed(word, size, units[i].accepted, false))
            return &units[i];
    }
    return NULL;
}

/* Returns the unit that was probably meant by a word that is no unit; NULL if there is no guess. */
static const struct unit *guess_unit(const char *word, size_t size)
{
    for (size_t i = 0; i < COUNT_OF(units); i++) {
        if (ration_text_is_listed(word, size, units[i].accepted, true) ||
            ration_text_is_listed(word, size, units[i].rejected, true))
            return &units[i];
    }
    const char *nearest = ration_text_nearest(word, size, long_names, COUNT_OF(long_names));
    return nearest ? find_unit(nearest, strlen(nearest)) : NULL;
}

/* The value of a suffix after a count: 1 for none, 0 for an unknown one. */
static uint64_t suffix_value(const char *suffix, size_t size)
{
    if (size == 0)
        return 1;
    if (size > 1)
        return 0;
    return *suffix == 'k' ? 1000 : *suffix == 'M' ? 1000000 : *suffix == 'G' ? NS_PER_SECOND : 0;
}

/* The unit of "10rps", "10qpm" and the like, or of "10s"; NULL if the suffix is none of these. */
static const struct unit *unit_of_suffix(const char *suffix, size_t size)
{
    if (size == 3 && ration_text_is_listed(suffix, 1, "r q t", true) &&
        ration_text_lower(suffix[1]) == 'p')
        return guess_unit(suffix + 2, 1);
    return find_unit(suffix, size);
}

/* "per", "per5" or "pers", in any case. */
static bool is_per(const char *suffix, size_t size)
{
    return size >= 3 && ration_text_is_listed(suffix, 3, "per", true) &&
           (size == 3 || is_digit(suffix[3]) || find_unit(suffix + 3, size - 3));
}

/* Whether a slash or per comes next, so that the word before it was intended as a count. */
static bool period_follows(const char *text, size_t text_size)
{
    size_t size = 0;
    while (size < text_size && ration_text_is_blank(text[size]))
        size++;
    text += size;
    text_size -= size;
    return text_size > 0 &&
           (*text == '/' ||
            ration_text_is_listed(text, word_size_of(text, text_size), "per", false));
}

/* The error for letters at offset that follow the digits of a count. */
static ration_status fail_letters(struct ration_error *error, const char *text, size_t text_size,
                                  size_t offset, bool in_rate)
{
    char digits[RATION_TEXT_QUOTE_SIZE], quote[RATION_TEXT_QUOTE_SIZE];
    const char *suffix = text + offset;
    size_t size = word_size_of(suffix, text_size - offset);
    ration_text_quote(text, offset, digits);
    ration_text_quote(suffix, size, quote);
    if (in_rate && is_per(suffix, size))
        return ration_text_fail(error, offset,
                                "unknown suffix '%s': write %s per s, with blanks around per",
                                quote, digits);
    const struct unit *unit = in_rate ? unit_of_suffix(suffix, size) : NULL;
    if (unit && !period_follows(suffix + size, text_size - offset - size))
        return ration_text_fail(error, offset, "unknown suffix '%s': write %s/%s", quote, digits,
                                unit->name);
    if (in_rate && size > 1)
        return ration_text_fail(error, offset,
                                "unknown suffix '%s': write %s/s, or %sk/s with k, M or G", quote,
                                digits, digits);
    return ration_text_fail(
        error, offset,
        "unknown suffix '%s': write k for a thousand, M for a million, G for 1000 million", quote);
}

/* The error for bytes at offset that follow the digits of a count and are not a suffix. */
static ration_status fail_suffix(struct ration_error *error, const char *text, size_t text_size,
                                 size_t offset, bool in_rate)
{
    char quote[RATION_TEXT_QUOTE_SIZE];
    size_t word_size = word_size_of(text, text_size);
    const char *suffix = text + offset;
    size_t size = word_size - offset;
    ration_text_quote(text, word_size, quote);
    if (*suffix == '.')
        return ration_text_fail(error, 0, "'%s': a whole number is needed%s", quote,
                                in_rate ? "; for half a token per second write 1 per 2s" : "");
    if (*suffix == ',' && size > 1 && is_digit(suffix[1]))
        return ration_text_fail(error, offset, "'%s': group digits with _, as in 1_000", quote);
    if ((*suffix == 'x' || *suffix == 'X') && offset == 1 && *text == '0')
        return ration_text_fail(
            error, 0, "'%s': a whole number is needed in decimal; write 16, not 0x10", quote);
    if (ration_text_lower(*suffix) == 'e' && size > 1 && !is_letter(suffix[1]))
        return ration_text_fail(
            error, 0, "'%s': a whole number is needed without exponent; write 1000 or 1k", quote);
    if (is_letter(*suffix))
        return fail_letters(error, text, text_size, offset, in_rate);
    size_t odd = 1;
    while (odd < size && !is_letter(suffix[odd]) && !is_digit(suffix[odd]))
        odd++;
    return ration_text_fail(error, offset,
                            "unexpected '%s': only k, M or G may follow the digits of a count",
                            ration_text_quote(suffix, odd, quote));
}

static ration_status parse_count(const char *text, size_t text_size, bool in_rate,
                                 uint64_t *out_count, size_t *out_used_bytes,
                                 struct ration_error *error)
{
    char quote[RATION_TEXT_QUOTE_SIZE];
    size_t word_size = word_size_of(text, text_size);
    size_t digits_size = digits_size_of(text, word_size);
    ration_text_quote(text, word_size, quote);
    if (word_size == 0)
        return ration_text_fail(error, 0, "a count is missing: write a whole number such as 100");
    if (*text == '-' || *text == '+')
        return ration_text_fail(
            error, 0, "'%s': a whole number is needed without sign; write 5, not -5 or +5", quote);
    if (digits_size == 0)
        return ration_text_fail(error, 0, "'%s': a whole number is needed, such as 100 or 10k",
                                quote);
    if (!is_grouping_valid(text, digits_size))
        return ration_text_fail(error, 0, "'%s': _ is only allowed between two digits, as in 1_000",
                                quote);

    uint64_t scale = suffix_value(text + digits_size, word_size - digits_size);
    if (scale == 0)
        return fail_suffix(error, text, text_size, digits_size, in_rate);
    uint64_t count;
    if (!value_of(text, digits_size, &count) || __builtin_mul_overflow(count, scale, &count))
        return ration_text_fail(error, 0, "'%s' is too large: a count is at most %" PRIu64, quote,
                                UINT64_MAX);
    *out_count = count;
    *out_used_bytes = word_size;
    return RATION_OK;
}

ration_status ration_units_parse_count(const char *text, size_t text_size, uint64_t *out_count,
                                       size_t *out_used_bytes, struct ration_error *error)
{
    return parse_count(text, text_size, false, out_count, out_used_bytes, error);
}

ration_status ration_units_parse_rate_count(const char *text, size_t text_size, uint64_t *out_count,
                                            size_t *out_used_bytes, struct ration_error *error)
{
    return parse_count(text, text_size, true, out_count, out_used_bytes, error);
}

/* Largest first: printing uses the first binary one that divides. */
static const struct size_unit {
    const char *name;
    uint64_t bytes;
    bool is_binary;
} size_units[] = {
    {"GiB", UINT64_C(1) << 30, true},
    {"MiB", UINT64_C(1) << 20, true},
    {"KiB", UINT64_C(1) << 10, true},
    {"GB", 1000000000, false},
    {"MB", 1000000, false},
    {"KB", 1000, false},
    {"B", 1, false},
};

bool ration_units_parse_bytes(const char *text, size_t text_size, uint64_t *out_bytes)
{
    size_t digits_size = digits_size_of(text, text_size), used;
    uint64_t count;

    for (size_t i = 0; i < COUNT_OF(size_units); i++) {
        if (strlen(size_units[i].name) != text_size - digits_size ||
            strncasecmp(text + digits_size, size_units[i].name, text_size - digits_size) != 0)
            continue;
        if (!is_grouping_valid(text, digits_size) || !value_of(text, digits_size, &count) ||
            __builtin_mul_overflow(count, size_units[i].bytes, &count))
            return false;
        *out_bytes = count;
        return true;
    }
    return ration_units_parse_count(text, text_size, out_bytes, &used, NULL) == RATION_OK &&
           used == text_size;
}

static bool has_digit(const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if (is_digit(text[i]))
            return true;
    }
    return false;
}

/* A duration cut into its parts; offsets are into the given text. */
struct duration_parts {
    size_t whole_size;      /* digits before the point, 0 for a unit alone */
    size_t fraction_offset; /* digits after it */
    size_t fraction_size;
    size_t number_size; /* the whole number */
    size_t unit_offset;
    size_t unit_size;
};

static ration_status fail_unit(struct ration_error *error, const char *text,
                               const struct duration_parts *parts)
{
    char quote[RATION_TEXT_QUOTE_SIZE];
    const char *unit = text + parts->unit_offset;
    size_t offset = parts->unit_offset;
    const struct unit *guess = guess_unit(unit, parts->unit_size);
    ration_text_quote(unit, parts->unit_size, quote);
    if (ration_text_is_listed(unit, parts->unit_size, month_spellings, true))
        return ration_text_fail(error, offset,
                                "unknown unit '%s': months differ in length; write 30d", quote);
    if (guess)
        return ration_text_fail(error, offset, "unknown unit '%s': write %s", quote, guess->name);
    /* A separate word that is not a unit belongs to the text after the duration. */
    if (parts->unit_size == 0 || parts->unit_offset > parts->number_size) {
        ration_text_quote(text, parts->number_size, quote);
        return ration_text_fail(error, 0, "'%s' has no unit: write for example %ss, %sms or %smin",
                                quote, quote, quote, quote);
    }
    if (has_digit(unit, parts->unit_size)) {
        ration_text_quote(text, offset + parts->unit_size, quote);
        return ration_text_fail(error, offset, "'%s': write one number and one unit, such as 90min",
                                quote);
    }
    return ration_text_fail(
        error, offset, "unknown unit '%s': ns, us, ms, s, min, h, d, w and y are known", quote);
}

/* Cuts text, which begins with a word of word_size bytes. */
static ration_status cut_duration(const char *text, size_t text_size, size_t word_size,
                                  struct duration_parts *parts, struct ration_error *error)
{
    char quote[RATION_TEXT_QUOTE_SIZE];
    size_t used = digits_size_of(text, word_size);
    *parts = (struct duration_parts){.whole_size = used};
    bool is_valid = used == 0 || is_grouping_valid(text, used);
    if (used > 0 && used < word_size && text[used] == '.') {
        parts->fraction_offset = used + 1;
        parts->fraction_size = digits_size_of(text + used + 1, word_size - used - 1);
        used += 1 + parts->fraction_size;
        if (parts->fraction_size == 0)
            return ration_text_fail(error, used,
                                    "'%s': digits are missing after the point, as in 1.5s",
                                    ration_text_quote(text, word_size, quote));
        is_valid =
            is_valid && is_grouping_valid(text + parts->fraction_offset, parts->fraction_size);
    }
    if (!is_valid)
        return ration_text_fail(error, 0,
                                "'%s': _ is only allowed between two digits, as in 1_000ms",
                                ration_text_quote(text, word_size, quote));
    parts->number_size = used;
    if (used == word_size) {
        while (used < text_size && ration_text_is_blank(text[used]))
            used++;
    }
    parts->unit_offset = used;
    parts->unit_size = word_size_of(text + parts->unit_offset, text_size - parts->unit_offset);
    return RATION_OK;
}

/*
 * The fraction of a unit: digits are added from the last, each step dividing by ten. The result is
 * whole only if every step is, and no step exceeds ten units, so any number of digits is possible.
 */
static bool fraction_of(uint64_t unit_ns, const char *digits, size_t size, uint64_t *out_ns)
{
    uint64_t ns = 0;
    for (size_t i = size; i-- > 0;) {
        if (digits[i] == '_')
            continue;
        ns += (uint64_t)(digits[i] - '0') * unit_ns;
        if (ns % 10 != 0)
            return false;
        ns /= 10;
    }
    *out_ns = ns;
    return true;
}

ration_status ration_units_parse_duration(const char *text, size_t text_size, uint64_t *out_ns,
                                          size_t *out_used_bytes, struct ration_error *error)
{
    char quote[RATION_TEXT_QUOTE_SIZE];
    size_t word_size = word_size_of(text, text_size);
    ration_text_quote(text, word_size, quote);
    if (word_size == 0)
        return ration_text_fail(error, 0,
                                "a duration is missing: write for example 250ms, 10s or 1h");
    if (*text == '-' || *text == '+')
        return ration_text_fail(error, 0, "'%s': a duration has no sign; write 5s, not -5s or +5s",
                                quote);
    if (*text == '.')
        return ration_text_fail(error, 0, "'%s': digits are missing before the point, as in 0.5s",
                                quote);

    struct duration_parts parts;
    if (cut_duration(text, text_size, word_size, &parts, error) != RATION_OK)
        return RATION_EINVAL;
    const struct unit *unit = find_unit(text + parts.unit_offset, parts.unit_size);
    if (!unit)
        return fail_unit(error, text, &parts);

    uint64_t whole = 1, fraction_ns = 0, ns;
    if (!fraction_of(unit->ns, text + parts.fraction_offset, parts.fraction_size, &fraction_ns))
        return ration_text_fail(
            error, 0, "'%s' is not a whole number of nanoseconds: write fewer decimals",
            ration_text_quote(text, parts.unit_offset + parts.unit_size, quote));
    if ((parts.whole_size > 0 && !value_of(text, parts.whole_size, &whole)) ||
        __builtin_mul_overflow(whole, unit->ns, &ns) ||
        __builtin_add_overflow(ns, fraction_ns, &ns))
        return ration_text_fail(
            error, 0, "'%s' is too long: a duration is at most %" PRIu64 "ns (584y)",
            ration_text_quote(text, parts.unit_offset + parts.unit_size, quote), UINT64_MAX);
    *out_ns = ns;
    *out_used_bytes = parts.unit_offset + parts.unit_size;
    return RATION_OK;
}

void ration_units_explain_rate(const char *text, size_t text_size, size_t count_size,
                               size_t word_offset, struct ration_error *error)
{
    char count[RATION_TEXT_QUOTE_SIZE], quote[RATION_TEXT_QUOTE_SIZE];
    char period[RATION_TEXT_QUOTE_SIZE];
    const char *word = text + word_offset;
    size_t left = text_size - word_offset, size = 0, used;
    uint64_t unused;
    while (size < left && !ration_text_is_blank(word[size]))
        size++;
    ration_text_quote(text, count_size, count);
    ration_text_quote(word, size, quote);
    bool per = size >= 3 && ration_text_is_listed(word, 3, "per", true);
    if (per && size == 3)
        ration_text_fail(error, word_offset, "unknown word '%s': write per", quote);
    else if (per &&
             ration_units_parse_duration(word + 3, left - 3, &unused, &used, NULL) == RATION_OK)
        ration_text_fail(error, word_offset, "unknown word '%s': write per %s, with a blank", quote,
                         ration_text_quote(word + 3, used, period));
    else if (is_digit(text[count_size - 1]) && suffix_value(word, word_size_of(word, size)) > 1)
        ration_text_fail(error, word_offset, "unknown word '%s': write %s%s, without the blank",
                         quote, count, quote);
    else
        ration_text_fail(error, word_offset,
                         "unknown word '%s': after a count write / or per, as in %s/s or %s per 5s",
                         quote, count, count);
}

static ration_status print_with_unit(uint64_t count, const char *unit, char *buffer,
                                     size_t buffer_size)
{
    char text[RATION_UNITS_TEXT_SIZE];
    size_t size = (size_t)snprintf(text, sizeof(text), "%" PRIu64 "%s", count, unit) + 1;
    if (size > buffer_size)
        return RATION_ENOSPC;
    memcpy(buffer, text, size);
    return RATION_OK;
}

ration_status ration_units_print_bytes(uint64_t bytes, char *buffer, size_t buffer_size)
{
    char text[RATION_UNITS_TEXT_SIZE];
    size_t i = 0;

    while (i < COUNT_OF(size_units) &&
           !(size_units[i].is_binary && bytes % size_units[i].bytes == 0))
        i++;
    if (bytes == 0 || i == COUNT_OF(size_units))
        return ration_units_print_count(bytes, buffer, buffer_size);
    snprintf(text, sizeof(text), "%" PRIu64 "%s", bytes / size_units[i].bytes, size_units[i].name);
    if (strlen(text) >= buffer_size)
        return RATION_ENOSPC;
    strcpy(buffer, text);
    return RATION_OK;
}

ration_status ration_units_print_count(uint64_t count, char *buffer, size_t buffer_size)
{
    return print_with_unit(count, "", buffer, buffer_size);
}

ration_status ration_units_print_duration(uint64_t ns, char *buffer, size_t buffer_size)
{
    if (ns == 0)
        return print_with_unit(0, "s", buffer, buffer_size);
    size_t unit = 0;
    while (ns % units[unit].ns != 0)
        unit++;
    return print_with_unit(ns / units[unit].ns, units[unit].name, buffer, buffer_size);
}
