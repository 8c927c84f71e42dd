#include "support/unit.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codec/resp/cl_throttle.h"
#include "ration/bucket.h"
#include "support/guard.h"
#include "support/resp_check.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

#define WORDS_MAX 16
#define CELL      "Cell error: Store error: "
#define ZERO      CELL "Zero rates are not supported"
#define INTEGER   CELL "Couldn't parse as integer: "
#define USAGE     CELL "Usage: cl.throttle <key> <max_burst> <count per period> <period> [<quantity>]"
#define SECOND    RATION_NS_PER_SECOND

/* Splits text at single spaces into arguments that are placed before the guard page. */
static size_t split(const char *text, struct ration_key words[WORDS_MAX])
{
    size_t count = 0, size = strlen(text);
    const char *laid = memcpy(guard - size, text, size);
    for (const char *end = laid + size;; laid++) {
        const char *blank = memchr(laid, ' ', (size_t)(end - laid));
        words[count++] = (struct ration_key){laid, (size_t)((blank ? blank : end) - laid)};
        if (!blank)
            return count;
        laid = blank;
    }
}

typedef bool parse_throttle(const struct ration_key *arguments, size_t argument_count,
                            struct ration_cl_throttle *out_throttle,
                            char out_error[RATION_CL_THROTTLE_ERROR_SIZE]);

struct row {
    const char *text;
    uint64_t tokens, period_ns, burst, quantity; /* tokens 0: refused with error */
    const char *error;
};

static void check_parse(parse_throttle *parse, const struct row *row)
{
    struct ration_key words[WORDS_MAX];
    struct ration_cl_throttle throttle, untouched;
    char error[RATION_CL_THROTTLE_ERROR_SIZE] = "";
    memset(&throttle, 0xa5, sizeof(throttle));
    memset(&untouched, 0xa5, sizeof(untouched));
    bool is_read = parse(words, split(row->text, words), &throttle, error);
    if (is_read != (row->tokens != 0))
        fail_msg("%s: %s", row->text, is_read ? "read" : error);
    if (!is_read) {
        assert_string_equal(error, row->error);
        assert_memory_equal(&throttle, &untouched, sizeof(throttle));
        return;
    }
    assert_ptr_equal(throttle.key.bytes, words[1].bytes);
    assert_int_equal(throttle.key.size, words[1].size);
    assert_int_equal(throttle.tokens, row->tokens);
    assert_int_equal(throttle.period_ns, row->period_ns);
    assert_int_equal(throttle.burst, row->burst);
    assert_int_equal(throttle.quantity, row->quantity);
    assert_int_equal(throttle.is_gcra, parse == ration_cl_throttle_parse_gcra);
}

static void arguments_of_cl_throttle(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"t user123 15 30 60", 30, 60 * SECOND, 16, 1, NULL},
        {"t user123 15 30 60 7", 30, 60 * SECOND, 16, 7, NULL},
        {"t k 0 1 1 0", 1, SECOND, 1, 0, NULL},
        {"t  +4 +01 001 -0", 1, SECOND, 5, 0, NULL},
        {"t k 9223372036854775807 1 1", 1, SECOND, UINT64_C(1) << 63, 1, NULL},
        {"t k 1 1 1 9223372036854775807", 1, SECOND, 2, INT64_MAX, NULL},
        {"t k 1 1000000000 1", SECOND, SECOND, 2, 1, NULL},
        {"t k 1 1 18446744073", 1, 18446744073 * SECOND, 2, 1, NULL},
        {"t", 0, 0, 0, 0, USAGE},
        {"t k 1 1", 0, 0, 0, 0, USAGE},
        {"t k 1 1 1 1 1", 0, 0, 0, 0, USAGE},
        {"t k abc 30 60", 0, 0, 0, 0, INTEGER "abc"},
        {"t k 15 3x 60", 0, 0, 0, 0, INTEGER "3x"},
        {"t k 15 30 6.5", 0, 0, 0, 0, INTEGER "6.5"},
        {"t k 15 30 60 ", 0, 0, 0, 0, INTEGER},
        {"t k 15 30 60 +", 0, 0, 0, 0, INTEGER "+"},
        {"t k 15 30 60 --1", 0, 0, 0, 0, INTEGER "--1"},
        {"t k 15 30 9223372036854775808", 0, 0, 0, 0, INTEGER "9223372036854775808"},
        {"t k 15 30 99999999999999999999999", 0, 0, 0, 0, INTEGER "99999999999999999999999"},
        {"t k 1 0 1", 0, 0, 0, 0, ZERO},
        {"t k 1 1 0", 0, 0, 0, 0, ZERO},
        {"t k 1 -1 1", 0, 0, 0, 0, ZERO},
        {"t k 1 -1 -1", 0, 0, 0, 0, ZERO},
        {"t k 1 1000000001 1", 0, 0, 0, 0, ZERO},
        {"t k -1 1 1", 0, 0, 0, 0, CELL "max_burst must not be negative"},
        {"t k 1 1 1 -1", 0, 0, 0, 0, CELL "quantity must not be negative"},
        {"t k 1 1 18446744074", 0, 0, 0, 0, CELL "period must not exceed 18446744073 seconds"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        check_parse(ration_cl_throttle_parse, &rows[i]);
}

static void arguments_of_gcra(void **state)
{
    (void)state;
    static const char integer[] = "ERR value is not an integer or out of range";
    static const char syntax[] = "ERR syntax error";
    static const char seconds[] =
        "ERR period is not a number of seconds in whole nanoseconds, or out of range";
    static const struct row rows[] = {
        {"g k 15 30 60", 30, 60 * SECOND, 16, 1, NULL},
        {"g k 15 30 1.0", 30, SECOND, 16, 1, NULL},
        {"g k 15 30 1.5 TOKENS 3", 30, 3 * SECOND / 2, 16, 3, NULL},
        {"g k 15 30 1.000000001 tokens 1", 30, SECOND + 1, 16, 1, NULL},
        {"g k 15 30 1.0000000010000000000000000000", 30, SECOND + 1, 16, 1, NULL},
        {"g k 15 30 18446744072.999999999", 30, 18446744073 * SECOND - 1, 16, 1, NULL},
        {"g k 15 30 18446744073", 30, 18446744073 * SECOND, 16, 1, NULL},
        {"g k 15 30 0.5", 30, SECOND / 2, 16, 1, NULL},
        {"g k 15 30 .5", 30, SECOND / 2, 16, 1, NULL},
        {"g k 15 30 1.", 30, SECOND, 16, 1, NULL},
        {"g k 15 30 1e3", 30, 1000 * SECOND, 16, 1, NULL},
        {"g k 15 30 1.5E-3", 30, SECOND / 1000 * 3 / 2, 16, 1, NULL},
        {"g k 15 1 1e-09", 1, 1, 16, 1, NULL},
        {"g k 15 30 0.30000000000000004", 30, 3 * SECOND / 10, 16, 1, NULL},
        {"g k 15 30 0.29999999999999998", 30, 3 * SECOND / 10, 16, 1, NULL},
        {"g k 15 30 1.0000000001", 30, SECOND, 16, 1, NULL},
        {"g k 15 30 00000000000000000000000000000000000000000000000000000060", 30, 60 * SECOND, 16,
         1, NULL},
        {"g k 15 30", 0, 0, 0, 0, "ERR wrong number of arguments for 'gcra' command"},
        {"g k 15 30 1 TOKENS", 0, 0, 0, 0, syntax},
        {"g k 15 30 1 TOKEN 1", 0, 0, 0, 0, syntax},
        {"g k 15 30 1 5", 0, 0, 0, 0, syntax},
        {"g k 15 30 1 TOKENS 1 1", 0, 0, 0, 0, syntax},
        {"g k x 30 1", 0, 0, 0, 0, integer},
        {"g k 15 30.5 1", 0, 0, 0, 0, integer},
        {"g k 15 30 1 TOKENS x", 0, 0, 0, 0, integer},
        {"g k 15 30 ", 0, 0, 0, 0, seconds},
        {"g k 15 30 .", 0, 0, 0, 0, seconds},
        {"g k 15 30 e5", 0, 0, 0, 0, seconds},
        {"g k 15 30 1e", 0, 0, 0, 0, seconds},
        {"g k 15 30 1e-", 0, 0, 0, 0, seconds},
        {"g k 15 30 1e+-1", 0, 0, 0, 0, seconds},
        {"g k 15 30 1e100", 0, 0, 0, 0, seconds},
        {"g k 15 30 1e99", 0, 0, 0, 0, seconds},
        {"g k 15 30 1e-99", 0, 0, 0, 0, seconds},
        {"g k 15 1 1e-10", 0, 0, 0, 0, seconds},
        {"g k 15 1 0.0000000015", 0, 0, 0, 0, seconds},
        {"g k 15 30 0x10", 0, 0, 0, 0, seconds},
        {"g k 15 30 nan", 0, 0, 0, 0, seconds},
        {"g k 15 30 1.5.5", 0, 0, 0, 0, seconds},
        {"g k 15 30 -1", 0, 0, 0, 0, seconds},
        {"g k 15 30 inf", 0, 0, 0, 0, seconds},
        {"g k 15 30 18446744073.1", 0, 0, 0, 0, seconds},
        {"g k 15 30 18446744073.709551616", 0, 0, 0, 0, seconds},
        {"g k 15 30 0", 0, 0, 0, 0, "ERR period must be above 0"},
        {"g k 15 30 0.000", 0, 0, 0, 0, "ERR period must be above 0"},
        {"g k 15 30 0e9", 0, 0, 0, 0, "ERR period must be above 0"},
        {"g k -1 30 1", 0, 0, 0, 0, "ERR max_burst must not be negative"},
        {"g k 1 0 1", 0, 0, 0, 0, "ERR tokens_per_period must be at least 1"},
        {"g k 1 1 1 TOKENS 0", 0, 0, 0, 0, "ERR TOKENS must be at least 1"},
        {"g k 1 1 1 TOKENS -1", 0, 0, 0, 0, "ERR TOKENS must be at least 1"},
        {"g k 1 500000001 0.5", 0, 0, 0, 0, "ERR tokens_per_period exceeds one per nanosecond"},
        {"g k 1 1000000001 1", 0, 0, 0, 0, "ERR tokens_per_period exceeds one per nanosecond"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        check_parse(ration_cl_throttle_parse_gcra, &rows[i]);
}

static void keys_have_a_size(void **state)
{
    (void)state;
    static char key[RATION_KEY_SIZE_MAX + 1];
    char error[RATION_CL_THROTTLE_ERROR_SIZE];
    struct ration_cl_throttle throttle;
    struct ration_key words[] = {RATION_KEY("t"),
                                 {key, RATION_KEY_SIZE_MAX},
                                 RATION_KEY("1"),
                                 RATION_KEY("1"),
                                 RATION_KEY("1")};
    assert_true(ration_cl_throttle_parse(words, 5, &throttle, error));
    assert_true(ration_cl_throttle_parse_gcra(words, 5, &throttle, error));
    words[1].size++;
    assert_false(ration_cl_throttle_parse(words, 5, &throttle, error));
    assert_string_equal(error, CELL "The key is longer than 65535 bytes");
    assert_false(ration_cl_throttle_parse_gcra(words, 5, &throttle, error));
}

/* What an error repeats is bounded, and a zero byte does not end it. */
static void long_arguments_are_cut_in_errors(void **state)
{
    (void)state;
    static char number[60000];
    char error[RATION_CL_THROTTLE_ERROR_SIZE];
    struct ration_cl_throttle throttle;
    memset(number, '9', sizeof(number));
    number[1] = '\0';
    struct ration_key words[] = {RATION_KEY("t"),
                                 RATION_KEY("k"),
                                 {number, sizeof(number)},
                                 RATION_KEY("1"),
                                 RATION_KEY("1")};
    assert_false(ration_cl_throttle_parse(words, 5, &throttle, error));
    assert_memory_equal(error, INTEGER "9 9999", strlen(INTEGER "9 9999"));
    assert_int_equal(strlen(error), strlen(INTEGER) + 128);
}

static void limits_that_cannot_be_kept(void **state)
{
    (void)state;
    struct ration_limit limit, untouched;
    char error[RATION_CL_THROTTLE_ERROR_SIZE];
    struct ration_cl_throttle throttle = {
        .tokens = 1, .period_ns = SECOND, .burst = UINT64_C(1) << 62, .quantity = 1};
    memset(&limit, 0xa5, sizeof(limit));
    memset(&untouched, 0xa5, sizeof(untouched));
    assert_false(ration_cl_throttle_make_limit(&throttle, &limit, error));
    assert_memory_equal(error, CELL, strlen(CELL));
    assert_memory_equal(&limit, &untouched, sizeof(limit));
    throttle.is_gcra = true;
    assert_false(ration_cl_throttle_make_limit(&throttle, &limit, error));
    assert_memory_equal(error, "ERR ", 4);
    throttle.burst = 10;
    assert_true(ration_cl_throttle_make_limit(&throttle, &limit, error));
    assert_int_equal(limit.burst, 10);
}

static void check_answer(const struct ration_decision *decision, const char *expected)
{
    struct ration_output output;
    ration_output_init(&output, 1000);
    ration_cl_throttle_write(&output, decision);
    assert_true(resp_check(output.bytes, output.size, 2));
    if (output.size != strlen(expected) || memcmp(output.bytes, expected, output.size) != 0)
        fail_msg("'%.*s' and not '%s'", (int)output.size, output.bytes, expected);
    ration_output_done(&output);
}

static void seconds_round_up(void **state)
{
    (void)state;
    struct ration_decision decision = {.verdict = RATION_DENY,
                                       .limit = 5,
                                       .remaining = 0,
                                       .retry_after_ns = 1,
                                       .reset_after_ns = SECOND};
    check_answer(&decision, "*5\r\n:1\r\n:5\r\n:0\r\n:1\r\n:1\r\n");
    decision.retry_after_ns = SECOND + 1;
    decision.reset_after_ns = SECOND + 1;
    check_answer(&decision, "*5\r\n:1\r\n:5\r\n:0\r\n:2\r\n:2\r\n");
    decision = (struct ration_decision){.verdict = RATION_NEVER,
                                        .limit = UINT64_MAX,
                                        .remaining = UINT64_MAX,
                                        .retry_after_ns = RATION_FOREVER,
                                        .reset_after_ns = UINT64_MAX};
    check_answer(&decision, "*5\r\n:1\r\n:9223372036854775807\r\n:9223372036854775807\r\n:-1\r\n"
                            ":18446744074\r\n");
}

/* One row: the text of a request, through a bucket, to the text of its answer. */
static void run_row(struct ration_bucket *bucket, const char *limit_words, const char *row)
{
    char text[256], expected[256], error[RATION_CL_THROTTLE_ERROR_SIZE];
    uint64_t t_ms, quantity;
    int64_t values[5];
    struct ration_key words[WORDS_MAX];
    struct ration_cl_throttle throttle;
    struct ration_limit limit;
    assert_int_equal(
        sscanf(row,
               "%" SCNu64 " %" SCNu64 " %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64,
               &t_ms, &quantity, &values[0], &values[1], &values[2], &values[3], &values[4]),
        7);
    snprintf(text, sizeof(text), "CL.THROTTLE k %s %" PRIu64, limit_words, quantity);
    assert_true(ration_cl_throttle_parse(words, split(text, words), &throttle, error));
    assert_true(ration_cl_throttle_make_limit(&throttle, &limit, error));
    struct ration_decision decision =
        ration_bucket_take(bucket, &limit, throttle.quantity, SECOND + t_ms * RATION_NS_PER_MS);
    snprintf(expected, sizeof(expected),
             "*5\r\n:%" PRId64 "\r\n:%" PRId64 "\r\n:%" PRId64 "\r\n:%" PRId64 "\r\n:%" PRId64
             "\r\n",
             values[0], values[1], values[2], values[3], values[4]);
    check_answer(&decision, expected);
}

static void rows_of_redis_cell(void **state)
{
    (void)state;
    FILE *file = fopen(RATION_ROWS, "r");
    char line[256], limit_words[256] = "";
    struct ration_bucket bucket = {{0}};
    int count = 0;
    assert_non_null(file);
    while (fgets(line, sizeof(line), file)) {
        line[strcspn(line, "\n")] = '\0';
        if (line[0] == '#' || line[0] == '\0')
            continue;
        if (!strncmp(line, "key ", 4)) {
            memcpy(limit_words, line + 4, strlen(line + 4) + 1);
            bucket = (struct ration_bucket){{0}};
            continue;
        }
        run_row(&bucket, limit_words, line);
        count++;
    }
    fclose(file);
    assert_true(count >= 23);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arguments_of_cl_throttle),
        cmocka_unit_test(arguments_of_gcra),
        cmocka_unit_test(keys_have_a_size),
        cmocka_unit_test(long_arguments_are_cut_in_errors),
        cmocka_unit_test(limits_that_cannot_be_kept),
        cmocka_unit_test(seconds_round_up),
        cmocka_unit_test(rows_of_redis_cell),
    };
    return cmocka_run_group_tests_name("throttle", tests, guard_map, guard_unmap);
}
