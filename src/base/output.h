/*
 * output: a growing buffer for outgoing bytes. Every writer of replies appends to one.
 *
 * It grows up to a maximum that is set when it is initialised. A writer need not check each append:
 * bytes that do not fit (or for which there is no memory) make the output fail permanently, later
 * appends are dropped, and the sender checks is_failed once, before sending. The bytes of a failed
 * output are truncated anywhere and must not be sent. (Appending a number reserves the longest
 * size: near the maximum an output may fail with up to 20 bytes unused.)
 *
 *     ration_output_append_text(&output, "count=");
 *     ration_output_append_u64(&output, count);
 *     if (output.is_failed) { ... }
 */
#ifndef RATION_BASE_OUTPUT_H
#define RATION_BASE_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The most memory that an output retains after a reset. */
#define RATION_OUTPUT_KEEP_BYTES 65536

/* The longest text of a number: INT64_MIN or UINT64_MAX. */
#define RATION_OUTPUT_NUMBER_SIZE 20

struct ration_output {
    char *bytes; /* NULL until the first append */
    size_t size;
    size_t usable_bytes;    /* size plus the bytes that fit without growing; = size when failed */
    size_t allocated_bytes; /* allocated size of bytes */
    size_t bytes_max;
    bool is_failed;
    bool is_out_of_memory; /* the reason of a failure: out of memory, otherwise bytes_max */
};

/* Initialises an output without allocating. Release it with ration_output_done(). */
void ration_output_init(struct ration_output *output, size_t bytes_max);

/* Releases the memory. The output is then as if just initialised. */
void ration_output_done(struct ration_output *output);

/* Empties the output, failed or not, and retains at most RATION_OUTPUT_KEEP_BYTES of memory. */
void ration_output_reset(struct ration_output *output);

/* Truncates the output to an earlier size, and clears a failure. */
void ration_output_rewind(struct ration_output *output, size_t size);

/* The slow path of ration_output_reserve(). */
bool ration_output_grow(struct ration_output *output, size_t more_bytes);

/*
 * Reserves more_bytes. True: the caller may write them at bytes + size and then increase size.
 * False: the output has failed.
 */
static inline bool ration_output_reserve(struct ration_output *output, size_t more_bytes)
{
    return output->usable_bytes - output->size >= more_bytes ||
           ration_output_grow(output, more_bytes);
}

static inline void ration_output_append(struct ration_output *output, const void *bytes,
                                        size_t size)
{
    if (size == 0 || !ration_output_reserve(output, size))
        return;
    memcpy(output->bytes + output->size, bytes, size);
    output->size += size;
}

static inline void ration_output_append_text(struct ration_output *output, const char *text)
{
    ration_output_append(output, text, strlen(text));
}

static inline void ration_output_append_byte(struct ration_output *output, char byte)
{
    if (!ration_output_reserve(output, 1))
        return;
    output->bytes[output->size++] = byte;
}

/* Writes the decimal text of number at out, which must have room for it. Returns its end. */
char *ration_output_put_u64(uint64_t number, char *out);

static inline char *ration_output_put_i64(int64_t number, char *out)
{
    uint64_t magnitude = (uint64_t)number;
    if (number < 0) {
        *out++ = '-';
        magnitude = -magnitude;
    }
    return ration_output_put_u64(magnitude, out);
}

static inline void ration_output_append_u64(struct ration_output *output, uint64_t number)
{
    if (!ration_output_reserve(output, RATION_OUTPUT_NUMBER_SIZE))
        return;
    char *end = ration_output_put_u64(number, output->bytes + output->size);
    output->size = (size_t)(end - output->bytes);
}

#endif
