/*
 * The contents of a correct policy: every field, every default, the settings, descriptions; and the policies of the
 * documentation and the examples.
 */
#include <dirent.h>

#include "unit/policy/policy_kit.h"

static void limit_is(const struct ration_policy_limit *limit, const char *expected)
{
    char text[RATION_LIMIT_TEXT_SIZE];

    assert_int_equal(ration_limit_print(&limit->limit, text, sizeof(text)), RATION_OK);
    assert_string_equal(text, expected);
}

static void fields_left_out_have_defaults(void **state)
{
    ration_policy *policy = kit_policy("limits:\n"
                                       "  - name: a\n"
                                       "    rate: 5/min\n"
                                       "  - name: b\n"
                                       "    rate: 5/min\n"
                                       "    key: ip\n");
    const struct ration_policy_limit *limit = ration_policy_limit_at(policy, 0);

    (void)state;
    assert_int_equal(ration_policy_limit_count(policy), 2);
    assert_int_equal(ration_policy_setting_count(policy), 0);
    limit_is(limit, "5/min name a");
    assert_null(limit->key_names);
    assert_int_equal(limit->key_count, 0);
    assert_int_equal(limit->cost_kind, RATION_POLICY_COST_REQUEST);
    assert_null(limit->cost_name);
    assert_int_equal(limit->missing, RATION_POLICY_MISSING_SHARED);
    assert_int_equal(limit->overflow, RATION_OVERFLOW_SHARED);
    assert_int_equal(limit->is_shadow, 0);
    assert_int_equal(limit->ipv6_prefix, 64);
    assert_int_equal(limit->stale_after_ns, 0);
    assert_int_equal(limit->keys_max, 1);
    assert_int_equal(limit->line, 2);
    assert_int_equal(ration_policy_limit_at(policy, 1)->keys_max, 1000000);
    assert_int_equal(ration_policy_limit_at(policy, 1)->line, 4);
    ration_policy_free(policy);
}

static void fields_given_are_kept(void **state)
{
    ration_policy *policy = kit_policy("version: 1\n"
                                       "limits:\n"
                                       "  - name: a\n"
                                       "    rate: 10/s\n"
                                       "    burst: 20\n"
                                       "    start: empty\n"
                                       "    reserve: 100/h burst 500\n"
                                       "    key: [user, header.x-a]\n"
                                       "    cost: tokens\n"
                                       "    cost_default: 3\n"
                                       "    shadow: true\n"
                                       "    overflow: deny\n"
                                       "    ipv6_prefix: 56\n"
                                       "    stale_after: 1d\n"
                                       "    max_keys: 5k\n"
                                       "    missing: skip\n");
    const struct ration_policy_limit *limit = ration_policy_limit_at(policy, 0);

    (void)state;
    assert_int_equal(limit->limit.burst, 20);
    assert_int_equal(limit->limit.start, RATION_START_EMPTY);
    assert_int_equal(limit->limit.reserve_tokens, 100);
    assert_int_equal(limit->limit.reserve_burst, 500);
    assert_int_equal(limit->key_count, 2);
    assert_string_equal(limit->key_names[0], "user");
    assert_string_equal(limit->key_names[1], "header.x-a");
    assert_int_equal(limit->cost_kind, RATION_POLICY_COST_ATTRIBUTE);
    assert_string_equal(limit->cost_name, "tokens");
    assert_int_equal(limit->cost_tokens, 3);
    assert_int_equal(limit->is_shadow, 1);
    assert_int_equal(limit->overflow, RATION_OVERFLOW_DENY);
    assert_int_equal(limit->ipv6_prefix, 56);
    assert_int_equal(limit->stale_after_ns, RATION_NS_PER_DAY);
    assert_int_equal(limit->keys_max, 5000);
    assert_int_equal(limit->missing, RATION_POLICY_MISSING_SKIP);
    ration_policy_free(policy);
}

/* A burst beside a rate is the limit's, never that of a reserve in the rate's text. */
static void the_rate_may_hold_the_whole_limit(void **state)
{
    static const struct {
        const char *fields, *limit;
    } cases[] = {
        {"rate: 5 per 10s", "5/10s"},
        {"rate: 5/min burst 10 sliding_log", NULL},
        {"rate: 10/s burst 20 start 5", "10/s burst 20 start 5"},
        {"rate: 10/s, burst: 20, start: 5", "10/s burst 20 start 5"},
        {"rate: 10/s reserve 100/h, burst: 20", "10/s burst 20 reserve 100/h"},
        {"rate: 10/s, burst: 20, reserve: 100/h", "10/s burst 20 reserve 100/h"},
        {"rate: 10/s, reserve: 100/h, cost: 100", "10/s reserve 100/h"}, /* pays it whole */
        {"rate: 10/s, reserve: 100/h, cost: 101", NULL},
        {"rate: 10/s, reserve: 100/h burst 30", "10/s reserve 100/h burst 30"},
        {"rate: 10/s, algorithm: leaky_queue, burst: 7", "10/s burst 7 leaky_queue"},
        {"rate: 10/s, refill: interval", "10/s refill interval"},
        {"rate: 10/s, algorithm: sliding_log", "10/s sliding_log"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        char text[200], expected[200];
        ration_policy *policy = NULL;
        snprintf(text, sizeof(text), "limits: [{name: n, %s}]\n", cases[i].fields);
        if (!cases[i].limit) {
            assert_int_equal(ration_policy_parse(text, strlen(text), NULL, NULL, &policy),
                             RATION_EINVAL);
            continue;
        }
        policy = kit_policy(text);
        snprintf(expected, sizeof(expected), "%s name n", cases[i].limit);
        limit_is(ration_policy_limit_at(policy, 0), expected);
        ration_policy_free(policy);
    }
}

static void settings_are_kept_as_written(void **state)
{
    ration_policy *policy = kit_policy("limits: [{name: a, rate: 1/s}]\n"
                                       "server:\n"
                                       "  http: 127.0.0.1:8429\n"
                                       "  trusted: [10.0.0.0/8, \"fd00::/8\"]\n"
                                       "  none: []\n"
                                       "  blank:\n");
    const struct ration_policy_setting *setting = ration_policy_setting_at(policy, 0);

    (void)state;
    assert_int_equal(ration_policy_setting_count(policy), 4);
    assert_string_equal(setting->name, "http");
    assert_int_equal(setting->value_count, 1);
    assert_int_equal(setting->is_list, 0);
    assert_int_equal(setting->line, 3);
    assert_int_equal(setting->column, 3);
    assert_string_equal(setting->values[0].text, "127.0.0.1:8429");
    assert_int_equal(setting->values[0].size, 14);
    assert_int_equal(setting->values[0].column, 9);
    setting = ration_policy_setting_at(policy, 1);
    assert_int_equal(setting->value_count, 2);
    assert_int_equal(setting->is_list, 1);
    assert_string_equal(setting->values[1].text, "fd00::/8");
    assert_int_equal(setting->values[1].line, 4);
    assert_int_equal(setting->values[1].column, 25);
    setting = ration_policy_setting_at(policy, 2);
    assert_int_equal(setting->value_count, 0);
    assert_int_equal(setting->is_list, 1);
    setting = ration_policy_setting_at(policy, 3);
    assert_int_equal(setting->value_count, 1);
    assert_string_equal(setting->values[0].text, "");
    ration_policy_free(policy);
}

/* Sections of which all members are commented out are empty, not wrong. */
static void empty_sections_are_right(void **state)
{
    (void)state;
    ration_policy_free(kit_policy("limits: [{name: a, rate: 1/s}]\n"
                                  "exempt:\n  # - user: root\nbanned:\nserver:\n"));
    ration_policy_free(kit_policy("\xEF\xBB\xBF{limits: [{name: a, rate: 1/s}], banned: []}"));
    ration_policy_free(NULL);
}

static void conditions_are_reported_in_words(void **state)
{
    ration_policy *policy =
        kit_policy("limits:\n"
                   "  - {name: a, rate: 1/s}\n"
                   "  - name: b\n"
                   "    rate: 1/s\n"
                   "    key: user\n"
                   "    missing: skip\n"
                   "    match:\n"
                   "      path: [/a, /b, {prefix: /c}, {glob: '/d*e'}, \"/\\x01\"]\n"
                   "      user: {not: [x, \"\"]}\n"
                   "      plan: {glob: '*', not: {prefix: y}}\n"
                   "      ip: ['::/0', 10.0.0.1]\n");
    struct kit_request request = REQUEST("path", "/x\n");
    char text[300], cut[14];

    (void)state;
    assert_string_equal(ration_policy_describe(policy, 0, text, sizeof(text)), "every request");
    assert_string_equal(ration_policy_describe(policy, 1, text, sizeof(text)),
                        "path is /a or /b or starts with /c or is like /d*e and 1 more, "
                        "user is not x or \"\", plan is given, plan does not start with y, "
                        "ip is in ::/0 or 10.0.0.1/32, user is given");
    assert_string_equal(ration_policy_describe(policy, 0, cut, 14), "every request");
    assert_string_equal(ration_policy_describe(policy, 0, cut, 13), "every req...");
    assert_string_equal(ration_policy_describe(policy, 1, cut, 10), "path i...");
    assert_string_equal(ration_policy_describe(policy, 1, cut, 1), "");
    assert_string_equal(ration_policy_describe(policy, 2, text, sizeof(text)), "");
    assert_int_equal(ration_policy_explain(policy, 1, request.attributes, 1, text, sizeof(text)),
                     RATION_OK);
    assert_string_equal(text, "it requires that path is /a or /b or starts with /c or is like /d*e "
                              "and 1 more, and path is /x\\x0A");
    assert_int_equal(ration_policy_explain(policy, 1, request.attributes, 0, text, sizeof(text)),
                     RATION_OK);
    assert_non_null(strstr(text, "and there is no path"));
    request = REQUEST("path", "/a", "plan", "z", "ip", "::1");
    assert_int_equal(ration_policy_explain(policy, 1, request.attributes, 3, text, sizeof(text)),
                     RATION_OK);
    assert_string_equal(text, "there is no user, which its key needs");
    ration_policy_free(policy);
}

static char *read_file(const char *path)
{
    FILE *file = fopen(path, "r");
    char *text = calloc(1, 1 << 20);

    if (!file)
        fail_msg("%s cannot be read", path);
    assert_true(fread(text, 1, (1 << 20) - 1, file) > 0);
    fclose(file);
    return text;
}

/* Each block of the page that is marked as a policy is one. */
static void policies_of_the_page_are_right(void **state)
{
    char *page = read_file(RATION_SOURCE "/docs/reference/policy.md");
    int block_count = 0;

    (void)state;
    for (char *at = page; (at = strstr(at, "\n```yaml policy\n"));) {
        char *begin = at + strlen("\n```yaml policy\n"), *end = strstr(begin, "\n```");
        ration_policy *policy = NULL;
        assert_non_null(end);
        if (ration_policy_parse(begin, (size_t)(end + 1 - begin), kit_print_error, NULL, &policy) !=
            RATION_OK)
            fail_msg("%.*s", (int)(end - begin), begin);
        ration_policy_free(policy);
        block_count++;
        at = end;
    }
    assert_true(block_count >= 5);
    free(page);
}

static void policies_of_the_examples_are_right(void **state)
{
    DIR *folder = opendir(RATION_SOURCE "/examples/policies");
    struct dirent *entry;
    int file_count = 0;

    (void)state;
    assert_non_null(folder);
    while ((entry = readdir(folder))) {
        char path[1000];
        ration_policy *policy = NULL;
        if (!strstr(entry->d_name, ".yaml"))
            continue;
        snprintf(path, sizeof(path), RATION_SOURCE "/examples/policies/%s", entry->d_name);
        assert_int_equal(ration_policy_load(path, kit_print_error, NULL, &policy), RATION_OK);
        ration_policy_free(policy);
        file_count++;
    }
    closedir(folder);
    assert_true(file_count >= 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fields_left_out_have_defaults),
        cmocka_unit_test(fields_given_are_kept),
        cmocka_unit_test(the_rate_may_hold_the_whole_limit),
        cmocka_unit_test(settings_are_kept_as_written),
        cmocka_unit_test(empty_sections_are_right),
        cmocka_unit_test(conditions_are_reported_in_words),
        cmocka_unit_test(policies_of_the_page_are_right),
        cmocka_unit_test(policies_of_the_examples_are_right),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
