/*
 * Keys that are not accessed during more changes of limits than there are generations: they keep their moment instead of
 * their tokens, and whatever the limits were meanwhile, no use is lost.
 */
#include "unit/limiter/limiter_kit.h"

static const struct ration_key key = {"k", 1};

static void change_often(struct kit *kit, const char *text, int count)
{
    struct ration_rule next = {.limit = kit_limit(text)};

    for (int i = 0; i < count; i++)
        assert_int_equal(ration_limiter_change(kit->limiter, &next, 1, RATION_CHANGE_KEEP, NULL),
                         RATION_OK);
}

/* The report of a key that was drained, and then not accessed during so many changes. */
static struct ration_decision left_alone(const char *old, const char *next, int change_count)
{
    struct ration_decision decision;
    struct kit kit;

    KIT_BEGIN(&kit, old);
    while (ration_limiter_allow(kit.limiter, &key))
        ;
    change_often(&kit, next, change_count);
    decision = kit_peek(&kit, "k", 1);
    kit_end(&kit);
    return decision;
}

/* It has no more than after one change, or is full no earlier than it was to be. */
static void check_debt(const char *old, const char *next, int change_count)
{
    struct ration_decision before = left_alone(old, next, 0), once = left_alone(old, next, 1);
    struct ration_decision after = left_alone(old, next, change_count);

    if (after.remaining > once.remaining && after.reset_after_ns < before.reset_after_ns)
        fail_msg("%s -> %s, %d changes: %llu of %llu left, full in %llu ns; after one %llu, %llu",
                 old, next, change_count, (unsigned long long)after.remaining,
                 (unsigned long long)after.limit, (unsigned long long)after.reset_after_ns,
                 (unsigned long long)once.remaining, (unsigned long long)once.reset_after_ns);
}

static void a_debt_is_kept_between_buckets(void **state)
{
    static const char *const texts[] = {"1/h burst 10", "1/min burst 600", "2/h burst 20"};

    (void)state;
    for (size_t a = 0; a < KIT_COUNT_OF(texts); a++)
        for (int count = 14; count < 45; count++)
            check_debt(texts[a], texts[a], count);
}

/* A bucket that starts full is written without the time that others are remembered for. */
static void r1_a_debt_is_kept_if_the_new_limit_remembers(void **state)
{
    (void)state;
    for (int count = 14; count < 45; count++)
        check_debt("1/h burst 10", "1/h burst 10 start 5", count);
}

static void r1_a_debt_is_kept_if_the_new_limit_is_of_another_kind(void **state)
{
    static const char *const texts[] = {"1/h burst 10", "10/10h refill interval",
                                        "10/10h fixed_window", "1/h burst 10 leaky_queue"};

    (void)state;
    for (size_t a = 0; a < KIT_COUNT_OF(texts); a++)
        for (size_t b = 0; b < KIT_COUNT_OF(texts); b++)
            for (int count = 14; count < 45; count++)
                check_debt(texts[a], texts[b], count);
}

/* However many changes came since. */
static void a_reset_is_not_lost_among_later_changes(void **state)
{
    (void)state;
    for (int after = 0; after < 40; after++) {
        struct ration_rule next = {.limit = kit_limit("1/h burst 10")};
        struct kit kit;

        KIT_BEGIN(&kit, "1/h burst 10");
        kit_take(&kit, "k", 10);
        ration_limiter_change(kit.limiter, &next, 1, RATION_CHANGE_RESET, NULL);
        change_often(&kit, "1/h burst 10", after);
        assert_int_equal(kit_left(&kit, "k"), 10);
        kit_end(&kit);
    }
}

/* The shared overflow bucket is as old as any key. */
static void a_reset_reaches_the_overflow_bucket(void **state)
{
    (void)state;
    for (int before = 0; before < 20; before++) {
        struct ration_rule next = {.limit = kit_limit("1/s burst 300")};
        uint64_t numbers[KIT_CROWD_MAX];
        struct kit kit;

        KIT_PLAN(&kit, "1/s burst 300");
        kit.options.keys_max = 1;
        kit_open(&kit);
        kit_crowd(&kit, numbers);
        kit_take(&kit, "k", 200);
        change_often(&kit, "1/s burst 300", before);
        ration_limiter_change(kit.limiter, &next, 1, RATION_CHANGE_RESET, NULL);
        assert_int_equal(kit_peek(&kit, "k", 1).remaining, 300);
        kit_end(&kit);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_debt_is_kept_between_buckets),
        cmocka_unit_test(r1_a_debt_is_kept_if_the_new_limit_remembers),
        cmocka_unit_test(r1_a_debt_is_kept_if_the_new_limit_is_of_another_kind),
        cmocka_unit_test(a_reset_is_not_lost_among_later_changes),
        cmocka_unit_test(a_reset_reaches_the_overflow_bucket),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
