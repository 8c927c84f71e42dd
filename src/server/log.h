/*
 * log: what a server tells those who run it, a line at a time.
 *
 *     2026-11-16T13:57:01.123Z info listening on http 127.0.0.1:8429
 *     {"time":"2026-11-16T13:57:01.123Z","level":"info","message":"listening on http 127.0.0.1:8429"}
 *
 * Lines are for what happens to the server, not for requests: those are counted. Bytes from outside are
 * given as fields, and shown escaped and cut. A line is one write of at most RATION_LOG_LINE_MAX bytes. A
 * reader who does not keep up loses lines, and is told how many; the server never waits for him longer
 * than RATION_LOG_WAIT_MS.
 */
#ifndef RATION_SERVER_LOG_H
#define RATION_SERVER_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ration/bucket.h"

#define RATION_LOG_LINE_MAX    4096 /* at most PIPE_BUF: such a write is whole or not at all */
#define RATION_LOG_MESSAGE_MAX 1024
#define RATION_LOG_FIELDS_MAX  8
#define RATION_LOG_VALUE_MAX   64 /* bytes of a field's value that are shown */
#define RATION_LOG_WAIT_MS     20

enum ration_log_level { RATION_LOG_INFO = 0, RATION_LOG_WARNING, RATION_LOG_ERROR };

/* Any bytes, under a name of ours. */
struct ration_log_field {
    const char *name;
    const void *bytes;
    size_t size;
};

/* Where lines go (2: the standard error), and in which form. Before there are threads. */
void ration_log_open(int file, bool is_json);

/* Writes a line. Any thread. fields may be NULL if there are none. */
void ration_log_fields(enum ration_log_level level, const struct ration_log_field *fields,
                       size_t field_count, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#define ration_log(level, ...) ration_log_fields(level, NULL, 0, __VA_ARGS__)

/*
 * A bound on lines of one kind that clients can cause, so that they cannot fill the log:
 *
 *     static struct ration_log_bound bound = {"failed logins", .burst_lines = 20, .lines_per_second = 1};
 *     ration_log_bounded(&bound, RATION_LOG_WARNING, NULL, 0, "...");
 *
 * Lines beyond the bound are counted and not written. The next line of the kind that is written follows
 * one that says how many were not; ration_log_bound_report() writes that at the end. Static storage: a
 * bound is shared by all threads.
 */
struct ration_log_bound {
    const char
        *about; /* what the lines are about, for "12 lines about failed logins were not logged" */
    uint32_t burst_lines;
    uint32_t lines_per_second;
    struct ration_bucket bucket; /* private */
    uint64_t suppressed_count;   /* private; atomic */
};

/* As ration_log_fields(), within the bound. */
void ration_log_bounded(struct ration_log_bound *bound, enum ration_log_level level,
                        const struct ration_log_field *fields, size_t field_count,
                        const char *format, ...) __attribute__((format(printf, 5, 6)));

/* Writes how many lines were not, if any, and begins to count again. */
void ration_log_bound_report(struct ration_log_bound *bound);

/* Whether a line may be written at now_ns, by a clock that never goes back. False: it is counted. */
bool ration_log_bound_allows(struct ration_log_bound *bound, uint64_t now_ns);

/*
 * The text of a line, as it would be written at wall_ns, with its line end. Returns its size, which is
 * at most RATION_LOG_LINE_MAX: what has no room is left out.
 */
size_t ration_log_compose(bool is_json, unsigned long long wall_ns, enum ration_log_level level,
                          const char *message, const struct ration_log_field *fields,
                          size_t field_count, char buffer[RATION_LOG_LINE_MAX]);

#endif
