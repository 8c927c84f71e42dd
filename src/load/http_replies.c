/*
 * http_replies: HTTP/1.1 answers, read by http_parser.
 *
 * It takes about a nanosecond a byte, where the two system calls around an answer take some
 * microseconds; a shortcut of our own would not be seen in any result.
 */
#include "load/replies.h"

#include <http_parser.h>
#include <stdio.h>
#include <string.h>

#define STATUS_TOO_MANY 429

_Static_assert(sizeof(http_parser) <= LOAD_HTTP_ROOM_SIZE, "http_parser's state has its room");

static void keep_first_error(struct load_tally *tally, unsigned status)
{
    if (tally->error_count == 1)
        snprintf(tally->first_error, sizeof(tally->first_error), "HTTP status %u", status);
}

/* An answer that is the last of its connection stops the parser; the others do not. */
static int count_answer(http_parser *parser)
{
    struct load_tally *tally = parser->data;
    unsigned status = parser->status_code;

    if (status < 200)
        return 0; /* an interim answer: the real one follows */
    if (status < 300) {
        tally->allowed_count++;
    } else if (status == STATUS_TOO_MANY) {
        tally->denied_count++;
    } else {
        tally->error_count++;
        keep_first_error(tally, status);
    }
    return http_should_keep_alive(parser) ? 0 : 1;
}

static const http_parser_settings settings = {.on_message_complete = count_answer};

void load_http_init(unsigned char room[LOAD_HTTP_ROOM_SIZE])
{
    http_parser_init((http_parser *)(void *)room, HTTP_RESPONSE);
}

bool load_http_read(unsigned char room[LOAD_HTTP_ROOM_SIZE], const char *bytes, size_t size,
                    struct load_tally *tally, struct load_error *error)
{
    http_parser *parser = (http_parser *)(void *)room;
    enum http_errno fault;

    parser->data = tally;
    http_parser_execute(parser, &settings, bytes, size);
    fault = HTTP_PARSER_ERRNO(parser);
    if (fault == HPE_OK)
        return true;
    if (fault == HPE_CB_message_complete)
        return load_fail(error,
                         "the server closes connections after an answer (status %u); it must "
                         "keep them for this",
                         parser->status_code);
    return load_fail(error, "an answer is not HTTP/1.1: %s", http_errno_description(fault));
}
