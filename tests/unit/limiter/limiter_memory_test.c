/*
 * R8: memory is allocated once, touched when it is used or at creation, and as large as reported; decisions allocate
 * none. Also the effect of fork().
 */
#include <sys/wait.h>
#include <unistd.h>

#include "support/subjects.h"
#include "unit/limiter/limiter_allocations.h"
#include "unit/limiter/limiter_kit.h"

/* Every call that decides or changes. */
static void call_everything(ration_limiter *limiter, uint64_t *random, uint64_t now_ns)
{
    struct subject_key key;
    const void *request = subject_request(&key, ration_random_up_to(random, 700));
    struct ration_batch_item items[40];
    struct ration_canceller canceller = {0};
    struct ration_limiter_report report;
    struct ration_scan_item scanned;
    struct ration_decision decision, details[RATION_RULES_MAX];
    struct ration_reservation reservation;
    uint64_t granted, cursor = 0;

    for (size_t i = 0; i < KIT_COUNT_OF(items); i++)
        items[i] = (struct ration_batch_item){.request = request, .cost_tokens = 1};
    ration_limiter_allow(limiter, request);
    ration_limiter_allow_at(limiter, request, 2, now_ns);
    ration_limiter_take(limiter, request, 1, now_ns, &decision, details);
    ration_limiter_peek(limiter, request, 1, now_ns, &decision, details);
    ration_limiter_take_up_to(limiter, request, 3, now_ns, &granted, &decision);
    ration_limiter_take_batch(limiter, items, KIT_COUNT_OF(items), now_ns);
    ration_limiter_refund(limiter, request, 1, now_ns);
    ration_limiter_charge(limiter, request, 1, now_ns);
    ration_limiter_block_until(limiter, request, now_ns + 5, now_ns);
    ration_limiter_wait(limiter, request, 1, now_ns, &canceller, &decision);
    ration_limiter_reserve(limiter, request, 1, SECOND, now_ns, &decision, &reservation);
    if (decision.verdict == RATION_ALLOW)
        ration_limiter_settle(limiter, &reservation, 0, now_ns);
    ration_limiter_reset(limiter, request, now_ns);
    ration_limiter_read_report(limiter, &report);
    ration_limiter_scan(limiter, &cursor, &scanned, 1, now_ns);
}

static void r8_no_call_but_creation_takes_memory(void **state)
{
    (void)state;
    for (size_t i = 0; i < SUBJECT_COUNT; i++) {
        struct ration_rule rules[SUBJECT_RULES_MAX];
        uint64_t random = i + 1, call_count;
        struct kit kit;
        ration_limiter *limiter;

        KIT_PLAN(&kit, "1/s");
        kit.options = subject_options(&subjects[i], rules, &kit.clock);
        kit.options.keys_max = 20; /* so that some find no place */
        kit.options.top_keys = 10;
        kit.options.sample_latency = 1;
        limiter = subject_create(&kit.options);
        call_count = allocations.call_count;
        assert_true(call_count > 0);
        for (int k = 0; k < (KIT_SHARE > 1 ? 300 : 3000); k++) {
            call_everything(limiter, &random, kit.manual.ns);
            kit_pass(&kit, ration_random_up_to(&random, 50 * MS));
            if (k % 300 == 0)
                assert_int_equal(ration_limiter_change(limiter, rules, kit.options.rule_count,
                                                       RATION_CHANGE_KEEP, NULL),
                                 RATION_OK);
        }
        assert_int_equal(allocations.call_count, call_count);
        ration_limiter_free(limiter);
        assert_int_equal(allocations.live_count, 0);
    }
}

/* How many of the last mapped pages are in memory. */
static size_t resident_pages(void)
{
    size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    size_t page_count = (mappings.last_bytes + page_bytes - 1) / page_bytes;
    unsigned char *pages = malloc(page_count);
    size_t count = 0;

    assert_non_null(pages);
    assert_int_equal(mincore(mappings.last, mappings.last_bytes, pages), 0);
    for (size_t i = 0; i < page_count; i++)
        count += pages[i] & 1;
    free(pages);
    return count;
}

/* Of a limiter of 30 MB that was just created. */
static size_t touched_pages(uint32_t is_prefaulted, uint32_t is_shared, bool is_wish_unknown)
{
    struct kit kit;
    size_t pages;

    KIT_PLAN(&kit, "1/s");
    kit.options.keys_max = 1000000;
    kit.options.is_prefaulted = is_prefaulted;
    kit.options.is_shared_by_forks = is_shared;
    mappings.is_populate_unknown = is_wish_unknown;
    kit_open(&kit);
    mappings.is_populate_unknown = false;
    assert_true(ration_limiter_bytes(kit.limiter) > 28 << 20);
    pages = resident_pages();
    kit_end(&kit);
    return pages;
}

static void memory_is_touched_when_used_or_at_once(void **state)
{
    size_t all = (28 << 20) / (size_t)sysconf(_SC_PAGESIZE);

    (void)state;
    for (uint32_t is_shared = 0; is_shared <= 1; is_shared++) {
        /* the header, and the overflow bucket; more only where the system gives large pages unasked */
        assert_true(touched_pages(0, is_shared, false) < all / 4);
        assert_true(touched_pages(1, is_shared, false) > all);
        assert_true(touched_pages(1, is_shared, true) > all); /* on Linux before 5.14 */
    }
}

static void a_key_takes_no_more_than_it_says(void **state)
{
    static const struct {
        const char *texts[9];
        uint64_t keys_max, bytes_per_key_max;
    } rows[] = {
        {{"10/s"}, 100000, 32},
        {{"10/s"}, 1000000, 31},
        {{"10/s fixed_window"}, 1000000, 31},
        {{"10/s leaky_queue"}, 1000000, 31},
        {{"10/s refill interval"}, 1000000, 31},
        {{"10/s", "20/s"}, 1000000, 112},
        {{"10/s", "20/s", "30/s"}, 1000000, 112},
        {{"10/s sliding_window"}, 1000000, 112},
        {{"10/s reserve 1/min"}, 1000000, 112},
        {{"1/s", "2/s", "3/s", "4/s", "5/s", "6/s", "7/s"}, 1000000, 220},
        {{"1/s", "2/s", "3/s", "4/s", "5/s", "6/s", "7/s", "8/s"}, 1000000, 436},
        {{"10/s sliding_log"}, 1000000, 382},
        {{"100/s sliding_log"}, 100000, 2810},
    };

    (void)state;
    for (size_t i = 0; i < KIT_COUNT_OF(rows); i++) {
        struct kit kit;

        kit_plan(&kit, rows[i].texts);
        kit.options.keys_max = rows[i].keys_max;
        kit_open(&kit);
        assert_true(ration_limiter_bytes(kit.limiter) <=
                    rows[i].keys_max * rows[i].bytes_per_key_max);
        kit_end(&kit);
    }
}

/* Takes in a child process. Returns what is left to the child then. */
static uint64_t take_in_child(struct kit *kit, uint64_t cost)
{
    int status;
    pid_t child = fork();

    assert_true(child >= 0);
    if (child == 0) {
        struct ration_key key = RATION_KEY("k");
        struct ration_decision decision = {.remaining = 255};

        ration_limiter_take(kit->limiter, &key, cost, kit->manual.ns, &decision, NULL);
        _exit((int)decision.remaining);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return (uint64_t)WEXITSTATUS(status);
}

static void a_child_decides_for_itself_or_together(void **state)
{
    static const char *const texts[] = {"10/h", "10/h sliding_log", "10/h sliding_window"};

    (void)state;
    for (size_t i = 0; i < KIT_COUNT_OF(texts); i++)
        for (size_t rule_count = 1; rule_count <= 2; rule_count++)
            for (uint32_t is_shared = 0; is_shared <= 1; is_shared++) {
                struct kit kit;

                KIT_PLAN(&kit, texts[i], "20/h");
                kit.options.rule_count = rule_count;
                kit.options.is_shared_by_forks = is_shared;
                kit_open(&kit);
                kit_take(&kit, "k", 3);
                assert_int_equal(take_in_child(&kit, 5), 2);
                assert_int_equal(kit_left(&kit, "k"), is_shared ? 2 : 7);
                assert_int_equal(take_in_child(&kit, 1), is_shared ? 1 : 6);
                kit_take(&kit, "k", 1);
                assert_int_equal(kit_left(&kit, "k"), is_shared ? 0 : 6);
                kit_end(&kit);
            }
}

/* Many children at once get the burst, and not one more. */
static void children_that_decide_together_get_the_burst(void **state)
{
    struct ration_key key = RATION_KEY("k");
    struct kit kit;
    uint64_t allowed_count = 0;

    (void)state;
    KIT_PLAN(&kit, "1/h burst 100", "1/h burst 120");
    kit.options.is_shared_by_forks = 1;
    kit_open(&kit);
    for (int i = 0; i < 6; i++) {
        if (fork() != 0)
            continue;
        int count = 0;

        for (int k = 0; k < 1000; k++)
            count += ration_limiter_allow(kit.limiter, &key);
        _exit(count);
    }
    for (int i = 0; i < 6; i++) {
        int status;

        assert_true(wait(&status) > 0);
        assert_true(WIFEXITED(status));
        allowed_count += (uint64_t)WEXITSTATUS(status);
    }
    assert_int_equal(allowed_count, 100);
    assert_int_equal(kit_left(&kit, "k"), 0);
    kit_end(&kit);
}

/* Forks while a thread holds the lock on the limits: in the child no thread owns it. */
static ration_status fork_and_scan(void *context, const void *bytes, size_t size)
{
    struct kit *kit = context;
    struct ration_rule rule = {.limit = kit_limit("20/h")};
    struct ration_scan_item item;
    uint64_t cursor = 0;
    int status;
    pid_t child = fork();

    (void)bytes, (void)size;
    if (child == 0) {
        alarm(10);
        ration_limiter_scan(kit->limiter, &cursor, &item, 1, kit->manual.ns);
        _exit(ration_limiter_change(kit->limiter, &rule, 1, RATION_CHANGE_KEEP, NULL) == RATION_OK
                  ? 0
                  : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    return RATION_OK;
}

static void a_child_does_not_wait_for_a_thread_it_has_not(void **state)
{
    struct kit kit;

    (void)state;
    KIT_BEGIN(&kit, "10/h");
    kit_take(&kit, "k", 1);
    assert_int_equal(ration_limiter_dump(kit.limiter, kit.manual.ns, fork_and_scan, &kit),
                     RATION_OK);
    kit_end(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(r8_no_call_but_creation_takes_memory),
        cmocka_unit_test(a_child_does_not_wait_for_a_thread_it_has_not),
        cmocka_unit_test(memory_is_touched_when_used_or_at_once),
        cmocka_unit_test(a_key_takes_no_more_than_it_says),
        cmocka_unit_test(a_child_decides_for_itself_or_together),
        cmocka_unit_test(children_that_decide_together_get_the_burst),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
