/*
 * Rows for the HTTP parser: a stream, and its requests. Each stream is parsed whole, byte by byte and split at every
 * position, right before an inaccessible page; all must give the same result.
 */
#include "codec/http/http_request.h"

#include <stdlib.h>

#include "support/http_stream.h"
#include "support/unit.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

static const struct ration_http_limits limits = RATION_HTTP_LIMITS_DEFAULT;

struct row {
    const char *stream;
    const char *expected;
};

static size_t cut_once(void *context, size_t left)
{
    size_t *first = context;
    size_t piece = *first && *first < left ? *first : left;
    *first = 0;
    return piece;
}

static void check_every_cut(const struct ration_http_limits *bounds, const char *stream,
                            size_t size, const char *expected)
{
    char text[HTTP_STREAM_TEXT_SIZE];
    http_stream_read(bounds, stream, size, http_stream_whole, NULL, text, NULL);
    assert_string_equal(text, expected);
    http_stream_read(bounds, stream, size, http_stream_by_byte, NULL, text, NULL);
    assert_string_equal(text, expected);
    for (size_t first = 1; first < size; first++) {
        size_t cut = first;
        http_stream_read(bounds, stream, size, cut_once, &cut, text, NULL);
        assert_string_equal(text, expected);
    }
}

static void check_rows(const struct row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++)
        check_every_cut(&limits, rows[i].stream, strlen(rows[i].stream), rows[i].expected);
}

static void requests_without_a_body(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"GET / HTTP/1.1\r\nHost: h\r\n\r\n", "[GET / ? @h 1.1 27|host:h|]"},
        {"GET / HTTP/1.1\r\nHost:\r\n\r\n", "[GET / ? @ 1.1 25|host:|]"},
        {"GET / HTTP/1.1\r\nHost: h\r\n", "more"},
        {"GET / HTTP/1.0\r\n\r\n", "[GET / ? @ 1.0 close 18|]"},
        {"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
         "[GET / ? @ 1.0 42|connection:keep-alive|]"},
        {"GET / HTTP/1.0\r\nConnection: close, keep-alive\r\n\r\n",
         "[GET / ? @ 1.0 close 49|connection:close, keep-alive|]"},
        {"GET / HTTP/1.1\r\nHost: h\r\nConnection: Close\r\n\r\n",
         "[GET / ? @h 1.1 close 46|host:h|connection:Close|]"},
        {"GET /a/b?c=d&e=%20?f HTTP/1.1\r\nHost: H:80\r\nX-A:  b c\t \r\nX-A:\r\n\r\n",
         "[GET /a/b ?c=d&e=%20?f @H:80 1.1 64|host:H:80|x-a:b c|x-a:|]"},
        {"GET /? HTTP/1.1\r\nHost: h\r\n\r\n", "[GET / ? @h 1.1 28|host:h|]"},
        {"GET http://Ab:8/x?y HTTP/1.1\r\nHost: aB:8\r\n\r\n",
         "[GET /x ?y @Ab:8 1.1 44|host:aB:8|]"},
        {"GET http://h HTTP/1.1\r\nHost: h\r\n\r\n", "[GET / ? @h 1.1 34|host:h|]"},
        {"GET http://h?x HTTP/1.0\r\n\r\n", "[GET / ?x @h 1.0 close 27|]"},
        {"OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n", "[OPTIONS * ? @h 1.1 31|host:h|]"},
        {"POST / HTTP/1.1\r\nHost: h\r\n\r\n", "[POST / ? @h 1.1 28|host:h|]"},
        {"GET / HTTP/1.1\r\nHost: [::1]:80\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n",
         "[GET / ? @[::1]:80 1.1 69|host:[::1]:80|upgrade:h2c|connection:Upgrade|]"},
        {"GET /\xC3\xA9 HTTP/1.1\r\nHost: h\r\n\r\n", "wrong 400"},
        {"GET / HTTP/1.1\r\nHost: h\r\nA: \xC3\xA9\r\n\r\n",
         "[GET / ? @h 1.1 34|host:h|a:\xC3\xA9|]"},
        /* One after the other. */
        {"GET /1 HTTP/1.1\r\nHost: h\r\n\r\nGET /2 HTTP/1.1\r\nHost: h\r\n\r\n",
         "[GET /1 ? @h 1.1 28|host:h|][GET /2 ? @h 1.1 28|host:h|]"},
    };
    check_rows(rows, COUNT_OF(rows));
}

static void bodies_of_a_length(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello",
         "[POST / ? @h 1.1 52|host:h|content-length:5|hello]"},
        {"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhell", "more"},
        {"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n",
         "[POST / ? @h 1.1 47|host:h|content-length:0|]"},
        {"DELETE / HTTP/1.1\r\nHost: h\r\nContent-Length: 002\r\n\r\nab"
         "GET / HTTP/1.1\r\nHost: h\r\n\r\n",
         "[DELETE / ? @h 1.1 53|host:h|content-length:002|ab][GET / ? @h 1.1 27|host:h|]"},
        {"PUT / HTTP/1.0\r\nContent-Length: 2\r\n\r\nab",
         "[PUT / ? @ 1.0 close 39|content-length:2|ab]"},
        {"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\nExpect: 100-Continue\r\n\r\nab",
         "[POST / ? @h 1.1 expects 71|host:h|content-length:2|expect:100-Continue|ab]"},
    };
    check_rows(rows, COUNT_OF(rows));
}

#define CHUNKED_HEAD "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: Chunked\r\n\r\n"
#define CHUNKED_TEXT "|host:h|transfer-encoding:Chunked|"

static void chunked_bodies(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {CHUNKED_HEAD "0\r\n\r\n", "[POST / ? @h 1.1 61" CHUNKED_TEXT "]"},
        {CHUNKED_HEAD "5\r\nhello\r\n0\r\n\r\n", "[POST / ? @h 1.1 71" CHUNKED_TEXT "hello]"},
        {CHUNKED_HEAD "2\r\n\r\n\r\n00A\r\n0123456789\r\n1;a=b\r\n!\r\n000\r\n\r\n",
         "[POST / ? @h 1.1 97" CHUNKED_TEXT "\r\n0123456789!]"},
        {CHUNKED_HEAD "5 ;x\r\nhello\r\n0\r\n\r\n", "wrong 400"},
        {CHUNKED_HEAD "1\r\na\r\n0\r\nX-Sum: 1\r\nHost: evil\r\n\r\nGET / HTTP/1.0\r\n\r\n",
         "[POST / ? @h 1.1 89" CHUNKED_TEXT "a][GET / ? @ 1.0 close 18|]"},
        {CHUNKED_HEAD "5\r\nhello\r\n0\r\n", "more"},
        {CHUNKED_HEAD "5\r\nhel", "more"},
    };
    check_rows(rows, COUNT_OF(rows));
}

/* nginx's auth_request sends the client's Content-Length and no body. */
/* RFC 9112 section 2.2: some clients send an empty line after the body of a POST. */
static void empty_lines_before_a_request_are_ignored(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n", "[GET / ? @h 1.1 29|host:h|]"},
        {"\r\n\r\n\r\n\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n", "[GET / ? @h 1.1 35|host:h|]"},
        {"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\na\r\nGET / HTTP/1.0\r\n\r\n",
         "[POST / ? @h 1.1 48|host:h|content-length:1|a][GET / ? @ 1.0 close 20|]"},
        {"\r\nPOST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc",
         "[POST / ? @h 1.1 52|host:h|content-length:3|abc]"},
        {"\r\n" CHUNKED_HEAD "3\r\nabc\r\n0\r\n\r\n", "[POST / ? @h 1.1 71" CHUNKED_TEXT "abc]"},
        {"", "more"},
        {"\r\n", "more"},
        {"\r\n\r\n\r\n\r\n", "more"},
        {"\r\n\r\n\r\n\r\n\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n", "wrong 400"},
        {"\nGET / HTTP/1.1\r\nHost: h\r\n\r\n", "wrong 400"},
        {"\rGET / HTTP/1.1\r\nHost: h\r\n\r\n", "wrong 400"},
        {"\r\n GET / HTTP/1.1\r\nHost: h\r\n\r\n", "wrong 400"},
    };
    check_rows(rows, COUNT_OF(rows));
    assert_int_equal(ration_http_empty_lines_size("\r\n\r", 3), 3);
    assert_int_equal(ration_http_empty_lines_size("\r\n\rG", 4), 2);
}

static void get_with_a_length_is_answered_and_is_the_last(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"GET /v1/check HTTP/1.1\r\nHost: h\r\nContent-Length: 44\r\n\r\n",
         "[GET /v1/check ? @h 1.1 close unread 55|host:h|content-length:44|]"},
        {"GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 26\r\n\r\nGET /admin HTTP/1.1\r\n",
         "[GET / ? @h 1.1 close unread 47|host:h|content-length:26|]"},
        {"HEAD / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
         "[HEAD / ? @h 1.1 close unread 56|host:h|transfer-encoding:chunked|]"},
        {"GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 999999999999\r\n\r\n",
         "[GET / ? @h 1.1 close unread 57|host:h|content-length:999999999999|]"},
        {"GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\nGET / HTTP/1.0\r\n\r\n",
         "[GET / ? @h 1.1 46|host:h|content-length:0|][GET / ? @ 1.0 close 18|]"},
    };
    check_rows(rows, COUNT_OF(rows));
}

static void reports_what_it_waits_for(void **state)
{
    (void)state;
    char text[HTTP_STREAM_TEXT_SIZE];
    struct ration_http_progress progress;
    static const char head[] =
        "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\nExpect: 100-continue\r\n\r\n";

    http_stream_read(&limits, head, 20, http_stream_whole, NULL, text, &progress);
    assert_int_equal(progress.phase, RATION_HTTP_HEAD);
    assert_false(progress.wants_continue);
    assert_int_equal(progress.scanned_bytes, 20); /* and never examined again */
    http_stream_read(&limits, head, sizeof(head) - 1, http_stream_by_byte, NULL, text, &progress);
    assert_int_equal(progress.phase, RATION_HTTP_BODY);
    assert_int_equal(progress.needed_bytes, sizeof(head) - 1 + 9);
    assert_true(progress.wants_continue);
    static const char later[] = "\r\nPOST / HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\na";
    http_stream_read(&limits, later, sizeof(later) - 1, http_stream_by_byte, NULL, text, &progress);
    assert_int_equal(progress.needed_bytes, sizeof(later) - 2 + 9); /* from the empty line on */
    /* A client that sends the body at once does not wait. */
    http_stream_read(&limits, head, sizeof(head), http_stream_whole, NULL, text, &progress);
    assert_int_equal(progress.phase, RATION_HTTP_BODY);
    assert_false(progress.wants_continue);

    static const char chunk[] = CHUNKED_HEAD "10\r\nabc";
    http_stream_read(&limits, chunk, sizeof(chunk) - 1, http_stream_whole, NULL, text, &progress);
    assert_int_equal(progress.needed_bytes,
                     sizeof(CHUNKED_HEAD) - 1 + 4 + 16 + 1); /* the byte after the chunk */
}

/* Each bound: the largest that passes, and one more. */
static void bounds(void **state)
{
    (void)state;
    static const struct ration_http_limits small = {
        .head_bytes_max = 60, .body_bytes_max = 5, .target_bytes_max = 8, .headers_max = 2};
    static const struct row rows[] = {
        {"GET /2345678 HTTP/1.0\r\n\r\n", "[GET /2345678 ? @ 1.0 close 25|]"},
        {"GET /23456789 HTTP/1.0\r\n\r\n", "wrong 414"},
        {"GET /aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "wrong 414"},
        {"GET / HTTP/1.0\r\nA: b\r\nC: d\r\n\r\n", "[GET / ? @ 1.0 close 30|a:b|c:d|]"},
        {"GET / HTTP/1.0\r\nA: b\r\nC: d\r\nE: f\r\n\r\n", "wrong 431"},
        {"GET / HTTP/1.0\r\nA: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n\r\n",
         "[GET / ? @ 1.0 close 60|a:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa|]"},
        {"GET / HTTP/1.0\r\nA: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n\r\n", "wrong 431"},
        {"GET / HTTP/1.0\r\nA: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\nB\x01: c\r\n\r\n",
         "wrong 431"},
        {"PUT / HTTP/1.0\r\nContent-Length: 5\r\n\r\nhello",
         "[PUT / ? @ 1.0 close 42|content-length:5|hello]"},
        {"PUT / HTTP/1.0\r\nContent-Length: 6\r\n\r\nhello!", "wrong 413"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        check_every_cut(&small, rows[i].stream, strlen(rows[i].stream), rows[i].expected);

    static const struct ration_http_limits body = {
        .head_bytes_max = 100, .body_bytes_max = 5, .target_bytes_max = 8, .headers_max = 2};
    static const struct row chunked[] = {
        {CHUNKED_HEAD "3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n",
         "[POST / ? @h 1.1 76" CHUNKED_TEXT "hello]"},
        {CHUNKED_HEAD "3\r\nhel\r\n3\r\nlo!\r\n0\r\n\r\n", "wrong 413"},
        {CHUNKED_HEAD "FFFFFFFF\r\n", "wrong 413"},
    };
    for (size_t i = 0; i < COUNT_OF(chunked); i++)
        check_every_cut(&body, chunked[i].stream, strlen(chunked[i].stream), chunked[i].expected);
}

static enum ration_http_result read_big(char *bytes, size_t size,
                                        struct ration_http_progress *progress)
{
    static struct ration_http_request request;
    return ration_http_read(&limits, progress, bytes, size, &request);
}

/* Chunks of one byte cost six: the buffer of a request would be six times what its body may be. */
static void small_chunks_are_bounded(void **state)
{
    (void)state;
    struct ration_http_progress progress = {0};
    size_t head = sizeof(CHUNKED_HEAD) - 1, size = head + 6 * 20000;
    char *bytes = malloc(size);
    assert_non_null(bytes);
    memcpy(bytes, CHUNKED_HEAD, head);
    for (size_t at = head; at < size; at += 6)
        memcpy(bytes + at, "1\r\na\r\n", 6);
    assert_int_equal(read_big(bytes, size, &progress), RATION_HTTP_WRONG);
    assert_int_equal(progress.status, 413);
    free(bytes);

    progress = (struct ration_http_progress){0};
    bytes = malloc(size);
    memcpy(bytes, CHUNKED_HEAD "0\r\n", head + 3);
    for (size_t at = head + 3; at + 6 <= size; at += 6)
        memcpy(bytes + at, "A: b\r\n", 6);
    assert_int_equal(read_big(bytes, size - size % 6 - 6, &progress), RATION_HTTP_WRONG);
    assert_int_equal(progress.status, 413);
    free(bytes);
}

/* The largest body, one more byte per call: this would take seconds if bytes were examined twice. */
static void pieces_cost_no_more_than_the_whole(void **state)
{
    (void)state;
    static const char head[] = CHUNKED_HEAD "100000\r\n";
    size_t size = sizeof(head) - 1 + (1 << 20), given;
    struct ration_http_progress progress = {0};
    char *bytes = malloc(size + 7);
    assert_non_null(bytes);
    memcpy(bytes, head, sizeof(head) - 1);
    memset(bytes + sizeof(head) - 1, 'x', 1 << 20);
    memcpy(bytes + size, "\r\n0\r\n\r\n", 7);
    for (given = 1; given < size + 7; given++)
        assert_int_equal(read_big(bytes, given, &progress), RATION_HTTP_MORE);
    assert_int_equal(read_big(bytes, given, &progress), RATION_HTTP_REQUEST);
    assert_int_equal(progress.phase, RATION_HTTP_HEAD);
    assert_int_equal(progress.scanned_bytes, 0);
    free(bytes);
}

static void refusals_stay(void **state)
{
    (void)state;
    char text[HTTP_STREAM_TEXT_SIZE];
    struct ration_http_progress progress;
    struct ration_http_request request;
    char next[] = "GET / HTTP/1.0\r\n\r\n";
    http_stream_read(&limits, "get / HTTP/1.1\r\n", 16, http_stream_whole, NULL, text, &progress);
    assert_int_equal(progress.status, 400);
    assert_non_null(strstr(progress.reason, "capitals"));
    http_stream_read(&limits, "GET / HTTP/1.1\r\nA: b\r\n c\r\n", 26, http_stream_whole, NULL, text,
                     &progress);
    assert_non_null(strstr(progress.reason, "folded"));
    assert_int_equal(ration_http_read(&limits, &progress, next, sizeof(next) - 1, &request),
                     RATION_HTTP_WRONG);
}

static void headers_are_found_by_name(void **state)
{
    (void)state;
    struct ration_http_progress progress = {0};
    struct ration_http_request request;
    char bytes[] = "GET / HTTP/1.1\r\nHOST: h\r\nX-Real-IP: 1.2.3.4\r\nx-real-ip: 5\r\n\r\n";
    assert_int_equal(ration_http_read(&limits, &progress, bytes, sizeof(bytes) - 1, &request),
                     RATION_HTTP_REQUEST);
    assert_true(ration_http_is(ration_http_header(&request, "x-real-ip"), "1.2.3.4"));
    assert_null(ration_http_header(&request, "x-real"));
    assert_null(ration_http_header(&request, "x-real-ip2"));
    assert_true(ration_http_is_any_case(&RATION_KEY("AbC"), "abc"));
    assert_false(ration_http_is_any_case(&RATION_KEY("AbCd"), "abc"));
    assert_false(ration_http_is_any_case(&RATION_KEY("Ab"), "abc"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_without_a_body),
        cmocka_unit_test(empty_lines_before_a_request_are_ignored),
        cmocka_unit_test(bodies_of_a_length),
        cmocka_unit_test(chunked_bodies),
        cmocka_unit_test(get_with_a_length_is_answered_and_is_the_last),
        cmocka_unit_test(reports_what_it_waits_for),
        cmocka_unit_test(bounds),
        cmocka_unit_test(small_chunks_are_bounded),
        cmocka_unit_test(pieces_cost_no_more_than_the_whole),
        cmocka_unit_test(refusals_stay),
        cmocka_unit_test(headers_are_found_by_name),
    };
    return cmocka_run_group_tests_name("http_request", tests, guard_map, guard_unmap);
}
