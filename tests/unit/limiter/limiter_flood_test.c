/*
 * R10: a flood of new keys frees no blocked key and takes no memory, and keys chosen to collide under a public hash do not
 * collide here.
 */
#include <unistd.h>

#include "base/hash.h"
#include "table/location.h"
#include "unit/limiter/limiter_kit.h"

#define FLOOD_COUNT (UINT64_C(10000000) / KIT_SHARE)

/* Pages of this process that are in memory. */
static long resident_pages(void)
{
    FILE *file = fopen("/proc/self/statm", "r");
    long size_pages, pages = 0;

    assert_non_null(file);
    assert_int_equal(fscanf(file, "%ld %ld", &size_pages, &pages), 2);
    fclose(file);
    return pages;
}

struct flood {
    struct kit kit;
    uint64_t free_at_ns; /* the victim's reported moment */
};

/* The victim is denied, and the reported moment has not changed. */
static void check_victim(struct flood *flood)
{
    uint64_t left_ns = flood->free_at_ns - flood->kit.manual.ns;

    assert_answer(kit_take(&flood->kit, "victim", 1), RATION_DENY, 0, left_ns);
}

static void flood_with(struct flood *flood, uint64_t first, uint64_t count)
{
    struct kit_room room;

    for (uint64_t i = first; i < first + count; i++) {
        struct ration_key key = kit_numbered(&room, i);

        ration_limiter_allow_at(flood->kit.limiter, &key, 1, flood->kit.manual.ns);
        kit_pass(&flood->kit, 100);
        if (i % 10000 == 0)
            check_victim(flood);
    }
}

static void run_flood(enum ration_overflow overflow, size_t rule_count, uint64_t count)
{
    struct flood flood;
    struct ration_limiter_stats stats;
    long pages;

    KIT_PLAN(&flood.kit, "1/h burst 2", "1/h burst 3");
    flood.kit.options.rule_count = rule_count;
    flood.kit.options.overflow = overflow;
    kit_open(&flood.kit);
    kit_take(&flood.kit, "victim", 2);
    flood.free_at_ns = flood.kit.manual.ns + RATION_NS_PER_HOUR;

    flood_with(&flood, 0, 20000 / KIT_SHARE + 5000); /* all memory is touched */
    pages = resident_pages();
    flood_with(&flood, 1000000, count);
    assert_true(resident_pages() - pages < 64);
    stats = kit_report(&flood.kit).limiter;
    assert_true(stats.created < 2000);
    assert_int_equal(stats.reclaimed, 0);
    assert_true(kit_overflow_count(&flood.kit) > 0);

    /* and at its moment, not a nanosecond earlier, the victim passes */
    flood.kit.manual.ns = flood.free_at_ns - 1;
    check_victim(&flood);
    flood.kit.manual.ns = flood.free_at_ns;
    assert_int_equal(kit_take(&flood.kit, "victim", 1).verdict, RATION_ALLOW);
    kit_end(&flood.kit);
}

static void a_flood_frees_no_key_and_takes_no_memory(void **state)
{
    (void)state;
    run_flood(RATION_OVERFLOW_SHARED, 1, FLOOD_COUNT);
}

static void a_flood_under_every_rule_of_overflow(void **state)
{
    (void)state;
    for (enum ration_overflow overflow = RATION_OVERFLOW_SHARED; overflow <= RATION_OVERFLOW_ALLOW;
         overflow++)
        for (size_t rule_count = 1; rule_count <= 2; rule_count++)
            run_flood(overflow, rule_count, FLOOD_COUNT / 50);
}

/* Idle keys are always reclaimed: a slow flood finds places, and frees no blocked key. */
static void a_slow_flood_reclaims_only_what_is_full(void **state)
{
    struct ration_limiter_stats stats;
    struct kit_room room;
    struct kit kit;

    (void)state;
    KIT_BEGIN(&kit, "1/s burst 10");
    ration_limiter_charge(kit.limiter, &RATION_KEY("victim"), 1000000, KIT_NOW_NS);
    for (uint64_t i = 0; i < FLOOD_COUNT / 50; i++) {
        assert_int_equal(kit_take_key(&kit, kit_numbered(&room, i), 1).verdict, RATION_ALLOW);
        kit_pass(&kit, 2 * MS); /* 500 in debt at one time */
    }
    stats = kit_report(&kit).limiter;
    assert_int_equal(stats.created, FLOOD_COUNT / 50 + 1);
    assert_int_equal(stats.overflow_shared, 0);
    assert_true(stats.reclaimed > stats.created - 2000);
    assert_int_equal(kit_peek(&kit, "victim", 1).reset_after_ns,
                     1000000 * SECOND - (kit.manual.ns - KIT_NOW_NS));
    kit_end(&kit);
}

#define CRAFTED_COUNT 200
#define SET_COUNT     211 /* of keys_max 1000: 4.75 keys in each */

static uint64_t fnv(struct ration_key key)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);

    for (size_t i = 0; i < key.size; i++)
        hash = (hash ^ ((const unsigned char *)key.bytes)[i]) * UINT64_C(0x100000001b3);
    return hash;
}

/* Whether a key lies in the two sets that are to be filled, under the hash without a secret. */
static bool collides_trusted(struct ration_key key)
{
    struct ration_location place =
        ration_location_of(ration_hash_trusted(key.bytes, key.size), SET_COUNT);

    return place.sets[0] <= 1 && place.sets[1] <= 1;
}

static bool collides_fnv(struct ration_key key)
{
    return fnv(key) % (SET_COUNT * (UINT64_C(1) << 8)) == 0;
}

/* Takes one of each key of which is_chosen says so. Returns how many found no place. */
static uint64_t overflow_of(bool (*is_chosen)(struct ration_key key), uint32_t trusts_keys)
{
    struct kit_room room;
    uint64_t chosen_count = 0, overflow_count;
    struct kit kit;

    KIT_PLAN(&kit, "1/h burst 300");
    kit.options.trusts_keys = trusts_keys;
    kit_open(&kit);
    for (uint64_t i = 0; chosen_count < CRAFTED_COUNT; i++) {
        struct ration_key key = kit_numbered(&room, i);

        if (!is_chosen(key))
            continue;
        chosen_count++;
        kit_take_key(&kit, key, 1);
    }
    overflow_count = kit_overflow_count(&kit);
    kit_end(&kit);
    return overflow_count;
}

static bool any(struct ration_key key)
{
    (void)key;
    return true;
}

static void crafted_keys_find_places_as_any_do(void **state)
{
    (void)state;
    assert_int_equal(overflow_of(any, 0), 0);
    assert_int_equal(overflow_of(collides_trusted, 0), 0);
    assert_int_equal(overflow_of(collides_fnv, 0), 0);
}

/* The control: under the hash that they were crafted for, two sets hold 16 of them. */
static void control_crafted_keys_fill_the_sets_they_were_crafted_for(void **state)
{
    (void)state;
    assert_int_equal(overflow_of(any, 1), 0);
    assert_int_equal(overflow_of(collides_trusted, 1), CRAFTED_COUNT - 16);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_flood_frees_no_key_and_takes_no_memory),
        cmocka_unit_test(a_flood_under_every_rule_of_overflow),
        cmocka_unit_test(a_slow_flood_reclaims_only_what_is_full),
        cmocka_unit_test(crafted_keys_find_places_as_any_do),
        cmocka_unit_test(control_crafted_keys_fill_the_sets_they_were_crafted_for),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
