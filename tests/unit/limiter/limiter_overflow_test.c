/*
 * Keys without a place, in tables so small that most keys have none: how each overflow rule decides them, what is
 * reported, and that it is counted.
 */
#include "base/random.h"
#include "unit/limiter/limiter_kit.h"

/* keys_max 1: two sets, 16 places, all of them every key's. */
static void begin_crowded(struct kit *kit, enum ration_overflow overflow, size_t rule_count,
                          uint64_t numbers[KIT_CROWD_MAX])
{
    KIT_PLAN(kit, "1/s burst 300", "1/s burst 400");
    kit->options.rule_count = rule_count;
    kit->options.keys_max = 1;
    kit->options.overflow = overflow;
    kit_open(kit);
    assert_int_equal(kit_crowd(kit, numbers), 16);
}

static void shared_keys_have_one_bucket_together(void **state)
{
    uint64_t numbers[KIT_CROWD_MAX];

    (void)state;
    for (size_t rule_count = 1; rule_count <= 2; rule_count++) {
        struct ration_limiter_stats before, after;
        struct kit_room room;
        uint64_t allowed_count = 0;
        struct kit kit;

        begin_crowded(&kit, RATION_OVERFLOW_SHARED, rule_count, numbers);
        before = kit_report(&kit).limiter;
        for (uint64_t i = 0; i < 1000; i++)
            allowed_count +=
                kit_take_key(&kit, kit_numbered(&room, 1000 + i), 1).verdict == RATION_ALLOW;
        assert_int_equal(allowed_count, 300);
        after = kit_report(&kit).limiter;
        assert_in_range(after.overflow_shared - before.overflow_shared, 300, 1000);
        assert_int_equal(after.overflow_deny + after.overflow_allow, 0);
        assert_int_equal(after.created, before.created);
        for (int i = 0; i < 16; i++) /* no key lost its place */
            assert_int_equal(kit_peek_key(&kit, kit_numbered(&room, numbers[i]), 1).verdict,
                             RATION_DENY);
        kit_end(&kit);
    }
}

/* No room for a new key: decided by the shared bucket. Allowed or denied. */
static void every_decision_of_the_shared_bucket_is_counted(void **state)
{
    uint64_t numbers[KIT_CROWD_MAX], before;
    struct kit_room room;
    struct kit kit;

    (void)state;
    begin_crowded(&kit, RATION_OVERFLOW_SHARED, 1, numbers);
    before = kit_overflow_count(&kit);
    for (uint64_t i = 0; i < 400; i++) /* 300 are allowed, then 100 denied */
        kit_take_key(&kit, kit_numbered(&room, 1000 + i), 1);
    assert_int_equal(kit_overflow_count(&kit) - before, 400);
    kit_end(&kit);
}

static void shared_use_is_inherited(void **state)
{
    uint64_t numbers[KIT_CROWD_MAX];

    (void)state;
    for (size_t rule_count = 1; rule_count <= 2; rule_count++) {
        struct kit_room room;
        struct ration_key placed;
        struct kit kit;

        begin_crowded(&kit, RATION_OVERFLOW_SHARED, rule_count, numbers);
        assert_int_equal(kit_take(&kit, "k", 200).verdict, RATION_ALLOW);
        kit_pass(&kit, 50 * SECOND);
        placed = kit_numbered(&room, numbers[5]);
        ration_limiter_reset(kit.limiter, &placed, kit.manual.ns);
        assert_answer(kit_peek(&kit, "k", 151), RATION_DENY, 150, SECOND);
        assert_answer(kit_take(&kit, "k", 10), RATION_ALLOW, 140, 0);
        assert_int_equal(kit_report(&kit).limiter.created, 17);
        kit_pass(&kit, 160 * SECOND);
        assert_int_equal(kit_left(&kit, "k"), 300);
        assert_int_equal(kit_peek(&kit, "other", 1).remaining, 300);
        kit_end(&kit);
    }
}

/* Otherwise the keys that share it would get what one of them returns. */
static void nothing_is_given_back_to_the_shared_bucket(void **state)
{
    uint64_t numbers[KIT_CROWD_MAX];

    (void)state;
    for (size_t rule_count = 1; rule_count <= 2; rule_count++) {
        struct ration_key key = RATION_KEY("k");
        struct kit kit;

        begin_crowded(&kit, RATION_OVERFLOW_SHARED, rule_count, numbers);
        kit_take(&kit, "k", 200);
        assert_int_equal(ration_limiter_refund(kit.limiter, &key, 100, kit.manual.ns), RATION_OK);
        assert_int_equal(ration_limiter_reset(kit.limiter, &key, kit.manual.ns), RATION_OK);
        assert_int_equal(kit_peek(&kit, "other", 1).remaining, 100);
        assert_int_equal(ration_limiter_charge(kit.limiter, &key, 50, kit.manual.ns), RATION_OK);
        assert_int_equal(kit_peek(&kit, "other", 1).remaining, 50);
        kit_end(&kit);
    }
}

static void allowed_keys_are_not_limited_at_all(void **state)
{
    uint64_t numbers[KIT_CROWD_MAX];

    (void)state;
    for (size_t rule_count = 1; rule_count <= 2; rule_count++) {
        struct ration_limiter_stats before, after;
        struct ration_key key = RATION_KEY("k");
        struct ration_decision details[2], got;
        struct kit kit;

        begin_crowded(&kit, RATION_OVERFLOW_ALLOW, rule_count, numbers);
        before = kit_report(&kit).limiter;
        for (int i = 0; i < 1000; i++)
            assert_true(ration_limiter_allow(kit.limiter, &key));
        assert_int_equal(ration_limiter_take(kit.limiter, &key, 300, kit.manual.ns, &got, details),
                         RATION_OK);
        assert_answer(got, RATION_ALLOW, UINT64_MAX, 0);
        assert_int_equal(got.limit, 0);
        assert_int_equal(details[0].limit, 0);
        after = kit_report(&kit).limiter;
        assert_int_equal(after.overflow_allow - before.overflow_allow, 1001);
        assert_int_equal(after.overflow_deny + after.overflow_shared, 0);
        kit_end(&kit);
    }
}

static void denied_keys_are_denied_until_a_place_is_free(void **state)
{
    uint64_t numbers[KIT_CROWD_MAX];

    (void)state;
    for (size_t rule_count = 1; rule_count <= 2; rule_count++) {
        struct ration_limiter_stats before, after;
        struct kit_room room;
        struct ration_key placed;
        struct kit kit;

        begin_crowded(&kit, RATION_OVERFLOW_DENY, rule_count, numbers);
        before = kit_report(&kit).limiter;
        for (uint64_t i = 0; i < 100; i++)
            assert_int_equal(kit_take_key(&kit, kit_numbered(&room, 1000 + i), 1).verdict,
                             RATION_DENY);
        after = kit_report(&kit).limiter;
        assert_int_equal(after.overflow_deny - before.overflow_deny, 100);
        assert_int_equal(after.overflow_shared + after.overflow_allow, 0);

        placed = kit_numbered(&room, numbers[7]);
        ration_limiter_reset(kit.limiter, &placed, kit.manual.ns);
        ration_limiter_charge(kit.limiter, &placed, 77, kit.manual.ns);
        /* charged again, it is established, and keeps its place for a minute more */
        assert_answer(kit_take(&kit, "k", 1), RATION_DENY, 0, (77 + 60) * SECOND);
        assert_wait_is_exact(&kit, kit_key("k"), 1, kit_take(&kit, "k", 1));
        assert_int_equal(kit_take(&kit, "k", 500).verdict, RATION_NEVER);
        kit_pass(&kit, (77 + 60) * SECOND);
        assert_answer(kit_take(&kit, "k", 1), RATION_ALLOW, 299, 0);
        kit_end(&kit);
    }
}

/* Texts of one limiter each, for tables whose places change hands. */
static const char *const mixed_texts[][4] = {{"1/s burst 9"},
                                             {"1/s burst 9", "20/min"},
                                             {"5/s sliding_log", "3/s burst 9"},
                                             {"9/s sliding_window"},
                                             {"3/s burst 9 reserve 7/min"}};

struct mix {
    const char *const *texts;
    enum ration_overflow overflow;
    uint64_t keys_max;
};

typedef void visitor(struct kit *kit, struct ration_key key, uint64_t cost, void *context);

/* Random traffic of many keys; visit decides. */
static void traffic(struct mix mix, visitor *visit, void *context)
{
    uint64_t random = mix.keys_max;
    struct kit kit;

    kit_plan(&kit, mix.texts);
    kit.options.keys_max = mix.keys_max;
    kit.options.overflow = mix.overflow;
    kit_open(&kit);
    for (int i = 0; i < 3000; i++) {
        struct kit_room room;
        uint64_t number = ration_random_up_to(&random, 10 * mix.keys_max + 40);

        visit(&kit, kit_numbered(&room, number), 1 + ration_random_up_to(&random, 3), context);
        kit_pass(&kit, ration_random_up_to(&random, 90 * MS) / mix.keys_max);
    }
    if (kit_overflow_count(&kit) == 0)
        fail_msg("%s: all had a place", mix.texts[0]);
    kit_end(&kit);
}

static void for_all_mixes(visitor *visit, enum ration_overflow first, enum ration_overflow last,
                          void *context)
{
    for (size_t i = 0; i < KIT_COUNT_OF(mixed_texts); i++)
        for (enum ration_overflow overflow = first; overflow <= last; overflow++)
            for (uint64_t keys_max = 1; keys_max <= 10; keys_max *= 10)
                traffic((struct mix){mixed_texts[i], overflow, keys_max}, visit, context);
}

static void peek_then_take(struct kit *kit, struct ration_key key, uint64_t cost, void *context)
{
    struct ration_decision peek = kit_peek_key(kit, key, cost);
    struct ration_decision take = kit_take_key(kit, key, cost);

    (void)context;
    if (take.verdict != RATION_ALLOW) {
        assert_same_decision(peek, take);
        return;
    }
    assert_int_equal(peek.verdict, RATION_ALLOW);
    assert_int_equal(peek.limit, take.limit);
    if (take.limit > 0 && kit->options.rule_count == 1)
        assert_in_range(peek.remaining - take.remaining, cost, cost + 1); /* fractions of windows */
}

static void a_peek_reports_what_a_take_would_be_answered(void **state)
{
    (void)state;
    for_all_mixes(peek_then_take, RATION_OVERFLOW_SHARED, RATION_OVERFLOW_ALLOW, NULL);
}

/* R4 for each denial of every key, placed or not. */
static void take_and_check_wait(struct kit *kit, struct ration_key key, uint64_t cost,
                                void *context)
{
    struct ration_decision take = kit_take_key(kit, key, cost);

    (void)context;
    if (take.verdict == RATION_DENY)
        assert_wait_is_exact(kit, key, cost, take);
}

static void r4_the_wait_reported_by_deny_is_exact(void **state)
{
    (void)state;
    for_all_mixes(take_and_check_wait, RATION_OVERFLOW_DENY, RATION_OVERFLOW_DENY, NULL);
}

/* After the reported wait it passes. */
static void take_and_check_on_time(struct kit *kit, struct ration_key key, uint64_t cost,
                                   void *context)
{
    struct ration_decision take = kit_take_key(kit, key, cost), later;

    (void)context;
    if (take.verdict != RATION_DENY)
        return;
    ration_limiter_peek(kit->limiter, &key, cost, kit->manual.ns + take.retry_after_ns, &later,
                        NULL);
    assert_int_equal(later.verdict, RATION_ALLOW);
}

static void r4_on_time_a_shared_key_passes(void **state)
{
    (void)state;
    for_all_mixes(take_and_check_on_time, RATION_OVERFLOW_SHARED, RATION_OVERFLOW_SHARED, NULL);
}

/* And not earlier, even if a place is free before the shared bucket has tokens again. */
static void r4_a_shared_key_does_not_pass_before_its_time(void **state)
{
    (void)state;
    for_all_mixes(take_and_check_wait, RATION_OVERFLOW_SHARED, RATION_OVERFLOW_SHARED, NULL);
}

/* R1 for each key, whichever bucket was charged: one bucket of its own would have given as much. */
struct promised {
    struct ration_bucket buckets[256];
    struct ration_limit limit;
};

static void take_and_check_promise(struct kit *kit, struct ration_key key, uint64_t cost,
                                   void *context)
{
    struct promised *promised = context;
    int number = 0;

    sscanf(key.bytes, "key-%d", &number);
    if (kit_take_key(kit, key, cost).verdict == RATION_ALLOW)
        assert_true(ration_bucket_allow_at(&promised->buckets[number], &promised->limit, cost,
                                           kit->manual.ns));
}

static void r1_no_key_gets_more_than_its_limit(void **state)
{
    (void)state;
    for (int overflow = RATION_OVERFLOW_SHARED; overflow <= RATION_OVERFLOW_DENY; overflow++)
        for (uint64_t keys_max = 1; keys_max <= 10; keys_max *= 10) {
            struct promised promised = {.limit = kit_limit(mixed_texts[0][0])};

            traffic((struct mix){mixed_texts[0], (enum ration_overflow)overflow, keys_max},
                    take_and_check_promise, &promised);
        }
}

/* remaining: whole tokens that could be taken now. */
static void a_peek_of_0_reports_what_is_left_to_a_key_without_a_place(void **state)
{
    uint64_t numbers[KIT_CROWD_MAX];
    struct kit kit;

    (void)state;
    begin_crowded(&kit, RATION_OVERFLOW_SHARED, 1, numbers);
    kit_take(&kit, "k", 200);
    for (uint64_t i = 0; i < 50; i++) {
        struct kit_room room;
        struct ration_key key = kit_numbered(&room, 1000 + i);

        assert_int_equal(kit_peek_key(&kit, key, 1).remaining, 100);
        assert_int_equal(kit_peek_key(&kit, key, 0).remaining, 100);
    }
    kit_end(&kit);
}

/* A block applies to one key. The keys that share its bucket are not blocked, and the caller gets an error. */
static void a_key_without_a_place_is_not_blocked_with_others(void **state)
{
    uint64_t numbers[KIT_CROWD_MAX];

    (void)state;
    for (size_t rule_count = 1; rule_count <= 2; rule_count++)
        for (enum ration_overflow overflow = RATION_OVERFLOW_SHARED;
             overflow <= RATION_OVERFLOW_ALLOW; overflow++) {
            struct ration_key placed, none = kit_key("none");
            struct ration_decision before;
            struct kit_room room;
            struct kit kit;

            begin_crowded(&kit, overflow, rule_count, numbers);
            before = kit_peek(&kit, "other", 1);
            assert_int_equal(
                ration_limiter_block_until(kit.limiter, &none, 2 * kit.manual.ns, kit.manual.ns),
                RATION_ENOMEM);
            assert_same_decision(kit_peek(&kit, "other", 1), before);
            placed = kit_numbered(&room, numbers[3]);
            assert_int_equal(
                ration_limiter_block_until(kit.limiter, &placed, 2 * kit.manual.ns, kit.manual.ns),
                RATION_OK);
            assert_int_equal(ration_limiter_charge(kit.limiter, &none, 1, kit.manual.ns),
                             overflow == RATION_OVERFLOW_DENY ? RATION_ENOMEM : RATION_OK);
            kit_end(&kit);
        }
}

/*
 * After a change of limits the shared bucket is converted once. If every reader converted it, its use would begin again
 * each time.
 */
static void r4_a_shared_bucket_is_converted_once(void **state)
{
    struct ration_rule next = {.limit = kit_limit("5/s burst 5")};
    uint64_t numbers[KIT_CROWD_MAX];
    struct kit kit;

    (void)state;
    KIT_PLAN(&kit, "1 per 1d burst 1");
    kit.options.keys_max = 1;
    kit_open(&kit);
    kit_crowd(&kit, numbers);
    assert_int_equal(kit_take(&kit, "x", 1).verdict, RATION_DENY); /* the other keys used it */
    kit_pass(&kit, 24 * 3600 * SECOND);
    assert_int_equal(kit_take(&kit, "x", 1).verdict, RATION_ALLOW);
    for (int i = 0; i < 16; i++) { /* places for everyone, under the new limit */
        struct kit_room room;
        struct ration_key key = kit_numbered(&room, numbers[i]);

        ration_limiter_reset(kit.limiter, &key, kit.manual.ns);
    }
    assert_int_equal(ration_limiter_change(kit.limiter, &next, 1, RATION_CHANGE_KEEP, NULL),
                     RATION_OK);
    for (int i = 0; i < 5; i++) {
        struct ration_decision got = kit_take(&kit, "x", 1);

        if (got.verdict == RATION_ALLOW)
            break;
        kit_pass(&kit, got.retry_after_ns);
        assert_int_equal(kit_take(&kit, "x", 1).verdict, RATION_ALLOW);
    }
    kit_end(&kit);
}

/* The decision for a key with an inline limit. */
static struct ration_decision take_as(struct kit *kit, const char *name, const char *limit_text)
{
    struct ration_limit limit = kit_limit(limit_text);
    struct ration_key key = kit_key(name);
    struct ration_decision decision = {0};
    struct ration_batch_item item = {
        .request = &key, .cost_tokens = 1, .limit = &limit, .decision = &decision};

    ration_limiter_take_batch(kit->limiter, &item, 1, kit->manual.ns);
    assert_int_equal(item.status, RATION_OK);
    return decision;
}

/*
 * Requests have inline limits. A client that drains an overflow bucket with a limit that fills in a day does not affect
 * clients whose limits fill in a minute; and no reported wait is much longer than that.
 */
static void a_slow_inline_limit_does_not_affect_a_fast_one(void **state)
{
    uint64_t numbers[KIT_CROWD_MAX];
    char name[32];
    struct kit kit;

    (void)state;
    KIT_PLAN(&kit, "1/s burst 300");
    kit.options.keys_max = 1;
    kit.options.has_inline_limits = 1;
    kit_open(&kit);
    assert_int_equal(kit_crowd(&kit, numbers), 16);
    for (int i = 0; i < 100; i++) {
        snprintf(name, sizeof(name), "evil-%d", i);
        take_as(&kit, name, "1 per 1d burst 1");
    }
    assert_answer(take_as(&kit, "evil-x", "1 per 1d burst 1"), RATION_DENY, 0, 24 * 3600 * SECOND);
    assert_answer(take_as(&kit, "honest", "10/min"), RATION_ALLOW, 9, 0);
    for (int i = 0; i < 100; i++) {
        snprintf(name, sizeof(name), "near-%d",
                 i); /* of the same class: at most a quarter longer */
        take_as(&kit, name, "1/min burst 1");
    }
    assert_in_range(take_as(&kit, "honest", "10/min burst 9").retry_after_ns, 0, 60 * SECOND);
    kit_end(&kit);
}

/* The keys that share a bucket are not charged for what one of them used beyond the available tokens. */
static void a_charge_leaves_the_shared_bucket_empty_at_most(void **state)
{
    uint64_t numbers[KIT_CROWD_MAX];

    (void)state;
    for (size_t rule_count = 1; rule_count <= 2; rule_count++) {
        struct ration_key key = kit_key("k");
        struct kit kit;

        begin_crowded(&kit, RATION_OVERFLOW_SHARED, rule_count, numbers);
        ration_limiter_charge(kit.limiter, &key, 1000000, kit.manual.ns);
        assert_answer(kit_take(&kit, "other", 1), RATION_DENY, 0, SECOND);
        kit_pass(&kit, 300 * SECOND);
        assert_int_equal(kit_left(&kit, "other"), 300);
        kit_end(&kit);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_key_without_a_place_is_not_blocked_with_others),
        cmocka_unit_test(r4_a_shared_bucket_is_converted_once),
        cmocka_unit_test(shared_keys_have_one_bucket_together),
        cmocka_unit_test(every_decision_of_the_shared_bucket_is_counted),
        cmocka_unit_test(shared_use_is_inherited),
        cmocka_unit_test(a_slow_inline_limit_does_not_affect_a_fast_one),
        cmocka_unit_test(a_charge_leaves_the_shared_bucket_empty_at_most),
        cmocka_unit_test(nothing_is_given_back_to_the_shared_bucket),
        cmocka_unit_test(allowed_keys_are_not_limited_at_all),
        cmocka_unit_test(denied_keys_are_denied_until_a_place_is_free),
        cmocka_unit_test(a_peek_reports_what_a_take_would_be_answered),
        cmocka_unit_test(r4_the_wait_reported_by_deny_is_exact),
        cmocka_unit_test(r4_on_time_a_shared_key_passes),
        cmocka_unit_test(r4_a_shared_key_does_not_pass_before_its_time),
        cmocka_unit_test(r1_no_key_gets_more_than_its_limit),
        cmocka_unit_test(a_peek_of_0_reports_what_is_left_to_a_key_without_a_place),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
