/*
 * R4 for stacks: after the reported wait all limiters pass, and a nanosecond earlier they do not. Also if a key of the
 * request has no place; and that the call returns at all.
 */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/random.h"
#include "unit/limiter/limiter_kit.h"

#define LIMITER_COUNT 3

struct stack_kit {
    struct kit kits[LIMITER_COUNT];
    struct ration_limiter_options limiters[LIMITER_COUNT];
    ration_stack *stack;
};

static void begin(struct stack_kit *kit, const char *const *texts, uint64_t first_keys_max,
                  enum ration_overflow overflow)
{
    struct ration_stack_options options = {.struct_size = sizeof(options),
                                           .limiters = kit->limiters};

    for (size_t i = 0; texts[i] != NULL; i++) {
        KIT_PLAN(&kit->kits[i], texts[i]);
        kit->limiters[i] = kit->kits[i].options;
        options.limiter_count = i + 1;
    }
    kit->limiters[0].keys_max = first_keys_max;
    kit->limiters[0].overflow = overflow;
    options.clock = &kit->kits[0].clock;
    assert_int_equal(ration_stack_create(&options, &kit->stack, NULL), RATION_OK);
    kit->kits[0].limiter = ration_stack_limiter(kit->stack, 0);
}

static struct ration_decision take(struct stack_kit *kit, const struct ration_stack_request *asks,
                                   size_t count, uint64_t now_ns)
{
    struct ration_decision decision;

    assert_int_equal(ration_stack_take_all(kit->stack, asks, count, now_ns, &decision), RATION_OK);
    return decision;
}

/* A nanosecond earlier it is denied still, and then it passes. */
static void check_wait(struct stack_kit *kit, const struct ration_stack_request *asks, size_t count,
                       uint64_t now_ns, struct ration_decision denied)
{
    uint64_t reported_ns = now_ns + denied.retry_after_ns;

    assert_int_equal(denied.verdict, RATION_DENY);
    assert_answer(take(kit, asks, count, reported_ns - 1), RATION_DENY,
                  take(kit, asks, count, reported_ns - 1).remaining, 1);
    assert_int_equal(take(kit, asks, count, reported_ns).verdict, RATION_ALLOW);
}

static void after_the_wait_that_is_reported_all_pass(void **state)
{
    static const char *const texts[][LIMITER_COUNT + 1] = {
        {"3/s burst 40", "1/s burst 20", "20/min"},
        {"30/10s fixed_window", "3/s burst 9", "25/10s sliding_log"},
        {"15/s sliding_window", "5/s burst 12 refill interval",
         "3/s burst 4 reserve 7/min burst 9"},
    };
    struct stack_kit kit;

    (void)state;
    for (size_t t = 0; t < KIT_COUNT_OF(texts); t++) {
        uint64_t random = t + 1, denied_count = 0;
        uint64_t *now_ns = &kit.kits[0].manual.ns;

        begin(&kit, texts[t], 1000, RATION_OVERFLOW_SHARED);
        for (int i = 0; i < 3000; i++) {
            struct kit_room rooms[LIMITER_COUNT];
            struct ration_key keys[LIMITER_COUNT];
            struct ration_stack_request asks[LIMITER_COUNT];
            struct ration_decision got;

            for (size_t k = 0; k < LIMITER_COUNT; k++) {
                keys[k] = kit_numbered(&rooms[k], ration_random_up_to(&random, 2 * k));
                asks[k] =
                    (struct ration_stack_request){k, &keys[k], 1 + ration_random_up_to(&random, 3)};
            }
            kit_pass(&kit.kits[0], ration_random_up_to(&random, 300 * MS));
            got = take(&kit, asks, LIMITER_COUNT, *now_ns);
            if (got.verdict != RATION_DENY)
                continue;
            check_wait(&kit, asks, LIMITER_COUNT, *now_ns, got);
            *now_ns += got.retry_after_ns;
            denied_count++;
        }
        assert_true(denied_count > 100);
        ration_stack_free(kit.stack);
    }
}

/*
 * The first limiter's places are all taken for minutes; the second denies for seconds. After these
 * seconds the first one's key is the one without a place, and that could have been reported.
 */
static void a_key_without_a_place_is_counted_in_the_wait_of_the_other(void **state)
{
    for (enum ration_overflow overflow = RATION_OVERFLOW_SHARED; overflow <= RATION_OVERFLOW_DENY;
         overflow++) {
        struct ration_key fresh = RATION_KEY("fresh"), client = RATION_KEY("client");
        struct ration_stack_request asks[] = {{0, &fresh, 1}, {1, &client, 1}};
        uint64_t numbers[KIT_CROWD_MAX];
        uint64_t now_ns;
        struct stack_kit kit;

        (void)state;
        begin(&kit, KIT_TEXTS("1/s burst 300", "1/10s burst 1"), 1, overflow);
        assert_int_equal(kit_crowd(&kit.kits[0], numbers), 16);
        now_ns = kit.kits[0].manual.ns;
        for (int i = 0; i < 16; i++) { /* in debt for 400 s from now on */
            struct kit_room room;
            struct ration_key key = kit_numbered(&room, numbers[i]);

            ration_limiter_reset(kit.kits[0].limiter, &key, now_ns);
            ration_limiter_charge(kit.kits[0].limiter, &key, 400, now_ns);
        }
        if (overflow == RATION_OVERFLOW_SHARED) { /* and the shared bucket is, for as long */
            struct ration_key other = RATION_KEY("other");

            ration_limiter_charge(kit.kits[0].limiter, &other, 400, now_ns);
        }
        ration_limiter_charge(ration_stack_limiter(kit.stack, 1), &client, 1, now_ns);
        for (int i = 0; i < 30; i++) { /* keys that begin in either set */
            struct kit_room room;

            fresh = kit_numbered(&room, 1000 + (uint64_t)i);
            if (take(&kit, asks, 2, now_ns).retry_after_ns <= 10 * SECOND)
                check_wait(&kit, asks, 2, now_ns, take(&kit, asks, 2, now_ns));
        }
        ration_stack_free(kit.stack);
    }
}

/*
 * Two fresh keys of one limiter: each is created full, and what is full may be reclaimed. In so small
 * a table they often want the same place, and must not take it from each other for ever (R3).
 */
static void take_fresh_pairs(uint64_t keys_max)
{
    struct stack_kit kit;

    begin(&kit, KIT_TEXTS("1/s burst 3", "1/s burst 3"), keys_max, RATION_OVERFLOW_SHARED);
    for (uint64_t i = 0; i < 1000; i++) {
        struct kit_room rooms[2];
        struct ration_key keys[2] = {kit_numbered(&rooms[0], 2 * i),
                                     kit_numbered(&rooms[1], 2 * i + 1)};
        struct ration_stack_request asks[] = {{0, &keys[0], 1}, {0, &keys[1], 1}};

        assert_answer(take(&kit, asks, 2, kit.kits[0].manual.ns), RATION_ALLOW, 2, 0);
        kit_pass(&kit.kits[0], SECOND); /* all are full again */
    }
    ration_stack_free(kit.stack);
}

static void r3_fresh_keys_do_not_take_each_others_place_for_ever(void **state)
{
    static const uint64_t keys_maxes[] = {1, 10, 100};

    (void)state;
    for (size_t i = 0; i < KIT_COUNT_OF(keys_maxes); i++) {
        int status;
        pid_t child = fork(); /* so that a call that never returns fails this test, and ends */

        assert_true(child >= 0);
        if (child == 0) {
            alarm(5);
            take_fresh_pairs(keys_maxes[i]);
            _exit(0);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
            fail_msg("keys_max %llu: a take of two fresh keys does not return",
                     (unsigned long long)keys_maxes[i]);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(after_the_wait_that_is_reported_all_pass),
        cmocka_unit_test(a_key_without_a_place_is_counted_in_the_wait_of_the_other),
        cmocka_unit_test(r3_fresh_keys_do_not_take_each_others_place_for_ever),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
