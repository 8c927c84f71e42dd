/*
 * Rows for limits as text: text to its canonical print, or to (status, offset, message). Each row and each prefix of it is
 * parsed right before an inaccessible page; text that parses must survive print and parse, and any other text must leave
 * the limit unchanged.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ration/limit.h"
#include "support/guard.h"
#include "support/limits_equal.h"
#include "support/unit.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))
#define TEXT_SIZE_MAX   1024 /* as docs/reference/limit-text.md says */
#define PATTERN         0xA5

#define NAME_63 "a23456789_123456789_123456789_123456789_123456789_123456789_123"

static void check_survives_print(const struct ration_limit *limit)
{
    char text[RATION_LIMIT_TEXT_SIZE], again[RATION_LIMIT_TEXT_SIZE];
    struct ration_limit back;
    struct ration_error error;
    assert_int_equal(ration_limit_print(limit, text, sizeof(text)), RATION_OK);
    if (ration_limit_parse(text, &back, &error) != RATION_OK)
        fail_msg("'%s' does not parse: %zu: %s", text, error.offset, error.message);
    if (!limits_equal(limit, &back))
        fail_msg("'%s' parses to another limit", text);
    assert_int_equal(ration_limit_print(&back, again, sizeof(again)), RATION_OK);
    assert_string_equal(text, again);
}

/* Parses size bytes of text in front of the guard and checks what holds for any text. */
static ration_status parse_guarded(const char *text, size_t size, struct ration_limit *out_limit,
                                   struct ration_error *out_error)
{
    struct ration_limit limit, untouched;
    char *place = guard - size;
    memcpy(place, text, size);
    memset(&limit, PATTERN, sizeof(limit));
    memset(&untouched, PATTERN, sizeof(untouched));
    memset(out_error, PATTERN, sizeof(*out_error));
    ration_status status = ration_limit_parse_bytes(place, size, &limit, out_error);
    if (status == RATION_OK) {
        check_survives_print(&limit);
        *out_limit = limit;
    } else {
        assert_int_equal(out_error->status, status);
        assert_memory_equal(&limit, &untouched, sizeof(limit));
        assert_true(out_error->offset <= size);
        assert_true(out_error->message[0] != '\0');
        assert_non_null(memchr(out_error->message, '\0', sizeof(out_error->message)));
    }
    assert_int_equal(ration_limit_parse_bytes(place, size, &limit, NULL), status);
    return status;
}

static void good_texts(void **state)
{
    (void)state;
    static const struct {
        const char *text, *print;
    } rows[] = {
        {"10/s", "10/s"},
        {"10 / 5s", "10/5s"},
        {"10/ 5 s", "10/5s"},
        {"5 per 10s", "5/10s"},
        {"5 per s", "5/s"},
        {"5 per 1s", "5/s"},
        {"100/min", "100/min"},
        {"100/60s", "100/min"},
        {"11/11s", "11/11s"},
        {"10/1.5s", "10/1500ms"},
        {"1_000/s", "1000/s"},
        {"10k/s", "10000/s"},
        {"1/y", "1/y"},
        {"1000M/s", "1000000000/s"},
        {" \t\r\n10/s \n", "10/s"},
        {"10/s burst 20", "10/s burst 20"},
        {"10/s burst 10", "10/s"},
        {"10/s burst 1", "10/s burst 1"},
        {"10/s\nburst\n20\tstart\tempty", "10/s burst 20 start empty"},
        {"10/s burst 1_0k", "10/s burst 10000"},
        {"10/s start full", "10/s"},
        {"10/s start empty", "10/s start empty"},
        {"10/s start 5", "10/s start 5"},
        {"10/s start 0", "10/s start empty"},
        {"10/s start 10", "10/s"},
        {"10/s reserve 5/h start 12", "10/s reserve 5/h start 12"},
        {"10/s start 20 burst 30", "10/s burst 30 start 20"},
        {"10/s refill continuous", "10/s"},
        {"10/s refill interval", "10/s refill interval"},
        {"10/s token_bucket", "10/s"},
        {"10/s leaky_queue", "10/s leaky_queue"},
        {"100/min fixed_window", "100/min fixed_window"},
        {"100/min sliding_window name login", "100/min sliding_window name login"},
        {"100/min sliding_log", "100/min sliding_log"},
        {"10/s reserve 100/h", "10/s reserve 100/h"},
        {"10/s reserve 100 per h burst 500", "10/s reserve 100/h burst 500"},
        {"10/s reserve 100/h burst 100", "10/s reserve 100/h"},
        {"10/s burst 20 reserve 100/h burst 500", "10/s burst 20 reserve 100/h burst 500"},
        {"10/s reserve 100/h burst 500 burst 20", "10/s burst 20 reserve 100/h burst 500"},
        {"10/s reserve 100/h start empty burst 20", "10/s burst 20 reserve 100/h start empty"},
        {"10/s token_bucket reserve 100/h", "10/s reserve 100/h"},
        {"10/s reserve 100/h token_bucket", "10/s reserve 100/h"},
        {"10/s name a", "10/s name a"},
        {"10/s name burst", "10/s name burst"},
        {"10/s name A_b-c.d:e/f9", "10/s name A_b-c.d:e/f9"},
        {"10/s name " NAME_63, "10/s name " NAME_63},
        {"10/s name x start empty refill interval burst 20",
         "10/s burst 20 refill interval start empty name x"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char print[RATION_LIMIT_TEXT_SIZE];
        struct ration_limit limit;
        struct ration_error error;
        size_t size = strlen(rows[i].text);
        for (size_t part = 0; part < size; part++)
            parse_guarded(rows[i].text, part, &limit, &error);
        if (parse_guarded(rows[i].text, size, &limit, &error) != RATION_OK)
            fail_msg("'%s': %zu: %s", rows[i].text, error.offset, error.message);
        assert_int_equal(ration_limit_print(&limit, print, sizeof(print)), RATION_OK);
        assert_string_equal(print, rows[i].print);
        assert_int_equal(ration_limit_parse(rows[i].text, &limit, NULL), RATION_OK);
    }
}

struct bad_row {
    const char *text;
    size_t offset;
    const char *message;
};

static void check_bad(const struct bad_row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct ration_limit limit;
        struct ration_error error;
        size_t size = strlen(rows[i].text);
        for (size_t part = 0; part < size; part++)
            parse_guarded(rows[i].text, part, &limit, &error);
        ration_status status = parse_guarded(rows[i].text, size, &limit, &error);
        if (status == RATION_OK || error.offset != rows[i].offset ||
            !strstr(error.message, rows[i].message))
            fail_msg("'%s': %d at %zu: %s", rows[i].text, status, error.offset, error.message);
    }
}

static void a_rate_alone_is_reported_of_halves(void **state)
{
    (void)state;
    static const char *const texts[] = {"1/h start 1.5", "1/h burst 1.5",
                                        "10/s reserve 1/h burst 1.5"};
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        struct ration_limit limit;
        struct ration_error error;
        assert_int_equal(ration_limit_parse(texts[i], &limit, &error), RATION_EINVAL);
        assert_string_equal(error.message, "'1.5': a whole number is needed");
        assert_int_equal(error.offset, strlen(texts[i]) - strlen("1.5"));
    }
}

static void bad_rates(void **state)
{
    (void)state;
    static const struct bad_row rows[] = {
        {"", 0, "a limit is missing: write for example 10/s"},
        {" \n ", 3, "a limit is missing"},
        {"10", 0, "'10' has no period: write 10/s or 10 per 5s"},
        {"  10k ", 2, "'10k' has no period: write 10k/s or 10k per 5s"},
        {"10/", 0, "'10' has no period"},
        {"10 per ", 0, "'10' has no period"},
        {"10 burst 5", 0, "'10' has no period"},
        {"10 s", 3, "unknown word 's': after a count write / or per, as in 10/s or 10 per 5s"},
        {"10 req/s", 3, "unknown word 'req/s': after a count write / or per, as in 10/s or"},
        {"10 requests per second", 3, "unknown word 'requests': after a count write / or per"},
        {"10 per/s", 3, "unknown word 'per/s': after a count write / or per"},
        {"10 PER s", 3, "unknown word 'PER': write per"},
        {"10 pers", 3, "unknown word 'pers': write per s, with a blank"},
        {" 10  per5 s burst 3", 5, "unknown word 'per5': write per 5 s, with a blank"},
        {"10 k/s", 3, "unknown word 'k/s': write 10k/s, without the blank"},
        {"10 M per s", 3, "unknown word 'M': write 10M, without the blank"},
        {"10k k/s", 4, "unknown word 'k/s': after a count write / or per, as in 10k/s"},
        {"10per s", 2, "unknown suffix 'per': write 10 per s, with blanks around per"},
        {"10rps", 2, "unknown suffix 'rps': write 10/s"},
        {"10s", 2, "unknown suffix 's': write 10/s"},
        {"/s", 0, "a count is missing"},
        {"burst 5", 0, "'burst': a whole number is needed"},
        {"0.5/s", 0, "for half a token per second write 1 per 2s"},
        {"-5/s", 0, "without sign"},
        {"1e3/s", 0, "without exponent"},
        {"0x10/s", 0, "in decimal"},
        {"18446744073709551616/s", 0, "too large"},
        {"0/s", 0, "tokens must be at least 1 (got 0)"},
        {"  0/s", 2, "tokens must be at least 1 (got 0)"},
        {"10/0s", 3, "period must be at least 1ns (got 0)"},
        {"10/5", 3, "'5' has no unit: write for example 5s"},
        {"10/5 burst 3", 3, "'5' has no unit"},
        {"10/S", 3, "unknown unit 'S': write s"},
        {"10/5S", 4, "unknown unit 'S': write s"},
        {"10 per month", 7, "months differ in length; write 30d"},
        {"10/0.1ns", 3, "not a whole number of nanoseconds"},
        {"10/585y", 3, "too long"},
        {"10//s", 3, "a duration is missing"},
        {"10/s/s", 4, "unknown word '/s' at byte 4"},
    };
    check_bad(rows, COUNT_OF(rows));
}

static void bad_options(void **state)
{
    (void)state;
    static const struct bad_row rows[] = {
        {"10/s brust 20", 5, "unknown word 'brust' at byte 5: did you mean burst?"},
        {"10/s BURST 20", 5, "did you mean burst?"},
        {"10/s burst=20", 5, "unknown word 'burst=20' at byte 5: did you mean burst?"},
        {"10/s token-bucket", 5, "did you mean token_bucket?"},
        {"10/s sliding window", 5, "did you mean sliding_window?"},
        {"10/s 20", 5, "unknown word '20' at byte 5: options are burst, start, refill"},
        {"10/s \x01\xFFxy", 5, "unknown word '\\x01\\xFFxy' at byte 5"},
        {"10/s abcdefghijklmnopqrstuvwxyz", 5, "'abcdefghijklmnopqrstuvwx...'"},
        {"10/s burst 20/s", 13, "unknown word '/s' at byte 13"},
        {"10/s burst", 5, "burst needs a count: write burst 20"},
        {"10/s burst ", 5, "burst needs a count"},
        {"10/s burst 0", 11, "burst must be at least 1 (got 0)"},
        {"10/s burst 0k", 11, "burst must be at least 1 (got 0)"},
        {"10/s burst 5;", 12, "unexpected ';': only k, M or G may follow the digits"},
        {"10/s burst start empty", 11, "'start': a whole number is needed"},
        {"10/s burst 20 burst 20", 14, "burst is given twice, at byte 5 and at byte 14"},
        {"10/s burst 2 reserve 1/h burst 3 burst 4", 33, "burst is given twice, at byte 5 and"},
        {"10/s start", 5, "start needs full, empty or a count"},
        {"10/s start ful", 11, "unknown start 'ful' at byte 11: did you mean full?"},
        {"10/s start xyz", 11, "unknown start 'xyz' at byte 11: write full, empty or a count"},
        {"10/s start -1", 11, "without sign"},
        {"10/s start 5x", 12, "unknown suffix 'x'"},
        {"10/s start full start full", 16, "start is given twice, at byte 5 and at byte 16"},
        {"10/s refill", 5, "refill needs continuous or interval"},
        {"10/s refill intervall", 12,
         "unknown refill 'intervall' at byte 12: did you mean interval?"},
        {"10/s refill xyz", 12, "unknown refill 'xyz' at byte 12: write continuous or interval"},
        {"10/s refill interval refill interval", 21, "refill is given twice"},
        {"10/s fixed_window sliding_log", 18,
         "an algorithm is given twice, at byte 5 and at byte 18"},
        {"10/s leaky_queue leaky_queue", 17, "an algorithm is given twice"},
        {"10/s name", 5, "name needs a word: write name login"},
        {"10/s name a name b", 12, "name is given twice"},
        {"10/s name \xC3\xA9", 10,
         "'\\xC3' at byte 10 cannot be in a name: write letters, digits and"},
        {"10/s name  a!b burst 5", 12, "'!' at byte 12 cannot be in a name"},
        {"10/s start 11 name a!b", 20, "cannot be in a name: write letters, digits and _ - . : /"},
        {"10/s name x" NAME_63, 10, "name has 64 bytes: at most 63"},
        {"10/s reserve", 5, "reserve needs a rate: write reserve 100/h"},
        {"10/s reserve 100", 13, "'100' has no period: write 100/s"},
        {"10/s reserve 100 burst 5", 13, "'100' has no period"},
        {"10/s reserve 100 req/h", 17, "unknown word 'req/h': after a count write / or per"},
        {"10/s reserve 0.5/h", 13, "for half a token per second write 1 per 2s"},
        {"10/s reserve x/h", 13, "'x': a whole number is needed"},
        {"10/s reserve 0/h", 13, "reserve tokens must be at least 1 (got 0)"},
        {"10/s reserve 1/0h", 15, "reserve period must be at least 1ns (got 0)"},
        {"10/s reserve 1/H", 15, "unknown unit 'H': write h"},
        {"10/s reserve 1/h burst", 17, "burst of the reserve needs a count"},
        {"10/s reserve 1/h burst 0", 23, "reserve burst must be at least 1 (got 0)"},
        {"10/s reserve 1/h reserve 1/h", 17, "reserve is given twice"},
        {"10/s reserve 1/h sliding_log", 17, "a reserve goes with token_bucket only"},
        {"10/s sliding_log reserve 1/h", 17, "reserve at byte 17, algorithm at byte 5"},
    };
    check_bad(rows, COUNT_OF(rows));
}

/* An error of ration_limit_make() is placed at the number or word that causes it. */
static void refused_limits(void **state)
{
    (void)state;
    static const struct bad_row rows[] = {
        {"10/ns", 0, "one per nanosecond"},
        {" 10/ns burst 5 name x", 1, "one per nanosecond"},
        {"1/17y", 0, "16 years"},
        {"1/s burst 600M", 10, "burst"},
        {"1/s name x burst 600M", 17, "burst"},
        {"10/s start 11", 11, "start must be at most the burst of 10 (got 11)"},
        {"10/s burst 5 start 8", 19, "start"},
        {"10/s start 20 burst 5", 11, "start"},
        {"10/s fixed_window start 11", 24, "start"},
        {"10/s sliding_log refill interval", 17, "interval"},
        {"10/s refill interval sliding_log", 21, "interval"},
        {"10/s refill interval reserve 1/h", 21, "interval"},
        {"10/s reserve 1/17y", 13, "reserve"},
        {"10/s reserve 1/s burst 600M", 23, "reserve"},
        {"10/s reserve 10/s", 13, "more slowly"},
        {"100/min burst 200 sliding_window", 18, "burst"},
        {"100/min sliding_window burst 200", 23, "burst"},
        {"10/10y refill interval burst 12", 29, "16 years"},
        {"5G/10s sliding_log", 7, "counts up to"},
        {"1/s burst 600M start 20", 10, "16 years"},
        {"1/17y burst 2 start 1 name x", 0, "16 years"},
        {"10/ns start 11", 12, "start"},
    };
    struct ration_limit limit;
    check_bad(rows, COUNT_OF(rows));
    assert_int_equal(ration_limit_parse("10/ns", &limit, NULL), RATION_ERANGE);
}

static void bounds_of_the_text(void **state)
{
    (void)state;
    char text[TEXT_SIZE_MAX + 2];
    struct ration_limit limit;
    struct ration_error error;
    memset(text, ' ', sizeof(text));
    memcpy(text, "10/s", 4);
    assert_int_equal(parse_guarded(text, TEXT_SIZE_MAX, &limit, &error), RATION_OK);
    assert_int_equal(parse_guarded(text, TEXT_SIZE_MAX + 1, &limit, &error), RATION_EINVAL);
    assert_int_equal(error.offset, TEXT_SIZE_MAX);
    assert_non_null(strstr(error.message, "at most 1024 bytes"));
    text[TEXT_SIZE_MAX + 1] = '\0';
    assert_int_equal(ration_limit_parse(text, &limit, &error), RATION_EINVAL);
    assert_int_equal(error.offset, TEXT_SIZE_MAX);
    text[TEXT_SIZE_MAX] = '\0';
    assert_int_equal(ration_limit_parse(text, &limit, &error), RATION_OK);

    assert_int_equal(parse_guarded("10/s\0", 5, &limit, &error), RATION_EINVAL);
    assert_int_equal(error.offset, 4);
    assert_non_null(strstr(error.message, "zero byte"));
    assert_int_equal(ration_limit_parse(NULL, &limit, &error), RATION_EINVAL);
    assert_int_equal(error.offset, 0);
}

static void print_needs_room(void **state)
{
    (void)state;
    static const char longest[] =
        "1000000000000000000/1000000000000000001ns burst 500000000000000001 reserve "
        "1000000000000000000/1000000000000000003ns burst 400000000000000001 start "
        "500000000000000000 name " NAME_63;
    struct ration_limit limit;
    struct ration_error error;
    char text[RATION_LIMIT_TEXT_SIZE], untouched[RATION_LIMIT_TEXT_SIZE];
    if (ration_limit_parse(longest, &limit, &error) != RATION_OK)
        fail_msg("%zu: %s", error.offset, error.message);
    memset(text, PATTERN, sizeof(text));
    memset(untouched, PATTERN, sizeof(untouched));
    for (size_t room = 0; room < sizeof(longest); room++) {
        assert_int_equal(ration_limit_print(&limit, text, room), RATION_ENOSPC);
        assert_memory_equal(text, untouched, sizeof(text));
    }
    assert_int_equal(ration_limit_print(&limit, text, sizeof(longest)), RATION_OK);
    assert_string_equal(text, longest);
}

static uint64_t random_next(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

/* Mostly small numbers and whole units, sometimes anything. */
static uint64_t random_value(uint64_t *state, uint64_t unit)
{
    uint64_t value = random_next(state) >> (random_next(state) % 64);
    return random_next(state) % 4 ? (value % 1000 + 1) * unit : value;
}

static struct ration_limit_spec random_spec(uint64_t *seed)
{
    static const uint64_t units[] = {1, RATION_NS_PER_MS, RATION_NS_PER_SECOND, RATION_NS_PER_HOUR,
                                     RATION_NS_PER_WEEK};
    static const char *const names[] = {NULL, "x", "burst", NAME_63, "a/b:c.d-e_9"};
    struct ration_limit_spec spec = {
        .tokens = random_value(seed, 1),
        .period_ns = random_value(seed, units[random_next(seed) % COUNT_OF(units)]),
        .burst = random_next(seed) % 2 ? random_value(seed, 1) : 0,
        .algorithm = (enum ration_algorithm)(random_next(seed) % 7),
        .refill = (enum ration_refill)(random_next(seed) % 4 == 0),
        .start = (enum ration_start)(random_next(seed) % 3),
        .name = names[random_next(seed) % COUNT_OF(names)],
    };
    if (spec.start == RATION_START_TOKENS)
        spec.start_tokens = random_next(seed) % (spec.burst ? spec.burst : 1);
    if (spec.algorithm == RATION_BURST_RESERVE) {
        spec.reserve_tokens = random_value(seed, 1);
        spec.reserve_period_ns = random_value(seed, units[random_next(seed) % COUNT_OF(units)]);
        spec.reserve_burst = random_next(seed) % 2 ? random_value(seed, 1) : 0;
    }
    return spec;
}

static void any_limit_survives_its_text(void **state)
{
    (void)state;
    const char *given = getenv("RATION_TEST_SEED");
    uint64_t seed = given ? strtoull(given, NULL, 10) : (uint64_t)time(NULL);
    print_message("seed %" PRIu64 "\n", seed);
    size_t made[RATION_SLIDING_LOG + 1] = {0};
    for (int i = 0; i < 100000; i++) {
        struct ration_limit limit;
        struct ration_limit_spec spec = random_spec(&seed);
        if (ration_limit_make(&spec, &limit, NULL) != RATION_OK)
            continue;
        check_survives_print(&limit);
        made[limit.algorithm]++;
    }
    for (int algorithm = RATION_TOKEN_BUCKET; algorithm <= RATION_SLIDING_LOG; algorithm++)
        assert_true(made[algorithm] > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_texts),
        cmocka_unit_test(bad_rates),
        cmocka_unit_test(a_rate_alone_is_reported_of_halves),
        cmocka_unit_test(bad_options),
        cmocka_unit_test(refused_limits),
        cmocka_unit_test(bounds_of_the_text),
        cmocka_unit_test(print_needs_room),
        cmocka_unit_test(any_limit_survives_its_text),
    };
    return cmocka_run_group_tests_name("limit_text", tests, guard_map, guard_unmap);
}
