/*
 * The fast path of a decision against a separate bucket, which core/gcra.h decides directly: limits whose capacity is
 * close to what one word holds, tokens with fractions, times that stop, jump and run backwards; and keys of every size.
 */
#include "base/random.h"
#include "unit/limiter/limiter_kit.h"

#define SHORT_NS (UINT64_C(1) << 43) /* the first capacity that does not fit one word */

/* A limit of burst tokens that is full after about capacity_ns. */
static bool make_limit(uint64_t capacity_ns, uint64_t burst, struct ration_limit *out_limit)
{
    struct ration_limit_spec spec = {.tokens = burst,
                                     .period_ns = capacity_ns,
                                     .burst = burst,
                                     .algorithm = RATION_TOKEN_BUCKET};

    return ration_limit_make(&spec, out_limit, NULL) == RATION_OK;
}

static uint64_t next_now(uint64_t *random, uint64_t now_ns, const struct ration_limit *limit)
{
    uint64_t span_ns = limit->rate.capacity.ns + 2;

    switch (ration_random_up_to(random, 7)) {
    case 0:
        return now_ns;
    case 1:
        return now_ns + 1;
    case 2:
        return now_ns + ration_random_up_to(random, 2 * span_ns);
    case 3:
        return now_ns > span_ns ? now_ns - ration_random_up_to(random, span_ns) : now_ns;
    default:
        return now_ns + ration_random_up_to(random, 2 * limit->rate.token.ns + 2);
    }
}

static void compare(const struct ration_limit *limit, uint64_t *random, int count)
{
    struct ration_bucket bucket = {0};
    uint64_t now_ns = ration_random_up_to(random, UINT64_C(1) << 50);
    struct ration_key key = RATION_KEY("0123456789abcdef");
    struct kit kit;

    KIT_PLAN(&kit, "1/s");
    kit.rules[0].limit = *limit;
    kit_open(&kit);
    for (int i = 0; i < count && now_ns < UINT64_C(1) << 58; i++) { /* a table counts 17 years */
        uint64_t cost = ration_random_up_to(random, 9) == 0 ? ration_random_up_to(random, 3) : 1;
        bool allowed = ration_limiter_allow_at(kit.limiter, &key, cost, now_ns);

        if (allowed != ration_bucket_allow_at(&bucket, limit, cost, now_ns))
            fail_msg("capacity %llu ns, burst %llu: call %d, cost %llu at %llu: %s",
                     (unsigned long long)limit->rate.capacity.ns,
                     (unsigned long long)limit->rate.burst, i, (unsigned long long)cost,
                     (unsigned long long)now_ns, allowed ? "allowed" : "denied");
        if (ration_random_up_to(random, 99) == 0) { /* a debt that no take could make */
            ration_bucket_charge(&bucket, limit, limit->burst, now_ns);
            ration_limiter_charge(kit.limiter, &key, limit->burst, now_ns);
        }
        now_ns = next_now(random, now_ns, limit);
    }
    kit_end(&kit);
}

static void r1_r4_capacities_around_one_word(void **state)
{
    static const uint64_t capacities_ns[] = {1,
                                             7,
                                             1000,
                                             999999937,
                                             SHORT_NS - 2,
                                             SHORT_NS - 1,
                                             SHORT_NS,
                                             SHORT_NS + 1,
                                             3 * SHORT_NS,
                                             UINT64_C(1) << 58};
    static const uint64_t bursts[] = {1, 2, 3, 7, 1000, 999983};
    uint64_t random = 1;

    (void)state;
    for (size_t c = 0; c < KIT_COUNT_OF(capacities_ns); c++)
        for (size_t b = 0; b < KIT_COUNT_OF(bursts); b++) {
            struct ration_limit limit;

            if (make_limit(capacities_ns[c], bursts[b], &limit))
                compare(&limit, &random, 20000 / KIT_SHARE);
        }
}

/* One and by 32, of every size, both of them in the line that is looked at first and elsewhere. */
static void keys_of_every_size_have_a_bucket(void **state)
{
    static char bytes[300];
    struct kit kit;

    (void)state;
    memset(bytes, 'k', sizeof(bytes));
    KIT_BEGIN(&kit, "3/h");
    for (size_t size = 0; size <= sizeof(bytes); size++) {
        struct ration_key key = {bytes, size};
        struct ration_batch_item item = {.request = &key, .cost_tokens = 1};

        assert_true(ration_limiter_allow_at(kit.limiter, &key, 1, KIT_NOW_NS));
        assert_int_equal(ration_limiter_take_batch(kit.limiter, &item, 1, KIT_NOW_NS), 1);
        assert_true(ration_limiter_allow(kit.limiter, &key));
        assert_false(ration_limiter_allow_at(kit.limiter, &key, 1, KIT_NOW_NS));
        assert_int_equal(ration_limiter_take_batch(kit.limiter, &item, 1, KIT_NOW_NS), 0);
    }
    kit_end(&kit);
}

/* By the counter's clock, read in the middle of it: two calls' worth of time is not made of one. */
static void the_counter_reports_the_same_time(void **state)
{
    struct ration_rule rule = {.limit = kit_limit("1000/s burst 5")};
    struct ration_limiter_options options = {
        .struct_size = sizeof(options), .rules = &rule, .rule_count = 1, .keys_max = 100};
    struct ration_key key = RATION_KEY("0123456789abcdef");
    ration_limiter *limiter;
    uint64_t began_ns, allowed = 0, calls;

    (void)state;
    assert_int_equal(ration_limiter_create(&options, &limiter, NULL), RATION_OK);
    began_ns = ration_limiter_now(limiter);
    for (calls = 0; calls < 20000; calls++)
        allowed += ration_limiter_allow(limiter, &key);
    /* threads and the counter's steering: a millisecond's tokens more at most */
    assert_in_range(allowed, 5, 5 + (ration_limiter_now(limiter) - began_ns) / MS + 1);
    ration_limiter_free(limiter);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(r1_r4_capacities_around_one_word),
        cmocka_unit_test(keys_of_every_size_have_a_bucket),
        cmocka_unit_test(the_counter_reports_the_same_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
