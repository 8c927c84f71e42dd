/*
 * replies: parses the answers of a server on one connection and counts them by kind.
 *
 * Bytes are passed as they arrive, split anywhere. Only the parser's state is saved, so one buffer
 * serves all connections of a thread.
 *
 *     kind      Redis                                    HTTP
 *     allowed   an array whose first value is :0         2xx
 *     denied    an array whose first value is :1         429
 *     other     any other value (PONG, a count, null)    -
 *     errors    -ERR ..., !...                           any other status
 */
#ifndef RATION_LOAD_REPLIES_H
#define RATION_LOAD_REPLIES_H

#include <stddef.h>
#include <stdint.h>

#include "load/load_error.h"

#define LOAD_RESP_DEPTH_MAX   8                   /* nested arrays */
#define LOAD_RESP_LENGTH_MAX  UINT64_C(536870912) /* of a string, an array or a line */
#define LOAD_FIRST_ERROR_SIZE 128
#define LOAD_HTTP_ROOM_SIZE   64

enum load_protocol { LOAD_RESP, LOAD_HTTP };

/* All zero bytes: nothing counted. */
struct load_totals {
    uint64_t allowed_count;
    uint64_t denied_count;
    uint64_t other_count;
    uint64_t error_count;
    char first_error[LOAD_FIRST_ERROR_SIZE]; /* the server's message, truncated if necessary */
};

uint64_t load_totals_total(const struct load_totals *totals);
void load_totals_add(struct load_totals *totals, const struct load_totals *other);

/* The state of the parser for RESP 2 and 3. */
struct load_resp {
    uint8_t step;
    char type;       /* the first byte of the value being read */
    char top_type;   /* the type of the answer that contains it */
    char first_type; /* the type of the answer's first inner value; 0 before it */
    bool negative;
    bool has_digits;
    bool is_first;         /* the value being read is the answer's first inner value */
    uint32_t depth;        /* number of open arrays */
    uint32_t text_size;    /* bytes of an error's text read so far */
    uint64_t number;       /* the number in the current line, without its sign */
    uint64_t first_number; /* the answer's first inner value, if it is an integer of at least 0 */
    uint64_t skip_bytes;   /* remaining bytes of a string, with its line end */
    uint64_t left_counts[LOAD_RESP_DEPTH_MAX];
};

struct load_replies {
    enum load_protocol protocol;
    union {
        struct load_resp resp;
        _Alignas(8) unsigned char http_room[LOAD_HTTP_ROOM_SIZE]; /* http_parser's state */
    };
};

void load_replies_init(enum load_protocol protocol, struct load_replies *out_replies);

/*
 * Parses all bytes and adds the answers that end in them to *totals. Returns false, with the reason,
 * if the bytes violate the protocol, or if an HTTP server announces that it will close the
 * connection.
 */
bool load_replies_read(struct load_replies *replies, const char *bytes, size_t size,
                       struct load_totals *totals, struct load_error *error);

/* The parsers of the protocols, each in its own file. */
bool load_resp_read(struct load_resp *resp, const char *bytes, size_t size,
                    struct load_totals *totals, struct load_error *error);
void load_http_init(unsigned char room[LOAD_HTTP_ROOM_SIZE]);
bool load_http_read(unsigned char room[LOAD_HTTP_ROOM_SIZE], const char *bytes, size_t size,
                    struct load_totals *totals, struct load_error *error);

#endif
