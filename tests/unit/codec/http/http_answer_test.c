/*
 * Answers, byte for byte.
 */
#include "codec/http/http_answer.h"

#include "support/unit.h"
#include "support/written.h"

static void answer(const struct ration_http_answer_options *options, const char *content_type,
                   const char *body)
{
    struct ration_http_answer answer;
    ration_http_answer_begin(&answer, &written, options);
    ration_http_answer_header(&answer, "X-A", "b", 1);
    if (content_type) {
        ration_http_answer_body(&answer, content_type);
        ration_output_append_text(&written, body);
    }
    ration_http_answer_end(&answer);
}

static void with_and_without_a_body(void **state)
{
    (void)state;
    answer(
        &(struct ration_http_answer_options){.status = 200, .minor_version = 1, .keep_alive = true},
        "text/plain", "hello, you\n");
    assert_written("HTTP/1.1 200 OK\r\nX-A: b\r\nContent-Type: text/plain\r\n"
                   "Content-Length: 11\r\n\r\nhello, you\n");
    answer(
        &(struct ration_http_answer_options){.status = 200, .minor_version = 1, .keep_alive = true},
        "text/plain", "");
    assert_written("HTTP/1.1 200 OK\r\nX-A: b\r\nContent-Type: text/plain\r\n"
                   "Content-Length: 0\r\n\r\n");
    answer(
        &(struct ration_http_answer_options){.status = 404, .minor_version = 1, .keep_alive = true},
        NULL, NULL);
    assert_written("HTTP/1.1 404 Not Found\r\nX-A: b\r\nContent-Length: 0\r\n\r\n");
    answer(
        &(struct ration_http_answer_options){.status = 204, .minor_version = 1, .keep_alive = true},
        NULL, NULL);
    assert_written("HTTP/1.1 204 No Content\r\nX-A: b\r\n\r\n");
}

static void head_has_the_length_and_no_body(void **state)
{
    (void)state;
    answer(
        &(struct ration_http_answer_options){
            .status = 200, .minor_version = 1, .keep_alive = true, .is_head = true},
        "text/plain", "hello, you\n");
    assert_written("HTTP/1.1 200 OK\r\nX-A: b\r\nContent-Type: text/plain\r\n"
                   "Content-Length: 11\r\n\r\n");
}

static void connections(void **state)
{
    (void)state;
    answer(
        &(struct ration_http_answer_options){
            .status = 429, .minor_version = 1, .date = RATION_KEY("Sun, 06 Nov 1994 08:49:37 GMT")},
        NULL, NULL);
    assert_written("HTTP/1.1 429 Too Many Requests\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n"
                   "Connection: close\r\nX-A: b\r\nContent-Length: 0\r\n\r\n");
    answer(&(struct ration_http_answer_options){.status = 200, .keep_alive = true}, NULL, NULL);
    assert_written("HTTP/1.1 200 OK\r\nConnection: keep-alive\r\nX-A: b\r\n"
                   "Content-Length: 0\r\n\r\n");
}

/* Answers to pipelined requests stand behind each other in one output. */
static void one_behind_another(void **state)
{
    (void)state;
    struct ration_http_answer_options options = {
        .status = 200, .minor_version = 1, .keep_alive = true};
    answer(&options, "a/b", "1");
    answer(&options, "a/b", "22");
    assert_written("HTTP/1.1 200 OK\r\nX-A: b\r\nContent-Type: a/b\r\nContent-Length: 1\r\n\r\n1"
                   "HTTP/1.1 200 OK\r\nX-A: b\r\nContent-Type: a/b\r\nContent-Length: 2\r\n\r\n22");
}

/* A value cannot end its line, or the client reads headers that were never sent. */
static void values_stay_on_their_line(void **state)
{
    (void)state;
    struct ration_http_answer one;
    ration_http_answer_begin(&one, &written,
                             &(struct ration_http_answer_options){
                                 .status = 200, .minor_version = 1, .keep_alive = true});
    ration_http_answer_header(&one, "A", "b\r\nC: d\0\x7F", 9);
    ration_http_answer_end(&one);
    assert_written("HTTP/1.1 200 OK\r\nA: b  C: d  \r\nContent-Length: 0\r\n\r\n");
}

static void every_status_has_a_text(void **state)
{
    (void)state;
    assert_string_equal(ration_http_status_text(429), "Too Many Requests");
    assert_null(ration_http_status_text(299));
    answer(
        &(struct ration_http_answer_options){.status = 299, .minor_version = 1, .keep_alive = true},
        NULL, NULL);
    assert_written("HTTP/1.1 500 Internal Server Error\r\nX-A: b\r\nContent-Length: 0\r\n\r\n");
}

static void a_full_output_fails_and_nothing_else(void **state)
{
    (void)state;
    for (size_t bytes_max = 0; bytes_max < 120; bytes_max++) {
        struct ration_output output;
        struct ration_http_answer one;
        ration_output_init(&output, bytes_max);
        ration_http_answer_begin(&one, &output,
                                 &(struct ration_http_answer_options){.status = 200});
        ration_http_answer_header(&one, "A", "b", 1);
        ration_http_answer_body(&one, "text/plain");
        ration_output_append_text(&output, "hello");
        ration_http_answer_end(&one);
        assert_true(output.is_failed || output.size <= bytes_max);
        ration_output_done(&output);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(with_and_without_a_body),
        cmocka_unit_test(head_has_the_length_and_no_body),
        cmocka_unit_test(connections),
        cmocka_unit_test(one_behind_another),
        cmocka_unit_test(values_stay_on_their_line),
        cmocka_unit_test(every_status_has_a_text),
        cmocka_unit_test(a_full_output_fails_and_nothing_else),
    };
    return cmocka_run_group_tests_name("http_answer", tests, written_init, written_done);
}
