/*
 * Forms that two HTTP parsers may read as different requests: each is refused with the status in its row, however the
 * stream is split. The first form of each group is the valid counterpart, which passes.
 */
#include <stdbool.h>

#include "support/http_stream.h"
#include "support/unit.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

#define ROW(status, stream)                \
    {                                      \
        status, stream, sizeof(stream) - 1 \
    }
#define H       "Host: h\r\n"
#define CHUNKED "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n"

/* 0: a request. */
static const struct row {
    unsigned status;
    const char *stream;
    size_t size;
} rows[] = {
    /* Two lengths. */
    ROW(0, "POST / HTTP/1.1\r\n" H "Content-Length: 2\r\n\r\nab"),
    ROW(400,
        "POST / HTTP/1.1\r\n" H "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    ROW(400,
        "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n0\r\n\r\n"),
    ROW(400,
        "GET / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n0\r\n\r\n"),
    ROW(400, "POST / HTTP/1.1\r\n" H "Content-Length: 2\r\nContent-Length: 3\r\n\r\nabc"),
    ROW(400, "POST / HTTP/1.1\r\n" H "Content-Length: 2\r\nContent-Length: 2\r\n\r\nab"),
    ROW(400, "GET / HTTP/1.1\r\n" H "Content-Length: 2\r\nContent-Length: 2\r\n\r\nab"),
    ROW(400, "POST / HTTP/1.1\r\n" H "Content-Length: 2, 2\r\n\r\nab"),

    /* Lengths that are not plain numbers. */
    ROW(400, "POST / HTTP/1.1\r\n" H "Content-Length: +2\r\n\r\nab"),
    ROW(400, "POST / HTTP/1.1\r\n" H "Content-Length: -2\r\n\r\nab"),
    ROW(400, "POST / HTTP/1.1\r\n" H "Content-Length: 0x2\r\n\r\nab"),
    ROW(400, "POST / HTTP/1.1\r\n" H "Content-Length: 2 2\r\n\r\nab"),
    ROW(400, "POST / HTTP/1.1\r\n" H "Content-Length: 2.0\r\n\r\nab"),
    ROW(400, "POST / HTTP/1.1\r\n" H "Content-Length: 2e0\r\n\r\nab"),
    ROW(400, "POST / HTTP/1.1\r\n" H "Content-Length: 1_0\r\n\r\n0123456789"),
    ROW(400, "POST / HTTP/1.1\r\n" H "Content-Length: \r\n\r\nab"),
    ROW(400, "POST / HTTP/1.1\r\n" H "Content-Length: \"2\"\r\n\r\nab"),
    ROW(400, "POST / HTTP/1.1\r\n" H "Content-Length: 18446744073709551618\r\n\r\nab"),
    ROW(400, "POST / HTTP/1.1\r\n" H "Content-Length: 0000000000000002\r\n\r\nab"),
    ROW(413, "POST / HTTP/1.1\r\n" H "Content-Length: 4294967298\r\n\r\nab"),
    ROW(400, "GET / HTTP/1.1\r\n" H "Content-Length: +2\r\n\r\nab"),

    /* Encodings. */
    ROW(0, CHUNKED "0\r\n\r\n"),
    ROW(0, "POST / HTTP/1.1\r\n" H "Transfer-Encoding:cHuNkEd \r\n\r\n0\r\n\r\n"),
    ROW(501, "POST / HTTP/1.1\r\n" H "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"),
    ROW(501, "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n"),
    ROW(501, "POST / HTTP/1.1\r\n" H "Transfer-Encoding: identity\r\n\r\n0\r\n\r\n"),
    ROW(501, "POST / HTTP/1.1\r\n" H "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n"),
    ROW(501, "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked;q=1\r\n\r\n0\r\n\r\n"),
    ROW(501, "POST / HTTP/1.1\r\n" H "Transfer-Encoding: \"chunked\"\r\n\r\n0\r\n\r\n"),
    ROW(501, "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked chunked\r\n\r\n0\r\n\r\n"),
    ROW(501, "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n"),
    ROW(501, "POST / HTTP/1.1\r\n" H "Transfer-Encoding:\r\n\r\n0\r\n\r\n"),
    ROW(501, "GET / HTTP/1.1\r\n" H "Transfer-Encoding: identity\r\n\r\n"),
    ROW(400, "POST / HTTP/1.1\r\n" H "Transfer-Encoding: \x0B"
             "chunked\r\n\r\n0\r\n\r\n"),
    ROW(400, "POST / HTTP/1.1\r\n" H
             "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    ROW(400, "POST / HTTP/1.1\r\n" H
             "Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    ROW(400, "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    ROW(400, "POST / HTTP/1.1\r\n" H "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n"),
    ROW(400, "POST / HTTP/1.1\r\n" H "Transfer-Encoding\t: chunked\r\n\r\n0\r\n\r\n"),
    ROW(400, "POST / HTTP/1.1\r\n" H "X: y\r\n Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    ROW(400, "POST / HTTP/1.1\r\n" H "Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n"),
    ROW(400, "POST / HTTP/1.1\r\n" H "X: y\rTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),

    /* Chunks. */
    ROW(0, CHUNKED "3\r\nabc\r\n0\r\n\r\n"),
    ROW(400, CHUNKED "+3\r\nabc\r\n0\r\n\r\n"),
    ROW(400, CHUNKED "-3\r\nabc\r\n0\r\n\r\n"),
    ROW(400, CHUNKED "0x3\r\nabc\r\n0\r\n\r\n"),
    ROW(400, CHUNKED " 3\r\nabc\r\n0\r\n\r\n"),
    ROW(400, CHUNKED "3 \r\nabc\r\n0\r\n\r\n"),
    ROW(400, CHUNKED "3g\r\nabc\r\n0\r\n\r\n"),
    ROW(400, CHUNKED "\r\nabc\r\n0\r\n\r\n"),
    ROW(400, CHUNKED ";\r\nabc\r\n0\r\n\r\n"),
    ROW(400, CHUNKED "3\nabc\r\n0\r\n\r\n"),
    ROW(400, CHUNKED "3\r\nabc\n0\r\n\r\n"),
    ROW(400, CHUNKED "3\r\nabcd\r\n0\r\n\r\n"),
    ROW(400, CHUNKED "3\r\nabc0\r\n\r\n"),
    ROW(400, CHUNKED "3\r\nabc\r0\r\n\r\n"),
    ROW(400, CHUNKED "100000003\r\nabc\r\n0\r\n\r\n"),
    ROW(400, CHUNKED "10000000000000003\r\nabc\r\n0\r\n\r\n"),
    ROW(400, CHUNKED "000000003\r\nabc\r\n0\r\n\r\n"),
    ROW(413, CHUNKED "FFFFFFFF\r\nabc\r\n0\r\n\r\n"),
    ROW(0, CHUNKED "3;a=\"b\"; c\r\nabc\r\n0\r\n\r\n"),
    ROW(400, CHUNKED "3;a\x01\r\nabc\r\n0\r\n\r\n"),
    ROW(400, CHUNKED "3;a\rb\r\nabc\r\n0\r\n\r\n"),
    ROW(400, CHUNKED "3;a\nb\r\nabc\r\n0\r\n\r\n"),
    ROW(400, CHUNKED "3;aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
                     "\r\nabc\r\n0\r\n\r\n"),
    ROW(0, CHUNKED "0\r\nA: b\r\n\r\n"),
    ROW(400, CHUNKED "0\r\nA : b\r\n\r\n"),
    ROW(400, CHUNKED "0\r\n A: b\r\n\r\n"),
    ROW(400, CHUNKED "0\r\nGET / HTTP/1.1\r\n\r\n"),
    ROW(400, CHUNKED "0\r\nA: b\n\r\n"),
    ROW(400, CHUNKED "0\r\n: b\r\n\r\n"),
    ROW(400, CHUNKED "0\r\nA: b\x7F\r\n\r\n"),
    ROW(400, CHUNKED "0\r\nA: b\0\r\n\r\n"),
    ROW(400, CHUNKED "0\n\r\n"),

    /* Ends of lines. */
    ROW(0, "GET / HTTP/1.1\r\n" H "\r\n"),
    ROW(400, "GET / HTTP/1.1\n" H "\r\n"),
    ROW(400, "GET / HTTP/1.1\r\nHost: h\n\r\n"),
    ROW(400, "GET / HTTP/1.1\r\nHost: h\r\n\n"),
    ROW(400, "GET / HTTP/1.1\r\nHost: h\n\n"),
    ROW(400, "GET / HTTP/1.1\rHost: h\r\n\r\n"),
    ROW(400, "GET / HTTP/1.1\r\nHost: h\rX: y\r\n\r\n"),
    ROW(400, "GET / HTTP/1.1\r\nHost: h\r\r\n\r\n"),
    ROW(400, "GET / HTTP/1.1\r\r\nHost: h\r\n\r\n"),

    /* Folded lines, and blanks where none may be. */
    ROW(400, "GET / HTTP/1.1\r\n" H "A: b\r\n c\r\n\r\n"),
    ROW(400, "GET / HTTP/1.1\r\n" H "A: b\r\n\tc\r\n\r\n"),
    ROW(400, "GET / HTTP/1.1\r\n Host: h\r\n\r\n"),
    ROW(400, "GET / HTTP/1.1\r\nHost : h\r\n\r\n"),
    ROW(400, "GET / HTTP/1.1\r\n" H "A b: c\r\n\r\n"),
    ROW(400, "GET / HTTP/1.1\r\n" H ": c\r\n\r\n"),
    ROW(400, "GET / HTTP/1.1\r\n" H "A\r\n\r\n"),
    ROW(0, "\r\nGET / HTTP/1.1\r\n" H "\r\n"),
    ROW(400, "\nGET / HTTP/1.1\r\n" H "\r\n"),
    ROW(400, " GET / HTTP/1.1\r\n" H "\r\n"),
    ROW(400, "GET  / HTTP/1.1\r\n" H "\r\n"),
    ROW(400, "GET\t/ HTTP/1.1\r\n" H "\r\n"),
    ROW(400, "GET /  HTTP/1.1\r\n" H "\r\n"),
    ROW(400, "GET / HTTP/1.1 \r\n" H "\r\n"),
    ROW(400, "GET /a b HTTP/1.1\r\n" H "\r\n"),

    /* Bytes. */
    ROW(400, "GET / HTTP/1.1\r\n" H "A: b\0c\r\n\r\n"),
    ROW(400, "GET / HTTP/1.1\r\n" H "A\0: b\r\n\r\n"),
    ROW(400, "GET / HTTP/1.1\r\n" H "A: b\x7F"
             "c\r\n\r\n"),
    ROW(400, "GET / HTTP/1.1\r\n" H "A: b\x1B[0mc\r\n\r\n"),
    ROW(400, "GET / HTTP/1.1\r\n" H "A\x80: b\r\n\r\n"),
    ROW(400, "GET / HTTP/1.1\r\n" H "A(: b\r\n\r\n"),
    ROW(400, "GET / HTTP/1.1\r\n" H "\"A\": b\r\n\r\n"),
    ROW(400, "GET /\0 HTTP/1.1\r\n" H "\r\n"),
    ROW(400, "GET /\x01 HTTP/1.1\r\n" H "\r\n"),
    ROW(400, "GET /\x7F HTTP/1.1\r\n" H "\r\n"),
    ROW(400, "GET /\x80 HTTP/1.1\r\n" H "\r\n"),
    ROW(400, "GET /a\tb HTTP/1.1\r\n" H "\r\n"),
    ROW(400, "GET /#a HTTP/1.1\r\n" H "\r\n"),

    /* Hosts. */
    ROW(0, "GET / HTTP/1.0\r\n\r\n"),
    ROW(400, "GET / HTTP/1.1\r\n\r\n"),
    ROW(400, "GET / HTTP/1.1\r\n" H H "\r\n"),
    ROW(400, "GET / HTTP/1.1\r\n" H "hOST: i\r\n\r\n"),
    ROW(400, "GET / HTTP/1.0\r\n" H "Host: i\r\n\r\n"),
    ROW(400, "GET / HTTP/1.1\r\nHost: a b\r\n\r\n"),
    ROW(400, "GET / HTTP/1.1\r\nHost: a@b\r\n\r\n"),
    ROW(400, "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n"),
    ROW(0, "GET http://h/ HTTP/1.1\r\n" H "\r\n"),
    ROW(400, "GET http://i/ HTTP/1.1\r\n" H "\r\n"),
    ROW(400, "GET http://h:80/ HTTP/1.1\r\n" H "\r\n"),
    ROW(400, "GET http://h/ HTTP/1.1\r\n\r\n"),
    ROW(400, "GET http://i@h/ HTTP/1.1\r\nHost: i@h\r\n\r\n"),
    ROW(400, "GET http://i@h/ HTTP/1.0\r\n\r\n"),
    ROW(400, "GET http:///x HTTP/1.1\r\nHost:\r\n\r\n"),
    ROW(400, "GET ftp://h/ HTTP/1.1\r\n" H "\r\n"),
    ROW(400, "GET h HTTP/1.1\r\n" H "\r\n"),
    ROW(400, "GET * HTTP/1.1\r\n" H "\r\n"),
    ROW(400, "GET ?a HTTP/1.1\r\n" H "\r\n"),

    /* Methods and versions. Bytes that are not HTTP may be refused before the end of the line. */
    ROW(400, "\x16\x03\x01"),
    ROW(400, "get / HTTP/1.1\r\n" H "\r\n"),
    ROW(400, "Get / HTTP/1.1\r\n" H "\r\n"),
    ROW(400, "G(T / HTTP/1.1\r\n" H "\r\n"),
    ROW(501, "BREW / HTTP/1.1\r\n" H "\r\n"),
    ROW(501, "GETS / HTTP/1.1\r\n" H "\r\n"),
    ROW(501, "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA / HTTP/1.1\r\n" H "\r\n"),
    ROW(501, "CONNECT h:80 HTTP/1.1\r\n" H "\r\n"),
    ROW(400, "GET /\r\n"),
    ROW(400, "GET\r\n"),
    ROW(400, "GET / \r\n" H "\r\n"),
    ROW(400, "GET / HTTP\r\n" H "\r\n"),
    ROW(400, "GET / HTTP/1\r\n" H "\r\n"),
    ROW(400, "GET / http/1.1\r\n" H "\r\n"),
    ROW(400, "GET / HTTP/1.10\r\n" H "\r\n"),
    ROW(400, "GET / HTTP/01.1\r\n" H "\r\n"),
    ROW(400, "GET / HTTP/1.x\r\n" H "\r\n"),
    ROW(400, "GET / ICY/1.1\r\n" H "\r\n"),
    ROW(505, "GET / HTTP/0.9\r\n" H "\r\n"),
    ROW(505, "GET / HTTP/1.2\r\n" H "\r\n"),
    ROW(505, "GET / HTTP/2.0\r\n" H "\r\n"),
    ROW(505, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    ROW(417, "POST / HTTP/1.1\r\n" H "Expect: cookies\r\n\r\n"),
    ROW(400, "POST / HTTP/1.1\r\n" H "Expect: 100-continue\r\nExpect: 100-continue\r\n\r\n"),
    ROW(0, "POST / HTTP/1.0\r\n" H "Expect: cookies\r\n\r\n"),
};

static unsigned status_of(const struct row *row, http_stream_cut *cut)
{
    static const struct ration_http_limits limits = RATION_HTTP_LIMITS_DEFAULT;
    char text[HTTP_STREAM_TEXT_SIZE];
    struct ration_http_progress progress;
    switch (http_stream_read(&limits, row->stream, row->size, cut, NULL, text, &progress)) {
    case RATION_HTTP_REQUEST:
        return 0;
    case RATION_HTTP_WRONG:
        assert_non_null(progress.reason);
        return progress.status;
    default:
        return 1; /* waits */
    }
}

static void each_form_has_its_status(void **state)
{
    (void)state;
    bool failed = false;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        unsigned whole = status_of(&rows[i], http_stream_whole);
        unsigned by_byte = status_of(&rows[i], http_stream_by_byte);
        if (whole == rows[i].status && by_byte == rows[i].status)
            continue;
        print_message("expected %u, got %u whole and %u byte by byte:\n%s\n", rows[i].status, whole,
                      by_byte, rows[i].stream);
        failed = true;
    }
    assert_false(failed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_form_has_its_status)};
    return cmocka_run_group_tests_name("http_smuggling", tests, guard_map, guard_unmap);
}
