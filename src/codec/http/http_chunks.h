/*
 * http_chunks: decodes a chunked body in place.
 *
 *     5;name=value CRLF  hello CRLF  1 CRLF  ! CRLF  0 CRLF  Trailer: x CRLF  CRLF     -> hello!
 *
 * Each byte of the body moves at most once, to directly after the bytes decoded before it.
 * Extensions and trailers are validated and dropped.
 */
#ifndef RATION_CODEC_HTTP_HTTP_CHUNKS_H
#define RATION_CODEC_HTTP_HTTP_CHUNKS_H

#include "codec/http/http_request.h"

/*
 * Continues with the body that begins at progress->head_bytes. On REQUEST, progress->body_bytes is
 * the decoded size, and the encoded body ends at progress->line_start.
 */
enum ration_http_result ration_http_chunks_read(const struct ration_http_limits *limits,
                                                struct ration_http_progress *progress, char *bytes,
                                                size_t size);

#endif
