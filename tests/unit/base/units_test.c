/*
 * Rows for base/units: text to value or to (offset, message), each text and every prefix of it placed right before an
 * inaccessible page; then value to text and back.
 */
#include <inttypes.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/text.h"
#include "base/units.h"
#include "support/guard.h"
#include "support/unit.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

#define NS_PER_S UINT64_C(1000000000)
#define DAY      (86400 * NS_PER_S)
#define PATTERN  0xA5

#define READS(text, value)                                       \
    {                                                            \
        text, sizeof(text) - 1, value, sizeof(text) - 1, 0, NULL \
    }
#define READS_TO(text, value, used)                  \
    {                                                \
        text, sizeof(text) - 1, value, used, 0, NULL \
    }
#define REFUSED(text, offset, message)                \
    {                                                 \
        text, sizeof(text) - 1, 0, 0, offset, message \
    }

struct row {
    const char *text;
    size_t size;
    uint64_t value;
    size_t used;
    size_t offset;
    const char *message; /* NULL where the text is good */
};

typedef ration_status parse_function(const char *text, size_t text_size, uint64_t *out_value,
                                     size_t *out_used_bytes, struct ration_error *error);

static void check_failure(size_t size, ration_status status, const uint64_t *value,
                          const size_t *used, const struct ration_error *error)
{
    uint64_t untouched;
    memset(&untouched, PATTERN, sizeof(untouched));
    assert_int_equal(status, RATION_EINVAL);
    assert_int_equal(error->status, RATION_EINVAL);
    assert_memory_equal(value, &untouched, sizeof(*value));
    assert_memory_equal(used, &untouched, sizeof(*used));
    assert_true(error->offset <= size);
    assert_true(error->message[0] != '\0');
    assert_non_null(memchr(error->message, '\0', sizeof(error->message)));
}

static void check_row(parse_function *parse, const struct row *row)
{
    for (size_t size = 0; size <= row->size; size++) {
        uint64_t value;
        size_t used;
        struct ration_error error;
        char *text = guard - size;
        memcpy(text, row->text, size);
        memset(&value, PATTERN, sizeof(value));
        memset(&used, PATTERN, sizeof(used));
        memset(&error, PATTERN, sizeof(error));
        ration_status status = parse(text, size, &value, &used, &error);
        if (status != RATION_OK)
            check_failure(size, status, &value, &used, &error);
        else
            assert_true(used <= size);
        assert_int_equal(parse(text, size, &value, &used, NULL), status);
        if (size < row->size)
            continue;
        if (row->message && (status == RATION_OK || error.offset != row->offset ||
                             !strstr(error.message, row->message)))
            fail_msg("'%s': %d at %zu: %s", row->text, status, error.offset, error.message);
        if (!row->message && (status != RATION_OK || value != row->value || used != row->used))
            fail_msg("'%s': %d, %" PRIu64 ", %zu used", row->text, status, value, used);
    }
}

static void counts(void **state)
{
    (void)state;
    static const struct row rows[] = {
        READS("0", 0),
        READS("1", 1),
        READS("007", 7),
        READS("1000", 1000),
        READS("1_000", 1000),
        READS("1_0_0", 100),
        READS("10k", 10000),
        READS("1_0k", 10000),
        READS("2M", 2000000),
        READS("3G", 3000000000),
        READS("18446744073709551615", UINT64_MAX),
        READS("000018446744073709551615", UINT64_MAX),
        READS("18446744073709551k", UINT64_C(18446744073709551000)),
        READS("18446744073G", UINT64_C(18446744073000000000)),
        READS_TO("10/s", 10, 2),
        READS_TO("10k/s", 10000, 3),
        READS_TO("10 per s", 10, 2),
        READS_TO("10\tx", 10, 2),
        READS_TO("10\nx", 10, 2),
        READS_TO("10\rx", 10, 2),
        REFUSED("", 0, "a count is missing: write a whole number"),
        REFUSED(" 10", 0, "a count is missing"),
        REFUSED("/s", 0, "a count is missing"),
        REFUSED("0.5", 0, "'0.5': a whole number is needed"),
        REFUSED("1.", 0, "a whole number is needed"),
        REFUSED(".5", 0, "a whole number is needed"),
        REFUSED("-5", 0, "without sign; write 5, not -5"),
        REFUSED("+5", 0, "without sign"),
        REFUSED("-", 0, "without sign"),
        REFUSED("1e3", 0, "without exponent; write 1000 or 1k"),
        REFUSED("1E+3", 0, "without exponent"),
        REFUSED("0x10", 0, "in decimal; write 16, not 0x10"),
        REFUSED("0X1F", 0, "in decimal"),
        REFUSED("1,000", 1, "group digits with _"),
        REFUSED("5,", 1, "unexpected ',': only k, M or G may follow the digits of a count"),
        REFUSED("5;x", 1, "unexpected ';'"),
        REFUSED("_1", 0, "_ is only allowed between two digits"),
        REFUSED("1_", 0, "_ is only allowed between two digits"),
        REFUSED("1__0", 0, "_ is only allowed between two digits"),
        REFUSED("1_k", 0, "_ is only allowed between two digits"),
        REFUSED("_", 0, "_ is only allowed between two digits"),
        REFUSED("10K", 2, "unknown suffix 'K': write k for a thousand"),
        REFUSED("10m", 2, "unknown suffix 'm': write k for a thousand, M for a million"),
        REFUSED("10kk", 2, "unknown suffix 'kk'"),
        REFUSED("10e", 2, "unknown suffix 'e'"),
        REFUSED("10s", 2, "unknown suffix 's': write k for a thousand"),
        REFUSED("10per s", 2, "unknown suffix 'per': write k for a thousand"),
        REFUSED("1x0", 1, "unknown suffix 'x0'"),
        REFUSED("10\x01\xFF", 2, "unexpected '\\x01\\xFF'"),
        REFUSED("10\0", 2, "unexpected '\\x00'"),
        REFUSED("ten", 0, "'ten': a whole number is needed, such as 100 or 10k"),
        REFUSED("18446744073709551616", 0, "too large: a count is at most 18446744073709551615"),
        REFUSED("18446744073709552k", 0, "too large"),
        REFUSED("18446744074G", 0, "too large"),
        REFUSED("99999999999999999999999999", 0, "'999999999999999999999999...' is too large"),
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        check_row(ration_units_parse_count, &rows[i]);
}

static void counts_of_rates(void **state)
{
    (void)state;
    static const struct row rows[] = {
        READS_TO("10k per s", 10000, 3),
        REFUSED("0.5/s", 0, "a whole number is needed; for half a token per second write 1 per 2s"),
        REFUSED("10per s", 2, "unknown suffix 'per': write 10 per s, with blanks around per"),
        REFUSED("10PER5s", 2, "unknown suffix 'PER5s': write 10 per s"),
        REFUSED("10pers", 2, "unknown suffix 'pers': write 10 per s"),
        REFUSED("10percent", 2, "unknown suffix 'percent': write 10/s, or 10k/s with k, M or G"),
        REFUSED("10rps", 2, "unknown suffix 'rps': write 10/s"),
        REFUSED("10QPM", 2, "unknown suffix 'QPM': write 10/min"),
        REFUSED("10rpx", 2, "unknown suffix 'rpx': write 10/s, or 10k/s"),
        REFUSED("10m", 2, "unknown suffix 'm': write 10/min"),
        REFUSED("10m burst 5", 2, "unknown suffix 'm': write 10/min"),
        REFUSED("10m/s", 2, "unknown suffix 'm': write k for a thousand, M for a million"),
        REFUSED("10m  per s", 2, "unknown suffix 'm': write k for a thousand"),
        REFUSED("10K/s", 2, "unknown suffix 'K': write k for a thousand"),
        REFUSED("10req/s", 2, "unknown suffix 'req': write 10/s, or 10k/s with k, M or G"),
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        check_row(ration_units_parse_rate_count, &rows[i]);
}

static void durations(void **state)
{
    (void)state;
    static const struct row rows[] = {
        READS("1ns", 1),
        READS("ns", 1),
        READS("1us", 1000),
        READS("1\xC2\xB5s", 1000),
        READS("\xCE\xBCs", 1000),
        READS("250ms", 250000000),
        READS("s", NS_PER_S),
        READS("1s", NS_PER_S),
        READS("2sec", 2 * NS_PER_S),
        READS("1second", NS_PER_S),
        READS("3 seconds", 3 * NS_PER_S),
        READS("m", 60 * NS_PER_S),
        READS("1min", 60 * NS_PER_S),
        READS("minute", 60 * NS_PER_S),
        READS("2minutes", 120 * NS_PER_S),
        READS("h", 3600 * NS_PER_S),
        READS("1hr", 3600 * NS_PER_S),
        READS("hour", 3600 * NS_PER_S),
        READS("24hours", DAY),
        READS("d", DAY),
        READS("day", DAY),
        READS("2days", 2 * DAY),
        READS("w", 7 * DAY),
        READS("week", 7 * DAY),
        READS("2weeks", 14 * DAY),
        READS("y", 365 * DAY),
        READS("year", 365 * DAY),
        READS("16 years", 16 * 365 * DAY),
        READS("0s", 0),
        READS("0.0ns", 0),
        READS("1_000ms", NS_PER_S),
        READS("100 ms", 100000000),
        READS("100\t \n ms", 100000000),
        READS("1.5s", 1500000000),
        READS("1.5 s", 1500000000),
        READS("0.000000001s", 1),
        READS("1.000_000_001s", 1000000001),
        READS("1.50000000000000000000000000000000000000s", 1500000000),
        READS("1.0ns", 1),
        READS("0.5us", 500),
        READS("0.0000152587890625y", 365 * DAY / 65536),
        READS("18446744073709551615ns", UINT64_MAX),
        READS("18446744073.709551615s", UINT64_MAX),
        READS("584y", 584 * 365 * DAY),
        READS_TO("5s burst 3", 5 * NS_PER_S, 2),
        READS_TO("5 s burst 3", 5 * NS_PER_S, 3),
        READS_TO("s/x", NS_PER_S, 1),
        READS_TO("s ", NS_PER_S, 1),
        REFUSED("", 0, "a duration is missing: write for example 250ms"),
        REFUSED(" s", 0, "a duration is missing"),
        REFUSED("/", 0, "a duration is missing"),
        REFUSED("5", 0, "'5' has no unit: write for example 5s, 5ms or 5min"),
        REFUSED("1.5", 0, "'1.5' has no unit: write for example 1.5s"),
        REFUSED("5  ", 0, "'5' has no unit"),
        REFUSED("5/s", 0, "'5' has no unit"),
        REFUSED("5 /s", 0, "'5' has no unit"),
        REFUSED("5 burst 3", 0, "'5' has no unit"),
        REFUSED("-5s", 0, "a duration has no sign; write 5s"),
        REFUSED("+5s", 0, "a duration has no sign"),
        REFUSED(".5s", 0, "digits are missing before the point, as in 0.5s"),
        REFUSED("1.s", 2, "digits are missing after the point"),
        REFUSED("1.", 2, "digits are missing after the point"),
        REFUSED("1_s", 0, "_ is only allowed between two digits"),
        REFUSED("1._5s", 0, "_ is only allowed between two digits"),
        REFUSED("1.5_s", 0, "_ is only allowed between two digits"),
        REFUSED("_1s", 0, "_ is only allowed between two digits"),
        REFUSED("0.1ns", 0, "'0.1ns' is not a whole number of nanoseconds"),
        REFUSED("1.0005 us", 0, "'1.0005 us' is not a whole number of nanoseconds"),
        REFUSED("0.0000000001s", 0, "not a whole number of nanoseconds"),
        REFUSED("0.00000762939453125y", 0, "not a whole number of nanoseconds"),
        REFUSED("18446744073709551616ns", 0,
                "too long: a duration is at most 18446744073709551615"),
        REFUSED("18446744073.709551616s", 0, "too long"),
        REFUSED("585y", 0, "too long"),
        REFUSED("99999999999999999999999s", 0, "too long"),
        REFUSED("1S", 1, "unknown unit 'S': write s"),
        REFUSED("S", 0, "unknown unit 'S': write s"),
        REFUSED("5 S", 2, "unknown unit 'S': write s"),
        REFUSED("1MS", 1, "unknown unit 'MS': write ms"),
        REFUSED("1M", 1, "unknown unit 'M': write min"),
        REFUSED("1Min", 1, "unknown unit 'Min': write min"),
        REFUSED("1H", 1, "unknown unit 'H': write h"),
        REFUSED("1secs", 1, "unknown unit 'secs': write s"),
        REFUSED("1mins", 1, "unknown unit 'mins': write min"),
        REFUSED("1msec", 1, "unknown unit 'msec': write ms"),
        REFUSED("1 milliseconds", 2, "write ms"),
        REFUSED("1microsecond", 1, "write us"),
        REFUSED("1nanos", 1, "write ns"),
        REFUSED("1yr", 1, "write y"),
        REFUSED("1secnod", 1, "unknown unit 'secnod': write s"),
        REFUSED("1huor", 1, "unknown unit 'huor': write h"),
        REFUSED("1minu", 1, "unknown unit 'minu': write min"),
        REFUSED("1month", 1, "unknown unit 'month': months differ in length; write 30d"),
        REFUSED("months", 0, "months differ in length"),
        REFUSED("2 mo", 2, "months differ in length"),
        REFUSED("1h30m", 1, "'1h30m': write one number and one unit, such as 90min"),
        REFUSED("1e3s", 1, "write one number and one unit"),
        REFUSED("1x", 1, "unknown unit 'x': ns, us, ms, s, min, h, d, w and y are known"),
        REFUSED("fortnight", 0, "unknown unit 'fortnight'"),
        REFUSED("1\xB5s", 1, "unknown unit '\\xB5s'"),
        REFUSED("1s,", 1, "unknown unit 's,'"),
        REFUSED("1s\0", 1, "unknown unit 's\\x00'"),
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        check_row(ration_units_parse_duration, &rows[i]);
}

static void printed_durations(void **state)
{
    (void)state;
    static const struct {
        uint64_t ns;
        const char *text;
    } rows[] = {
        {0, "0s"},
        {1, "1ns"},
        {1500, "1500ns"},
        {1000, "1us"},
        {250000000, "250ms"},
        {1500000000, "1500ms"},
        {NS_PER_S, "1s"},
        {90 * NS_PER_S, "90s"},
        {60 * NS_PER_S, "1min"},
        {120 * NS_PER_S, "2min"},
        {3600 * NS_PER_S, "1h"},
        {36 * 3600 * NS_PER_S, "36h"},
        {DAY, "1d"},
        {30 * DAY, "30d"},
        {7 * DAY, "1w"},
        {365 * DAY, "1y"},
        {UINT64_MAX, "18446744073709551615ns"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char text[RATION_UNITS_TEXT_SIZE], untouched[RATION_UNITS_TEXT_SIZE];
        size_t size = strlen(rows[i].text) + 1;
        memset(text, PATTERN, sizeof(text));
        memset(untouched, PATTERN, sizeof(untouched));
        for (size_t room = 0; room < size; room++) {
            assert_int_equal(ration_units_print_duration(rows[i].ns, text, room), RATION_ENOSPC);
            assert_memory_equal(text, untouched, sizeof(text));
        }
        assert_int_equal(ration_units_print_duration(rows[i].ns, text, size), RATION_OK);
        assert_string_equal(text, rows[i].text);
    }
}

static void printed_counts(void **state)
{
    (void)state;
    char text[RATION_UNITS_TEXT_SIZE] = "untouched";
    assert_int_equal(ration_units_print_count(1000, text, 4), RATION_ENOSPC);
    assert_string_equal(text, "untouched");
    assert_int_equal(ration_units_print_count(1000, text, 5), RATION_OK);
    assert_string_equal(text, "1000");
    assert_int_equal(ration_units_print_count(UINT64_MAX, text, sizeof(text)), RATION_OK);
    assert_string_equal(text, "18446744073709551615");
}

static uint64_t random_next(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

static void any_value_survives_its_text(void **state)
{
    (void)state;
    const char *given = getenv("RATION_TEST_SEED");
    uint64_t seed = given ? strtoull(given, NULL, 10) : (uint64_t)time(NULL);
    print_message("seed %" PRIu64 "\n", seed);
    static const uint64_t steps[] = {1, 1000, 1000000, NS_PER_S, 60 * NS_PER_S, DAY, 7 * DAY};
    for (int i = 0; i < 200000; i++) {
        char text[RATION_UNITS_TEXT_SIZE];
        size_t used;
        uint64_t back, value = random_next(&seed) >> (random_next(&seed) % 64);
        uint64_t step = steps[random_next(&seed) % COUNT_OF(steps)];
        value -= random_next(&seed) % 2 ? value % step : 0;
        assert_int_equal(ration_units_print_duration(value, text, sizeof(text)), RATION_OK);
        assert_int_equal(ration_units_parse_duration(text, strlen(text), &back, &used, NULL), 0);
        assert_true(back == value && used == strlen(text));
        assert_int_equal(ration_units_print_count(value, text, sizeof(text)), RATION_OK);
        assert_int_equal(ration_units_parse_count(text, strlen(text), &back, &used, NULL), 0);
        assert_true(back == value && used == strlen(text));
    }
}

static void quotes_are_bounded_and_printable(void **state)
{
    (void)state;
    char quote[RATION_TEXT_QUOTE_SIZE];
    char bytes[RATION_TEXT_QUOTE_MAX + 1];
    memset(bytes, 0xFF, sizeof(bytes));
    assert_string_equal(ration_text_quote("a\tb\x7F", 4, quote), "a\\x09b\\x7F");
    assert_string_equal(ration_text_quote("", 0, quote), "");
    ration_text_quote(bytes, sizeof(bytes), quote);
    assert_int_equal(strlen(quote), RATION_TEXT_QUOTE_SIZE - 1);
    assert_string_equal(quote + sizeof(quote) - 8, "\\xFF...");
}

static void nearest_words(void **state)
{
    (void)state;
    static const char *const known[] = {"burst", "start", "sliding_window", "sliding_log",
                                        "a-word-of-more-than-thirty-two-letters"};
    static const struct {
        const char *word, *meant;
    } rows[] = {
        {"brust", "burst"},
        {"BURST", "burst"},
        {"burts", "burst"},
        {"bursts", "burst"},
        {"burs", "burst"},
        {"stat", "start"},
        {"sliding", "sliding_window"},
        {"sliding_log", "sliding_log"},
        {"slidng_lgo", "sliding_log"},
        {"bu", NULL},
        {"xyzzy", NULL},
        {"", NULL},
        {"sliding_window-more", NULL},
        {"a-word-of-more-than-thirty-two-letters", NULL},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const char *found = ration_text_nearest(rows[i].word, strlen(rows[i].word), known, 5);
        if (rows[i].meant)
            assert_string_equal(found, rows[i].meant);
        else
            assert_null(found);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts),
        cmocka_unit_test(counts_of_rates),
        cmocka_unit_test(durations),
        cmocka_unit_test(printed_durations),
        cmocka_unit_test(printed_counts),
        cmocka_unit_test(any_value_survives_its_text),
        cmocka_unit_test(quotes_are_bounded_and_printable),
        cmocka_unit_test(nearest_words),
    };
    return cmocka_run_group_tests_name("units", tests, guard_map, guard_unmap);
}
