/*
 * http_request: bytes of a connection to HTTP/1.x requests.
 *
 * The caller keeps what it received in one buffer and shows all of it, from the first byte of the
 * request on, each time more has come. What was learned is kept in a small progress of the
 * caller's, in offsets, so the buffer may move between calls; no byte is looked at again because
 * a request came in pieces.
 *
 *     struct ration_http_progress progress = {0};
 *     switch (ration_http_read(&limits, &progress, bytes, size, &request)) {
 *     case RATION_HTTP_REQUEST: answer, drop request.consumed_bytes, call again
 *     case RATION_HTTP_MORE:    receive more (and send 100 Continue if progress.wants_continue)
 *     case RATION_HTTP_WRONG:   answer progress.status and progress.reason, close
 *     }
 *
 * Two readers that disagree about where a request ends let one client speak for another. So a
 * request that anyone might read differently is refused and its connection closed: lengths given
 * twice or in two ways, lines that do not end in CRLF, folded lines, blanks before a colon,
 * control bytes, a second Host. tests/unit/http_smuggling_test.c has the list.
 */
#ifndef RATION_PROTO_HTTP_REQUEST_H
#define RATION_PROTO_HTTP_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "ration/limiter.h"

#define RATION_HTTP_HEADERS_MAX 64

/* Empty lines before a request that are ignored, as RFC 9112 section 2.2 asks for. */
#define RATION_HTTP_EMPTY_LINES_MAX 4

/* Bounds of a chunked body's dress: one chunk-size line, and all of sizes, line ends and trailers. */
#define RATION_HTTP_CHUNK_LINE_BYTES_MAX     64
#define RATION_HTTP_CHUNK_OVERHEAD_BYTES_MAX 65536

/* All bytes_max together stay below 4 GiB. */
struct ration_http_limits {
    uint32_t head_bytes_max;
    uint32_t body_bytes_max;
    uint32_t target_bytes_max;
    uint32_t headers_max; /* at most RATION_HTTP_HEADERS_MAX */
};

#define RATION_HTTP_LIMITS_DEFAULT \
    ((struct ration_http_limits){16384, 1 << 20, 8192, RATION_HTTP_HEADERS_MAX})

/* The most bytes that the buffer of one request needs. */
static inline size_t ration_http_bytes_max(const struct ration_http_limits *limits)
{
    return (size_t)limits->head_bytes_max + limits->body_bytes_max +
           RATION_HTTP_CHUNK_OVERHEAD_BYTES_MAX + 2 * RATION_HTTP_EMPTY_LINES_MAX;
}

enum ration_http_result {
    RATION_HTTP_REQUEST,
    RATION_HTTP_MORE,
    RATION_HTTP_WRONG /* there is no next request: answer and close */
};

enum ration_http_phase { RATION_HTTP_HEAD = 0, RATION_HTTP_BODY, RATION_HTTP_REFUSED };

/* Zero bytes are a new request. The caller reads the first fields; the others are the reader's. */
struct ration_http_progress {
    const char *reason;  /* of WRONG, one line for a person. Static storage */
    uint16_t status;     /* of WRONG: 400, 413, 414, 417, 431, 501 or 505 */
    uint8_t phase;       /* enum ration_http_phase */
    bool wants_continue; /* the client waits for 100 Continue. Cleared by the caller who sent it */
    uint32_t needed_bytes; /* of MORE: no use to call with fewer. 0: not known */
    bool has_headers;      /* of MORE and WRONG: this call has read the headers of a request */

    uint32_t scanned_bytes; /* no line ends in these but those before line_start */
    uint32_t line_start;
    uint32_t line_count;
    uint32_t head_line_count;
    uint32_t head_bytes; /* 0 until the head is complete */
    uint32_t body_bytes; /* as announced, or decoded so far */
    uint32_t chunk_left_bytes;
    uint8_t framing;
    uint8_t chunk_phase;
};

_Static_assert(sizeof(struct ration_http_progress) <= 64, "one per connection");

struct ration_http_header {
    struct ration_key name; /* in lower case */
    struct ration_key value;
};

/* Everything points into the buffer. */
struct ration_http_request {
    struct ration_key method;
    struct ration_key target; /* as it came */
    struct ration_key path;   /* never empty; not decoded */
    struct ration_key query;  /* behind the ?, or empty */
    struct ration_key host;   /* empty if there is none (HTTP/1.0) */
    struct ration_key body;
    size_t consumed_bytes;
    unsigned minor_version; /* 0 or 1 */
    bool keep_alive;
    bool expects_continue;
    bool has_unread_body; /* announced with GET or HEAD, and not read: keep_alive is false */
    size_t header_count;
    struct ration_http_header headers[RATION_HTTP_HEADERS_MAX];
};

/*
 * Reads the request that bytes begin with; size is all that has come. Bytes are changed: names of
 * headers to lower case, a chunked body to its plain form. On REQUEST *progress is ready for the
 * next one. *request is written on REQUEST; with progress->has_headers it has all but the body and
 * consumed_bytes, so that a request can be refused before its body is there; otherwise it is scratch.
 *
 * A GET or HEAD never waits for a body. nginx's auth_request sends the Content-Length of a body
 * that it does not send; a client that does send one would have it read as its next request. So
 * such a request is answered, and it is the connection's last.
 */
enum ration_http_result ration_http_read(const struct ration_http_limits *limits,
                                         struct ration_http_progress *progress, char *bytes,
                                         size_t size, struct ration_http_request *request);

/*
 * How many of the bytes are empty lines before a request, or the beginning of one: a client that sent
 * nothing else is idle.
 */
size_t ration_http_empty_lines_size(const char *bytes, size_t size);

/* Whether a slice is this text; the second whatever its case (the text in lower case). */
static inline bool ration_http_is(const struct ration_key *slice, const char *text)
{
    size_t size = strlen(text);

    return slice->size == size && memcmp(slice->bytes, text, size) == 0;
}

bool ration_http_is_any_case(const struct ration_key *slice, const char *text);

/* The value of the first header of that name (given in lower case), or NULL. */
static inline const struct ration_key *ration_http_header(const struct ration_http_request *request,
                                                          const char *name)
{
    for (size_t i = 0; i < request->header_count; i++) {
        if (ration_http_is(&request->headers[i].name, name))
            return &request->headers[i].value;
    }
    return NULL;
}

#endif
