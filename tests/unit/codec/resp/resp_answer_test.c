#include "support/unit.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "codec/resp/resp_answer.h"
#include "support/resp_check.h"

#define BYTES_MAX 10000

static struct ration_output output;

static int make_output(void **state)
{
    (void)state;
    ration_output_init(&output, BYTES_MAX);
    return 0;
}

static int free_output(void **state)
{
    (void)state;
    ration_output_done(&output);
    return 0;
}

/* Compares what was written since the last time. */
static void check(const char *expected, int version)
{
    assert_false(output.is_failed);
    if (output.size != strlen(expected) || memcmp(output.bytes, expected, output.size) != 0)
        fail_msg("'%.*s' and not '%s'", (int)output.size, output.bytes, expected);
    assert_true(resp_check(output.bytes, output.size, version));
    ration_output_reset(&output);
}

static void both_versions_alike(void **state)
{
    (void)state;
    ration_resp_write_simple(&output, "OK");
    check("+OK\r\n", 2);
    ration_resp_write_simple(&output, "");
    check("+\r\n", 2);
    ration_resp_write_error(&output, "ERR no");
    check("-ERR no\r\n", 2);
    ration_resp_write_integer(&output, 0);
    check(":0\r\n", 2);
    ration_resp_write_integer(&output, 9);
    check(":9\r\n", 2);
    ration_resp_write_integer(&output, 10);
    check(":10\r\n", 2);
    ration_resp_write_integer(&output, -1);
    check(":-1\r\n", 2);
    ration_resp_write_integer(&output, INT64_MAX);
    check(":9223372036854775807\r\n", 2);
    ration_resp_write_integer(&output, INT64_MIN);
    check(":-9223372036854775808\r\n", 2);
    ration_resp_write_count(&output, UINT64_MAX);
    check(":9223372036854775807\r\n", 2);
    ration_resp_write_count(&output, 12);
    check(":12\r\n", 2);
    ration_resp_write_bulk(&output, "a\r\n", 3);
    check("$3\r\na\r\n\r\n", 2);
    ration_resp_write_bulk(&output, NULL, 0);
    check("$0\r\n\r\n", 2);
    ration_resp_write_bulk_text(&output, "text");
    check("$4\r\ntext\r\n", 2);
    ration_resp_write_array(&output, 0);
    check("*0\r\n", 2);
    ration_resp_write_array(&output, 2);
    ration_resp_write_integer(&output, 1);
    ration_resp_write_array(&output, 0);
    check("*2\r\n:1\r\n*0\r\n", 2);
}

static void where_the_versions_differ(void **state)
{
    (void)state;
    ration_resp_write_null(&output, RATION_RESP2);
    check("$-1\r\n", 2);
    ration_resp_write_null(&output, RATION_RESP3);
    check("_\r\n", 3);
    ration_resp_write_verbatim(&output, RATION_RESP2, "a\r\n", 3);
    check("$3\r\na\r\n\r\n", 2);
    ration_resp_write_verbatim(&output, RATION_RESP3, "a\r\n", 3);
    check("=7\r\ntxt:a\r\n\r\n", 3);
    for (int version = 2; version <= 3; version++) {
        ration_resp_write_map(&output, (enum ration_resp_version)version, 1);
        ration_resp_write_bulk_text(&output, "a");
        ration_resp_write_integer(&output, 1);
        check(version == 2 ? "*2\r\n$1\r\na\r\n:1\r\n" : "%1\r\n$1\r\na\r\n:1\r\n", version);
    }
}

/* Whatever is in an error, it is one line of bounded length. */
static void errors_stay_one_line(void **state)
{
    (void)state;
    char text[2 * RATION_RESP_ERROR_BYTES_MAX];
    ration_resp_write_error_bytes(&output, "ERR a\r\n+OK\r\nb\0c\x7f\xff", 17);
    check("-ERR a  +OK  b c \xff\r\n", 2);
    memset(text, '\n', sizeof(text));
    memcpy(text, "ERR", 3);
    ration_resp_write_error_bytes(&output, text, sizeof(text));
    assert_int_equal(output.size, 1 + RATION_RESP_ERROR_BYTES_MAX + 2);
    assert_true(resp_check(output.bytes, output.size, 2));
}

/* The checker must also reject. */
static void the_checker_sees_what_is_wrong(void **state)
{
    (void)state;
    static const char *const wrongs[] = {
        "",        "+OK",      "+OK\n",        "+O\nK\r\n",       ":\r\n",
        ":1a\r\n", ":--1\r\n", "$3\r\n",       "$1\r\nab",        "$1\r\nab\r\n",
        "$-2\r\n", "*1\r\n",   "*-2\r\n",      "*1\r\n+OK",       "?\r\n",
        "-\r\n",   "\r\n",     "#t\r\n",       "+OK\r\n\r\n",     "_\r\n",
        ",1\r\n",  "%0\r\n",   "*2\r\n:1\r\n", "=5\r\ntxt:a\r\n",
    };
    for (size_t i = 0; i < sizeof(wrongs) / sizeof(wrongs[0]); i++)
        assert_false(resp_check(wrongs[i], strlen(wrongs[i]), 2));
    assert_false(resp_check(",1.\r\n", 5, 3));
    assert_false(resp_check(",1.1.1\r\n", 8, 3));
    assert_false(resp_check(",\r\n", 3, 3));
    assert_false(resp_check("%1\r\n:1\r\n", 8, 3));
    assert_false(resp_check("$-1\r\n", 5, 3));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(both_versions_alike, make_output, free_output),
        cmocka_unit_test_setup_teardown(where_the_versions_differ, make_output, free_output),
        cmocka_unit_test_setup_teardown(errors_stay_one_line, make_output, free_output),
        cmocka_unit_test(the_checker_sees_what_is_wrong),
    };
    return cmocka_run_group_tests_name("resp_answer", tests, NULL, NULL);
}
