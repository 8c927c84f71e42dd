/* Top keys at their edges: names, short lists, busy shards, sums that do not fit. */
#include "stats/top_keys.h"

#include <string.h>

#include "support/stats_keys.h"
#include "support/unit.h"

static void names_are_truncated_to_the_room(void **state)
{
    static struct stats_list list;
    unsigned char name[200];
    const size_t sizes[] = {200, 65, 64, 63, 1, 0};
    struct ration_top_keys *top = stats_top_make(2, 1);

    (void)state;
    for (size_t i = 0; i < sizeof(name); i++)
        name[i] = (unsigned char)(i * 7); /* zeros and high bytes too */
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        struct ration_top_key_ref key = {
            {i, i}, sizes[i] > 0 ? name : NULL, sizes[i]}; /* takes the place of a longer one */
        unsigned char expected[RATION_TOP_KEY_NAME_MAX] = {0};

        ration_top_keys_add(top, &key, UINT64_C(100) << (2 * i));
        stats_top_read(top, 2, &list);
        memcpy(expected, name, sizes[i] < sizeof(expected) ? sizes[i] : sizeof(expected));
        assert_int_equal(list.keys[0].hash[0], i);
        assert_int_equal(list.keys[0].name_size, sizes[i]);
        assert_memory_equal(list.keys[0].name, expected, sizeof(expected));
    }
    free(top);
}

static void a_short_list_reports_what_it_left_out(void **state)
{
    static struct stats_list list;
    struct stats_exact exact = {.total = 0};
    struct ration_top_keys *top = stats_top_make(8, 2);

    (void)state;
    for (uint64_t number = 0; number < 8; number++)
        stats_top_add(top, &exact, (uint32_t)number, number, 10 + number);
    stats_top_read(top, 3, &list);
    assert_int_equal(list.key_count, 3);
    assert_int_equal(list.keys[0].hash[1], 7);
    assert_int_equal(list.keys[2].hash[1], 5);
    assert_int_equal(list.stats.unlisted_max, 14);
    stats_top_read(top, 0, &list);
    assert_int_equal(list.key_count, 0);
    assert_int_equal(list.stats.unlisted_max, 17);
    assert_int_equal(list.stats.total, exact.total);
    stats_top_read(top, 8, &list);
    assert_int_equal(list.key_count, 8);
    assert_int_equal(list.stats.unlisted_max, 0);
    free(top);
}

static void sums_stop_at_the_maximum(void **state)
{
    static struct stats_list list;
    struct stats_exact exact = {.total = 0};
    struct ration_top_keys *top = stats_top_make(2, 1);

    (void)state;
    for (uint64_t number = 0; number < 5; number++)
        for (unsigned i = 0; i < 3; i++)
            stats_top_add(top, &exact, 0, number, UINT64_MAX - 1);
    stats_top_read(top, 2, &list);
    assert_int_equal(list.stats.total, UINT64_MAX);
    assert_int_equal(list.keys[0].count, UINT64_MAX);
    assert_int_equal(list.key_count, 2);
    free(top);
}

/* Busy shards --------------------------------------------------------------------------- */

static void r3_busy_shards_are_skipped_and_reported_as_lost(void **state)
{
    static struct stats_list list;
    struct stats_exact exact = {.total = 0};
    struct ration_top_keys *top = stats_top_make(8, 4);

    (void)state;
    for (uint32_t thread = 0; thread < 4; thread++)
        stats_top_add(top, &exact, thread, thread, 10);

    /* as if killed inside */
    assert_true(ration_top_keys_enter(ration_top_keys_shard(top, 1)));
    stats_top_add(top, &exact, 1, 1, 5);
    stats_top_read(top, 8, &list);
    assert_int_equal(list.stats.total, 35);
    assert_int_equal(list.stats.lost, 10);
    assert_int_equal(stats_top_errors(&exact, top), 0);

    for (uint32_t i = 0; i < 4; i++)
        ration_top_keys_enter(ration_top_keys_shard(top, i));
    stats_top_add(top, &exact, 1, 1, 3);
    stats_top_read(top, 8, &list);
    assert_int_equal(list.key_count, 0);
    assert_int_equal(list.stats.total, 0);
    assert_int_equal(list.stats.lost, 48);
    assert_int_equal(stats_top_errors(&exact, top), 0);
    free(top);
}

static void lost_stops_at_the_maximum(void **state)
{
    static struct stats_list list;
    struct stats_exact exact = {.total = 0};
    struct ration_top_keys *top = stats_top_make(8, 1);

    (void)state;
    assert_true(ration_top_keys_enter(ration_top_keys_shard(top, 0)));
    for (unsigned i = 0; i < 3; i++)
        stats_top_add(top, &exact, 0, 0, UINT64_MAX / 2);
    stats_top_read(top, 8, &list);
    assert_int_equal(list.stats.lost, UINT64_MAX);
    free(top);
}

static void a_block_may_be_copied(void **state)
{
    struct stats_exact exact = {.total = 0};
    struct ration_top_keys *top = stats_top_make(4, 2);
    size_t size = ration_top_keys_size(top->shape);
    struct ration_top_keys *copy = stats_block(size);

    (void)state;
    for (uint32_t i = 0; i < 30; i++)
        stats_top_add(top, &exact, i, i % 7, 1);
    memcpy(copy, top, size);
    memset(top, 0xff, size);
    free(top);
    for (uint32_t i = 0; i < 30; i++)
        stats_top_add(copy, &exact, i, i % 9, 1);
    assert_int_equal(stats_top_errors(&exact, copy), 0);
    free(copy);
}

static void what_is_out_of_bounds_is_refused(void **state)
{
    const struct ration_top_keys_shape bad[] = {
        {0, 1}, {RATION_SPACE_SAVING_KEYS_MAX + 1, 1}, {1, 0}, {1, 3}, {1, 128}};
    struct ration_top_keys_shape good = ration_top_keys_shape_default();
    size_t size = ration_top_keys_size(good);
    unsigned char *block = stats_block(size);
    struct ration_top_keys *top = NULL;

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(ration_top_keys_size(bad[i]), 0);
        assert_int_equal(ration_top_keys_init(block, size, bad[i], &top), RATION_EINVAL);
    }
    assert_int_equal(ration_top_keys_init(block + 64, size, good, &top), RATION_EINVAL);
    assert_int_equal(ration_top_keys_init(block, size - 1, good, &top), RATION_ENOSPC);
    assert_null(top);
    free(block);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_truncated_to_the_room),
        cmocka_unit_test(a_short_list_reports_what_it_left_out),
        cmocka_unit_test(sums_stop_at_the_maximum),
        cmocka_unit_test(r3_busy_shards_are_skipped_and_reported_as_lost),
        cmocka_unit_test(lost_stops_at_the_maximum),
        cmocka_unit_test(a_block_may_be_copied),
        cmocka_unit_test(what_is_out_of_bounds_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
