/*
 * output: bytes on their way out. Every writer of answers appends to one.
 *
 * It grows up to a maximum given when it is made. A writer does not ask after each append whether
 * it worked: what does not fit (or finds no memory) makes the output fail for good, later appends
 * are dropped, and whoever sends the bytes asks is_failed once, before sending. Bytes of a failed
 * output end anywhere and are not to be sent. (Numbers ask for the room of the longest: near the
 * maximum an output may fail with up to 20 bytes unused.)
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

/* The most memory that a reset output keeps. */
#define RATION_OUTPUT_KEEP_BYTES 65536

/* The longest text of a number: that of INT64_MIN or of UINT64_MAX. */
#define RATION_OUTPUT_NUMBER_SIZE 20

struct ration_output {
    char *bytes; /* NULL until something was appended */
    size_t size;
    size_t usable_bytes;    /* size plus what may be appended at once; = size when failed */
    size_t allocated_bytes; /* at bytes */
    size_t bytes_max;
    bool is_failed;
    bool is_out_of_memory; /* that is why; else bytes_max is */
};

/* Takes no memory yet. Release it with ration_output_done(). */
void ration_output_init(struct ration_output *output, size_t bytes_max);

/* Releases the memory. The output is as if just initialised. */
void ration_output_done(struct ration_output *output);

/* Empties the output, failed or not, and keeps at most RATION_OUTPUT_KEEP_BYTES of memory. */
void ration_output_reset(struct ration_output *output);

/* Forgets what was appended after it had this size, also if that made it fail. */
void ration_output_rewind(struct ration_output *output, size_t size);

/* The slow part of ration_output_reserve(). */
bool ration_output_grow(struct ration_output *output, size_t more_bytes);

/*
 * Makes room for that many bytes more. True: they may be written at bytes + size, and size be
 * increased by as much. False: the output has failed.
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

/* Writes the decimal text of number at out, which has room for it. Returns its end. */
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

static inline void ration_output_append_i64(struct ration_output *output, int64_t number)
{
    if (!ration_output_reserve(output, RATION_OUTPUT_NUMBER_SIZE))
        return;
    char *end = ration_output_put_i64(number, output->bytes + output->size);
    output->size = (size_t)(end - output->bytes);
}

#endif
