/*
 * resp_answer: writes values of the Redis protocol, in both of its versions.
 *
 * Where the versions differ, the functions take the version of the connection: in RESP2 a map is a
 * flat array, and a boolean is 0 or 1. Arrays and maps begin with their count, and the caller then
 * writes that many values (twice as many for a map).
 *
 * These functions do not report failure: see output.h.
 */
#ifndef RATION_CODEC_RESP_RESP_ANSWER_H
#define RATION_CODEC_RESP_RESP_ANSWER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/output.h"

enum ration_resp_version { RATION_RESP2 = 2, RATION_RESP3 = 3 };

/* The maximum number of bytes of an error that are sent; longer errors are truncated. */
#define RATION_RESP_ERROR_BYTES_MAX 1024

/* Room for ":-9223372036854775808\r\n". */
#define RATION_RESP_NUMBER_SIZE (1 + RATION_OUTPUT_NUMBER_SIZE + 2)

/*
 * Writes ":number\r\n", or the same with another type byte, at out, which must have room. Returns
 * its end.
 */
static inline char *ration_resp_put_number(char type, int64_t number, char *out)
{
    *out++ = type;
    if ((uint64_t)number < 10)
        *out++ = (char)('0' + number);
    else
        out = ration_output_put_i64(number, out);
    out[0] = '\r';
    out[1] = '\n';
    return out + 2;
}

/* Writes a type byte, a number and the end of the line: the format of integers and of lengths. */
static inline void ration_resp_write_number(struct ration_output *output, char type, int64_t number)
{
    if (!ration_output_reserve(output, RATION_RESP_NUMBER_SIZE))
        return;
    char *end = ration_resp_put_number(type, number, output->bytes + output->size);
    output->size = (size_t)(end - output->bytes);
}

static inline void ration_resp_write_integer(struct ration_output *output, int64_t number)
{
    ration_resp_write_number(output, ':', number);
}

/* Writes an integer. Numbers above INT64_MAX, the protocol's maximum, become INT64_MAX. */
static inline void ration_resp_write_count(struct ration_output *output, uint64_t count)
{
    ration_resp_write_number(output, ':', count > INT64_MAX ? INT64_MAX : (int64_t)count);
}

static inline void ration_resp_write_array(struct ration_output *output, size_t count)
{
    ration_resp_write_number(output, '*', (int64_t)count);
}

static inline void ration_resp_write_map(struct ration_output *output,
                                         enum ration_resp_version version, size_t pair_count)
{
    if (version == RATION_RESP3)
        ration_resp_write_number(output, '%', (int64_t)pair_count);
    else
        ration_resp_write_number(output, '*', 2 * (int64_t)pair_count);
}

/* Writes "+text". text must not contain CR or LF. */
void ration_resp_write_simple(struct ration_output *output, const char *text);

/*
 * Writes "-text"; the first word is the kind of error. Control bytes, including CR and LF, become
 * spaces. Only the first RATION_RESP_ERROR_BYTES_MAX bytes are sent.
 */
void ration_resp_write_error(struct ration_output *output, const char *text);
void ration_resp_write_error_bytes(struct ration_output *output, const char *text, size_t size);

void ration_resp_write_bulk(struct ration_output *output, const void *bytes, size_t size);
void ration_resp_write_bulk_text(struct ration_output *output, const char *text);

void ration_resp_write_null(struct ration_output *output, enum ration_resp_version version);

/* Writes text for people, which clients show unchanged; a bulk string in RESP2. */
void ration_resp_write_verbatim(struct ration_output *output, enum ration_resp_version version,
                                const char *text, size_t size);

#endif
