/*
 * log: the server's log for its operators, one line per event.
 *
 *     2026-11-16T13:57:01.123Z info listening on http 127.0.0.1:8429
 *     {"time":"2026-11-16T13:57:01.123Z","level":"info","message":"listening on http 127.0.0.1:8429"}
 *
 * Lines report events of the server, not requests: those are counted by metrics. Bytes from clients are passed
 * as fields, and written escaped and truncated. A line is one write() of at most RATION_LOG_LINE_MAX bytes. If
 * the reader of the log does not keep up, lines are lost and a later line reports how many; the server
 * never waits longer than RATION_LOG_WAIT_MS for a line.
 */
#ifndef RATION_SERVER_OPS_LOG_H
#define RATION_SERVER_OPS_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ration/bucket.h"

#define RATION_LOG_LINE_MAX    4096 /* at most PIPE_BUF: a write to a pipe is atomic */
#define RATION_LOG_MESSAGE_MAX 1024
#define RATION_LOG_FIELDS_MAX  8
#define RATION_LOG_VALUE_MAX   64 /* bytes of a field's value; the rest is cut */
#define RATION_LOG_WAIT_MS     20

enum ration_log_level { RATION_LOG_INFO = 0, RATION_LOG_WARNING, RATION_LOG_ERROR };

/* A value of any bytes. The name is written unescaped, so it must not come from a client. */
struct ration_log_field {
    const char *name;
    const void *bytes;
    size_t size;
};

/*
 * Sets the file descriptor that lines are written to (2: standard error), their format, and the least severe level
 * that is written. Before threads start.
 */
void ration_log_open(int file, bool is_json, enum ration_log_level level_min);

/* Writes a line. Any thread. fields may be NULL if field_count is 0. */
void ration_log_fields(enum ration_log_level level, const struct ration_log_field *fields,
                       size_t field_count, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#define ration_log(level, ...) ration_log_fields(level, NULL, 0, __VA_ARGS__)

/*
 * A rate limit for one kind of line that clients can cause, so that they cannot flood the log:
 *
 *     static struct ration_log_bound bound = {"failed logins", .burst_lines = 20, .lines_per_second = 1};
 *     ration_log_bounded(&bound, RATION_LOG_WARNING, NULL, 0, "...");
 *
 * Lines beyond the bound are counted and not written. Before the next line of the kind, a line reports how many
 * were suppressed; ration_log_bound_report() reports the rest at shutdown. Use static storage: all threads share
 * a bound.
 */
struct ration_log_bound {
    const char *about; /* for "12 lines about failed logins were not logged" */
    uint32_t burst_lines;
    uint32_t lines_per_second;
    struct ration_bucket bucket; /* private */
    uint64_t suppressed_count;   /* private; atomic */
};

/* Like ration_log_fields(), limited by the bound. */
void ration_log_bounded(struct ration_log_bound *bound, enum ration_log_level level,
                        const struct ration_log_field *fields, size_t field_count,
                        const char *format, ...) __attribute__((format(printf, 5, 6)));

/* Logs how many lines were suppressed, if any, and resets the count. Any thread. */
void ration_log_bound_report(struct ration_log_bound *bound);

/* Whether a line may be written at now_ns, of a monotonic clock. False: the line is counted as suppressed. */
bool ration_log_bound_allows(struct ration_log_bound *bound, uint64_t now_ns);

/*
 * Writes the text of a line with the time wall_ns, including its line end, to buffer. Returns its size, at most
 * RATION_LOG_LINE_MAX: a message is truncated, and a field that does not fit is left out.
 */
size_t ration_log_compose(bool is_json, unsigned long long wall_ns, enum ration_log_level level,
                          const char *message, const struct ration_log_field *fields,
                          size_t field_count, char buffer[RATION_LOG_LINE_MAX]);

#endif
