/*
 * Mistakes of published limiters with keys, one test for each.
 */
#include "base/random.h"
#include "unit/limiter/limiter_kit.h"

/* The global limit is charged first, and is not refunded when the client's limit denies. */
static void a_client_that_is_denied_drains_no_global_budget(void **state)
{
    struct kit all, each;
    struct ration_limiter_options limiters[2];
    struct ration_stack_options options = {
        .struct_size = sizeof(options), .limiters = limiters, .limiter_count = 2};
    struct ration_key shared = RATION_KEY("all"), client = RATION_KEY("client");
    struct ration_decision left;
    ration_stack *stack;
    int allowed_count = 0;

    (void)state;
    KIT_PLAN(&all, "100/h");
    KIT_PLAN(&each, "10/h");
    limiters[0] = all.options;
    limiters[1] = each.options;
    options.clock = &all.clock;
    assert_int_equal(ration_stack_create(&options, &stack, NULL), RATION_OK);
    for (int i = 0; i < 1000; i++) {
        struct ration_stack_request asks[] = {{0, &shared, 1}, {1, &client, 1}};
        struct ration_decision decision;

        assert_int_equal(ration_stack_take_all(stack, asks, 2, KIT_NOW_NS, &decision), RATION_OK);
        allowed_count += decision.verdict == RATION_ALLOW;
    }
    assert_int_equal(allowed_count, 10);
    ration_limiter_peek(ration_stack_limiter(stack, 0), &shared, 0, KIT_NOW_NS, &left, NULL);
    assert_int_equal(left.remaining, 90);
    ration_stack_free(stack);
}

/* The same with two limits of one key: the first one's is not gone if the second denies. */
static void a_denial_by_the_last_limit_takes_nothing_of_the_first(void **state)
{
    struct ration_key key = RATION_KEY("k");
    struct ration_decision decision, details[2];
    struct kit kit;

    (void)state;
    KIT_BEGIN(&kit, "100/h", "10/h");
    for (int i = 0; i < 1000; i++)
        kit_take(&kit, "k", 1);
    ration_limiter_peek(kit.limiter, &key, 0, KIT_NOW_NS, &decision, details);
    assert_int_equal(details[0].remaining, 90);
    assert_int_equal(details[1].remaining, 0);
    kit_end(&kit);
}

static uint64_t take_all_there_are(struct kit *kit, const char *key)
{
    uint64_t count = 0;

    while (kit_take(kit, key, 1).verdict == RATION_ALLOW)
        count++;
    return count;
}

/* A clamp of the stored moment that lies too far back: 17 at once under a limit of 10. */
static void idling_saves_up_no_more_than_the_burst(void **state)
{
    static const uint64_t idle_ns[] = {1, 999 * MS, SECOND, 3 * SECOND, RATION_NS_PER_YEAR};

    (void)state;
    for (size_t i = 0; i < KIT_COUNT_OF(idle_ns); i++)
        for (uint64_t first = 0; first <= 10; first++) {
            struct kit kit;
            uint64_t at_once;

            KIT_BEGIN(&kit, "10/s burst 10");
            kit_take(&kit, "k", first);
            kit_pass(&kit, idle_ns[i]);
            at_once = take_all_there_are(&kit, "k");
            assert_int_equal(at_once, idle_ns[i] >= SECOND || first == 0 ? 10
                                      : idle_ns[i] == 1                  ? 10 - first
                                                                         : 10 - (first == 10));
            kit_end(&kit);
        }
}

/* State that expires before the bucket is full: 40000 admitted in 600 s instead of 800. */
static void a_debt_is_not_forgotten_before_it_is_paid(void **state)
{
    struct kit kit;
    struct kit_room room;
    uint64_t admitted = 0, other = 0;

    (void)state;
    KIT_PLAN(&kit, "1/s burst 200");
    kit.options.keys_max = 10;
    kit_open(&kit);
    for (int ms = 0; ms < 600 * 1000; ms += 100) {
        admitted += take_all_there_are(&kit, "k");
        kit_take_key(&kit, kit_numbered(&room, other++), 1); /* which needs its place */
        kit_pass(&kit, 100 * MS);
    }
    assert_int_equal(admitted, 200 + 599);
    kit_end(&kit);
}

/* LRU: 500 fresh keys free a blocked one. */
static void fresh_keys_do_not_free_a_blocked_one(void **state)
{
    struct kit kit;
    struct kit_room room;

    (void)state;
    KIT_PLAN(&kit, "10/h");
    kit.options.keys_max = 100;
    kit_open(&kit);
    assert_int_equal(take_all_there_are(&kit, "blocked"), 10);
    for (uint64_t i = 0; i < 5000; i++) {
        kit_take_key(&kit, kit_numbered(&room, i), 1);
        assert_answer(kit_take(&kit, "blocked", 1), RATION_DENY, 0, 360 * SECOND);
    }
    kit_end(&kit);
}

/* Timestamps out of order rewind the bucket: 1000 of 1000 where the budget was 3. */
static void timestamps_out_of_order_mint_nothing(void **state)
{
    static const char *const texts[] = {"1/h burst 3",
                                        "3/h burst 3 refill interval",
                                        "3/h fixed_window",
                                        "3/h sliding_window",
                                        "3/h sliding_log",
                                        "3/h burst 3 leaky_queue",
                                        "3/h burst 2 reserve 1/d burst 1"};

    (void)state;
    for (size_t i = 0; i < KIT_COUNT_OF(texts); i++) {
        struct ration_key key = RATION_KEY("k");
        struct kit kit;
        uint64_t random = i + 1;
        int allowed_count = 0;

        KIT_PLAN(&kit, texts[i]);
        kit.options.keys_max = 1;
        kit_open(&kit);
        for (int k = 0; k < 1000; k++) {
            /* all within ten seconds of a window, in any order; and other keys in between */
            uint64_t now_ns = KIT_NOW_NS + ration_random_up_to(&random, 10 * SECOND);
            struct kit_room room;
            struct ration_key other = kit_numbered(&room, ration_random_up_to(&random, 40));

            allowed_count += ration_limiter_allow_at(kit.limiter, &key, 1, now_ns);
            ration_limiter_allow_at(kit.limiter, &other, 1, now_ns);
        }
        assert_in_range(allowed_count, 1, 3);
        kit_end(&kit);
    }
}

/* Even if the key was full meanwhile and its place is another's, R7. */
static void a_clock_that_runs_back_behind_a_reclaimed_place_mints_nothing(void **state)
{
    (void)state;
    for (int has_room = 0; has_room <= 1; has_room++)
        for (size_t rule_count = 1; rule_count <= 2; rule_count++) {
            struct ration_key key = RATION_KEY("k"), other;
            struct kit_room room;
            struct kit kit;

            KIT_PLAN(&kit, "1/s burst 3", "1/s burst 4");
            kit.options.rule_count = rule_count;
            kit.options.keys_max = 1;
            kit_open(&kit);
            kit_take(&kit, "k", 3); /* full after 3 s */
            kit_pass(&kit, 10 * SECOND);
            for (uint64_t i = 0; i < 16; i++) /* all 16 places are others' */
                kit_take_key(&kit, kit_numbered(&room, i), 1);
            assert_int_equal(kit_report(&kit).limiter.reclaimed, 1);
            assert_int_equal(kit_report(&kit).limiter.overflow_shared, 0);
            other = kit_numbered(&room, 5);
            if (has_room)
                ration_limiter_reset(kit.limiter, &other, KIT_NOW_NS);
            for (uint64_t ms = 0; ms < 1000; ms += 100) {
                uint64_t now_ns = KIT_NOW_NS + ms * MS;
                struct ration_decision decision;

                ration_limiter_take(kit.limiter, &key, 1, now_ns, &decision, NULL);
                assert_int_equal(decision.verdict, RATION_DENY);
                assert_false(ration_limiter_allow_at(kit.limiter, &key, 1, now_ns));
            }
            for (int i = 0; i < 5; i++) /* a second after it took three it has one */
                assert_int_equal(ration_limiter_allow_at(kit.limiter, &key, 1, KIT_NOW_NS + SECOND),
                                 i == 0);
            kit_end(&kit);
        }
}

/* Keys over 65535 bytes, or empty, silently not limited. */
static void long_and_empty_keys_are_limited_or_refused(void **state)
{
    static char bytes[RATION_KEY_SIZE_MAX + 2];
    static const size_t sizes[] = {0, 1, 15, 16, 17, 127, 128, 129, 255, 256, 65534, 65535};
    struct ration_decision untouched, decision;
    struct kit kit;

    (void)state;
    KIT_BEGIN(&kit, "1/h burst 2");
    memset(bytes, 'x', sizeof(bytes));
    memset(&untouched, 0x5a, sizeof(untouched));
    for (size_t i = 0; i < KIT_COUNT_OF(sizes); i++) {
        struct ration_key key = {bytes, sizes[i]};

        assert_int_equal(kit_take_key(&kit, key, 1).remaining, 1);
        assert_true(ration_limiter_allow(kit.limiter, &key));
        assert_false(ration_limiter_allow(kit.limiter, &key));
    }
    /* an empty key is one key, whatever it points to */
    assert_int_equal(kit_take_key(&kit, (struct ration_key){NULL, 0}, 1).verdict, RATION_DENY);
    assert_false(ration_limiter_allow(kit.limiter, &(struct ration_key){NULL, 0}));

    const struct ration_key wrong[] = {
        {bytes, RATION_KEY_SIZE_MAX + 1}, {bytes, SIZE_MAX}, {NULL, 1}, {NULL, SIZE_MAX}};

    for (size_t i = 0; i < KIT_COUNT_OF(wrong); i++) {
        uint64_t granted = 77;

        decision = untouched;
        assert_int_equal(
            ration_limiter_take(kit.limiter, &wrong[i], 1, KIT_NOW_NS, &decision, &decision),
            RATION_EINVAL);
        assert_int_equal(
            ration_limiter_peek(kit.limiter, &wrong[i], 1, KIT_NOW_NS, &decision, &decision),
            RATION_EINVAL);
        assert_int_equal(
            ration_limiter_take_up_to(kit.limiter, &wrong[i], 1, KIT_NOW_NS, &granted, &decision),
            RATION_EINVAL);
        assert_int_equal(ration_limiter_charge(kit.limiter, &wrong[i], 1, KIT_NOW_NS),
                         RATION_EINVAL);
        assert_false(ration_limiter_allow(kit.limiter, &wrong[i]));
        assert_same_decision(decision, untouched);
        assert_int_equal(granted, 77);
    }
    assert_int_equal(kit_report(&kit).limiter.created, KIT_COUNT_OF(sizes));
    kit_end(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_client_that_is_denied_drains_no_global_budget),
        cmocka_unit_test(a_denial_by_the_last_limit_takes_nothing_of_the_first),
        cmocka_unit_test(idling_saves_up_no_more_than_the_burst),
        cmocka_unit_test(a_debt_is_not_forgotten_before_it_is_paid),
        cmocka_unit_test(fresh_keys_do_not_free_a_blocked_one),
        cmocka_unit_test(timestamps_out_of_order_mint_nothing),
        cmocka_unit_test(a_clock_that_runs_back_behind_a_reclaimed_place_mints_nothing),
        cmocka_unit_test(long_and_empty_keys_are_limited_or_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
