/*
 * Rows of wrong policies: text to the positions and messages of all errors.
 */
#include <sys/mman.h>
#include <unistd.h>

#include "unit/policy/policy_kit.h"

#define ONE "limits:\n  - name: a\n    rate: 10/s\n"

struct expected {
    uint32_t line;
    uint32_t column;
    const char *words; /* in the message */
};

struct row {
    const char *text;
    struct expected errors[4]; /* all of them; the rest zero */
};

static const struct row rows[] = {
    /* the document */
    {"", {{1, 1, "is empty: it begins with limits:"}}},
    {"# nothing\n", {{1, 1, "is empty"}}},
    {"limits: [", {{2, 1, "not YAML"}}},
    {"limits:\n\t- a\n", {{2, 1, "tab; indent with spaces"}}},
    {"a: 'b\nc: d\n", {{3, 1, "scalar that begins in line 1"}}},
    {"limits: \"\x01\"\n", {{1, 10, "control characters"}}},
    {"# \xC3\xA4\nlimits: \xC3\xA4\xFF\n", {{2, 10, "0xFF is not UTF-8"}}},
    {"limits: \xED\xA0\x80\n", {{1, 9, "0xED is not UTF-8"}}}, /* a surrogate */
    {"limits: \xC0\xAF\n", {{1, 9, "0xC0 is not UTF-8"}}},     /* longer than need be */
    {"limits: \xE0\x9F\xBF\n", {{1, 9, "0xE0 is not UTF-8"}}},
    {"limits: \xF0\x8F\xBF\xBF\n", {{1, 9, "0xF0 is not UTF-8"}}},
    {"limits: \xF4\x90\x80\x80\n", {{1, 9, "0xF4 is not UTF-8"}}},
    {"limits: \xE2\x82", {{1, 9, "0xE2 is not UTF-8"}}},
    {"limits: &x [*x]\n", {{1, 13, "aliases (such as *name) are not supported"}}},
    {"limits:\n  - {<<: {name: a}}\n", {{2, 6, "merge keys"}}},
    {"limits: !!seq []\n", {{1, 9, "tags (such as !!str) are not supported"}}},
    {"[[[[[[[[[[[[[[[[[", {{1, 17, "nested deeper than 16"}}},
    {ONE "---\nlimits: []\n", {{4, 1, "one document"}}},
    {"? [a]\n: b\n", {{1, 3, "a list cannot be a name"}}},
    {"- a\n", {{1, 1, "a policy is a mapping of fields (limits: ...), and this is a list"}}},
    {"limits\n", {{1, 1, "and this is text"}}},

    /* sections */
    {"limts: []\n", {{1, 1, "did you mean limits?"}, {1, 1, "the policy has no limits"}}},
    {"frobnicate: 1\n" ONE,
     {{1, 1, "fields are limits, exempt, banned, cluster, server and version"}}},
    {ONE "limits: []\n", {{4, 1, "limits is given twice, first in line 1"}}},
    {"version: 2\n" ONE, {{1, 10, "write version: 1"}}},
    {"cluster: many-slots\n" ONE, {{1, 10, "cluster cannot be 'many-slots': write one_slot"}}},
    {"cluster: one-slot\n" ONE, {{1, 10, "did you mean one_slot?"}}},
    {"cluster: [one_slot]\n" ONE, {{1, 10, "cluster is one value, and this is a list"}}},
    {"cluster:\n" ONE, {{1, 9, "cluster is empty"}}},
    {"limits: []\n", {{1, 9, "limits is empty"}}},
    {"limits:\n", {{1, 8, "limits is empty"}}},
    {"limits: {a: b}\n", {{1, 9, "limits is a list, and this is a mapping"}}},
    {ONE "banned: mallory\n", {{4, 9, "banned is a list, and this is text"}}},
    {ONE "exempt: [{}]\n", {{4, 10, "would apply to every request"}}},
    {ONE "exempt:\n  -\n", {{5, 4, "would apply to every request"}}},
    {ONE "exempt: [root]\n", {{4, 10, "a match is a mapping of attributes"}}},

    /* limits */
    {"limits: [3]\n", {{1, 10, "a limit is a mapping of fields (name: ...), and this is text"}}},
    {"limits:\n  - {}\n", {{2, 5, "no name"}, {2, 5, "no rate"}}},
    {"limits:\n  - name: a\n    brust: 3\n    rate: 1/s\n",
     {{3, 5, "a limit has no field 'brust': did you mean burst?"}}},
    {"limits:\n  - name: a\n    rate: 1/s\n    rate: 2/s\n", {{4, 5, "rate is given twice"}}},
    {"limits:\n  - {name: a, rate: 1/s}\n  - {name: b, rate: 1/s}\n  - {name: a, rate: 1/s}\n"
     "  - {name: a, rate: 1/s}\n",
     {{4, 12, "already used by the limit in line 2"}, {5, 12, "limit in line 2"}}},
    {"limits: [{name: a b, rate: 1/s}]\n", {{1, 18, "blank in a value that must be one word"}}},
    {"limits: [{name: a*b, rate: 1/s}]\n", {{1, 18, "'*' cannot be in a name"}}},
    {"limits:\n  - name: inline\n    rate: 1/s\n  - {name: inlined, rate: 1/s}\n",
     {{2, 11, "are called inline: write another name"}}},
    {"limits: [{name: '', rate: 1/s}]\n", {{1, 17, "name is empty"}}},
    {"limits: [{name: [a], rate: 1/s}]\n", {{1, 17, "name is one value, and this is a list"}}},
    {"limits: [{name: a, rate: 10}]\n", {{1, 26, "'10' has no period"}}},
    {"limits: [{name: a, rate: 10/mim}]\n", {{1, 29, "unknown unit 'mim'"}}},
    {"limits: [{name: a, rate: '10/mim'}]\n", {{1, 30, "unknown unit 'mim'"}}},
    {"limits: [{name: a, rate: \"10\\x2Fmim\"}]\n", {{1, 26, "unknown unit 'mim'"}}},
    {"limits: [{name: a, rate: 10/s brust 5}]\n", {{1, 31, "did you mean burst?"}}},
    {"limits: [{name: a, rate: 10/s name b}]\n", {{1, 17, "name is given twice: keep one"}}},
    {"limits: [{name: a, rate: 10/s burst 5, burst: 6}]\n",
     {{1, 47, "burst is given twice: keep"}}},
    {"limits: [{name: a, rate: 10/s, burst: 0}]\n", {{1, 39, "burst must be at least 1 (got 0)"}}},
    {"limits: [{name: a, rate: 10/s, burst: -1}]\n", {{1, 39, "without sign"}}},
    {"limits: [{name: a, rate: 10/s, burst: 5 start empty}]\n", {{1, 40, "blank"}}},
    {"limits: [{name: a, rate: 10/ns}]\n", {{1, 26, "nearest valid limit: 1/ns"}}},
    {"limits: [{name: a, rate: 1/y, burst: 20}]\n", {{1, 38, "burst 16"}}},
    {"limits: [{name: a, rate: 10/s, algorithm: fixed-windw}]\n",
     {{1, 43, "did you mean fixed_window?"}}},
    {"limits: [{name: a, rate: 10/s, algorithm: burst}]\n", {{1, 43, "write token_bucket,"}}},
    {"limits: [{name: a, rate: 10/s, algorithm: fixed_window, refill: interval}]\n",
     {{1, 65, "interval"}}},
    {"limits: [{name: a, rate: 10/s, start: fulll}]\n", {{1, 39, "did you mean full?"}}},
    {"limits: [{name: a, rate: 10/s, reserve: 100}]\n", {{1, 41, "has no period"}}},
    {"limits: [{name: a, rate: 10, algorithm: x}]\n",
     {{1, 26, "'10' has no period"}, {1, 41, "algorithm cannot be 'x'"}}},

    /* its other fields */
    {"limits: [{name: a, rate: 10/s, key: [ip, ip]}]\n", {{1, 42, "the key has ip twice"}}},
    {"limits: [{name: a, rate: 10/s, key: {a: b}}]\n", {{1, 37, "is one value"}}},
    {"limits: [{name: a, rate: 10/s, key: [a,b,c,d,e,f,g,h,i]}]\n", {{1, 37, "at most 8"}}},
    {"limits: [{name: a, rate: 10/s, key: header.X-A}]\n", {{1, 44, "lower case"}}},
    {"limits: [{name: a, rate: 10/s, key: headers.x-a}]\n", {{1, 37, "a header is header.x-a"}}},
    {"limits: [{name: a, rate: 10/s, key: header.x_api_key}]\n",
     {{1, 37, "did you mean header.x-api-key?"}}},
    {"limits: [{name: a, rate: 10/s, match: {header._a-b_: x}}]\n",
     {{1, 40, "did you mean header.-a-b-?"}}},
    {"limits: [{name: a, rate: 10/s, key: IP}]\n", {{1, 37, "did you mean ip?"}}},
    {"limits: [{name: a, rate: 10/s, match: {Method: GET}}]\n", {{1, 40, "did you mean method?"}}},
    {"limits: [{name: a, rate: 10/s, match: {method: [GET, post]}}]\n",
     {{1, 54, "methods are in capitals"}}},
    {"limits: [{name: n, rate: 1/s, match: {host: a.Example}}]",
     {{1, 47, "hosts are in lower case"}}},
    {"limits: [{name: n, rate: 1/s, match: {host: 'a.example:80'}}]",
     {{1, 55, "a host has no port and no dot at its end here"}}},
    {"limits: [{name: n, rate: 1/s, match: {host: a.example.}}]",
     {{1, 54, "a host has no port and no dot at its end here"}}},
    {"limits: [{name: a, rate: 10/s, match: {path: [/a, login, '*.png', {glob: 'b*'}]}}]\n",
     {{1, 51, "a path begins with /, as in /login (got 'login')"},
      {1, 58, "write {glob: '*.png'}"},
      {1, 74, "(got 'b*')"}}},
    {"limits: [{name: a, rate: 10/s, match: {path: {prefix: api/, not: {glob: '\\?x'}}}}]\n",
     {{1, 55, "(got 'api/')"}, {1, 73, "(got '\\?x')"}}},
    {"limits: [{name: a, rate: 10/s, key: limit}]\n",
     {{1, 37, "limit is a reserved field of check"}}},
    {"limits: [{name: a, rate: 10/s, cost: cost}]\n",
     {{1, 38, "cost is a reserved field of check"}}},
    {"limits: [{name: a, rate: 10/s, cost: 0}]\n", {{1, 38, "cost is a number from 1"}}},
    {"limits: [{name: a, rate: 10/s, cost: -3}]\n", {{1, 38, "without sign"}}},
    {"limits: [{name: a, rate: 10/s, cost: 11}]\n",
     {{1, 38, "would never be allowed: the burst is 10"}}},
    {"limits: [{name: a, rate: 10/s, cost: n, cost_default: 11}]\n", {{1, 55, "never be allowed"}}},
    {"limits: [{name: a, rate: 10/s, cost: 3, cost_default: 1}]\n", {{1, 41, "leave it out"}}},
    {"limits: [{name: a, rate: 10/s, cost_default: 1}]\n",
     {{1, 32, "write for example cost: tokens"}}},
    {"limits: [{name: a, rate: 10/s, shadow: yes}]\n", {{1, 40, "write false or true"}}},
    {"limits: [{name: a, rate: 10/s, overflow: sharde}]\n", {{1, 42, "did you mean shared?"}}},
    {"limits: [{name: a, rate: 10/s, missing: ignore}]\n", {{1, 41, "write shared or skip"}}},
    {"limits: [{name: a, rate: 10/s, ipv6_prefix: 129}]\n", {{1, 45, "from 1 to 128 (got 129)"}}},
    {"limits: [{name: a, rate: 10/s, ipv6_prefix: 64 bits}]\n", {{1, 47, "after the number"}}},
    {"limits: [{name: a, rate: 10/s, stale_after: 366d}]\n", {{1, 45, "from 1ns to 1y"}}},
    {"limits: [{name: a, rate: 10/s, max_keys: 2G}]\n", {{1, 42, "from 1 to 1000000000"}}},

    /* conditions */
    {"limits: [{name: a, rate: 10/s, match: }]\n", {{1, 39, "match is empty"}}},
    {"limits: [{name: a, rate: 10/s, match: {}}]\n",
     {{1, 39, "match is empty: leave it out to match every request"}}},
    {"limits: [{name: a, rate: 10/s, match: ~}]\n", {{1, 39, "match is empty"}}},
    {"limits: [{name: a, rate: 10/s, match: [path]}]\n", {{1, 39, "and this is a list"}}},
    {"limits: [{name: a, rate: 10/s, match: {path: }}]\n", {{1, 46, "the value is missing"}}},
    {"limits: [{name: a, rate: 10/s, match: {user: null, plan: [~, 'null', Null]}}]\n",
     {{1, 46,
       "for requests without user, write {not: {glob: '*'}}; for the word itself, write \"null\""},
      {1, 59, "for requests without plan"},
      {1, 70, "for the word itself, write \"Null\""}}},
    {"limits: [{name: a, rate: 10/s, key: null}, {name: b, rate: 1/s, key: ['null', ~]}]\n",
     {{1, 37, "null is not an attribute: leave it out"}, {1, 79, "~ is not an attribute"}}},
    {"limits: [{name: a, rate: 10/s, match: {path: []}}]\n", {{1, 46, "matches nothing"}}},
    {"limits: [{name: a, rate: 10/s, match: {path: {}}}]\n", {{1, 46, "condition is empty"}}},
    {"limits: [{name: a, rate: 10/s, match: {path: [[/a]]}}]\n", {{1, 47, "and this is a list"}}},
    {"limits: [{name: a, rate: 10/s, match: {path: {prefx: a}}}]\n",
     {{1, 47, "did you mean prefix?"}}},
    {"limits: [{name: a, rate: 10/s, match: {path: {is: a}}}]\n",
     {{1, 47, "write exact, prefix, glob, cidr or not"}}},
    {"limits: [{name: a, rate: 10/s, match: {path: {not: {not: /a}}}}]\n",
     {{1, 52, "write exactly one of exact"}}},
    {"limits: [{name: a, rate: 10/s, match: {path: [{exact: /a, glob: /b}]}}]\n",
     {{1, 47, "write exactly one of exact"}}},
    {"limits: [{name: a, rate: 10/s, match: {path: {exact: /a, exact: b}}}]\n",
     {{1, 58, "exact is given twice"}}},
    {"limits: [{name: a, rate: 10/s, match: {path: /a, path: b}}]\n",
     {{1, 50, "path is given twice, first in line 1"}}},
    {"limits: [{name: a, rate: 10/s, match: {path: {cidr: 10.0.0.0/8}}}]\n",
     {{1, 53, "cidr can only be used with the attribute ip"}}},
    {"limits: [{name: a, rate: 10/s, match: {ip: {prefix: '10.'}}}]\n",
     {{1, 53, "compare it with cidr"}}},
    {"limits: [{name: a, rate: 10/s, match: {ip: [10.0.0.1/8, 10.1]}}]\n",
     {{1, 45, "write 10.0.0.0/8"}, {1, 57, "'10.1': not an address"}}},
    {"limits: [{name: a, rate: 10/s, match: {'a b': c}}]\n", {{1, 42, "without blanks"}}},

    /* settings */
    {ONE "server: [a]\n", {{4, 9, "server is a mapping of settings"}}},
    {ONE "server: {http: {a: b}}\n", {{4, 16, "a value or a list of values"}}},
    {ONE "server: {http: a, http: b}\n", {{4, 19, "http is given twice"}}},
    {ONE "server: {\"a\\0\": b}\n", {{4, 10, "the name of a setting is printable"}}},
    {ONE "server: {'': b}\n", {{4, 10, "the name of a setting is printable"}}},

    /* queues */
    {"limits:\n  - {name: a, rate: 1/s leaky_queue}\n  - {name: b, rate: 1/s}\n",
     {{2, 5, "a is a leaky_queue, which must be the only limit of its requests, but b in line 3"}}},
    {"limits:\n  - {name: a, rate: 1/s leaky_queue, match: {path: /a}}\n"
     "  - {name: b, rate: 1/s, match: {path: {prefix: /}}}\n",
     {{2, 5, "but b in line 3"}}},
    {"limits:\n  - {name: a, rate: 1/s leaky_queue, match: {path: /a}}\n"
     "  - {name: b, rate: 1/s leaky_queue, match: {user: b}}\n",
     {{2, 5, "but b in line 3"}, {3, 5, "but a in line 2"}}},
};

struct reported {
    struct ration_policy_error errors[RATION_POLICY_ERRORS_MAX + 1];
    char messages[RATION_POLICY_ERRORS_MAX + 1][RATION_ERROR_MESSAGE_MAX];
    size_t count;
};

static void note(void *context, const struct ration_policy_error *error)
{
    struct reported *reported = context;

    assert_true(reported->count <= RATION_POLICY_ERRORS_MAX);
    assert_true(strlen(error->message) > 10);
    for (const char *at = error->message; *at; at++)
        assert_true(*at >= 0x20 && *at < 0x7F);
    strcpy(reported->messages[reported->count], error->message);
    reported->errors[reported->count] = *error;
    reported->errors[reported->count].message = reported->messages[reported->count];
    reported->count++;
}

static struct reported *read_errors(const char *text, size_t size)
{
    static struct reported reported;
    ration_policy *policy = (void *)&reported;
    ration_status status;

    reported.count = 0;
    status = ration_policy_parse(text, size, note, &reported, &policy);
    if (status != RATION_EINVAL)
        print_error("%s\n", text);
    assert_int_equal(status, RATION_EINVAL);
    assert_ptr_equal(policy, &reported);
    assert_true(reported.count > 0);
    for (size_t i = 1; i < reported.count; i++)
        assert_true(reported.errors[i - 1].line <= reported.errors[i].line);
    assert_int_equal(ration_policy_parse(text, size, NULL, NULL, &policy), RATION_EINVAL);
    return &reported;
}

static void check_row(const struct row *row)
{
    struct reported *reported = read_errors(row->text, strlen(row->text));
    size_t i = 0;

    for (; i < reported->count; i++) {
        const struct expected *expected = i < COUNT_OF(row->errors) ? &row->errors[i] : NULL;
        if (!expected || !expected->words || reported->errors[i].line != expected->line ||
            reported->errors[i].column != expected->column ||
            !strstr(reported->messages[i], expected->words))
            fail_msg("%s\ngot  %u:%u: %s\nnot  %u:%u: %s", row->text,
                     (unsigned)reported->errors[i].line, (unsigned)reported->errors[i].column,
                     reported->messages[i], expected ? (unsigned)expected->line : 0,
                     expected ? (unsigned)expected->column : 0,
                     expected && expected->words ? expected->words : "(nothing)");
    }
    if (i < COUNT_OF(row->errors) && row->errors[i].words)
        fail_msg("%s\nnot reported: %s", row->text, row->errors[i].words);
}

static void each_error_is_reported_where_it_is(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        check_row(&rows[i]);
}

/* Every prefix of a text has a result, and an error has a message. */
static void every_prefix_of_a_text_has_a_result(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        for (size_t size = 0; size < strlen(rows[i].text); size++) {
            struct reported reported = {.count = 0};
            ration_policy *policy = NULL;
            char *exact = malloc(size + 1); /* so that a sanitizer sees the end */
            memcpy(exact, rows[i].text, size);
            ration_status status = ration_policy_parse(exact, size, note, &reported, &policy);
            assert_true(status == RATION_OK || (status == RATION_EINVAL && reported.count > 0));
            ration_policy_free(policy);
            free(exact);
        }
}

static char *large; /* room for texts made here */

static void many_errors_end_with_and_more(void **state)
{
    size_t used = (size_t)sprintf(large, "limits:\n");
    struct reported *reported;

    (void)state;
    for (int i = 0; i < 150; i++)
        used += (size_t)sprintf(large + used, "  - {name: n%d, rate: 10}\n", i);
    reported = read_errors(large, used);
    assert_int_equal(reported->count, RATION_POLICY_ERRORS_MAX + 1);
    assert_non_null(strstr(reported->messages[RATION_POLICY_ERRORS_MAX], "and more"));
    assert_int_equal(reported->errors[0].line, 2);
    assert_int_equal(reported->errors[RATION_POLICY_ERRORS_MAX - 1].line,
                     RATION_POLICY_ERRORS_MAX + 1);
}

/* Writes a list of count members, each by a format that takes its number. */
static size_t write_list(const char *head, const char *format, int count, const char *tail)
{
    size_t used = (size_t)sprintf(large, "%s", head);

    for (int i = 0; i < count; i++) {
        used += (size_t)sprintf(large + used, format, i);
        if (i == count - 1 || format[strlen(format) - 1] == '\n')
            continue;
        large[used++] = ',';
    }
    return used + (size_t)sprintf(large + used, "%s", tail);
}

static void expect_bound(size_t size, bool is_right, const char *words)
{
    ration_policy *policy = NULL;

    if (is_right) {
        assert_int_equal(ration_policy_parse(large, size, kit_print_error, NULL, &policy),
                         RATION_OK);
        ration_policy_free(policy);
        return;
    }
    struct reported *reported = read_errors(large, size);
    if (!strstr(reported->messages[0], words))
        fail_msg("%s, not %s", reported->messages[0], words);
}

static void each_maximum_is_kept_and_named(void **state)
{
    static const struct {
        const char *head, *format, *tail;
        int most;
        const char *words;
    } cases[] = {
        {"limits:\n", "  - {name: n%d, rate: 1/s, match: {path: /a}}\n", "", 4096,
         "limits has at most 4096"},
        {ONE "exempt:\n", "  - {user: u%d}\n", "", 4096, "exempt has at most 4096"},
        {ONE "banned:\n", "  - {user: u%d}\n", "", 4096, "banned has at most 4096"},
        {ONE "banned: [{user: [", "u%d", "]}]\n", 4096, "at most 4096 values"},
        {ONE "banned: [{", "a%d: b", "}]\n", 16, "at most 16 conditions"},
        {ONE "banned: [", "{a%d: b}", "]\n", 128, "at most 128 different attributes"},
        {ONE "server: {", "a%d: b", "}\n", 256, "at most 256 settings"},
        {"limits:\n", "  - {name: n%d, rate: 1/s}\n", "", 16, "more than 16 limits have no match"},
        {"limits:\n", "  - {name: n%d, rate: 1/s, key: user, missing: skip}\n", "", 4096,
         "limits has at most 4096"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++)
        for (int more = 0; more <= 1; more++) {
            size_t size =
                write_list(cases[i].head, cases[i].format, cases[i].most + more, cases[i].tail);
            expect_bound(size, !more, cases[i].words);
        }
}

static void sizes_of_texts_are_bounded(void **state)
{
    char value[RATION_POLICY_VALUE_SIZE_MAX + 2];

    (void)state;
    for (size_t more = 0; more <= 1; more++) {
        memset(value, 'v', sizeof(value));
        value[RATION_POLICY_VALUE_SIZE_MAX + more] = '\0';
        size_t size = (size_t)sprintf(large, ONE "banned: [{user: %s}]\n", value);
        expect_bound(size, !more, "at most 1024 bytes (got 1025)");
        value[RATION_ATTRIBUTE_NAME_MAX + more] = '\0';
        size = (size_t)sprintf(large, ONE "banned: [{%s: x}]\n", value);
        expect_bound(size, !more, "at most 127 bytes (got 128)");
        memset(large, ' ', RATION_POLICY_BYTES_MAX + 1);
        memcpy(large, ONE, strlen(ONE));
        memset(large + strlen(ONE), '\n', RATION_POLICY_BYTES_MAX + 1 - strlen(ONE));
        expect_bound(RATION_POLICY_BYTES_MAX + more, !more, "at most 4194304 bytes");
    }
    memset(large, '[', RATION_POLICY_BYTES_MAX);
    expect_bound(RATION_POLICY_BYTES_MAX, false, "nested deeper");
    for (size_t i = 0; i < RATION_POLICY_BYTES_MAX; i += 2)
        memcpy(large + i, "a,", 2);
    memcpy(large, "[ ", 2);
    expect_bound(RATION_POLICY_BYTES_MAX, false, "too many values");
}

static void disjoint_queues_are_accepted(void **state)
{
    static const char *const pairs[][2] = {
        {"{path: /a}", "{path: /b}"},
        {"{path: [/a, /b]}", "{path: [/c, /d]}"},
        {"{path: /a}", "{path: {prefix: /b}}"},
        {"{path: {prefix: /a/}}", "{path: {prefix: /b/}}"},
        {"{path: {glob: '/a/*x'}}", "{path: {glob: '/b/*x'}}"},
        {"{path: /a.txt}", "{path: {glob: '*.png'}}"},
        {"{path: /a}", "{path: {not: /a}}"},
        {"{path: [/a, /b]}", "{path: {not: [/b, /c, /a]}}"},
        {"{path: {prefix: /a/b}}", "{path: {not: {prefix: /a}}}"},
        {"{path: {glob: '/a/*x'}}", "{path: {not: {prefix: /a}}}"},
        {"{path: {glob: '/a*x'}}", "{path: {not: {glob: '/a*x'}}}"},
        {"{path: /a/b}", "{path: {not: {glob: '/*b'}}}"},
        {"{ip: 10.0.0.0/8}", "{ip: [11.0.0.0/8, '::/0']}"},
        {"{ip: 10.1.0.0/16}", "{ip: {not: {cidr: 10.0.0.0/8}}}"},
        {"{user: x, path: /a}", "{user: x, path: /b}"},
    };
    static const char *const together[][2] = {
        {"{path: /a}", "{user: b}"},
        {"{path: [/a, /b]}", "{path: [/b, /c]}"},
        {"{path: /a}", "{path: {prefix: /}}"},
        {"{path: {prefix: /a}}", "{path: {prefix: /a/b}}"},
        {"{path: {prefix: /a/b}}", "{path: {prefix: /a}}"},
        {"{path: {glob: '/a*x'}}", "{path: {glob: '/a*y'}}"}, /* apart, but not for certain */
        {"{path: {prefix: /a}}", "{path: {not: {prefix: /a/b}}}"},
        {"{path: [/a, /b]}", "{path: {not: /a}}"},
        {"{path: {not: /a}}", "{path: {not: /b}}"},
        {"{path: {not: /a}}", "{path: {not: /a}}"},
        {"{ip: 10.0.0.0/8}", "{ip: 10.1.0.0/16}"},
        {"{ip: 10.0.0.0/8}", "{ip: {not: {cidr: [10.0.0.0/16, 10.1.0.0/16]}}}"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(pairs) + COUNT_OF(together); i++)
        for (int swap = 0; swap <= 1; swap++) {
            bool apart = i < COUNT_OF(pairs);
            const char *const *pair = apart ? pairs[i] : together[i - COUNT_OF(pairs)];
            size_t size = (size_t)sprintf(large,
                                          "limits:\n  - {name: a, rate: 1/s, match: %s}\n"
                                          "  - {name: b, rate: 1/s leaky_queue, match: %s}\n",
                                          pair[swap], pair[!swap]);
            expect_bound(size, apart, "b is a leaky_queue");
        }
}

/* Four queues of 4096 values each: 200 million pairs of values, too many to compare. */
static void queues_too_many_to_compare_are_reported(void **state)
{
    size_t used = (size_t)sprintf(large, "limits:\n");

    (void)state;
    for (int queue = 0; queue < 4; queue++) {
        used += (size_t)sprintf(large + used,
                                "  - {name: q%d, rate: 1/s leaky_queue, match: {user: [", queue);
        for (int i = 0; i < RATION_POLICY_VALUES_MAX; i++)
            used += (size_t)sprintf(large + used, "u%d-%d,", queue, i);
        used += (size_t)sprintf(large + used, "]}}\n");
    }
    expect_bound(used, false, "too many limits and values to determine");
}

static void files_that_cannot_be_read_are_reported(void **state)
{
    static const char *const paths[] = {"/nonexistent/policy.yaml", "/"};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(paths); i++) {
        struct reported reported = {.count = 0};
        ration_policy *policy = NULL;
        assert_int_equal(ration_policy_load(paths[i], note, &reported, &policy), RATION_EINVAL);
        assert_int_equal(reported.count, 1);
        assert_int_equal(reported.errors[0].line, 0);
        assert_non_null(strstr(reported.messages[0], "cannot be read"));
        assert_int_equal(ration_policy_load(paths[i], NULL, NULL, &policy), RATION_EINVAL);
        assert_null(policy);
    }
}

static void a_file_too_large_is_not_truncated(void **state)
{
    int file = memfd_create("policy", 0);
    struct reported reported = {.count = 0};
    ration_policy *policy = NULL;
    char path[64];

    (void)state;
    snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
    memset(large, '\n', RATION_POLICY_BYTES_MAX + 1);
    memcpy(large, ONE, strlen(ONE));
    assert_int_equal(write(file, large, RATION_POLICY_BYTES_MAX), RATION_POLICY_BYTES_MAX);
    assert_int_equal(ration_policy_load(path, kit_print_error, NULL, &policy), RATION_OK);
    ration_policy_free(policy);
    assert_int_equal(write(file, "\n", 1), 1);
    assert_int_equal(ration_policy_load(path, note, &reported, &policy), RATION_EINVAL);
    assert_non_null(strstr(reported.messages[0], "at most 4194304 bytes"));
    close(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_error_is_reported_where_it_is),
        cmocka_unit_test(every_prefix_of_a_text_has_a_result),
        cmocka_unit_test(many_errors_end_with_and_more),
        cmocka_unit_test(each_maximum_is_kept_and_named),
        cmocka_unit_test(sizes_of_texts_are_bounded),
        cmocka_unit_test(disjoint_queues_are_accepted),
        cmocka_unit_test(queues_too_many_to_compare_are_reported),
        cmocka_unit_test(files_that_cannot_be_read_are_reported),
        cmocka_unit_test(a_file_too_large_is_not_truncated),
    };

    large = malloc(RATION_POLICY_BYTES_MAX + 4096);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    free(large);
    return failed;
}
