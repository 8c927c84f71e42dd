#include "codec/http/http_chunks.h"

#include <string.h>

#include "base/text.h"
#include "codec/http/http_lines.h"

enum chunk_phase { PHASE_SIZE = 0, PHASE_DATA, PHASE_DATA_END, PHASE_TRAILERS };

/* Maximum number of digits of a chunk size: enough for the largest body. */
#define HEX_DIGITS_MAX 8

/* The number of bytes received so far that are not part of the body. */
static size_t overhead_bytes(const struct ration_http_progress *progress)
{
    return (size_t)progress->line_start - progress->head_bytes - progress->body_bytes;
}

/* An extension is a semicolon and printable bytes. Most clients send none. */
static bool is_extension(const char *bytes, size_t size)
{
    if (size == 0)
        return true;
    for (size_t i = 0; i < size; i++) {
        if ((unsigned char)bytes[i] < ' ' || (unsigned char)bytes[i] > '~')
            return false;
    }
    return bytes[0] == ';';
}

static enum ration_http_result refuse_line(struct ration_http_progress *progress,
                                           enum ration_http_line line)
{
    if (progress->chunk_phase == PHASE_DATA_END)
        return ration_http_refuse(progress, 400, "a chunk is longer than its size says");
    return ration_http_refuse(progress, 400,
                              line == RATION_HTTP_LINE_LONG
                                  ? "a line of a chunked body is too long"
                                  : "a line of a chunked body must end in CRLF");
}

static enum ration_http_result read_size(const struct ration_http_limits *limits,
                                         struct ration_http_progress *progress, const char *line,
                                         size_t line_size)
{
    uint64_t chunk = 0;
    size_t digits = 0;
    for (; digits < line_size && ration_text_hex(line[digits]) >= 0; digits++) {
        if (digits == HEX_DIGITS_MAX)
            return ration_http_refuse(progress, 400, "a chunk's size has too many digits");
        chunk = chunk * 16 + (uint64_t)ration_text_hex(line[digits]);
    }
    if (digits == 0 || !is_extension(line + digits, line_size - digits))
        return ration_http_refuse(progress, 400, "a chunk's size must be hexadecimal digits");
    if (progress->body_bytes + chunk > limits->body_bytes_max)
        return ration_http_refuse(progress, 413, "the body is too large");
    ration_http_line_pass(progress);
    progress->chunk_left_bytes = (uint32_t)chunk;
    progress->chunk_phase = chunk ? PHASE_DATA : PHASE_TRAILERS;
    return RATION_HTTP_MORE;
}

static void move_data(struct ration_http_progress *progress, char *bytes, size_t size)
{
    size_t available = size - progress->line_start;
    size_t count = available < progress->chunk_left_bytes ? available : progress->chunk_left_bytes;
    memmove(bytes + progress->head_bytes + progress->body_bytes, bytes + progress->line_start,
            count);
    progress->body_bytes += (uint32_t)count;
    progress->chunk_left_bytes -= (uint32_t)count;
    progress->line_start += (uint32_t)count;
    progress->scanned_bytes = progress->line_start;
    if (progress->chunk_left_bytes == 0)
        progress->chunk_phase = PHASE_DATA_END;
}

static enum ration_http_result read_line(const struct ration_http_limits *limits,
                                         struct ration_http_progress *progress, const char *bytes,
                                         size_t line_size)
{
    const char *line = bytes + progress->line_start, *reason;
    switch (progress->chunk_phase) {
    case PHASE_SIZE:
        return read_size(limits, progress, line, line_size);
    case PHASE_DATA_END: /* the line is empty, because line_size_max() is 0 here */
        ration_http_line_pass(progress);
        progress->chunk_phase = PHASE_SIZE;
        return RATION_HTTP_MORE;
    default:
        ration_http_line_pass(progress);
        if (line_size == 0)
            return RATION_HTTP_REQUEST;
        reason = ration_http_line_error(line, line_size);
        return reason ? ration_http_refuse(progress, 400, reason) : RATION_HTTP_MORE;
    }
}

static size_t line_size_max(const struct ration_http_limits *limits,
                            const struct ration_http_progress *progress)
{
    switch (progress->chunk_phase) {
    case PHASE_SIZE:
        return RATION_HTTP_CHUNK_LINE_BYTES_MAX;
    case PHASE_DATA_END:
        return 0;
    default:
        return limits->head_bytes_max;
    }
}

/*
 * Computes the minimum number of bytes needed: in a chunk, the byte after it. Waiting for the
 * shortest end of the body too would leave a client without its 400 whose chunk does not end in
 * CRLF and who sends nothing more.
 */
static void set_needed_bytes(struct ration_http_progress *progress, size_t size)
{
    progress->needed_bytes = progress->chunk_phase == PHASE_DATA
                                 ? progress->line_start + progress->chunk_left_bytes + 1
                                 : (uint32_t)size + 1;
}

enum ration_http_result ration_http_chunks_read(const struct ration_http_limits *limits,
                                                struct ration_http_progress *progress, char *bytes,
                                                size_t size)
{
    enum ration_http_result result = RATION_HTTP_MORE;
    while (result == RATION_HTTP_MORE) {
        size_t line_size;
        if (progress->chunk_phase == PHASE_DATA) {
            move_data(progress, bytes, size);
            if (progress->chunk_phase == PHASE_DATA)
                break;
        }
        size_t left = RATION_HTTP_CHUNK_OVERHEAD_BYTES_MAX - overhead_bytes(progress);
        size_t visible = size - progress->line_start < left ? size : progress->line_start + left;
        enum ration_http_line line = ration_http_line_find(
            progress, bytes, visible, line_size_max(limits, progress), &line_size);
        if (line == RATION_HTTP_LINE_MORE && visible == progress->line_start + left)
            return ration_http_refuse(progress, 413,
                                      "the body's chunks are too small, or its trailers too large");
        if (line == RATION_HTTP_LINE_MORE)
            break;
        if (line != RATION_HTTP_LINE)
            return refuse_line(progress, line);
        result = read_line(limits, progress, bytes, line_size);
    }
    if (result == RATION_HTTP_MORE)
        set_needed_bytes(progress, size);
    return result;
}
