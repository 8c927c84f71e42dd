/*
 * words: what readers of text share: blanks, and the excerpts and guesses of their messages.
 */
#ifndef RATION_BASE_WORDS_H
#define RATION_BASE_WORDS_H

#include <stdbool.h>
#include <stddef.h>

#include "ration/status.h"

/* ASCII only: no locale. */
static inline char ration_words_lower(char byte)
{
    return byte >= 'A' && byte <= 'Z' ? (char)(byte - 'A' + 'a') : byte;
}

/* What a hexadecimal digit is worth, or -1. */
static inline int ration_words_hex(char byte)
{
    char lower = ration_words_lower(byte);

    if (byte >= '0' && byte <= '9')
        return byte - '0';
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

/* What separates words: space, tab and the ends of lines. */
static inline bool ration_words_is_blank(char byte)
{
    return byte == ' ' || byte == '\t' || byte == '\n' || byte == '\r';
}

/* The most bytes of a text that a message repeats, and room for them when all are escaped. */
#define RATION_WORDS_QUOTE_MAX  24
#define RATION_WORDS_QUOTE_SIZE (4 * RATION_WORDS_QUOTE_MAX + sizeof("..."))

/*
 * Writes text as a message may show it: bytes that do not print as \xHH, and "..." for what is
 * left off. Returns buffer, which is terminated.
 */
const char *ration_words_quote(const char *text, size_t text_size,
                               char buffer[RATION_WORDS_QUOTE_SIZE]);

/* Whether word is one of those in list, which is in lower case and separated by spaces. */
bool ration_words_is_listed(const char *word, size_t word_size, const char *list, bool any_case);

/*
 * The known word that was probably meant, whatever its case: a slip or two away, or begun and
 * not finished. NULL if none is near.
 */
const char *ration_words_nearest(const char *word, size_t word_size, const char *const *known,
                                 size_t known_count);

/*
 * Puts a message about the byte at offset into error, which may be NULL, with RATION_EINVAL; that
 * is also what it returns.
 */
ration_status ration_words_fail(struct ration_error *error, size_t offset, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The same for an unknown word: names the near one, or the fix where near is NULL. */
ration_status ration_words_fail_unknown(struct ration_error *error, size_t offset, const char *what,
                                        const char *word, size_t word_size, const char *near,
                                        const char *fix);

#endif
