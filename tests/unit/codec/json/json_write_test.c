/*
 * The JSON writer's output; jansson checks that it is valid.
 */
#include "codec/json/json_write.h"

#include <jansson.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/guard.h"
#include "support/json_complete.h"
#include "support/unit.h"
#include "support/written.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

static void nesting_and_commas(void **state)
{
    (void)state;
    struct ration_json *json = &written_json;
    assert_false(json_is_complete(json));
    ration_json_begin_object(json);
    ration_json_name(json, "a");
    ration_json_begin_array(json);
    ration_json_end(json);
    ration_json_name(json, "b");
    ration_json_begin_array(json);
    ration_json_u64(json, 0);
    ration_json_u64(json, UINT64_MAX);
    ration_json_begin_object(json);
    ration_json_end(json);
    ration_json_begin_object(json);
    ration_json_name(json, "c");
    ration_json_null(json);
    ration_json_end(json);
    ration_json_bool(json, true);
    ration_json_end(json);
    ration_json_name(json, "d");
    ration_json_bool(json, false);
    assert_false(json_is_complete(json));
    ration_json_end(json);
    assert_true(json_is_complete(json));
    assert_written("{\"a\":[],\"b\":[0,18446744073709551615,{},{\"c\":null},true],"
                   "\"d\":false}");
    ration_json_begin_array(json);
    for (int i = 0; i < 2; i++) {
        ration_json_begin_array(json);
        ration_json_u64(json, 1);
        ration_json_end(json);
    }
    ration_json_end(json);
    assert_written("[[1],[1]]");
    ration_json_text(json, "alone");
    assert_true(json_is_complete(json));
    assert_written("\"alone\"");
}

#define FFFD "\xEF\xBF\xBD"

static void strings(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t size;
        const char *expected;
    } rows[] = {
#define ROW(text, expected) {text, sizeof(text) - 1, "\"" expected "\""}
        ROW("", ""),
        ROW("plain /", "plain /"),
        ROW("\"\\", "\\\"\\\\"),
        ROW("\b\t\n\f\r", "\\b\\t\\n\\f\\r"),
        ROW("a\0b\x01\x1F\x7F", "a\\u0000b\\u0001\\u001f\x7F"),
        ROW("\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80", "\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80"),
        ROW("\xED\x9F\xBF\xEE\x80\x80\xF4\x8F\xBF\xBF", "\xED\x9F\xBF\xEE\x80\x80\xF4\x8F\xBF\xBF"),
        ROW("\x80", FFFD),
        ROW("\xC3", FFFD),
        ROW("\xC3x", FFFD "x"),
        ROW("\xC0\xAF", FFFD FFFD), /* a long form */
        ROW("\xE0\x80\xAF", FFFD FFFD FFFD),
        ROW("\xF0\x80\x80\xAF", FFFD FFFD FFFD FFFD),
        ROW("\xED\xA0\x80", FFFD FFFD FFFD), /* half of a pair */
        ROW("\xF4\x90\x80\x80", FFFD FFFD FFFD FFFD),
        ROW("\xF5\xFF", FFFD FFFD),
        ROW("\xE2\x82", FFFD FFFD),
        ROW("\xF0\x9F\x98", FFFD FFFD FFFD),
        ROW("\xE2\x82\"", FFFD FFFD "\\\""),
#undef ROW
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char *place = guard - rows[i].size;
        memcpy(place, rows[i].text, rows[i].size);
        ration_json_string(&written_json, place, rows[i].size);
        json_t *back = json_loadb(written.bytes, written.size,
                                  JSON_DECODE_ANY | JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES, NULL);
        assert_non_null(back);
        json_decref(back);
        assert_written(rows[i].expected);
    }
}

/* All pairs of bytes give JSON. */
static void any_bytes_are_json(void **state)
{
    (void)state;
    for (int first = 0; first < 256; first++) {
        ration_json_begin_array(&written_json);
        for (int second = 0; second < 256; second++)
            ration_json_string(&written_json, (const char[]){(char)first, (char)second, 'x'}, 3);
        ration_json_end(&written_json);
        json_t *back = json_loadb(written.bytes, written.size, JSON_ALLOW_NUL, NULL);
        assert_int_equal(json_array_size(back), 256);
        json_decref(back);
        ration_output_reset(&written);
        ration_json_init(&written_json, &written);
    }
}

static void value_without_name(void)
{
    ration_json_begin_object(&written_json);
    ration_json_u64(&written_json, 1);
}

static void name_in_array(void)
{
    ration_json_begin_array(&written_json);
    ration_json_name(&written_json, "a");
}

static void name_without_value(void)
{
    ration_json_begin_object(&written_json);
    ration_json_name(&written_json, "a");
    ration_json_end(&written_json);
}

static void end_of_nothing(void)
{
    ration_json_end(&written_json);
}

static void second_value(void)
{
    ration_json_null(&written_json);
    ration_json_null(&written_json);
}

static void too_deep(void)
{
    for (int i = 0; i <= RATION_JSON_DEPTH_MAX; i++)
        ration_json_begin_array(&written_json);
}

static void what_is_no_json_is_a_bug(void **state)
{
    (void)state;
    static void (*const bugs[])(void) = {value_without_name, name_in_array, name_without_value,
                                         end_of_nothing,     second_value,  too_deep};
    for (size_t i = 0; i < COUNT_OF(bugs); i++) {
        int status;
        pid_t child = fork();
        if (child == 0) {
            signal(SIGABRT, SIG_DFL);
            bugs[i]();
            _exit(0);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    }
    for (int i = 0; i < RATION_JSON_DEPTH_MAX; i++)
        ration_json_begin_array(&written_json);
    assert_written("[[[[[[[[[[[[[[[[");
}

static int setup(void **state)
{
    return written_init(state) || guard_map(state);
}

static int teardown(void **state)
{
    return written_done(state) || guard_unmap(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nesting_and_commas),
        cmocka_unit_test(strings),
        cmocka_unit_test(any_bytes_are_json),
        cmocka_unit_test(what_is_no_json_is_a_bug),
    };
    return cmocka_run_group_tests_name("json_write", tests, setup, teardown);
}
