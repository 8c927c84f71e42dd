/*
 * Rows for checks: bodies and query strings, and the parsed check, or the position and reason of the error.
 */
#include "codec/http/check_json.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/guard.h"
#include "support/unit.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))
#define TEXT_SIZE       4096

#define TAKE   RATION_CHECK_TAKE
#define PEEK   RATION_CHECK_PEEK
#define REFUND RATION_CHECK_REFUND
#define RESET  RATION_CHECK_RESET
#define BLOCK  RATION_CHECK_BLOCK

static int by_name(const void *left, const void *right)
{
    const struct ration_attribute *a = left, *b = right;
    return strcmp(a->name.bytes, b->name.bytes);
}

/* "take 1 a=b,c=d" or "peek 3 key k 10/s burst 20"; attributes of JSON are in no order. */
static void describe(const struct ration_check_request *check, bool sorts, char *text)
{
    static const char *const kinds[] = {"take", "peek", "refund", "reset", "block"};
    struct ration_attribute attributes[RATION_ATTRIBUTES_MAX];
    text += sprintf(text, "%s %" PRIu64, kinds[check->kind], check->tokens);
    if (check->kind == BLOCK)
        text += sprintf(text, " %" PRIu64 "ns", check->block_ns);
    if (check->has_key)
        text += sprintf(text, " key %.*s", (int)check->key.size, (const char *)check->key.bytes);
    if (check->has_limit) {
        char limit[RATION_LIMIT_TEXT_SIZE];
        ration_limit_print(&check->limit, limit, sizeof(limit));
        text += sprintf(text, " %s", limit);
    }
    if (check->attribute_count > 0)
        memcpy(attributes, check->attributes, check->attribute_count * sizeof(attributes[0]));
    if (sorts)
        qsort(attributes, check->attribute_count, sizeof(attributes[0]), by_name);
    for (size_t i = 0; i < check->attribute_count; i++)
        text += sprintf(text, "%s%.*s=%.*s", i == 0 ? " " : ",", (int)attributes[i].name.size,
                        (const char *)attributes[i].name.bytes, (int)attributes[i].value.size,
                        (const char *)attributes[i].value.bytes);
    if (check->has_limit_name)
        sprintf(text, " of %zu: %.*s", check->limit_name.size, (int)check->limit_name.size,
                (const char *)check->limit_name.bytes);
}

static bool read_body(enum ration_check_kind kind, const char *body, size_t size, char *text,
                      struct ration_check_error *error)
{
    ration_checks *checks = NULL;
    char *place = guard - size;
    memcpy(place, body, size);
    if (!ration_check_json_read(kind, place, size, &checks, error)) {
        assert_null(checks);
        return false;
    }
    memset(place, 'x', size); /* borrowed for the call */
    text[0] = '\0';
    for (size_t i = 0; i < ration_check_json_count(checks); i++) {
        struct ration_check_room room;
        struct ration_check_request check;
        ration_check_json_get(checks, i, &room, &check);
        strcat(text, i == 0 ? "" : "; ");
        describe(&check, true, text + strlen(text));
    }
    if (ration_check_json_is_batch(checks))
        strcat(text, " (batch)");
    ration_check_json_free(checks);
    return true;
}

static void good_bodies(void **state)
{
    (void)state;
    static const struct {
        enum ration_check_kind kind;
        const char *body, *expected;
    } rows[] = {
        {TAKE, "{\"attributes\":{\"ip\":\"192.0.2.7\"}}", "take 1 ip=192.0.2.7"},
        {TAKE, " {\"cost\":3, \"attributes\": {\"b\":true,\"a\":\"\\u00e9/\",\"c\":false}}\n",
         "take 3 a=\xC3\xA9/,b=true,c=false"},
        {TAKE, "{\"attributes\":{\"n\":0,\"m\":-9223372036854775808,\"x\":\"[{\\\"\\\\\"}}",
         "take 1 m=-9223372036854775808,n=0,x=[{\"\\"},
        {TAKE, "{\"attributes\":{\"x\":\"\\\"[[[[[[[[[\"}}", "take 1 x=\"[[[[[[[[["},
        {TAKE, "{\"attributes\":{}}", "take 1"},
        {TAKE, "{\"attributes\":{\"a\":\"\"},\"cost\":0}", "take 0 a="},
        {TAKE, "{\"attributes\":{},\"cost\":9223372036854775807}", "take 9223372036854775807"},
        {TAKE, "{\"key\":\"u:7\",\"limit\":\"10/s burst 20\"}", "take 1 key u:7 10/s burst 20"},
        {TAKE, "{\"key\":\"\",\"limit\":{\"tokens\":10,\"period\":\"1s\"}}", "take 1 key  10/s"},
        {TAKE, "{\"key\":\"u\",\"limit\":{\"tokens\":10,\"period\":60000000000,\"burst\":3}}",
         "take 1 key u 10/min burst 3"},
        {TAKE, "{\"attributes\":{},\"peek\":true,\"cost\":2}", "peek 2"},
        {TAKE, "{\"attributes\":{},\"peek\":false}", "take 1"},
        {PEEK, "{\"attributes\":{},\"cost\":2}", "peek 2"},
        {REFUND, "{\"attributes\":{\"a\":1},\"tokens\":2}", "refund 2 a=1"},
        {RESET, "{\"attributes\":{\"a\":1}}", "reset 1 a=1"},
        {RESET, "{\"attributes\":{\"a\":1},\"limit\":\"l\\u0000\"}", "reset 1 a=1 of 2: l"},
        {REFUND, "{\"attributes\":{},\"limit\":\"10/s\",\"tokens\":2}", "refund 2 of 4: 10/s"},
        {BLOCK, "{\"attributes\":{},\"limit\":\"\",\"ns\":5}", "block 1 5ns of 0: "},
        {RESET, "{\"key\":\"u\"}", "reset 1 key u"},
        {BLOCK, "{\"attributes\":{},\"seconds\":60}", "block 1 60000000000ns"},
        {BLOCK, "{\"key\":\"u\",\"limit\":\"1/s\",\"ns\":5}", "block 1 5ns key u 1/s"},
        {TAKE, "{\"checks\":[{\"attributes\":{\"a\":1}},{\"key\":\"k\",\"limit\":\"1/s\"}]}",
         "take 1 a=1; take 1 key k 1/s (batch)"},
        {PEEK, "{\"checks\":[{\"attributes\":{\"a\":1}}]}", "peek 1 a=1 (batch)"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char text[TEXT_SIZE];
        struct ration_check_error error;
        if (!read_body(rows[i].kind, rows[i].body, strlen(rows[i].body), text, &error))
            fail_msg("%s: %s: %s", rows[i].body, error.pointer, error.message);
        assert_string_equal(text, rows[i].expected);
    }
}

static void bad_bodies(void **state)
{
    (void)state;
    static const struct {
        enum ration_check_kind kind;
        const char *body, *pointer, *message;
    } rows[] = {
        {TAKE, "", "", "the body is empty"},
        {TAKE, "{", "", "line 1, column 1: "},
        {TAKE, "{\n\"cost\": 3,}", "", "line 2, column 11"},
        {TAKE, "nonsense", "", "line 1"},
        {TAKE, "{} {}", "", "line 1"},
        {TAKE, "[]", "", "the body must be an object (got an array)"},
        {TAKE, "[[[[[[[[[1]]]]]]]]]", "", "nested more than 8 deep"},
        {TAKE, "{\"a\\\\\":[[[[[[[[[1]]]]]]]]]}", "", "nested more than 8 deep"},
        {TAKE, "{}", "", "the caller is missing"},
        {TAKE, "{\"cost\":1}", "", "the caller is missing"},
        {TAKE, "{\"attributes\":{},\"attributes\":{}}", "", "duplicate"},
        {TAKE, "{\"attributes\":{\"a\":1,\"a\":2}}", "", "duplicate"},
        {TAKE, "{\"attributes\":{},\"cst\":1}", "/cst", "unknown member 'cst': did you mean cost?"},
        {TAKE, "{\"attributes\":{},\"tenant\":1}", "/tenant", "known are attributes, key, limit"},
        {TAKE, "{\"attributes\":{},\"cost\":-1}", "/cost", "cost must be at least 0 (got -1)"},
        {TAKE, "{\"attributes\":{},\"cost\":1.5}", "/cost",
         "cost must be a whole number, such as 1 (got a number with a fraction"},
        {TAKE, "{\"attributes\":{},\"cost\":1e3}", "/cost", "whole number"},
        {TAKE, "{\"attributes\":{},\"cost\":1.0}", "/cost", "whole number"},
        {TAKE, "{\"attributes\":{},\"cost\":\"1\"}", "/cost", "(got a string)"},
        {TAKE, "{\"attributes\":{},\"cost\":null}", "/cost", "(got null)"},
        {TAKE, "{\"attributes\":{},\"cost\":9223372036854775808}", "", "too big integer"},
        {TAKE, "{\"attributes\":{},\"cost\":1e400}", "", "real number overflow"},
        {TAKE, "{\"attributes\":{},\"peek\":1}", "/peek", "peek must be true or false"},
        {TAKE, "{\"attributes\":[]}", "/attributes", "attributes must be an object, such as"},
        {TAKE, "{\"attributes\":{\"a\":null}}", "/attributes/a",
         "must be a string, a whole number"},
        {TAKE, "{\"attributes\":{\"a\":1.5}}", "/attributes/a", "(got a number with a fraction"},
        {TAKE, "{\"attributes\":{\"a\":{}}}", "/attributes/a", "(got an object)"},
        {TAKE, "{\"attributes\":{\"\":1}}", "/attributes", "an attribute has no name"},
        {TAKE, "{\"attributes\":{},\"key\":\"k\"}", "/key", "keep one"},
        {TAKE, "{\"attributes\":{},\"limit\":\"1/s\"}", "/limit", "keep one"},
        {TAKE, "{\"key\":\"k\"}", "/limit", "key needs a limit"},
        {TAKE, "{\"key\":7,\"limit\":\"1/s\"}", "/key", "key must be a string (got a number)"},
        {TAKE, "{\"limit\":\"1/s\"}", "", "the caller is missing"},
        {TAKE, "{\"key\":\"k\",\"limit\":\"10/x\"}", "/limit", "unknown unit 'x'"},
        {TAKE, "{\"key\":\"k\",\"limit\":\"10/ns\"}", "/limit", "one per nanosecond"},
        {TAKE, "{\"key\":\"k\",\"limit\":10}", "/limit", "limit must be a text such as"},
        {TAKE, "{\"key\":\"k\",\"limit\":{}}", "/limit/tokens", "a limit needs tokens"},
        {TAKE, "{\"key\":\"k\",\"limit\":{\"tokens\":1}}", "/limit/period", "needs a period"},
        {TAKE, "{\"key\":\"k\",\"limit\":{\"tokens\":0,\"period\":1}}", "/limit/tokens",
         "tokens must be at least 1 (got 0)"},
        {TAKE, "{\"key\":\"k\",\"limit\":{\"tokens\":1,\"period\":0}}", "/limit/period",
         "period must be at least 1 (got 0)"},
        {TAKE, "{\"key\":\"k\",\"limit\":{\"tokens\":1,\"period\":\"1q\"}}", "/limit/period",
         "unknown unit 'q'"},
        {TAKE, "{\"key\":\"k\",\"limit\":{\"tokens\":1,\"period\":\"1s 2\"}}", "/limit/period",
         "one duration"},
        {TAKE, "{\"key\":\"k\",\"limit\":{\"tokens\":1,\"period\":\"17y\"}}", "/limit", "16 years"},
        {TAKE, "{\"key\":\"k\",\"limit\":{\"tokens\":1,\"period\":1,\"bust\":1}}", "/limit/bust",
         "did you mean burst?"},
        {PEEK, "{\"attributes\":{},\"peek\":true}", "/peek", "unknown member 'peek'"},
        {PEEK, "{\"attributes\":{},\"limit\":\"login\"}", "/limit", "keep one"},
        {RESET, "{\"attributes\":{},\"limit\":{}}", "/limit", "the name of a limit of the policy"},
        {RESET, "{\"inline\":false}", "/inline", "write only \"inline\": true"},
        {RESET, "{\"inline\":true,\"key\":\"k\"}", "/inline", "write only"},
        {RESET, "{\"inline\":1}", "/inline", "true or false"},
        {TAKE, "{\"inline\":true}", "/inline", "known are"},
        {RESET, "{\"attributes\":{},\"key\":\"k\",\"limit\":\"a\"}", "/key", "keep one"},
        {REFUND, "{\"attributes\":{}}", "/tokens", "set the number of tokens"},
        {REFUND, "{\"attributes\":{},\"tokens\":0}", "/tokens", "at least 1"},
        {REFUND, "{\"attributes\":{},\"cost\":1}", "/cost", "unknown member"},
        {REFUND, "{\"key\":\"k\",\"tokens\":1}", "/limit", "key needs a limit"},
        {REFUND, "{\"checks\":[]}", "/checks", "only checks and peeks"},
        {BLOCK, "{\"attributes\":{}}", "/seconds", "set the duration"},
        {BLOCK, "{\"attributes\":{},\"seconds\":1,\"ns\":1}", "/seconds", "set the duration"},
        {BLOCK, "{\"attributes\":{},\"seconds\":0}", "/seconds", "at least 1"},
        {BLOCK, "{\"attributes\":{},\"seconds\":9223372036854775807}", "/seconds", "730 days"},
        {BLOCK, "{\"attributes\":{},\"ns\":9223372036854775807}", "/ns", "730 days"},
        {TAKE, "{\"checks\":[]}", "/checks", "checks must be 1 to 1000 (got 0)"},
        {TAKE, "{\"checks\":{}}", "/checks", "checks must be an array"},
        {TAKE, "{\"checks\":[1]}", "/checks/0", "a check must be an object"},
        {TAKE, "{\"checks\":[],\"cost\":1}", "/cost", "checks must be the only member"},
        {TAKE,
         "{\"checks\":[{\"attributes\":{}},{\"attributes\":{}},{\"attributes\":{}},"
         "{\"attributes\":{},\"cost\":-2}]}",
         "/checks/3/cost", "at least 0 (got -2)"},
        {TAKE, "{\"checks\":[{\"attributes\":{\"a\":1}},{\"attributes\":{\"b\\n\":[]}}]}",
         "/checks/1/attributes/b\\x0A", "(got an array)"},
        {TAKE, "{\"checks\":[{\"checks\":[]}]}", "/checks/0/checks", "unknown member 'checks'"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char text[TEXT_SIZE];
        struct ration_check_error error;
        if (read_body(rows[i].kind, rows[i].body, strlen(rows[i].body), text, &error))
            fail_msg("%s is read as %s", rows[i].body, text);
        if (strcmp(error.pointer, rows[i].pointer) != 0 || !strstr(error.message, rows[i].message))
            fail_msg("%s: %s: %s", rows[i].body, error.pointer, error.message);
        assert_false(read_body(rows[i].kind, rows[i].body, strlen(rows[i].body), text, NULL));
    }
}

static void zero_bytes_in_strings(void **state)
{
    (void)state;
    static const char body[] = "{\"key\":\"a\\u0000b\",\"limit\":\"1/s\"}";
    struct ration_check_room room;
    struct ration_check_request check;
    ration_checks *checks;
    assert_true(ration_check_json_read(TAKE, body, sizeof(body) - 1, &checks, NULL));
    ration_check_json_get(checks, 0, &room, &check);
    assert_int_equal(check.key.size, 3);
    assert_memory_equal(check.key.bytes, "a\0b", 3);
    ration_check_json_free(checks);
}

static void counts_are_bounded(void **state)
{
    (void)state;
    struct ration_check_error error;
    ration_checks *checks;
    char *body = malloc(64 * (RATION_CHECKS_MAX + 1));
    for (size_t count = RATION_CHECKS_MAX; count <= RATION_CHECKS_MAX + 1; count++) {
        size_t size = (size_t)sprintf(body, "{\"checks\":[");
        for (size_t i = 0; i < count; i++)
            size += (size_t)sprintf(body + size, "%s{\"attributes\":{}}", i == 0 ? "" : ",");
        size += (size_t)sprintf(body + size, "]}");
        bool fits = count == RATION_CHECKS_MAX;
        assert_int_equal(ration_check_json_read(TAKE, body, size, &checks, &error), fits);
        if (fits)
            ration_check_json_free(checks);
    }
    assert_non_null(strstr(error.message, "(got 1001)"));
    for (size_t count = RATION_ATTRIBUTES_MAX; count <= RATION_ATTRIBUTES_MAX + 1; count++) {
        size_t size = (size_t)sprintf(body, "{\"attributes\":{");
        for (size_t i = 0; i < count; i++)
            size += (size_t)sprintf(body + size, "%s\"%zu\":%zu", i == 0 ? "" : ",", i, i);
        size += (size_t)sprintf(body + size, "}}");
        bool fits = count == RATION_ATTRIBUTES_MAX;
        assert_int_equal(ration_check_json_read(TAKE, body, size, &checks, &error), fits);
        if (fits)
            ration_check_json_free(checks);
    }
    assert_non_null(strstr(error.message, "at most 64 attributes"));
    free(body);
    ration_check_json_free(NULL);
}

static void key_sizes_are_bounded(void **state)
{
    (void)state;
    struct ration_check_error error;
    ration_checks *checks;
    char *body = malloc(RATION_KEY_SIZE_MAX + 64);
    for (int over = 0; over <= 1; over++) {
        size_t size = (size_t)sprintf(body, "{\"limit\":\"1/s\",\"key\":\"");
        memset(body + size, 'k', (size_t)RATION_KEY_SIZE_MAX + (size_t)over);
        size += (size_t)RATION_KEY_SIZE_MAX + (size_t)over;
        size += (size_t)sprintf(body + size, "\"}");
        assert_int_equal(ration_check_json_read(TAKE, body, size, &checks, &error), !over);
        if (!over)
            ration_check_json_free(checks);
    }
    assert_string_equal(error.pointer, "/key");
    free(body);
}

static void queries(void **state)
{
    (void)state;
    static const struct {
        const char *query, *expected, *pointer; /* pointer: refused there, with expected in why */
    } rows[] = {
        {"method=GET&path=/x&ip=192.0.2.7&cost=3", "take 3 method=GET,path=/x,ip=192.0.2.7", NULL},
        {"", "take 1", NULL},
        {"a=b&peek=true", "peek 1 a=b", NULL},
        {"peek=false&cost=18446744073709551615", "take 18446744073709551615", NULL},
        {"key=u:7&limit=10/s+burst+20", "take 1 key u:7 10/s burst 20", NULL},
        {"cost=-1", "whole number", "/cost"},
        {"cost=", "whole number", "/cost"},
        {"cost=1.5", "whole number", "/cost"},
        {"cost=18446744073709551616", "whole number", "/cost"},
        {"cost=99999999999999999999", "whole number", "/cost"},
        {"peek=1", "true or false", "/peek"},
        {"key=u", "go together", "/limit"},
        {"limit=1/s", "go together", "/key"},
        {"key=u&limit=1/q", "unknown unit 'q'", "/limit"},
        {"key=u&limit=1/s&ip=1", "combined with attributes", ""},
        {"a=%", "query: '%' at byte 2 is not a valid escape", ""},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char text[TEXT_SIZE];
        struct ration_check_room room;
        struct ration_check_request check;
        struct ration_check_error error;
        size_t size = strlen(rows[i].query);
        char *place = memcpy(guard - size, rows[i].query, size);
        bool is_read = ration_check_read_query(place, size, &room, &check, &error);
        assert_int_equal(is_read, rows[i].pointer == NULL);
        if (is_read) {
            describe(&check, false, text);
            assert_string_equal(text, rows[i].expected);
        } else {
            assert_string_equal(error.pointer, rows[i].pointer);
            assert_non_null(strstr(error.message, rows[i].expected));
        }
    }
}

/* The number of allocations that succeed before one fails; negative: none fails. */
static int allocations_left = -1;

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);

void *__wrap_malloc(size_t size)
{
    if (allocations_left == 0)
        return NULL;
    if (allocations_left > 0)
        allocations_left--;
    return __real_malloc(size);
}

/* Each allocation fails in turn, jansson's and our own: refused, with a reason, and nothing leaks. */
static void memory_runs_out(void **state)
{
    (void)state;
    static const char body[] = "{\"checks\":[{\"attributes\":{\"a\":\"b\",\"c\":1}},"
                               "{\"key\":\"k\",\"limit\":{\"tokens\":1,\"period\":\"1s\"}}]}";
    struct ration_check_error error;
    ration_checks *checks = NULL;
    bool is_read = false;
    json_set_alloc_funcs(__wrap_malloc, free);
    for (int left = 0; !is_read; left++) {
        assert_true(left < 1000);
        error.message[0] = '\0';
        allocations_left = left;
        is_read = ration_check_json_read(TAKE, body, sizeof(body) - 1, &checks, &error);
        allocations_left = -1;
        assert_true(is_read == (checks != NULL));
        assert_true(is_read || error.message[0] != '\0');
    }
    ration_check_json_free(checks);
    json_set_alloc_funcs(malloc, free);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_bodies),           cmocka_unit_test(bad_bodies),
        cmocka_unit_test(zero_bytes_in_strings), cmocka_unit_test(counts_are_bounded),
        cmocka_unit_test(key_sizes_are_bounded), cmocka_unit_test(queries),
        cmocka_unit_test(memory_runs_out),
    };
    return cmocka_run_group_tests_name("check", tests, guard_map, guard_unmap);
}
