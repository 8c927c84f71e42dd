/*
 * utf8: characters of a text, and where in it they stand.
 */
#ifndef RATION_POLICY_UTF8_H
#define RATION_POLICY_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/faults.h"

/* Whether all of text is UTF-8; a fault says where it is not. */
bool ration_utf8_check(const char *text, size_t text_size, struct ration_faults *faults);

/* How many characters begin in text. */
size_t ration_utf8_count(const char *text, size_t text_size);

/* The line and column, from 1, of the byte at offset. */
void ration_utf8_place(const char *text, size_t text_size, size_t offset, uint32_t *out_line,
                       uint32_t *out_column);

#endif
