/*
 * Dumps of more than the keys' own buckets: keys without a place, and stacks.
 */
#include <time.h>

#include "base/wall.h"
#include "support/saved_dump.h"
#include "support/subjects.h"

#define SECOND RATION_NS_PER_SECOND
#define NOW_NS (100 * SECOND)

static bool is_wall_real;

uint64_t ration_wall_now(void)
{
    struct timespec now;

    if (!is_wall_real)
        return 1700000000 * SECOND;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * SECOND + (uint64_t)now.tv_nsec;
}

static ration_limiter *reload(ration_limiter *limiter, const struct ration_limiter_options *options)
{
    struct saved_bytes dump = saved_dump(limiter, NOW_NS);
    struct ration_error error = {.message = ""};
    ration_limiter *loaded = NULL;

    if (saved_load(options, &dump, &loaded, &error) != RATION_OK)
        fail_msg("%s", error.message);
    free(dump.data);
    return loaded;
}

/* How many of the keys from first on may take a token now. */
static uint64_t count_allowed(ration_limiter *limiter, uint64_t first, uint64_t count)
{
    uint64_t allowed = 0;

    for (uint64_t i = first; i < first + count; i++) {
        struct subject_key key;
        struct ration_decision decision;

        ration_limiter_peek(limiter, subject_request(&key, i), 1, NOW_NS, &decision, NULL);
        allowed += decision.verdict == RATION_ALLOW;
    }
    return allowed;
}

/*
 * 16 places, all taken. The 17th key shares the overflow bucket, and inherits the tokens in use when it gets a place; so
 * do all keys with the same first set, and no others. R7.
 */
static void tokens_in_use_of_keys_without_a_place_are_saved(void **state)
{
    static const struct subject rows[] = {
        {.rules = {"2/h"}},
        {.rules = {"2/h"}, .is_stackable = true},
        {.rules = {"2/h sliding_log"}},
        {.rules = {"2/h", "2/d start 1"}},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct ration_manual_clock manual = {NOW_NS};
        struct ration_clock clock = ration_clock_manual(&manual);
        struct ration_rule rules[SUBJECT_RULES_MAX];
        struct ration_limiter_options options = subject_options(&rows[i], rules, &clock);
        struct ration_limiter_report report;
        ration_limiter *limiter, *loaded;
        struct subject_key key;
        uint64_t index = 0;

        options.keys_max = 1;
        limiter = subject_create(&options);
        do {
            ration_limiter_allow_at(limiter, subject_request(&key, index++), 1, NOW_NS);
            ration_limiter_charge(limiter, &key.key, 2, NOW_NS);
            ration_limiter_read_report(limiter, &report);
        } while (report.limiter.overflow_shared == 0);
        /* a place is free again, and the overflow bucket is not full yet */
        ration_limiter_reset(limiter, subject_request(&key, 0), NOW_NS);

        loaded = reload(limiter, &options);
        /* key 0 itself, which is full and not dumped, may inherit that use like any new key */
        assert_in_range(subjects_differ(limiter, NOW_NS, loaded, NOW_NS, 300), 0, 1);
        /* half of them have a set without an overflow watermark; a remembered key keeps its place */
        if (rows[i].rules[1] == NULL)
            assert_in_range(count_allowed(loaded, 100, 200), 50, 150);
        assert_int_equal(count_allowed(loaded, index - 1, 1), 0);
        for (uint64_t k = 1; k < 40; k++) {
            bool allowed = ration_limiter_allow_at(limiter, subject_request(&key, k), 1, NOW_NS);

            assert_int_equal(ration_limiter_allow_at(loaded, &key.key, 1, NOW_NS), allowed);
        }
        assert_in_range(subjects_differ(limiter, NOW_NS, loaded, NOW_NS, 300), 0, 1);
        ration_limiter_free(limiter);
        ration_limiter_free(loaded);
    }
}

static uint64_t count_keys(ration_limiter *limiter)
{
    struct ration_scan_item items[64];
    uint64_t cursor = 0, count = 0;

    do
        count += ration_limiter_scan(limiter, &cursor, items, 64, NOW_NS);
    while (cursor != 0);
    return count;
}

/* Each key is where it was: all fit again, and none is found twice. */
static void a_crowded_table_fits_again(void **state)
{
    static const struct subject rows[] = {{.rules = {"2/h"}}, {.rules = {"2/h", "3/h"}}};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct ration_manual_clock manual = {NOW_NS};
        struct ration_clock clock = ration_clock_manual(&manual);
        struct ration_rule rules[SUBJECT_RULES_MAX];
        struct ration_limiter_options options = subject_options(&rows[i], rules, &clock);
        ration_limiter *limiter, *loaded;
        struct subject_key key;

        options.keys_max = 20000;
        limiter = subject_create(&options);
        for (uint64_t k = 0; k < 20000; k++)
            ration_limiter_allow_at(limiter, subject_request(&key, k), 1 + k % 2, NOW_NS);
        options.keys_max = 0; /* as in the dump */
        loaded = reload(limiter, &options);
        assert_int_equal(subjects_differ(limiter, NOW_NS, loaded, NOW_NS, 21000), 0);
        assert_int_equal(count_keys(loaded), count_keys(limiter));
        assert_in_range(count_keys(loaded), 19990, 20000); /* one in a million finds no place */
        ration_limiter_free(limiter);
        ration_limiter_free(loaded);
    }
}

/* Whatever a later version makes of keys_max: what was dumped says how many sets there are. */
static void a_table_has_as_many_sets_as_the_dump_reports(void **state)
{
    static const struct subject one = {.rules = {"10/h"}};
    struct ration_manual_clock manual = {NOW_NS};
    struct ration_clock clock = ration_clock_manual(&manual);
    struct ration_rule rules[SUBJECT_RULES_MAX];
    struct ration_limiter_options options = subject_options(&one, rules, &clock);
    ration_limiter *limiter, *loaded = NULL;
    struct saved_bytes dump, payload;

    (void)state;
    options.keys_max = 100; /* 22 sets */
    limiter = subject_create(&options);
    dump = saved_dump(limiter, NOW_NS);
    payload = saved_unwrap(&dump);
    assert_int_equal(saved_number(payload.data + SAVED_SETS_AT, 4), 22);
    saved_set_number(payload.data + SAVED_SETS_AT, 4, 33);
    free(dump.data);
    dump = saved_wrap(payload.data, payload.size);
    assert_int_equal(saved_load(&options, &dump, &loaded, NULL), RATION_OK);
    free(dump.data);
    free(payload.data);
    dump = saved_dump(loaded, NOW_NS);
    payload = saved_unwrap(&dump);
    assert_int_equal(saved_number(payload.data + SAVED_SETS_AT, 4), 33);
    free(dump.data);
    free(payload.data);
    ration_limiter_free(limiter);
    ration_limiter_free(loaded);
}

/* A key that was forgotten and created again while it was dumped: the later one is meant. */
static void of_a_key_that_is_in_a_dump_twice_the_later_is_meant(void **state)
{
    static const struct subject one = {.rules = {"10/h"}};
    const struct ration_key key = RATION_KEY("twice");
    struct ration_manual_clock manual = {NOW_NS};
    struct ration_clock clock = ration_clock_manual(&manual);
    struct ration_rule rules[SUBJECT_RULES_MAX];
    struct ration_limiter_options options = subject_options(&one, rules, &clock);
    ration_limiter *limiter = subject_create(&options), *loaded = NULL;
    struct saved_bytes dump, payload, twice = {0};
    size_t record = SAVED_RULE_AT + SAVED_RULE_SIZE;
    struct ration_decision decision;

    (void)state;
    ration_limiter_allow_at(limiter, &key, 1, NOW_NS);
    dump = saved_dump(limiter, NOW_NS);
    payload = saved_unwrap(&dump);
    saved_add(&twice, payload.data, record + SAVED_RECORD_SIZE + 12); /* header, the key, ... */
    saved_add(&twice, payload.data + record, payload.size - record);  /* ... once more, the end */
    saved_set_number(twice.data + record + 2 * SAVED_RECORD_SIZE + 12, 8, 1800 * SECOND);
    saved_set_number(twice.data + twice.size - 8, 8, 2);
    free(dump.data);
    dump = saved_wrap(twice.data, twice.size);
    assert_int_equal(saved_load(&options, &dump, &loaded, NULL), RATION_OK);
    ration_limiter_peek(loaded, &key, 1, NOW_NS, &decision, NULL);
    assert_int_equal(decision.remaining, 5);
    assert_int_equal(count_keys(loaded), 1);
    free(dump.data);
    free(payload.data);
    free(twice.data);
    ration_limiter_free(limiter);
    ration_limiter_free(loaded);
}

/* Requests of the stack below: a user, and all of them together. */
static ration_status key_of_user(void *context, const void *request, char *room,
                                 struct ration_key *out_key)
{
    (void)context;
    (void)room;
    *out_key = *(const struct ration_key *)request;
    return RATION_OK;
}

static ration_status key_of_all(void *context, const void *request, char *room,
                                struct ration_key *out_key)
{
    (void)context;
    (void)request;
    (void)room;
    *out_key = RATION_KEY("all");
    return RATION_OK;
}

static void a_stack_continues_where_it_was(void **state)
{
    static const struct subject users = {.rules = {"3/s burst 7", "9/min sliding_log"}};
    static const struct subject all = {.rules = {"900/s burst 1200"}};
    struct ration_manual_clock manual = {NOW_NS};
    struct ration_clock clock = ration_clock_manual(&manual);
    struct ration_rule rules[2][SUBJECT_RULES_MAX];
    struct ration_limiter_options limiters[2] = {subject_options(&users, rules[0], NULL),
                                                 subject_options(&all, rules[1], NULL)};
    struct ration_stack_options options = {
        .struct_size = sizeof(options), .limiters = limiters, .limiter_count = 2, .clock = &clock};
    ration_stack *stack = NULL, *loaded = NULL;
    ration_limiter *limiter = NULL;
    struct saved_bytes dump = {0};
    struct ration_error error;
    struct subject_key key;

    (void)state;
    limiters[0].key_func = key_of_user;
    limiters[1].key_func = key_of_all;
    limiters[1].keys_max = 1;
    assert_int_equal(ration_stack_create(&options, &stack, NULL), RATION_OK);
    for (uint64_t i = 0; i < 800; i++)
        ration_stack_allow_at(stack, subject_request(&key, i * i % 300), 1, NOW_NS);
    assert_int_equal(ration_stack_dump(stack, NOW_NS, saved_write, &dump), RATION_OK);
    assert_int_equal(ration_stack_load(&options, saved_read, &dump, &loaded, NULL), RATION_OK);
    assert_int_equal(dump.at, dump.size);
    for (uint64_t i = 0; i < 600; i++) {
        struct ration_decision a, b;

        manual.ns += SECOND / 1000;
        ration_stack_take(stack, subject_request(&key, i % 300), 1, manual.ns, &a, NULL);
        ration_stack_take(loaded, &key.key, 1, manual.ns, &b, NULL);
        assert_true(decisions_equal(&a, &b));
    }

    /* one of them alone is a dump of one; a stack's is none of a limiter */
    assert_int_equal(saved_load(&limiters[0], &dump, &limiter, &error), RATION_EUNSUPPORTED);
    assert_string_equal(error.message, "the dump is of 2 limiters (got 1)");
    free(dump.data);
    dump = saved_dump(ration_stack_limiter(stack, 0), manual.ns);
    limiters[0].clock = &clock;
    assert_int_equal(saved_load(&limiters[0], &dump, &limiter, &error), RATION_OK);
    assert_int_equal(
        subjects_differ(ration_stack_limiter(stack, 0), manual.ns, limiter, manual.ns, 300), 0);
    free(dump.data);
    ration_limiter_free(limiter);
    ration_stack_free(stack);
    ration_stack_free(loaded);
}

/* A clock that reports the time of day: more years than a slot can hold from its zero. */
static void a_clock_that_counts_from_1970_continues(void **state)
{
    static const struct subject one = {.rules = {"10/s"}};
    const uint64_t now_ns = 1700000000 * SECOND;
    const struct ration_key key = RATION_KEY("key");
    struct ration_manual_clock manual = {now_ns};
    struct ration_clock clock = ration_clock_manual(&manual);
    struct ration_rule rules[SUBJECT_RULES_MAX];
    struct ration_limiter_options options = subject_options(&one, rules, &clock);
    ration_limiter *limiter = subject_create(&options), *loaded = NULL;
    struct saved_bytes dump;

    (void)state;
    assert_true(ration_limiter_allow_at(limiter, &key, 10, now_ns));
    assert_true(ration_limiter_allow_at(limiter, &key, 2, now_ns + SECOND / 5));
    dump = saved_dump(limiter, now_ns + SECOND / 5);
    manual.ns += SECOND / 5;
    assert_int_equal(saved_load(&options, &dump, &loaded, NULL), RATION_OK);
    assert_false(ration_limiter_allow_at(loaded, &key, 1, now_ns + 3 * SECOND / 10 - 1));
    assert_true(ration_limiter_allow_at(loaded, &key, 1, now_ns + 3 * SECOND / 10));
    free(dump.data);
    ration_limiter_free(limiter);
    ration_limiter_free(loaded);
}

/* A process is restarted: the clocks continue, and windows end when they were due to end. */
static void the_default_clock_continues(void **state)
{
    static const struct subject one = {.rules = {"9/d fixed_window"}};
    const struct ration_key key = RATION_KEY("key");
    struct ration_rule rules[SUBJECT_RULES_MAX];
    struct ration_limiter_options options = subject_options(&one, rules, NULL);
    ration_limiter *limiter = subject_create(&options), *loaded = NULL;
    struct ration_decision before, after;
    struct saved_bytes dump;
    uint64_t now_ns = ration_limiter_now(limiter);

    (void)state;
    is_wall_real = true;
    ration_limiter_take(limiter, &key, 1, now_ns, &before, NULL);
    dump = saved_dump(limiter, ration_limiter_now(limiter));
    assert_int_equal(saved_load(&options, &dump, &loaded, NULL), RATION_OK);
    ration_limiter_peek(loaded, &key, 0, now_ns, &after, NULL);
    is_wall_real = false;
    assert_int_equal(after.remaining, 8);
    /* now_ns is before the load, and counts as the load's time */
    assert_in_range(before.reset_after_ns - after.reset_after_ns, 0, 600 * SECOND);
    now_ns = ration_limiter_now(loaded);
    ration_limiter_peek(limiter, &key, 0, now_ns, &before, NULL);
    ration_limiter_peek(loaded, &key, 0, now_ns, &after, NULL);
    assert_int_equal(before.reset_after_ns, after.reset_after_ns);
    free(dump.data);
    ration_limiter_free(limiter);
    ration_limiter_free(loaded);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokens_in_use_of_keys_without_a_place_are_saved),
        cmocka_unit_test(a_crowded_table_fits_again),
        cmocka_unit_test(a_table_has_as_many_sets_as_the_dump_reports),
        cmocka_unit_test(of_a_key_that_is_in_a_dump_twice_the_later_is_meant),
        cmocka_unit_test(a_stack_continues_where_it_was),
        cmocka_unit_test(a_clock_that_counts_from_1970_continues),
        cmocka_unit_test(the_default_clock_continues),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
