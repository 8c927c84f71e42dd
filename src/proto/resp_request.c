#include "proto/resp_request.h"

#include <assert.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "proto/resp_inline.h"

#define REQUEST_BYTES_MAX (1024 * 1024)

/* What Redis takes from those who are authenticated. */
#define REDIS_COUNT_MAX INT_MAX
#define REDIS_BULK_MAX  (512 * 1024 * 1024)

const struct ration_resp_limits ration_resp_limits_default = {
    .arguments_max = RATION_RESP_ARGUMENTS_MAX,
    .argument_bytes_max = RATION_KEY_SIZE_MAX + 1, /* so that a key too long is the command's to
                                                      refuse, not the end of the connection */
    .request_bytes_max = REQUEST_BYTES_MAX,
    .inline_bytes_max = RATION_RESP_INLINE_BYTES_MAX,
};

const struct ration_resp_limits ration_resp_limits_stranger = {
    .arguments_max = RATION_RESP_STRANGER_ARGUMENTS_MAX,
    .argument_bytes_max = RATION_RESP_STRANGER_ARGUMENT_BYTES_MAX,
    .request_bytes_max = REQUEST_BYTES_MAX,
    .inline_bytes_max = RATION_RESP_INLINE_BYTES_MAX,
    .is_stranger = true,
};

static enum ration_resp_result wrong(struct ration_resp_request *out_request, const char *what)
{
    snprintf(out_request->error, sizeof(out_request->error), "ERR Protocol error: %s", what);
    return RATION_RESP_WRONG;
}

static enum ration_resp_result wrong_type(struct ration_resp_request *out_request, char byte)
{
    char shown = byte >= 0x20 && byte < 0x7f ? byte : ' ';
    snprintf(out_request->error, sizeof(out_request->error),
             "ERR Protocol error: expected '$', got '%c'", shown);
    return RATION_RESP_WRONG;
}

static enum ration_resp_result more(const struct ration_resp_limits *limits, size_t needed_bytes,
                                    struct ration_resp_request *out_request)
{
    if (needed_bytes > limits->request_bytes_max)
        return wrong(out_request, "too big request");
    out_request->needed_bytes = needed_bytes;
    return RATION_RESP_MORE;
}

/* Digits of a length before which it can be neither too large nor wrap. */
#define LENGTH_DIGITS_MAX 18

#define LENGTH_MORE  (-1)
#define LENGTH_WRONG (-2)
#define LENGTH_BELOW (-3) /* a number below 0 */

/*
 * Reads the number behind the type byte, up to and with its CRLF; *at moves behind it. Written as
 * Redis wants it: no plus, no leading zeros, no minus zero. Anything at end stops it with MORE.
 */
static inline int64_t read_length(const char **at, const char *end)
{
    const char *digit = *at;
    if (end - digit >= 3 && (unsigned char)(*digit - '1') < 9 && digit[1] == '\r' &&
        digit[2] == '\n') { /* most are of one digit */
        *at = digit + 3;
        return *digit - '0';
    }
    bool is_below = digit < end && *digit == '-';
    digit += is_below;
    const char *begin = digit;
    int64_t length = 0;
    while (digit < end && (unsigned char)(*digit - '0') <= 9) {
        if (digit - begin == LENGTH_DIGITS_MAX || (digit > begin && *begin == '0'))
            return LENGTH_WRONG;
        length = 10 * length + (*digit++ - '0');
    }
    if (digit == end)
        return is_below && length == 0 && digit > begin ? LENGTH_WRONG : LENGTH_MORE;
    if (digit == begin || *digit != '\r' || (is_below && length == 0))
        return LENGTH_WRONG;
    if (digit + 1 == end)
        return LENGTH_MORE;
    if (digit[1] != '\n')
        return LENGTH_WRONG;
    *at = digit + 2;
    return is_below ? LENGTH_BELOW : length;
}

static enum ration_resp_result wrong_count(const struct ration_resp_limits *limits, int64_t count,
                                           struct ration_resp_request *out_request)
{
    bool would_do = limits->is_stranger && count > 0 && count <= REDIS_COUNT_MAX;
    return wrong(out_request,
                 would_do ? "unauthenticated multibulk length" : "invalid multibulk length");
}

static enum ration_resp_result wrong_size(const struct ration_resp_limits *limits, int64_t size,
                                          struct ration_resp_request *out_request)
{
    bool would_do = limits->is_stranger && size > 0 && size <= REDIS_BULK_MAX;
    return wrong(out_request, would_do ? "unauthenticated bulk length" : "invalid bulk length");
}

/* One bulk string of an array. Returns RATION_RESP_REQUEST if it is whole, with *at behind it. */
static inline enum ration_resp_result read_bulk(const struct ration_resp_limits *limits,
                                                const char *bytes, const char *end, const char **at,
                                                struct ration_key *out_argument,
                                                struct ration_resp_request *out_request)
{
    const char *payload = *at;
    if (payload == end)
        return more(limits, (size_t)(end - bytes) + 1, out_request);
    if (*payload != '$')
        return wrong_type(out_request, *payload);
    payload++;
    int64_t length = read_length(&payload, end);
    if (length == LENGTH_MORE)
        return more(limits, (size_t)(end - bytes) + 1, out_request);
    if (length < 0 || (size_t)length > limits->argument_bytes_max)
        return wrong_size(limits, length, out_request);
    size_t size = (size_t)length;
    if ((size_t)(end - payload) < size + 2)
        return more(limits, (size_t)(payload - bytes) + size + 2, out_request);
    if (payload[size] != '\r' || payload[size + 1] != '\n')
        return wrong(out_request, "expected CRLF behind bulk");
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
        return more(limits, size + 1, out_request);
    if (count == LENGTH_BELOW || count == 0) {
        out_request->consumed_bytes = (size_t)(at - bytes);
        return RATION_RESP_NOTHING;
    }
    if (count < 0 || (size_t)count > limits->arguments_max)
        return wrong_count(limits, count, out_request);
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

/* Where a line ends must not depend on how much of it came at once. */
static enum ration_resp_result read_line(const struct ration_resp_limits *limits, char *bytes,
                                         size_t size, struct ration_resp_request *out_request)
{
    size_t line_max = limits->inline_bytes_max + 1; /* the CR is no part of the request */
    char *line_end = memchr(bytes, '\n', size < line_max + 1 ? size : line_max + 1);
    if (!line_end && size > line_max)
        return wrong(out_request, "too big inline request");
    if (!line_end)
        return more(limits, size + 1, out_request);
    size_t line_size = (size_t)(line_end - bytes);
    size_t consumed = line_size + 1;
    if (line_size > 0 && bytes[line_size - 1] == '\r')
        line_size--;
    if (line_size > limits->inline_bytes_max)
        return wrong(out_request, "too big inline request");
    switch (ration_resp_inline_split(bytes, line_size, limits->arguments_max,
                                     limits->argument_bytes_max, out_request->arguments,
                                     &out_request->argument_count)) {
    case RATION_RESP_INLINE_UNBALANCED:
        return wrong(out_request, "unbalanced quotes in request");
    case RATION_RESP_INLINE_TOO_MANY:
        return wrong(out_request, limits->is_stranger ? "unauthenticated multibulk length"
                                                      : "too big inline request");
    case RATION_RESP_INLINE_TOO_LONG:
        return wrong(out_request, limits->is_stranger ? "unauthenticated bulk length"
                                                      : "too big inline request");
    case RATION_RESP_INLINE_OK:
        break;
    }
    out_request->consumed_bytes = consumed;
    return out_request->argument_count ? RATION_RESP_REQUEST : RATION_RESP_NOTHING;
}

enum ration_resp_result ration_resp_read(const struct ration_resp_limits *limits, char *bytes,
                                         size_t size, struct ration_resp_request *out_request)
{
    assert(limits->arguments_max <= RATION_RESP_ARGUMENTS_MAX);
    if (size > limits->request_bytes_max) /* what lies beyond must not change what is read */
        size = limits->request_bytes_max;
    if (size == 0)
        return more(limits, 1, out_request);
    return bytes[0] == '*' ? read_array(limits, bytes, size, out_request)
                           : read_line(limits, bytes, size, out_request);
}
