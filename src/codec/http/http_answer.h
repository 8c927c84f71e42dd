/*
 * http_answer: writes HTTP/1.1 responses to an output, from front to back.
 *
 *     ration_http_answer_begin(&answer, &output, &(struct ration_http_answer_options){
 *         .status = 200, .keep_alive = request.keep_alive});
 *     ration_fields_write_state(&output, ...);                   // whole header lines, any number
 *     ration_http_answer_body(&answer, "application/json");
 *     ration_output_append_text(&output, "{}");                  // any bytes, any number
 *     ration_http_answer_end(&answer);                           // now Content-Length is known
 */
#ifndef RATION_CODEC_HTTP_HTTP_ANSWER_H
#define RATION_CODEC_HTTP_HTTP_ANSWER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/output.h"
#include "codec/http/http_request.h"

/* All statuses that the server sends. */
#define RATION_HTTP_STATUS_MAP(X)             \
    X(200, "OK")                              \
    X(202, "Accepted")                        \
    X(204, "No Content")                      \
    X(304, "Not Modified")                    \
    X(400, "Bad Request")                     \
    X(401, "Unauthorized")                    \
    X(403, "Forbidden")                       \
    X(404, "Not Found")                       \
    X(405, "Method Not Allowed")              \
    X(406, "Not Acceptable")                  \
    X(408, "Request Timeout")                 \
    X(409, "Conflict")                        \
    X(411, "Length Required")                 \
    X(413, "Content Too Large")               \
    X(414, "URI Too Long")                    \
    X(415, "Unsupported Media Type")          \
    X(417, "Expectation Failed")              \
    X(422, "Unprocessable Content")           \
    X(429, "Too Many Requests")               \
    X(431, "Request Header Fields Too Large") \
    X(500, "Internal Server Error")           \
    X(501, "Not Implemented")                 \
    X(503, "Service Unavailable")             \
    X(505, "HTTP Version Not Supported")

/* Returns for example "Not Found", or NULL for a status that is not in the list. Static storage. */
const char *ration_http_status_text(unsigned status);

/* The interim response for a client that sent Expect: 100-continue. */
#define RATION_HTTP_CONTINUE "HTTP/1.1 100 Continue\r\n\r\n"

struct ration_http_answer_options {
    unsigned status; /* one of the list */
    /* Of the request: an HTTP/1.0 client gets an explicit Connection: keep-alive */
    unsigned minor_version;
    bool keep_alive;
    bool is_head;           /* the method is HEAD: the body is counted but not sent */
    struct ration_key date; /* Sun, 06 Nov 1994 08:49:37 GMT; empty: no Date header */
};

/* A response being written. The fields are private to this module. */
struct ration_http_answer {
    struct ration_output *output;
    size_t length_offset; /* offset of the digits of Content-Length; 0 if there are none */
    bool has_body;
    bool is_head;
};

/*
 * Writes the status line and the header lines that every response has. options is borrowed for the
 * call.
 */
void ration_http_answer_begin(struct ration_http_answer *answer, struct ration_output *output,
                              const struct ration_http_answer_options *options);

/*
 * Writes one header. Control bytes in the value are replaced by spaces, so that it cannot add
 * lines.
 */
void ration_http_answer_header(struct ration_http_answer *answer, const char *name,
                               const void *value, size_t value_size);

/* Ends the headers. Everything appended to the output after this call is the body. */
void ration_http_answer_body(struct ration_http_answer *answer, const char *content_type);

/*
 * Ends the headers for a body of a known size, which the caller appends. Replaces
 * ration_http_answer_body() and ration_http_answer_end().
 */
void ration_http_answer_sized(struct ration_http_answer *answer, const char *content_type,
                              size_t body_size);

/*
 * Ends the response. A response without a body (204, for example) calls it without
 * ration_http_answer_body().
 */
void ration_http_answer_end(struct ration_http_answer *answer);

#endif
