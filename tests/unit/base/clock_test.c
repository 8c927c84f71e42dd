/*
 * Clocks on this machine: they advance, agree, and no thread sees one run backwards.
 */
#include "ration/clock.h"

#include <inttypes.h>
#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/tsc.h"
#include "support/unit.h"

#define MS UINT64_C(1000000)
#define S  UINT64_C(1000000000)

static uint64_t mono_now(void)
{
    struct ration_clock mono = ration_clock_monotonic();

    return ration_clock_now(&mono);
}

/* The simple clocks ---------------------------------------------------------------------- */

static void every_real_clock_advances_and_never_goes_back(void **state)
{
    struct ration_clock clocks[] = {ration_clock_monotonic(), ration_clock_boottime(),
                                    ration_clock_coarse(), ration_clock_tsc()};

    (void)state;
    for (size_t i = 0; i < sizeof(clocks) / sizeof(clocks[0]); i++) {
        uint64_t first = ration_clock_now(&clocks[i]);
        uint64_t deadline_ns = mono_now() + 2 * S;
        uint64_t last = first;

        for (unsigned reads = 0; reads < 100000 || last == first; reads++) {
            uint64_t now = ration_clock_now(&clocks[i]);
            assert_true(now >= last);
            last = now;
            assert_true(last != first || mono_now() < deadline_ns);
        }
    }
}

static void kinds_are_what_they_say_and_have_names(void **state)
{
    struct ration_manual_clock manual = {0};

    (void)state;
    assert_int_equal(ration_clock_monotonic().kind, RATION_CLOCK_MONOTONIC);
    assert_int_equal(ration_clock_boottime().kind, RATION_CLOCK_BOOTTIME);
    assert_int_equal(ration_clock_coarse().kind, RATION_CLOCK_COARSE);
    assert_int_equal(ration_clock_manual(&manual).kind, RATION_CLOCK_MANUAL);
    assert_int_equal(ration_clock_tsc().kind,
                     ration_clock_tsc_error() ? RATION_CLOCK_MONOTONIC : RATION_CLOCK_TSC);
    assert_string_equal(ration_clock_kind_name(RATION_CLOCK_MONOTONIC), "monotonic");
    assert_string_equal(ration_clock_kind_name(RATION_CLOCK_BOOTTIME), "boottime");
    assert_string_equal(ration_clock_kind_name(RATION_CLOCK_COARSE), "coarse");
    assert_string_equal(ration_clock_kind_name(RATION_CLOCK_TSC), "tsc");
    assert_string_equal(ration_clock_kind_name(RATION_CLOCK_MANUAL), "manual");
    assert_string_equal(ration_clock_kind_name(RATION_CLOCK_CUSTOM), "custom");
    assert_string_equal(ration_clock_kind_name((enum ration_clock_kind)0), "unknown");
}

static void manual_clock_changes_only_when_set_and_stops_at_the_maximum(void **state)
{
    struct ration_manual_clock manual = {0};
    struct ration_clock clock = ration_clock_manual(&manual);

    (void)state;
    assert_int_equal(ration_clock_now(&clock), 0);
    ration_clock_manual_set(&manual, 7);
    ration_clock_manual_advance(&manual, 3);
    assert_int_equal(ration_clock_now(&clock), 10);
    ration_clock_manual_set(&manual, 4); /* backwards is allowed: tests use it for a stale now */
    assert_int_equal(ration_clock_now(&clock), 4);
    ration_clock_manual_advance(&manual, UINT64_MAX - 4);
    assert_true(ration_clock_now(&clock) == UINT64_MAX);
    ration_clock_manual_advance(&manual, 1);
    assert_true(ration_clock_now(&clock) == UINT64_MAX);
    ration_clock_manual_set(&manual, 5);
    ration_clock_manual_advance(&manual, UINT64_MAX);
    assert_true(ration_clock_now(&clock) == UINT64_MAX);
}

/* This machine --------------------------------------------------------------------------- */

/*
 * Reads for run_ns. Counts reads that went backwards, or differ by 1 ms from the time before or after. A
 * late time is allowed while another thread sleeps in the middle of publishing a new line.
 */
static uint64_t bad_reads(uint64_t (*now)(struct ration_tsc *), struct ration_tsc *tsc,
                          uint64_t run_ns)
{
    uint64_t start_ns = mono_now();
    uint64_t before_ns = start_ns;
    uint64_t last_ns = 0;
    uint64_t bad = 0;

    while (before_ns - start_ns < run_ns) {
        uint64_t seq = __atomic_load_n(&tsc->seq, __ATOMIC_ACQUIRE);
        uint64_t now_ns = now(tsc);
        bool excused = __atomic_load_n(&tsc->busy, __ATOMIC_ACQUIRE) ||
                       __atomic_load_n(&tsc->seq, __ATOMIC_ACQUIRE) != seq;
        uint64_t after_ns = mono_now();
        bool late = now_ns + MS < before_ns && !excused;
        bad += now_ns < last_ns || late || now_ns > after_ns + MS;
        last_ns = now_ns;
        before_ns = after_ns;
    }
    return bad;
}

static uint64_t default_now(struct ration_tsc *unused)
{
    (void)unused;
    return ration_clock_default_now();
}

static void default_clock_keeps_within_1_ms_of_monotonic(void **state)
{
    (void)state;
    assert_int_equal(bad_reads(default_now, &ration_tsc_shared, 50 * MS), 0);
}

struct reader {
    uint64_t (*now)(struct ration_tsc *);
    struct ration_tsc *tsc;
    uint64_t bad;
};

static void *reader_main(void *context)
{
    struct reader *reader = context;

    reader->bad = bad_reads(reader->now, reader->tsc, 100 * MS);
    return NULL;
}

static uint64_t two_threads_bad_reads(uint64_t (*now)(struct ration_tsc *), struct ration_tsc *tsc)
{
    struct reader readers[2] = {{now, tsc, 0}, {now, tsc, 0}};
    pthread_t threads[2];

    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, reader_main, &readers[i]), 0);
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    return readers[0].bad + readers[1].bad;
}

static uint64_t fast_now(struct ration_tsc *tsc)
{
    return ration_tsc_now(tsc);
}

/* The bug: lines do not join. */
static uint64_t unjoined_now(struct ration_tsc *tsc)
{
    uint64_t seq = __atomic_load_n(&tsc->seq, __ATOMIC_RELAXED);

    return ration_tsc_now(tsc) - (seq & 1) * 50000;
}

static void two_threads_across_many_new_lines_never_see_time_go_back(void **state)
{
    struct ration_tsc tsc = {0};

    (void)state;
    ration_tsc_start(&tsc, &ration_tsc_machine, 20000);
    if (ration_tsc_error(&tsc)) {
        print_message("skipped: %s\n", ration_tsc_error(&tsc));
        skip();
    }
    assert_int_equal(two_threads_bad_reads(fast_now, &tsc), 0);
    assert_null(ration_tsc_error(&tsc));
    assert_true(tsc.seq > 100);
    assert_true(two_threads_bad_reads(unjoined_now, &tsc) > 0);
}

static void child_of_a_fork_during_a_new_line_makes_its_own(void **state)
{
    struct ration_tsc *tsc = &ration_tsc_shared;
    uint64_t before_ns = ration_clock_default_now();
    uint64_t seq = tsc->seq;
    struct ration_tsc_anchor *line = &tsc->slots[seq & 1];
    int status = -1;

    (void)state;
    if (ration_clock_tsc_error())
        skip();
    line->due_ticks = ration_tsc_counter() - line->ticks; /* due now: no other thread reads */
    __atomic_store_n(&tsc->busy, 1, __ATOMIC_RELAXED);
    pid_t child = fork();
    if (child == 0) {
        uint64_t now_ns = ration_clock_default_now();
        _exit(tsc->seq == seq + 1 && now_ns >= before_ns && !tsc->busy ? 0 : 1);
    }
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    ration_clock_default_now();
    assert_int_equal(tsc->seq, seq); /* the parent's writer is still at it */
    __atomic_store_n(&tsc->busy, 0, __ATOMIC_RELAXED);
    assert_true(ration_clock_default_now() >= before_ns);
    assert_int_equal(tsc->seq, seq + 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_real_clock_advances_and_never_goes_back),
        cmocka_unit_test(kinds_are_what_they_say_and_have_names),
        cmocka_unit_test(manual_clock_changes_only_when_set_and_stops_at_the_maximum),
        cmocka_unit_test(default_clock_keeps_within_1_ms_of_monotonic),
        cmocka_unit_test(two_threads_across_many_new_lines_never_see_time_go_back),
        cmocka_unit_test(child_of_a_fork_during_a_new_line_makes_its_own),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
