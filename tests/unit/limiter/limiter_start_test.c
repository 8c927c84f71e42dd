/*
 * Limits that do not start full: the first request is remembered, denied or not, for stale_after.
 */
#include "unit/limiter/limiter_kit.h"

static const struct ration_key key = {"k", 1};

static void the_first_touch_starts_the_key(void **state)
{
    (void)state;
    for (size_t rule_count = 1; rule_count <= 2; rule_count++) {
        struct ration_decision got;
        struct kit kit;

        KIT_PLAN(&kit, "1 per 30s burst 2 start empty", "100/h");
        kit.options.rule_count = rule_count;
        kit_open(&kit);
        got = kit_peek(&kit, "k", 1);
        assert_answer(got, RATION_DENY, 0, 30 * SECOND);
        assert_int_equal(got.limit_index, 0);
        kit_pass(&kit, 100 * SECOND); /* a peek starts nothing */
        assert_answer(kit_take(&kit, "k", 1), RATION_DENY, 0, 30 * SECOND);
        assert_int_equal(kit_report(&kit).limiter.created, 1);
        assert_wait_is_exact(&kit, key, 1, kit_peek(&kit, "k", 1));
        kit_pass(&kit, 30 * SECOND);
        assert_answer(kit_take(&kit, "k", 1), RATION_ALLOW, 0, 0);
        kit_pass(&kit, 60 * SECOND);
        assert_answer(kit_take(&kit, "k", 1), RATION_ALLOW, 1, 0);
        kit_end(&kit);
    }
}

static const struct {
    const char *text;
    uint64_t left;
    uint64_t wait_ns; /* until it is full */
} rows[] = {
    {"1/s burst 10 start 4", 4, 6 * SECOND},
    {"1/s burst 10 start empty", 0, 10 * SECOND},
    {"10/10s burst 10 refill interval start 4", 4, 10 * SECOND},
    {"10/10s fixed_window start 4", 4, 10 * SECOND},
    {"10/10s sliding_log start 4", 4, 10 * SECOND},
    {"1/s burst 4 reserve 1/min burst 6 start 4", 4, 360 * SECOND},
};

static void every_algorithm_starts_with_what_it_was_given(void **state)
{
    (void)state;
    for (size_t i = 0; i < KIT_COUNT_OF(rows); i++)
        for (size_t rule_count = 1; rule_count <= 2; rule_count++) {
            struct ration_decision got;
            uint64_t count = 0;
            struct kit kit;

            KIT_PLAN(&kit, rows[i].text, "1000/s burst 1000");
            kit.options.rule_count = rule_count;
            kit_open(&kit);
            got = kit_peek(&kit, "k", 0);
            assert_int_equal(got.remaining, rows[i].left);
            assert_int_equal(got.reset_after_ns, rows[i].wait_ns);
            while (kit_take(&kit, "k", 1).verdict == RATION_ALLOW)
                count++;
            assert_int_equal(count, rows[i].left);
            assert_wait_is_exact(&kit, key, 1, kit_peek(&kit, "k", 1));
            kit_end(&kit);
        }
}

/* Full for longer than stale_after, and not used: it is new again. */
static void a_key_is_remembered_for_stale_after(void **state)
{
    static const uint64_t stales_ns[] = {0, 1, 60 * SECOND, 365 * RATION_NS_PER_DAY};

    (void)state;
    for (size_t i = 0; i < KIT_COUNT_OF(stales_ns); i++)
        for (size_t rule_count = 1; rule_count <= 2; rule_count++) {
            uint64_t stale_ns = stales_ns[i] > 0 ? stales_ns[i] : RATION_NS_PER_DAY;
            struct ration_decision got;
            struct kit kit;

            KIT_PLAN(&kit, "1/s burst 10 start empty", "100/h");
            kit.options.rule_count = rule_count;
            kit.rules[0].stale_after_ns = stales_ns[i];
            kit_open(&kit);
            kit_take(&kit, "k", 1); /* full after 10 s */
            assert_int_equal(ration_limiter_peek(kit.limiter, &key, 0,
                                                 KIT_NOW_NS + 10 * SECOND + stale_ns - 1, &got,
                                                 NULL),
                             RATION_OK);
            assert_int_equal(got.remaining, 10);
            ration_limiter_peek(kit.limiter, &key, 0, KIT_NOW_NS + 10 * SECOND + stale_ns, &got,
                                NULL);
            assert_int_equal(got.remaining, 0);
            /* the peek then agrees with a take */
            kit_pass(&kit, 10 * SECOND + stale_ns);
            assert_answer(kit_take(&kit, "k", 1), RATION_DENY, 0, SECOND);
            kit_pass(&kit, SECOND);
            assert_int_equal(kit_take(&kit, "k", 1).verdict, RATION_ALLOW);
            kit_end(&kit);
        }
}

/* Each allowed take counts again from when the key will be full. */
static void a_key_in_use_is_not_forgotten(void **state)
{
    struct kit kit;

    (void)state;
    KIT_PLAN(&kit, "1/s burst 10 start empty");
    kit.rules[0].stale_after_ns = 5 * SECOND;
    kit_open(&kit);
    kit_take(&kit, "k", 1);
    kit_pass(&kit, 10 * SECOND);
    for (int i = 0; i < 100; i++) {
        assert_answer(kit_take(&kit, "k", 1), RATION_ALLOW, 9, 0);
        kit_pass(&kit, 5 * SECOND + 999 * MS);
    }
    kit_pass(&kit, MS);
    assert_int_equal(kit_take(&kit, "k", 1).verdict, RATION_DENY);
    kit_end(&kit);
}

/* The longest of a key's rules counts for all of them. */
static void several_rules_remember_as_long_as_the_longest(void **state)
{
    struct ration_decision got, details[2];
    struct kit kit;

    (void)state;
    KIT_PLAN(&kit, "1/s burst 10 start empty", "1/s burst 10 start 5");
    kit.rules[0].stale_after_ns = 5 * SECOND;
    kit.rules[1].stale_after_ns = 50 * SECOND;
    kit_open(&kit);
    kit_take(&kit, "k", 1);
    kit_pass(&kit, 40 * SECOND);
    ration_limiter_peek(kit.limiter, &key, 0, kit.manual.ns, &got, details);
    assert_int_equal(details[0].remaining, 10);
    assert_int_equal(details[1].remaining, 10);
    kit_end(&kit);
}

/*
 * R7: remembered keys keep their places while there are other places. Then a key with no fewer tokens than a new key
 * loses its place, and starts again: no token is created. An established key does not.
 */
static void remembered_keys_give_up_their_places_when_none_is_left(void **state)
{
    (void)state;
    for (uint64_t charge_count = 1; charge_count <= 2; charge_count++) {
        struct kit_room room;
        struct kit kit;
        int restarted = 0;

        KIT_PLAN(&kit, "1/s burst 10 start 5");
        kit.rules[0].stale_after_ns = 200 * SECOND;
        kit.options.keys_max = 1;
        kit.options.overflow = RATION_OVERFLOW_DENY;
        kit_open(&kit);
        for (uint64_t i = 0; i < 16 * charge_count; i++)
            kit_take_key(&kit, kit_numbered(&room, i % 16), 1);
        /* all have tokens in use: fewer tokens left than a new key */
        assert_int_equal(kit_take(&kit, "new", 1).verdict, RATION_DENY);
        kit_pass(&kit, 50 * SECOND); /* all are full, those with two charges for 43 s */
        for (uint64_t i = 0; i < 16; i++)
            assert_int_equal(kit_peek_key(&kit, kit_numbered(&room, i), 0).remaining, 10);
        assert_int_equal(kit_take(&kit, "new", 1).verdict,
                         charge_count == 1 ? RATION_ALLOW : RATION_DENY);
        kit_pass(&kit, 30 * SECOND);
        assert_int_equal(kit_take(&kit, "other", 1).verdict, RATION_ALLOW);
        for (uint64_t i = 0; i < 16; i++)
            restarted += kit_peek_key(&kit, kit_numbered(&room, i), 0).remaining == 5;
        assert_int_equal(restarted, charge_count == 1 ? 2 : 1);
        assert_int_equal(kit_report(&kit).limiter.reclaimed, restarted);
        kit_end(&kit);
    }
}

/* Keys that were only denied take no place from others, a day ago or just now. */
static void keys_that_were_only_denied_give_up_their_places(void **state)
{
    static const uint64_t passed_ns[] = {0, SECOND, 23 * 3600 * SECOND};

    (void)state;
    for (size_t rule_count = 1; rule_count <= 2; rule_count++)
        for (size_t p = 0; p < KIT_COUNT_OF(passed_ns); p++) {
            struct kit_room room;
            struct kit kit;
            unsigned allowed_count = 0;

            KIT_PLAN(&kit, "5/min start empty", "100/h start empty");
            kit.options.rule_count = rule_count;
            kit.options.keys_max = 1000;
            kit_open(&kit);
            for (uint64_t i = 0; i < 20000; i++)
                assert_int_equal(kit_take_key(&kit, kit_numbered(&room, i), 1).verdict,
                                 RATION_DENY);
            kit_pass(&kit, passed_ns[p]);
            for (uint64_t i = 0; i < 200; i++) /* new clients, which are denied */
                kit_take_key(&kit, kit_numbered(&room, 100000 + i), 1);
            kit_pass(&kit, 40 * SECOND);
            for (uint64_t i = 0; i < 200; i++)
                allowed_count +=
                    kit_take_key(&kit, kit_numbered(&room, 100000 + i), 1).verdict == RATION_ALLOW;
            assert_in_range(allowed_count, 150, 200);
            kit_end(&kit);
        }
}

/* Cost 0, a take that gets NEVER and a refund of nothing do not start a key; a real refund does. */
static void calls_that_take_nothing_start_nothing(void **state)
{
    struct kit kit;

    (void)state;
    KIT_BEGIN(&kit, "1/s burst 10 start empty");
    kit_take(&kit, "k", 0);
    kit_peek(&kit, "k", 11);
    ration_limiter_refund(kit.limiter, &key, 0, kit.manual.ns);
    kit_pass(&kit, 100 * SECOND);
    assert_answer(kit_peek(&kit, "k", 1), RATION_DENY, 0, SECOND);
    ration_limiter_refund(kit.limiter, &key, 3, kit.manual.ns);
    assert_int_equal(kit_left(&kit, "k"), 3);
    kit_pass(&kit, 2 * SECOND);
    assert_answer(kit_take(&kit, "k", 1), RATION_ALLOW, 4, 0);
    kit_end(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_touch_starts_the_key),
        cmocka_unit_test(every_algorithm_starts_with_what_it_was_given),
        cmocka_unit_test(a_key_is_remembered_for_stale_after),
        cmocka_unit_test(a_key_in_use_is_not_forgotten),
        cmocka_unit_test(several_rules_remember_as_long_as_the_longest),
        cmocka_unit_test(remembered_keys_give_up_their_places_when_none_is_left),
        cmocka_unit_test(keys_that_were_only_denied_give_up_their_places),
        cmocka_unit_test(calls_that_take_nothing_start_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
