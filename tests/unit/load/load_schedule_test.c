/*
 * The moments of a schedule: evenly spaced, without drift, and counted as they are.
 */
#include "load/schedule.h"
#include "support/unit.h"

static void ten_thousand_a_second(void **state)
{
    struct load_schedule schedule = load_schedule_make(5000, 10000, 0, 1);

    (void)state;
    assert_int_equal(load_schedule_due_ns(&schedule, 0), 5000);
    assert_int_equal(load_schedule_due_ns(&schedule, 1), 105000);
    assert_int_equal(load_schedule_due_ns(&schedule, 10000), 1000005000);
    assert_int_equal(load_schedule_due_count(&schedule, 4999), 0);
    assert_int_equal(load_schedule_due_count(&schedule, 5000), 1);
    assert_int_equal(load_schedule_due_count(&schedule, 104999), 1);
    assert_int_equal(load_schedule_due_count(&schedule, 105000), 2);
    assert_int_equal(load_schedule_due_count(&schedule, 1000004999), 10000);
}

/* An hour at 3 a second, and at rates that divide nothing: no moment is lost or added. */
static void counts_and_moments_agree(void **state)
{
    static const double rates[] = {0.001, 0.3, 3, 7, 1e3 / 3, 999983, 123456789, 1e9};

    (void)state;
    for (size_t r = 0; r < sizeof(rates) / sizeof(rates[0]); r++) {
        struct load_schedule schedule = load_schedule_make(77, rates[r], 0, 1);

        for (uint64_t i = 0; i < 3600 * 1000; i += i / 100 + 1) {
            uint64_t due_ns = load_schedule_due_ns(&schedule, i);

            assert_true(load_schedule_due_count(&schedule, due_ns) >= i + 1);
            assert_true(due_ns == 77 || load_schedule_due_count(&schedule, due_ns - 1) <= i);
        }
    }
}

static void it_does_not_drift(void **state)
{
    struct load_schedule schedule = load_schedule_make(0, 3, 0, 1);

    (void)state;
    assert_int_equal(load_schedule_due_ns(&schedule, 3 * 86400), UINT64_C(86400000000000));
}

static void threads_take_turns(void **state)
{
    struct load_schedule whole = load_schedule_make(1000, 1e6, 0, 1);

    (void)state;
    for (uint32_t thread_index = 0; thread_index < 4; thread_index++) {
        struct load_schedule part = load_schedule_make(1000, 1e6, thread_index, 4);

        for (uint64_t i = 0; i < 1000; i++)
            assert_int_equal(load_schedule_due_ns(&part, i),
                             load_schedule_due_ns(&whole, i * 4 + thread_index));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ten_thousand_a_second),
        cmocka_unit_test(counts_and_moments_agree),
        cmocka_unit_test(it_does_not_drift),
        cmocka_unit_test(threads_take_turns),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
