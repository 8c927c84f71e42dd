/*
 * resp_request: one request of the Redis protocol, read from the bytes received so far.
 *
 *     *2\r\n$4\r\nECHO\r\n$2\r\nhi\r\n        an array of bulk strings
 *     ECHO "hi"\r\n                           the same inline, as a person types it
 *
 * There is no state between calls: the caller keeps the bytes in one piece and tries again when
 * more have come. Arguments are slices of those bytes, nothing is copied; inline arguments are
 * unquoted where they lie. An announced length is only ever compared, so it costs no memory.
 *
 * How bytes are cut into pieces never changes what is read. What can no longer become a request
 * is told as early as it is known: Redis waits for the end of a line first.
 */
#ifndef RATION_PROTO_RESP_REQUEST_H
#define RATION_PROTO_RESP_REQUEST_H

#include <stdbool.h>
#include <stddef.h>

#include "ration/limiter.h"

#define RATION_RESP_ARGUMENTS_MAX    1024
#define RATION_RESP_INLINE_BYTES_MAX 65536

/* What Redis allows those who still have to authenticate. */
#define RATION_RESP_STRANGER_ARGUMENTS_MAX      10
#define RATION_RESP_STRANGER_ARGUMENT_BYTES_MAX 16384

#define RATION_RESP_ERROR_SIZE 64

struct ration_resp_limits {
    size_t arguments_max;      /* at most RATION_RESP_ARGUMENTS_MAX */
    size_t argument_bytes_max; /* of each */
    size_t request_bytes_max;  /* of all of it, as received */
    size_t inline_bytes_max;   /* of an inline request, without the end of its line */
    bool is_stranger;          /* errors say that it may do better once authenticated */
};

/* For those who may do everything, and for those who have not authenticated yet. */
extern const struct ration_resp_limits ration_resp_limits_default;
extern const struct ration_resp_limits ration_resp_limits_stranger;

enum ration_resp_result {
    RATION_RESP_REQUEST, /* arguments, argument_count (at least 1), consumed_bytes are set */
    RATION_RESP_NOTHING, /* consumed_bytes is set; there is nothing to answer */
    RATION_RESP_MORE,    /* needed_bytes is set; nothing is consumed */
    RATION_RESP_WRONG    /* error is set; to be told, then the connection is of no more use */
};

struct ration_resp_request {
    size_t argument_count;
    size_t consumed_bytes;
    size_t needed_bytes; /* all bytes from here on; with fewer the answer is MORE again. At most
                            request_bytes_max */
    char error[RATION_RESP_ERROR_SIZE]; /* "ERR Protocol error: ...", terminated */
    struct ration_key arguments[RATION_RESP_ARGUMENTS_MAX];
};

/*
 * Reads the request that bytes begin with. out_request needs no initialisation, and only the
 * fields named with the result are written (arguments also by others). The arguments point into
 * bytes and live as long as they do.
 */
enum ration_resp_result ration_resp_read(const struct ration_resp_limits *limits, char *bytes,
                                         size_t size, struct ration_resp_request *out_request);

#endif
