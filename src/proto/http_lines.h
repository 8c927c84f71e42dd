/*
 * http_lines: the lines that heads, chunk sizes and trailers are made of, found without looking
 * at a byte twice, and what may stand in them.
 */
#ifndef RATION_PROTO_HTTP_LINES_H
#define RATION_PROTO_HTTP_LINES_H

#include "proto/http_request.h"

/* Notes why the request is refused. Returns RATION_HTTP_WRONG. */
enum ration_http_result ration_http_refuse(struct ration_http_progress *progress, uint16_t status,
                                           const char *reason);

enum ration_http_line {
    RATION_HTTP_LINE,
    RATION_HTTP_LINE_MORE,
    RATION_HTTP_LINE_LONG,
    RATION_HTTP_LINE_BARE /* a line feed alone */
};

/*
 * Looks for the end of the line that begins at progress->line_start, in size bytes. On LINE
 * *out_size is its size without CRLF; ration_http_line_pass() goes on to the next. What a stream
 * gives does not depend on how it is cut.
 */
enum ration_http_line ration_http_line_find(struct ration_http_progress *progress,
                                            const char *bytes, size_t size, size_t size_max,
                                            size_t *out_size);
void ration_http_line_pass(struct ration_http_progress *progress);

/* Bytes of tokens: methods, names of headers. */
bool ration_http_is_token(const char *bytes, size_t size);

/* Bytes that print and are no blank. */
bool ration_http_is_graphic(const char *bytes, size_t size);

/*
 * Whether a line is one header: a token, a colon right behind it, and a value without control
 * bytes. If not, says why; else NULL.
 */
const char *ration_http_line_fault(const char *line, size_t size);

#endif
