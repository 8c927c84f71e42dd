/* utf8: validates UTF-8 and converts byte offsets to lines and columns. */
#ifndef RATION_POLICY_UTF8_H
#define RATION_POLICY_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/policy_errors.h"

/* Whether all of text is UTF-8. Records the first invalid position as an error. */
bool ration_utf8_check(const char *text, size_t text_size, struct ration_policy_errors *errors);

/* The number of characters in text. */
size_t ration_utf8_count(const char *text, size_t text_size);

/* Computes the line and column, both from 1, of the byte at offset. */
void ration_utf8_place(const char *text, size_t text_size, size_t offset, uint32_t *out_line,
                       uint32_t *out_column);

#endif
