/*
 * http_stream: passes a stream of bytes to the HTTP parser in pieces, and describes the result as text.
 *
 * Each piece is parsed right before the guard page, in a buffer at another address than the piece before.
 */
#ifndef RATION_TESTS_HTTP_STREAM_H
#define RATION_TESTS_HTTP_STREAM_H

#include <stdio.h>
#include <string.h>

#include "codec/http/http_request.h"
#include "support/guard.h"

#define HTTP_STREAM_TEXT_SIZE 8192

static void http_stream_add(char *text, const char *label, const struct ration_key *slice)
{
    size_t used = strlen(text);
    snprintf(text + used, HTTP_STREAM_TEXT_SIZE - used, "%s%.*s", label, (int)slice->size,
             (const char *)slice->bytes);
}

static void http_stream_add_request(char *text, const struct ration_http_request *request)
{
    size_t used;
    http_stream_add(text, "[", &request->method);
    http_stream_add(text, " ", &request->path);
    http_stream_add(text, " ?", &request->query);
    http_stream_add(text, " @", &request->host);
    used = strlen(text);
    snprintf(text + used, HTTP_STREAM_TEXT_SIZE - used, " 1.%u%s%s%s %zu", request->minor_version,
             request->keep_alive ? "" : " close", request->expects_continue ? " expects" : "",
             request->has_unread_body ? " unread" : "", request->consumed_bytes);
    for (size_t i = 0; i < request->header_count; i++) {
        http_stream_add(text, "|", &request->headers[i].name);
        http_stream_add(text, ":", &request->headers[i].value);
    }
    http_stream_add(text, "|", &request->body);
    http_stream_add(text, "]", &(struct ration_key){"", 0});
}

/* The size of the n-th piece; at least 1. */
typedef size_t http_stream_cut(void *context, size_t left);

/*
 * Parses all requests of the stream into text: each in brackets, then "more" or "wrong 400". Returns the last result.
 * size is at most a page.
 */
static enum ration_http_result http_stream_read(const struct ration_http_limits *limits,
                                                const char *stream, size_t size,
                                                http_stream_cut *cut, void *context, char *text,
                                                struct ration_http_progress *out_progress)
{
    enum ration_http_result result = RATION_HTTP_MORE;
    struct ration_http_progress progress = {0};
    struct ration_http_request request;
    size_t given = 0, unconsumed = 0; /* bytes */

    text[0] = '\0';
    while (result != RATION_HTTP_WRONG && given < size) {
        size_t piece = cut(context, size - given);
        char *place = guard - unconsumed - piece;
        memmove(place, guard - unconsumed, unconsumed);
        memcpy(place + unconsumed, stream + given, piece);
        given += piece;
        unconsumed += piece;
        while ((result = ration_http_read(limits, &progress, guard - unconsumed, unconsumed,
                                          &request)) == RATION_HTTP_REQUEST) {
            http_stream_add_request(text, &request);
            unconsumed -= request.consumed_bytes;
            if (!request.keep_alive)
                break;
            if (unconsumed == 0)
                break;
        }
        if (result == RATION_HTTP_REQUEST && !request.keep_alive)
            break;
    }
    if (result == RATION_HTTP_MORE)
        strcat(text, "more");
    if (result == RATION_HTTP_WRONG)
        sprintf(text + strlen(text), "wrong %u", (unsigned)progress.status);
    if (out_progress)
        *out_progress = progress;
    return result;
}

static inline size_t http_stream_whole(void *context, size_t left)
{
    (void)context;
    return left;
}

static inline size_t http_stream_by_byte(void *context, size_t left)
{
    (void)context;
    (void)left;
    return 1;
}

#endif
