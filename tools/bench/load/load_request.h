/*
 * request: the bytes of one request, with holes for its key.
 *
 * A hole has a fixed width, so a request for another key has the same size and is made by
 * overwriting the hole. Text may contain three placeholders:
 *
 *     {key}    twelve digits: 000000000042
 *     {ip}     an IPv4 address of four numbers from 100 to 255: 100.100.100.142
 *     {sha}    the digest of the --script file; it is known in advance, so no hole remains
 */
#ifndef RATION_LOAD_LOAD_REQUEST_H
#define RATION_LOAD_LOAD_REQUEST_H

#include <stddef.h>
#include <stdint.h>

#include "load/load_error.h"

#define LOAD_REQUEST_SIZE_MAX 16384
#define LOAD_HOLES_MAX        8
#define LOAD_ARGUMENTS_MAX    32
#define LOAD_HEADERS_MAX      16
#define LOAD_KEY_DIGITS       12
#define LOAD_IP_SIZE          15                  /* four numbers of three digits, and three dots */
#define LOAD_IP_KEYS_MAX      UINT64_C(592240896) /* 156^4 */

enum load_hole_kind { LOAD_HOLE_KEY, LOAD_HOLE_IP };

struct load_hole {
    enum load_hole_kind kind;
    size_t offset;
};

struct load_request {
    size_t size;
    uint32_t hole_count;
    struct load_hole holes[LOAD_HOLES_MAX];
    char bytes[LOAD_REQUEST_SIZE_MAX];
};

/*
 * Builds a Redis command from words separated by blanks, without quotes; it is sent as an array of
 * strings. sha may be NULL if the command does not contain {sha}. On failure *out_request is
 * undefined.
 */
bool load_request_resp(const char *command, const char *sha, struct load_request *out_request,
                       struct load_error *error);

struct load_http_parts {
    const char *path;
    const char *host;                      /* for the Host header */
    const char *body;                      /* NULL: GET; otherwise the body of a POST */
    const char *headers[LOAD_HEADERS_MAX]; /* "Name: value" */
    uint32_t header_count;
};

/*
 * Builds an HTTP/1.1 request that keeps the connection open. On failure *out_request is undefined.
 */
bool load_request_http(const struct load_http_parts *parts, struct load_request *out_request,
                       struct load_error *error);

/* Writes the key's text into a hole: LOAD_KEY_DIGITS or LOAD_IP_SIZE bytes. */
void load_request_fill(enum load_hole_kind kind, uint64_t key_index, char *hole);

#endif
