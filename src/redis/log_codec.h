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

#include "base/output.h"
#include "limiter/bucket_state.h"

#define RATION_REDIS_LOG_TOKENS_MAX 1000

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
