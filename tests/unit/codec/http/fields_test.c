/*
 * Rows for the header fields: a limit and a decision, and the lines that report them.
 */
#include "codec/http/fields.h"

#include <stdio.h>
#include <string.h>

#include "support/unit.h"
#include "support/written.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))
#define SECOND          RATION_NS_PER_SECOND

static struct ration_fields_limit fields_of(const char *name, const char *text)
{
    struct ration_fields_limit fields;
    struct ration_limit limit;
    assert_int_equal(ration_limit_parse(text, &limit, NULL), RATION_OK);
    ration_fields_limit_init(&fields, name, &limit);
    return fields;
}

static void policies(void **state)
{
    (void)state;
    static const struct {
        const char *name, *limit, *expected;
    } rows[] = {
        {"burst", "1 per 2s burst 16", "RateLimit-Policy: \"burst\";q=16;w=32\r\n"},
        {"day", "5000/d", "RateLimit-Policy: \"day\";q=5000;w=86400\r\n"},
        {"", "10/s", "RateLimit-Policy: \"default\";q=10;w=1\r\n"},
        {NULL, "10/s", "RateLimit-Policy: \"default\";q=10;w=1\r\n"},
        /* Rounded up, and never 0. */
        {"a", "10/s burst 11", "RateLimit-Policy: \"a\";q=11;w=2\r\n"},
        {"a", "1000/s burst 1", "RateLimit-Policy: \"a\";q=1;w=1\r\n"},
        {"a", "3/s burst 7", "RateLimit-Policy: \"a\";q=7;w=3\r\n"},
        /* Whole periods, if refills come at the end of a period. */
        {"a", "10 per 10s burst 11 refill interval", "RateLimit-Policy: \"a\";q=11;w=20\r\n"},
        {"a", "10 per 10s burst 20 refill interval", "RateLimit-Policy: \"a\";q=20;w=20\r\n"},
        {"a", "7/min fixed_window", "RateLimit-Policy: \"a\";q=7;w=60\r\n"},
        {"a", "7/min sliding_log", "RateLimit-Policy: \"a\";q=7;w=60\r\n"},
        {"a", "1000000000000000000/1000000000000000001ns burst 500000000000000001",
         "RateLimit-Policy: \"a\";q=999999999999999;w=500000001\r\n"},
        /* Names never contain these characters; if one did, the field would still be valid. */
        {"a\"b\\c\nd\xC3", "10/s", "RateLimit-Policy: \"a\\\"b\\\\c?d?\";q=10;w=1\r\n"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct ration_fields_limit fields = fields_of(rows[i].name, rows[i].limit);
        struct ration_fields_item item = {.limit = &fields};
        ration_fields_write_policy(&written, &item, 1);
        assert_written(rows[i].expected);
    }
    ration_fields_write_policy(&written, NULL, 0);
    ration_fields_write_state(&written, NULL, 0, 0);
    assert_written("");
}

static void longest_names_fit(void **state)
{
    (void)state;
    char name[RATION_LIMIT_NAME_MAX + 2];
    memset(name, '"', sizeof(name));
    name[sizeof(name) - 1] = '\0';
    struct ration_fields_limit fields =
        fields_of(name, "1000000000000000000/1000000000000000001ns burst 500000000000000001");
    assert_int_equal(fields.name_size, 2 * RATION_LIMIT_NAME_MAX + 2);
    assert_true(fields.policy_size <= RATION_FIELDS_POLICY_SIZE);
    assert_memory_equal(fields.policy + fields.name_size, ";q=999999999999999;w=500000001", 30);
}

static void states(void **state)
{
    (void)state;
    struct ration_fields_limit burst = fields_of("burst", "1 per 2s burst 16");
    struct ration_fields_limit day = fields_of("day", "5000/d");
    struct ration_fields_item items[] = {
        {&burst, {.verdict = RATION_ALLOW, .remaining = 4, .reset_after_ns = 23 * SECOND + 1}},
        {&day, {.verdict = RATION_ALLOW, .remaining = 4990, .reset_after_ns = 170 * SECOND}},
    };
    ration_fields_write_policy(&written, items, 2);
    assert_written("RateLimit-Policy: \"burst\";q=16;w=32, \"day\";q=5000;w=86400\r\n");
    ration_fields_write_state(&written, items, 2, 0);
    assert_written("RateLimit: \"burst\";r=4;t=2, \"day\";r=4990;t=15\r\n");

    items[0].decision = (struct ration_decision){
        .verdict = RATION_DENY, .retry_after_ns = 1500000000, .reset_after_ns = 32 * SECOND};
    ration_fields_write_state(&written, items, 1, 2);
    assert_written("RateLimit: \"burst\";r=0;t=2\r\n");
    ration_fields_write_state(&written, items, 1, 99); /* spread beyond the reset */
    assert_written("RateLimit: \"burst\";r=0;t=99\r\n");
    /* No limit of a denied request may report a time after Retry-After. */
    ration_fields_write_state(&written, items, 2, 2);
    assert_written("RateLimit: \"burst\";r=0;t=2, \"day\";r=4990;t=2\r\n");

    items[0].decision = (struct ration_decision){
        .verdict = RATION_NEVER, .remaining = 16, .retry_after_ns = RATION_FOREVER};
    ration_fields_write_state(&written, items, 1, 0);
    assert_written("RateLimit: \"burst\";r=16\r\n");
}

/* 5/min: the next token is refilled after 12 s, not after the 60 s until the bucket is full. */
static void times_until_more_tokens(void **state)
{
    (void)state;
    static const struct {
        const char *limit;
        uint64_t remaining, reset_ns, seconds;
    } rows[] = {
        {"5/min", 0, 60 * SECOND, 12},
        {"5/min", 0, 60 * SECOND - 1, 12},
        {"5/min", 3, 24 * SECOND, 12},
        {"5/min", 4, 12 * SECOND, 12},
        {"5/min", 4, 1, 1},
        {"5/min", 5, 0, 0},
        {"5/min", 0, 72 * SECOND, 24}, /* in debt by one token */
        {"3/s burst 9", 0, 3 * SECOND, 1},
        {"10/h leaky_queue", 8, 720 * SECOND, 360},
        {"10 per 10s burst 30 refill interval", 5, 27 * SECOND, 7},
        {"10 per 10s burst 30 refill interval", 20, 7 * SECOND, 7},
        {"10 per 10s burst 30 refill interval", 19, 17 * SECOND, 7},
        {"1000000000/s burst 1000000000", 0, SECOND, 1},
        {"7/min fixed_window", 2, 33 * SECOND, 33},
        {"7/min sliding_window", 2, 90 * SECOND, 90},
        {"7/min sliding_log", 2, 50 * SECOND, 50},
        {"5/min reserve 100/h burst 500", 200, 10800 * SECOND, 37}, /* 36 s, and a nanosecond */
        {"5/min reserve 100/h burst 500", 504, 12 * SECOND, 12},
        {"1/s burst 100", 0, 5, 1}, /* less than its tokens need: as it is */
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct ration_fields_limit fields = fields_of("a", rows[i].limit);
        struct ration_fields_item item = {
            &fields,
            {.verdict = RATION_ALLOW,
             .remaining = rows[i].remaining,
             .reset_after_ns = rows[i].reset_ns},
        };
        char expected[80];
        ration_fields_write_state(&written, &item, 1, 0);
        snprintf(expected, sizeof(expected), "RateLimit: \"a\";r=%d;t=%d\r\n",
                 (int)rows[i].remaining, (int)rows[i].seconds);
        assert_written(expected);
    }
}

static void waits(void **state)
{
    (void)state;
    static const struct {
        enum ration_verdict verdict;
        uint64_t ns;
        struct ration_fields_retry retry;
        uint64_t random;
        uint64_t expected;
    } rows[] = {
        {RATION_ALLOW, 0, {0, 5}, 3, 0},
        {RATION_NEVER, RATION_FOREVER, {0, 5}, 3, 0},
        {RATION_DENY, RATION_FOREVER, {0, 5}, 3, 0}, /* banned: no wait helps */
        {RATION_DENY, 0, {0, 0}, 3, 1},
        {RATION_DENY, 1, {0, 0}, 3, 1},
        {RATION_DENY, SECOND, {0, 0}, 3, 1},
        {RATION_DENY, SECOND + 1, {0, 0}, 3, 2},
        {RATION_DENY, 90 * SECOND, {60, 0}, 3, 60},
        {RATION_DENY, 90 * SECOND, {60, 9}, 29, 69},
        {RATION_DENY, 90 * SECOND, {60, 9}, 30, 60},
        {RATION_DENY, 3 * SECOND, {60, 9}, 5, 8},
        {RATION_DENY, UINT64_MAX - 1, {0, 0}, 0, UINT64_C(18446744074)},
        {RATION_DENY,
         UINT64_MAX - 1,
         {0, UINT64_MAX},
         UINT64_MAX,
         UINT64_C(18446744074) + UINT32_MAX},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct ration_decision decision = {.verdict = rows[i].verdict,
                                           .retry_after_ns = rows[i].ns};
        assert_int_equal(ration_fields_retry_seconds(&decision, &rows[i].retry, rows[i].random),
                         rows[i].expected);
    }
    ration_fields_write_retry_after(&written, 0);
    assert_written("");
    ration_fields_write_retry_after(&written, 12);
    assert_written("Retry-After: 12\r\n");
}

static void the_older_fields(void **state)
{
    (void)state;
    struct ration_decision decision = {
        .limit = 16, .remaining = 3, .reset_after_ns = 25 * SECOND + 1};
    ration_fields_write_x(&written, &decision, RATION_FIELDS_RESET_DELTA, 1794782454);
    assert_written(
        "X-RateLimit-Limit: 16\r\nX-RateLimit-Remaining: 3\r\nX-RateLimit-Reset: 26\r\n");
    ration_fields_write_x(&written, &decision, RATION_FIELDS_RESET_EPOCH, 1794782454);
    assert_written("X-RateLimit-Limit: 16\r\nX-RateLimit-Remaining: 3\r\n"
                   "X-RateLimit-Reset: 1794782480\r\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(policies), cmocka_unit_test(longest_names_fit),
        cmocka_unit_test(states),   cmocka_unit_test(times_until_more_tokens),
        cmocka_unit_test(waits),    cmocka_unit_test(the_older_fields),
    };
    return cmocka_run_group_tests_name("fields", tests, written_init, written_done);
}
