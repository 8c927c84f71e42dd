/*
 * The CPU's counter as a clock: rows for the steering, the self-test, and whole runs on
 * made-up machines. Nothing here sleeps or reads this machine's clocks.
 */
#include "base/tsc.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/random.h"
#include "support/unit.h"

#define MS UINT64_C(1000000)
#define S  UINT64_C(1000000000)

/* One tick is one nanosecond, so that rows can be read. */
#define ONE (UINT64_C(1) << 32)

static const struct ration_tsc_anchor even = {
    .ticks = S,
    .ns = 5 * S,
    .mult = ONE,
    .due_ticks = S / 2,
    .nominal = ONE,
    .period_ns = S / 2,
    .mark_ns = 5 * S,
    .base_ticks = S,
    .base_ns = 5 * S,
};

static uint64_t random_seed(const char *test)
{
    uint64_t seed = 1;
    const char *given = getenv("RATION_TEST_SEED");

    if (given)
        seed = strtoull(given, NULL, 0);
    else if (getrandom(&seed, sizeof(seed), 0) != (ssize_t)sizeof(seed))
        seed = 1;
    print_message("%s: RATION_TEST_SEED=%" PRIu64 "\n", test, seed);
    return seed;
}

/* Steering ------------------------------------------------------------------------------- */

static void line_reports_its_start_before_it_and_its_end_after_it(void **state)
{
    struct ration_tsc_anchor high = even;

    (void)state;
    assert_int_equal(ration_tsc_line(&even, S - 1), 5 * S);
    assert_int_equal(ration_tsc_line(&even, S), 5 * S);
    assert_int_equal(ration_tsc_line(&even, S + 7), 5 * S + 7);
    assert_int_equal(ration_tsc_line(&even, S + S / 2), 5 * S + S / 2);
    assert_int_equal(ration_tsc_line(&even, 3 * S), 5 * S + S / 2);
    high.ticks = UINT64_MAX - 4; /* the counter wraps within the line */
    assert_int_equal(ration_tsc_line(&high, 5), 5 * S + 10);
    high.ns = UINT64_MAX - 4;
    assert_true(ration_tsc_line(&high, 5) == UINT64_MAX);
}

struct steer_row {
    const char *name;
    uint64_t ticks_after, mono_after; /* the reading, both counted from the anchor */
    struct ration_tsc_anchor old;
    enum ration_tsc_outcome outcome;
    uint64_t ns_after;     /* NEXT and ERROR: where the next line starts ... */
    int64_t slope_ppm;     /* ... NEXT: and how much steeper than the counter it is */
    const char *error_has; /* ERROR */
};

static struct ration_tsc_anchor even_but(uint64_t ns, uint64_t base_ns, uint64_t lost_count)
{
    struct ration_tsc_anchor anchor = even;

    anchor.ns = ns;
    anchor.base_ns = base_ns;
    anchor.lost_count = lost_count;
    return anchor;
}

static void steer_row_check(const struct steer_row *row)
{
    struct ration_tsc_reading reading = {S + row->ticks_after, 5 * S + row->mono_after, 0};
    struct ration_tsc_anchor next = {0};
    struct ration_tsc_error error = {""};
    enum ration_tsc_outcome outcome = ration_tsc_steer(&row->old, &reading, &next, &error);
    int64_t over = (int64_t)(next.mult - next.nominal);

    if (outcome != row->outcome || (outcome != RATION_TSC_KEEP && next.ns != 5 * S + row->ns_after))
        fail_msg("%s: outcome %d, starts %" PRIu64 " after, %s", row->name, (int)outcome,
                 next.ns - 5 * S, error.text);
    if (outcome == RATION_TSC_NEXT &&
        llabs(over * 1000000 / (int64_t)next.nominal - row->slope_ppm) > 1)
        fail_msg("%s: slope over by %" PRId64, row->name, over);
    if (outcome == RATION_TSC_ERROR && !strstr(error.text, row->error_has))
        fail_msg("%s: says \"%s\"", row->name, error.text);
    assert_true(outcome != RATION_TSC_ERROR || next.due_ticks == 0);
}

static void steering_follows_the_table_of_trust(void **state)
{
    const uint64_t h = S / 2, us = 1000;
    const struct steer_row rows[] = {
        {"on time", h, h, even, RATION_TSC_NEXT, h, 0, ""},
        {"a read later continues", h + 90, h + 90, even, RATION_TSC_NEXT, h + 90, 0, ""},
        {"not due", h - 1, h - 1, even, RATION_TSC_KEEP, 0, 0, ""},
        {"skew between cores", -MS, h, even, RATION_TSC_KEEP, 0, 0, ""},
        {"100 us behind steers", h, h + 100 * us, even, RATION_TSC_NEXT, h, 200, ""},
        {"1 ms behind steers at most", h, h + MS, even, RATION_TSC_NEXT, h, 1000, ""},
        {"more steps", h, h + MS + 1, even, RATION_TSC_NEXT, h + MS + 1, 0, ""},
        {"a pause steps", h, 9 * S, even, RATION_TSC_NEXT, 9 * S, 0, ""},
        {"ahead holds the end", h, h - 100 * us, even, RATION_TSC_NEXT, h, -200, ""},
        {"ahead, untold", h + MS, h + MS / 2, even, RATION_TSC_NEXT, h + MS / 2, 0, ""},
        {"ahead, half untold", h + MS, h - MS, even, RATION_TSC_NEXT, h, -1000, ""},
        {"idle an hour, 20 ppm fast", 3600 * S + 72 * MS, 3600 * S, even, RATION_TSC_NEXT, 3600 * S,
         0, ""},
        {"100 ms ahead", h, h, even_but(5 * S + 100 * MS, 5 * S, 0), RATION_TSC_NEXT, h + 100 * MS,
         -1000, ""},
        {"more than that", h, h, even_but(5 * S + 100 * MS + 1, 5 * S, 0), RATION_TSC_ERROR,
         h + 100 * MS + 1, 0, "100000001 ns ahead"},
        {"gained 1 % + 1 ms", h + 6 * MS, h, even_but(5 * S, 6 * S, 0), RATION_TSC_NEXT, h, 0, ""},
        {"gained more", h + 6 * MS + 1, h, even, RATION_TSC_ERROR, h, 0, "counted 506000001 ns in"},
        {"slept", 9 * S, h, even, RATION_TSC_ERROR, h, 0, "counted 9000000000 ns in 500000000"},
        {"time ran back", h, -S, even, RATION_TSC_ERROR, h, 0, "counted 500000000 ns in 0"},
        {"lost 7 in a row", h, S, even_but(5 * S, 5 * S, 6), RATION_TSC_NEXT, S, 0, ""},
        {"lost 8 in a row", h, S, even_but(5 * S, 5 * S, 7), RATION_TSC_ERROR, h, 0, "8 checks"},
        {"long-run rate", h, h, even_but(5 * S, 5 * S - 6 * MS, 0), RATION_TSC_ERROR, h, 0,
         "to 988142292 Hz"},
        {"went back", -MS - 1, h, even, RATION_TSC_ERROR, h, 0, "went back by 1000001 ns"},
        {"went back to zero", -S, h, even, RATION_TSC_ERROR, h, 0, "went back by 1000000000 ns"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        steer_row_check(&rows[i]);
}

static void a_pause_starts_the_long_measurement_again_and_is_forgotten(void **state)
{
    struct ration_tsc_reading reading = {S + S / 2, 3600 * S, 0};
    struct ration_tsc_anchor next;
    struct ration_tsc_error error;

    (void)state;
    assert_int_equal(ration_tsc_steer(&even, &reading, &next, &error), RATION_TSC_NEXT);
    assert_int_equal(next.lost_count, 1);
    assert_int_equal(next.nominal, ONE);
    assert_int_equal(next.base_ns, 3600 * S);
    reading = (struct ration_tsc_reading){2 * S, 3600 * S + S / 2, 0};
    assert_int_equal(ration_tsc_steer(&next, &reading, &next, &error), RATION_TSC_NEXT);
    assert_int_equal(next.lost_count, 0);
    assert_int_equal(next.nominal, ONE);
}

static void line_converges_to_a_drifting_monotonic(void **state)
{
    static const int64_t drifts_ppm[] = {-400, -30, 0, 30, 400};

    (void)state;
    for (size_t i = 0; i < sizeof(drifts_ppm) / sizeof(drifts_ppm[0]); i++) {
        struct ration_tsc_anchor line = even;
        int64_t off = 0;

        for (uint64_t step = 1; step <= 40; step++) {
            uint64_t ticks = step * (S / 2 + 5 * MS);
            int64_t mono = (int64_t)(5 * S + ticks) + (int64_t)ticks / 1000000 * drifts_ppm[i];
            struct ration_tsc_reading reading = {S + ticks, (uint64_t)mono, 0};
            struct ration_tsc_error error;

            assert_int_equal(ration_tsc_steer(&line, &reading, &line, &error), RATION_TSC_NEXT);
            off = (int64_t)line.ns - mono;
            assert_true(llabs(off) <= (int64_t)MS);
        }
        assert_true(llabs(off) <= 10000); /* the read is up to 5 ms past the line's end */
    }
}

typedef enum ration_tsc_outcome steer_fn(const struct ration_tsc_anchor *,
                                         const struct ration_tsc_reading *,
                                         struct ration_tsc_anchor *, struct ration_tsc_error *);

static uint64_t reported(const struct ration_tsc_anchor *line, uint64_t ticks, uint64_t mono_ns)
{
    if (line->due_ticks)
        return ration_tsc_line(line, ticks);
    return mono_ns > line->ns ? mono_ns : line->ns;
}

/*
 * Drives one line through random time - jitter, drift, pauses, sleeps, a writer on a core whose
 * counter is behind - for one reader that is up to date and one that lags a line behind. Counts
 * how often the first gets less than either got before.
 */
static unsigned backward_steps(steer_fn *steer, uint64_t seed, unsigned steps)
{
    uint64_t ticks = ration_random_next(&seed) >> (ration_random_next(&seed) % 40);
    uint64_t mono_ns = (ration_random_next(&seed) >> 1) >> (ration_random_next(&seed) % 30);
    uint64_t nominal =
        (ONE >> 6) + (ration_random_next(&seed) >> (23 + ration_random_next(&seed) % 14));
    struct ration_tsc_anchor line = {ticks,   mono_ns, nominal, (S / 2 << 32) / nominal,
                                     nominal, S / 2,   mono_ns, ticks,
                                     mono_ns, 0};
    struct ration_tsc_anchor stale = line;
    uint64_t most_ns = 0;
    unsigned back = 0;

    for (unsigned i = 0; i < steps; i++) {
        uint64_t dice = ration_random_next(&seed);
        uint64_t run =
            ration_random_next(&seed) % (dice % 4 == 1 ? 1000 : stale.due_ticks / 4 + 1000);
        uint64_t left = line.ticks + line.due_ticks - ticks;
        if (dice % 4 == 0 && left <= line.due_ticks)
            run = left + (dice >> 4) % 200; /* to the end of the line, where a step back shows */
        uint64_t run_ns = (uint64_t)((ration_tsc_wide)run * nominal >> 32);

        ticks += run;
        mono_ns += run_ns - run_ns / 1000 + (dice >> 8) % (run_ns / 500 + 2);
        mono_ns += (dice >> 32) % 64 == 0 ? (dice >> 40) % (20 * MS) : 0; /* a pause */
        ticks += (dice >> 20) % 4096 == 0 ? S : 0;                        /* a sleep */
        uint64_t now_ns = reported(&line, ticks, mono_ns);
        uint64_t stale_ns = reported(&stale, ticks, mono_ns);
        back += now_ns < most_ns || now_ns < stale_ns;
        most_ns = now_ns > most_ns ? now_ns : most_ns;
        if (line.due_ticks && ticks - line.ticks >= line.due_ticks) {
            struct ration_tsc_reading reading = {ticks - (dice >> 50) % 300, mono_ns, 0};
            struct ration_tsc_error error;
            stale = line;
            steer(&stale, &reading, &line, &error);
        }
    }
    return back;
}

static enum ration_tsc_outcome steer_by_setting_the_time(const struct ration_tsc_anchor *old,
                                                         const struct ration_tsc_reading *reading,
                                                         struct ration_tsc_anchor *out_next,
                                                         struct ration_tsc_error *out_error)
{
    enum ration_tsc_outcome outcome = ration_tsc_steer(old, reading, out_next, out_error);

    if (outcome == RATION_TSC_NEXT)
        out_next->ns = reading->mono_ns;
    return outcome;
}

static void no_steering_steps_back_and_the_check_would_see_it(void **state)
{
    uint64_t seed = random_seed(__func__);
    unsigned caught = 0;

    (void)state;
    for (unsigned run = 0; run < 2000; run++) {
        uint64_t run_seed = ration_random_next(&seed);
        if (backward_steps(ration_tsc_steer, run_seed, 300) != 0)
            fail_msg("run %u steps back (%" PRIu64 ")", run, run_seed);
        caught += backward_steps(steer_by_setting_the_time, run_seed, 300) != 0;
    }
    assert_in_range(caught, 1000, 2000);
}

/* The self-test, and the clock as a whole, on a made-up machine -------------------------- */

/* Each look at a clock takes 20 ns. */
struct machine {
    uint64_t time_ns;
    uint64_t khz;
    uint64_t wobble_ppm;  /* by how much every other millisecond is faster */
    int64_t offset_ticks; /* the counter was set forward, or back */
    uint64_t pause_ns;    /* time that the counter did not see */
    bool varies, backwards, mono_stopped;
    const char *clocksources;
};

static uint64_t machine_counter(void *context)
{
    struct machine *machine = context;
    uint64_t ns = machine->time_ns += 20;
    uint64_t fast_ns = ns / (2 * MS) * MS + (ns % (2 * MS) > MS ? ns % (2 * MS) - MS : 0);
    ration_tsc_wide ticks = (ration_tsc_wide)ns * machine->khz / MS +
                            (ration_tsc_wide)fast_ns * machine->wobble_ppm / MS * machine->khz / MS;

    return (uint64_t)(machine->backwards ? -ticks : ticks) + (uint64_t)machine->offset_ticks;
}

static uint64_t machine_monotonic(void *context)
{
    struct machine *machine = context;

    machine->time_ns += 20;
    return machine->mono_stopped ? S : S + machine->time_ns + machine->pause_ns;
}

static bool machine_invariant(void *context)
{
    return !((struct machine *)context)->varies;
}

static bool machine_clocksources(void *context, char *out_text, size_t size)
{
    const char *text = ((struct machine *)context)->clocksources;

    return text && snprintf(out_text, size, "%s", text) >= 0;
}

static struct ration_tsc_sources sources_of(struct machine *machine)
{
    return (struct ration_tsc_sources){
        machine_counter, machine_monotonic, machine_invariant, machine_clocksources, "tsc",
        machine};
}

static void assert_close(uint64_t a, uint64_t b, uint64_t most)
{
    if ((a > b ? a - b : b - a) > most)
        fail_msg("%" PRIu64 " and %" PRIu64 " are more than %" PRIu64 " apart", a, b, most);
}

static void each_error_of_the_machine_is_found_and_named(void **state)
{
    const struct {
        struct machine machine;
        const char *error_has; /* NULL: none */
    } rows[] = {
        {{.khz = 2300000, .clocksources = "tsc kvm-clock \n"}, NULL},
        {{.khz = 24000, .clocksources = "hpet tsc"}, NULL},
        {{.khz = 99000000}, NULL}, /* and the kernel's list cannot be read */
        {{.khz = 2300000, .offset_ticks = INT64_MAX}, NULL},
        {{.khz = 2300000, .offset_ticks = -2300000}, NULL}, /* wraps while it is measured */
        {{.khz = 2300000, .wobble_ppm = 400}, NULL},
        {{.khz = 2300000, .varies = true}, "no invariant TSC"},
        {{.khz = 2300000, .clocksources = "hyperv_clocksource_tsc_page hpet\n"}, "no tsc in"},
        {{.khz = 2300000, .clocksources = "tsc-early hpet\n"}, "no tsc in"},
        {{.khz = 2300000, .clocksources = ""}, "no tsc in"},
        {{.khz = 0}, "did not advance in 1000"},
        {{.khz = 2300000, .backwards = true}, "did not advance in "},
        {{.khz = 2300000, .mono_stopped = true}, "CLOCK_MONOTONIC does not advance"},
        {{.khz = 2300000, .wobble_ppm = 5000}, "ppm from one ms to the next"},
        {{.khz = 500}, "outside 1 MHz"},
        {{.khz = 101000000}, "runs at 101000"},
        {{.khz = UINT64_MAX / 1000}, "outside 1 MHz"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct machine machine = rows[i].machine;
        struct ration_tsc_sources sources = sources_of(&machine);
        struct ration_tsc tsc = {0};

        ration_tsc_start(&tsc, &sources, RATION_TSC_PERIOD_NS);
        const char *error = ration_tsc_error(&tsc);
        if (rows[i].error_has ? !error || !strstr(error, rows[i].error_has) : error != NULL)
            fail_msg("row %zu: %s", i, error ? error : "no error");
        assert_close(ration_tsc_now_slowly(&tsc), machine_monotonic(&machine), 1000);
    }
}

static void a_cpu_without_a_counter_is_named(void **state)
{
    struct machine machine = {.khz = 2300000};
    struct ration_tsc_sources sources = sources_of(&machine);
    struct ration_tsc_anchor anchor;
    struct ration_tsc_error error;

    (void)state;
    sources.clocksource = NULL;
    assert_false(ration_tsc_calibrate(&sources, RATION_TSC_PERIOD_NS, &anchor, &error));
    assert_non_null(strstr(error.text, "no counter that ration can read"));
}

/* A started clock on a machine, read every 10 ms for 3 s. */
struct run {
    struct machine machine;
    struct ration_tsc_sources sources;
    struct ration_tsc tsc;
    uint64_t last_ns;
};

static void run_read(struct run *run)
{
    uint64_t now_ns = ration_tsc_now_slowly(&run->tsc);

    assert_true(now_ns >= run->last_ns);
    run->last_ns = now_ns;
}

static void run_on(struct run *run)
{
    for (unsigned i = 0; i < 300; i++) {
        run->machine.time_ns += 10 * MS;
        run_read(run);
    }
}

static void run_start(struct run *run)
{
    *run = (struct run){.machine = {.khz = 2300000}};
    run->sources = sources_of(&run->machine);
    ration_tsc_start(&run->tsc, &run->sources, RATION_TSC_PERIOD_NS);
    run_on(run);
    assert_true(run->tsc.seq >= 6);
    assert_close(run->last_ns, machine_monotonic(&run->machine), 10000);
}

static void a_paused_machine_steps_forward_and_stays_trusted(void **state)
{
    struct run run;

    (void)state;
    run_start(&run);
    run.machine.pause_ns = 3600 * S;
    run_on(&run);
    assert_null(ration_tsc_error(&run.tsc));
    assert_close(run.last_ns, machine_monotonic(&run.machine), 10000);
}

static void a_bad_counter_is_not_used_again_and_time_continues(void **state)
{
    const struct {
        int64_t jump_ticks;
        uint64_t khz;
        const char *error_has;
    } rows[] = {
        {INT64_C(2300000000) * 3600, 2300000, "counted"}, /* ran on while the machine slept */
        {INT64_C(-2300000000), 2300000, "went back by"},
        {0, 2400000, "counted"},
        {0, 2200000, "8 checks in a row"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct run run;

        run_start(&run);
        uint64_t ticks = machine_counter(&run.machine);
        run.machine.khz = rows[i].khz;
        ticks -= machine_counter(&run.machine);
        run.machine.offset_ticks = (int64_t)ticks + rows[i].jump_ticks;
        run_on(&run);
        run_on(&run);
        assert_non_null(ration_tsc_error(&run.tsc));
        if (!strstr(ration_tsc_error(&run.tsc), rows[i].error_has))
            fail_msg("row %zu: %s", i, ration_tsc_error(&run.tsc));
        assert_close(run.last_ns, machine_monotonic(&run.machine), 1000);
        run.machine.khz = 2300000; /* healthy again: too late */
        run_on(&run);
        assert_close(run.last_ns, machine_monotonic(&run.machine), 1000);
    }
}

static void a_reader_that_finds_a_writer_stays_at_the_end_of_the_line(void **state)
{
    struct run run;
    uint64_t seq;

    (void)state;
    run_start(&run);
    seq = run.tsc.seq;
    run.tsc.busy = 1;
    run_on(&run);
    assert_int_equal(run.tsc.seq, seq);
    assert_int_equal(run.last_ns, ration_tsc_line(&run.tsc.slots[seq & 1], UINT64_MAX / 4));
    run.tsc.busy = 0;
    run_read(&run);
    assert_int_equal(run.tsc.seq, seq + 1);
    assert_close(run.last_ns, machine_monotonic(&run.machine), 10000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(line_reports_its_start_before_it_and_its_end_after_it),
        cmocka_unit_test(steering_follows_the_table_of_trust),
        cmocka_unit_test(a_pause_starts_the_long_measurement_again_and_is_forgotten),
        cmocka_unit_test(line_converges_to_a_drifting_monotonic),
        cmocka_unit_test(no_steering_steps_back_and_the_check_would_see_it),
        cmocka_unit_test(each_error_of_the_machine_is_found_and_named),
        cmocka_unit_test(a_cpu_without_a_counter_is_named),
        cmocka_unit_test(a_paused_machine_steps_forward_and_stays_trusted),
        cmocka_unit_test(a_bad_counter_is_not_used_again_and_time_continues),
        cmocka_unit_test(a_reader_that_finds_a_writer_stays_at_the_end_of_the_line),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
