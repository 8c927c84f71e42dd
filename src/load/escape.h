/*
 * escape: text from a server or a file, as a terminal may show it.
 *
 * A terminal acts on control characters, and a line feed begins a line that looks like ours. Both become
 * \xHH, as do bytes that are not UTF-8; other characters stay as they are.
 */
#ifndef RATION_LOAD_ESCAPE_H
#define RATION_LOAD_ESCAPE_H

#include <stddef.h>

/*
 * Writes the text and a terminator; text that does not fit is cut and ends in "...". Returns buffer,
 * whose size is at least 8.
 */
const char *load_escape(const char *text, size_t text_size, char *buffer, size_t buffer_size);

#endif
