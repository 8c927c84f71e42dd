/* R5: a limit is represented exactly, or refused with the reason and an alternative. */
#include "ration/limit.h"

#include <inttypes.h>
#include <string.h>

#include "base/random.h"
#include "base/time.h"
#include "core/change.h"
#include "support/unit.h"

#define S  RATION_NS_PER_SECOND
#define Y  RATION_NS_PER_YEAR
#define MY RATION_FILL_NS_MAX

__extension__ typedef unsigned __int128 uint128;

static void a_token_is_rounded_up_once(void **state)
{
    struct ration_limit limit;

    (void)state;
    assert_int_equal(ration_limit_per_second(3, &limit), RATION_OK);
    assert_int_equal(limit.rate.token.ns, 333333333);
    assert_int_equal(limit.rate.token.frac, 349526); /* a third of 2^20 is 349525.33 */
    assert_int_equal(limit.rate.capacity.ns, 1000000000);
    assert_int_equal(limit.rate.capacity.frac, 2);
    assert_int_equal(limit.burst, 3);
    assert_int_equal(limit.start_tokens, 3);

    assert_int_equal(ration_limit_per_minute(60, &limit), RATION_OK);
    assert_int_equal(limit.rate.token.ns, S);
    assert_int_equal(ration_limit_per_hour(1, &limit), RATION_OK);
    assert_int_equal(limit.rate.token.ns, RATION_NS_PER_HOUR);
    assert_int_equal(ration_limit_per(1, Y, &limit), RATION_OK);
    assert_int_equal(ration_limit_per(S, S, &limit), RATION_OK);
    assert_int_equal(limit.rate.token.ns, 1);
}

static uint128 units(struct ration_time t)
{
    return ((uint128)t.ns << RATION_FRAC_BITS) + t.frac;
}

/* What the proofs (core/gcra.h) take for granted of every rate that is made. */
static void assert_sound(const struct ration_rate *rate)
{
    uint128 span = (uint128)RATION_SPAN_NS << RATION_FRAC_BITS;

    assert_true(rate->token.frac < RATION_FRAC_COUNT && rate->capacity.frac < RATION_FRAC_COUNT);
    assert_true(rate->token.ns >= 1);
    assert_true(rate->burst >= 1 && rate->burst <= rate->span_tokens);
    assert_true(units(rate->capacity) == rate->burst * units(rate->token));
    assert_true(units(rate->capacity) <= (uint128)RATION_FILL_NS_MAX << RATION_FRAC_BITS);
    assert_true(rate->span_tokens * units(rate->token) <= span);
}

/* The rate kept is never above the one written, and below it by at most R5's tolerance. */
static void any_rate_is_kept_within_tolerance(void **state)
{
    uint64_t random = 7;
    int kept = 0;

    (void)state;
    for (int round = 0; round < 100000; round++) {
        uint64_t tokens =
            1 + (ration_random_next(&random) >> (4 + ration_random_next(&random) % 60));
        uint64_t period_ns =
            1 + (ration_random_next(&random) >> (5 + ration_random_next(&random) % 59));
        struct ration_limit_spec spec = {
            .tokens = tokens,
            .period_ns = period_ns,
            .burst =
                round % 2 ? 1 : ration_random_next(&random) >> (ration_random_next(&random) % 64),
        };
        struct ration_limit limit;

        if (ration_limit_make(&spec, &limit, NULL) != RATION_OK)
            continue;

        assert_sound(&limit.rate);

        uint128 token = units(limit.rate.token);
        uint128 exact = (uint128)period_ns << 20; /* of all tokens */
        uint128 over = token * tokens - exact;    /* what rounding added, of all */
        bool slow = period_ns / tokens >= 1000;   /* up to a million per second */

        assert_true(token * tokens >= exact);
        assert_true(over < tokens);
        assert_true(over <= exact / (slow ? 1000000000 : 1000000));
        kept++;
    }
    assert_true(kept > 10000);
}

struct refusal {
    struct ration_limit_spec spec;
    ration_status status;
    const char *message;
};

static const struct refusal refusals[] = {
    {{.tokens = 0, .period_ns = S}, RATION_EINVAL, "tokens must be at least 1"},
    {{.tokens = 1, .period_ns = 0}, RATION_EINVAL, "period must be at least 1ns"},
    {{.tokens = 1, .period_ns = S, .reserve_tokens = 1}, RATION_EINVAL, "both tokens and a period"},
    {{.tokens = 1, .period_ns = S, .reserve_period_ns = 1}, RATION_EINVAL, "both tokens and"},
    {{.tokens = 1, .period_ns = S, .reserve_burst = 1},
     RATION_EINVAL,
     "needs the reserve's tokens"},
    {{.tokens = 1, .period_ns = S, .algorithm = RATION_BURST_RESERVE},
     RATION_EINVAL,
     "needs the reserve's tokens and period"},
    {{.tokens = 1, .period_ns = S, .algorithm = 99}, RATION_EINVAL, "unknown algorithm 99"},
    {{.tokens = 1, .period_ns = S, .refill = 9}, RATION_EINVAL, "unknown refill mode 9"},
    {{.tokens = 1, .period_ns = S, .start = 9}, RATION_EINVAL, "unknown start 9"},
    {{.tokens = 1,
      .period_ns = S,
      .refill = RATION_REFILL_INTERVAL,
      .algorithm = RATION_LEAKY_QUEUE},
     RATION_EINVAL,
     "only with a token bucket"},
    {{.tokens = 9, .period_ns = S, .burst = 8, .algorithm = RATION_FIXED_WINDOW},
     RATION_EINVAL,
     "no burst of its own"},
    {{.tokens = 9,
      .period_ns = S,
      .algorithm = RATION_LEAKY_QUEUE,
      .reserve_tokens = 1,
      .reserve_period_ns = S},
     RATION_EINVAL,
     "only with a token bucket"},
    {{.tokens = 9, .period_ns = S, .reserve_tokens = 9, .reserve_period_ns = S},
     RATION_EINVAL,
     "more slowly"},
    {{.tokens = 9, .period_ns = S, .start_tokens = 1}, RATION_EINVAL, "RATION_START_TOKENS"},
    {{.tokens = 9, .period_ns = S, .start = RATION_START_TOKENS, .start_tokens = 10},
     RATION_EINVAL,
     "at most the burst of 9 (got 10)"},
    {{.tokens = 9,
      .period_ns = S,
      .burst = UINT64_MAX,
      .reserve_tokens = 1,
      .reserve_period_ns = S,
      .start = RATION_START_TOKENS,
      .start_tokens = 10},
     RATION_ERANGE,
     "over 16 years"},
    {{.tokens = 9, .period_ns = S, .name = "log in"}, RATION_EINVAL, "byte 3 of the name"},
    {{.tokens = 9,
      .period_ns = S,
      .name = "a234567890123456789012345678901234567890123456789012345678901234"},
     RATION_EINVAL,
     "longer than 63"},
    {{.tokens = 2, .period_ns = 1}, RATION_ERANGE, "valid limit: 1/ns"},
    {{.tokens = 2000000000, .period_ns = S, .burst = 10},
     RATION_ERANGE,
     "valid limit: 1000000000/s burst 10"},
    {{.tokens = 1, .period_ns = Y, .burst = 20}, RATION_ERANGE, "1/y burst 16, or 1/292d burst 20"},
    {{.tokens = 1, .period_ns = 20 * Y}, RATION_ERANGE, "valid limit: 1/16y"},
    {{.tokens = UINT64_MAX, .period_ns = UINT64_MAX}, RATION_ERANGE, "valid limit: "},
    {{.tokens = 2, .period_ns = 1, .start = RATION_START_TOKENS, .start_tokens = 2},
     RATION_ERANGE,
     "valid limit: 1/ns"},
    {{.tokens = 10, .period_ns = 20 * Y, .algorithm = RATION_FIXED_WINDOW},
     RATION_ERANGE,
     "a window of 20y is longer than 16 years"},
    {{.tokens = 1, .period_ns = S, .burst = UINT64_MAX},
     RATION_ERANGE,
     "valid limit: 1/s burst 504576000"},
    {{.tokens = UINT64_MAX, .period_ns = 1, .burst = UINT64_MAX}, RATION_ERANGE, "valid limit: "},
    {{.tokens = 3, .period_ns = Y, .burst = 20, .refill = RATION_REFILL_INTERVAL}, RATION_OK, ""},
    {{.tokens = 3, .period_ns = Y, .burst = 49, .refill = RATION_REFILL_INTERVAL},
     RATION_ERANGE,
     "3/y burst 48 refill interval, or 3/29680941176470588ns burst 49 refill interval"},
    {{.tokens = 5, .period_ns = 17 * Y, .algorithm = RATION_FIXED_WINDOW},
     RATION_ERANGE,
     "valid limit: 5/16y fixed_window"},
    {{.tokens = UINT64_C(1) << 32, .period_ns = Y, .algorithm = RATION_SLIDING_WINDOW},
     RATION_ERANGE,
     "counts up to 4294967295 tokens"},
    {{.tokens = UINT64_C(1) << 32, .period_ns = Y, .algorithm = RATION_SLIDING_LOG},
     RATION_ERANGE,
     "valid limit: 4294967295/y sliding_log"},
    {{.tokens = 10,
      .period_ns = S,
      .reserve_tokens = 1,
      .reserve_period_ns = Y,
      .reserve_burst = 20},
     RATION_ERANGE,
     "10/s reserve 1/y burst 16, or 10/s reserve 1/292d burst 20"},
};

static void a_refusal_says_why_and_leaves_the_output(void **state)
{
    (void)state;
    for (size_t index = 0; index < sizeof(refusals) / sizeof(refusals[0]); index++) {
        const struct refusal *row = &refusals[index];
        struct ration_limit limit;
        struct ration_limit before;
        struct ration_error error = {.message = ""};

        memset(&limit, 0xA5, sizeof(limit));
        memcpy(&before, &limit, sizeof(limit));
        if (ration_limit_make(&row->spec, &limit, &error) != row->status)
            fail_msg("row %zu: %s", index, error.message);
        if (strstr(error.message, row->message) == NULL)
            fail_msg("row %zu: '%s' does not say '%s'", index, error.message, row->message);
        assert_int_equal(ration_limit_make(&row->spec, &limit, NULL), row->status);
        if (row->status != RATION_OK) {
            assert_memory_equal(&limit, &before, sizeof(limit));
            assert_int_equal(error.status, row->status);
        }
    }
}

/* Whatever is refused as out of range has a neighbour that is not, and only then. */
static void what_is_named_as_nearest_can_be_made(void **state)
{
    uint64_t random = 8;
    int refused = 0;

    (void)state;
    for (int round = 0; round < 200000; round++) {
        struct ration_limit_spec spec = {
            .tokens = ration_random_next(&random) >> (ration_random_next(&random) % 64),
            .period_ns = ration_random_next(&random) >> (ration_random_next(&random) % 64),
            .algorithm = (enum ration_algorithm)(ration_random_next(&random) % 7),
        };
        struct ration_limit limit;

        if (spec.algorithm <= RATION_LEAKY_QUEUE && round % 2)
            spec.burst = ration_random_next(&random) >> (ration_random_next(&random) % 64);
        if (spec.algorithm == RATION_TOKEN_BUCKET && round % 3 == 0)
            spec.refill = RATION_REFILL_INTERVAL;
        if (spec.algorithm == RATION_BURST_RESERVE) {
            spec.reserve_tokens =
                1 + (ration_random_next(&random) >> (ration_random_next(&random) % 64));
            spec.reserve_period_ns =
                1 + (ration_random_next(&random) >> (ration_random_next(&random) % 64));
        }

        ration_status status = ration_limit_make(&spec, &limit, NULL);
        struct ration_limit_nearest nearest = ration_limit_find_nearest(&spec);

        if (status != RATION_ERANGE) {
            assert_int_equal(nearest.count, 0);
            continue;
        }
        refused++;
        /* A reserve may have to be slower than a bucket that is the slowest there is. */
        if (spec.algorithm != RATION_BURST_RESERVE && nearest.count == 0)
            fail_msg("no limit near %" PRIu64 " per %" PRIu64 "ns burst %" PRIu64
                     " of algorithm %d, refill %d",
                     spec.tokens, spec.period_ns, spec.burst, spec.algorithm, spec.refill);
        assert_true(nearest.count <= 2);
        for (size_t index = 0; index < nearest.count; index++)
            assert_int_equal(ration_limit_make(&nearest.limits[index], &limit, NULL), RATION_OK);
    }
    assert_true(refused > 10000);
}

static void defaults_and_names_are_filled_in(void **state)
{
    struct ration_limit limit;
    struct ration_limit_spec spec = {.tokens = 10, .period_ns = S, .name = "api:login/v1_a-b.c"};

    (void)state;
    assert_int_equal(ration_limit_make(&spec, &limit, NULL), RATION_OK);
    assert_string_equal(limit.name, spec.name);
    assert_int_equal(limit.algorithm, RATION_TOKEN_BUCKET);
    spec.start = RATION_START_TOKENS;
    spec.start_tokens = 10;
    assert_int_equal(ration_limit_make(&spec, &limit, NULL), RATION_OK);
    assert_int_equal(limit.start, RATION_START_FULL);
    spec.start_tokens = 0;
    assert_int_equal(ration_limit_make(&spec, &limit, NULL), RATION_OK);
    assert_int_equal(limit.start, RATION_START_EMPTY);
    spec.start = RATION_START_EMPTY;
    spec.reserve_tokens = 1;
    spec.reserve_period_ns = S;
    assert_int_equal(ration_limit_make(&spec, &limit, NULL), RATION_OK);
    assert_int_equal(limit.algorithm, RATION_BURST_RESERVE);
    assert_int_equal(limit.reserve_burst, 1);
    assert_int_equal(limit.start_tokens, 0);
}

static void a_name_has_letters_digits_and_five_signs(void **state)
{
    (void)state;
    for (int byte = 1; byte < 256; byte++) {
        char name[2] = {(char)byte, 0};
        struct ration_limit_spec spec = {.tokens = 1, .period_ns = S, .name = name};
        struct ration_limit limit;
        bool good = strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.:/",
                           byte) != NULL;

        assert_int_equal(ration_limit_make(&spec, &limit, NULL), good ? RATION_OK : RATION_EINVAL);
    }
}

static void every_status_and_verdict_has_a_name(void **state)
{
    (void)state;
    assert_string_equal(ration_status_name(RATION_EINVAL), "RATION_EINVAL");
    assert_string_equal(ration_status_text(RATION_OK), "ok");
    assert_string_equal(ration_status_name((ration_status)99), "RATION_UNKNOWN");
    assert_string_equal(ration_status_text((ration_status)99), "unknown status");
}

/* The name and what a bucket starts with are no change: buckets mean the same. */
static void limits_differ_by_what_buckets_mean(void **state)
{
    static const char *const texts[] = {
        "5/s",
        "6/s burst 5",
        "5/min",
        "5/s burst 6",
        "5/s refill interval",
        "5/s fixed_window",
        "5/s reserve 1/s burst 9",
        "5/s reserve 2/s burst 9",
        "5/s reserve 1/min burst 9",
        "5/s reserve 1/s burst 8",
    };
    struct ration_limit a, b;

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        for (size_t k = 0; k < sizeof(texts) / sizeof(texts[0]); k++) {
            assert_int_equal(ration_limit_parse(texts[i], &a, NULL), RATION_OK);
            assert_int_equal(ration_limit_parse(texts[k], &b, NULL), RATION_OK);
            assert_int_equal(ration_change_is_none(&a, &b), i == k);
        }
    assert_int_equal(ration_limit_parse("5/s start empty name x", &b, NULL), RATION_OK);
    assert_int_equal(ration_limit_parse("5/s", &a, NULL), RATION_OK);
    assert_true(ration_change_is_none(&a, &b));
}

/* It printed "(null)", or read beyond a table of words. */
static void a_limit_that_was_never_made_is_not_printed(void **state)
{
    struct ration_limit limits[6] = {0};
    char text[RATION_LIMIT_TEXT_SIZE] = "untouched";

    (void)state;
    for (int i = 1; i < 6; i++)
        assert_int_equal(ration_limit_per_second(5, &limits[i]), RATION_OK);
    limits[1].algorithm = (enum ration_algorithm)(RATION_SLIDING_LOG + 1);
    limits[2].refill = (enum ration_refill)2;
    limits[3].start = (enum ration_start)3;
    limits[4].tokens = 0;
    for (int i = 0; i < 5; i++)
        assert_int_equal(ration_limit_print(&limits[i], text, sizeof(text)), RATION_EINVAL);
    assert_string_equal(text, "untouched");
    assert_int_equal(ration_limit_print(&limits[5], text, sizeof(text)), RATION_OK);
}

static void the_time_to_fill_is_that_of_the_whole_bucket(void **state)
{
    static const struct {
        const char *text;
        uint64_t fill_ns;
    } rows[] = {
        {"10/min", 60 * S},
        {"3/s", S + 1}, /* a token is rounded up */
        {"1/s burst 30", 30 * S},
        {"1/s burst 30 leaky_queue", 30 * S},
        {"10/min refill interval", 60 * S},
        {"10/min burst 11 refill interval", 120 * S},
        {"10/min fixed_window", 60 * S},
        {"10/min sliding_log", 60 * S},
        {"10/min sliding_window", 120 * S},
        {"1/s burst 5 reserve 1/min burst 2", 120 * S},
        {"1/s burst 500 reserve 1 per 2s burst 2", 500 * S},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct ration_limit limit;

        assert_int_equal(ration_limit_parse(rows[i].text, &limit, NULL), RATION_OK);
        assert_int_equal(ration_limit_fill_ns(&limit), rows[i].fill_ns);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_limit_that_was_never_made_is_not_printed),
        cmocka_unit_test(a_token_is_rounded_up_once),
        cmocka_unit_test(any_rate_is_kept_within_tolerance),
        cmocka_unit_test(a_refusal_says_why_and_leaves_the_output),
        cmocka_unit_test(what_is_named_as_nearest_can_be_made),
        cmocka_unit_test(the_time_to_fill_is_that_of_the_whole_bucket),
        cmocka_unit_test(defaults_and_names_are_filled_in),
        cmocka_unit_test(a_name_has_letters_digits_and_five_signs),
        cmocka_unit_test(every_status_and_verdict_has_a_name),
        cmocka_unit_test(limits_differ_by_what_buckets_mean),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
