/*
 * log_codec: a sliding log as text, run-length encoded. Each run is the time at which tokens come back (seconds and
 * nanoseconds) and how many, earliest first:
 *
 *     1794846534 100000000 1 1794846535 0 3        one at 34.1 s, three at 35 s
 *
 * Tokens of the limit that are in no run came back long ago. The text is borrowed, and cheapest to read from front
 * to back. It has at most RATION_REDIS_LOG_TOKENS_MAX runs, which bounds the cost of a decision.
 */
#ifndef RATION_REDIS_LOG_CODEC_H
#define RATION_REDIS_LOG_CODEC_H

#include <stdbool.h>
#include <stdint.h>

#include "base/output.h"
#include "base/time.h"
#include "limiter/bucket_state.h"

#define RATION_REDIS_LOG_TOKENS_MAX 1000

/* Reads the next number, and moves *cursor past its space. False: there is no number, or it exceeds 64 bits. */
static inline bool ration_redis_number_read(const char **cursor, const char *end,
                                            uint64_t *out_number)
{
    const char *first = *cursor;

    *out_number = 0;
    for (; *cursor < end && **cursor >= '0' && **cursor <= '9'; ++*cursor)
        if (__builtin_mul_overflow(*out_number, 10, out_number) ||
            __builtin_add_overflow(*out_number, (uint64_t)(**cursor - '0'), out_number))
            return false;
    return *cursor > first && *cursor < end && *(*cursor)++ == ' ';
}

/* Whether seconds and a fraction, in units of 1/units_per_second s, form a time that a bucket can store. */
static inline bool ration_redis_numbers_fit(uint64_t seconds, uint64_t fraction,
                                            uint64_t units_per_second)
{
    return seconds <= (RATION_NOW_MAX_NS + RATION_SPAN_NS) / RATION_NS_PER_SECOND &&
           fraction < units_per_second;
}

struct ration_redis_log_codec {
    const char *begin;
    const char *end;
    uint64_t runless_count; /* tokens in no run */

    /* The run that was read last. */
    const char *next;
    uint64_t first_index;
    uint64_t run_tokens;
    uint64_t run_expires_ns;
};

/*
 * Reads the runs at the start of a text; *out_size is the number of bytes they occupy. False: they are out of
 * order, or too many for the limit. On success *bucket holds the log, which reads from *codec: it must live as
 * long.
 */
bool ration_redis_log_codec_read(const char *text, size_t size,
                                 struct ration_redis_log_codec *codec,
                                 struct ration_bucket_state *bucket, size_t *out_size);

/* The same for a new log that does not start full. */
void ration_redis_log_codec_begin(struct ration_redis_log_codec *codec,
                                  struct ration_bucket_state *bucket);

/* Writes the runs without a space after them. A full log is written as one run of 0 tokens. */
void ration_redis_log_codec_write(const struct ration_bucket_state *bucket,
                                  struct ration_output *text);

#endif
