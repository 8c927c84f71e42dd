/*
 * Which limits apply to which requests: rows, then random policies and requests compared with a slow and obvious matcher,
 * and the number of comparisons in a large policy.
 */
#include <arpa/inet.h>
#include <fnmatch.h>

#include "base/random.h"
#include "unit/policy/policy_kit.h"

#ifdef RATION_TESTS_SHORT
#define POLICIES_COUNT 200
#else
#define POLICIES_COUNT 5000
#endif

static const char site[] = "limits:\n"
                           "  - {name: all, rate: 100/s}\n"
                           "  - name: login\n"
                           "    match: {method: POST, path: [/login, /signin]}\n"
                           "    rate: 5/min\n"
                           "  - name: api\n"
                           "    match:\n"
                           "      path: {prefix: /api/, not: {prefix: /api/status}}\n"
                           "      ip: {not: {cidr: [10.0.0.0/8, 'fd00::/8']}}\n"
                           "    rate: 10/s\n"
                           "  - name: mobile\n"
                           "    match: {header.x-client: {glob: 'mobile-*-v?'}}\n"
                           "    rate: 10/s\n"
                           "  - name: anonymous\n"
                           "    match: {user: {not: {glob: '*'}}, plan: [free, {prefix: trial-}]}\n"
                           "    rate: 10/s\n"
                           "  - name: nameless\n"
                           "    match: {user: ''}\n"
                           "    rate: 10/s\n"
                           "  - name: by-user\n"
                           "    match: {path: /me}\n"
                           "    key: user\n"
                           "    missing: skip\n"
                           "    rate: 10/s\n"
                           "exempt:\n"
                           "  - ip: 192.0.2.0/24\n"
                           "  - user: [root, monitor]\n"
                           "banned:\n"
                           "  - {user: monitor, path: /secret}\n"
                           "  - ip: '2001:db8:bad::/48'\n";

static void rows_of_requests_meet_their_limits(void **state)
{
    ration_policy *policy = kit_policy(site);

    (void)state;
    assert_string_equal(kit_match(policy, (struct kit_request){.count = 0}), "all");
    assert_string_equal(kit_match(policy, REQUEST("path", "/login")), "all");
    assert_string_equal(kit_match(policy, REQUEST("path", "/login", "method", "POST")),
                        "all,login");
    assert_string_equal(kit_match(policy, REQUEST("method", "POST", "path", "/signin")),
                        "all,login");
    assert_string_equal(kit_match(policy, REQUEST("method", "post", "path", "/signin")), "all");
    assert_string_equal(kit_match(policy, REQUEST("path", "/api/")), "all,api");
    assert_string_equal(kit_match(policy, REQUEST("path", "/api")), "all");
    assert_string_equal(kit_match(policy, REQUEST("path", "/api/status/x")), "all");
    assert_string_equal(kit_match(policy, REQUEST("path", "/api/x", "ip", "10.1.2.3")), "all");
    assert_string_equal(kit_match(policy, REQUEST("path", "/api/x", "ip", "::ffff:10.1.2.3")),
                        "all");
    assert_string_equal(kit_match(policy, REQUEST("path", "/api/x", "ip", "11.1.2.3")), "all,api");
    assert_string_equal(kit_match(policy, REQUEST("path", "/api/x", "ip", "FD00::1")), "all");
    assert_string_equal(kit_match(policy, REQUEST("header.x-client", "mobile-ios-v3")),
                        "all,mobile");
    assert_string_equal(kit_match(policy, REQUEST("header.x-client", "mobile-ios-v")), "all");
    assert_string_equal(kit_match(policy, REQUEST("plan", "trial-x")), "all,anonymous");
    assert_string_equal(kit_match(policy, REQUEST("plan", "free")), "all,anonymous");
    assert_string_equal(kit_match(policy, REQUEST("plan", "free", "user", "")), "all,nameless");
    assert_string_equal(kit_match(policy, REQUEST("path", "/me")), "all");
    assert_string_equal(kit_match(policy, REQUEST("path", "/me", "user", "")),
                        "all,nameless,by-user");
    assert_string_equal(kit_match(policy, REQUEST("ip", "192.0.2.77")), "exempt 0");
    assert_string_equal(kit_match(policy, REQUEST("user", "monitor")), "exempt 1");
    assert_string_equal(kit_match(policy, REQUEST("user", "monitor", "path", "/secret")),
                        "banned 0");
    assert_string_equal(kit_match(policy, REQUEST("ip", "2001:db8:bad:1::2", "user", "root")),
                        "banned 1");
    ration_policy_free(policy);
}

static void wrong_requests_have_no_answer(void **state)
{
    ration_policy *policy = kit_policy(site);
    struct kit_request many = {.count = RATION_ATTRIBUTES_MAX};
    struct ration_policy_match match, untouched;

    (void)state;
    assert_string_equal(kit_match(policy, REQUEST("ip", "10.0.0")), "error");
    assert_string_equal(kit_match(policy, REQUEST("ip", "")), "error");
    assert_string_equal(kit_match(policy, REQUEST("path", "/a", "path", "/b")), "error");
    assert_string_equal(kit_match(policy, REQUEST("other", "/a", "other", "/b")), "all");
    for (size_t i = 0; i < COUNT_OF(many.attributes); i++)
        many.attributes[i] = (struct ration_attribute){RATION_KEY("other"), {NULL, 0}};
    assert_string_equal(kit_match(policy, many), "all");
    many.count++;
    memset(&match, 0x5a, sizeof(match));
    untouched = match;
    assert_int_equal(ration_policy_find_matches(policy, many.attributes, many.count, &match),
                     RATION_EINVAL);
    assert_memory_equal(&match, &untouched, sizeof(match));
    ration_policy_free(policy);
    policy = kit_policy("limits: [{name: a, rate: 1/s, key: user}]\n");
    assert_string_equal(kit_match(policy, REQUEST("ip", "nonsense")), "a"); /* nobody asked */
    ration_policy_free(policy);
    policy = kit_policy("limits: [{name: a, rate: 1/s, key: ip}]\n"); /* the key will say it */
    assert_string_equal(kit_match(policy, REQUEST("ip", "nonsense")), "a");
    ration_policy_free(policy);
}

/* Seventeen limits apply: no answer, unless the request is exempt, which is found last here. */
static void more_limits_than_fit_are_an_error(void **state)
{
    char text[4096];
    size_t used = (size_t)sprintf(
        text, "exempt: [{user: {glob: '*oot'}}]\nbanned: [{user: {glob: '*ad'}}]\nlimits:\n");

    (void)state;
    for (int i = 16; i >= 0; i--)
        used += (size_t)sprintf(text + used,
                                "  - {name: n%d, rate: 1/s, match: {path: {prefix: /%s}}}\n", i,
                                &"aaaaaaaaaaaaaaaa"[i]);
    ration_policy *policy = kit_policy(text);
    assert_string_equal(kit_match(policy, REQUEST("path", "/aaaaaaaaaaaaaaaa")), "error");
    assert_string_equal(kit_match(policy, REQUEST("path", "/aaaaaaaaaaaaaaaa", "user", "root")),
                        "exempt 0");
    assert_string_equal(kit_match(policy, REQUEST("path", "/aaaaaaaaaaaaaaaa", "user", "bad")),
                        "banned 0");
    assert_string_equal(kit_match(policy, REQUEST("path", "/aaaaaaaaaaaaaaa")),
                        "n16,n15,n14,n13,n12,n11,n10,n9,n8,n7,n6,n5,n4,n3,n2,n1");
    ration_policy_free(policy);
}

static void globs_are_as_written(void **state)
{
    static const struct {
        const char *glob, *value;
        bool matches;
    } cases[] = {
        {"a*b*c", "a-b-b-c", true},
        {"a*b*c", "abc", true},
        {"a*b*c", "ab", false},
        {"*", "", true},
        {"*", "a", true},
        {"**", "abc", true},
        {"?", "", false},
        {"?", "a", true},
        {"?", "ab", false},
        {"a\\*", "a*", true},
        {"a\\*", "ab", false},
        {"\\?*", "?x", true},
        {"*\\*", "x*", true},
        {"*\\*", "x", false},
        {"a\\\\*", "a\\x", true},
        {"*.png", "/a/b.png", true},
        {"*.png", "/a/b.png ", false},
        {"a\\", "a\\", true},
        {"*a\\", "ba\\", true},
        {"/v?/x", "/v1/x", true},
        {"/v?/x", "/v/x", false},
        {"[a]", "a", false},
        {"[a]", "[a]", true},
        {"a**b", "axxb", true},
        {"*aab", "aaaaaab", true},
        {"*ab*ab", "abxab", true},
        {"*ab*ab", "ab", false},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        char text[200];
        sprintf(text, "limits: [{name: a, rate: 1/s, match: {plan: {glob: '%s'}}}]\n",
                cases[i].glob);
        ration_policy *policy = kit_policy(text);
        if ((kit_match(policy, REQUEST("plan", cases[i].value))[0] == 'a') != cases[i].matches)
            fail_msg("glob %s, value %s", cases[i].glob, cases[i].value);
        ration_policy_free(policy);
    }
}

/*
 * The slow matcher uses the data from which the random policy was written, and has no patterns of its own: fnmatch and
 * inet_pton do the work.
 */
enum { NAMES_COUNT = 4, TERMS_MAX = 3, VALUES_MAX = 3, RULES_MAX = 30 };

static const char *const names[NAMES_COUNT] = {"plan", "user", "ip", "header.x"};
static const char *const kinds[] = {"exact", "prefix", "glob", "cidr"};

struct random_value {
    unsigned kind; /* of kinds */
    char text[80];
};

struct random_rule {
    size_t term_count;
    struct random_term {
        unsigned name;
        bool is_negated;
        size_t value_count;
        struct random_value values[VALUES_MAX];
    } terms[TERMS_MAX];
    bool is_skipping; /* its key is user */
};

struct random_policy {
    size_t counts[3]; /* banned, exempt, limits */
    struct random_rule rules[3][RULES_MAX];
};

static uint64_t state_of_random;

static unsigned pick(unsigned count)
{
    return (unsigned)ration_random_up_to(&state_of_random, count - 1);
}

/* Few letters, so that values often match; sometimes so long that the index truncates them. */
static void random_text(char *text, bool is_glob)
{
    static const char letters[] = "aab/", wild[] = "ab*?/";
    size_t size = pick(4);

    if (pick(8) == 0)
        size = 28 + pick(12);
    for (size_t i = 0; i < size; i++) {
        text[i] = size > 10 && pick(20) ? 'a' : is_glob ? wild[pick(5)] : letters[pick(4)];
    }
    text[size] = '\0';
}

static void random_address(char *text)
{
    if (pick(3) == 0)
        sprintf(text, "2001:db8:%x:%x::%x", pick(3), pick(3), pick(3));
    else
        sprintf(text, "%s10.%u.%u.%u", pick(4) ? "" : "::ffff:", pick(3), pick(3), pick(3));
}

static void random_network(char *text)
{
    static const unsigned bits[] = {0, 8, 16, 24, 32};
    unsigned kept = bits[pick(5)];

    if (pick(3) == 0)
        sprintf(text, "2001:db8:%x::/48", pick(3));
    else
        sprintf(text, "%u.%u.%u.%u/%u", kept < 8 ? 0 : 10, kept < 16 ? 0 : pick(3),
                kept < 24 ? 0 : pick(3), kept < 32 ? 0 : pick(3), kept);
}

static void random_rule(struct random_rule *rule, bool needs_terms)
{
    rule->term_count = needs_terms ? 1 + pick(TERMS_MAX) : pick(TERMS_MAX + 1);
    rule->is_skipping = pick(4) == 0;
    for (size_t t = 0; t < rule->term_count; t++) {
        struct random_term *term = &rule->terms[t];
        term->name = (pick(2) + (unsigned)t) % NAMES_COUNT; /* names differ from term to term */
        if (t > 0)
            term->name = (rule->terms[t - 1].name + 1) % NAMES_COUNT;
        term->is_negated = pick(4) == 0;
        term->value_count = 1 + pick(VALUES_MAX);
        unsigned kind = pick(3);
        for (size_t v = 0; v < term->value_count; v++) {
            term->values[v].kind = term->name == 2 ? 3 : kind;
            if (term->name == 2)
                random_network(term->values[v].text);
            else
                random_text(term->values[v].text, kind == 2);
        }
    }
}

static size_t write_terms(const struct random_rule *rule, char *out)
{
    size_t used = (size_t)sprintf(out, "{");

    for (size_t t = 0; t < rule->term_count; t++) {
        const struct random_term *term = &rule->terms[t];
        used += (size_t)sprintf(out + used, "%s%s: {%s%s: [", t ? ", " : "", names[term->name],
                                term->is_negated ? "not: {" : "", kinds[term->values[0].kind]);
        for (size_t v = 0; v < term->value_count; v++)
            used += (size_t)sprintf(out + used, "%s'%s'", v ? ", " : "", term->values[v].text);
        used += (size_t)sprintf(out + used, "]}%s", term->is_negated ? "}" : "");
    }
    return used + (size_t)sprintf(out + used, "}");
}

static size_t write_policy(const struct random_policy *policy, char *out)
{
    static const char *const sections[] = {"banned", "exempt", "limits"};
    size_t used = 0;

    for (size_t s = 0; s < 3; s++) {
        used += (size_t)sprintf(out + used, "%s:\n", sections[s]);
        for (size_t i = 0; i < policy->counts[s]; i++) {
            const struct random_rule *rule = &policy->rules[s][i];
            used += (size_t)sprintf(out + used, s == 2 ? "  - {name: n%zu, rate: 1/s" : "  - ", i);
            if (s == 2 && rule->term_count > 0)
                used += (size_t)sprintf(out + used, ", match: ");
            if (s != 2 || rule->term_count > 0)
                used += write_terms(rule, out + used);
            if (s == 2)
                used += (size_t)sprintf(out + used, ", key: user, missing: %s}",
                                        rule->is_skipping ? "skip" : "shared");
            used += (size_t)sprintf(out + used, "\n");
        }
    }
    return used;
}

/* The bytes of an address, IPv4 as mapped IPv6. */
static void address_bytes(const char *text, uint8_t bytes[16])
{
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

    if (inet_pton(AF_INET6, text, bytes) == 1)
        return;
    memcpy(bytes, mapped, sizeof(mapped));
    assert_int_equal(inet_pton(AF_INET, text, bytes + 12), 1);
}

static bool slow_network(const char *network, const char *value)
{
    uint8_t base[16], address[16];
    char text[80];
    int bits;

    strcpy(text, network);
    bits = atoi(strchr(text, '/') + 1) + (strchr(text, '.') ? 96 : 0);
    *strchr(text, '/') = '\0';
    address_bytes(text, base);
    address_bytes(value, address);
    for (int i = 0; i < bits; i++) {
        if ((base[i / 8] ^ address[i / 8]) >> (7 - i % 8) & 1)
            return false;
    }
    return true;
}

static bool slow_value(const struct random_value *pattern, const char *value)
{
    if (pattern->kind == 0)
        return strcmp(pattern->text, value) == 0;
    if (pattern->kind == 1)
        return strncmp(pattern->text, value, strlen(pattern->text)) == 0;
    if (pattern->kind == 2)
        return fnmatch(pattern->text, value, FNM_NOESCAPE) == 0;
    return slow_network(pattern->text, value);
}

static bool slow_rule(const struct random_rule *rule, const char *const values[NAMES_COUNT],
                      bool is_limit)
{
    for (size_t t = 0; t < rule->term_count; t++) {
        const struct random_term *term = &rule->terms[t];
        bool any = false;
        for (size_t v = 0; values[term->name] && v < term->value_count; v++)
            any |= slow_value(&term->values[v], values[term->name]);
        if (any == term->is_negated)
            return false;
    }
    return !is_limit || !rule->is_skipping || values[1];
}

static const char *slow_match(const struct random_policy *policy,
                              const char *const values[NAMES_COUNT])
{
    static const char *const verdicts[] = {"banned", "exempt"};
    static char text[RULES_MAX * 8];
    size_t used = 0, count = 0;

    for (size_t s = 0; s < 2; s++)
        for (size_t i = 0; i < policy->counts[s]; i++) {
            if (slow_rule(&policy->rules[s][i], values, false)) {
                sprintf(text, "%s %zu", verdicts[s], i);
                return text;
            }
        }
    text[0] = '\0';
    for (size_t i = 0; i < policy->counts[2]; i++) {
        if (slow_rule(&policy->rules[2][i], values, true)) {
            used += (size_t)sprintf(text + used, "%sn%zu", count ? "," : "", i);
            count++;
        }
    }
    return count > RATION_POLICY_MATCHES_MAX ? "error" : text;
}

static struct kit_request random_request(char values[NAMES_COUNT][80],
                                         const char *out_values[NAMES_COUNT])
{
    struct kit_request request = {.count = 0};
    unsigned first = pick(NAMES_COUNT);

    for (unsigned i = 0; i < NAMES_COUNT; i++) {
        unsigned name = (first + i) % NAMES_COUNT;
        out_values[name] = NULL;
        if (pick(4) == 0)
            continue;
        if (name == 2)
            random_address(values[name]);
        else
            random_text(values[name], false);
        out_values[name] = values[name];
        request.attributes[request.count++] = (struct ration_attribute){
            {names[name], strlen(names[name])}, {values[name], strlen(values[name])}};
    }
    return request;
}

/* A limit that applies has no explanation why not, and any other has one. */
static void check_explanations(const ration_policy *policy, const struct kit_request *request,
                               const char *got)
{
    char why[200];
    struct ration_policy_match match;

    ration_policy_find_matches(policy, request->attributes, request->count, &match);
    for (size_t i = 0; i < ration_policy_limit_count(policy); i++) {
        bool applies = false;
        for (size_t m = 0; m < match.limit_count; m++)
            applies |= match.limits[m] == i;
        assert_int_equal(
            ration_policy_explain(policy, i, request->attributes, request->count, why, sizeof(why)),
            RATION_OK);
        if ((why[0] == '\0') != applies && match.verdict == RATION_POLICY_LIMITS)
            fail_msg("n%zu among %s: %s", i, got, why);
    }
}

static void random_policies_match_as_the_slow_matcher_says(void **state)
{
    static struct random_policy random;
    static char text[RULES_MAX * 3 * 1024];
    const char *given = getenv("RATION_TEST_SEED");
    uint64_t seed = given ? strtoull(given, NULL, 0) : 1;
    size_t limits_count = 0, verdicts_count = 0, errors_count = 0;

    (void)state;
    print_message("seed %" PRIu64 "\n", seed);
    state_of_random = seed;
    for (int round = 0; round < POLICIES_COUNT; round++) {
        random.counts[0] = pick(3);
        random.counts[1] = pick(3);
        random.counts[2] = 1 + pick(RULES_MAX);
        size_t unconditional = 0;
        for (size_t s = 0; s < 3; s++)
            for (size_t i = 0; i < random.counts[s]; i++) {
                random_rule(&random.rules[s][i], s < 2 || unconditional > 8);
                unconditional += random.rules[s][i].term_count == 0;
            }
        write_policy(&random, text);
        ration_policy *policy = kit_policy(text);
        for (int i = 0; i < 40; i++) {
            char values[NAMES_COUNT][80];
            const char *chosen[NAMES_COUNT];
            struct kit_request request = random_request(values, chosen);
            const char *expected = slow_match(&random, chosen);
            const char *got = kit_match(policy, request);
            if (strcmp(got, expected) != 0)
                fail_msg("seed %" PRIu64 " round %d: %s, not %s\n%s\nplan %s user %s ip %s x %s",
                         seed, round, got, expected, text, chosen[0], chosen[1], chosen[2],
                         chosen[3]);
            limits_count += got[0] == 'n';
            verdicts_count += strchr(got, ' ') != NULL;
            errors_count += got[0] == 'e' && got[1] == 'r';
            if (i < 4 && strcmp(got, "error") != 0)
                check_explanations(policy, &request, got);
        }
        ration_policy_free(policy);
    }
    assert_true(limits_count > POLICIES_COUNT && verdicts_count > POLICIES_COUNT);
    assert_true(errors_count > 0);
}

/* One limit of a thousand applies: how many are examined? */
static uint32_t compared(const char *match_format, struct kit_request request)
{
    char *text = malloc(1000 * 400), match[300];
    size_t used = (size_t)sprintf(text, "limits:\n");
    struct ration_policy_match found;

    for (int i = 0; i < 1000; i++) {
        snprintf(match, sizeof(match), match_format, i, i, i, i);
        used += (size_t)sprintf(text + used, "  - {name: n%d, rate: 1/s, match: %s}\n", i, match);
    }
    ration_policy *policy = kit_policy(text);
    assert_int_equal(ration_policy_find_matches(policy, request.attributes, request.count, &found),
                     RATION_OK);
    assert_int_equal(found.limit_count, 1);
    assert_int_equal(found.limits[0], 777);
    ration_policy_free(policy);
    free(text);
    return found.compared_count;
}

static void a_thousand_limits_are_not_a_thousand_comparisons(void **state)
{
    struct kit_request request =
        REQUEST("method", "GET", "path", "/v1/n777/x", "user", "u777", "ip", "10.3.9.1");

    (void)state;
    assert_int_equal(compared("{path: /v1/n%d/x}", request), 1);
    assert_int_equal(compared("{path: {prefix: /v1/n%d/}}", request), 1);
    assert_int_equal(compared("{path: {glob: '/v1/n%d/*x'}}", request), 1);
    assert_int_equal(compared("{method: GET, path: {prefix: /v1/n%d/}}", request), 1);
    assert_int_equal(compared("{path: {prefix: /v1/}, user: u%d}", request), 1);
    assert_int_equal(compared("{method: GET, path: {prefix: /}, user: [u%d, v%d, w%d]}", request),
                     1);
    assert_int_equal(compared("{user: {not: root}, path: {prefix: /v1/n%d/}}", request), 1);
}

static void a_network_of_a_thousand_is_one_comparison(void **state)
{
    char *text = malloc(1000 * 100);
    size_t used = (size_t)sprintf(text, "limits:\n");
    struct kit_request request = REQUEST("ip", "10.3.9.1");
    struct ration_policy_match match;

    (void)state;
    for (int i = 0; i < 1000; i++)
        used +=
            (size_t)sprintf(text + used, "  - {name: n%d, rate: 1/s, match: {ip: 10.%d.%d.0/24}}\n",
                            i, i / 256, i % 256);
    ration_policy *policy = kit_policy(text);
    assert_int_equal(ration_policy_find_matches(policy, request.attributes, 1, &match), RATION_OK);
    assert_int_equal(match.limit_count, 1);
    assert_int_equal(match.limits[0], 777);
    assert_int_equal(match.compared_count, 1);
    ration_policy_free(policy);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_of_requests_meet_their_limits),
        cmocka_unit_test(wrong_requests_have_no_answer),
        cmocka_unit_test(more_limits_than_fit_are_an_error),
        cmocka_unit_test(globs_are_as_written),
        cmocka_unit_test(random_policies_match_as_the_slow_matcher_says),
        cmocka_unit_test(a_thousand_limits_are_not_a_thousand_comparisons),
        cmocka_unit_test(a_network_of_a_thousand_is_one_comparison),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
