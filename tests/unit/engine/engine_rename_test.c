/*
 * Reloads with new names of limits, many times: removed limits give their memory to new ones. Until then they keep their
 * buckets.
 */
#include <unistd.h>

#include "support/saved_dump.h"
#include "unit/engine/engine_kit.h"

#define LIMIT_COUNT 50
#ifdef RATION_TESTS_SHORT
#define RELOAD_COUNT 60
#else
#define RELOAD_COUNT 200
#endif

/* A policy of LIMIT_COUNT limits, each of a name that no reload had before, and for a path of its own. */
static const char *write_policy(char *text, size_t text_size, size_t reload_index, const char *more)
{
    size_t used = (size_t)snprintf(text, text_size, "limits:\n");

    for (size_t i = 0; i < LIMIT_COUNT; i++)
        used +=
            (size_t)snprintf(text + used, text_size - used,
                             "  - {name: n%zu-%zu, match: {path: /%zu}, key: ip, rate: 10/h%s}\n",
                             reload_index, i, i, more);
    assert_true(used < text_size);
    return text;
}

/* Pages of addresses, and pages in memory. */
static void read_pages(unsigned long *out_addresses, unsigned long *out_resident)
{
    FILE *file = fopen("/proc/self/statm", "re");

    assert_non_null(file);
    assert_int_equal(fscanf(file, "%lu %lu", out_addresses, out_resident), 2);
    fclose(file);
}

static void a_limit_in_the_place_of_another_starts_full(struct engine_kit *kit, size_t reload_index)
{
    struct ration_limiter_report report;
    struct ration_engine_guard guard;
    char request[64];

    for (size_t i = 0; i < LIMIT_COUNT; i += 7) { /* of all reloads the same key */
        snprintf(request, sizeof(request), "path=/%zu ip=192.0.2.1", i);
        assert_int_equal(engine_kit_ask(kit, request, 7, 0).decision.remaining, 3);
        assert_int_equal(engine_kit_ask(kit, request, 7, 0).decision.verdict, RATION_DENY);
    }
    ration_engine_lock(kit->engine, &guard);
    ration_limiter_read_report(ration_engine_limiter(&guard, 0), &report);
    assert_int_equal(report.rules[0].allowed, 1);
    assert_int_equal(report.rules[0].denied, 1);
    assert_int_equal(report.limiter.created, 1);
    assert_int_equal(ration_engine_generation(&guard), reload_index + 1);
    ration_engine_unlock(&guard);
}

static void new_names_take_no_more_room(void **state)
{
    unsigned long addresses, resident, addresses_before = 0, resident_before = 0;
    static char text[LIMIT_COUNT * 128];
    struct engine_kit kit;
    size_t bytes = 0;

    (void)state;
    engine_kit_plan(&kit);
    kit.options.spare_bytes = 0; /* as a server has it */
    kit.options.top_keys = 100;
    assert_int_equal(ration_engine_create(
                         &kit.options, engine_kit_policy(write_policy(text, sizeof(text), 0, "")),
                         &kit.engine, NULL),
                     RATION_OK);
    for (size_t i = 1; i <= RELOAD_COUNT; i++) {
        engine_kit_reload(&kit, write_policy(text, sizeof(text), i, ""));
        a_limit_in_the_place_of_another_starts_full(&kit, i);
        if (i == 10) {
            bytes = ration_engine_bytes(kit.engine);
            read_pages(&addresses_before, &resident_before);
        }
    }
    read_pages(&addresses, &resident);
    print_message("  %zu limits after %d: %lu KiB in memory, %lu KiB before\n",
                  (size_t)RELOAD_COUNT * LIMIT_COUNT, RELOAD_COUNT, resident * 4,
                  resident_before * 4);
    assert_int_equal(ration_engine_bytes(kit.engine), bytes);
#ifndef RATION_TESTS_SHORT /* sanitizers keep what is freed for a while */
    assert_true(addresses < addresses_before + 4096); /* 16 MiB; 50 limits of before had 2 GiB */
    assert_true(resident < resident_before + 8192);
#endif
    engine_kit_close(&kit);
}

/* Each reload's limits are larger than those of before, or of another kind. */
static void other_sizes_take_little_more_room(void **state)
{
    static char text[LIMIT_COUNT * 128];
    struct engine_kit kit;

    (void)state;
    engine_kit_plan(&kit);
    kit.options.spare_bytes = (size_t)128 << 20; /* without another's place this is enough for 15 */
    assert_int_equal(ration_engine_create(
                         &kit.options, engine_kit_policy(write_policy(text, sizeof(text), 0, "")),
                         &kit.engine, NULL),
                     RATION_OK);
    for (size_t i = 1; i <= RELOAD_COUNT; i++) {
        char more[64];

        snprintf(more, sizeof(more), ", max_keys: %zu%s", 2000 + 10 * i,
                 i % 3 == 0 ? ", algorithm: sliding_window" : "");
        engine_kit_reload(&kit, write_policy(text, sizeof(text), i, more));
        if (i % 3 != 0)
            a_limit_in_the_place_of_another_starts_full(&kit, i);
    }
    engine_kit_close(&kit);
}

/* Reloads so many policies of one new limit each. */
static void reload_others(struct engine_kit *kit, size_t count)
{
    static unsigned number;

    for (size_t i = 0; i < count; i++) {
        char text[96];

        snprintf(text, sizeof(text), "limits: [{name: other%u, key: ip, rate: 10/h}]", number++);
        engine_kit_reload(kit, text);
    }
}

static void removed_limits_keep_their_buckets_for_a_while(void **state)
{
    static const char a[] = "limits: [{name: a, key: ip, rate: 10/h}]";
    struct engine_kit kit;

    (void)state;
    engine_kit_open(&kit, a);
    engine_kit_ask(&kit, "ip=192.0.2.1", 4, 0);
    reload_others(&kit, 8);
    engine_kit_reload(&kit, a);
    assert_int_equal(engine_kit_left(&kit, "ip=192.0.2.1"), 6);
    reload_others(&kit, 20); /* now others have its place */
    engine_kit_reload(&kit, a);
    assert_int_equal(engine_kit_left(&kit, "ip=192.0.2.1"), 10);
    engine_kit_close(&kit);
}

/* The limit that was removed first, and would be replaced first. */
static void a_returning_limit_is_not_replaced_by_a_new_one(void **state)
{
    struct engine_kit kit;

    (void)state;
    engine_kit_open(&kit, "limits: [{name: a, key: ip, rate: 10/h}]");
    engine_kit_ask(&kit, "ip=192.0.2.1", 4, 0);
    reload_others(&kit, 9);
    engine_kit_reload(&kit, "limits: [{name: x, match: {path: /x}, key: ip, rate: 10/h}, "
                            "{name: y, match: {path: /y}, key: ip, rate: 10/h}, "
                            "{name: a, key: ip, rate: 10/h}]");
    assert_int_equal(engine_kit_left(&kit, "ip=192.0.2.1"), 6);
    engine_kit_close(&kit);
}

/* A restart is like a reload: limits that were removed first are replaced first, after it as before. */
static void the_order_of_removals_is_saved(void **state)
{
    struct saved_bytes bytes = {0};
    ration_engine *loaded = NULL;
    struct engine_kit kit;

    (void)state;
    engine_kit_open(&kit, "limits: [{name: a, key: ip, rate: 10/h}]");
    engine_kit_ask(&kit, "ip=192.0.2.1", 4, 0);
    reload_others(&kit, 9);
    engine_kit_reload(&kit,
                      "limits: [{name: a, key: ip, rate: 10/h}]"); /* the first place, used last */
    reload_others(&kit, 1);
    assert_int_equal(ration_engine_save(kit.engine, KIT_NOW_NS, saved_write, &bytes), RATION_OK);
    assert_int_equal(
        ration_engine_load(&kit.options,
                           engine_kit_policy("limits: [{name: new, key: ip, rate: 10/h}]"),
                           saved_read, &bytes, &loaded, NULL),
        RATION_OK);
    engine_kit_close(&kit);
    kit.engine = loaded;
    engine_kit_reload(&kit, "limits: [{name: a, key: ip, rate: 10/h}]");
    assert_int_equal(engine_kit_left(&kit, "ip=192.0.2.1"), 6);
    free(bytes.data);
    engine_kit_close(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(new_names_take_no_more_room),
        cmocka_unit_test(other_sizes_take_little_more_room),
        cmocka_unit_test(removed_limits_keep_their_buckets_for_a_while),
        cmocka_unit_test(a_returning_limit_is_not_replaced_by_a_new_one),
        cmocka_unit_test(the_order_of_removals_is_saved),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
