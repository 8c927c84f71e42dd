/*
 * Requests as bytes: the text around the placeholders, and the values written into them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "load/batch.h"
#include "support/unit.h"

static struct load_request request;
static struct load_error error;

static void assert_bytes(const char *bytes, size_t size, const char *expected)
{
    assert_int_equal(size, strlen(expected));
    assert_memory_equal(bytes, expected, size);
}

static void commands_are_arrays_of_strings(void **state)
{
    (void)state;
    assert_true(load_request_resp("PING", NULL, &request, &error));
    assert_bytes(request.bytes, request.size, "*1\r\n$4\r\nPING\r\n");
    assert_int_equal(request.hole_count, 0);

    assert_true(load_request_resp("  CL.THROTTLE\tu:{key}:x  15 ", NULL, &request, &error));
    assert_bytes(request.bytes, request.size,
                 "*3\r\n$11\r\nCL.THROTTLE\r\n$16\r\nu:000000000000:x\r\n$2\r\n15\r\n");
    assert_int_equal(request.hole_count, 1);

    assert_true(load_request_resp("EVALSHA {sha} 1 {key} {other}", "abc", &request, &error));
    assert_bytes(request.bytes, request.size,
                 "*5\r\n$7\r\nEVALSHA\r\n$3\r\nabc\r\n$1\r\n1\r\n$12\r\n000000000000\r\n"
                 "$7\r\n{other}\r\n");
}

static void http_requests_keep_the_connection(void **state)
{
    struct load_http_parts parts = {.path = "/v1/check?ip={ip}", .host = "127.0.0.1:80"};

    (void)state;
    assert_true(load_request_http(&parts, &request, &error));
    assert_bytes(request.bytes, request.size,
                 "GET /v1/check?ip=100.100.100.100 HTTP/1.1\r\nHost: 127.0.0.1:80\r\n\r\n");
    parts.body = "{\"key\": \"{key}\"}";
    parts.headers[parts.header_count++] = "X-Key: {key}";
    assert_true(load_request_http(&parts, &request, &error));
    assert_bytes(request.bytes, request.size,
                 "POST /v1/check?ip=100.100.100.100 HTTP/1.1\r\nHost: 127.0.0.1:80\r\n"
                 "X-Key: 000000000000\r\nContent-Length: 23\r\n\r\n{\"key\": \"000000000000\"}");
    assert_int_equal(request.hole_count, 3);
}

static void fill(enum load_hole_kind kind, uint64_t key_index, const char *expected)
{
    char hole[LOAD_IP_SIZE + 1] = "";

    load_request_fill(kind, key_index, hole);
    assert_string_equal(hole, expected);
}

static void holes_are_filled(void **state)
{
    (void)state;
    fill(LOAD_HOLE_KEY, 0, "000000000000");
    fill(LOAD_HOLE_KEY, 42, "000000000042");
    fill(LOAD_HOLE_KEY, 123456789012, "123456789012");
    fill(LOAD_HOLE_KEY, LOAD_KEYS_COUNT_MAX - 1, "999999999999");
    fill(LOAD_HOLE_IP, 0, "100.100.100.100");
    fill(LOAD_HOLE_IP, 42, "100.100.100.142");
    fill(LOAD_HOLE_IP, 156, "100.100.101.100");
    fill(LOAD_HOLE_IP, LOAD_IP_KEYS_MAX - 1, "255.255.255.255");
}

/* Each request of a batch has a key of its own, in all its holes. */
static void a_batch_draws_a_key_for_each_request(void **state)
{
    struct load_keys keys;
    struct load_batch batch;
    uint64_t seed = 9;

    (void)state;
    assert_true(load_keys_parse("uniform:1M", &keys, &error));
    assert_true(load_request_resp("SET {key} {key}", NULL, &request, &error));
    assert_true(load_batch_init(&request, &keys, seed, 64, &batch, &error));
    for (int round = 0; round < 3; round++) {
        uint32_t count = round == 1 ? 5 : 64;

        assert_int_equal(load_batch_fill(&batch, count), count * request.size);
        for (uint32_t i = 0; i < count; i++) {
            char expected[128];
            unsigned long long index = load_keys_draw(&keys, &seed);

            snprintf(expected, sizeof(expected),
                     "*3\r\n$3\r\nSET\r\n$12\r\n%012llu\r\n$12\r\n%012llu\r\n", index, index);
            assert_bytes(batch.bytes + i * request.size, request.size, expected);
        }
    }
    load_batch_done(&batch);
}

static void wrong_requests_are_refused(void **state)
{
    static const char *const paths[] = {"", "check", "/a b", "/a\r\nX: y"};
    static const char *const headers[] = {"", "nothing", "A: b\r\nC: d"};
    static char large[LOAD_REQUEST_SIZE_MAX + 2];

    (void)state;
    memset(large, 'x', LOAD_REQUEST_SIZE_MAX + 1);
    assert_false(load_request_resp("", NULL, &request, &error));
    assert_false(load_request_resp("  ", NULL, &request, &error));
    assert_false(load_request_resp(large, NULL, &request, &error));
    assert_false(
        load_request_resp("a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a", NULL,
                          &request, &error));
    assert_false(
        load_request_resp("{key}{key}{key}{key}{key}{key}{key}{key}{key}", NULL, &request, &error));
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
        assert_false(load_request_http(&(struct load_http_parts){.path = paths[i], .host = "h"},
                                       &request, &error));
    for (size_t i = 0; i < sizeof(headers) / sizeof(headers[0]); i++)
        assert_false(load_request_http(
            &(struct load_http_parts){
                .path = "/", .host = "h", .headers = {headers[i]}, .header_count = 1},
            &request, &error));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(commands_are_arrays_of_strings),
        cmocka_unit_test(http_requests_keep_the_connection),
        cmocka_unit_test(holes_are_filled),
        cmocka_unit_test(a_batch_draws_a_key_for_each_request),
        cmocka_unit_test(wrong_requests_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
