/*
 * http_request: parses the bytes of a connection into HTTP/1.x requests.
 *
 * The caller stores the received bytes in one buffer and passes all of them, from the first byte of
 * the request on, each time more arrive. The parser saves its state in a small progress struct of
 * the caller. The state consists of offsets, so the buffer may move between calls, and no byte is
 * scanned again because a request came in pieces.
 *
 *     struct ration_http_progress progress = {0};
 *     switch (ration_http_read(&limits, &progress, bytes, size, &request)) {
 *     case RATION_HTTP_REQUEST: answer, drop request.consumed_bytes, call again
 *     case RATION_HTTP_MORE:    receive more (and send 100 Continue if progress.wants_continue)
 *     case RATION_HTTP_WRONG:   answer progress.status and progress.reason, close
 *     }
 *
 * If two parsers disagree about where a request ends, one client can inject requests in the name of
 * another (request smuggling). So a request that another parser might read differently is refused
 * and its connection closed: lengths given twice or in two ways, lines that do not end in CRLF,
 * folded lines, blanks before a colon, control bytes, a second Host.
 * tests/unit/codec/http/http_smuggling_test.c has the list.
 */
#ifndef RATION_CODEC_HTTP_HTTP_REQUEST_H
#define RATION_CODEC_HTTP_HTTP_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "ration/limiter.h"

#define RATION_HTTP_HEADERS_MAX 64

/* Empty lines before a request that are ignored, as RFC 9112 section 2.2 requires. */
#define RATION_HTTP_EMPTY_LINES_MAX 4

/*
 * Limits for the overhead of a chunked body: one chunk-size line, and all chunk sizes, line ends
 * and trailers together.
 */
#define RATION_HTTP_CHUNK_LINE_BYTES_MAX     64
#define RATION_HTTP_CHUNK_OVERHEAD_BYTES_MAX 65536

/* The sum of all bytes_max must stay below 4 GiB. */
struct ration_http_limits {
    uint32_t head_bytes_max;
    uint32_t body_bytes_max;
    uint32_t target_bytes_max;
    uint32_t headers_max; /* at most RATION_HTTP_HEADERS_MAX */
};

#define RATION_HTTP_LIMITS_DEFAULT \
    ((struct ration_http_limits){16384, 1 << 20, 8192, RATION_HTTP_HEADERS_MAX})

/* The maximum number of bytes that the buffer of one request needs. */
static inline size_t ration_http_bytes_max(const struct ration_http_limits *limits)
{
    return (size_t)limits->head_bytes_max + limits->body_bytes_max +
           RATION_HTTP_CHUNK_OVERHEAD_BYTES_MAX + 2 * RATION_HTTP_EMPTY_LINES_MAX;
}

enum ration_http_result {
    RATION_HTTP_REQUEST,
    RATION_HTTP_MORE,
    RATION_HTTP_WRONG /* the stream has no further request: the caller answers and closes */
};

enum ration_http_phase { RATION_HTTP_HEAD = 0, RATION_HTTP_BODY, RATION_HTTP_REFUSED };

/*
 * All zero bytes: a new request. The caller reads the first fields; the others are private to the
 * parser.
 */
struct ration_http_progress {
    const char *reason; /* for WRONG: a one-line explanation. Static storage */
    uint16_t status;    /* for WRONG: 400, 413, 414, 417, 431, 501 or 505 */
    uint8_t phase;      /* enum ration_http_phase */
    /* The client waits for 100 Continue; cleared by the caller when it has sent it */
    bool wants_continue;
    uint32_t needed_bytes; /* for MORE: a call with fewer bytes returns MORE again. 0: unknown */
    bool has_headers;      /* for MORE and WRONG: this call has parsed the headers of a request */

    uint32_t scanned_bytes; /* after line_start, these bytes contain no end of a line */
    uint32_t line_start;
    uint32_t line_count;
    uint32_t head_line_count;
    uint32_t head_bytes; /* 0 until the headers are complete */
    uint32_t body_bytes; /* as announced, or as decoded so far */
    uint32_t chunk_left_bytes;
    uint8_t framing;
    uint8_t chunk_phase;
};

_Static_assert(sizeof(struct ration_http_progress) <= 64, "one per connection");

struct ration_http_header {
    struct ration_key name; /* in lower case */
    struct ration_key value;
};

/* All keys point into the buffer. */
struct ration_http_request {
    struct ration_key method;
    struct ration_key target; /* as received */
    struct ration_key path;   /* never empty; not decoded */
    struct ration_key query;  /* the text after the ?, or empty */
    struct ration_key host;   /* empty if there is none (HTTP/1.0) */
    struct ration_key body;
    size_t consumed_bytes;
    unsigned minor_version; /* 0 or 1 */
    bool keep_alive;
    bool expects_continue;
    /* A body was announced with GET or HEAD and is not read: keep_alive is false */
    bool has_unread_body;
    size_t header_count;
    struct ration_http_header headers[RATION_HTTP_HEADERS_MAX];
};

/*
 * Reads the request at the start of bytes; size is the number of bytes received so far. The bytes
 * are modified: names of headers are converted to lower case, and a chunked body is decoded. On
 * REQUEST, *progress is ready for the next request. *request is written on REQUEST. If
 * progress->has_headers is set, it contains everything except the body and consumed_bytes, so that
 * the caller can refuse a request before its body arrives; otherwise its contents are undefined.
 *
 * A GET or HEAD never waits for a body. nginx's auth_request sends the Content-Length of a body
 * that it does not send, but the body of a client that does send one would be read as its next
 * request. So such a request is answered, and the connection is closed after it.
 */
enum ration_http_result ration_http_read(const struct ration_http_limits *limits,
                                         struct ration_http_progress *progress, char *bytes,
                                         size_t size, struct ration_http_request *request);

/*
 * The number of bytes that are empty lines before a request, or the start of one. A client that has
 * sent nothing else is idle.
 */
size_t ration_http_empty_lines_size(const char *bytes, size_t size);

/*
 * Whether a slice equals text. ration_http_is_any_case() ignores the case of the slice; its text
 * must be in lower case.
 */
static inline bool ration_http_is(const struct ration_key *slice, const char *text)
{
    size_t size = strlen(text);

    return slice->size == size && memcmp(slice->bytes, text, size) == 0;
}

bool ration_http_is_any_case(const struct ration_key *slice, const char *text);

/* Returns the value of the first header of that name (in lower case), or NULL. */
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
