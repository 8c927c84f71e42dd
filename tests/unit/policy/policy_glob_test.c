/*
 * The cost of comparing globs: rows and random globs against fnmatch with values that are long enough for a
 * filter, steps counted for globs that make other matchers go back, and a policy of 4096 globs.
 */
#include <fnmatch.h>
#include <time.h>

#include "base/random.h"
#include "policy/glob.h"
#include "unit/policy/policy_kit.h"

#define GLOBS_COUNT 4096
#define VALUE_SIZE  8192

#ifdef RATION_TESTS_SHORT
#define ROUNDS_COUNT 300
#else
#define ROUNDS_COUNT 3000
#endif

static uint64_t random_state;

static unsigned pick(unsigned count)
{
    return (unsigned)ration_random_up_to(&random_state, count - 1);
}

static bool matches(const char *glob_text, const char *value, struct ration_glob_work *work)
{
    struct ration_arena arena = {0};
    const struct ration_glob *glob = ration_glob_make(&arena, glob_text, strlen(glob_text));
    bool result;

    assert_non_null(glob);
    result = ration_glob_matches(glob, &(struct ration_key){value, strlen(value)}, work);
    ration_arena_done(&arena);
    return result;
}

/* Few letters, so that pieces almost match many times. Some globs are cut out of the value. */
static void random_glob(char *glob, const char *value, size_t size)
{
    size_t used = 0;

    for (unsigned piece = 0; piece < 1 + pick(4); piece++) {
        size_t from = pick((unsigned)size), length = pick(12);
        if (pick(4))
            glob[used++] = '*';
        for (size_t i = 0; i < length && from + i < size; i++)
            glob[used++] = pick(12) ? value[from + i] : "?ab"[pick(3)];
    }
    if (pick(4))
        glob[used++] = '*';
    glob[used] = '\0';
}

static void random_globs_match_as_fnmatch_says(void **state)
{
    static char value[1200];
    size_t matched_count = 0, filtered_count = 0;

    (void)state;
    random_state = 12;
    for (int round = 0; round < ROUNDS_COUNT; round++) {
        struct ration_glob_work work;
        size_t size = pick(3) ? 256 + pick(900) : 1 + pick(40);
        unsigned letters = 2 + pick(24);

        ration_glob_work_init(&work);
        for (size_t i = 0; i < size; i++)
            value[i] = (char)('a' + pick(letters));
        value[size] = '\0';
        for (int i = 0; i < 24; i++) {
            char glob[80];
            random_glob(glob, value, size);
            bool is_match = fnmatch(glob, value, FNM_NOESCAPE) == 0;
            if (matches(glob, value, &work) != is_match)
                fail_msg("round %d: glob %s, value %s", round, glob, value);
            assert_int_equal(matches(glob, value, NULL), is_match);
            matched_count += is_match;
        }
        filtered_count += work.filter_count > 0 && work.filters[0].shift > 0;
    }
    assert_true(matched_count > ROUNDS_COUNT); /* the random globs test both answers */
    assert_true(filtered_count > ROUNDS_COUNT / 4);
}

/* The steps of one comparison with a value of size bytes. */
static size_t steps_of(const char *glob, const char *letters, size_t size)
{
    static char value[VALUE_SIZE + 1];
    struct ration_glob_work work;

    ration_glob_work_init(&work);
    for (size_t i = 0; i < size; i++)
        value[i] = letters[i % strlen(letters)];
    value[size] = '\0';
    matches(glob, value, &work);
    return work.steps;
}

/* A matcher that backtracks needs size times size steps, or more, for most of these. */
static void steps_grow_as_the_value_does(void **state)
{
    static const struct {
        const char *glob, *letters;
    } cases[] = {
        {"*a*a*a*a*a*a*a*a*b*", "a"},
        {"*aaaaaaaaaaaaaaaaaaaab*", "a"},
        {"*baaaaaaaaaaaaaaaaaaaa*", "a"},
        {"*ab*ab*ab*ab*ab*c*", "ab"},
        {"*a?a?a?a?b*", "a"},
        {"*?a?b*c*", "ab"},
        {"*?????????????*b*", "a"},
        {"*a*b*c*d*e*f*g*h*", "abcdefg"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        size_t half = steps_of(cases[i].glob, cases[i].letters, VALUE_SIZE / 2);
        size_t whole = steps_of(cases[i].glob, cases[i].letters, VALUE_SIZE);
        size_t bound = 32 * VALUE_SIZE; /* a step for each byte, and a search for each byte */
        if (whole > 2 * half + 1000 || whole > bound)
            fail_msg("%s: %zu steps for half the value, %zu for all of it", cases[i].glob, half,
                     whole);
    }
}

/* A limit for each number, as {glob: '*bot-0007*'}. */
static ration_policy *policy_of_globs(const char *before, const char *behind)
{
    size_t room = GLOBS_COUNT * 100;
    char *text = malloc(room);
    size_t used = (size_t)sprintf(text, "limits:\n");
    ration_policy *policy;

    for (int i = 0; i < GLOBS_COUNT; i++) {
        used +=
            (size_t)sprintf(text + used, "  - {name: n%d, rate: 1/s, match: {plan: {glob: '", i);
        used += (size_t)sprintf(text + used, "*%s%04d*%s", before, i, behind);
        used += (size_t)sprintf(text + used, "'}}}\n");
    }
    policy = kit_policy(text);
    free(text);
    return policy;
}

static ration_status match_plan(const ration_policy *policy, const char *value, size_t size)
{
    struct ration_attribute attribute = {RATION_KEY("plan"), {value, size}};
    struct ration_policy_match match;

    return ration_policy_find_matches(policy, &attribute, 1, &match);
}

/* The minimum of several measurements: other load on this machine only adds to it. */
static double cpu_seconds(const ration_policy *policy, const char *value, size_t size,
                          ration_status status)
{
    double seconds_min = 1e9;

    for (int i = 0; i < 7; i++) {
        struct timespec begin, end;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
        assert_int_equal(match_plan(policy, value, size), status);
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
        double seconds =
            (double)(end.tv_sec - begin.tv_sec) + (double)(end.tv_nsec - begin.tv_nsec) / 1e9;
        if (seconds < seconds_min)
            seconds_min = seconds;
    }
    return seconds_min;
}

/* 64 times the bytes, and not even 8 times the time: one pass over the value serves all globs. */
static void a_long_value_is_not_searched_for_every_glob(void **state)
{
    static char value[VALUE_SIZE];
    ration_policy *policy = policy_of_globs("bot-", "");
    double brief, whole;

    (void)state;
    random_state = 3;
    for (size_t i = 0; i < VALUE_SIZE; i++)
        value[i] = (char)('a' + pick(26));
    brief = cpu_seconds(policy, value, VALUE_SIZE / 64, RATION_OK);
    whole = cpu_seconds(policy, value, VALUE_SIZE, RATION_OK);
    print_message("4096 globs: %.3f ms for %d bytes, %.3f ms for %d bytes\n", brief * 1e3,
                  VALUE_SIZE / 64, whole * 1e3, VALUE_SIZE);
    assert_true(whole < 8 * brief);
    ration_policy_free(policy);
}

/* All pieces are in the value, in the wrong order: no filter helps, and the bound on steps does. */
static void a_value_made_against_the_policy_is_an_error(void **state)
{
    static char value[VALUE_SIZE];
    ration_policy *policy = policy_of_globs("", "x*");
    size_t used = 0;

    (void)state;
    memset(value, 'z', sizeof(value));
    value[0] = 'x';
    for (int i = 0; i < 1600; i++)
        used += (size_t)sprintf(value + 1 + used, "%04d", i);
    value[1 + used] = 'z';
    print_message("stopped after %.3f ms\n",
                  cpu_seconds(policy, value, sizeof(value), RATION_ENOSPC) * 1e3);
    assert_int_equal(match_plan(policy, value, 100), RATION_OK);
    ration_policy_free(policy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_globs_match_as_fnmatch_says),
        cmocka_unit_test(steps_grow_as_the_value_does),
        cmocka_unit_test(a_long_value_is_not_searched_for_every_glob),
        cmocka_unit_test(a_value_made_against_the_policy_is_an_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
