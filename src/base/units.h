/*
 * units: parses and prints counts, sizes in bytes, and durations.
 *
 *     count      100   1_000_000   10k   2M   3G
 *     size       65536   64KB   64KiB   1MiB   (KB is 1000 bytes, KiB is 1024)
 *     duration   250ms   1.5s   100 ms   min   (a unit alone means one of it)
 *
 * Text is given with its size and needs no terminator. A count or a duration ends before a blank, a
 * slash or the end of the text, so "10/5s" can be parsed in two calls; any other byte in between is
 * an error. There is no floating point, locale or allocation here, and no value is ever rounded or
 * wrapped: a value that cannot be represented exactly is rejected.
 */
#ifndef RATION_BASE_UNITS_H
#define RATION_BASE_UNITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ration/status.h"

/* Buffer size for any printed count or duration, with its terminating zero. */
#define RATION_UNITS_TEXT_SIZE 32

/*
 * Parses a count: decimal digits, which _ may group, directly followed by k, M or G for 10^3, 10^6
 * or 10^9. *out_used_bytes is the number of bytes parsed. Returns RATION_EINVAL; error (may be
 * NULL) then names the byte and the fix. Outputs are untouched on failure.
 */
ration_status ration_units_parse_count(const char *text, size_t text_size, uint64_t *out_count,
                                       size_t *out_used_bytes, struct ration_error *error);

/* As ration_units_parse_count(), for the count of a rate: its messages may suggest a period. */
ration_status ration_units_parse_rate_count(const char *text, size_t text_size, uint64_t *out_count,
                                            size_t *out_used_bytes, struct ration_error *error);

/*
 * Writes to error (may be NULL) what to write instead of the word at word_offset, where a slash or
 * per was expected: after the count of count_size bytes that text begins with.
 */
void ration_units_explain_rate(const char *text, size_t text_size, size_t count_size,
                               size_t word_offset, struct ration_error *error);

/*
 * Parses a duration: a number, which may have decimals as long as the result is a whole number of
 * nanoseconds, and a unit, with optional blanks between them. Units are ns, us, ms, s, min, h, d, w
 * and y (365 days), with the longer spellings listed in docs/reference/limit-text.md. Errors as above.
 */
ration_status ration_units_parse_duration(const char *text, size_t text_size, uint64_t *out_ns,
                                          size_t *out_used_bytes, struct ration_error *error);

/*
 * Parses a size in bytes, the whole text: a count as above, or digits directly followed by B, KB, MB, GB (powers of
 * 1000) or KiB, MiB, GiB (powers of 1024), in any case. False: the text is none, or too large.
 */
bool ration_units_parse_bytes(const char *text, size_t text_size, uint64_t *out_bytes);

/* Prints a size in the largest of GiB, MiB and KiB that gives a whole number, or else in bytes. As below. */
ration_status ration_units_print_bytes(uint64_t bytes, char *buffer, size_t buffer_size);

/*
 * Print a count as plain digits, and a duration in the largest unit that gives a whole number:
 * 90s, 2min, 1500ms. Both parse back to the same value. Return RATION_ENOSPC, with buffer
 * untouched, if buffer_size is too small; RATION_UNITS_TEXT_SIZE always suffices.
 */
ration_status ration_units_print_count(uint64_t count, char *buffer, size_t buffer_size);
ration_status ration_units_print_duration(uint64_t ns, char *buffer, size_t buffer_size);

#endif
