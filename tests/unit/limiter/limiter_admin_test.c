/*
 * Admin operations: refund, charge, reset, block. On a key with one limit in
 * a slot, in an entry, and with several.
 */
#include "base/random.h"
#include "unit/limiter/limiter_kit.h"

static const struct ration_key key = {"k", 1};

enum shape { SLOT, ENTRY, SEVERAL, SHAPE_COUNT };

/* A limiter whose first rule is text, and the others, if any, never bind. */
static void begin(struct kit *kit, enum shape shape, const char *text)
{
    if (shape == SEVERAL)
        KIT_PLAN(kit, text, "1G/s burst 1G", "1G/s burst 1G");
    else
        KIT_PLAN(kit, text);
    kit->options.is_stackable = shape == ENTRY;
    kit_open(kit);
}

static const char *const bucket_texts[] = {
    "10/s burst 20",           "3/s burst 7",
    "7/s burst 5 leaky_queue", "5/s burst 12 refill interval",
    "9/s fixed_window",        "9/s sliding_window"};

/* Every admin operation does to the key what it does to a bucket. */
static void admin_operations_do_what_they_do_to_a_bucket(void **state)
{
    (void)state;
    for (size_t t = 0; t < KIT_COUNT_OF(bucket_texts); t++)
        for (enum shape shape = SLOT; shape < SHAPE_COUNT; shape++) {
            struct ration_bucket bucket = {{0}};
            struct ration_limit limit = kit_limit(bucket_texts[t]);
            uint64_t random = t + 1;
            struct kit kit;

            begin(&kit, shape, bucket_texts[t]);
            for (int i = 0; i < 2000; i++) {
                uint64_t tokens = ration_random_up_to(&random, 6);
                uint64_t until_ns;
                struct ration_decision got;

                kit_pass(&kit, ration_random_up_to(&random, 400 * MS));
                until_ns = kit.manual.ns + ration_random_up_to(&random, SECOND);
                switch (ration_random_up_to(&random, 7)) {
                case 0:
                    ration_bucket_refund(&bucket, &limit, tokens, kit.manual.ns);
                    assert_int_equal(
                        ration_limiter_refund(kit.limiter, &key, tokens, kit.manual.ns), RATION_OK);
                    break;
                case 1:
                    ration_bucket_charge(&bucket, &limit, tokens, kit.manual.ns);
                    assert_int_equal(
                        ration_limiter_charge(kit.limiter, &key, tokens, kit.manual.ns), RATION_OK);
                    break;
                case 2:
                    ration_bucket_set(&bucket, &limit, limit.burst, kit.manual.ns);
                    assert_int_equal(ration_limiter_reset(kit.limiter, &key, kit.manual.ns),
                                     RATION_OK);
                    break;
                case 3:
                    if (shape == SEVERAL)
                        break; /* the other rules are blocked too: see below */
                    assert_int_equal(
                        ration_limiter_block_until(kit.limiter, &key, until_ns, kit.manual.ns),
                        ration_bucket_block_until(&bucket, &limit, until_ns));
                    break;
                default:
                    ration_bucket_allow_at(&bucket, &limit, tokens, kit.manual.ns);
                    ration_limiter_allow_at(kit.limiter, &key, tokens, kit.manual.ns);
                }
                for (uint64_t cost = 0; cost < 3; cost++) {
                    struct ration_decision details[RATION_RULES_MAX];
                    struct ration_decision want =
                        ration_bucket_peek(&bucket, &limit, cost, kit.manual.ns);

                    ration_limiter_peek(kit.limiter, &key, cost, kit.manual.ns, &got, details);
                    assert_same_decision(details[0], want);
                }
            }
            kit_end(&kit);
        }
}

static void refund_never_holds_more_than_the_burst(void **state)
{
    static const char *const texts[] = {"10/h burst 20",     "20/h refill interval",
                                        "20/h fixed_window", "20/h sliding_window",
                                        "20/h sliding_log",  "10/h burst 20 leaky_queue"};

    (void)state;
    for (size_t i = 0; i < KIT_COUNT_OF(texts); i++)
        for (enum shape shape = SLOT; shape < SHAPE_COUNT; shape++) {
            struct kit kit;

            begin(&kit, shape, texts[i]);
            kit_take(&kit, "k", 5);
            assert_int_equal(kit_left(&kit, "k"), 15);
            ration_limiter_refund(kit.limiter, &key, 2, kit.manual.ns);
            assert_int_equal(kit_left(&kit, "k"), 17);
            ration_limiter_refund(kit.limiter, &key, 1000, kit.manual.ns);
            assert_int_equal(kit_left(&kit, "k"), 20);
            ration_limiter_refund(kit.limiter, &key, UINT64_MAX, kit.manual.ns);
            assert_int_equal(kit_left(&kit, "k"), 20);
            assert_int_equal(kit_take(&kit, "k", 20).verdict, RATION_ALLOW);
            assert_int_equal(kit_take(&kit, "k", 1).verdict, RATION_DENY);
            kit_end(&kit);
        }
}

/* Each rule by its own state: a refund to a full bucket is lost. */
static void refund_and_charge_reach_every_limit(void **state)
{
    struct ration_decision got, details[2];
    struct kit kit;

    (void)state;
    KIT_BEGIN(&kit, "10/h", "1/s burst 10");
    kit_take(&kit, "k", 4);
    kit_pass(&kit, 3 * SECOND);
    ration_limiter_refund(kit.limiter, &key, 2, kit.manual.ns);
    ration_limiter_peek(kit.limiter, &key, 0, kit.manual.ns, &got, details);
    assert_int_equal(details[0].remaining, 8);
    assert_int_equal(details[1].remaining, 10);

    ration_limiter_charge(kit.limiter, &key, 25, kit.manual.ns);
    got = kit_peek(&kit, "k", 1);
    assert_int_equal(got.verdict, RATION_DENY);
    ration_limiter_peek(kit.limiter, &key, 1, kit.manual.ns, &got, details);
    assert_answer(details[1], RATION_DENY, 0, 16 * SECOND); /* 15 below zero */
    assert_wait_is_exact(&kit, key, 1, got);
    kit_end(&kit);
}

static void charge_is_charged_whatever_is_left_and_bounded(void **state)
{
    (void)state;
    for (enum shape shape = SLOT; shape < SHAPE_COUNT; shape++) {
        struct kit kit;

        begin(&kit, shape, "1/s burst 10");
        ration_limiter_charge(kit.limiter, &key, 15, kit.manual.ns); /* of a key never seen */
        assert_answer(kit_peek(&kit, "k", 1), RATION_DENY, 0, 6 * SECOND);
        for (int i = 0; i < 10; i++) /* use worth centuries is bounded, and does not wrap */
            assert_int_equal(ration_limiter_charge(kit.limiter, &key, UINT64_MAX, kit.manual.ns),
                             RATION_OK);
        assert_true(kit_peek(&kit, "k", 1).retry_after_ns > 17 * RATION_NS_PER_YEAR);
        ration_limiter_reset(kit.limiter, &key, kit.manual.ns);
        assert_int_equal(kit_left(&kit, "k"), 10);
        kit_end(&kit);
    }
}

/* Like a new key: a limit that starts with 2 has 2. */
static void reset_starts_again(void **state)
{
    static const struct {
        const char *text;
        uint64_t left;
    } rows[] = {{"10/h burst 10", 10},
                {"10/h burst 10 start 2", 2},
                {"10/h burst 10 start empty", 0},
                {"10/h sliding_log", 10},
                {"10/h sliding_log start 2", 2},
                {"10/h sliding_window", 10},
                {"10/h burst 4 reserve 1/h burst 6", 10}};

    (void)state;
    for (size_t i = 0; i < KIT_COUNT_OF(rows); i++)
        for (enum shape shape = SLOT; shape < SHAPE_COUNT; shape++) {
            struct kit kit;

            begin(&kit, shape, rows[i].text);
            ration_limiter_charge(kit.limiter, &key, 9, kit.manual.ns);
            assert_int_equal(ration_limiter_reset(kit.limiter, &key, kit.manual.ns), RATION_OK);
            assert_int_equal(kit_left(&kit, "k"), rows[i].left);
            assert_int_equal(
                ration_limiter_reset(kit.limiter, &(struct ration_key){"other", 5}, kit.manual.ns),
                RATION_OK);
            assert_int_equal(kit_left(&kit, "other"), rows[i].left);
            kit_end(&kit);
        }
}

static void a_block_denies_everything_until_then(void **state)
{
    static const char *const texts[] = {"10/s burst 20", "3/s burst 7",
                                        "5/s burst 12 refill interval",
                                        "3/s burst 4 reserve 7/min burst 9"};

    (void)state;
    for (size_t i = 0; i < KIT_COUNT_OF(texts); i++)
        for (enum shape shape = SLOT; shape < SHAPE_COUNT; shape++) {
            uint64_t until_ns = KIT_NOW_NS + 33 * SECOND + 7;
            struct kit kit;

            begin(&kit, shape, texts[i]);
            if (i % 2 == 0)
                kit_take(&kit, "k", 2);
            assert_int_equal(ration_limiter_block_until(kit.limiter, &key, until_ns, KIT_NOW_NS),
                             RATION_OK);
            assert_answer(kit_take(&kit, "k", 1), RATION_DENY, 0, until_ns - KIT_NOW_NS);
            assert_wait_is_exact(&kit, key, 1, kit_peek(&kit, "k", 1));
            ration_limiter_block_until(kit.limiter, &key, KIT_NOW_NS + SECOND, KIT_NOW_NS);
            assert_answer(kit_take(&kit, "k", 1), RATION_DENY, 0, until_ns - KIT_NOW_NS);
            assert_int_equal(kit_take(&kit, "other", 1).verdict, RATION_ALLOW);
            ration_limiter_block_until(kit.limiter, &key, until_ns + SECOND, KIT_NOW_NS);
            assert_answer(kit_take(&kit, "k", 1), RATION_DENY, 0, until_ns + SECOND - KIT_NOW_NS);
            kit_end(&kit);
        }
}

/* A table counts 18 years from its epoch; a later now is the last of them. */
static void a_block_beyond_the_tables_time_is_as_long_as_asked(void **state)
{
    static const uint64_t nows_ns[] = {UINT64_C(1000000000000000000), UINT64_MAX - 10 * SECOND,
                                       UINT64_MAX};

    (void)state;
    for (size_t i = 0; i < KIT_COUNT_OF(nows_ns); i++)
        for (enum shape shape = SLOT; shape < SHAPE_COUNT; shape++) {
            uint64_t until_ns = nows_ns[i] + 5 * SECOND;
            struct kit kit;

            if (until_ns < nows_ns[i])
                until_ns = UINT64_MAX;
            begin(&kit, shape, "10/s burst 20");
            ration_clock_manual_set(&kit.manual, nows_ns[i]);
            assert_int_equal(ration_limiter_block_until(kit.limiter, &key, until_ns, nows_ns[i]),
                             RATION_OK);
            if (until_ns > nows_ns[i])
                assert_answer(kit_peek(&kit, "k", 1), RATION_DENY, 0, 5 * SECOND);
            else
                assert_int_equal(kit_peek(&kit, "k", 1).verdict, RATION_ALLOW);
            kit_end(&kit);
        }
}

static void a_later_refill_time_stays(void **state)
{
    struct kit kit;

    (void)state;
    KIT_BEGIN(&kit, "1/s burst 10", "1/s burst 10");
    ration_limiter_charge(kit.limiter, &key, 100, kit.manual.ns);
    ration_limiter_block_until(kit.limiter, &key, KIT_NOW_NS + 5 * SECOND, KIT_NOW_NS);
    assert_answer(kit_peek(&kit, "k", 1), RATION_DENY, 0, 91 * SECOND);
    kit_end(&kit);
}

/* Windows and logs cannot hold a block; one other limit that can is enough, if it is enforced. */
static void a_block_that_no_limit_can_hold_is_refused(void **state)
{
    static const char *const windows[] = {"9/s fixed_window", "9/s sliding_window",
                                          "9/s sliding_log"};
    struct kit kit;

    (void)state;
    for (size_t i = 0; i < KIT_COUNT_OF(windows); i++) {
        KIT_BEGIN(&kit, windows[i]);
        assert_int_equal(
            ration_limiter_block_until(kit.limiter, &key, KIT_NOW_NS + SECOND, KIT_NOW_NS),
            RATION_EUNSUPPORTED);
        assert_int_equal(kit_left(&kit, "k"), 9);
        kit_end(&kit);
        KIT_BEGIN(&kit, windows[i], "1/s");
        assert_int_equal(
            ration_limiter_block_until(kit.limiter, &key, KIT_NOW_NS + SECOND, KIT_NOW_NS),
            RATION_OK);
        assert_answer(kit_peek(&kit, "k", 1), RATION_DENY, 0, SECOND);
        kit_end(&kit);
        KIT_PLAN(&kit, windows[i], "1/s");
        kit.rules[1].is_shadow = 1;
        kit_open(&kit);
        assert_int_equal(
            ration_limiter_block_until(kit.limiter, &key, KIT_NOW_NS + SECOND, KIT_NOW_NS),
            RATION_EUNSUPPORTED);
        kit_end(&kit);
    }
}

/* Anything longer could not be saved: nothing is blocked, and the bound is RATION_BLOCK_NS_MAX. */
static void a_block_that_is_too_long_is_refused(void **state)
{
    struct kit kit;

    (void)state;
    KIT_BEGIN(&kit, "1/s", "9/s sliding_log");
    assert_int_equal(ration_limiter_block_until(kit.limiter, &key,
                                                KIT_NOW_NS + RATION_BLOCK_NS_MAX + 1, KIT_NOW_NS),
                     RATION_ERANGE);
    assert_int_equal(ration_limiter_block_until(kit.limiter, &key, UINT64_MAX, 0), RATION_ERANGE);
    assert_int_equal(kit_left(&kit, "k"), 1);
    assert_int_equal(
        ration_limiter_block_until(kit.limiter, &key, KIT_NOW_NS + RATION_BLOCK_NS_MAX, KIT_NOW_NS),
        RATION_OK);
    assert_answer(kit_peek(&kit, "k", 1), RATION_DENY, 0, RATION_BLOCK_NS_MAX);
    kit_end(&kit);
}

static const struct ration_limit *choose_none(void *context, const void *request,
                                              uint64_t *cost_tokens)
{
    (void)context, (void)request, (void)cost_tokens;
    return NULL;
}

/* After OK the caller assumes that the key is blocked. */
static void a_block_by_a_rule_that_does_not_apply_is_refused(void **state)
{
    struct kit kit;

    (void)state;
    KIT_PLAN(&kit, "1/s", "9/s sliding_window");
    kit.rules[0].choose = choose_none;
    kit_open(&kit);
    assert_int_equal(ration_limiter_block_until(kit.limiter, &key, KIT_NOW_NS + SECOND, KIT_NOW_NS),
                     RATION_EUNSUPPORTED);
    assert_int_equal(kit_peek(&kit, "k", 1).verdict, RATION_ALLOW);
    kit_end(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(admin_operations_do_what_they_do_to_a_bucket),
        cmocka_unit_test(refund_never_holds_more_than_the_burst),
        cmocka_unit_test(refund_and_charge_reach_every_limit),
        cmocka_unit_test(charge_is_charged_whatever_is_left_and_bounded),
        cmocka_unit_test(reset_starts_again),
        cmocka_unit_test(a_block_denies_everything_until_then),
        cmocka_unit_test(a_block_beyond_the_tables_time_is_as_long_as_asked),
        cmocka_unit_test(a_later_refill_time_stays),
        cmocka_unit_test(a_block_that_no_limit_can_hold_is_refused),
        cmocka_unit_test(a_block_that_is_too_long_is_refused),
        cmocka_unit_test(a_block_by_a_rule_that_does_not_apply_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
