/*
 * resp_request: parses one request of the Redis protocol from the bytes received so far.
 *
 *     *2\r\n$4\r\nECHO\r\n$2\r\nhi\r\n        an array of bulk strings
 *     ECHO "hi"\r\n                           the same inline, as a person types it
 *
 * There is no state between calls: the caller stores the bytes contiguously and calls again when
 * more have arrived. Arguments are slices of those bytes, and nothing is copied; inline arguments
 * are unquoted in place. An announced length is only compared, so it costs no memory.
 *
 * The result never depends on how the bytes are split into reads. Bytes that can no longer become a
 * valid request are reported as early as possible; Redis waits for the end of the line first.
 */
#ifndef RATION_CODEC_RESP_RESP_REQUEST_H
#define RATION_CODEC_RESP_RESP_REQUEST_H

#include <stdbool.h>
#include <stddef.h>

#include "ration/limiter.h"

#define RATION_RESP_ARGUMENTS_MAX    1024
#define RATION_RESP_INLINE_BYTES_MAX 65536

/* The limits of Redis for clients that have not authenticated. */
#define RATION_RESP_UNAUTHENTICATED_ARGUMENTS_MAX      10
#define RATION_RESP_UNAUTHENTICATED_ARGUMENT_BYTES_MAX 16384

#define RATION_RESP_ERROR_SIZE 64

struct ration_resp_limits {
    size_t arguments_max;      /* at most RATION_RESP_ARGUMENTS_MAX */
    size_t argument_bytes_max; /* of each argument */
    size_t request_bytes_max;  /* of the whole request, as received */
    size_t inline_bytes_max;   /* of an inline request, without its line end */
    bool is_unauthenticated;   /* errors say that the limit is higher after authentication */
};

/* The limits for clients that have not authenticated yet. */
extern const struct ration_resp_limits ration_resp_limits_unauthenticated;

enum ration_resp_result {
    RATION_RESP_REQUEST, /* arguments, argument_count (at least 1), consumed_bytes are set */
    RATION_RESP_NOTHING, /* consumed_bytes is set; there is nothing to reply to */
    RATION_RESP_MORE,    /* needed_bytes is set; nothing is consumed */
    RATION_RESP_WRONG    /* error is set; the caller sends it and closes the connection */
};

struct ration_resp_request {
    size_t argument_count;
    size_t consumed_bytes;
    /*
     * Total bytes from the start of the request; with fewer, the result is MORE again. At most
     * request_bytes_max.
     */
    size_t needed_bytes;
    char error[RATION_RESP_ERROR_SIZE]; /* "ERR Protocol error: ...", zero-terminated */
    struct ration_key arguments[RATION_RESP_ARGUMENTS_MAX];
};

/*
 * Parses the request at the start of bytes. out_request needs no initialization. Only the fields
 * listed for the result are written, except that arguments may be overwritten by any result. The
 * arguments point into bytes and are valid as long as bytes is.
 */
enum ration_resp_result ration_resp_read(const struct ration_resp_limits *limits, char *bytes,
                                         size_t size, struct ration_resp_request *out_request);

#endif
