/*
 * Anything an engine saves, loads, and the loaded engine answers as the saved one: random policies, checks, charges,
 * refunds, resets, blocks, reloads and clocks (support/engine_ops.h). RATION_TEST_SEED varies the sequences.
 */
#include <stdlib.h>

#include "base/random.h"
#include "base/wall.h"
#include "support/engine_ops.h"
#include "support/saved_dump.h"
#include "unit/engine/engine_kit.h"

#define RUN_COUNT        60
#define OPERATION_BYTES  600
#define CONTROL_RUNS_MAX 200

uint64_t ration_wall_now(void)
{
    return engine_ops_wall_ns;
}

static uint64_t test_seed(void)
{
    const char *text = getenv("RATION_TEST_SEED");

    return text != NULL ? strtoull(text, NULL, 10) : 1;
}

/* The same bytes for the same seed. */
static const char *run_random(uint64_t seed, engine_ops_bug *bug)
{
    static uint8_t bytes[OPERATION_BYTES];

    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (uint8_t)ration_random_next(&seed);
    return engine_ops_run(bytes, sizeof(bytes), bug);
}

static void what_is_saved_loads_and_answers_the_same(void **state)
{
    uint64_t first = (test_seed() - 1) * RUN_COUNT;

    (void)state;
    for (uint64_t seed = first; seed < first + RUN_COUNT; seed++) {
        const char *error = run_random(seed, NULL);

        if (error != NULL)
            fail_msg("sequence %llu: %s", (unsigned long long)seed, error);
    }
    assert_true(engine_ops_compared_count > 2 * RUN_COUNT);
}

static const char request_text[] = "ip=192.0.2.1";

static ration_status block(struct engine_kit *kit, uint64_t until_ns)
{
    struct engine_kit_request request;
    struct ration_admin_op op = {0};

    engine_kit_request(&request, request_text);
    op.attributes = request.attributes;
    op.attribute_count = request.count;
    return ration_engine_block_until(kit->engine, &op, until_ns, kit->manual.ns, NULL);
}

static struct ration_decision peek(struct engine_kit *kit)
{
    return engine_kit_ask(kit, request_text, 1, 1).decision;
}

/* Saves the engine, and continues with one that is loaded. */
static void restart(struct engine_kit *kit, const char *text)
{
    struct saved_bytes bytes = {0};
    struct ration_error error = {.message = ""};
    ration_engine *loaded = NULL;

    assert_int_equal(ration_engine_save(kit->engine, kit->manual.ns, saved_write, &bytes),
                     RATION_OK);
    if (ration_engine_load(&kit->options, engine_kit_policy(text), saved_read, &bytes, &loaded,
                           &error) != RATION_OK)
        fail_msg("%s", error.message);
    free(bytes.data);
    ration_engine_free(kit->engine);
    kit->engine = loaded;
}

/* One bound, whatever the kind: a longer block is an error and blocks nobody; the longest one holds over a restart. */
static void a_block_has_a_longest_time(void **state)
{
    static const char *const limits_of_all_kinds[] = {
        "rate: 10/h",
        "rate: 1/365d, burst: 16",
        "rate: 1/365d, burst: 16, refill: interval",
        "rate: 4/s, algorithm: leaky_queue",
        "rate: 9/16y, algorithm: fixed_window",
        "rate: 9/h, algorithm: sliding_window",
        "rate: 9/16y, algorithm: sliding_log",
        "rate: 2/365d, burst: 8, reserve: 1/365d burst 15",
    };
    static const uint64_t too_long_ns[] = {RATION_BLOCK_NS_MAX + 1, RATION_FILL_NS_MAX,
                                           UINT64_C(1) << 60, UINT64_MAX - KIT_NOW_NS};

    (void)state;
    for (size_t i = 0; i < KIT_COUNT_OF(limits_of_all_kinds); i++) {
        struct engine_kit kit;
        char text[160];

        snprintf(text, sizeof(text), "limits: [{name: a, key: ip, %s, max_keys: 100}]",
                 limits_of_all_kinds[i]);
        engine_kit_open(&kit, text);
        for (size_t k = 0; k < KIT_COUNT_OF(too_long_ns); k++) {
            assert_int_equal(block(&kit, KIT_NOW_NS + too_long_ns[k]), RATION_ERANGE);
            assert_int_equal(peek(&kit).verdict, RATION_ALLOW);
        }
        assert_int_equal(block(&kit, KIT_NOW_NS + RATION_BLOCK_NS_MAX), RATION_OK);
        restart(&kit, text);
        kit.manual.ns += RATION_BLOCK_NS_MAX - 1;
        assert_int_equal(peek(&kit).retry_after_ns, 1);
        kit.manual.ns++;
        assert_int_equal(peek(&kit).verdict, RATION_ALLOW);
        engine_kit_close(&kit);
    }
}

/* Negative controls: bugs that must be found ---------------------------------------------------- */

/* The load takes the state for a second older than it is. */
static void ages_by_a_second(struct saved_bytes *state)
{
    (void)state;
    engine_ops_wall_ns +=
        2 * RATION_NS_PER_SECOND; /* one more is within what clocks may differ by */
}

/* Without its last part, and of the version that had none: blocks of windows and logs are lost. */
static void loses_blocks(struct saved_bytes *state)
{
    uint8_t *last = state->data, *next, *second;
    struct saved_bytes first, payload, old;

    while ((next = memmem(last + 1, state->size - (size_t)(last + 1 - state->data), state->data,
                          8)) != NULL)
        last = next;
    second = memmem(state->data + 1, state->size - 1, state->data, 8);
    first = (struct saved_bytes){.data = state->data, .size = (size_t)(second - state->data)};
    payload = saved_unwrap(&first);
    saved_set_number(payload.data, 4, 1);
    old = saved_wrap(payload.data, payload.size);
    saved_add(&old, second, (size_t)(last - second));
    free(payload.data);
    free(state->data);
    *state = old;
}

static void planted_bugs_are_found(void **state)
{
    static engine_ops_bug *const bugs[] = {ages_by_a_second, loses_blocks};

    (void)state;
    for (size_t i = 0; i < sizeof(bugs) / sizeof(bugs[0]); i++) {
        uint64_t seed = 0;

        while (seed < CONTROL_RUNS_MAX && run_random(seed, bugs[i]) == NULL)
            seed++;
        assert_true(seed < CONTROL_RUNS_MAX);
        assert_null(run_random(seed, NULL)); /* it was the bug */
    }
}

static void waits_a_nanosecond_too_long(ration_engine *engine, struct ration_check *check,
                                        uint64_t now_ns)
{
    (void)engine, (void)now_ns;
    if (check->decision.verdict == RATION_DENY)
        check->decision.retry_after_ns++;
}

static void admits_what_it_denies(ration_engine *engine, struct ration_check *check,
                                  uint64_t now_ns)
{
    (void)engine, (void)now_ns;
    if (check->decision.verdict == RATION_DENY)
        check->decision.verdict = RATION_ALLOW;
}

static void peeks_see_no_denial(ration_engine *engine, struct ration_check *check, uint64_t now_ns)
{
    if (check->is_peek)
        admits_what_it_denies(engine, check, now_ns);
}

static void denials_cost_a_token(ration_engine *engine, struct ration_check *check, uint64_t now_ns)
{
    struct ration_engine_guard guard;

    if (check->is_peek || check->decision.verdict != RATION_DENY)
        return;
    ration_engine_lock(engine, &guard);
    for (size_t i = 0; i < ration_policy_limit_count(ration_engine_policy(&guard)); i++)
        (void)ration_limiter_charge(ration_engine_limiter(&guard, i), &check->attributes[1].value,
                                    1, now_ns);
    ration_engine_unlock(&guard);
}

/* Each is found, and for what it is. */
static void planted_bugs_of_checks_are_found(void **state)
{
    static const struct {
        engine_ops_check_bug *bug;
        const char *error;
    } bugs[] = {{waits_a_nanosecond_too_long, "R4: "},
                {admits_what_it_denies, "R1: "},
                {peeks_see_no_denial, "a peek has another verdict"},
                {denials_cost_a_token, "R2: "}};

    (void)state;
    for (size_t i = 0; i < sizeof(bugs) / sizeof(bugs[0]); i++) {
        const char *error = NULL;

        engine_ops_check_bug_planted = bugs[i].bug;
        for (uint64_t seed = 0; seed < CONTROL_RUNS_MAX && error == NULL; seed++)
            error = run_random(seed, NULL);
        engine_ops_check_bug_planted = NULL;
        assert_non_null(error);
        assert_non_null(strstr(error, bugs[i].error));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_saved_loads_and_answers_the_same),
        cmocka_unit_test(a_block_has_a_longest_time),
        cmocka_unit_test(planted_bugs_are_found),
        cmocka_unit_test(planted_bugs_of_checks_are_found),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
