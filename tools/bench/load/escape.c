#include "load/escape.h"

#include <string.h>

#define ESCAPE_SIZE 4 /* \xHH; also the longest UTF-8 character */

/* The size of the character at the start of text if it may be shown; otherwise 0. */
static size_t printable_size(const char *text, size_t text_size)
{
    const unsigned char *bytes = (const unsigned char *)text;
    size_t size = bytes[0] < 0x80 ? 1 : bytes[0] < 0xe0 ? 2 : bytes[0] < 0xf0 ? 3 : 4;

    if (size == 1)
        return bytes[0] >= 0x20 && bytes[0] < 0x7f;
    if (bytes[0] < 0xc2 || bytes[0] > 0xf4 || size > text_size)
        return 0;
    for (size_t i = 1; i < size; i++)
        if ((bytes[i] & 0xc0) != 0x80)
            return 0;
    /* Controls (U+0080 to U+009F), overlong forms, surrogates, and what exceeds U+10FFFF. */
    if ((bytes[0] == 0xc2 && bytes[1] < 0xa0) || (bytes[0] == 0xe0 && bytes[1] < 0xa0) ||
        (bytes[0] == 0xed && bytes[1] >= 0xa0) || (bytes[0] == 0xf0 && bytes[1] < 0x90) ||
        (bytes[0] == 0xf4 && bytes[1] >= 0x90))
        return 0;
    return size;
}

static void put_hex(unsigned char byte, char out[ESCAPE_SIZE])
{
    static const char hex[] = "0123456789ABCDEF";

    memcpy(out, "\\x", 2);
    out[2] = hex[byte >> 4];
    out[3] = hex[byte & 15];
}

const char *load_escape(const char *text, size_t text_size, char *buffer, size_t buffer_size)
{
    char *out = buffer;
    char *end =
        buffer + buffer_size - sizeof("...") - ESCAPE_SIZE; /* room for one more escape and "..." */
    size_t used = 0;

    while (used < text_size && out <= end) {
        size_t size = printable_size(text + used, text_size - used);

        if (size > 0)
            memcpy(out, text + used, size);
        else
            put_hex((unsigned char)text[used], out);
        out += size > 0 ? size : ESCAPE_SIZE;
        used += size > 0 ? size : 1;
    }
    memcpy(out, used < text_size ? "..." : "", used < text_size ? sizeof("...") : 1);
    return buffer;
}
