/*
 * http_head: finds and checks the lines of headers, chunk sizes and trailers without scanning a byte twice;
 * parses complete request headers, and determines how the body is framed.
 */
#ifndef RATION_CODEC_HTTP_HTTP_HEAD_H
#define RATION_CODEC_HTTP_HTTP_HEAD_H

#include "codec/http/http_request.h"

enum ration_http_framing {
    RATION_HTTP_NO_BODY = 0,
    RATION_HTTP_LENGTH, /* the body has progress->body_bytes bytes */
    RATION_HTTP_CHUNKED
};

/* Stores the reason for refusing the request. Returns RATION_HTTP_WRONG. */
enum ration_http_result ration_http_refuse(struct ration_http_progress *progress, uint16_t status,
                                           const char *reason);

enum ration_http_line {
    RATION_HTTP_LINE,
    RATION_HTTP_LINE_MORE,
    RATION_HTTP_LINE_LONG,
    RATION_HTTP_LINE_BARE /* a line feed without CR */
};

/*
 * Searches for the end of the line that begins at progress->line_start, in size bytes. On LINE,
 * *out_size is its size without CRLF; ration_http_line_pass() then advances to the next line. The
 * result does not depend on how the stream is split into reads.
 */
enum ration_http_line ration_http_line_find(struct ration_http_progress *progress,
                                            const char *bytes, size_t size, size_t size_max,
                                            size_t *out_size);
void ration_http_line_pass(struct ration_http_progress *progress);

/* Whether all bytes may occur in tokens: methods and names of headers. */
bool ration_http_is_token(const char *bytes, size_t size);

/*
 * Checks that a line is one header: a token, directly followed by a colon, and a value without
 * control bytes. Returns NULL if it is, otherwise the reason.
 */
const char *ration_http_line_error(const char *line, size_t size);

/*
 * Checks a request line. Returns NULL if it is acceptable; otherwise the reason, with the HTTP
 * status in *out_status.
 */
const char *ration_http_request_line_error(const char *line, size_t size, size_t target_bytes_max,
                                           uint16_t *out_status);

/*
 * Parses the progress->head_bytes of headers whose lines have been checked one by one. Stores
 * framing and body_bytes in progress. Returns false if the request is refused; progress then has
 * the reason.
 */
bool ration_http_head_parse(const struct ration_http_limits *limits,
                            struct ration_http_progress *progress, char *bytes,
                            struct ration_http_request *request);

#endif
