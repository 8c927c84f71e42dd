/*
 * http_head: a complete head to the fields of a request, and to how its body is framed.
 */
#ifndef RATION_PROTO_HTTP_HEAD_H
#define RATION_PROTO_HTTP_HEAD_H

#include "proto/http_request.h"

enum ration_http_framing {
    RATION_HTTP_NO_BODY = 0,
    RATION_HTTP_LENGTH, /* progress->body_bytes of them */
    RATION_HTTP_CHUNKED
};

/*
 * Whether a line is a request line that this reader takes. If not, *out_status and the reason
 * returned say why; else NULL.
 */
const char *ration_http_request_line_fault(const char *line, size_t size, size_t target_bytes_max,
                                           uint16_t *out_status);

/*
 * Parses the progress->head_bytes of a head whose lines were looked at one by one, and writes
 * framing and body_bytes to progress. false: refused, as noted in progress.
 */
bool ration_http_head_parse(const struct ration_http_limits *limits,
                            struct ration_http_progress *progress, char *bytes,
                            struct ration_http_request *request);

#endif
