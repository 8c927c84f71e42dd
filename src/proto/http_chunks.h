/*
 * http_chunks: a chunked body made plain, where it lies.
 *
 *     5;name=value CRLF  hello CRLF  1 CRLF  ! CRLF  0 CRLF  Trailer: x CRLF  CRLF     -> hello!
 *
 * Each byte of the body moves at most once, to the place right behind those before it. Extensions
 * and trailers are checked and dropped.
 */
#ifndef RATION_PROTO_HTTP_CHUNKS_H
#define RATION_PROTO_HTTP_CHUNKS_H

#include "proto/http_request.h"

/*
 * Goes on with the body that begins at progress->head_bytes. On REQUEST progress->body_bytes is
 * its plain size, and the encoded one ends at progress->line_start.
 */
enum ration_http_result ration_http_chunks_read(const struct ration_http_limits *limits,
                                                struct ration_http_progress *progress, char *bytes,
                                                size_t size);

#endif
