/*
 * A batch decides like single calls one after the other, for every algorithm, number of rules and size.
 */
#include <stdlib.h>

#include "support/subjects.h"
#include "unit/limiter/limiter_kit.h"

#define ITEMS_MAX 1000

static const size_t sizes[] = {0, 1, 2, 31, 32, 33, 63, 64, 65, ITEMS_MAX};

static struct ration_batch_item items[ITEMS_MAX];
static struct subject_key keys[ITEMS_MAX];
static struct ration_decision decisions[ITEMS_MAX];

/* Fills a batch with random keys, many of them more than once, and random costs. */
static void fill(size_t count, uint64_t key_count, uint64_t *random)
{
    bool is_reported = ration_random_up_to(random, 1) == 0;

    for (size_t i = 0; i < count; i++)
        items[i] = (struct ration_batch_item){
            .decision = is_reported ? &decisions[i] : NULL,
            .request = subject_request(&keys[i], ration_random_up_to(random, key_count - 1)),
            .cost_tokens =
                ration_random_up_to(random, 30) == 0 ? UINT64_MAX : ration_random_up_to(random, 3),
            .verdict = (enum ration_verdict)77,
            .status = RATION_ESTORE,
        };
}

/* The batch by one limiter, one after the other by the other; all answers must be the same. */
static void decide_both(ration_limiter *batched, ration_limiter *single, size_t count,
                        uint64_t now_ns, const char *name)
{
    size_t wanted_count = 0;
    size_t allowed_count = ration_limiter_take_batch(batched, items, count, now_ns);

    for (size_t i = 0; i < count; i++) {
        struct ration_decision decision = {.verdict = RATION_DENY};
        ration_status status = ration_limiter_take(single, items[i].request, items[i].cost_tokens,
                                                   now_ns, &decision, NULL);

        if (items[i].status != status ||
            (status == RATION_OK && items[i].verdict != decision.verdict))
            fail_msg("%s: item %zu of %zu is %s, %s; alone %s, %s", name, i, count,
                     ration_status_name(items[i].status),
                     ration_decision_verdict_name(items[i].verdict), ration_status_name(status),
                     ration_decision_verdict_name(decision.verdict));
        if (items[i].decision != NULL && status == RATION_OK)
            assert_same_decision(*items[i].decision, decision);
        wanted_count += status == RATION_OK && decision.verdict == RATION_ALLOW;
    }
    assert_int_equal(allowed_count, wanted_count);
}

static struct ration_limiter_options options_of(const struct subject *subject, struct kit *kit,
                                                struct ration_rule *rules)
{
    KIT_PLAN(kit, "1/s"); /* for its clock */
    return subject_options(subject, rules, &kit->clock);
}

static void compare(const struct subject *subject, uint32_t trusts_keys, uint64_t key_count)
{
    struct ration_rule rules[SUBJECT_RULES_MAX];
    struct kit kit;
    struct ration_limiter_options options = options_of(subject, &kit, rules);
    struct ration_limiter_report a, b;
    uint64_t random = key_count;
    ration_limiter *batched, *single;

    options.trusts_keys = trusts_keys;
    batched = subject_create(&options);
    single = subject_create(&options);
    for (int round = 0; round < 5; round++)
        for (size_t i = 0; i < KIT_COUNT_OF(sizes); i++) {
            fill(sizes[i], key_count, &random);
            kit_pass(&kit, ration_random_up_to(&random, 300 * MS));
            decide_both(batched, single, sizes[i], kit.manual.ns, subject->name);
        }
    assert_int_equal(subjects_differ(batched, kit.manual.ns, single, kit.manual.ns, key_count), 0);

    /* and the counters are equal */
    ration_limiter_read_report(batched, &a);
    ration_limiter_read_report(single, &b);
    for (size_t i = 0; i < options.rule_count; i++) {
        a.rules[i].near_limit = b.rules[i].near_limit; /* only reported fields can be compared */
        assert_memory_equal(&a.rules[i], &b.rules[i], sizeof(a.rules[i]));
    }
    assert_int_equal(a.limiter.created - a.limiter.reclaimed,
                     b.limiter.created - b.limiter.reclaimed);
    ration_limiter_free(batched);
    ration_limiter_free(single);
}

static void a_batch_answers_as_one_call_after_the_other(void **state)
{
    static const struct subject eight = {.name = "four buckets",
                                         .rules = {"9/s", "8/s", "7/s burst 9", "30/min"}};

    (void)state;
    for (size_t i = 0; i < SUBJECT_COUNT; i++)
        for (uint32_t trusts_keys = 0; trusts_keys <= 1; trusts_keys++) {
            compare(&subjects[i], trusts_keys, 3);   /* the same few keys again and again */
            compare(&subjects[i], trusts_keys, 400); /* some absent, some there */
        }
    compare(&eight, 0, 50);
}

/* Ten tokens, and 32 items of one new key: the first ten pass, in their order. */
static void a_key_repeated_in_one_batch_gets_no_more_than_its_burst(void **state)
{
    (void)state;
    for (uint32_t is_stackable = 0; is_stackable <= 1; is_stackable++)
        for (int first = 0; first <= 1; first++) {
            struct ration_key key = RATION_KEY("k");
            struct kit kit;

            KIT_PLAN(&kit, "1/h burst 10");
            kit.options.is_stackable = is_stackable;
            kit_open(&kit);
            kit_take(&kit, "k", (uint64_t)first); /* absent, or there */
            for (size_t i = 0; i < 100; i++)
                items[i] = (struct ration_batch_item){.request = &key, .cost_tokens = 1};
            assert_int_equal(ration_limiter_take_batch(kit.limiter, items, 100, KIT_NOW_NS),
                             10 - first);
            for (int i = 0; i < 100; i++)
                assert_int_equal(items[i].verdict, i < 10 - first ? RATION_ALLOW : RATION_DENY);
            kit_end(&kit);
        }
}

/* One bucket per key, whatever inline limits its requests have, like a separate bucket. */
static void limits_that_come_with_requests(void **state)
{
    static const char *const texts[] = {"1/s burst 5", "100/s burst 3", "7/min burst 100", "3/ms"};
    struct ration_bucket buckets[20] = {{{0}}};
    struct ration_limit limits[KIT_COUNT_OF(texts)];
    struct kit kit;
    uint64_t random = 11;

    (void)state;
    for (size_t i = 0; i < KIT_COUNT_OF(texts); i++)
        limits[i] = kit_limit(texts[i]);
    KIT_BEGIN(&kit, "1/s");
    for (int round = 0; round < 300; round++) {
        uint64_t numbers[100];

        fill(100, 20, &random);
        for (size_t i = 0; i < 100; i++) {
            numbers[i] = ration_random_up_to(&random, 19);
            items[i].request = subject_request(&keys[i], numbers[i]);
            items[i].limit = &limits[ration_random_up_to(&random, KIT_COUNT_OF(texts) - 1)];
            items[i].decision = &decisions[i];
        }
        ration_limiter_take_batch(kit.limiter, items, 100, kit.manual.ns);
        for (size_t i = 0; i < 100; i++) {
            assert_int_equal(items[i].status, RATION_OK);
            assert_int_equal(items[i].verdict, decisions[i].verdict);
            assert_same_decision(decisions[i],
                                 ration_bucket_take(&buckets[numbers[i]], items[i].limit,
                                                    items[i].cost_tokens, kit.manual.ns));
        }
        kit_pass(&kit, ration_random_up_to(&random, 300) * MS);
    }
    kit_end(&kit);
}

static void limits_of_another_kind_are_not_for_this_rule(void **state)
{
    struct ration_limit window = kit_limit("5/s fixed_window"),
                        empty = kit_limit("5/s start empty");
    struct ration_key key = RATION_KEY("k");
    struct kit kit;

    (void)state;
    KIT_BEGIN(&kit, "1/s", "2/s");
    items[0] = (struct ration_batch_item){.request = &key, .cost_tokens = 1, .limit = &empty};
    assert_int_equal(ration_limiter_take_batch(kit.limiter, items, 1, KIT_NOW_NS), 0);
    assert_int_equal(items[0].status, RATION_EUNSUPPORTED); /* in place of which of the two? */
    kit_end(&kit);
    KIT_BEGIN(&kit, "1/s");
    items[0].limit = &window;
    assert_int_equal(ration_limiter_take_batch(kit.limiter, items, 1, KIT_NOW_NS), 0);
    assert_int_equal(items[0].status, RATION_EUNSUPPORTED);
    assert_int_equal(kit_left(&kit, "k"), 1);
    kit_end(&kit);
}

static void an_error_in_a_batch_is_its_items_own(void **state)
{
    static char bytes[RATION_KEY_SIZE_MAX + 1];
    static const struct ration_key too_long = {bytes, sizeof(bytes)}, no_bytes = {NULL, 1};
    struct ration_limiter_report report;

    (void)state;
    for (size_t rule_count = 1; rule_count <= 2; rule_count++) {
        struct kit kit;

        KIT_PLAN(&kit, "1/h burst 100", "1/h burst 200");
        kit.options.rule_count = rule_count;
        kit_open(&kit);
        for (size_t i = 0; i < 90; i++)
            items[i] = (struct ration_batch_item){
                .request = i % 3 == 0   ? subject_request(&keys[i], i % 2)
                           : i % 9 == 1 ? NULL
                           : i % 9 == 2 ? &no_bytes
                                        : (const void *)&too_long,
                .cost_tokens = 1,
                .status = RATION_ESTORE,
            };
        assert_int_equal(ration_limiter_take_batch(kit.limiter, items, 90, KIT_NOW_NS), 30);
        for (size_t i = 0; i < 90; i++) {
            assert_int_equal(items[i].status, i % 3 == 0 ? RATION_OK : RATION_EINVAL);
            if (i % 3 == 0)
                assert_int_equal(items[i].verdict, RATION_ALLOW);
        }
        report = kit_report(&kit);
        assert_int_equal(report.rules[0].errors, 60);
        assert_int_equal(report.rules[0].allowed, 30);
        assert_int_equal(kit_left(&kit, "key-0"), 85);
        kit_end(&kit);
    }
}

/* A change of limits between two batches: the first touch converts, in a batch too. */
static void a_batch_after_a_change_of_limits(void **state)
{
    static const struct subject old = {.name = "changed", .rules = {"3/s burst 7"}};
    struct ration_rule rules[SUBJECT_RULES_MAX];
    struct kit kit;
    struct ration_limiter_options options = options_of(&old, &kit, rules);
    ration_limiter *batched = subject_create(&options), *single = subject_create(&options);
    uint64_t random = 5;

    (void)state;
    for (int change = 0; change < 20; change++) {
        struct ration_rule next = {.limit = kit_limit(change % 2 ? "3/s burst 7" : "9/s burst 5")};

        assert_int_equal(ration_limiter_change(batched, &next, 1, RATION_CHANGE_KEEP, NULL),
                         RATION_OK);
        assert_int_equal(ration_limiter_change(single, &next, 1, RATION_CHANGE_KEEP, NULL),
                         RATION_OK);
        fill(200, 60, &random);
        decide_both(batched, single, 200, kit.manual.ns, old.name);
        kit_pass(&kit, 100 * MS);
    }
    ration_limiter_free(batched);
    ration_limiter_free(single);
}

/* Two limiters hash alike only if they trust their keys: so these overflow alike, too. */
static void a_batch_of_keys_without_a_place(void **state)
{
    static const enum ration_overflow rules_of_overflow[] = {
        RATION_OVERFLOW_SHARED, RATION_OVERFLOW_DENY, RATION_OVERFLOW_ALLOW};
    static const struct subject subject = {.name = "overflow", .rules = {"1/s burst 9"}};

    (void)state;
    for (size_t i = 0; i < KIT_COUNT_OF(rules_of_overflow); i++)
        for (uint64_t keys_max = 1; keys_max < 200; keys_max *= 6) {
            struct ration_rule rules[SUBJECT_RULES_MAX];
            struct kit kit;
            struct ration_limiter_options options = options_of(&subject, &kit, rules);
            uint64_t random = 5;

            options.overflow = rules_of_overflow[i];
            options.trusts_keys = 1;
            options.keys_max = keys_max;

            ration_limiter *batched = subject_create(&options), *single = subject_create(&options);

            for (int round = 0; round < 100; round++) {
                fill(33, 4 * keys_max + 30, &random);
                kit_pass(&kit, ration_random_up_to(&random, 700 * MS));
                decide_both(batched, single, 33, kit.manual.ns, subject.name);
            }
            ration_limiter_free(batched);
            ration_limiter_free(single);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_batch_answers_as_one_call_after_the_other),
        cmocka_unit_test(a_key_repeated_in_one_batch_gets_no_more_than_its_burst),
        cmocka_unit_test(limits_that_come_with_requests),
        cmocka_unit_test(limits_of_another_kind_are_not_for_this_rule),
        cmocka_unit_test(an_error_in_a_batch_is_its_items_own),
        cmocka_unit_test(a_batch_after_a_change_of_limits),
        cmocka_unit_test(a_batch_of_keys_without_a_place),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
