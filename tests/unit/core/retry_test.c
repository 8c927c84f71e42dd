/* Retries after a denial: never before the reported wait, and not all at the same time. */
#include "ration/retry.h"

#include <stdio.h>
#include <string.h>

#include "base/random.h"
#include "ration/limit.h"
#include "support/unit.h"

#define MS RATION_NS_PER_MS

static const struct ration_decision denied = {.verdict = RATION_DENY, .retry_after_ns = 200 * MS};
static const struct ration_decision allowed = {.verdict = RATION_ALLOW, .delay_ns = 7};

static struct ration_retry make(enum ration_jitter jitter, uint64_t seed)
{
    struct ration_retry retry;

    assert_int_equal(ration_retry_init(&retry, jitter, 10 * MS, 80 * MS, seed), RATION_OK);
    return retry;
}

static void the_span_doubles_up_to_the_cap_and_starts_again(void **state)
{
    const uint64_t spans_ms[] = {10, 20, 40, 80, 80};

    (void)state;
    for (uint64_t seed = 0; seed < 2000; seed++) {
        struct ration_retry full = make(RATION_JITTER_FULL, seed);
        struct ration_retry equal = make(RATION_JITTER_EQUAL, seed);

        for (size_t index = 0; index < 5; index++) {
            assert_in_range(ration_retry_next(&full, &denied), 200 * MS,
                            (200 + spans_ms[index]) * MS);
            assert_in_range(ration_retry_next(&equal, &denied), (200 + spans_ms[index] / 2) * MS,
                            (200 + spans_ms[index]) * MS);
        }
        assert_int_equal(ration_retry_next(&full, &allowed), 7);
        assert_in_range(ration_retry_next(&full, &denied), 200 * MS, 210 * MS);
    }
}

static void decorrelated_delays_grow_from_the_last(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 2000; seed++) {
        struct ration_retry retry = make(RATION_JITTER_DECORRELATED, seed);
        uint64_t last_ms = 10;

        for (int index = 0; index < 8; index++) {
            uint64_t random_ns = ration_retry_next(&retry, &denied) - 200 * MS;
            uint64_t most_ms = 3 * last_ms + 3 < 80 ? 3 * last_ms + 3 : 80;

            assert_in_range(random_ns, 10 * MS, most_ms * MS);
            last_ms = random_ns / MS;
        }
    }
}

/* The purpose: a thousand clients denied together do not retry together. */
static void a_thousand_clients_spread_out(void **state)
{
    for (int jitter = RATION_JITTER_FULL; jitter <= RATION_JITTER_DECORRELATED; jitter++) {
        unsigned in_millisecond[400] = {0};
        unsigned most = 0;

        (void)state;
        for (uint64_t client = 0; client < 1000; client++) {
            struct ration_retry retry = make((enum ration_jitter)jitter, client);
            uint64_t delay_ns = 0;

            for (int denial = 0; denial < 4; denial++)
                delay_ns = ration_retry_next(&retry, &denied);
            unsigned *count = &in_millisecond[delay_ns / MS];

            *count += 1;
            most = *count > most ? *count : most;
        }
        /* Decorrelated delays pile up at the cap, by design. */
        assert_true(most < (jitter == RATION_JITTER_DECORRELATED ? 400u : 60u));
    }
}

static void the_same_seed_gives_the_same_delays(void **state)
{
    struct ration_retry a = make(RATION_JITTER_FULL, 42);
    struct ration_retry b = make(RATION_JITTER_FULL, 42);
    struct ration_retry other = make(RATION_JITTER_FULL, 43);
    bool differs = false;

    (void)state;
    for (int index = 0; index < 10; index++) {
        uint64_t delay_ns = ration_retry_next(&a, &denied);

        assert_int_equal(delay_ns, ration_retry_next(&b, &denied));
        differs = differs || delay_ns != ration_retry_next(&other, &denied);
    }
    assert_true(differs);
}

static void never_means_never_and_nothing_overflows(void **state)
{
    const struct ration_decision never = {.verdict = RATION_NEVER,
                                          .retry_after_ns = RATION_FOREVER};
    const struct ration_decision long_denied = {.verdict = RATION_DENY,
                                                .retry_after_ns = RATION_FOREVER - 1};

    (void)state;
    for (int jitter = RATION_JITTER_FULL; jitter <= RATION_JITTER_DECORRELATED; jitter++) {
        struct ration_retry retry;

        assert_int_equal(ration_retry_init(&retry, (enum ration_jitter)jitter, 1, UINT64_MAX, 1),
                         RATION_OK);
        assert_true(ration_retry_next(&retry, &never) == RATION_FOREVER);
        for (int index = 0; index < 200; index++) {
            assert_true(ration_retry_next(&retry, &long_denied) == RATION_FOREVER - 1);
            assert_true(ration_retry_next(&retry, &denied) >= 200 * MS);
        }
    }
}

static void bad_options_are_refused(void **state)
{
    struct ration_retry retry;
    struct ration_retry before;

    (void)state;
    memset(&retry, 0xA5, sizeof(retry));
    memcpy(&before, &retry, sizeof(retry));
    assert_int_equal(ration_retry_init(&retry, RATION_JITTER_FULL, 0, 1, 1), RATION_EINVAL);
    assert_int_equal(ration_retry_init(&retry, RATION_JITTER_FULL, 2, 1, 1), RATION_EINVAL);
    assert_int_equal(ration_retry_init(&retry, (enum ration_jitter)3, 1, 2, 1), RATION_EINVAL);
    assert_memory_equal(&retry, &before, sizeof(retry));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_span_doubles_up_to_the_cap_and_starts_again),
        cmocka_unit_test(decorrelated_delays_grow_from_the_last),
        cmocka_unit_test(a_thousand_clients_spread_out),
        cmocka_unit_test(the_same_seed_gives_the_same_delays),
        cmocka_unit_test(never_means_never_and_nothing_overflows),
        cmocka_unit_test(bad_options_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
