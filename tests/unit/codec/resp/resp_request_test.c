#include "support/resp_limits.h"
#include "support/unit.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codec/resp/resp_request.h"
#include "support/guard.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

#define PIECE_MAX 1024

static struct ration_resp_request request;

/* Places bytes before the guard page, so that a read beyond them crashes. */
static char *lay(const char *bytes, size_t size)
{
    return memcpy(guard - size, bytes, size);
}

struct row {
    const char *bytes;
    size_t size;
    enum ration_resp_result result;
    const char *text; /* arguments with | between them, or the error */
    size_t consumed;  /* all of it if 0 */
};

#define ROW(bytes, result, text)                                \
    {                                                           \
        bytes, sizeof(bytes) - 1, RATION_RESP_##result, text, 0 \
    }
#define ROW_OF(bytes, consumed, result, text)                          \
    {                                                                  \
        bytes, sizeof(bytes) - 1, RATION_RESP_##result, text, consumed \
    }
#define WRONG(bytes, text)                                                          \
    {                                                                               \
        bytes, sizeof(bytes) - 1, RATION_RESP_WRONG, "ERR Protocol error: " text, 0 \
    }

static void check_arguments(const char *text)
{
    char joined[PIECE_MAX] = "";
    size_t size = 0;
    assert_true(request.argument_count > 0);
    for (size_t i = 0; i < request.argument_count; i++) {
        if (i > 0)
            joined[size++] = '|';
        memcpy(joined + size, request.arguments[i].bytes, request.arguments[i].size);
        size += request.arguments[i].size;
    }
    assert_int_equal(size, strlen(text));
    assert_memory_equal(joined, text, size);
}

static void check_result(const struct row *row, enum ration_resp_result result)
{
    if (result != row->result)
        fail_msg("%.*s: %d and not %d (%s)", (int)row->size, row->bytes, result, row->result,
                 result == RATION_RESP_WRONG ? request.error : "");
    if (result == RATION_RESP_WRONG)
        assert_string_equal(request.error, row->text);
    if (result == RATION_RESP_REQUEST)
        check_arguments(row->text);
    if (result == RATION_RESP_REQUEST || result == RATION_RESP_NOTHING)
        assert_int_equal(request.consumed_bytes, row->consumed ? row->consumed : row->size);
}

/*
 * Whole, then each prefix: until the request is complete the result is MORE, and it needs more bytes than it has but not
 * more than the request has; an error may be reported early, with the same text.
 */
static void check_row(const struct ration_resp_limits *limits, const struct row *row)
{
    check_result(row, ration_resp_read(limits, lay(row->bytes, row->size), row->size, &request));
    size_t whole = row->consumed ? row->consumed : row->size;
    for (size_t size = 0; size < whole; size++) {
        enum ration_resp_result result =
            ration_resp_read(limits, lay(row->bytes, size), size, &request);
        if (result == RATION_RESP_MORE) {
            assert_true(request.needed_bytes > size);
            if (row->result != RATION_RESP_WRONG && row->result != RATION_RESP_MORE)
                assert_true(request.needed_bytes <= whole);
        } else {
            assert_int_equal(row->result, RATION_RESP_WRONG);
            check_result(row, result);
        }
    }
}

static void arrays(void **state)
{
    (void)state;
    static const struct row rows[] = {
        ROW("*1\r\n$4\r\nPING\r\n", REQUEST, "PING"),
        ROW("*5\r\n$11\r\nCL.THROTTLE\r\n$7\r\nuser123\r\n$2\r\n15\r\n$2\r\n30\r\n$2\r\n60\r\n",
            REQUEST, "CL.THROTTLE|user123|15|30|60"),
        ROW("*2\r\n$0\r\n\r\n$3\r\n\r\n*\r\n", REQUEST, "|\r\n*"),
        ROW_OF("*1\r\n$4\r\nPING\r\n*1\r\n$4\r\nQUIT\r\n", 14, REQUEST, "PING"),
        ROW_OF("*1\r\n$4\r\nPING\r\nwrong \"", 14, REQUEST, "PING"),
        ROW("*0\r\n", NOTHING, NULL),
        ROW("*-1\r\n", NOTHING, NULL),
        ROW("*-17\r\n", NOTHING, NULL),
        ROW_OF("*0\r\nPING\r\n", 4, NOTHING, NULL),
        ROW("", MORE, NULL),
        ROW("*", MORE, NULL),
        ROW("*1024\r\n", MORE, NULL),
        ROW("*1\r\n$65536\r\n", MORE, NULL),
        WRONG("*1025\r\n", "invalid multibulk length"),
        WRONG("*1048576\r\n", "invalid multibulk length"),
        WRONG("*2147483648\r\n", "invalid multibulk length"),
        WRONG("*9223372036854775808\r\n", "invalid multibulk length"),
        WRONG("*18446744073709551617\r\n", "invalid multibulk length"),
        WRONG("*-99999999999999999999\r\n", "invalid multibulk length"),
        WRONG("*01\r\n", "invalid multibulk length"),
        WRONG("*00\r\n", "invalid multibulk length"),
        WRONG("*-0\r\n", "invalid multibulk length"),
        WRONG("*+1\r\n", "invalid multibulk length"),
        WRONG("* 1\r\n", "invalid multibulk length"),
        WRONG("*1 \r\n", "invalid multibulk length"),
        WRONG("*\r\n", "invalid multibulk length"),
        WRONG("*-\r\n", "invalid multibulk length"),
        WRONG("*a\r\n", "invalid multibulk length"),
        WRONG("*1\n", "invalid multibulk length"),
        WRONG("*1\rx", "invalid multibulk length"),
        WRONG("*1\0\r\n", "invalid multibulk length"),
        WRONG("*1\r\n$65537\r\n", "invalid bulk length"),
        WRONG("*1\r\n$536870913\r\n", "invalid bulk length"),
        WRONG("*1\r\n$9223372036854775807\r\n", "invalid bulk length"),
        WRONG("*1\r\n$18446744073709551620\r\nPING\r\n", "invalid bulk length"),
        WRONG("*1\r\n$-1\r\n", "invalid bulk length"),
        WRONG("*1\r\n$04\r\nPING\r\n", "invalid bulk length"),
        WRONG("*1\r\n$\r\n", "invalid bulk length"),
        WRONG("*1\r\n$4\n", "invalid bulk length"),
        WRONG("*1\r\n:4\r\n", "expected '$', got ':'"),
        WRONG("*1\r\n\r\n", "expected '$', got ' '"),
        WRONG("*1\r\n\0\r\n", "expected '$', got ' '"),
        WRONG("*1\r\n*1\r\n$4\r\nPING\r\n", "expected '$', got '*'"),
        WRONG("*2\r\n$4\r\nPING\r\nPONG\r\n", "expected '$', got 'P'"),
        WRONG("*1\r\n$4\r\nPINGxx", "expected CRLF behind bulk"),
        WRONG("*1\r\n$4\r\nPING\rx", "expected CRLF behind bulk"),
        WRONG("*1\r\n$3\r\nPING\r\n", "expected CRLF behind bulk"),
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        check_row(&resp_limits_default, &rows[i]);
}

static void lines(void **state)
{
    (void)state;
    static const struct row rows[] = {
        ROW("PING\r\n", REQUEST, "PING"),
        ROW("PING\n", REQUEST, "PING"),
        ROW(" \t PING \t a  b \r\n", REQUEST, "PING|a|b"),
        ROW("\r\n", NOTHING, NULL),
        ROW("\n", NOTHING, NULL),
        ROW("  \t\r\n", NOTHING, NULL),
        ROW_OF("\r\nPING\r\n", 2, NOTHING, NULL),
        ROW_OF("PING\r\nPING\r\n", 6, REQUEST, "PING"),
        ROW("ECHO \"\"\r\n", REQUEST, "ECHO|"),
        ROW("ECHO ''\r\n", REQUEST, "ECHO|"),
        ROW("ECHO \"a b\"\r\n", REQUEST, "ECHO|a b"),
        ROW("ECHO a\"b c\"\r\n", REQUEST, "ECHO|ab c"),
        ROW("ECHO 'a\\'b'\r\n", REQUEST, "ECHO|a'b"),
        ROW("ECHO 'a\\nb\\\\c'\r\n", REQUEST, "ECHO|a\\nb\\\\c"),
        ROW("ECHO \"\\n\\r\\t\\b\\a\\\"\\\\\\q\"\r\n", REQUEST, "ECHO|\n\r\t\b\a\"\\q"),
        ROW("ECHO \"\\x41\\xfF\\xzz\\x4\"\r\n", REQUEST,
            "ECHO|A\xff"
            "xzzx4"),
        ROW("ECHO a\\nb\r\n", REQUEST, "ECHO|a\\nb"),
        ROW("ECHO a\vb\r\n", REQUEST, "ECHO|a\vb"),
        ROW("ECHO \"a'b\" 'c\"d'\r\n", REQUEST, "ECHO|a'b|c\"d"),
        ROW("-*1\r\n", REQUEST, "-*1"),
        ROW("$4\r\n", REQUEST, "$4"),
        ROW("a\rb\r\n", REQUEST, "a|b"),
        ROW("GET / HTTP/1.1\r\n", REQUEST, "GET|/|HTTP/1.1"),
        ROW("PING", MORE, NULL),
        ROW("ECHO \"\\", MORE, NULL),
        WRONG("ECHO \"a\r\n", "unbalanced quotes in request"),
        WRONG("ECHO 'a\r\n", "unbalanced quotes in request"),
        WRONG("ECHO \"a\"b\r\n", "unbalanced quotes in request"),
        WRONG("ECHO 'a'b\r\n", "unbalanced quotes in request"),
        WRONG("ECHO \"a\\\r\n", "unbalanced quotes in request"),
        WRONG("ECHO 'a\\'\r\n", "unbalanced quotes in request"),
        WRONG("ECHO \"a\\\"\r\n", "unbalanced quotes in request"),
        WRONG("\"\n", "unbalanced quotes in request"),
        WRONG("'\n", "unbalanced quotes in request"),
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        check_row(&resp_limits_default, &rows[i]);
}

static void unauthenticated_clients(void **state)
{
    (void)state;
    static const struct row rows[] = {
        ROW("*1\r\n$4\r\nPING\r\n", REQUEST, "PING"),
        ROW("*10\r\n", MORE, NULL),
        ROW("*1\r\n$16384\r\n", MORE, NULL),
        WRONG("*11\r\n", "unauthenticated multibulk length"),
        WRONG("*2147483647\r\n", "unauthenticated multibulk length"),
        WRONG("*2147483648\r\n", "invalid multibulk length"),
        WRONG("*1\r\n$16385\r\n", "unauthenticated bulk length"),
        WRONG("*1\r\n$536870912\r\n", "unauthenticated bulk length"),
        WRONG("*1\r\n$536870913\r\n", "invalid bulk length"),
        WRONG("*1\r\n$-1\r\n", "invalid bulk length"),
        ROW("a b c d e f g h i j\r\n", REQUEST, "a|b|c|d|e|f|g|h|i|j"),
        WRONG("a b c d e f g h i j k\r\n", "unauthenticated multibulk length"),
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        check_row(&ration_resp_limits_unauthenticated, &rows[i]);
}

/* An announced length says how many bytes to wait for; no memory is touched or reserved for them. */
static void bombs(void **state)
{
    (void)state;
    static const char bomb[] = "*1024\r\n$65536\r\n";
    size_t size = sizeof(bomb) - 1;
    assert_int_equal(ration_resp_read(&resp_limits_default, lay(bomb, size), size, &request),
                     RATION_RESP_MORE);
    assert_int_equal(request.needed_bytes, size + 65536 + 2);
}

static const struct ration_resp_limits narrow = {
    .arguments_max = 4, .argument_bytes_max = 10, .request_bytes_max = 32, .inline_bytes_max = 12};

static void limits_of_ones_own(void **state)
{
    (void)state;
    static const struct row rows[] = {
        ROW("*1\r\n$10\r\n0123456789\r\n", REQUEST, "0123456789"),
        WRONG("*1\r\n$11\r\n0123456789a\r\n", "invalid bulk length"),
        ROW("*4\r\n$1\r\na\r\n$1\r\nb\r\n$1\r\nc\r\n$1\r\nd\r\n", REQUEST,
            "a|b|c|d"), /* of 32 bytes */
        WRONG("*4\r\n$1\r\na\r\n$1\r\nb\r\n$1\r\nc\r\n$2\r\nde\r\n", "too big request"),
        WRONG("*3\r\n$10\r\n0123456789\r\n$10\r\n", "too big request"),
        ROW("ab cd ef ghi\r\n", REQUEST, "ab|cd|ef|ghi"),
        ROW("ab cd ef ghi\n", REQUEST, "ab|cd|ef|ghi"),
        WRONG("ab cd ef ghij\r\n", "too big inline request"),
        WRONG("ab cd ef ghij\n", "too big inline request"),
        WRONG("ab cd ef ghijk", "too big inline request"),
        WRONG("a b c d e\n", "too big inline request"),
        WRONG("abcdefghijk\n", "too big inline request"),
        ROW("\"\\x41\\x42\"\n", REQUEST, "AB"),
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        check_row(&narrow, &rows[i]);
}

/* The longest line is accepted, one byte more is refused, in one piece and split anywhere. */
static void longest_lines(void **state)
{
    (void)state;
    char *bytes = malloc(RATION_RESP_INLINE_BYTES_MAX + 3);
    const struct ration_resp_limits *limits = &resp_limits_default;
    size_t max = RATION_RESP_INLINE_BYTES_MAX;
    memset(bytes, 'a', max + 3);
    assert_int_equal(ration_resp_read(limits, bytes, max, &request), RATION_RESP_MORE);
    assert_int_equal(request.needed_bytes, max + 1);
    memcpy(bytes + max, "\r\n", 2);
    assert_int_equal(ration_resp_read(limits, bytes, max + 1, &request), RATION_RESP_MORE);
    assert_int_equal(ration_resp_read(limits, bytes, max + 2, &request), RATION_RESP_REQUEST);
    assert_int_equal(request.arguments[0].size, max);
    memcpy(bytes + max, "a\r\n", 3);
    assert_int_equal(ration_resp_read(limits, bytes, max + 3, &request), RATION_RESP_WRONG);
    assert_string_equal(request.error, "ERR Protocol error: too big inline request");
    assert_int_equal(ration_resp_read(limits, bytes, max + 2, &request), RATION_RESP_WRONG);
    free(bytes);
}

static void as_many_arguments_as_there_may_be(void **state)
{
    (void)state;
    char *bytes = malloc(20 + RATION_RESP_ARGUMENTS_MAX * 8);
    size_t size = (size_t)sprintf(bytes, "*%d\r\n", RATION_RESP_ARGUMENTS_MAX);
    for (int i = 0; i < RATION_RESP_ARGUMENTS_MAX; i++)
        size += (size_t)sprintf(bytes + size, "$1\r\n%c\r\n", 'a' + i % 26);
    assert_int_equal(ration_resp_read(&resp_limits_default, bytes, size, &request),
                     RATION_RESP_REQUEST);
    assert_int_equal(request.argument_count, RATION_RESP_ARGUMENTS_MAX);
    for (int i = 0; i < RATION_RESP_ARGUMENTS_MAX; i++)
        assert_int_equal(*(const char *)request.arguments[i].bytes, 'a' + i % 26);
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arrays),
        cmocka_unit_test(lines),
        cmocka_unit_test(unauthenticated_clients),
        cmocka_unit_test(bombs),
        cmocka_unit_test(limits_of_ones_own),
        cmocka_unit_test(longest_lines),
        cmocka_unit_test(as_many_arguments_as_there_may_be),
    };
    return cmocka_run_group_tests_name("resp_request", tests, guard_map, guard_unmap);
}
