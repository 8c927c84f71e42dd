/*
 * A request is parsed in three steps: the lines of the headers, each checked as it arrives; then
 * the headers as a whole, once; then the body. If the body arrives later, the headers are parsed a
 * second time when it is complete, because slices of them would not survive a buffer that moves.
 */
#include "codec/http/http_request.h"

#include <string.h>

#include "base/text.h"
#include "codec/http/http_head.h"

/* The maximum size of a request line without its target. */
#define AROUND_TARGET_BYTES_MAX 48

/*
 * A chunked body is decoded in place:
 *
 *     5;name=value CRLF  hello CRLF  1 CRLF  ! CRLF  0 CRLF  Trailer: x CRLF  CRLF     -> hello!
 *
 * Each byte of the body moves at most once, to directly after the bytes decoded before it.
 * Extensions and trailers are validated and dropped.
 */
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

/*
 * Continues with the body that begins at progress->head_bytes. On REQUEST, progress->body_bytes is
 * the decoded size, and the encoded body ends at progress->line_start.
 */
static enum ration_http_result read_chunks(const struct ration_http_limits *limits,
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

bool ration_http_is_any_case(const struct ration_key *slice, const char *text)
{
    const char *bytes = slice->bytes;
    for (size_t i = 0; i < slice->size; i++) {
        if (text[i] == '\0' || ration_text_lower(bytes[i]) != text[i])
            return false;
    }
    return text[slice->size] == '\0';
}

static enum ration_http_result check_line(const struct ration_http_limits *limits,
                                          struct ration_http_progress *progress, const char *line,
                                          size_t size)
{
    uint16_t status = 400;
    const char *reason;
    if (progress->line_count == 0)
        reason = ration_http_request_line_error(line, size, limits->target_bytes_max, &status);
    else
        reason = ration_http_line_error(line, size);
    return reason ? ration_http_refuse(progress, status, reason) : RATION_HTTP_MORE;
}

static enum ration_http_result refuse_long(struct ration_http_progress *progress)
{
    if (progress->line_count == 0)
        return ration_http_refuse(progress, 414, "the path is too long");
    return ration_http_refuse(progress, 431, "the headers are too large");
}

/*
 * Finds the end of the headers, line by line. REQUEST: they are complete, and each line is valid.
 */
static enum ration_http_result find_head(const struct ration_http_limits *limits,
                                         struct ration_http_progress *progress, const char *bytes,
                                         size_t size)
{
    size_t visible = size < limits->head_bytes_max ? size : limits->head_bytes_max;
    size_t line_size;
    if (size > 0 && !(bytes[0] >= 'A' && bytes[0] <= 'Z'))
        return ration_http_refuse(progress, 400, "a request begins with a method in capitals");
    for (;;) {
        size_t line_size_max = progress->line_count == 0
                                   ? limits->target_bytes_max + AROUND_TARGET_BYTES_MAX
                                   : limits->head_bytes_max;
        switch (ration_http_line_find(progress, bytes, visible, line_size_max, &line_size)) {
        case RATION_HTTP_LINE_LONG:
            return refuse_long(progress);
        case RATION_HTTP_LINE_BARE:
            return ration_http_refuse(progress, 400, "a line must end in CRLF");
        case RATION_HTTP_LINE_MORE:
            return visible == limits->head_bytes_max ? refuse_long(progress) : RATION_HTTP_MORE;
        case RATION_HTTP_LINE:
            break;
        }
        if (line_size == 0 && progress->line_count > 0)
            break;
        if (check_line(limits, progress, bytes + progress->line_start, line_size) ==
            RATION_HTTP_WRONG)
            return RATION_HTTP_WRONG;
        ration_http_line_pass(progress);
    }
    ration_http_line_pass(progress);
    progress->head_bytes = progress->line_start;
    return RATION_HTTP_REQUEST;
}

/* Whether the body is complete. */
static enum ration_http_result find_body(const struct ration_http_limits *limits,
                                         struct ration_http_progress *progress, char *bytes,
                                         size_t size)
{
    switch (progress->framing) {
    case RATION_HTTP_CHUNKED:
        return read_chunks(limits, progress, bytes, size);
    case RATION_HTTP_LENGTH:
        progress->needed_bytes = progress->head_bytes + progress->body_bytes;
        return size < progress->needed_bytes ? RATION_HTTP_MORE : RATION_HTTP_REQUEST;
    default:
        return RATION_HTTP_REQUEST;
    }
}

static void finish_request(struct ration_http_progress *progress, const char *bytes,
                           struct ration_http_request *request)
{
    request->consumed_bytes = progress->head_bytes;
    if (progress->framing != RATION_HTTP_NO_BODY)
        request->body =
            (struct ration_key){bytes + progress->head_bytes, (size_t)progress->body_bytes};
    if (progress->framing == RATION_HTTP_LENGTH)
        request->consumed_bytes += progress->body_bytes;
    if (progress->framing == RATION_HTTP_CHUNKED)
        request->consumed_bytes = progress->line_start;
    *progress = (struct ration_http_progress){0};
}

/* Parses the headers again for a request whose body arrived later. They were accepted before. */
static void parse_again(const struct ration_http_limits *limits,
                        const struct ration_http_progress *progress, char *bytes,
                        struct ration_http_request *request)
{
    struct ration_http_progress scratch = *progress;
    scratch.line_count = progress->head_line_count;
    ration_http_head_parse(limits, &scratch, bytes, request);
}

size_t ration_http_empty_lines_size(const char *bytes, size_t size)
{
    size_t offset = 0;

    while (offset < 2 * RATION_HTTP_EMPTY_LINES_MAX && offset < size &&
           bytes[offset] == "\r\n"[offset % 2])
        offset++;
    return offset < size ? offset & ~(size_t)1
                         : offset; /* a CR before another byte belongs to the request */
}

/* Reads from the first byte of the request line on. */
static enum ration_http_result read_request(const struct ration_http_limits *limits,
                                            struct ration_http_progress *progress, char *bytes,
                                            size_t size, struct ration_http_request *request)
{
    enum ration_http_result result;
    bool is_parsed = false;

    if (progress->phase == RATION_HTTP_REFUSED)
        return RATION_HTTP_WRONG;
    if (progress->phase == RATION_HTTP_HEAD) {
        result = find_head(limits, progress, bytes, size);
        if (result != RATION_HTTP_REQUEST)
            return result;
        progress->head_line_count = progress->line_count;
        if (!ration_http_head_parse(limits, progress, bytes, request))
            return RATION_HTTP_WRONG;
        progress->phase = RATION_HTTP_BODY;
        is_parsed = true;
    }
    progress->has_headers = is_parsed;
    result = find_body(limits, progress, bytes, size);
    if (is_parsed && result == RATION_HTTP_MORE)
        progress->wants_continue = request->expects_continue && size == progress->head_bytes;
    if (result != RATION_HTTP_REQUEST)
        return result;
    if (!is_parsed)
        parse_again(limits, progress, bytes, request);
    finish_request(progress, bytes, request);
    return result;
}

enum ration_http_result ration_http_read(const struct ration_http_limits *limits,
                                         struct ration_http_progress *progress, char *bytes,
                                         size_t size, struct ration_http_request *request)
{
    /* Counted again in each call, so that no state depends on how the bytes were split. */
    size_t empty_bytes = ration_http_empty_lines_size(bytes, size);
    enum ration_http_result result;

    if (empty_bytes == size && progress->phase == RATION_HTTP_HEAD)
        return RATION_HTTP_MORE;
    result = read_request(limits, progress, bytes + empty_bytes, size - empty_bytes, request);
    if (result == RATION_HTTP_REQUEST)
        request->consumed_bytes += empty_bytes;
    else if (result == RATION_HTTP_MORE && progress->needed_bytes > 0)
        progress->needed_bytes += (uint32_t)empty_bytes;
    return result;
}
