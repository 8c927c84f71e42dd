/*
 * http_replies: HTTP/1.1 answers, read by http_parser.
 *
 * At 2 ns a byte that would be a tenth of what a request costs this client. So an answer that is
 * here whole, with a length and nothing that changes what it means, is counted by a look at its
 * lines; all others go to http_parser, which is at the start of an answer whenever that is tried.
 */
#include "load/replies.h"

#include <http_parser.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define STATUS_NO_CONTENT    204
#define STATUS_NOT_MODIFIED  304
#define STATUS_TOO_MANY      429
#define STATUS_LINE_SIZE_MIN 14 /* HTTP/1.1 200 and a line end */
#define STATUS_OFFSET        9
#define LENGTH_DIGITS_MAX    9

struct http_state {
    http_parser parser;
    bool in_answer; /* the parser has begun one */
};

_Static_assert(sizeof(struct http_state) <= LOAD_HTTP_ROOM_SIZE, "the state has its room");

static void count_status(struct load_tally *tally, unsigned status)
{
    if (status >= 200 && status < 300) {
        tally->allowed_count++;
    } else if (status == STATUS_TOO_MANY) {
        tally->denied_count++;
    } else {
        if (tally->error_count++ == 0)
            snprintf(tally->first_error, sizeof(tally->first_error), "HTTP status %u", status);
    }
}

/* Two kinds of answers have no body, whatever length they tell. */
static bool has_no_body(unsigned status)
{
    return status == STATUS_NO_CONTENT || status == STATUS_NOT_MODIFIED;
}

/* At a glance ---------------------------------------------------------------------------- */

struct glance {
    unsigned status;
    bool has_length;
    bool is_odd; /* to be left to http_parser */
    size_t length;
};

static bool is_named(const char *line, size_t line_size, const char *name)
{
    size_t size = strlen(name);

    return line_size > size && strncasecmp(line, name, size) == 0;
}

/* The digits of a length, which blanks may surround. */
static void read_length(const char *text, const char *end, struct glance *glance)
{
    size_t length = 0;
    const char *digits;

    while (text < end && *text == ' ')
        text++;
    digits = text;
    for (; text < end && *text >= '0' && *text <= '9'; text++)
        length = length * 10 + (size_t)(*text - '0');
    glance->is_odd = glance->has_length || text == digits || text - digits > LENGTH_DIGITS_MAX ||
                     end - text != 1 || *text != '\r';
    glance->has_length = true;
    glance->length = length;
}

/* Only fields that begin with one of these letters can change where an answer ends. */
static void look_at_line(const char *line, size_t line_size, struct glance *glance)
{
    switch (line[0]) {
    case 'c':
    case 'C':
        if (is_named(line, line_size, "content-length:"))
            read_length(line + strlen("content-length:"), line + line_size, glance);
        else if (is_named(line, line_size, "connection:"))
            glance->is_odd = true;
        break;
    case 't':
    case 'T':
        glance->is_odd = is_named(line, line_size, "transfer-encoding:") ||
                         is_named(line, line_size, "trailer:");
        break;
    case ' ':
    case '\t':
    case '\n': /* a line end without its first byte */
        glance->is_odd = true;
        break;
    default:
        break;
    }
}

static bool look_at_status(const char *bytes, size_t size, struct glance *glance)
{
    const char *status = bytes + STATUS_OFFSET;

    if (size < STATUS_LINE_SIZE_MIN || memcmp(bytes, "HTTP/1.1 ", STATUS_OFFSET) != 0)
        return false;
    for (int i = 0; i < 3; i++) {
        if (status[i] < '0' || status[i] > '9')
            return false;
        glance->status = glance->status * 10 + (unsigned)(status[i] - '0');
    }
    return glance->status >= 200 && !has_no_body(glance->status);
}

/* The size of a plain answer that bytes begin with, whole; 0 if there is none. */
static size_t glance_at(const char *bytes, size_t size, struct glance *glance)
{
    const char *end = bytes + size;
    const char *line;

    if (!look_at_status(bytes, size, glance))
        return 0;
    line = memchr(bytes, '\n', size);
    while (line != NULL && ++line < end && !glance->is_odd) {
        const char *feed = memchr(line, '\n', (size_t)(end - line));

        if (feed != NULL && feed - line == 1 && line[0] == '\r') {
            size_t head_size = (size_t)(feed + 1 - bytes);

            return glance->has_length && glance->length <= size - head_size
                       ? head_size + glance->length
                       : 0;
        }
        if (feed != NULL)
            look_at_line(line, (size_t)(feed - line), glance);
        line = feed;
    }
    return 0;
}

/* By http_parser ------------------------------------------------------------------------- */

static int begin_answer(http_parser *parser)
{
    ((struct http_state *)(void *)parser)->in_answer = true;
    return 0;
}

/* 1 tells the parser that no body follows. */
static int end_head(http_parser *parser)
{
    return has_no_body(parser->status_code) ? 1 : 0;
}

/* An answer that is the last of its connection stops the parser. */
static int end_answer(http_parser *parser)
{
    ((struct http_state *)(void *)parser)->in_answer = false;
    if (parser->status_code < 200)
        return 0; /* an interim answer: the real one follows */
    count_status(parser->data, parser->status_code);
    return http_should_keep_alive(parser) ? 0 : 1;
}

static const http_parser_settings settings = {
    .on_message_begin = begin_answer,
    .on_headers_complete = end_head,
    .on_message_complete = end_answer,
};

void load_http_init(unsigned char room[LOAD_HTTP_ROOM_SIZE])
{
    http_parser_init((http_parser *)(void *)room, HTTP_RESPONSE);
}

static bool parse(struct http_state *state, const char *bytes, size_t size,
                  struct load_tally *tally, struct load_error *error)
{
    http_parser *parser = &state->parser;
    enum http_errno fault;

    parser->data = tally;
    http_parser_execute(parser, &settings, bytes, size);
    fault = HTTP_PARSER_ERRNO(parser);
    if (fault == HPE_OK)
        return true;
    if (fault == HPE_CB_message_complete)
        return load_fail(error,
                         "the server closed a connection after its answer (status %u); it must "
                         "keep them for this",
                         parser->status_code);
    return load_fail(error, "an answer is not HTTP/1.1: %s", http_errno_description(fault));
}

bool load_http_read(unsigned char room[LOAD_HTTP_ROOM_SIZE], const char *bytes, size_t size,
                    struct load_tally *tally, struct load_error *error)
{
    struct http_state *state = (struct http_state *)(void *)room;

    while (size > 0 && !state->in_answer) {
        struct glance glance = {0};
        size_t answer_size = glance_at(bytes, size, &glance);

        if (answer_size == 0)
            break;
        count_status(tally, glance.status);
        bytes += answer_size;
        size -= answer_size;
    }
    return size == 0 || parse(state, bytes, size, tally, error);
}
