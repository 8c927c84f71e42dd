/*
 * floor_answers: the fixed answers of the servers that measure the floor, so that they differ in
 * nothing but how bytes are moved.
 */
#ifndef RATION_BENCH_FLOOR_ANSWERS_H
#define RATION_BENCH_FLOOR_ANSWERS_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

static const char floor_http_answer[] =
    "HTTP/1.1 200 OK\r\n"
    "Content-Type: application/json\r\n"
    "RateLimit: \"default\";r=99;t=1\r\n"
    "Content-Length: 53\r\n"
    "\r\n"
    "{\"allowed\":true,\"limit\":100,\"remaining\":99,\"reset\":1}";

static const char floor_resp_answer[] = "+PONG\r\n";

/* Where the request that bytes begin with ends; NULL if it does not end in them. */
static inline const char *floor_http_end(const char *bytes, size_t size)
{
    const char *end = memmem(bytes, size, "\r\n\r\n", 4);

    return end != NULL ? end + 4 : NULL;
}

/* The same for RESP: a line, or an array of bulk strings without line ends in them. */
static inline const char *floor_resp_end(const char *bytes, size_t size)
{
    const char *at = bytes, *end = bytes + size;
    int lines = bytes[0] == '*' ? 0 : 1;

    if (lines == 0) {
        for (at = bytes + 1; at < end && *at >= '0' && *at <= '9'; at++)
            lines = lines * 10 + (*at - '0');
        lines = 1 + 2 * lines;
    }
    for (; lines > 0 && at != NULL && at < end; lines--) {
        at = memchr(at, '\n', (size_t)(end - at));
        at = at != NULL ? at + 1 : NULL;
    }
    return lines == 0 ? at : NULL;
}

#endif
