/*
 * Distributions of keys against their exact shares, by chi-square: the sum over keys of
 * (drawn - expected)^2 / expected, which for n keys is n - 1 on average with a deviation of
 * sqrt(2 (n - 1)). Five deviations above is a defect, not luck; seeds are fixed, so it repeats.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "load/keys.h"
#include "support/unit.h"

#define SAMPLE_COUNT 200000
#define KEYS_MAX     1000

static struct load_keys parsed(const char *text)
{
    struct load_keys keys;
    struct load_error error;

    assert_true(load_keys_parse(text, &keys, &error));
    return keys;
}

static double share(const struct load_keys *keys, uint64_t index)
{
    return keys->kind == LOAD_KEYS_ZIPF ? pow((double)(index + 1), -keys->exponent) : 1;
}

static double chi_square(const struct load_keys *keys, uint64_t seed)
{
    static uint64_t drawn[KEYS_MAX];
    double whole = 0;
    double sum = 0;

    memset(drawn, 0, sizeof(drawn));
    for (uint64_t i = 0; i < keys->count; i++)
        whole += share(keys, i);
    for (int i = 0; i < SAMPLE_COUNT; i++) {
        uint64_t index = load_keys_draw(keys, &seed);

        assert_true(index < keys->count);
        drawn[index]++;
    }
    for (uint64_t i = 0; i < keys->count; i++) {
        double expected = SAMPLE_COUNT * share(keys, i) / whole;

        sum += ((double)drawn[i] - expected) * ((double)drawn[i] - expected) / expected;
    }
    return sum;
}

static void keys_have_their_shares(void **state)
{
    static const char *const texts[] = {"uniform:2",    "uniform:64",      "uniform:1000",
                                        "zipf:2",       "zipf:50",         "zipf:1k",
                                        "zipf:100:0.5", "zipf:100:1",      "zipf:30:1.5",
                                        "zipf:10:2.5",  "zipf:20:1.00001", "zipf:1000:0.2"};

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct load_keys keys = parsed(texts[i]);
        double freedom = (double)keys.count - 1;

        for (uint64_t seed = 1; seed <= 3; seed++) {
            double found = chi_square(&keys, seed);

            if (found > freedom + 5 * sqrt(2 * freedom) + 5)
                fail_msg("%s, seed %d: chi-square %.1f of %.0f", texts[i], (int)seed, found,
                         freedom);
        }
    }
}

/* The check itself must see a distribution that is slightly another. */
static void chi_square_finds_a_wrong_exponent(void **state)
{
    struct load_keys keys = parsed("zipf:50:0.99");

    (void)state;
    keys.exponent = 0.95; /* constants made for 0.99, shares expected for 0.95 */
    assert_true(chi_square(&keys, 1) > 49 + 5 * sqrt(98));
}

/* As the header says: 6.5 % go to the first of a million, half to the first thousand. */
static void a_million_keys_are_as_skewed_as_said(void **state)
{
    struct load_keys keys = parsed("zipf:1M");
    uint64_t seed = 7;
    int first_count = 0;
    int thousand_count = 0;

    (void)state;
    for (int i = 0; i < SAMPLE_COUNT; i++) {
        uint64_t index = load_keys_draw(&keys, &seed);

        first_count += index == 0;
        thousand_count += index < 1000;
    }
    assert_true(fabs(first_count / (double)SAMPLE_COUNT - 0.065) < 0.003);
    assert_true(fabs(thousand_count / (double)SAMPLE_COUNT - 0.5) < 0.01);
}

static void a_seed_repeats_and_another_does_not(void **state)
{
    struct load_keys keys = parsed("uniform:1000000000000");
    uint64_t seed = 1;
    uint64_t same_seed = 1;
    uint64_t other_seed = 2;
    int equal_count = 0;

    (void)state;
    for (int i = 0; i < 1000; i++) {
        uint64_t index = load_keys_draw(&keys, &seed);

        assert_int_equal(index, load_keys_draw(&keys, &same_seed));
        equal_count += index == load_keys_draw(&keys, &other_seed);
    }
    assert_int_equal(equal_count, 0);
}

static void one_is_one(void **state)
{
    struct load_keys keys = parsed("one");
    uint64_t seed = 1;

    (void)state;
    for (int i = 0; i < 10; i++)
        assert_int_equal(load_keys_draw(&keys, &seed), 0);
}

static void wrong_texts_are_refused(void **state)
{
    static const char *const texts[] = {
        "",           "two",        "uniform",       "uniform:",      "uniform:0",
        "uniform:1x", "uniform:-1", "uniform:1001G", "uniform:10:2",  "zipf:",
        "zipf:0",     "zipf:10:",   "zipf:10:0",     "zipf:10:-1",    "zipf:10:11",
        "zipf:10:1x", "zipf:5G",    "zipf:10:nan",   "zipf:10:0.9:1",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct load_keys keys = {.count = 77};
        struct load_error error = {""};

        if (load_keys_parse(texts[i], &keys, &error))
            fail_msg("'%s' was taken", texts[i]);
        assert_int_equal(keys.count, 77);
        assert_true(error.message[0] != '\0');
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_have_their_shares),
        cmocka_unit_test(chi_square_finds_a_wrong_exponent),
        cmocka_unit_test(a_million_keys_are_as_skewed_as_said),
        cmocka_unit_test(a_seed_repeats_and_another_does_not),
        cmocka_unit_test(one_is_one),
        cmocka_unit_test(wrong_texts_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
