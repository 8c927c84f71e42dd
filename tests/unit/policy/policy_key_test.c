/*
 * Keys and costs: the key of a request under a limit, and the tokens that it costs.
 */
#include "base/random.h"
#include "unit/policy/policy_kit.h"

static char room[RATION_KEY_SIZE_MAX + 16];

/* The key under the only limit of a policy, or the name of the status. */
static const char *key_of(const ration_policy *policy, struct kit_request request, size_t room_size)
{
    static char text[RATION_KEY_SIZE_MAX + 1];
    struct ration_key key;
    ration_status status =
        ration_policy_key(policy, 0, request.attributes, request.count, room, room_size, &key);

    if (status != RATION_OK)
        return ration_status_name(status);
    memcpy(text, key.bytes, key.size);
    text[key.size] = '\0';
    return text;
}

static ration_policy *policy_with(const char *fields)
{
    char text[1000];

    snprintf(text, sizeof(text), "limits: [{name: a, rate: 10/s, %s}]\n", fields);
    return kit_policy(text);
}

static void expect_key(const char *fields, struct kit_request request, const char *key)
{
    ration_policy *policy = policy_with(fields);

    assert_string_equal(key_of(policy, request, sizeof(room)), key);
    ration_policy_free(policy);
}

static void keys_are_what_the_limit_says(void **state)
{
    (void)state;
    expect_key("key: []", REQUEST("user", "al"), "");
    expect_key("shadow: true", REQUEST("user", "al"), "");
    expect_key("key: user", REQUEST("path", "/", "user", "al|\\"), "al|\\");
    expect_key("key: user", REQUEST("path", "/"), "");
    expect_key("key: [user]", REQUEST("user", "al"), "al");
    expect_key("key: [user, path]", REQUEST("path", "/x", "user", "al"), "al|/x");
    expect_key("key: [user, path]", REQUEST("path", "/|x\\", "user", "a|l"), "a\\|l|/\\|x\\\\");
    expect_key("key: [user, path]", REQUEST("path", "/x"), "|/x");
    expect_key("key: [user, path, plan]", REQUEST("user", "al"), "al||");
    expect_key("key: [user, ip]", REQUEST("ip", "2001:DB8:1:2:3::4", "user", "al"),
               "al|2001:db8:1:2::/64");
}

static void addresses_have_one_way_to_be_written(void **state)
{
    (void)state;
    expect_key("key: ip", REQUEST("ip", "192.0.2.1"), "192.0.2.1");
    expect_key("key: ip", REQUEST("ip", "::ffff:192.0.2.1"), "192.0.2.1");
    expect_key("key: ip", REQUEST("ip", "::FFFF:C000:201"), "192.0.2.1");
    expect_key("key: ip", REQUEST("ip", "2001:0DB8:0:0:1::0001"), "2001:db8::/64");
    expect_key("key: ip, ipv6_prefix: 128", REQUEST("ip", "2001:0DB8:0:0:1::0001"),
               "2001:db8::1:0:0:1");
    expect_key("key: ip, ipv6_prefix: 56", REQUEST("ip", "2001:db8:1:2ff::1"),
               "2001:db8:1:200::/56");
    expect_key("key: ip, ipv6_prefix: 1", REQUEST("ip", "ffff::"), "8000::/1");
    expect_key("key: ip, ipv6_prefix: 32", REQUEST("ip", "192.0.2.1"), "192.0.2.1");
    expect_key("key: ip", REQUEST("user", "al"), "");
    expect_key("key: ip", REQUEST("ip", "192.0.2"), "RATION_EINVAL");
    expect_key("key: [user, ip]", REQUEST("ip", ""), "RATION_EINVAL");
}

/* A key of one attribute is not copied. */
static void single_values_point_into_the_request(void **state)
{
    ration_policy *policy = policy_with("key: user");
    struct kit_request request = REQUEST("user", "al");
    struct ration_key key;

    (void)state;
    assert_int_equal(ration_policy_key(policy, 0, request.attributes, 1, NULL, 0, &key), RATION_OK);
    assert_ptr_equal(key.bytes, request.attributes[0].value.bytes);
    ration_policy_free(policy);
}

static void sizes_are_kept_to_the_byte(void **state)
{
    ration_policy *one = policy_with("key: user"), *two = policy_with("key: [user, path]");
    ration_policy *ip = policy_with("key: ip");
    static char value[RATION_KEY_SIZE_MAX + 2];
    struct kit_request request = REQUEST("user", value, "path", "/", "ip", "192.0.2.1");
    struct ration_key key, untouched;

    (void)state;
    memset(value, 'v', sizeof(value));
    memset(&key, 0x5a, sizeof(key));
    untouched = key;
    for (size_t more = 0; more <= 1; more++) {
        ration_status status = more ? RATION_EINVAL : RATION_OK;
        request.attributes[0].value.size = RATION_KEY_SIZE_MAX + more;
        assert_int_equal(ration_policy_key(one, 0, request.attributes, 3, room, 0, &key), status);
        request.attributes[0].value.size = RATION_KEY_SIZE_MAX - 2 + more;
        assert_int_equal(ration_policy_key(two, 0, request.attributes, 3, room, sizeof(room), &key),
                         status);
        request.attributes[0].value.size = 10;
        status = more ? RATION_ENOSPC : RATION_OK;
        assert_int_equal(ration_policy_key(two, 0, request.attributes, 3, room, 12 - more, &key),
                         status);
        assert_int_equal(ration_policy_key(ip, 0, request.attributes, 3, room, 9 - more, &key),
                         status);
    }
    key = untouched;
    assert_int_equal(ration_policy_key(two, 0, request.attributes, 3, room, 11, &key),
                     RATION_ENOSPC);
    assert_int_equal(ration_policy_key(two, 1, request.attributes, 3, room, 99, &key),
                     RATION_EINVAL);
    assert_memory_equal(&key, &untouched, sizeof(key));
    request.attributes[0].value.size = SIZE_MAX; /* is not read to its end */
    request.attributes[0].value.bytes = value;
    assert_int_equal(ration_policy_key(one, 0, request.attributes, 3, room, 99, &key),
                     RATION_EINVAL);
    ration_policy_free(one);
    ration_policy_free(two);
    ration_policy_free(ip);
}

/* No two lists of three values give the same key: all of up to three letters of those that matter. */
static void different_values_give_different_keys(void **state)
{
    enum { WORDS_COUNT = 1 + 3 + 9 };
    static const char letters[] = "a|\\";
    static char words[WORDS_COUNT][3];
    static char keys[WORDS_COUNT * WORDS_COUNT * WORDS_COUNT][20];
    ration_policy *policy = policy_with("key: [x, y, z]");
    size_t count = 0, word_count = 1;

    (void)state;
    for (int i = 0; i < 3; i++)
        words[word_count++][0] = letters[i];
    for (int i = 0; i < 9; i++)
        sprintf(words[word_count++], "%c%c", letters[i / 3], letters[i % 3]);
    for (size_t x = 0; x < WORDS_COUNT; x++)
        for (size_t y = 0; y < WORDS_COUNT; y++)
            for (size_t z = 0; z < WORDS_COUNT; z++)
                strcpy(keys[count++],
                       key_of(policy, REQUEST("x", words[x], "y", words[y], "z", words[z]),
                              sizeof(room)));
    qsort(keys, count, sizeof(keys[0]), (int (*)(const void *, const void *))strcmp);
    for (size_t i = 1; i < count; i++)
        assert_string_not_equal(keys[i - 1], keys[i]);
    ration_policy_free(policy);
}

static void expect_cost(const char *fields, struct kit_request request, ration_status status,
                        uint64_t cost)
{
    ration_policy *policy = policy_with(fields);
    uint64_t got = 4711;

    assert_int_equal(ration_policy_cost(policy, 0, request.attributes, request.count, 7, &got),
                     status);
    assert_int_equal(got, status == RATION_OK ? cost : 4711);
    assert_int_equal(ration_policy_cost(policy, 1, request.attributes, request.count, 7, &got),
                     RATION_EINVAL);
    ration_policy_free(policy);
}

static void costs_are_what_the_limit_says(void **state)
{
    static const char *const wrong[] = {
        "", "-1", "+1", " 1", "1 ", "1.5", "1k", "0x1", "18446744073709551616", "1a", "1:", "1/"};

    (void)state;
    expect_cost("shadow: true", REQUEST("tokens", "3"), RATION_OK, 7);
    expect_cost("cost: 2", REQUEST("tokens", "3"), RATION_OK, 2);
    expect_cost("burst: 2k, cost: 1k", REQUEST("tokens", "3"), RATION_OK, 1000);
    expect_cost("cost: tokens", REQUEST("tokens", "3"), RATION_OK, 3);
    expect_cost("cost: tokens", REQUEST("tokens", "0"), RATION_OK, 0);
    expect_cost("cost: tokens", REQUEST("tokens", "007"), RATION_OK, 7);
    expect_cost("cost: tokens", REQUEST("token", "3"), RATION_OK, 1);
    expect_cost("cost: tokens, cost_default: 5", REQUEST("token", "3"), RATION_OK, 5);
    expect_cost("cost: tokens, cost_default: 0", REQUEST("token", "3"), RATION_OK, 0);
    expect_cost("cost: tokens", REQUEST("tokens", "18446744073709551615"), RATION_OK, UINT64_MAX);
    for (size_t i = 0; i < COUNT_OF(wrong); i++)
        expect_cost("cost: tokens, cost_default: 5", REQUEST("tokens", wrong[i]), RATION_EINVAL, 0);
}

static void limits_of_one_request_have_one_key_or_two_are_found(void **state)
{
    static const struct {
        const char *limits;
        int first, second; /* -1: none */
    } rows[] = {
        {"- {name: a, rate: 1/s}\n", -1, -1},
        {"- {name: a, rate: 1/s}\n- {name: b, rate: 2/s}\n", -1, -1},
        {"- {name: a, key: ip, rate: 1/s}\n- {name: b, key: ip, rate: 2/s}\n", -1, -1},
        {"- {name: a, key: ip, rate: 1/s}\n- {name: b, key: [ip], rate: 2/s}\n", -1, -1},
        {"- {name: a, key: ip, rate: 1/s}\n- {name: b, rate: 2/s}\n", 0, 1},
        {"- {name: a, key: ip, rate: 1/s}\n- {name: b, key: user, rate: 2/s}\n", 0, 1},
        {"- {name: a, key: [user, ip], rate: 1/s}\n- {name: b, key: [ip, user], rate: 2/s}\n", 0,
         1},
        {"- {name: a, key: ip, rate: 1/s}\n- {name: b, key: ip, ipv6_prefix: 48, rate: 2/s}\n", 0,
         1},
        {"- {name: a, key: user, rate: 1/s}\n- {name: b, key: user, ipv6_prefix: 48, rate: 2/s}\n",
         -1, -1},
        {"- {name: a, key: ip, match: {path: /a}, rate: 1/s}\n"
         "- {name: b, key: user, match: {path: /b}, rate: 2/s}\n",
         -1, -1},
        {"- {name: a, key: ip, match: {path: /a}, rate: 1/s}\n"
         "- {name: b, key: user, match: {path: {not: /a}}, rate: 2/s}\n",
         -1, -1},
        {"- {name: a, key: ip, match: {path: /a}, rate: 1/s}\n"
         "- {name: b, key: user, match: {path: /b}, rate: 2/s}\n"
         "- {name: c, key: user, match: {path: {prefix: /}}, rate: 2/s}\n",
         0, 2},
        {"- {name: a, key: ip, rate: 1/s}\n- {name: b, key: user, shadow: true, rate: 2/s}\n", 0,
         1},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        size_t first = 99, second = 99;
        char text[600];
        ration_policy *policy;
        bool is_found;

        snprintf(text, sizeof(text), "limits:\n%s", rows[i].limits);
        policy = kit_policy(text);
        assert_false(ration_policy_is_one_slot(policy));
        is_found = ration_policy_find_two_keys(policy, &first, &second);
        if (is_found != (rows[i].first >= 0))
            fail_msg("%stwo keys are %s", text, is_found ? "found" : "not found");
        if (is_found) {
            assert_int_equal(first, rows[i].first);
            assert_int_equal(second, rows[i].second);
        } else {
            assert_int_equal(first, 99);
        }
        ration_policy_free(policy);
    }
}

static void a_policy_may_want_one_slot(void **state)
{
    ration_policy *policy =
        kit_policy("cluster: one_slot\nlimits:\n- {name: a, key: ip, rate: 1/s}\n");

    (void)state;
    assert_true(ration_policy_is_one_slot(policy));
    ration_policy_free(policy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_are_what_the_limit_says),
        cmocka_unit_test(addresses_have_one_way_to_be_written),
        cmocka_unit_test(single_values_point_into_the_request),
        cmocka_unit_test(sizes_are_kept_to_the_byte),
        cmocka_unit_test(different_values_give_different_keys),
        cmocka_unit_test(costs_are_what_the_limit_says),
        cmocka_unit_test(limits_of_one_request_have_one_key_or_two_are_found),
        cmocka_unit_test(a_policy_may_want_one_slot),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
