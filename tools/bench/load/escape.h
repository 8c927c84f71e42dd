/*
 * escape: makes text from a server or a file safe to show on a terminal.
 *
 * A terminal interprets control characters, and a line feed starts a line that looks like our own
 * output. Both become \xHH, as do bytes that are not UTF-8; other characters are unchanged.
 */
#ifndef RATION_LOAD_ESCAPE_H
#define RATION_LOAD_ESCAPE_H

#include <stddef.h>

/*
 * Writes the text and a terminating zero. Text that does not fit is truncated and ends in "...".
 * Returns buffer, whose size must be at least 8.
 */
const char *load_escape(const char *text, size_t text_size, char *buffer, size_t buffer_size);

#endif
