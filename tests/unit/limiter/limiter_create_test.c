/*
 * Creation of limiters: every wrong option is refused with its reason, memory budgets are kept, keys have bounds.
 */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit/limiter/limiter_kit.h"

/* Must be refused, with a text that has part in it, and with nothing written. */
#define refuse(options, status, part) refuse_at(options, status, part, __LINE__)

static void refuse_at(const struct ration_limiter_options *options, ration_status status,
                      const char *part, int line)
{
    ration_limiter *untouched = (ration_limiter *)(void *)&line;
    ration_limiter *limiter = untouched;
    struct ration_error error = {.message = "", .offset = 77};
    ration_status got = ration_limiter_create(options, &limiter, &error);

    if (got != status || limiter != untouched || error.status != status || error.offset != 0 ||
        strstr(error.message, part) == NULL)
        fail_msg("line %d: %s \"%s\", wanted %s with \"%s\"", line, ration_status_name(got),
                 got == RATION_OK ? "" : error.message, ration_status_name(status), part);
    assert_int_equal(ration_limiter_create(options, &limiter, NULL), status);
    assert_ptr_equal(limiter, untouched);
}

static void wrong_sizes_and_counts_are_refused(void **state)
{
    struct ration_limiter_options wrong;
    struct kit kit;

    (void)state;
    KIT_PLAN(&kit, "10/s");
    refuse(NULL, RATION_EINVAL, "struct_size");
    wrong = kit.options;
    for (size_t size = 0; size < 2 * sizeof(wrong); size++) {
        wrong.struct_size = size;
        if (size != sizeof(wrong))
            refuse(&wrong, RATION_EINVAL, "struct_size must be sizeof");
    }
    wrong = kit.options;
    wrong.rule_count = 0;
    refuse(&wrong, RATION_EINVAL, "1 to 8 rules (got 0)");
    wrong.rule_count = 9;
    refuse(&wrong, RATION_EINVAL, "1 to 8 rules (got 9)");
    wrong.rule_count = SIZE_MAX;
    refuse(&wrong, RATION_EINVAL, "1 to 8 rules");
    wrong.rule_count = 1;
    wrong.rules = NULL;
    refuse(&wrong, RATION_EINVAL, "rules is NULL");
    wrong = kit.options;
    wrong.overflow = (enum ration_overflow)3;
    refuse(&wrong, RATION_EINVAL, "overflow must be one of enum ration_overflow");
    wrong.overflow = (enum ration_overflow) - 1;
    refuse(&wrong, RATION_EINVAL, "overflow");
    wrong = kit.options;
    wrong.top_keys = 4097;
    refuse(&wrong, RATION_EINVAL, "top_keys is at most 4096");
    wrong.top_keys = UINT32_MAX;
    refuse(&wrong, RATION_EINVAL, "top_keys");
}

static void wrong_rules_are_refused(void **state)
{
    struct kit kit;

    (void)state;
    KIT_PLAN(&kit, "10/s", "20/s");
    memset(&kit.rules[1].limit, 0, sizeof(kit.rules[1].limit));
    refuse(&kit.options, RATION_EINVAL, "rule 1 has a limit that was never made");
    KIT_PLAN(&kit, "10/s", "20/s start empty");
    kit.rules[1].stale_after_ns = 365 * 24 * 3600 * SECOND + 1;
    refuse(&kit.options, RATION_EINVAL, "rule 1: stale_after is at most 365 days");
    KIT_PLAN(&kit, "10/s sliding_log", "20/s", "30/s sliding_log");
    refuse(&kit.options, RATION_EUNSUPPORTED, "at most one sliding_log (got 2)");
    KIT_PLAN(&kit, "1/s sliding_window", "2/s sliding_window", "3/s sliding_window",
             "4/s sliding_window", "5/s sliding_window", "6/s sliding_window", "7/s sliding_window",
             "8/s sliding_window");
    refuse(&kit.options, RATION_EUNSUPPORTED, "these rules need 16 cells per key");
}

static void wrong_memory_is_refused(void **state)
{
    struct kit kit;

    (void)state;
    KIT_PLAN(&kit, "10/s");
    kit.options.keys_max = 0;
    refuse(&kit.options, RATION_EINVAL, "set keys_max or bytes_max");
    kit.options.keys_max = (uint64_t)UINT32_MAX + 1;
    refuse(&kit.options, RATION_EINVAL, "keys_max is at most 4294967295");
    kit.options.keys_max = UINT64_MAX;
    refuse(&kit.options, RATION_EINVAL, "keys_max");
    kit.options.keys_max = 0;
    kit.options.bytes_max = 1;
    refuse(&kit.options, RATION_EINVAL, "bytes_max is too small for a single key");
    kit.options.keys_max = 1000000;
    kit.options.bytes_max = 1000000;
    refuse(&kit.options, RATION_EINVAL, "bytes_max is too small for keys_max keys");

    KIT_PLAN(&kit, "10/s", "20/s");
    kit.options.threads_max = 513;
    refuse(&kit.options, RATION_EINVAL, "threads_max is at most 512");
    kit.options.threads_max = UINT32_MAX;
    refuse(&kit.options, RATION_EINVAL, "threads_max is at most 512");
    KIT_PLAN(&kit, "1G/y sliding_log"); /* more than an address space */
    kit.options.keys_max = UINT32_MAX;
    refuse(&kit.options, RATION_EINVAL, "the table would be too large");
}

/* A clock without a function could only crash. */
static void a_clock_without_a_function_is_refused(void **state)
{
    struct kit kit;
    int status;
    pid_t child;

    (void)state;
    KIT_PLAN(&kit, "10/s");
    kit.clock.now_ns = NULL;
    child = fork(); /* so that a crash is a failure of this test alone */
    assert_true(child >= 0);
    if (child == 0) {
        ration_limiter *limiter;

        signal(SIGSEGV, SIG_DFL);
        _exit(ration_limiter_create(&kit.options, &limiter, NULL) == RATION_EINVAL ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* Truncated, it could be another limiter's name in the statistics. */
static void a_name_that_is_too_long_is_refused(void **state)
{
    char name[RATION_LIMITER_NAME_MAX + 2];
    struct kit kit;

    (void)state;
    memset(name, 'n', sizeof(name));
    name[RATION_LIMITER_NAME_MAX + 1] = '\0';
    KIT_PLAN(&kit, "10/s");
    kit.options.name = name;
    refuse(&kit.options, RATION_EINVAL, "name");
}

static void a_limiter_has_the_name_it_was_given(void **state)
{
    char name[RATION_LIMITER_NAME_MAX + 1];
    struct kit kit;

    (void)state;
    KIT_BEGIN(&kit, "10/s");
    assert_string_equal(ration_limiter_name(kit.limiter), "");
    kit_end(&kit);
    memset(name, 'n', sizeof(name));
    name[RATION_LIMITER_NAME_MAX] = '\0';
    KIT_PLAN(&kit, "10/s", "20/s");
    kit.options.name = name;
    kit_open(&kit);
    assert_int_equal(ration_limiter_rule_count(kit.limiter), 2);
    memset(name, 'x', RATION_LIMITER_NAME_MAX); /* it was copied */
    assert_int_equal(strspn(ration_limiter_name(kit.limiter), "n"), RATION_LIMITER_NAME_MAX);
    kit_end(&kit);
    ration_limiter_free(NULL);
}

/* The memory of rules and counters in addition to the table; header: about 10 KB. */
#define BESIDE_BYTES (20 * 1024)

static const char *const shapes[][3] = {
    {"10/s"}, {"10/s", "20/s"}, {"10/s sliding_window"}, {"10/s sliding_log"}};

/* Each budget is kept and used: a few keys more would not fit. */
static void a_budget_of_bytes_is_kept_and_used(void **state)
{
    (void)state;
    for (size_t i = 0; i < KIT_COUNT_OF(shapes); i++)
        for (size_t bytes = 200 * 1024; bytes <= (size_t)64 << 20; bytes = bytes * 3 + 12345) {
            size_t used;
            struct kit kit;

            kit_plan(&kit, shapes[i]);
            kit.options.keys_max = 0;
            kit.options.bytes_max = bytes;
            kit_open(&kit);
            used = ration_limiter_bytes(kit.limiter);
            assert_true(used <= bytes + BESIDE_BYTES);
            assert_true(used > bytes - bytes / 50);
            kit_end(&kit);
        }
}

/* As many keys as the budget has room for have a place: fewer than one in a million has none. */
static void a_budget_of_bytes_holds_its_keys(void **state)
{
    struct kit kit;
    struct kit_room room;
    uint64_t keys = (1 << 20) / 31; /* 30.3 bytes per key, and some KB for the rest */

    (void)state;
    KIT_PLAN(&kit, "1/h");
    kit.options.keys_max = 0;
    kit.options.bytes_max = 1 << 20;
    kit_open(&kit);
    for (uint64_t i = 0; i < keys; i++)
        assert_int_equal(kit_take_key(&kit, kit_numbered(&room, i), 1).verdict, RATION_ALLOW);
    assert_in_range(kit_report(&kit).limiter.overflow_shared, 0, 1);
    for (uint64_t i = keys; i < 2 * keys; i++)
        kit_take_key(&kit, kit_numbered(&room, i), 1);
    assert_true(kit_report(&kit).limiter.created < 2 * keys);
    kit_end(&kit);
}

/* Large pages come in pieces of 2 MB, which a budget has to count too. */
static void a_budget_of_bytes_is_kept_with_large_pages(void **state)
{
    struct kit kit;

    (void)state;
    KIT_PLAN(&kit, "10/s");
    kit.options.keys_max = 0;
    kit.options.bytes_max = (3 << 20);
    kit.options.uses_huge_pages = 1;
    kit_open(&kit);
    assert_true(ration_limiter_bytes(kit.limiter) <= kit.options.bytes_max + BESIDE_BYTES);
    kit_end(&kit);
}

/* Every combination of what is on or off makes a limiter that decides. */
static void all_options_go_together(void **state)
{
    (void)state;
    for (uint32_t bits = 0; bits < 256; bits++) {
        struct ration_key key = RATION_KEY("k");
        struct kit kit;

        KIT_PLAN(&kit, "1/h burst 2", "1/h burst 3");
        kit.options.rule_count = 1 + (bits >> 7 & 1);
        kit.options.keys_max = 10;
        kit.options.is_prefaulted = bits & 1;
        kit.options.uses_huge_pages = bits >> 1 & 1;
        kit.options.is_shared_by_forks = bits >> 2 & 1;
        kit.options.is_stackable = bits >> 3 & 1;
        kit.options.trusts_keys = bits >> 4 & 1;
        kit.options.top_keys = (bits >> 5 & 1) * 10;
        kit.options.sample_latency = bits >> 6 & 1;
        kit.options.threads_max = 1 + bits % 5;
        kit_open(&kit);
        assert_true(ration_limiter_allow(kit.limiter, &key));
        assert_int_equal(kit_take(&kit, "k", 1).verdict, RATION_ALLOW);
        assert_false(ration_limiter_allow(kit.limiter, &key));
        assert_int_equal(kit_report(&kit).rules[0].denied, 1);
        kit_end(&kit);
    }
}

/* One limit given as text, and a number of keys. */
static void the_common_case_is_one_call(void **state)
{
    struct ration_error error = {.message = ""};
    ration_limiter *untouched = (ration_limiter *)(uintptr_t)16, *limiter = untouched;

    (void)state;
    assert_int_equal(ration_limiter_create_simple("10/x", 100, &limiter, &error), RATION_EINVAL);
    assert_int_equal(error.offset, 3);
    assert_int_equal(ration_limiter_create_simple(NULL, 100, &limiter, &error), RATION_EINVAL);
    assert_int_equal(ration_limiter_create_simple("10/ns", 100, &limiter, NULL), RATION_ERANGE);
    assert_int_equal(ration_limiter_create_simple("10/s", 0, &limiter, &error), RATION_EINVAL);
    assert_non_null(strstr(error.message, "keys_max"));
    assert_ptr_equal(limiter, untouched);

    assert_int_equal(ration_limiter_create_simple("1/h burst 3", 1000, &limiter, &error),
                     RATION_OK);
    for (int i = 0; i < 5; i++)
        assert_int_equal(ration_limiter_allow(limiter, &RATION_KEY("198.51.100.7")), i < 3);
    assert_true(ration_limiter_allow(limiter, &RATION_KEY("198.51.100.8")));
    assert_int_equal(ration_limiter_count(limiter, ration_limiter_now(limiter)), 2);
    assert_int_equal(
        ration_limiter_count(limiter, ration_limiter_now(limiter) + 3 * RATION_NS_PER_HOUR), 0);
    ration_limiter_free(limiter);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_common_case_is_one_call),
        cmocka_unit_test(wrong_sizes_and_counts_are_refused),
        cmocka_unit_test(wrong_rules_are_refused),
        cmocka_unit_test(wrong_memory_is_refused),
        cmocka_unit_test(a_clock_without_a_function_is_refused),
        cmocka_unit_test(a_name_that_is_too_long_is_refused),
        cmocka_unit_test(a_limiter_has_the_name_it_was_given),
        cmocka_unit_test(a_budget_of_bytes_is_kept_and_used),
        cmocka_unit_test(a_budget_of_bytes_holds_its_keys),
        cmocka_unit_test(a_budget_of_bytes_is_kept_with_large_pages),
        cmocka_unit_test(all_options_go_together),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
