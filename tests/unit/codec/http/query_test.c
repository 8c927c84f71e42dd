/*
 * Rows for query strings: the parsed result, or the position and reason of the error. Each is placed right before an
 * inaccessible page.
 */
#include "codec/http/query.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "support/guard.h"
#include "support/unit.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

static ration_status read_guarded(const char *text, size_t size,
                                  struct ration_attribute *attributes, size_t *count,
                                  struct ration_error *error)
{
    char *place = guard - size;
    memcpy(place, text, size);
    return ration_query_read(place, size, attributes, RATION_ATTRIBUTES_MAX, count, error);
}

static void good_queries(void **state)
{
    (void)state;
    static const struct {
        const char *query;
        const char *expected;
    } rows[] = {
        {"", ""},
        {"a=b", "a=b;"},
        {"method=GET&path=/x/y&ip=2001:db8::1&cost=3",
         "method=GET;path=/x/y;ip=2001:db8::1;cost=3;"},
        {"a", "a=;"},
        {"a=", "a=;"},
        {"&&a=1&&&b=2&", "a=1;b=2;"},
        {"a=b=c", "a=b=c;"},
        {"a=b?c", "a=b?c;"},
        {"a+b=c+d", "a b=c d;"},
        {"%61%3d%26=%2B%25%2f", "a=&=+%/;"},
        {"a=%zz", NULL},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct ration_attribute attributes[RATION_ATTRIBUTES_MAX];
        char text[256] = "";
        size_t count = 99;
        ration_status status =
            read_guarded(rows[i].query, strlen(rows[i].query), attributes, &count, NULL);
        if (!rows[i].expected) {
            assert_int_equal(status, RATION_EINVAL);
            assert_int_equal(count, 99);
            continue;
        }
        assert_int_equal(status, RATION_OK);
        for (size_t j = 0; j < count; j++)
            sprintf(text + strlen(text), "%.*s=%.*s;", (int)attributes[j].name.size,
                    (const char *)attributes[j].name.bytes, (int)attributes[j].value.size,
                    (const char *)attributes[j].value.bytes);
        assert_string_equal(text, rows[i].expected);
    }
}

static void bad_queries(void **state)
{
    (void)state;
    static const struct {
        const char *query;
        size_t offset;
        const char *message;
    } rows[] = {
        {"a=%", 2, "'%' at byte 2 is not a valid escape: write %HH"},
        {"a=%4", 2, "'%4' at byte 2"},
        {"abc=%4g&d=1", 4, "'%4g' at byte 4"},
        {"a%=1", 1, "'%=1' at byte 1"},
        {"a=%-1", 2, "is not a valid escape"},
        {"a=%u1", 2, "is not a valid escape"},
        {"=1", 0, "a name is missing"},
        {"a=1&=2", 4, "a name is missing"},
        {"a=1&b=2&a=3", 8, "'a' is given twice"},
        {"a=1&%61=3", 4, "'a' is given twice"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct ration_attribute attributes[RATION_ATTRIBUTES_MAX];
        struct ration_error error;
        size_t count = 99;
        assert_int_equal(
            read_guarded(rows[i].query, strlen(rows[i].query), attributes, &count, &error),
            RATION_EINVAL);
        assert_int_equal(error.offset, rows[i].offset);
        assert_non_null(strstr(error.message, rows[i].message));
        assert_int_equal(count, 99);
    }
}

/* Keys are any bytes: a zero too, escaped or not. */
static void zero_bytes_are_bytes(void **state)
{
    (void)state;
    struct ration_attribute attributes[RATION_ATTRIBUTES_MAX];
    size_t count;
    assert_int_equal(read_guarded("a=\0%00b", 7, attributes, &count, NULL), RATION_OK);
    assert_int_equal(count, 1);
    assert_int_equal(attributes[0].value.size, 3);
    assert_memory_equal(attributes[0].value.bytes, "\0\0b", 3);
}

static void attributes_are_counted(void **state)
{
    (void)state;
    struct ration_attribute attributes[RATION_ATTRIBUTES_MAX];
    struct ration_error error;
    char text[1024] = "";
    size_t count;
    for (int i = 0; i < RATION_ATTRIBUTES_MAX; i++)
        sprintf(text + strlen(text), "a%d&", i);
    assert_int_equal(read_guarded(text, strlen(text), attributes, &count, NULL), RATION_OK);
    assert_int_equal(count, RATION_ATTRIBUTES_MAX);
    strcat(text, "b");
    assert_int_equal(read_guarded(text, strlen(text), attributes, &count, &error), RATION_EINVAL);
    assert_non_null(strstr(error.message, "at most 64"));
}

static void one_is_taken_out(void **state)
{
    (void)state;
    struct ration_attribute attributes[RATION_ATTRIBUTES_MAX];
    struct ration_key value;
    size_t count;
    assert_int_equal(read_guarded("a=1&cost=3&b=2", 14, attributes, &count, NULL), RATION_OK);
    assert_false(ration_query_take(attributes, &count, "costs", &value));
    assert_true(ration_query_take(attributes, &count, "cost", &value));
    assert_int_equal(count, 2);
    assert_memory_equal(value.bytes, "3", 1);
    assert_memory_equal(attributes[1].name.bytes, "b", 1);
    assert_false(ration_query_take(attributes, &count, "cost", &value));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_queries),         cmocka_unit_test(bad_queries),
        cmocka_unit_test(zero_bytes_are_bytes), cmocka_unit_test(attributes_are_counted),
        cmocka_unit_test(one_is_taken_out),
    };
    return cmocka_run_group_tests_name("query", tests, guard_map, guard_unmap);
}
