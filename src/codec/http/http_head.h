/* http_head: parses complete request headers, and determines how the body is framed. */
#ifndef RATION_CODEC_HTTP_HTTP_HEAD_H
#define RATION_CODEC_HTTP_HTTP_HEAD_H

#include "codec/http/http_request.h"

enum ration_http_framing {
    RATION_HTTP_NO_BODY = 0,
    RATION_HTTP_LENGTH, /* the body has progress->body_bytes bytes */
    RATION_HTTP_CHUNKED
};

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
