/* text: helpers for parsers: blanks, quoted excerpts and suggestions in error messages. */
#ifndef RATION_BASE_TEXT_H
#define RATION_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>

#include "ration/status.h"

/* ASCII only: no locale. */
static inline char ration_text_lower(char byte)
{
    return byte >= 'A' && byte <= 'Z' ? (char)(byte - 'A' + 'a') : byte;
}

/* Returns the value of a hexadecimal digit, or -1. */
static inline int ration_text_hex(char byte)
{
    char lower = ration_text_lower(byte);

    if (byte >= '0' && byte <= '9')
        return byte - '0';
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

/* Returns whether byte separates words: space, tab, line feed or carriage return. */
static inline bool ration_text_is_blank(char byte)
{
    return byte == ' ' || byte == '\t' || byte == '\n' || byte == '\r';
}

/*
 * The most bytes of a text that a message quotes, and the buffer size if all of them are escaped.
 */
#define RATION_TEXT_QUOTE_MAX  24
#define RATION_TEXT_QUOTE_SIZE (4 * RATION_TEXT_QUOTE_MAX + sizeof("..."))

/*
 * Quotes text for a message: unprintable bytes as \xHH, and "..." for bytes beyond
 * RATION_TEXT_QUOTE_MAX. Returns buffer, which is zero-terminated.
 */
const char *ration_text_quote(const char *text, size_t text_size,
                              char buffer[RATION_TEXT_QUOTE_SIZE]);

/* Returns whether word is in list, whose words are in lower case and separated by spaces. */
bool ration_text_is_listed(const char *word, size_t word_size, const char *list, bool any_case);

/*
 * Returns the known word that the user probably intended, in any case: one or two typing errors
 * away, or an abbreviation of it. NULL if none is similar.
 */
const char *ration_text_nearest(const char *word, size_t word_size, const char *const *known,
                                size_t known_count);

/*
 * Sets error (may be NULL) to RATION_EINVAL with a message about the byte at offset. Returns
 * RATION_EINVAL.
 */
ration_status ration_text_fail(struct ration_error *error, size_t offset, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#ifdef __clang_analyzer__ /* it does not look into other files: what the call returns */
#define ration_text_fail(error, offset, ...) \
    ((void)(ration_text_fail)((error), (offset), __VA_ARGS__), RATION_EINVAL)
#endif

/* As ration_text_fail(), for an unknown word: names suggestion, or fix where suggestion is NULL. */
ration_status ration_text_fail_unknown(struct ration_error *error, size_t offset, const char *what,
                                       const char *word, size_t word_size, const char *suggestion,
                                       const char *fix);

#endif
