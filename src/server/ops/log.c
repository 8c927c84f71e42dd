#include "server/ops/log.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/wall.h"
#include "ration/clock.h"
#include "ration/limit.h"

#define NS_PER_S  1000000000u
#define NS_PER_MS 1000000u

/* Reserved for the end of a line. */
#define END_SIZE sizeof("...\"}\n")

static struct {
    pthread_mutex_t lock;
    int file;
    bool is_json;
    enum ration_log_level level_min;
    unsigned long lost_count;
} sink = {.lock = PTHREAD_MUTEX_INITIALIZER, .file = STDERR_FILENO};

void ration_log_open(int file, bool is_json, enum ration_log_level level_min)
{
    sink.file = file;
    sink.level_min = level_min;
    sink.is_json = is_json;
}

/* Composing ----------------------------------------------------------------------------------- */

struct line {
    char *bytes;
    size_t size;
};

/* Adds all bytes; false, and nothing is added, if they do not fit. */
static bool add_bytes_whole(struct line *line, const char *text, size_t size)
{
    if (line->size + size + END_SIZE > RATION_LOG_LINE_MAX)
        return false;
    memcpy(line->bytes + line->size, text, size);
    line->size += size;
    return true;
}

static bool add_text(struct line *line, const char *text)
{
    return add_bytes_whole(line, text, strlen(text));
}

/*
 * Printable ASCII is written as it is, other bytes as \xHH. JSON has only \u00HH, so a JSON reader sees a byte
 * above 0x7e as the Unicode character with that number.
 */
static bool add_escaped_byte(struct line *line, bool is_json, unsigned char byte)
{
    char text[8];

    if (byte == '"' || byte == '\\')
        snprintf(text, sizeof(text), "\\%c", byte);
    else if (byte >= 0x20 && byte < 0x7f)
        snprintf(text, sizeof(text), "%c", byte);
    else
        snprintf(text, sizeof(text), is_json ? "\\u%04x" : "\\x%02x", byte);
    return add_text(line, text);
}

static void add_escaped(struct line *line, bool is_json, const void *bytes, size_t size, size_t max)
{
    size_t shown = 0;

    while (shown < size && shown < max &&
           add_escaped_byte(line, is_json, ((const unsigned char *)bytes)[shown]))
        shown++;
    if (shown < size) {
        memcpy(line->bytes + line->size, "...", 3); /* END_SIZE has room */
        line->size += 3;
    }
}

/* The message is our own text: as plain text its quotes stay unescaped; control bytes never break the line. */
static void add_message(struct line *line, bool is_json, const char *message)
{
    for (const char *next = message; *next != '\0'; next++) {
        bool is_plain = !is_json && *next >= 0x20 && *next < 0x7f;

        if (!(is_plain ? add_bytes_whole(line, next, 1)
                       : add_escaped_byte(line, is_json, (unsigned char)*next)))
            return;
    }
}

static void add_time(struct line *line, unsigned long long wall_ns)
{
    time_t seconds = (time_t)(wall_ns / NS_PER_S);
    char text[40], whole[sizeof("2026-11-16T13:57:01")];
    struct tm parts;

    gmtime_r(&seconds, &parts);
    strftime(whole, sizeof(whole), "%Y-%m-%dT%H:%M:%S", &parts);
    snprintf(text, sizeof(text), "%s.%03uZ", whole, (unsigned)(wall_ns % NS_PER_S / NS_PER_MS));
    add_text(line, text);
}

static const char *level_word(enum ration_log_level level)
{
    static const char *const words[] = {"info", "warning", "error"};

    return words[level];
}

static void add_field(struct line *line, bool is_json, const struct ration_log_field *field)
{
    size_t before = line->size;

    if (add_text(line, is_json ? ",\"" : " ") && add_text(line, field->name) &&
        add_text(line, is_json ? "\":\"" : "=\"")) {
        add_escaped(line, is_json, field->bytes, field->size, RATION_LOG_VALUE_MAX);
        if (line->size + END_SIZE <= RATION_LOG_LINE_MAX) {
            line->bytes[line->size++] = '"';
            return;
        }
    }
    line->size = before; /* no room for the whole field */
}

size_t ration_log_compose(bool is_json, unsigned long long wall_ns, enum ration_log_level level,
                          const char *message, const struct ration_log_field *fields,
                          size_t field_count, char buffer[RATION_LOG_LINE_MAX])
{
    struct line line = {buffer, 0};

    add_text(&line, is_json ? "{\"time\":\"" : "");
    add_time(&line, wall_ns);
    add_text(&line, is_json ? "\",\"level\":\"" : " ");
    add_text(&line, level_word(level));
    add_text(&line, is_json ? "\",\"message\":\"" : " ");
    add_message(&line, is_json, message);
    if (is_json)
        line.bytes[line.size++] = '"';
    for (size_t i = 0; i < field_count && i < RATION_LOG_FIELDS_MAX; i++)
        add_field(&line, is_json, &fields[i]);
    if (is_json)
        line.bytes[line.size++] = '}';
    line.bytes[line.size++] = '\n';
    return line.size;
}

/* Writing ------------------------------------------------------------------------------------- */

/* Waits for the log. A pipe that is writable accepts PIPE_BUF bytes at once. */
static bool is_ready(void)
{
    struct pollfd poll_file = {.fd = sink.file, .events = POLLOUT};

    return poll(&poll_file, 1, RATION_LOG_WAIT_MS) == 1 && (poll_file.revents & POLLOUT) != 0;
}

static bool write_line(const char *bytes, size_t size)
{
    ssize_t written;

    if (!is_ready())
        return false;
    do {
        written = write(sink.file, bytes, size);
    } while (written < 0 && errno == EINTR);
    return written == (ssize_t)size;
}

static bool write_lost_count(void)
{
    char bytes[RATION_LOG_LINE_MAX], message[128];

    if (sink.lost_count == 0)
        return true;
    snprintf(message, sizeof(message),
             "%lu log lines were lost: writing them failed or took longer than %d ms",
             sink.lost_count, RATION_LOG_WAIT_MS);
    if (!write_line(bytes, ration_log_compose(sink.is_json, ration_wall_now(), RATION_LOG_WARNING,
                                              message, NULL, 0, bytes)))
        return false;
    sink.lost_count = 0;
    return true;
}

static void log_line(enum ration_log_level level, const struct ration_log_field *fields,
                     size_t field_count, const char *format, va_list arguments)
{
    char bytes[RATION_LOG_LINE_MAX], message[RATION_LOG_MESSAGE_MAX];
    size_t size;

    if (level < sink.level_min)
        return;
    vsnprintf(message, sizeof(message), format, arguments);
    size = ration_log_compose(sink.is_json, ration_wall_now(), level, message, fields, field_count,
                              bytes);
    pthread_mutex_lock(&sink.lock);
    if (!write_lost_count() || !write_line(bytes, size))
        sink.lost_count++;
    pthread_mutex_unlock(&sink.lock);
}

void ration_log_fields(enum ration_log_level level, const struct ration_log_field *fields,
                       size_t field_count, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    log_line(level, fields, field_count, format, arguments);
    va_end(arguments);
}

/* Bounded lines ------------------------------------------------------------------------------- */

bool ration_log_bound_allows(struct ration_log_bound *bound, uint64_t now_ns)
{
    struct ration_limit_spec spec = {
        .tokens = bound->lines_per_second, .period_ns = NS_PER_S, .burst = bound->burst_lines};
    struct ration_limit limit;

    if (ration_limit_make(&spec, &limit, NULL) != RATION_OK || /* impossible */
        ration_bucket_allow_at(&bound->bucket, &limit, 1, now_ns))
        return true;
    __atomic_add_fetch(&bound->suppressed_count, 1, __ATOMIC_RELAXED);
    return false;
}

void ration_log_bound_report(struct ration_log_bound *bound)
{
    uint64_t count = __atomic_exchange_n(&bound->suppressed_count, 0, __ATOMIC_RELAXED);

    if (count > 0)
        ration_log(
            RATION_LOG_WARNING,
            "%llu lines about %s were not logged: the limit is %lu at once and %lu per second",
            (unsigned long long)count, bound->about, (unsigned long)bound->burst_lines,
            (unsigned long)bound->lines_per_second);
}

void ration_log_bounded(struct ration_log_bound *bound, enum ration_log_level level,
                        const struct ration_log_field *fields, size_t field_count,
                        const char *format, ...)
{
    va_list arguments;

    if (!ration_log_bound_allows(bound, ration_clock_default_now()))
        return;
    ration_log_bound_report(bound);
    va_start(arguments, format);
    log_line(level, fields, field_count, format, arguments);
    va_end(arguments);
}
