/*
 * A store that answers asynchronously: the limiter's side of the store interface, with a store that queues every op until
 * the test lets it complete.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "limiter/limiter_internal.h"
#include "store/memory.h"

#define ASKED_MAX 8

/* Answers from memory, but only when the test calls complete. */
struct slow_store {
    struct ration_store store;
    struct ration_memory *memory;
    struct ration_op *asked[ASKED_MAX];
    size_t asked_count;
    ration_status error; /* the status to return instead; RATION_OK: the decision */
};

static ration_status slow_begin(struct ration_store *store, struct ration_op *op)
{
    struct slow_store *slow = (struct slow_store *)store;

    assert_true(slow->asked_count < ASKED_MAX);
    slow->asked[slow->asked_count++] = op;
    return RATION_EPENDING;
}

/* Executes the oldest op and completes it. */
static void slow_answer(struct slow_store *slow)
{
    struct ration_op *op = slow->asked[0];
    ration_status status = slow->error;

    memmove(slow->asked, slow->asked + 1, --slow->asked_count * sizeof(slow->asked[0]));
    if (status == RATION_OK)
        status = ration_memory_begin(&slow->memory->store, op);
    op->done(op, status);
}

static const struct ration_store_calls slow_calls = {.begin = slow_begin};

struct scene {
    struct slow_store slow;
    struct ration_limiter limiter;
    struct ration_rule rule;
};

static struct ration_rule rule_of(const char *text)
{
    struct ration_rule rule = {0};

    assert_int_equal(ration_limit_parse(text, &rule.limit, NULL), RATION_OK);
    return rule;
}

static void scene_init(struct scene *scene, const char *text)
{
    struct ration_section_shape shape = {.keys_max = 100};
    struct ration_block_plan plan = {
        .shapes = &shape, .shape_count = 1, .clock_kind = RATION_CLOCK_MANUAL};
    struct ration_config_table configs;
    struct ration_limiter_options options = {.struct_size = sizeof(options)};
    static struct ration_manual_clock manual;

    memset(scene, 0, sizeof(*scene));
    scene->rule = rule_of(text);
    assert_int_equal(ration_config_table_init(&configs, &scene->rule, 1, NULL), RATION_OK);
    assert_int_equal(
        ration_memory_create(&plan, (struct ration_mapping_options){0}, &scene->slow.memory),
        RATION_OK);
    scene->slow.store.calls = &slow_calls;
    assert_int_equal(ration_limiter_init(&scene->limiter, &options, &configs, &scene->slow.store, 0,
                                         ration_clock_manual(&manual)),
                     RATION_OK);
}

static void scene_done(struct scene *scene)
{
    ration_limiter_done(&scene->limiter);
    scene->slow.memory->store.calls->free(&scene->slow.memory->store);
}

struct answer {
    int count;
    ration_status status;
    struct ration_decision decision;
};

static void note(struct ration_pending *pending, ration_status status,
                 const struct ration_decision *decision)
{
    struct answer *answer = pending->context;

    answer->count++;
    answer->status = status;
    if (status == RATION_OK)
        answer->decision = *decision;
}

static void an_op_completes_once_and_asynchronously(void **state)
{
    struct scene scene;
    struct answer answers[3] = {{0}};
    struct ration_pending pendings[3];
    struct ration_decision untouched = {.remaining = 77};
    struct ration_limiter_report report;

    (void)state;
    scene_init(&scene, "2 per 10s");
    for (int i = 0; i < 3; i++) {
        pendings[i] = (struct ration_pending){.done = note, .context = &answers[i]};
        assert_int_equal(
            ration_limiter_begin(&scene.limiter, &RATION_KEY("a"), 1, 0, &pendings[i], &untouched),
            RATION_EPENDING);
        assert_int_equal(answers[i].count, 0);
    }
    assert_int_equal(untouched.remaining, 77);
    for (int i = 0; i < 3; i++)
        slow_answer(&scene.slow);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(answers[i].count, 1);
        assert_int_equal(answers[i].status, RATION_OK);
        assert_int_equal(answers[i].decision.verdict, i < 2 ? RATION_ALLOW : RATION_DENY);
    }
    assert_int_equal(answers[2].decision.retry_after_ns, 5 * RATION_NS_PER_SECOND);
    ration_limiter_read_report(&scene.limiter, &report);
    assert_int_equal(report.rules[0].allowed, 2);
    assert_int_equal(report.rules[0].denied, 1);
    scene_done(&scene);
}

static void a_failed_store_is_not_a_denial(void **state)
{
    struct scene scene;
    struct answer answer = {0};
    struct ration_pending pending = {.done = note, .context = &answer};
    struct ration_decision decision;
    struct ration_limiter_report report;

    (void)state;
    scene_init(&scene, "2 per 10s");
    scene.slow.error = RATION_ESTORE;
    assert_int_equal(
        ration_limiter_begin(&scene.limiter, &RATION_KEY("a"), 1, 0, &pending, &decision),
        RATION_EPENDING);
    slow_answer(&scene.slow);
    assert_int_equal(answer.status, RATION_ESTORE);
    ration_limiter_read_report(&scene.limiter, &report);
    assert_int_equal(report.rules[0].errors, 1);
    assert_int_equal(report.rules[0].denied, 0);
    scene_done(&scene);
}

/* The limits change while an op is pending: it is repeated under the new ones. */
static void a_pending_op_uses_changed_limits(void **state)
{
    struct scene scene;
    struct answer answer = {0};
    struct ration_pending pending = {.done = note, .context = &answer};
    struct ration_decision decision;

    (void)state;
    scene_init(&scene, "2 per 10s");
    assert_int_equal(
        ration_limiter_begin(&scene.limiter, &RATION_KEY("a"), 3, 0, &pending, &decision),
        RATION_EPENDING);
    /* so often that the config with which the op began is overwritten */
    for (int i = 0; i < RATION_CONFIG_COUNT; i++) {
        struct ration_rule rule = rule_of("5 per 10s");

        ration_config_table_replace(&scene.limiter.configs, &rule, 1, RATION_CHANGE_KEEP, 0);
    }
    slow_answer(&scene.slow);
    assert_int_equal(answer.count, 0);
    slow_answer(&scene.slow);
    assert_int_equal(answer.count, 1);
    assert_int_equal(answer.decision.verdict, RATION_ALLOW);
    assert_int_equal(answer.decision.remaining, 2);
    scene_done(&scene);
}

static void memory_answers_at_once(void **state)
{
    struct ration_rule rule = rule_of("1/s");
    struct ration_manual_clock manual = {0};
    struct ration_clock clock = ration_clock_manual(&manual);
    struct answer answer = {0};
    struct ration_pending pending = {.done = note, .context = &answer};
    struct ration_decision decision;
    ration_limiter *limiter;

    (void)state;
    assert_int_equal(
        ration_limiter_create(
            &(struct ration_limiter_options){.struct_size = sizeof(struct ration_limiter_options),
                                             .rules = &rule,
                                             .rule_count = 1,
                                             .keys_max = 10,
                                             .clock = &clock},
            &limiter, NULL),
        RATION_OK);
    assert_int_equal(ration_limiter_begin(limiter, &RATION_KEY("a"), 1, 0, &pending, &decision),
                     RATION_OK);
    assert_int_equal(decision.verdict, RATION_ALLOW);
    assert_int_equal(ration_limiter_begin(limiter, &RATION_KEY("a"), 1, 0, &pending, &decision),
                     RATION_OK);
    assert_int_equal(decision.verdict, RATION_DENY);
    assert_int_equal(ration_limiter_begin(limiter, NULL, 1, 0, &pending, &decision), RATION_EINVAL);
    assert_int_equal(answer.count, 0);
    ration_limiter_free(limiter);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_op_completes_once_and_asynchronously),
        cmocka_unit_test(a_failed_store_is_not_a_denial),
        cmocka_unit_test(a_pending_op_uses_changed_limits),
        cmocka_unit_test(memory_answers_at_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
