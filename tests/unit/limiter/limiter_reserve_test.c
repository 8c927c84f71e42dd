/*
 * Reservations: making them and waiting for their turn; limiter_settle_test.c has their release. Nothing here sleeps until
 * its time: the test sets the clocks, or they advance each time they are read.
 */
#include <pthread.h>
#include <sched.h>

#include "unit/limiter/limiter_kit.h"

static const struct ration_key key = {"k", 1};

static void a_turn_comes_within_the_wait_or_is_denied(void **state)
{
    struct ration_reservation reservation, untouched;
    struct ration_decision got;
    struct kit kit;

    (void)state;
    KIT_BEGIN(&kit, "1/s burst 2", "1/min burst 10");
    memset(&untouched, 0x5a, sizeof(untouched));
    got = kit_reserve(&kit, 2, 0, &reservation);
    assert_answer(got, RATION_ALLOW, 0, 0);
    assert_int_equal(reservation.ready_at_ns, KIT_NOW_NS);
    assert_int_equal(reservation.part_count, 2);

    reservation = untouched;
    got = kit_reserve(&kit, 1, SECOND - 1, &reservation);
    assert_answer(got, RATION_DENY, 0, SECOND); /* what would have been needed */
    got = kit_reserve(&kit, 3, RATION_FOREVER, &reservation);
    assert_answer(got, RATION_NEVER, 0, RATION_FOREVER);
    assert_memory_equal(&reservation, &untouched, sizeof(reservation));

    got = kit_reserve(&kit, 1, SECOND, &reservation);
    assert_int_equal(got.verdict, RATION_ALLOW);
    assert_int_equal(got.delay_ns, SECOND);
    assert_int_equal(got.retry_after_ns, 0);
    assert_int_equal(reservation.ready_at_ns, KIT_NOW_NS + SECOND);
    assert_int_equal(kit_reserve(&kit, 1, 9 * SECOND, &reservation).delay_ns, 2 * SECOND);
    kit_end(&kit);
}

/* All limits are charged for the moment of going: none is exceeded in that instant. */
static void r1_no_limit_is_exceeded_at_the_turn(void **state)
{
    struct ration_decision got, details[2];
    struct ration_reservation reservation;
    struct kit kit;

    (void)state;
    KIT_BEGIN(&kit, "10/s burst 10", "1/s burst 10");
    kit_take(&kit, "k", 10);
    got = kit_reserve(&kit, 5, 10 * SECOND, &reservation);
    assert_int_equal(got.delay_ns, 5 * SECOND);
    kit_pass(&kit, 5 * SECOND);
    ration_limiter_peek(kit.limiter, &key, 0, kit.manual.ns, &got, details);
    assert_int_equal(details[0].remaining, 5); /* not 10: five go just now */
    assert_int_equal(details[1].remaining, 0);
    kit_end(&kit);
}

/* A clock that advances by step_ns each time it is read. */
struct running {
    uint64_t ns, step_ns;
};

static uint64_t read_running(void *context)
{
    struct running *running = context;

    return running->ns += running->step_ns;
}

static void begin_running(struct kit *kit, struct running *running, const char *text)
{
    KIT_PLAN(kit, text);
    *running = (struct running){KIT_NOW_NS, SECOND};
    kit->clock = (struct ration_clock){RATION_CLOCK_CUSTOM, read_running, running};
    kit_open(kit);
}

static void a_wait_ends_when_the_turn_has_come(void **state)
{
    struct running running;
    struct ration_decision got;
    struct kit kit;

    (void)state;
    begin_running(&kit, &running, "1/10s burst 2");
    running.step_ns = 0;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(ration_limiter_wait(kit.limiter, &key, 1, 0, NULL, &got), RATION_OK);
        assert_int_equal(got.verdict, RATION_ALLOW);
        assert_int_equal(got.delay_ns, 0);
    }
    running.step_ns = SECOND;
    assert_int_equal(ration_limiter_wait(kit.limiter, &key, 1, UINT64_MAX, NULL, &got), RATION_OK);
    assert_int_equal(got.verdict, RATION_ALLOW);
    assert_in_range(got.delay_ns, 1 * SECOND, 10 * SECOND);
    assert_true(running.ns >= KIT_NOW_NS + 10 * SECOND);
    assert_true(running.ns <= KIT_NOW_NS + 13 * SECOND);
    kit_end(&kit);
}

static void a_wait_that_cannot_end_in_time_fails_at_once(void **state)
{
    struct ration_decision got;
    struct kit kit;

    (void)state;
    KIT_BEGIN(&kit, "1/10s burst 2", "1/s burst 5");
    kit_take(&kit, "k", 2);
    assert_int_equal(
        ration_limiter_wait(kit.limiter, &key, 1, KIT_NOW_NS + 10 * SECOND - 1, NULL, &got),
        RATION_OK);
    assert_answer(got, RATION_DENY, 0, 10 * SECOND);
    assert_int_equal(ration_limiter_wait(kit.limiter, &key, 1, 0, NULL, &got), RATION_OK);
    assert_answer(got, RATION_DENY, 0, 10 * SECOND); /* a deadline in the past */
    assert_int_equal(ration_limiter_wait(kit.limiter, &key, 3, UINT64_MAX, NULL, &got), RATION_OK);
    assert_answer(got, RATION_NEVER, 0, RATION_FOREVER);
    assert_answer(kit_peek(&kit, "k", 1), RATION_DENY, 0, 10 * SECOND); /* nothing was taken */
    kit_end(&kit);
}

static void a_wait_that_is_cancelled_before_takes_nothing(void **state)
{
    struct ration_canceller canceller = {0};
    struct ration_decision got, untouched;
    struct kit kit;

    (void)state;
    KIT_BEGIN(&kit, "1/10s burst 2");
    memset(&untouched, 0x5a, sizeof(untouched));
    got = untouched;
    ration_limiter_cancel_wait(&canceller);
    for (int i = 0; i < 3; i++)
        assert_int_equal(ration_limiter_wait(kit.limiter, &key, 1, UINT64_MAX, &canceller, &got),
                         RATION_ECANCELLED);
    assert_same_decision(got, untouched);
    assert_int_equal(kit_left(&kit, "k"), 2);
    kit_end(&kit);
}

struct waiter {
    struct kit kit;
    struct ration_canceller canceller;
};

/* Cancels after the other thread has taken its place in line. */
static void *cancel_later(void *context)
{
    struct waiter *waiter = context;
    struct ration_decision got;

    do {
        sched_yield();
        ration_limiter_peek(waiter->kit.limiter, &key, 1, KIT_NOW_NS, &got, NULL);
    } while (got.retry_after_ns != 20 * SECOND);
    ration_limiter_cancel_wait(&waiter->canceller);
    return NULL;
}

static void a_wait_that_another_thread_cancels_gives_its_place_back(void **state)
{
    struct waiter waiter = {.canceller = {0}};
    struct ration_decision got;
    pthread_t thread;

    (void)state;
    KIT_BEGIN(&waiter.kit, "1/10s burst 2");
    kit_take(&waiter.kit, "k", 2);
    assert_int_equal(pthread_create(&thread, NULL, cancel_later, &waiter), 0);
    assert_int_equal(
        ration_limiter_wait(waiter.kit.limiter, &key, 1, UINT64_MAX, &waiter.canceller, &got),
        RATION_ECANCELLED);
    pthread_join(thread, NULL);
    assert_answer(kit_peek(&waiter.kit, "k", 1), RATION_DENY, 0, 10 * SECOND);
    kit_end(&waiter.kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_turn_comes_within_the_wait_or_is_denied),
        cmocka_unit_test(r1_no_limit_is_exceeded_at_the_turn),
        cmocka_unit_test(a_wait_ends_when_the_turn_has_come),
        cmocka_unit_test(a_wait_that_cannot_end_in_time_fails_at_once),
        cmocka_unit_test(a_wait_that_is_cancelled_before_takes_nothing),
        cmocka_unit_test(a_wait_that_another_thread_cancels_gives_its_place_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
