/*
 * Each allocation while reading a policy fails in turn: RATION_ENOMEM, nothing
 * written, nothing leaked. And deciding requests allocates nothing.
 */
#include "unit/limiter/limiter_allocations.h"
#include "unit/policy/policy_kit.h"

static char text[300000];

static void write_policy(void)
{
    size_t used = (size_t)sprintf(text, "server: {http: [a, b]}\nbanned: [{ip: 10.0.0.0/8}]\n"
                                        "exempt: [{user: {glob: 'a*b'}}]\nlimits:\n");

    for (int i = 0; i < 1000; i++)
        used += (size_t)sprintf(text + used,
                                "  - {name: n%d, rate: 10/s, key: [user, ip], cost: tokens, "
                                "match: {path: [/p%d, {prefix: /q%d/}], plan: {not: free}}}\n",
                                i, i, i);
}

static ration_status parse(void *context, ration_policy **out_policy)
{
    (void)context;
    return ration_policy_parse(text, strlen(text), NULL, NULL, out_policy);
}

static ration_status load(void *context, ration_policy **out_policy)
{
    return ration_policy_load(context, NULL, NULL, out_policy);
}

/* Lets each allocation fail in turn until the policy is read, and returns it. */
static ration_policy *refuse_each(ration_status (*read)(void *context, ration_policy **out_policy),
                                  void *context, uint64_t refused_min)
{
    static char nothing;

    for (uint64_t refused = 1;; refused++) {
        ration_policy *policy = (void *)&nothing;
        int64_t live_count = allocations.live_count;
        allocations.call_count = 0;
        allocations.fails_at = refused;
        ration_status status = read(context, &policy);
        allocations.fails_at = 0;
        if (status == RATION_OK) {
            assert_true(allocations.call_count < refused);
            assert_true(refused > refused_min);
            return policy;
        }
        assert_int_equal(status, RATION_ENOMEM);
        assert_ptr_equal(policy, &nothing);
        assert_int_equal(allocations.live_count, live_count);
    }
}

static void a_policy_without_memory_is_not_read(void **state)
{
    (void)state;
    write_policy();
    ration_policy_free(refuse_each(parse, NULL, 10));
    assert_int_equal(allocations.live_count, 0);
}

static void a_file_without_memory_is_not_read(void **state)
{
    static char path[] = RATION_SOURCE "/examples/policies/api.yaml";

    (void)state;
    ration_policy_free(refuse_each(load, path, 4));
    assert_int_equal(allocations.live_count, 0);
}

static void refuse_each_of_a_wrong_policy(const char *wrong)
{
    for (uint64_t refused = 1;; refused++) {
        ration_policy *policy = NULL;
        allocations.call_count = 0;
        allocations.fails_at = refused;
        ration_status status = ration_policy_parse(wrong, strlen(wrong), NULL, NULL, &policy);
        allocations.fails_at = 0;
        assert_null(policy);
        assert_int_equal(allocations.live_count, 0);
        if (allocations.call_count < refused) {
            assert_int_equal(status, RATION_EINVAL);
            return;
        }
        assert_int_equal(status, RATION_ENOMEM);
    }
}

/*
 * A error for which there is no memory is not reported, and the policy not taken for right. Of many sizes, so
 * that some run out just when an error is noted.
 */
static void errors_without_memory_are_no_policy(void **state)
{
    static char wrong[10000];
    size_t used = (size_t)sprintf(wrong, "limits:\n");

    (void)state;
    for (int i = 0; i < 100; i++) {
        used += (size_t)sprintf(wrong + used, "  - {name: n%d, rate: 1/s, brust: 3}\n", i);
        refuse_each_of_a_wrong_policy(wrong);
    }
}

static void answers_need_no_memory(void **state)
{
    struct kit_request request =
        REQUEST("path", "/p777", "user", "al", "ip", "192.0.2.1", "tokens", "5");
    struct ration_policy_match match;
    struct ration_key key;
    uint64_t cost;
    char room[300];

    (void)state;
    write_policy();
    ration_policy *policy = kit_policy(text);
    allocations.call_count = 0;
    assert_int_equal(ration_policy_find_matches(policy, request.attributes, request.count, &match),
                     RATION_OK);
    assert_int_equal(match.limit_count, 1);
    assert_int_equal(ration_policy_key(policy, match.limits[0], request.attributes, request.count,
                                       room, sizeof(room), &key),
                     RATION_OK);
    assert_int_equal(
        ration_policy_cost(policy, match.limits[0], request.attributes, request.count, 1, &cost),
        RATION_OK);
    assert_int_equal(cost, 5);
    ration_policy_describe(policy, 0, room, sizeof(room));
    assert_int_equal(
        ration_policy_explain(policy, 0, request.attributes, request.count, room, sizeof(room)),
        RATION_OK);
    assert_int_equal(allocations.call_count, 0);
    ration_policy_free(policy);
    assert_int_equal(allocations.live_count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_policy_without_memory_is_not_read),
        cmocka_unit_test(a_file_without_memory_is_not_read),
        cmocka_unit_test(errors_without_memory_are_no_policy),
        cmocka_unit_test(answers_need_no_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
