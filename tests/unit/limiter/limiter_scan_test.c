/*
 * The list of keys with tokens in use: each key once, and nothing else.
 */
#include <stdlib.h>

#include "support/subjects.h"

#define SECOND    RATION_NS_PER_SECOND
#define NOW_NS    (1000 * SECOND)
#define KEY_COUNT 300

static struct ration_manual_clock manual = {NOW_NS};
static struct ration_clock manual_clock;
static struct ration_rule rules[SUBJECT_RULES_MAX];

static struct ration_limiter_options options_of(const struct subject *subject)
{
    manual.ns = NOW_NS;
    manual_clock = ration_clock_manual(&manual);
    return subject_options(subject, rules, &manual_clock);
}

/* All of a limiter, items_max at a time. Returns how many. */
static size_t scan_all(ration_limiter *limiter, struct ration_scan_item *items, size_t room,
                       size_t items_max, uint64_t now_ns, size_t *out_calls)
{
    uint64_t cursor = 0;
    size_t count = 0;

    *out_calls = 0;
    do {
        assert_true(count + items_max <= room);
        count += ration_limiter_scan(limiter, &cursor, items + count, items_max, now_ns);
        *out_calls += 1;
    } while (cursor != 0);
    return count;
}

static int compare_numbers(const struct ration_scan_item *a, const struct ration_scan_item *b)
{
    if (a->full_after_ns != b->full_after_ns)
        return a->full_after_ns < b->full_after_ns ? -1 : 1;
    for (size_t i = 0; i < a->rule_count; i++)
        if (a->remaining[i] != b->remaining[i])
            return a->remaining[i] < b->remaining[i] ? -1 : 1;
    return 0;
}

static int by_numbers(const void *a, const void *b)
{
    return compare_numbers(a, b);
}

static int by_tag(const void *a, const void *b)
{
    uint64_t left = ((const struct ration_scan_item *)a)->tag;
    uint64_t right = ((const struct ration_scan_item *)b)->tag;

    return (left > right) - (left < right);
}

/* The peeks of all keys with tokens in use. */
static size_t peek_at_all(ration_limiter *limiter, struct ration_scan_item *items, uint64_t now_ns)
{
    size_t count = 0;

    for (uint64_t i = 0; i < KEY_COUNT; i++) {
        struct ration_decision whole, details[RATION_RULES_MAX];
        struct ration_scan_item *item = &items[count];
        struct subject_key key;

        ration_limiter_peek(limiter, subject_request(&key, i), 0, now_ns, &whole, details);
        *item = (struct ration_scan_item){.rule_count = ration_limiter_rule_count(limiter)};
        for (size_t k = 0; k < item->rule_count; k++) {
            item->remaining[k] = details[k].remaining;
            if (details[k].reset_after_ns > item->full_after_ns)
                item->full_after_ns = details[k].reset_after_ns;
        }
        count += item->full_after_ns > 0;
    }
    return count;
}

static void same_as_looked_at(const struct subject *subject, ration_limiter *limiter)
{
    static struct ration_scan_item looked[KEY_COUNT], found[2 * KEY_COUNT];
    size_t looked_count = peek_at_all(limiter, looked, manual.ns);
    size_t calls;

    assert_int_equal(ration_limiter_count(limiter, manual.ns), looked_count);
    for (size_t items_max = 1; items_max <= KEY_COUNT; items_max += 23) {
        size_t count = scan_all(limiter, found, 2 * KEY_COUNT, items_max, manual.ns, &calls);

        qsort(looked, looked_count, sizeof(looked[0]), by_numbers);
        qsort(found, count, sizeof(found[0]), by_numbers);
        if (count != looked_count)
            fail_msg("%s: %zu listed, %zu in debt", subject->name, count, looked_count);
        for (size_t k = 0; k < count; k++)
            assert_int_equal(compare_numbers(&found[k], &looked[k]), 0);
        qsort(found, count, sizeof(found[0]), by_tag);
        for (size_t k = 1; k < count; k++)
            assert_true(found[k - 1].tag < found[k].tag);
    }
}

static void every_key_in_debt_is_listed_once_as_a_peek_reports(void **state)
{
    (void)state;
    for (size_t i = 0; i < SUBJECT_COUNT; i++) {
        struct ration_limiter_options options = options_of(&subjects[i]);
        ration_limiter *limiter = subject_create(&options);
        struct ration_scan_item none;
        struct subject_key key;
        uint64_t random = 3;
        size_t calls;

        assert_int_equal(scan_all(limiter, &none, 1, 1, manual.ns, &calls), 0);
        for (uint64_t k = 0; k < KEY_COUNT; k++)
            ration_limiter_allow_at(limiter, subject_request(&key, k), 1, manual.ns);
        same_as_looked_at(&subjects[i], limiter);
        for (int k = 0; k < 2000; k++) {
            ration_clock_manual_advance(&manual, ration_random_up_to(&random, 4000000));
            subject_act(limiter, KEY_COUNT, &random, manual.ns);
        }
        same_as_looked_at(&subjects[i], limiter);
        ration_clock_manual_advance(&manual, SECOND); /* some are full meanwhile */
        same_as_looked_at(&subjects[i], limiter);
        ration_limiter_free(limiter);
    }
}

/* Converted as in a peek, and not written back. */
static void after_a_change_of_limits_the_new_ones_count(void **state)
{
    static const struct subject old = {.name = "changed", .rules = {"3/s burst 7", "9/s"}};
    struct ration_limiter_options options = options_of(&old);
    ration_limiter *limiter = subject_create(&options);
    uint64_t random = 3;

    (void)state;
    for (int change = 0; change < 20; change++) { /* more than there are generations */
        char text[64];

        for (int k = 0; k < 200; k++)
            subject_act(limiter, KEY_COUNT, &random, manual.ns);
        ration_clock_manual_advance(&manual, SECOND / 10);
        snprintf(text, sizeof(text), "%d/s burst %d", 1 + change % 5, 5 + change % 7);
        ration_limit_parse(text, &rules[0].limit, NULL);
        assert_int_equal(
            ration_limiter_change(limiter, rules, 2,
                                  change % 9 == 8 ? RATION_CHANGE_RESET : RATION_CHANGE_KEEP, NULL),
            RATION_OK);
        same_as_looked_at(&old, limiter);
    }
    ration_limiter_free(limiter);
}

static void a_call_peeks_at_64_sets_at_most(void **state)
{
    static const struct subject one = {.rules = {"1/h"}};
    struct ration_limiter_options options = options_of(&one);
    struct ration_scan_item items[8];
    struct subject_key key;
    ration_limiter *limiter;
    size_t calls;

    (void)state;
    options.keys_max = 100000; /* 21053 sets */
    limiter = subject_create(&options);
    assert_int_equal(scan_all(limiter, items, 8, 8, NOW_NS, &calls), 0);
    assert_int_equal(calls, (21053 + 63) / 64);
    ration_limiter_allow_at(limiter, subject_request(&key, 1), 1, NOW_NS);
    assert_int_equal(scan_all(limiter, items, 8, 1, NOW_NS, &calls), 1);
    assert_int_equal(items[0].remaining[0], 0);
    assert_int_equal(items[0].full_after_ns, RATION_NS_PER_HOUR);
    assert_true(calls <= (21053 + 63) / 64 + 1);
    ration_limiter_free(limiter);
}

static void any_cursor_and_no_room_are_safe(void **state)
{
    static const struct subject one = {.rules = {"1/h"}};
    struct ration_limiter_options options = options_of(&one);
    ration_limiter *limiter = subject_create(&options);
    struct ration_scan_item item;
    uint64_t cursors[] = {1, 7, 12345, UINT32_MAX, UINT64_MAX - 1, UINT64_MAX};

    (void)state;
    for (size_t i = 0; i < sizeof(cursors) / sizeof(cursors[0]); i++)
        for (uint64_t cursor = cursors[i]; cursor != 0;)
            assert_int_equal(ration_limiter_scan(limiter, &cursor, &item, 1, UINT64_MAX), 0);

    uint64_t cursor = 77;

    assert_int_equal(ration_limiter_scan(limiter, &cursor, NULL, 0, NOW_NS), 0);
    assert_int_equal(cursor, 77);
    ration_limiter_free(limiter);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_key_in_debt_is_listed_once_as_a_peek_reports),
        cmocka_unit_test(after_a_change_of_limits_the_new_ones_count),
        cmocka_unit_test(a_call_peeks_at_64_sets_at_most),
        cmocka_unit_test(any_cursor_and_no_room_are_safe),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
