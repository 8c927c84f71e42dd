/* Top keys against an exact count: the reported counts are correct, whatever the traffic. */
#include "stats/top_keys.h"

#include <stdio.h>
#include <string.h>

#include "support/stats_keys.h"
#include "support/unit.h"

#ifdef RATION_TESTS_SHORT
#define SAMPLE_COUNT 20000u
#else
#define SAMPLE_COUNT 400000u
#endif

static void counts_of_zipf_traffic_are_correct(void **state)
{
    static struct stats_zipf zipf;
    const struct ration_top_keys_shape shapes[] = {{1, 1}, {16, 1}, {128, 1}, {128, 4}, {10, 8}};

    (void)state;
    stats_zipf_init(&zipf);
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        static struct stats_exact exact;
        struct ration_top_keys *top = stats_top_make(shapes[i].key_max, shapes[i].shard_count);
        uint64_t random = i;

        memset(&exact, 0, sizeof(exact));
        for (uint32_t sample = 0; sample < SAMPLE_COUNT; sample++)
            stats_top_add(top, &exact, (uint32_t)ration_random_up_to(&random, 7),
                          stats_zipf_next(&zipf, &random), 1);
        assert_int_equal(stats_top_errors(&exact, top), 0);
        free(top);
    }
}

/* Small enough to check each step: keys reappear after they were dropped. */
static void every_step_with_few_keys_is_correct(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 200; seed++) {
        struct stats_exact exact = {.total = 0};
        struct ration_top_keys *top = stats_top_make(1 + (uint32_t)seed % 5, seed % 2 ? 1 : 2);
        uint64_t random = seed;

        for (unsigned step = 0; step < 60; step++) {
            uint64_t weight = ration_random_up_to(&random, seed % 3 == 0 ? 0 : 4) + 1;

            stats_top_add(top, &exact, (uint32_t)ration_random_up_to(&random, 1),
                          ration_random_up_to(&random, 9), weight);
            assert_int_equal(stats_top_errors(&exact, top), 0);
        }
        free(top);
    }
}

static void weights_of_any_size_are_correct(void **state)
{
    struct stats_exact exact = {.total = 0};
    struct ration_top_keys *top = stats_top_make(32, 2);
    uint64_t random = 7;

    (void)state;
    for (uint32_t sample = 0; sample < SAMPLE_COUNT / 10; sample++) {
        uint64_t size = 20 + ration_random_up_to(&random, 43);

        stats_top_add(top, &exact, sample, ration_random_up_to(&random, 300),
                      ration_random_next(&random) >> size);
    }
    assert_int_equal(stats_top_errors(&exact, top), 0);
    free(top);
}

/* The control --------------------------------------------------------------------------- */

/* Space-Saving in its simplest form, with the mistake that the check must find. */
struct plain {
    struct ration_top_key keys[16];
    uint32_t key_count;
    bool forgets_error;
};

static void plain_add(struct plain *plain, uint64_t number)
{
    struct ration_top_key *lowest = &plain->keys[0];

    for (uint32_t i = 0; i < plain->key_count; i++) {
        if (plain->keys[i].hash[1] == number) {
            plain->keys[i].count++;
            return;
        }
        if (plain->keys[i].count < lowest->count)
            lowest = &plain->keys[i];
    }
    if (plain->key_count < 16) {
        lowest = &plain->keys[plain->key_count++];
        lowest->count = 0;
    }
    *lowest = (struct ration_top_key){
        .count = lowest->count + 1,
        .error = plain->forgets_error ? 0 : lowest->count,
        .hash = {0, number},
    };
}

static struct stats_errors judge_plain(bool forgets_error)
{
    static struct stats_zipf zipf;
    static struct stats_exact exact;
    struct plain plain = {.key_count = 0, .forgets_error = forgets_error};
    struct ration_top_keys_stats stats = {.total = SAMPLE_COUNT, .unlisted_max = UINT64_MAX};
    uint64_t random = 1;

    memset(&exact, 0, sizeof(exact));
    stats_zipf_init(&zipf);
    for (exact.total = 0; exact.total < SAMPLE_COUNT; exact.total++) {
        uint32_t number = stats_zipf_next(&zipf, &random);

        exact.counts[number]++;
        plain_add(&plain, number);
    }

    struct stats_errors errors = stats_judge(&exact, 16, plain.keys, plain.key_count, &stats);

    errors.order = 0; /* it does not sort */
    return errors;
}

static void a_missing_error_bound_is_caught(void **state)
{
    (void)state;
    assert_int_equal(stats_errors_count(judge_plain(false)), 0);
    assert_true(judge_plain(true).below > 5);
}

/* Hostile keys -------------------------------------------------------------------------- */

/* One key in fifty is the same, all others are new. */
static void r10_fresh_keys_hide_no_heavy_one_and_take_no_memory(void **state)
{
    static struct stats_list list;
    struct stats_exact exact = {.total = 0};
    struct ration_top_keys_shape shape = {RATION_TOP_KEYS_COUNT_DEFAULT, 2};
    size_t size = ration_top_keys_size(shape);
    unsigned char *block = stats_block(size + 64);
    struct ration_top_keys *top = NULL;
    uint64_t last_error = 0;

    (void)state;
    memset(block, 0xaa, size + 64);
    assert_int_equal(ration_top_keys_init(block, size, shape, &top), RATION_OK);
    for (unsigned part = 0; part < 4; part++) {
        for (uint32_t i = 0; i < SAMPLE_COUNT; i++) {
            uint64_t fresh = STATS_KEYS_COUNT + UINT64_C(1) * part * SAMPLE_COUNT + i;

            stats_top_add(top, &exact, i, i % 50 == 0 ? 7 : fresh, 1);
        }
        stats_top_read(top, shape.key_max, &list);
        assert_int_equal(list.keys[0].hash[1], 7);
        assert_memory_equal(list.keys[0].name, "key-7", 6);
        assert_int_equal(stats_top_errors(&exact, top), 0);
        /* the error bound of the others grows, and is reported */
        assert_true(list.keys[1].error > last_error);
        assert_true(list.stats.unlisted_max >= last_error);
        last_error = list.keys[1].error;
    }
    for (size_t i = size; i < size + 64; i++)
        assert_int_equal(block[i], 0xaa);
    free(block);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_of_zipf_traffic_are_correct),
        cmocka_unit_test(every_step_with_few_keys_is_correct),
        cmocka_unit_test(weights_of_any_size_are_correct),
        cmocka_unit_test(a_missing_error_bound_is_caught),
        cmocka_unit_test(r10_fresh_keys_hide_no_heavy_one_and_take_no_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
