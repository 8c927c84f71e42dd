/* R5: sums, products and quotients of 128 bits, against the compiler's and by long division. */
#include "base/wide.h"

#include <stdio.h>

#include "base/random.h"
#include "support/unit.h"

__extension__ typedef unsigned __int128 uint128;

#define ROUNDS 200000

static uint128 join(struct ration_wide w)
{
    return (uint128)w.high << 64 | w.low;
}

static struct ration_wide split(uint128 value)
{
    return (struct ration_wide){(uint64_t)(value >> 64), (uint64_t)value};
}

/* Numbers of every size, and the ones around a power of two where carries happen. */
static uint64_t any(uint64_t *random)
{
    uint64_t value = ration_random_next(random) >> (ration_random_next(random) % 64);

    switch (ration_random_next(random) % 8) {
    case 0:
        return UINT64_MAX - value % 3;
    case 1:
        return (UINT64_C(1) << (value % 64)) - value % 2;
    case 2:
        return value % 3;
    default:
        return value;
    }
}

/* One bit at a time, as on paper. */
static uint128 long_division(uint128 a, uint128 b)
{
    uint128 quotient = 0;
    uint128 rest = 0;

    for (int bit = 127; bit >= 0; bit--) {
        int top = (int)(rest >> 127);

        rest = rest << 1 | (a >> bit & 1);
        quotient <<= 1;
        if (top || rest >= b) {
            rest -= b;
            quotient |= 1;
        }
    }
    return quotient;
}

static void products_and_sums_are_exact(void **state)
{
    uint64_t random = 1;

    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t a = any(&random);
        uint64_t b = any(&random);
        struct ration_wide x = {any(&random) >> 1, any(&random)};
        struct ration_wide y = {any(&random) >> 1, any(&random)};

        assert_true(join(ration_wide_multiply(a, b)) == (uint128)a * b);
        assert_true(join(ration_wide_add(x, y)) == join(x) + join(y));
        assert_int_equal(ration_wide_less(x, y), join(x) < join(y));
    }
}

static void quotients_are_those_of_long_division(void **state)
{
    uint64_t random = 2;

    (void)state;
    for (int round = 0; round < ROUNDS / 10; round++) {
        struct ration_wide a = {any(&random), any(&random)};
        struct ration_wide b = {any(&random) % 4 ? 0 : any(&random), any(&random) | 1};
        uint128 down = long_division(join(a), join(b));
        uint128 up = down + (down * join(b) != join(a));

        assert_true(ration_wide_divide(a, b) == (down > UINT64_MAX ? UINT64_MAX : down));
        assert_true(ration_wide_divide_up(a, b) == (up > UINT64_MAX ? UINT64_MAX : up));
    }
}

/* a * b / c with a < c: the quotient q is right if 0 <= a*b - q*c < c, in 64-bit factors. */
static void scaled_fractions_are_exact(void **state)
{
    uint64_t random = 3;

    (void)state;
    for (int round = 0; round < ROUNDS / 20; round++) {
        uint64_t c = any(&random) | 1;
        uint64_t a = any(&random) % c;
        uint64_t b = any(&random);
        struct ration_wide got = ration_wide_multiply_divide(
            (struct ration_wide){0, a}, (struct ration_wide){0, b}, (struct ration_wide){0, c});

        assert_true(join(got) == (uint128)a * b / c);

        /* The same fraction in numbers 62 bits larger has the same quotient. */
        struct ration_wide large_a = split((uint128)a << 62);
        struct ration_wide large_c = split((uint128)c << 62);

        assert_true(join(ration_wide_multiply_divide(large_a, (struct ration_wide){0, b},
                                                     large_c)) == join(got));
    }
}

static void times_and_integers_are_the_same_number(void **state)
{
    uint64_t random = 4;

    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        struct ration_time t = {any(&random), any(&random) % RATION_FRAC_COUNT};
        struct ration_wide units = ration_wide_from_time(t);
        struct ration_time back = ration_wide_to_time(units);

        assert_true(join(units) == ((uint128)t.ns << RATION_FRAC_BITS) + t.frac);
        assert_true(back.ns == t.ns && back.frac == t.frac);
    }
}

static void scaled_times_are_exact_up_to_the_span(void **state)
{
    uint64_t random = 5;
    uint128 span = (uint128)RATION_SPAN_NS << RATION_FRAC_BITS;

    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        struct ration_time token = {any(&random) % RATION_SPAN_NS,
                                    any(&random) % RATION_FRAC_COUNT};
        uint128 units = join(ration_wide_from_time(token));
        uint64_t most = units == 0 ? 0 : (uint64_t)(span / units);
        uint64_t count =
            token.ns == 0 || round % 3 == 0 ? most % RATION_SPAN_NS : any(&random) % (most + 1);

        assert_true(join(ration_wide_from_time(ration_time_scale(token, count))) == units * count);
    }
}

static void random_numbers_stay_in_range_and_reach_its_ends(void **state)
{
    uint64_t random = 6;
    int seen[4] = {0};

    (void)state;
    for (int round = 0; round < 1000; round++)
        seen[ration_random_up_to(&random, 3)]++;
    for (int value = 0; value < 4; value++)
        assert_in_range(seen[value], 150, 350);
    assert_int_equal(ration_random_up_to(&random, 0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_and_sums_are_exact),
        cmocka_unit_test(quotients_are_those_of_long_division),
        cmocka_unit_test(scaled_fractions_are_exact),
        cmocka_unit_test(times_and_integers_are_the_same_number),
        cmocka_unit_test(scaled_times_are_exact_up_to_the_span),
        cmocka_unit_test(random_numbers_stay_in_range_and_reach_its_ends),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
