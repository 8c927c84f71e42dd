#include "codec/resp/resp_request.h"

#include <assert.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

/*
 * An inline request is a line that a person types. It is split into words:
 *
 *     SET "a key" 'it\'s'     words end at blanks; "..." supports \n \r \t \b \a \xHH \" \\ and
 *                             '...' supports \' only; a closing quote ends its word
 *
 * Words are unquoted in place, which never makes them longer.
 */
enum inline_result {
    INLINE_OK,
    INLINE_UNBALANCED, /* a quote is not closed, or text follows a closing quote */
    INLINE_TOO_MANY,
    INLINE_TOO_LONG
};

struct reader {
    char *at;
    const char *end;
    char *put; /* where the next byte of the word is written; never after at */
};

/* The bytes between words: those of isspace() in the C locale. */
static bool is_blank(char byte)
{
    return byte == ' ' || (byte >= '\t' && byte <= '\r');
}

/* The bytes that end a word without quotes. */
static bool is_word_end(char byte)
{
    return byte == ' ' || byte == '\t' || byte == '\n' || byte == '\r';
}

/* Returns the byte that an escape stands for; other escaped bytes stand for themselves. */
static char unescape_byte(char byte)
{
    switch (byte) {
    case 'n':
        return '\n';
    case 'r':
        return '\r';
    case 't':
        return '\t';
    case 'b':
        return '\b';
    case 'a':
        return '\a';
    default:
        return byte;
    }
}

/*
 * Reads an escape. The reader is at a backslash inside double quotes that is not the last byte of
 * the line.
 */
static void read_escape(struct reader *reader)
{
    char *at = reader->at;

    if (reader->end - at >= 4 && at[1] == 'x') {
        int high = ration_text_hex(at[2]);
        int low = ration_text_hex(at[3]);

        if (high >= 0 && low >= 0) {
            *reader->put++ = (char)(high << 4 | low);
            reader->at += 4;
            return;
        }
    }
    *reader->put++ = unescape_byte(at[1]);
    reader->at += 2;
}

/*
 * Reads a quoted part. The reader is at a quote. Returns false unless it is closed and the word
 * ends there.
 */
static bool read_quoted(struct reader *reader)
{
    char quote = *reader->at++;
    while (reader->at < reader->end && *reader->at != quote) {
        bool is_last = reader->end - reader->at == 1;
        if (quote == '"' && *reader->at == '\\' && !is_last) {
            read_escape(reader);
        } else if (quote == '\'' && *reader->at == '\\' && !is_last && reader->at[1] == '\'') {
            *reader->put++ = '\'';
            reader->at += 2;
        } else {
            *reader->put++ = *reader->at++;
        }
    }
    if (reader->at == reader->end)
        return false;
    reader->at++;
    return reader->at == reader->end || is_blank(*reader->at);
}

/* Reads a word. The reader is at its first byte. Returns false if the quotes are unbalanced. */
static bool read_word(struct reader *reader, struct ration_key *out_word)
{
    char *begin = reader->at;
    reader->put = begin;
    while (reader->at < reader->end && !is_word_end(*reader->at)) {
        if (*reader->at != '"' && *reader->at != '\'')
            *reader->put++ = *reader->at++;
        else if (!read_quoted(reader))
            return false;
    }
    *out_word = (struct ration_key){begin, (size_t)(reader->put - begin)};
    while (reader->put <
           reader->at) /* overwrite what the quotes left: "EXEC" may be parsed again */
        *reader->put++ = ' ';
    return true;
}

/*
 * Splits a line, without its line end, into at most words_max words of at most word_bytes_max
 * bytes. On success, out_words[0 .. *out_count) point into the line. Otherwise the contents of
 * out_words and of the line are undefined, and *out_count is untouched.
 */
static enum inline_result split_line(char *line, size_t size, size_t words_max,
                                     size_t word_bytes_max, struct ration_key *out_words,
                                     size_t *out_count)
{
    struct reader reader = {.at = line, .end = line + size};
    size_t count = 0;
    for (;;) {
        while (reader.at < reader.end && is_blank(*reader.at))
            reader.at++;
        if (reader.at == reader.end)
            break;
        struct ration_key word;
        if (!read_word(&reader, &word))
            return INLINE_UNBALANCED;
        if (word.size > word_bytes_max)
            return INLINE_TOO_LONG;
        if (count == words_max)
            return INLINE_TOO_MANY;
        out_words[count++] = word;
    }
    *out_count = count;
    return INLINE_OK;
}

#define REQUEST_BYTES_MAX (1024 * 1024)

/* The limits of Redis for authenticated clients. */
#define REDIS_COUNT_MAX INT_MAX
#define REDIS_BULK_MAX  (512 * 1024 * 1024)

const struct ration_resp_limits ration_resp_limits_unauthenticated = {
    .arguments_max = RATION_RESP_UNAUTHENTICATED_ARGUMENTS_MAX,
    .argument_bytes_max = RATION_RESP_UNAUTHENTICATED_ARGUMENT_BYTES_MAX,
    .request_bytes_max = REQUEST_BYTES_MAX,
    .inline_bytes_max = RATION_RESP_INLINE_BYTES_MAX,
    .is_unauthenticated = true,
};

static enum ration_resp_result set_error(struct ration_resp_request *out_request, const char *what)
{
    snprintf(out_request->error, sizeof(out_request->error), "ERR Protocol error: %s", what);
    return RATION_RESP_WRONG;
}

static enum ration_resp_result set_type_error(struct ration_resp_request *out_request, char byte)
{
    char shown = byte >= 0x20 && byte < 0x7f ? byte : ' ';
    snprintf(out_request->error, sizeof(out_request->error),
             "ERR Protocol error: expected '$', got '%c'", shown);
    return RATION_RESP_WRONG;
}

static enum ration_resp_result need_more(const struct ration_resp_limits *limits,
                                         size_t needed_bytes,
                                         struct ration_resp_request *out_request)
{
    if (needed_bytes > limits->request_bytes_max)
        return set_error(out_request, "too big request");
    out_request->needed_bytes = needed_bytes;
    return RATION_RESP_MORE;
}

/* Lengths with this many digits cannot overflow; longer ones are refused. */
#define LENGTH_DIGITS_MAX 18

#define LENGTH_MORE     (-1)
#define LENGTH_WRONG    (-2)
#define LENGTH_NEGATIVE (-3) /* a negative number */

/*
 * Reads the number after the type byte, with its CRLF, and advances *at. The format is as strict as
 * in Redis: no plus sign, no leading zeros, no minus zero. Returns LENGTH_MORE if the bytes end
 * before the CRLF.
 */
static inline int64_t read_length(const char **at, const char *end)
{
    const char *digit = *at;
    if (end - digit >= 3 && (unsigned char)(*digit - '1') < 9 && digit[1] == '\r' &&
        digit[2] == '\n') { /* most lengths have one digit */
        *at = digit + 3;
        return *digit - '0';
    }
    bool is_negative = digit < end && *digit == '-';
    digit += is_negative;
    const char *begin = digit;
    int64_t length = 0;
    while (digit < end && (unsigned char)(*digit - '0') <= 9) {
        if (digit - begin == LENGTH_DIGITS_MAX || (digit > begin && *begin == '0'))
            return LENGTH_WRONG;
        length = 10 * length + (*digit++ - '0');
    }
    if (digit == end)
        return is_negative && length == 0 && digit > begin ? LENGTH_WRONG : LENGTH_MORE;
    if (digit == begin || *digit != '\r' || (is_negative && length == 0))
        return LENGTH_WRONG;
    if (digit + 1 == end)
        return LENGTH_MORE;
    if (digit[1] != '\n')
        return LENGTH_WRONG;
    *at = digit + 2;
    return is_negative ? LENGTH_NEGATIVE : length;
}

static enum ration_resp_result set_count_error(const struct ration_resp_limits *limits,
                                               int64_t count,
                                               struct ration_resp_request *out_request)
{
    bool fits_after_auth = limits->is_unauthenticated && count > 0 && count <= REDIS_COUNT_MAX;
    return set_error(out_request, fits_after_auth ? "unauthenticated multibulk length"
                                                  : "invalid multibulk length");
}

static enum ration_resp_result set_size_error(const struct ration_resp_limits *limits, int64_t size,
                                              struct ration_resp_request *out_request)
{
    bool fits_after_auth = limits->is_unauthenticated && size > 0 && size <= REDIS_BULK_MAX;
    return set_error(out_request,
                     fits_after_auth ? "unauthenticated bulk length" : "invalid bulk length");
}

/*
 * Reads one bulk string of an array. If it is complete, returns RATION_RESP_REQUEST and advances
 * *at.
 */
static inline enum ration_resp_result read_bulk(const struct ration_resp_limits *limits,
                                                const char *bytes, const char *end, const char **at,
                                                struct ration_key *out_argument,
                                                struct ration_resp_request *out_request)
{
    const char *payload = *at;
    if (payload == end)
        return need_more(limits, (size_t)(end - bytes) + 1, out_request);
    if (*payload != '$')
        return set_type_error(out_request, *payload);
    payload++;
    int64_t length = read_length(&payload, end);
    if (length == LENGTH_MORE)
        return need_more(limits, (size_t)(end - bytes) + 1, out_request);
    if (length < 0 || (size_t)length > limits->argument_bytes_max)
        return set_size_error(limits, length, out_request);
    size_t size = (size_t)length;
    if ((size_t)(end - payload) < size + 2)
        return need_more(limits, (size_t)(payload - bytes) + size + 2, out_request);
    if (payload[size] != '\r' || payload[size + 1] != '\n')
        return set_error(out_request, "expected CRLF behind bulk");
    *out_argument = (struct ration_key){payload, size};
    *at = payload + size + 2;
    return RATION_RESP_REQUEST;
}

static enum ration_resp_result read_array(const struct ration_resp_limits *limits,
                                          const char *bytes, size_t size,
                                          struct ration_resp_request *out_request)
{
    const char *at = bytes + 1, *end = bytes + size;
    int64_t count = read_length(&at, end);
    if (count == LENGTH_MORE)
        return need_more(limits, size + 1, out_request);
    if (count == LENGTH_NEGATIVE || count == 0) {
        out_request->consumed_bytes = (size_t)(at - bytes);
        return RATION_RESP_NOTHING;
    }
    if (count < 0 || (size_t)count > limits->arguments_max)
        return set_count_error(limits, count, out_request);
    for (size_t i = 0; i < (size_t)count; i++) {
        enum ration_resp_result result =
            read_bulk(limits, bytes, end, &at, &out_request->arguments[i], out_request);
        if (result != RATION_RESP_REQUEST)
            return result;
    }
    out_request->argument_count = (size_t)count;
    out_request->consumed_bytes = (size_t)(at - bytes);
    return RATION_RESP_REQUEST;
}

/* The end of a line must not depend on how much of it arrived at once. */
static enum ration_resp_result read_line(const struct ration_resp_limits *limits, char *bytes,
                                         size_t size, struct ration_resp_request *out_request)
{
    size_t line_max = limits->inline_bytes_max + 1; /* the CR does not count */
    char *line_end = memchr(bytes, '\n', size < line_max + 1 ? size : line_max + 1);
    if (!line_end && size > line_max)
        return set_error(out_request, "too big inline request");
    if (!line_end)
        return need_more(limits, size + 1, out_request);
    size_t line_size = (size_t)(line_end - bytes);
    size_t consumed = line_size + 1;
    if (line_size > 0 && bytes[line_size - 1] == '\r')
        line_size--;
    if (line_size > limits->inline_bytes_max)
        return set_error(out_request, "too big inline request");
    switch (split_line(bytes, line_size, limits->arguments_max, limits->argument_bytes_max,
                       out_request->arguments, &out_request->argument_count)) {
    case INLINE_UNBALANCED:
        return set_error(out_request, "unbalanced quotes in request");
    case INLINE_TOO_MANY:
        return set_error(out_request, limits->is_unauthenticated
                                          ? "unauthenticated multibulk length"
                                          : "too big inline request");
    case INLINE_TOO_LONG:
        return set_error(out_request, limits->is_unauthenticated ? "unauthenticated bulk length"
                                                                 : "too big inline request");
    case INLINE_OK:
        break;
    }
    out_request->consumed_bytes = consumed;
    return out_request->argument_count ? RATION_RESP_REQUEST : RATION_RESP_NOTHING;
}

enum ration_resp_result ration_resp_read(const struct ration_resp_limits *limits, char *bytes,
                                         size_t size, struct ration_resp_request *out_request)
{
    assert(limits->arguments_max <= RATION_RESP_ARGUMENTS_MAX);
    if (size > limits->request_bytes_max) /* bytes beyond the limit must not change the result */
        size = limits->request_bytes_max;
    if (size == 0)
        return need_more(limits, 1, out_request);
    return bytes[0] == '*' ? read_array(limits, bytes, size, out_request)
                           : read_line(limits, bytes, size, out_request);
}
