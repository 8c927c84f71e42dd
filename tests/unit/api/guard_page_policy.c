/* The rows of guard_page_test about policies and what puts them to work. */
#include "redis/poll_loop.h"
#include "unit/api/guard_page.h"

#define POLICY                                                                        \
    "limits:\n"                                                                       \
    "  - {name: all, rate: 1000/s}\n"                                                 \
    "  - {name: client, key: [ip, user], rate: 10/s, cost: weight}\n"                 \
    "  - {name: window, match: {path: {prefix: /a}}, key: ip, rate: 9/s, algorithm: " \
    "sliding_window}\n"                                                               \
    "exempt: [{user: root}]\n"                                                        \
    "server: {token: secret}\n"

/* The policy is read from a text without a byte after it. */
static ration_policy *read_policy(void)
{
    ration_policy **policy = GUARDED(ration_policy *);

    assert_int_equal(ration_policy_parse(guarded_copy(POLICY, sizeof(POLICY) - 1),
                                         sizeof(POLICY) - 1, NULL, NULL, policy),
                     RATION_OK);
    return *policy;
}

/* So many attributes, each with a name and a value of its own. */
#define ATTRIBUTE_COUNT 4

static struct ration_attribute *request(void)
{
    static const char *const words[ATTRIBUTE_COUNT][2] = {
        {"ip", "2001:db8::1"}, {"user", "a|b"}, {"path", "/abc"}, {"weight", "2"}};
    struct ration_attribute *attributes = GUARDED_ARRAY(struct ration_attribute, ATTRIBUTE_COUNT);

    for (int i = 0; i < ATTRIBUTE_COUNT; i++) {
        attributes[i].name = *guarded_key(words[i][0]);
        attributes[i].value = *guarded_key(words[i][1]);
    }
    return attributes;
}

static void policies_read(void)
{
    ration_policy **policy = GUARDED(ration_policy *);
    static const char *const wrong[] = {"",     "a",   "limits: [", "limits: [{name: \"\\",
                                        "\xff", "- *a"};

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        size_t size = strlen(wrong[i]);

        (void)ration_policy_parse(guarded_copy(wrong[i], size), size, NULL, NULL, policy);
        ration_policy_free(*policy);
        *policy = NULL;
    }
    (void)ration_policy_parse(NULL, 0, NULL, NULL, policy);
    ration_policy_free(*policy);
    *policy = NULL;
    assert_int_equal(ration_policy_parse(NULL, 1, NULL, NULL, policy), RATION_EINVAL);
    assert_int_equal(ration_policy_load(GUARDED_TEXT("/nowhere/policy.yaml"), NULL, NULL, policy),
                     RATION_EINVAL);
    ration_policy_free(NULL);
}

static void policies_matched(void)
{
    ration_policy *policy = read_policy();
    const struct ration_attribute *attributes = request();
    struct ration_policy_match *match = GUARDED(struct ration_policy_match);
    struct ration_key *key = GUARDED(struct ration_key);
    size_t *indexes = GUARDED_ARRAY(size_t, 2);

    assert_int_equal(ration_policy_find_matches(policy, attributes, ATTRIBUTE_COUNT, match),
                     RATION_OK);
    assert_int_equal(ration_policy_limit_count(policy), 3);
    assert_null(ration_policy_limit_at(policy, 3));
    assert_null(ration_policy_setting_at(policy, ration_policy_setting_count(policy)));
    assert_false(ration_policy_is_one_slot(policy));
    assert_true(ration_policy_find_two_keys(policy, &indexes[0], &indexes[1]));
    assert_true(ration_policy_uses(policy, GUARDED_TEXT("user")));
    assert_false(ration_policy_uses(policy, GUARDED_TEXT("")));
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(
            ration_policy_cost(policy, i, attributes, ATTRIBUTE_COUNT, 1, GUARDED(uint64_t)),
            i < 3 ? RATION_OK : RATION_EINVAL);
        for (size_t size = 0; size < 4; size++)
            (void)ration_policy_key(policy, i, attributes, ATTRIBUTE_COUNT, guarded(8 * size),
                                    8 * size, key);
    }
    for (size_t size = 1; size < 8; size++) {
        (void)ration_policy_describe(policy, 2, guarded(size), size);
        (void)ration_policy_explain(policy, 2, attributes, 1, guarded(size), size);
    }
    ration_policy_forget_settings(policy);
    assert_int_equal(ration_policy_setting_count(policy), 0);
    ration_policy_free(policy);
}

static ration_engine *create_engine(const struct ration_redis *redis)
{
    ration_engine **engine = GUARDED(ration_engine *);
    struct ration_engine_options *options = GUARDED_VALUE(
        struct ration_engine_options, .struct_size = sizeof(struct ration_engine_options),
        .inline_keys_max = 100, .spare_bytes = 1 << 26, .redis = redis);

    assert_int_equal(
        ration_engine_create(options, read_policy(), engine, GUARDED(struct ration_error)),
        RATION_OK);
    return *engine;
}

static void engines_checked(void)
{
    ration_engine *engine = create_engine(NULL);
    uint64_t now_ns = ration_engine_now(engine);
    struct ration_check *check = GUARDED(struct ration_check);
    struct ration_admin_op *op = GUARDED_VALUE(struct ration_admin_op, .attributes = request(),
                                               .attribute_count = ATTRIBUTE_COUNT);
    struct ration_engine_guard *guard = GUARDED(struct ration_engine_guard);

    check->attributes = op->attributes;
    check->attribute_count = ATTRIBUTE_COUNT;
    check->cost_tokens = 1;
    check->parts = GUARDED_ARRAY(struct ration_check_part, RATION_POLICY_MATCHES_MAX);
    ration_engine_check(engine, check, 1, now_ns);
    assert_int_equal(check->status, RATION_OK);
    assert_int_equal(ration_engine_clear_inline(engine), RATION_OK);
    assert_int_equal(check->part_count, 3);
    assert_int_equal(ration_engine_refund(engine, op, 1, now_ns, GUARDED(size_t)), RATION_OK);
    op->limit_name = GUARDED_TEXT("window");
    assert_int_equal(ration_engine_block_until(engine, op, now_ns + 9, now_ns, GUARDED(size_t)),
                     RATION_OK);
    assert_int_equal(ration_engine_reset(engine, op, now_ns, GUARDED(size_t)), RATION_OK);
    ration_engine_lock(engine, guard);
    assert_non_null(ration_engine_policy(guard));
    assert_int_equal(ration_engine_generation(guard), 1);
    assert_non_null(ration_engine_limiter(guard, 2));
    assert_null(ration_engine_limiter(guard, 3));
    ration_engine_check_guarded(guard, check, 1, now_ns);
    assert_int_equal(check->part_count, 3);
    op->match_steps = GUARDED(uint64_t);
    assert_int_equal(ration_engine_refund(engine, op, 1, now_ns, NULL), RATION_OK);
    assert_int_equal(ration_engine_check_some(guard, check, 1, 0, now_ns), 1);
    assert_int_equal(check->match_steps, *op->match_steps);
    ration_engine_unlock(guard);
    assert_non_null(ration_engine_inline_limiter(engine));
    assert_false(ration_engine_is_remote(engine));
    ration_engine_read_stats(engine, GUARDED(struct ration_engine_stats));
    assert_true(ration_engine_bytes(engine) > 0);
    ration_engine_free(engine);
}

static void engines_saved(void)
{
    static struct guard_file file;
    ration_engine *engine = create_engine(NULL);
    ration_engine **loaded = GUARDED(ration_engine *);

    assert_int_equal(
        ration_engine_reload(engine, read_policy(), NULL, NULL, GUARDED(struct ration_error)),
        RATION_OK);
    file.size = file.at = 0;
    assert_int_equal(ration_engine_save(engine, ration_engine_now(engine), guard_write, &file),
                     RATION_OK);
    assert_int_equal(
        ration_engine_load(GUARDED_VALUE(struct ration_engine_options,
                                         .struct_size = sizeof(struct ration_engine_options),
                                         .spare_bytes = 1 << 26),
                           read_policy(), guard_read, &file, loaded, GUARDED(struct ration_error)),
        RATION_OK);
    ration_engine_free(*loaded);
    ration_engine_free(engine);
}

static void note_admin(void *context, ration_status status, size_t count)
{
    *(ration_status *)context = status;
    (void)count;
}

static void note_batch(void *context)
{
    ++*(int *)context;
}

/* Redis that is not there: every call is answered by what the policy has instead. */
static void engines_on_redis(void)
{
    ration_engine *engine = create_engine(
        GUARDED_VALUE(struct ration_redis, .url = GUARDED_TEXT("unix:/nowhere/redis.sock")));
    struct ration_poll_loop *poll_loop = ration_poll_loop_create();
    ration_engine_connection **link = GUARDED(ration_engine_connection *);
    struct ration_redis_loop *loop =
        guarded_copy(ration_poll_loop_hooks(poll_loop), sizeof(struct ration_redis_loop));
    struct ration_check *check =
        GUARDED_VALUE(struct ration_check, .attributes = request(),
                      .attribute_count = ATTRIBUTE_COUNT, .cost_tokens = 1);
    struct ration_engine_admin_task *task =
        GUARDED_VALUE(struct ration_engine_admin_task, .kind = (enum ration_admin_op_kind)3,
                      .keys = guarded_key("k"), .key_count = 1);
    ration_status *admin_status = GUARDED(ration_status);
    int *done_count = GUARDED(int);
    ration_engine_batch *batch;

    assert_true(ration_engine_is_remote(engine));
    assert_int_equal(ration_engine_connection_create(engine, loop, link), RATION_OK);
    assert_false(ration_engine_connection_is_connected(*link));
    (void)ration_engine_connection_has_connected(*link);
    assert_non_null(ration_engine_connection_last_error(*link));
    ration_engine_connection_stats(*link, GUARDED(struct ration_redis_stats));
    batch =
        ration_engine_batch_create(*link, NULL, ration_engine_now(engine), note_batch, done_count);
    assert_int_equal(ration_engine_batch_add(batch, check), RATION_OK);
    assert_int_equal(
        ration_engine_batch_add_inline(batch, guarded_key("k"), guarded_limit("5/s"), 1, false),
        RATION_OK);
    (void)ration_engine_batch_send(batch);
    assert_int_equal(ration_engine_batch_count(batch), 2);
    assert_non_null(ration_engine_batch_check(batch, 1));
    ration_engine_batch_free(batch);
    assert_null(ration_engine_admin_begin(*link, task, note_admin, admin_status));
    assert_int_equal(*admin_status, RATION_EINVAL);
    task->kind = RATION_ADMIN_RESET;
    ration_engine_admin_forget(ration_engine_admin_begin(*link, task, note_admin, admin_status));
    ration_engine_connection_free(*link);
    ration_engine_free(engine);
    ration_poll_loop_free(poll_loop);
}

const struct guard_row guard_policy_rows[] = {
    {"ration_policy_parse ration_policy_load ration_policy_free", policies_read},
    {"ration_policy_find_matches ration_policy_limit_at ration_policy_limit_count "
     "ration_policy_setting_at "
     "ration_policy_setting_count ration_policy_is_one_slot ration_policy_find_two_keys "
     "ration_policy_uses ration_policy_cost ration_policy_key ration_policy_describe "
     "ration_policy_explain ration_policy_forget_settings",
     policies_matched},
    {"ration_engine_create ration_engine_free ration_engine_now ration_engine_check "
     "ration_engine_check_guarded ration_engine_check_some ration_engine_refund "
     "ration_engine_reset ration_engine_block_until ration_engine_lock ration_engine_unlock "
     "ration_engine_policy ration_engine_generation ration_engine_limiter "
     "ration_engine_inline_limiter "
     "ration_engine_is_remote ration_engine_read_stats ration_engine_bytes "
     "ration_engine_clear_inline",
     engines_checked},
    {"ration_engine_reload ration_engine_save ration_engine_load", engines_saved},
    {"ration_engine_connection_create ration_engine_connection_free "
     "ration_engine_connection_is_connected "
     "ration_engine_connection_has_connected ration_engine_connection_last_error "
     "ration_engine_connection_stats "
     "ration_engine_batch_create ration_engine_batch_add ration_engine_batch_add_inline "
     "ration_engine_batch_send ration_engine_batch_count ration_engine_batch_check "
     "ration_engine_batch_free ration_engine_admin_begin ration_engine_admin_forget",
     engines_on_redis},
};
const size_t guard_policy_row_count = sizeof(guard_policy_rows) / sizeof(guard_policy_rows[0]);
