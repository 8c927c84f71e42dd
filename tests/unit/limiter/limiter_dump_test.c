/*
 * A limiter that is dumped and loaded answers as if it had never stopped.
 */
#include "base/wall.h"
#include "support/saved_dump.h"
#include "support/subjects.h"

#define SECOND    RATION_NS_PER_SECOND
#define KEY_COUNT 300

/* The time of day, in place of base/wall.c's. */
static uint64_t wall_ns;

uint64_t ration_wall_now(void)
{
    return wall_ns;
}

/* A limiter with earlier calls, and its clock. */
struct past {
    struct ration_manual_clock manual;
    struct ration_clock clock;
    struct ration_rule rules[SUBJECT_RULES_MAX];
    struct ration_limiter_options options;
    ration_limiter *limiter;
    uint64_t random;
};

static void act(struct past *past, ration_limiter *limiter, uint64_t *random, int count)
{
    for (int i = 0; i < count; i++) {
        ration_clock_manual_advance(&past->manual, ration_random_up_to(random, 4000000));
        subject_act(limiter, KEY_COUNT, random, past->manual.ns);
    }
}

static void begin(struct past *past, const struct subject *subject)
{
    memset(past, 0, sizeof(*past));
    past->manual.ns = 1234567890123;
    past->clock = ration_clock_manual(&past->manual);
    past->options = subject_options(subject, past->rules, &past->clock);
    past->limiter = subject_create(&past->options);
    past->random = 7;
    act(past, past->limiter, &past->random, 3000);
    wall_ns = 1700000000 * SECOND;
}

/* Dumps, lets both clocks continue, and loads. */
static ration_limiter *go_away(struct past *past, uint64_t wall_passed_ns, uint64_t clock_passed_ns)
{
    struct saved_bytes dump = saved_dump(past->limiter, past->manual.ns);
    struct ration_error error = {.message = ""};
    ration_limiter *loaded = NULL;

    wall_ns += wall_passed_ns;
    past->manual.ns += clock_passed_ns;
    if (saved_load(&past->options, &dump, &loaded, &error) != RATION_OK)
        fail_msg("%s", error.message);
    free(dump.data);
    return loaded;
}

static void end(struct past *past, ration_limiter *loaded)
{
    ration_limiter_free(loaded);
    ration_limiter_free(past->limiter);
}

static void every_algorithm_continues_where_it_was(void **state)
{
    (void)state;
    for (size_t i = 0; i < SUBJECT_COUNT; i++) {
        struct past past;
        ration_limiter *loaded;
        uint64_t random;
        uint64_t now_ns;

        begin(&past, &subjects[i]);
        loaded = go_away(&past, 0, 0);
        now_ns = past.manual.ns;
        if (subjects_differ(past.limiter, now_ns, loaded, now_ns, KEY_COUNT) > 0)
            fail_msg("%s: loaded keys are not as they were", subjects[i].name);

        /* and stay alike in all that follows */
        random = past.random;
        act(&past, past.limiter, &past.random, 1000);
        past.manual.ns = now_ns;
        act(&past, loaded, &random, 1000);
        if (subjects_differ(past.limiter, past.manual.ns, loaded, past.manual.ns, KEY_COUNT) > 0)
            fail_msg("%s: loaded keys do not continue as they would have", subjects[i].name);
        end(&past, loaded);
    }
}

static const uint64_t ages_ns[] = {1, 999, 12345678, 333333333, SECOND, 5 * SECOND, 70 * SECOND};

#define AGE_COUNT (sizeof(ages_ns) / sizeof(ages_ns[0]))

/* The clock continues, as after a restart of the process; the wall clock is slightly off. */
static void tokens_refill_by_a_clock_that_continues(void **state)
{
    (void)state;
    for (size_t i = 0; i < SUBJECT_COUNT; i++)
        for (size_t k = 0; k < AGE_COUNT; k++) {
            struct past past;
            ration_limiter *loaded;

            begin(&past, &subjects[i]);
            loaded = go_away(&past, ages_ns[k] + 3000, ages_ns[k]);
            if (subjects_differ(past.limiter, past.manual.ns, loaded, past.manual.ns, KEY_COUNT) >
                0)
                fail_msg("%s: not as if %llu ns had passed", subjects[i].name,
                         (unsigned long long)ages_ns[k]);
            end(&past, loaded);
        }
}

/* The clock starts again, as after a reboot: only the wall clock shows the time that passed. */
static void tokens_refill_by_wall_time_if_the_clock_starts_again(void **state)
{
    (void)state;
    for (size_t i = 0; i < SUBJECT_COUNT; i++)
        for (size_t k = 0; k < AGE_COUNT; k++) {
            struct past past;
            ration_limiter *loaded;
            uint64_t now_ns;

            if (subjects[i].has_windows)
                continue;
            begin(&past, &subjects[i]);
            now_ns = past.manual.ns;
            loaded = go_away(&past, ages_ns[k], 30 * SECOND - now_ns);
            if (subjects_differ(past.limiter, now_ns + ages_ns[k], loaded, 30 * SECOND, KEY_COUNT) >
                0)
                fail_msg("%s: not as if %llu ns had passed", subjects[i].name,
                         (unsigned long long)ages_ns[k]);
            end(&past, loaded);
        }
}

/* A window's end has moved: tokens in use stay in use at least as long as was reported, R1. */
static void windows_that_moved_hold_no_more_than_before(void **state)
{
    (void)state;
    for (size_t i = 0; i < SUBJECT_COUNT; i++)
        for (size_t k = 0; k < AGE_COUNT; k++) {
            struct past past;
            ration_limiter *loaded;
            uint64_t now_ns;

            begin(&past, &subjects[i]);
            now_ns = past.manual.ns;
            loaded = go_away(&past, ages_ns[k], 30 * SECOND + 123456789 - now_ns);
            for (uint64_t key_index = 0; key_index < KEY_COUNT; key_index++)
                for (uint64_t later_ns = 0; later_ns < 4 * SECOND; later_ns += SECOND / 7) {
                    struct subject_key key;
                    const void *request = subject_request(&key, key_index);
                    struct ration_decision before, after;

                    ration_limiter_peek(past.limiter, request, 1, now_ns + ages_ns[k] + later_ns,
                                        &before, NULL);
                    ration_limiter_peek(loaded, request, 1, past.manual.ns + later_ns, &after,
                                        NULL);
                    assert_true(after.remaining <= before.remaining);
                    assert_true(after.retry_after_ns >= before.retry_after_ns);
                    assert_true(after.reset_after_ns >= before.reset_after_ns);
                }
            end(&past, loaded);
        }
}

static void a_wall_clock_that_runs_back_makes_nothing_younger(void **state)
{
    struct past past;
    ration_limiter *loaded;
    uint64_t now_ns;

    (void)state;
    begin(&past, &subjects[1]);
    now_ns = past.manual.ns;
    loaded = go_away(&past, (uint64_t)0 - 3600 * SECOND, SECOND - now_ns);
    assert_int_equal(subjects_differ(past.limiter, now_ns, loaded, SECOND, KEY_COUNT), 0);
    end(&past, loaded);
}

static void full_buckets_are_left_out(void **state)
{
    (void)state;
    for (size_t i = 0; i < SUBJECT_COUNT; i++) {
        struct past past;
        struct saved_bytes dump, empty;
        ration_limiter *fresh;

        begin(&past, &subjects[i]);
        fresh = subject_create(&past.options);
        empty = saved_dump(fresh, past.manual.ns);
        dump = saved_dump(past.limiter, past.manual.ns);
        assert_true(dump.size > empty.size + 10 * SAVED_RECORD_SIZE);
        free(dump.data);
        dump = saved_dump(past.limiter, past.manual.ns + RATION_NS_PER_YEAR);
        assert_int_equal(dump.size, empty.size);
        free(dump.data);
        free(empty.data);
        end(&past, fresh);
    }
}

/* A key that started empty and is full by now is not new: R7 of limits that do not start full. */
static void a_key_is_remembered_as_long_as_before(void **state)
{
    const struct ration_key key = RATION_KEY("known");
    struct past past;
    struct ration_decision decision;

    (void)state;
    for (uint64_t age_ns = 0; age_ns <= 5400 * SECOND; age_ns += 600 * SECOND) {
        ration_limiter *loaded;
        uint64_t now_ns;

        begin(&past, &subjects[12]); /* 3/s burst 7 start empty */
        ration_limiter_take(past.limiter, &key, 1, past.manual.ns, &decision, NULL);
        assert_int_equal(decision.verdict, RATION_DENY);
        past.manual.ns += 4 * SECOND;
        now_ns = past.manual.ns;
        loaded = go_away(&past, age_ns, SECOND - now_ns);
        ration_limiter_peek(loaded, &key, 1, SECOND, &decision, NULL);
        /* full 2.34 s after the first touch, and known for an hour from then on */
        assert_int_equal(decision.remaining, age_ns < 3600 * SECOND ? 7 : 0);
        end(&past, loaded);
    }
}

static void a_dump_of_what_was_loaded_is_the_same_dump(void **state)
{
    (void)state;
    for (size_t i = 0; i < SUBJECT_COUNT; i++) {
        struct past past;
        struct saved_bytes first, second;
        ration_limiter *loaded;

        begin(&past, &subjects[i]);
        first = saved_dump(past.limiter, past.manual.ns);
        loaded = go_away(&past, 0, 0);
        second = saved_dump(loaded, past.manual.ns);
        assert_int_equal(first.size, second.size);
        assert_memory_equal(first.data, second.data, first.size);
        free(first.data);
        free(second.data);
        end(&past, loaded);
    }
}

/* Other limits of the same kinds: as if they had been changed in place. */
static void other_limits_keep_the_tokens(void **state)
{
    static const struct {
        struct subject old;
        const char *next[SUBJECT_RULES_MAX];
    } changes[] = {
        {{.rules = {"3/s burst 7"}}, {"5/s burst 11"}},
        {{.rules = {"3/s burst 7"}}, {"2/s burst 3"}},
        {{.rules = {"3/s burst 7"}}, {"9/s fixed_window"}},
        {{.rules = {"5/s burst 12 refill interval"}}, {"3/s burst 5 refill interval"}},
        {{.rules = {"3/s burst 4 reserve 7/min burst 9"}}, {"5/s burst 6 reserve 2/min burst 3"}},
        {{.rules = {"9/s fixed_window"}}, {"20/min fixed_window"}},
        {{.rules = {"9/s sliding_window"}}, {"5/s sliding_window"}},
        {{.rules = {"9/s sliding_log"}}, {"5/s sliding_log"}},
        {{.rules = {"9/s sliding_log", "3/s"}}, {"9/min sliding_log", "3/s burst 20"}},
        {{.rules = {"3/s burst 7 start empty"}}, {"5/s burst 11 start 3"}},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
        struct past past;
        struct saved_bytes dump;
        ration_limiter *loaded = NULL;

        begin(&past, &changes[i].old);
        dump = saved_dump(past.limiter, past.manual.ns);
        for (size_t k = 0; k < past.options.rule_count; k++)
            assert_int_equal(ration_limit_parse(changes[i].next[k], &past.rules[k].limit, NULL),
                             RATION_OK);
        assert_int_equal(saved_load(&past.options, &dump, &loaded, NULL), RATION_OK);
        assert_int_equal(ration_limiter_change(past.limiter, past.rules, past.options.rule_count,
                                               RATION_CHANGE_KEEP, NULL),
                         RATION_OK);
        if (subjects_differ(past.limiter, past.manual.ns, loaded, past.manual.ns, KEY_COUNT) > 0)
            fail_msg("%s -> %s: not as if changed in place", changes[i].old.rules[0],
                     changes[i].next[0]);
        free(dump.data);

        /* what is still of the old generation is dumped as of the new one */
        ration_limiter_free(loaded);
        loaded = go_away(&past, 0, 0);
        assert_int_equal(
            subjects_differ(past.limiter, past.manual.ns, loaded, past.manual.ns, KEY_COUNT), 0);
        end(&past, loaded);
    }
}

/* Controls: the comparison above notices a load that ignores the age, or a lost fraction. */
static void control_an_age_that_is_ignored_is_noticed(void **state)
{
    struct past past;
    ration_limiter *loaded;
    uint64_t now_ns;

    (void)state;
    begin(&past, &subjects[1]);
    now_ns = past.manual.ns;
    loaded = go_away(&past, 0, SECOND - now_ns);
    assert_true(subjects_differ(past.limiter, now_ns + 12345678, loaded, SECOND, KEY_COUNT) > 100);
    end(&past, loaded);
}

static void control_a_fraction_that_is_lost_is_noticed(void **state)
{
    struct past past;
    struct saved_bytes dump, payload, changed;
    ration_limiter *loaded = NULL;
    uint64_t now_ns;

    (void)state;
    begin(&past, &subjects[1]); /* 3/s: a token is a third of a second */
    dump = saved_dump(past.limiter, past.manual.ns);
    payload = saved_unwrap(&dump);
    changed = saved_wrap(payload.data, payload.size);
    assert_int_equal(changed.size, dump.size); /* this test knows the format, ... */
    assert_memory_equal(changed.data, dump.data, dump.size);
    free(changed.data);
    for (size_t at = SAVED_RULE_AT + SAVED_RULE_SIZE; at + SAVED_RECORD_SIZE < payload.size;
         at += SAVED_RECORD_SIZE + 12)
        saved_set_number(payload.data + at + SAVED_RECORD_SIZE + 8, 4, 0);
    changed = saved_wrap(payload.data, payload.size);
    assert_int_equal(saved_load(&past.options, &changed, &loaded, NULL), RATION_OK);
    now_ns = past.manual.ns;
    assert_true(subjects_differ(past.limiter, now_ns, loaded, now_ns, KEY_COUNT) > 0);
    free(dump.data);
    free(payload.data);
    free(changed.data);
    end(&past, loaded);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_algorithm_continues_where_it_was),
        cmocka_unit_test(tokens_refill_by_a_clock_that_continues),
        cmocka_unit_test(tokens_refill_by_wall_time_if_the_clock_starts_again),
        cmocka_unit_test(windows_that_moved_hold_no_more_than_before),
        cmocka_unit_test(a_wall_clock_that_runs_back_makes_nothing_younger),
        cmocka_unit_test(full_buckets_are_left_out),
        cmocka_unit_test(a_key_is_remembered_as_long_as_before),
        cmocka_unit_test(a_dump_of_what_was_loaded_is_the_same_dump),
        cmocka_unit_test(other_limits_keep_the_tokens),
        cmocka_unit_test(control_an_age_that_is_ignored_is_noticed),
        cmocka_unit_test(control_a_fraction_that_is_lost_is_noticed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
