/* The rows of guard_page_test about policies and what puts them to work. */
#include "redis/poll_loop.h"
#include "unit/guard_page.h"

#define POLICY                                                                        \
    "limits:\n"                                                                       \
    "  - {name: all, rate: 1000/s}\n"                                                 \
    "  - {name: client, key: [ip, user], rate: 10/s, cost: weight}\n"                 \
    "  - {name: window, match: {path: {prefix: /a}}, key: ip, rate: 9/s, algorithm: " \
    "sliding-window}\n"                                                               \
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

static ration_gate *create_gate(const struct ration_redis *redis)
{
    ration_gate **gate = GUARDED(ration_gate *);
    struct ration_gate_options *options =
        GUARDED_VALUE(struct ration_gate_options, .struct_size = sizeof(struct ration_gate_options),
                      .throttle_keys_max = 100, .spare_bytes = 1 << 26, .redis = redis);

    assert_int_equal(ration_gate_create(options, read_policy(), gate, GUARDED(struct ration_error)),
                     RATION_OK);
    return *gate;
}

static void gates_checked(void)
{
    ration_gate *gate = create_gate(NULL);
    uint64_t now_ns = ration_gate_now(gate);
    struct ration_check *check = GUARDED(struct ration_check);
    struct ration_edit *edit = GUARDED_VALUE(struct ration_edit, .attributes = request(),
                                             .attribute_count = ATTRIBUTE_COUNT);
    struct ration_visit *visit = GUARDED(struct ration_visit);

    check->attributes = edit->attributes;
    check->attribute_count = ATTRIBUTE_COUNT;
    check->cost_tokens = 1;
    check->parts = GUARDED_ARRAY(struct ration_check_part, RATION_POLICY_MATCHES_MAX);
    ration_gate_check(gate, check, 1, now_ns);
    assert_int_equal(check->status, RATION_OK);
    assert_int_equal(ration_gate_clear_inline(gate), RATION_OK);
    assert_int_equal(check->part_count, 3);
    assert_int_equal(ration_gate_refund(gate, edit, 1, now_ns, GUARDED(size_t)), RATION_OK);
    edit->limit_name = GUARDED_TEXT("window");
    assert_int_equal(ration_gate_block_until(gate, edit, now_ns + 9, now_ns, GUARDED(size_t)),
                     RATION_OK);
    assert_int_equal(ration_gate_reset(gate, edit, now_ns, GUARDED(size_t)), RATION_OK);
    ration_gate_enter(gate, visit);
    assert_non_null(ration_gate_policy(visit));
    assert_int_equal(ration_gate_generation(visit), 1);
    assert_non_null(ration_gate_limiter(visit, 2));
    assert_null(ration_gate_limiter(visit, 3));
    ration_gate_check_guarded(visit, check, 1, now_ns);
    assert_int_equal(check->part_count, 3);
    edit->match_steps = GUARDED(uint64_t);
    assert_int_equal(ration_gate_refund(gate, edit, 1, now_ns, NULL), RATION_OK);
    assert_int_equal(ration_gate_check_some(visit, check, 1, 0, now_ns), 1);
    assert_int_equal(check->match_steps, *edit->match_steps);
    ration_gate_leave(visit);
    assert_non_null(ration_gate_throttle(gate));
    assert_false(ration_gate_is_remote(gate));
    ration_gate_read_stats(gate, GUARDED(struct ration_gate_stats));
    assert_true(ration_gate_bytes(gate) > 0);
    ration_gate_free(gate);
}

static void gates_saved(void)
{
    static struct guard_file file;
    ration_gate *gate = create_gate(NULL);
    ration_gate **loaded = GUARDED(ration_gate *);

    assert_int_equal(
        ration_gate_reload(gate, read_policy(), NULL, NULL, GUARDED(struct ration_error)),
        RATION_OK);
    file.size = file.at = 0;
    assert_int_equal(ration_gate_save(gate, ration_gate_now(gate), guard_write, &file), RATION_OK);
    assert_int_equal(
        ration_gate_load(GUARDED_VALUE(struct ration_gate_options,
                                       .struct_size = sizeof(struct ration_gate_options),
                                       .spare_bytes = 1 << 26),
                         read_policy(), guard_read, &file, loaded, GUARDED(struct ration_error)),
        RATION_OK);
    ration_gate_free(*loaded);
    ration_gate_free(gate);
}

static void note_edit(void *context, ration_status status, size_t count)
{
    *(ration_status *)context = status;
    (void)count;
}

static void note_batch(void *context)
{
    ++*(int *)context;
}

/* Redis that is not there: every call is answered by what the policy has instead. */
static void gates_on_redis(void)
{
    ration_gate *gate = create_gate(
        GUARDED_VALUE(struct ration_redis, .url = GUARDED_TEXT("unix:/nowhere/redis.sock")));
    struct ration_poll_loop *poll_loop = ration_poll_loop_create();
    ration_gate_link **link = GUARDED(ration_gate_link *);
    struct ration_redis_loop *loop =
        guarded_copy(ration_poll_loop_hooks(poll_loop), sizeof(struct ration_redis_loop));
    struct ration_check *check =
        GUARDED_VALUE(struct ration_check, .attributes = request(),
                      .attribute_count = ATTRIBUTE_COUNT, .cost_tokens = 1);
    struct ration_gate_task *task =
        GUARDED_VALUE(struct ration_gate_task, .kind = (enum ration_gate_edit_kind)3,
                      .keys = guarded_key("k"), .key_count = 1);
    ration_status *edited = GUARDED(ration_status);
    int *done_count = GUARDED(int);
    ration_gate_batch *batch;

    assert_true(ration_gate_is_remote(gate));
    assert_int_equal(ration_gate_link_create(gate, loop, link), RATION_OK);
    assert_false(ration_gate_link_is_up(*link));
    (void)ration_gate_link_is_tried(*link);
    assert_non_null(ration_gate_link_trouble(*link));
    ration_gate_link_stats(*link, GUARDED(struct ration_redis_stats));
    batch = ration_gate_batch_create(*link, NULL, ration_gate_now(gate), note_batch, done_count);
    assert_int_equal(ration_gate_batch_add(batch, check), RATION_OK);
    assert_int_equal(
        ration_gate_batch_add_throttle(batch, guarded_key("k"), guarded_limit("5/s"), 1, false),
        RATION_OK);
    (void)ration_gate_batch_send(batch);
    assert_int_equal(ration_gate_batch_count(batch), 2);
    assert_non_null(ration_gate_batch_check(batch, 1));
    ration_gate_batch_free(batch);
    assert_null(ration_gate_edit_begin(*link, task, note_edit, edited));
    assert_int_equal(*edited, RATION_EINVAL);
    task->kind = RATION_EDIT_RESET;
    ration_gate_editing_forget(ration_gate_edit_begin(*link, task, note_edit, edited));
    ration_gate_link_free(*link);
    ration_gate_free(gate);
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
    {"ration_gate_create ration_gate_free ration_gate_now ration_gate_check "
     "ration_gate_check_guarded ration_gate_check_some ration_gate_refund "
     "ration_gate_reset ration_gate_block_until ration_gate_enter ration_gate_leave "
     "ration_gate_policy ration_gate_generation ration_gate_limiter ration_gate_throttle "
     "ration_gate_is_remote ration_gate_read_stats ration_gate_bytes ration_gate_clear_inline",
     gates_checked},
    {"ration_gate_reload ration_gate_save ration_gate_load", gates_saved},
    {"ration_gate_link_create ration_gate_link_free ration_gate_link_is_up "
     "ration_gate_link_is_tried ration_gate_link_trouble ration_gate_link_stats "
     "ration_gate_batch_create ration_gate_batch_add ration_gate_batch_add_throttle "
     "ration_gate_batch_send ration_gate_batch_count ration_gate_batch_check "
     "ration_gate_batch_free ration_gate_edit_begin ration_gate_editing_forget",
     gates_on_redis},
};
const size_t guard_policy_row_count = sizeof(guard_policy_rows) / sizeof(guard_policy_rows[0]);
