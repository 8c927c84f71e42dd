/*
 * Answers as rows: bytes to counts by kind, parsed whole, byte by byte, and split at every position; each is placed right
 * before an inaccessible page.
 */
#include <stdio.h>
#include <string.h>

#include "load/escape.h"
#include "load/replies.h"
#include "support/guard.h"
#include "support/unit.h"

struct row {
    const char *bytes;
    uint64_t allowed;
    uint64_t denied;
    uint64_t other;
    uint64_t errors;
    const char *first_error;
};

static const struct row resp_rows[] = {
    {"+PONG\r\n", 0, 0, 1, 0, ""},
    {":1\r\n:0\r\n:-7\r\n", 0, 0, 3, 0, ""},
    {"$5\r\nhello\r\n$0\r\n\r\n$-1\r\n", 0, 0, 3, 0, ""},
    {"$7\r\n-ERR\r\nx\r\n", 0, 0, 1, 0, ""},
    {"*5\r\n:0\r\n:16\r\n:15\r\n:-1\r\n:2\r\n", 1, 0, 0, 0, ""},
    {"*5\r\n:1\r\n:16\r\n:0\r\n:2\r\n:32\r\n", 0, 1, 0, 0, ""},
    {"*1\r\n:1\r\n*1\r\n:0\r\n", 1, 1, 0, 0, ""},
    {"*2\r\n$1\r\n0\r\n:0\r\n", 0, 0, 1, 0, ""},
    {"*1\r\n:10\r\n*1\r\n:-1\r\n:9223372036854775807\r\n", 0, 0, 3, 0, ""},
    {"*0\r\n*-1\r\n_\r\n#t\r\n,1.5\r\n(12345678901234567890\r\n", 0, 0, 6, 0, ""},
    {"*2\r\n*2\r\n:0\r\n:0\r\n*1\r\n*1\r\n*0\r\n", 0, 0, 1, 0, ""},
    {"*3\r\n*0\r\n:0\r\n$-1\r\n:5\r\n", 0, 0, 2, 0, ""},
    {"%1\r\n+k\r\n:0\r\n~2\r\n:0\r\n:1\r\n=7\r\ntxt:a\r\n\r\n", 0, 0, 3, 0, ""},
    {">2\r\n+message\r\n:0\r\n*1\r\n:0\r\n", 1, 0, 0, 0, ""},
    {"|1\r\n+ttl\r\n:1\r\n*1\r\n:0\r\n", 1, 0, 0, 0, ""},
    {"*2\r\n|1\r\n+ttl\r\n:1\r\n:0\r\n:1\r\n+OK\r\n", 0, 0, 2, 0, ""},
    {"-ERR no\r\n-ERR other\r\n+OK\r\n", 0, 0, 1, 2, "ERR no"},
    {"!9\r\nERR large\r\n", 0, 0, 0, 1, "ERR large"},
    {"*2\r\n-ERR inner\r\n:0\r\n", 0, 0, 1, 0, ""},
    {"*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:0\r\n", 0, 0, 1, 0, ""},
};

static const struct row http_rows[] = {
    {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", 1, 0, 0, 0, ""},
    {"HTTP/1.1 204 No Content\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length:0\r\n\r\n", 2, 0, 0, 0, ""},
    {"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 2\r\nContent-Length: 3\r\n\r\nno\n"
     "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
     1, 1, 0, 0, ""},
    {"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"
     "HTTP/1.1 503 Busy\r\nContent-Length: 1\r\n\r\nx",
     0, 0, 0, 2, "HTTP status 404"},
    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
     "HTTP/1.1 200 OK\r\nContent-Length: 37\r\n\r\nHTTP/1.1 429 X\r\nContent-Length: 0\r\n\r\n",
     2, 0, 0, 0, ""},
    {"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 1, 0, 0, 0, ""},
};

/* Replies that the fast path must leave to the parser, or must not misread. */
static const struct row odd_http_rows[] = {
    {"HTTP/1.1 200 OK\r\nX-Content-Length: 9\r\nContent-Type: a\r\nCONTENT-LENGTH:  3 \r\n\r\nabc",
     1, 0, 0, 0, ""},
    {"HTTP/1.1 304 Not Modified\r\nContent-Length: 30\r\n\r\nHTTP/1.1 429 X\r\nContent-Length: "
     "0\r\n\r\n",
     0, 1, 0, 1, "HTTP status 304"},
    {"HTTP/1.1 200 OK\r\nConnection: keep-alive\r\nContent-Length: 1\r\n\r\nx", 1, 0, 0, 0, ""},
    {"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nTrailer: y\r\n\r\n"
     "HTTP/1.1 429 X\r\nTest: a\r\nCookie: \r\nContent-Length:0\r\n\r\n",
     1, 1, 0, 0, ""},
    {"HTTP/1.1 200 OK\nContent-Length: 1\n\nxHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\ny", 2, 0,
     0, 0, ""},
};

static const char *const wrong_resp[] = {
    "HTTP/1.1 400 Bad Request\r\n",
    "x",
    "\r\n",
    ":\r\n",
    ":1x\r\n",
    ":1\rx",
    "$-\r\n",
    "*1-\r\n",
    "*1\r\n:18446744073709551617\r\n",
    "$536870913\r\n",
    "*536870913\r\n",
    "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:0\r\n",
};

static const char *const wrong_http[] = {
    "+PONG\r\n",
    "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
    "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
    "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
    "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "HTTP/1.1 200 OK\r\nContent-Length: 1 2\r\n\r\nab",
    "HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n",
};

static void check_counts(const struct row *row, const struct load_totals *totals)
{
    if (totals->allowed_count != row->allowed || totals->denied_count != row->denied ||
        totals->other_count != row->other || totals->error_count != row->errors)
        fail_msg("%s: %d allowed, %d denied, %d other, %d errors", row->bytes,
                 (int)totals->allowed_count, (int)totals->denied_count, (int)totals->other_count,
                 (int)totals->error_count);
    assert_string_equal(totals->first_error, row->first_error);
}

/* Reads bytes in pieces of step_size, the first of first_size. */
static bool read_pieces(enum load_protocol protocol, const char *bytes, size_t size,
                        size_t first_size, size_t step_size, struct load_totals *out_totals)
{
    struct load_replies replies;
    struct load_error error = {""};
    size_t piece_size = first_size;

    load_replies_init(protocol, &replies);
    memset(out_totals, 0, sizeof(*out_totals));
    for (size_t at = 0; at < size; at += piece_size, piece_size = step_size) {
        if (piece_size > size - at)
            piece_size = size - at;
        if (!load_replies_read(&replies, bytes + at, piece_size, out_totals, &error)) {
            assert_true(error.message[0] != '\0');
            return false;
        }
    }
    return true;
}

/* The row's bytes right before memory that cannot be read. */
static const char *guarded(const char *bytes, size_t size)
{
    return memcpy(guard - size, bytes, size);
}

static void check_rows(enum load_protocol protocol, const struct row *rows, size_t row_count)
{
    for (size_t i = 0; i < row_count; i++) {
        size_t size = strlen(rows[i].bytes);
        const char *bytes = guarded(rows[i].bytes, size);
        struct load_totals totals;

        for (size_t first_size = 1; first_size <= size; first_size++) {
            assert_true(read_pieces(protocol, bytes, size, first_size, size, &totals));
            check_counts(&rows[i], &totals);
        }
        assert_true(read_pieces(protocol, bytes, size, 1, 1, &totals));
        check_counts(&rows[i], &totals);

        /* Without its last byte an answer is not one yet. */
        assert_true(read_pieces(protocol, bytes, size - 1, size, size, &totals));
        assert_int_equal(load_totals_total(&totals) + 1,
                         rows[i].allowed + rows[i].denied + rows[i].other + rows[i].errors);
    }
}

static void check_wrong(enum load_protocol protocol, const char *const *texts, size_t text_count)
{
    for (size_t i = 0; i < text_count; i++) {
        size_t size = strlen(texts[i]);
        const char *bytes = guarded(texts[i], size);
        struct load_totals totals;

        if (read_pieces(protocol, bytes, size, size, size, &totals) ||
            read_pieces(protocol, bytes, size, 1, 1, &totals))
            fail_msg("taken as an answer: %s", texts[i]);
    }
}

static void resp_answers_are_counted(void **state)
{
    (void)state;
    check_rows(LOAD_RESP, resp_rows, sizeof(resp_rows) / sizeof(resp_rows[0]));
}

static void http_answers_are_counted(void **state)
{
    (void)state;
    check_rows(LOAD_HTTP, http_rows, sizeof(http_rows) / sizeof(http_rows[0]));
    check_rows(LOAD_HTTP, odd_http_rows, sizeof(odd_http_rows) / sizeof(odd_http_rows[0]));
}

static void what_is_no_answer_is_refused(void **state)
{
    (void)state;
    check_wrong(LOAD_RESP, wrong_resp, sizeof(wrong_resp) / sizeof(wrong_resp[0]));
    check_wrong(LOAD_HTTP, wrong_http, sizeof(wrong_http) / sizeof(wrong_http[0]));
}

static void a_long_error_is_cut(void **state)
{
    char bytes[1000];
    struct load_totals totals;

    (void)state;
    memset(bytes, 'e', sizeof(bytes));
    bytes[0] = '-';
    memcpy(bytes + sizeof(bytes) - 2, "\r\n", 2);
    for (size_t step_size = 1; step_size <= sizeof(bytes); step_size += 111) {
        assert_true(read_pieces(LOAD_RESP, bytes, sizeof(bytes), step_size, step_size, &totals));
        assert_int_equal(strlen(totals.first_error), LOAD_FIRST_ERROR_SIZE - 1);
        assert_int_equal(totals.error_count, 1);
    }
}

/* What is not UTF-8 by RFC 3629 (overlong, a surrogate, beyond U+10FFFF) is shown byte by byte. */
static void text_of_a_server_is_escaped(void **state)
{
    static const struct {
        const char *text, *shown;
    } rows[] = {
        {"plain \xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80",
         "plain \xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80"},
        {"a\nb\x7f", "a\\x0Ab\\x7F"},
        {"\xc2\x9b", "\\xC2\\x9B"},
        {"\xc0\xaf", "\\xC0\\xAF"},
        {"\xe0\x82\x9b", "\\xE0\\x82\\x9B"},
        {"\xe0\x9f\xbf", "\\xE0\\x9F\\xBF"},
        {"\xe0\xa0\x80", "\xe0\xa0\x80"},
        {"\xf0\x80\x82\x9b", "\\xF0\\x80\\x82\\x9B"},
        {"\xf0\x8f\xbf\xbf", "\\xF0\\x8F\\xBF\\xBF"},
        {"\xf0\x90\x80\x80", "\xf0\x90\x80\x80"},
        {"\xed\x9f\xbf", "\xed\x9f\xbf"},
        {"\xed\xa0\x80", "\\xED\\xA0\\x80"},
        {"\xf4\x8f\xbf\xbf", "\xf4\x8f\xbf\xbf"},
        {"\xf4\x90\x80\x80", "\\xF4\\x90\\x80\\x80"},
    };
    char buffer[64];

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        assert_string_equal(load_escape(rows[i].text, strlen(rows[i].text), buffer, sizeof(buffer)),
                            rows[i].shown);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(resp_answers_are_counted),     cmocka_unit_test(http_answers_are_counted),
        cmocka_unit_test(what_is_no_answer_is_refused), cmocka_unit_test(a_long_error_is_cut),
        cmocka_unit_test(text_of_a_server_is_escaped),
    };

    return cmocka_run_group_tests(tests, guard_map, guard_unmap);
}
