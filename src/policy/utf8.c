#include "policy/utf8.h"

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

bool ration_utf8_check(const char *text, size_t text_size, struct ration_policy_errors *errors)
{
    for (size_t at = 0; at < text_size;) {
        size_t size = character_size((const unsigned char *)text + at, text_size - at);
        uint32_t line, column;
        if (size == 0) {
            ration_utf8_place(text, text_size, at, &line, &column);
            ration_policy_errors_add(errors, line, column,
                                     "the byte 0x%02X is not UTF-8: save the file as UTF-8",
                                     (unsigned)(unsigned char)text[at]);
            return false;
        }
        at += size;
    }
    return true;
}

size_t ration_utf8_count(const char *text, size_t text_size)
{
    size_t count = 0;

    for (size_t i = 0; i < text_size; i++)
        count += !is_continuation((unsigned char)text[i]);
    return count;
}

void ration_utf8_place(const char *text, size_t text_size, size_t offset, uint32_t *out_line,
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
    *out_column = (uint32_t)ration_utf8_count(text + begin, offset - begin) + 1;
}
