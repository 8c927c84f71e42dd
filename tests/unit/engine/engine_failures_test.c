/*
 * Each allocation of an engine fails in turn: RATION_ENOMEM with a reason, nothing written, reported or leaked, and the
 * caller still owns the policy.
 */
#include "support/saved_dump.h"
#include "unit/engine/engine_kit.h"
#include "unit/limiter/limiter_allocations.h"

static const char before_text[] =
    "limits: [{name: a, match: {path: /a}, key: ip, rate: 10/h, max_keys: 100}, "
    "{name: b, key: ip, rate: 10/h, max_keys: 100}]";

/* One added, one that continues by another key, one of another kind. */
static const char after_text[] =
    "limits: [{name: c, rate: 99/h}, {name: b, key: user, rate: 20/h, max_keys: 100}, "
    "{name: a, match: {path: /a}, key: ip, rate: 10/h, algorithm: sliding_log, max_keys: 100}]";

static void plan(struct engine_kit *kit)
{
    engine_kit_plan(kit);
    kit->options.top_keys = 4;
}

static void open_kit(struct engine_kit *kit)
{
    plan(kit);
    assert_int_equal(
        ration_engine_create(&kit->options, engine_kit_policy(before_text), &kit->engine, NULL),
        RATION_OK);
    engine_kit_ask(kit, "path=/a ip=192.0.2.1", 4, 0);
}

static void begin_refusal(uint64_t refused)
{
    allocations.call_count = 0;
    allocations.fails_at = refused;
}

/* Whether all that was asked for was given. */
static bool end_refusal(ration_status status, const struct ration_error *error)
{
    bool is_given = allocations.call_count < allocations.fails_at;

    allocations.fails_at = 0;
    if (is_given) {
        assert_int_equal(status, RATION_OK);
        return true;
    }
    assert_int_equal(status, RATION_ENOMEM);
    if (error != NULL) {
        assert_int_equal(error->status, RATION_ENOMEM);
        assert_true(strlen(error->message) > 10);
    }
    return false;
}

static void an_engine_without_memory_is_not_created(void **state)
{
    ration_policy *policy = engine_kit_policy(before_text);
    ration_engine *untouched = (ration_engine *)&policy;
    int64_t live_count = allocations.live_count;
    uint64_t refused = 1;
    struct engine_kit kit;

    (void)state;
    for (;; refused++) {
        struct ration_error error = {.message = ""};
        ration_status status;

        plan(&kit);
        kit.engine = untouched;
        begin_refusal(refused);
        status = ration_engine_create(&kit.options, policy, &kit.engine, &error);
        if (end_refusal(status, &error))
            break;
        assert_ptr_equal(kit.engine, untouched);
        assert_int_equal(allocations.live_count, live_count);
        assert_int_equal(ration_policy_limit_count(policy), 2);
    }
    assert_true(refused > 25);
    assert_int_equal(engine_kit_check(&kit, "ip=192.0.2.1").decision.remaining, 9);
    engine_kit_close(&kit);
    assert_int_equal(allocations.live_count, 0);
}

static void a_reload_without_memory_changes_nothing(void **state)
{
    bool is_done = false;
    uint64_t refused = 1;

    (void)state;
    for (; !is_done; refused++) {
        struct engine_kit_report reported = {.text = ""};
        struct ration_error error = {.message = ""};
        ration_status status;
        struct engine_kit kit;
        ration_policy *policy;

        open_kit(&kit);
        policy = engine_kit_policy(after_text);
        begin_refusal(refused);
        status = ration_engine_reload(kit.engine, policy, engine_kit_hear, &reported, &error);
        is_done = end_refusal(status, &error);
        if (!is_done) {
            assert_string_equal(reported.text, "");
            assert_int_equal(engine_kit_left(&kit, "path=/a ip=192.0.2.1"), 6);
            assert_int_equal(engine_kit_left(&kit, "ip=192.0.2.1"), 6);
            ration_policy_free(policy);
            assert_string_equal(engine_kit_reload(&kit, before_text).text, "");
            assert_int_equal(engine_kit_left(&kit, "path=/a ip=192.0.2.1"), 6);
            reported = engine_kit_reload(&kit, after_text);
        }
        assert_string_equal(reported.text, "added c, reset b, reset a");
        assert_int_equal(engine_kit_left(&kit, "path=/a ip=192.0.2.1 user=u"), 10);
        assert_int_equal(engine_kit_left(&kit, "path=/b ip=192.0.2.1 user=u"), 20);
        engine_kit_close(&kit);
        assert_int_equal(allocations.live_count, 0);
    }
    assert_true(refused > 10);
}

/* A new limit in the place of one that is gone. Pages that the system does not take back are cleared by hand. */
static void a_limit_without_memory_replaces_none(void **state)
{
    uint64_t refused = 1, refused_count = 0;
    bool is_given = false;

    (void)state;
    for (; !is_given; refused++) {
        ration_policy *policy;
        struct engine_kit kit;
        ration_status status;
        char text[128];

        open_kit(&kit);
        for (unsigned i = 0; i < 12; i++) {
            snprintf(text, sizeof(text),
                     "limits: [{name: n%u, key: ip, rate: 10/h, max_keys: 100}]", i);
            engine_kit_reload(&kit, text);
            engine_kit_ask(&kit, "ip=192.0.2.1", 4, 0);
        }
        policy = engine_kit_policy("limits: [{name: last, key: ip, rate: 10/h, max_keys: 100}]");
        begin_refusal(refused);
        status = ration_engine_reload(kit.engine, policy, NULL, NULL, NULL);
        is_given = allocations.call_count < allocations.fails_at;
        allocations.fails_at = 0;
        if (status != RATION_OK) {
            assert_int_equal(status, RATION_ENOMEM);
            assert_int_equal(engine_kit_left(&kit, "ip=192.0.2.1"), 6);
            assert_int_equal(ration_engine_reload(kit.engine, policy, NULL, NULL, NULL), RATION_OK);
            refused_count++;
        }
        assert_int_equal(engine_kit_left(&kit, "ip=192.0.2.1"), 10);
        engine_kit_close(&kit);
        assert_int_equal(allocations.live_count, 0);
    }
    assert_true(refused_count > 5);
}

static ration_status write_nothing(void *context, const void *bytes, size_t size)
{
    (void)context, (void)bytes, (void)size;
    return RATION_OK;
}

static void a_save_without_memory_is_none(void **state)
{
    uint64_t refused = 1;
    struct engine_kit kit;

    (void)state;
    open_kit(&kit);
    for (;; refused++) {
        int64_t live_count = allocations.live_count;
        ration_status status;

        begin_refusal(refused);
        status = ration_engine_save(kit.engine, KIT_NOW_NS, write_nothing, NULL);
        if (end_refusal(status, NULL))
            break;
        assert_int_equal(allocations.live_count, live_count);
    }
    assert_true(refused > 2);
    assert_int_equal(engine_kit_left(&kit, "path=/a ip=192.0.2.1"), 6);
    engine_kit_close(&kit);
    assert_int_equal(allocations.live_count, 0);
}

/* Under a policy that asks for more than was saved. */
static void a_load_without_memory_is_none(void **state)
{
    struct saved_bytes bytes = {0};
    ration_engine *untouched = (ration_engine *)&bytes;
    ration_policy *policy;
    uint64_t refused = 1;
    int64_t live_count;
    struct engine_kit kit;

    (void)state;
    open_kit(&kit);
    assert_int_equal(ration_engine_save(kit.engine, KIT_NOW_NS, saved_write, &bytes), RATION_OK);
    engine_kit_close(&kit);
    policy = engine_kit_policy(after_text);
    live_count = allocations.live_count;
    for (;; refused++) {
        struct ration_error error = {.message = ""};
        ration_status status;

        plan(&kit);
        kit.engine = untouched;
        bytes.at = 0;
        begin_refusal(refused);
        status = ration_engine_load(&kit.options, policy, saved_read, &bytes, &kit.engine, &error);
        if (end_refusal(status, &error))
            break;
        assert_ptr_equal(kit.engine, untouched);
        assert_int_equal(allocations.live_count, live_count);
        assert_int_equal(ration_policy_limit_count(policy), 3);
    }
    assert_true(refused > 30);
    assert_string_equal(engine_kit_reload(&kit, before_text).text, "reset a, reset b, removed c");
    engine_kit_close(&kit);
    free(bytes.data);
    assert_int_equal(allocations.live_count, 0);
}

/* Without a wish of the caller's as to what is spare, less of it does, at creation and load. */
static void an_engine_works_with_fewer_addresses(void **state)
{
    struct saved_bytes bytes = {0};
    struct engine_kit kit;

    (void)state;
    open_kit(&kit);
    assert_int_equal(ration_engine_save(kit.engine, KIT_NOW_NS, saved_write, &bytes), RATION_OK);
    engine_kit_close(&kit);
    for (int is_load = 0; is_load <= 1; is_load++) {
        uint64_t made_count = 0;

        for (uint64_t refused = 1; allocations.call_count >= refused - 1; refused++) {
            ration_policy *policy = engine_kit_policy(before_text);
            ration_status status;

            plan(&kit);
            kit.options.spare_bytes = 0;
            bytes.at = 0;
            begin_refusal(refused);
            status = is_load ? ration_engine_load(&kit.options, policy, saved_read, &bytes,
                                                  &kit.engine, NULL)
                             : ration_engine_create(&kit.options, policy, &kit.engine, NULL);
            allocations.fails_at = 0;
            if (status == RATION_OK) {
                made_count += allocations.call_count >= refused;
                engine_kit_close(&kit);
            } else {
                assert_int_equal(status, RATION_ENOMEM);
                ration_policy_free(policy);
            }
        }
        assert_true(made_count >= 1);
        allocations.call_count = 0;
    }
    free(bytes.data);
    assert_int_equal(allocations.live_count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_engine_without_memory_is_not_created),
        cmocka_unit_test(a_reload_without_memory_changes_nothing),
        cmocka_unit_test(a_limit_without_memory_replaces_none),
        cmocka_unit_test(a_save_without_memory_is_none),
        cmocka_unit_test(a_load_without_memory_is_none),
        cmocka_unit_test(an_engine_works_with_fewer_addresses),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
