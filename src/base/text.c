#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#undef ration_text_fail /* the analyzer's macro */

/* Longer words are never treated as a misspelling of a known one. */
#define NEAREST_SIZE_MAX 32

const char *ration_text_quote(const char *text, size_t text_size,
                              char buffer[RATION_TEXT_QUOTE_SIZE])
{
    static const char hex[] = "0123456789ABCDEF";
    size_t shown = text_size < RATION_TEXT_QUOTE_MAX ? text_size : RATION_TEXT_QUOTE_MAX;
    char *out = buffer;
    for (size_t i = 0; i < shown; i++) {
        unsigned char byte = (unsigned char)text[i];
        if (byte >= 0x20 && byte < 0x7F) {
            *out++ = (char)byte;
            continue;
        }
        *out++ = '\\';
        *out++ = 'x';
        *out++ = hex[byte >> 4];
        *out++ = hex[byte & 15];
    }
    memcpy(out, shown < text_size ? "..." : "", shown < text_size ? 4 : 1);
    return buffer;
}

bool ration_text_is_listed(const char *word, size_t word_size, const char *list, bool any_case)
{
    while (*list) {
        size_t listed = strcspn(list, " ");
        size_t same = 0;
        while (same < listed && same < word_size &&
               list[same] == (any_case ? ration_text_lower(word[same]) : word[same]))
            same++;
        if (same == listed && same == word_size)
            return true;
        list += listed + (list[listed] == ' ');
    }
    return false;
}

static unsigned min_unsigned(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

/*
 * Edit distance: letters to add, drop, change or swap with a neighbour. Both sizes are at most
 * NEAREST_SIZE_MAX.
 */
static unsigned edit_distance(const char *a, size_t a_size, const char *b, size_t b_size)
{
    unsigned cost[NEAREST_SIZE_MAX + 1][NEAREST_SIZE_MAX + 1];
    for (size_t i = 0; i <= a_size; i++) {
        for (size_t j = 0; j <= b_size; j++) {
            if (i == 0 || j == 0) {
                cost[i][j] = (unsigned)(i + j);
                continue;
            }
            bool same = ration_text_lower(a[i - 1]) == ration_text_lower(b[j - 1]);
            unsigned best = min_unsigned(cost[i - 1][j], cost[i][j - 1]) + 1;
            best = min_unsigned(best, cost[i - 1][j - 1] + !same);
            if (i > 1 && j > 1 && ration_text_lower(a[i - 1]) == ration_text_lower(b[j - 2]) &&
                ration_text_lower(a[i - 2]) == ration_text_lower(b[j - 1]))
                best = min_unsigned(best, cost[i - 2][j - 2] + 1);
            cost[i][j] = best;
        }
    }
    return cost[a_size][b_size];
}

const char *ration_text_nearest(const char *word, size_t word_size, const char *const *known,
                                size_t known_count)
{
    if (word_size < 3 || word_size > NEAREST_SIZE_MAX)
        return NULL;
    unsigned limit = word_size <= 5 ? 1 : 2;
    unsigned best = limit + 1;
    const char *nearest = NULL;
    for (size_t i = 0; i < known_count; i++) {
        size_t size = strlen(known[i]);
        if (size > NEAREST_SIZE_MAX)
            continue;
        unsigned distance = edit_distance(word, word_size, known[i], size);
        bool is_prefix = word_size > 3 && word_size < size &&
                         !edit_distance(word, word_size, known[i], word_size);
        if (is_prefix)
            distance = min_unsigned(distance, limit);
        if (distance < best) {
            best = distance;
            nearest = known[i];
        }
    }
    return nearest;
}

ration_status ration_text_fail(struct ration_error *error, size_t offset, const char *format, ...)
{
    if (error) {
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(error->message, sizeof(error->message), format, arguments);
        va_end(arguments);
        error->status = RATION_EINVAL;
        error->offset = offset;
    }
    return RATION_EINVAL;
}

ration_status ration_text_fail_unknown(struct ration_error *error, size_t offset, const char *what,
                                       const char *word, size_t word_size, const char *suggestion,
                                       const char *fix)
{
    char quote[RATION_TEXT_QUOTE_SIZE];
    return ration_text_fail(error, offset, "unknown %s '%s' at byte %zu: %s%s%s", what,
                            ration_text_quote(word, word_size, quote), offset,
                            suggestion ? "did you mean " : "", suggestion ? suggestion : fix,
                            suggestion ? "?" : "");
}
