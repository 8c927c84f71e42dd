/*
 * runs: a sliding log as text. Each run is a moment and how many tokens come back then, earliest first:
 *
 *     1794846534 100000000 1 1794846535 0 3        one at 34.1 s, three at 35 s
 *
 * Tokens of the limit that are in no run came back long ago. What is read is borrowed, and read best from front to
 * back. A text has at most RATION_REDIS_LOG_TOKENS_MAX runs, which is what a decision costs at most.
 */
#ifndef RATION_REDIS_RUNS_H
#define RATION_REDIS_RUNS_H

#include "base/output.h"
#include "limiter/state.h"

#define RATION_REDIS_LOG_TOKENS_MAX 1000

struct ration_redis_runs {
    const char *begin;
    const char *end;
    uint64_t past_count; /* tokens in no run */

    /* The run that was read last. */
    const char *next;
    uint64_t first_index;
    uint64_t count;
    uint64_t moment_ns;
};

/*
 * The runs that a text begins with, up to the byte that is in none of them: *out_size. False: they are not in
 * order, or too many for the limit. On success any has the log; runs must stay for as long as it is read.
 */
bool ration_redis_runs_read(const char *text, size_t size, struct ration_redis_runs *runs,
                            struct ration_any *any, size_t *out_size);

/* The same for a log that is new, and has not begun full. */
void ration_redis_runs_begin(struct ration_redis_runs *runs, struct ration_any *any);

/* Without a blank behind them. A log that is full has one, of nothing. */
void ration_redis_runs_write(const struct ration_any *any, struct ration_output *text);

#endif
