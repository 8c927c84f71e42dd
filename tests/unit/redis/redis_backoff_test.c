#include "support/unit.h"

#include "redis/backoff.h"

#define REST_MIN_NS  (100 * RATION_NS_PER_MS)
#define RETRY_MAX_NS (2 * RATION_NS_PER_SECOND)

static const uint64_t begin_ns = 5 * RATION_NS_PER_SECOND;

static void delays_are_doubled_and_spread(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 100; seed++) {
        struct ration_redis_backoff backoff;
        uint64_t now_ns = begin_ns, most_ns = REST_MIN_NS;

        ration_redis_backoff_init(&backoff, REST_MIN_NS, RETRY_MAX_NS, seed);
        for (int i = 0; i < 8; i++) {
            uint64_t next_ns = ration_redis_backoff_next(&backoff, now_ns);

            assert_in_range(next_ns - now_ns, most_ns / 2, most_ns);
            now_ns = next_ns;
            most_ns = 2 * most_ns < RETRY_MAX_NS ? 2 * most_ns : RETRY_MAX_NS;
        }
        ration_redis_backoff_reset(&backoff);
        assert_in_range(ration_redis_backoff_next(&backoff, now_ns) - now_ns, REST_MIN_NS / 2,
                        REST_MIN_NS);
    }
}

static void many_nodes_do_not_retry_together(void **state)
{
    uint64_t earliest_ns = UINT64_MAX, latest_ns = 0;

    (void)state;
    for (uint64_t seed = 0; seed < 100; seed++) {
        struct ration_redis_backoff backoff;
        uint64_t next_ns;

        ration_redis_backoff_init(&backoff, REST_MIN_NS, RETRY_MAX_NS, seed);
        next_ns = ration_redis_backoff_next(&backoff, begin_ns);
        earliest_ns = next_ns < earliest_ns ? next_ns : earliest_ns;
        latest_ns = next_ns > latest_ns ? next_ns : latest_ns;
    }
    assert_true(latest_ns - earliest_ns > REST_MIN_NS / 4);
}

/* A Redis that accepts connections and closes them at once: ten attempts at the backoff's rate, then one a second. */
static void attempts_have_a_budget(void **state)
{
    struct ration_redis_backoff backoff;
    uint64_t now_ns = begin_ns;
    unsigned count = 0;

    (void)state;
    ration_redis_backoff_init(&backoff, REST_MIN_NS, RETRY_MAX_NS, 1);
    for (; now_ns < begin_ns + 60 * RATION_NS_PER_SECOND; count++) {
        now_ns = ration_redis_backoff_next(&backoff, now_ns);
        ration_redis_backoff_reset(&backoff);
    }
    assert_in_range(count, 60, RATION_REDIS_TRIES_BURST + 61);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(delays_are_doubled_and_spread),
        cmocka_unit_test(many_nodes_do_not_retry_together),
        cmocka_unit_test(attempts_have_a_budget),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
