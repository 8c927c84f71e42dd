/*
 * tsc: steering (pure) and calibration (over sources): all decisions about the counter. State that
 * threads share is in clock.c.
 *
 * How far the counter is trusted, and what follows:
 *
 *     since the last check, or overall         then
 *     behind CLOCK_MONOTONIC by up to 1 ms     a steeper line, at most 1000 ppm
 *     behind by more (a paused machine)        step forward at once
 *     lost time in 8 consecutive checks        distrust: it does not tick at one rate
 *     ahead                                    drop the part that no read returned, then a flatter line
 *     ahead by more than 100 ms                distrust
 *     gained more than 1 % + 1 ms              distrust (it kept running while the machine slept)
 *     long-run rate off by more than 1 %       distrust
 *     went back by more than 1 ms              distrust (less is skew between cores: time stops)
 *
 * One check cannot distinguish a slow counter from a pause, hence the count of eight. Distrust is
 * permanent: the clock returns CLOCK_MONOTONIC from then on, and first stays at the end of its last
 * line if that is later.
 */
#include "base/tsc.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define STEP_NS        1000000u   /* a larger lag is stepped over, not steered */
#define SLACK_NS       1000000u   /* tolerance of a check, whatever its length */
#define AHEAD_NS_MAX   100000000u /* a larger lead is an error */
#define BACK_NS_MAX    1000000u   /* a larger step back is an error */
#define LONG_RUN_NS    100000000u /* a measurement this long is better than the calibration's */
#define LOST_COUNT_MAX 8u
#define STEER_SHARE    1000u /* the slopes of line and counter differ by at most one part in this */
#define ERROR_SHARE    100u  /* a rate that differs by more than one part in this is an error */

#define TRIES_COUNT       8u       /* per reading; the tightest one is used */
#define WINDOW_NS         1000000u /* calibration compares windows of this length, ... */
#define WINDOW_COUNT_MAX  8u       /* ... at most this many, until two neighbours agree */
#define WINDOW_SPINS_MAX  1000000u
#define AGREEMENT_PPM_MAX 500u
#define FREQUENCY_HZ_MIN  UINT64_C(1000000)
#define FREQUENCY_HZ_MAX  UINT64_C(100000000000)
#define NS_PER_S          UINT64_C(1000000000)

static void set_error(struct ration_tsc_error *error, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void set_error(struct ration_tsc_error *error, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(error->text, sizeof(error->text), format, arguments);
    va_end(arguments);
}

/* Steering ------------------------------------------------------------------------------- */

static uint64_t add_saturated(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static uint64_t ticks_to_ns(uint64_t ticks, uint64_t mult)
{
    ration_tsc_wide ns = (ration_tsc_wide)ticks * mult >> 32;

    return ns > UINT64_MAX ? UINT64_MAX : (uint64_t)ns;
}

/* The slope that covers ns in ticks; 0 if it is too steep for any usable counter. */
static uint64_t slope_of(uint64_t ns, uint64_t ticks)
{
    ration_tsc_wide mult = ticks ? ((ration_tsc_wide)ns << 32) / ticks : 0;

    return mult > (NS_PER_S << 32) / FREQUENCY_HZ_MIN * 2 ? 0 : (uint64_t)mult;
}

/* Converts a slope to ticks per second, for messages. */
static uint64_t slope_to_hertz(uint64_t mult)
{
    return mult ? (NS_PER_S << 32) / mult : 0;
}

static bool is_off(uint64_t a, uint64_t b, uint64_t allowed)
{
    return a > b ? a - b > allowed : b - a > allowed;
}

/* The counter wraps, so before and after are half of its range each. */
static bool is_before(uint64_t ticks, uint64_t other)
{
    return (int64_t)(ticks - other) < 0;
}

uint64_t ration_tsc_line(const struct ration_tsc_anchor *anchor, uint64_t ticks)
{
    uint64_t run_ticks = is_before(ticks, anchor->ticks) ? 0 : ticks - anchor->ticks;

    if (run_ticks > anchor->due_ticks)
        run_ticks = anchor->due_ticks;
    return add_saturated(anchor->ns, ticks_to_ns(run_ticks, anchor->mult));
}

/*
 * Where the next line starts. A small lag is left to steering, so that a steady counter has no
 * jumps; a lead is reduced to the latest time that a read may have returned, which is the end of
 * the old line.
 */
static uint64_t start_ns(const struct ration_tsc_anchor *old,
                         const struct ration_tsc_reading *reading)
{
    uint64_t mono_ns = reading->mono_ns;
    uint64_t line_ns = add_saturated(old->ns, ticks_to_ns(reading->ticks - old->ticks, old->mult));
    uint64_t end_ns = ration_tsc_line(old, reading->ticks);

    if (line_ns <= mono_ns)
        return mono_ns - line_ns > STEP_NS ? mono_ns : line_ns;
    return end_ns > mono_ns ? end_ns : mono_ns;
}

/* Sets a line's length, and the slope with which its end meets CLOCK_MONOTONIC. */
static void set_slope(struct ration_tsc_anchor *line)
{
    int64_t period_ns = (int64_t)line->period_ns;
    int64_t most_ns = period_ns / STEER_SHARE;
    int64_t lag_ns = (int64_t)(line->mark_ns - line->ns);

    if (lag_ns > most_ns)
        lag_ns = most_ns;
    if (lag_ns < -most_ns)
        lag_ns = -most_ns;
    /* nominal < 2^43 and |lag_ns| <= 2^20: the product fits */
    line->mult = line->nominal + (uint64_t)((int64_t)line->nominal * lag_ns / period_ns);
    line->due_ticks = (line->period_ns << 32) / line->nominal;
}

/*
 * Checks the counter since old against reading and writes the measured rate to *next. Returns
 * false, with the reason, if the counter cannot be trusted.
 */
static bool rate_learn(const struct ration_tsc_anchor *old,
                       const struct ration_tsc_reading *reading, struct ration_tsc_anchor *next,
                       struct ration_tsc_error *out_error)
{
    uint64_t mono_ns = reading->mono_ns;
    uint64_t passed_ns = mono_ns > old->mark_ns ? mono_ns - old->mark_ns : 0;
    uint64_t counted_ns = ticks_to_ns(reading->ticks - old->ticks, old->nominal);
    uint64_t run_ns = mono_ns > old->base_ns ? mono_ns - old->base_ns : 0;

    if (counted_ns > passed_ns && counted_ns - passed_ns > passed_ns / ERROR_SHARE + SLACK_NS) {
        set_error(out_error, "the counter counted %" PRIu64 " ns in %" PRIu64 " ns of time",
                  counted_ns, passed_ns);
        return false;
    }
    if (passed_ns > counted_ns && passed_ns - counted_ns > passed_ns / STEER_SHARE + SLACK_NS) {
        next->lost_count = old->lost_count + 1;
        next->base_ticks = reading->ticks; /* a pause says nothing about the rate */
        next->base_ns = mono_ns;
        if (next->lost_count < LOST_COUNT_MAX)
            return true;
        set_error(out_error, "the counter lost time %u checks in a row, last %" PRIu64 " ns",
                  LOST_COUNT_MAX, passed_ns - counted_ns);
        return false;
    }
    next->lost_count = 0;
    if (run_ns < LONG_RUN_NS)
        return true;
    next->nominal = slope_of(run_ns, reading->ticks - old->base_ticks);
    if (next->nominal > 0 && !is_off(next->nominal, old->nominal, old->nominal / ERROR_SHARE))
        return true;
    set_error(out_error, "the counter's rate went from %" PRIu64 " to %" PRIu64 " Hz",
              slope_to_hertz(old->nominal), slope_to_hertz(next->nominal));
    return false;
}

/* Moves *next from old to reading. Returns false, with the reason, on an error. */
static bool line_next(const struct ration_tsc_anchor *old, const struct ration_tsc_reading *reading,
                      struct ration_tsc_anchor *next, struct ration_tsc_error *out_error)
{
    if (is_before(reading->ticks, old->ticks)) {
        set_error(out_error, "the counter went back by %" PRIu64 " ns",
                  ticks_to_ns(old->ticks - reading->ticks, old->nominal));
        return false;
    }
    if (!rate_learn(old, reading, next, out_error))
        return false;
    next->ticks = reading->ticks;
    next->mark_ns = reading->mono_ns;
    next->ns = start_ns(old, reading);
    if (next->ns > reading->mono_ns && next->ns - reading->mono_ns > AHEAD_NS_MAX) {
        set_error(out_error, "the counter's time is %" PRIu64 " ns ahead",
                  next->ns - reading->mono_ns);
        return false;
    }
    set_slope(next);
    return true;
}

enum ration_tsc_outcome ration_tsc_steer(const struct ration_tsc_anchor *old,
                                         const struct ration_tsc_reading *reading,
                                         struct ration_tsc_anchor *out_next,
                                         struct ration_tsc_error *out_error)
{
    struct ration_tsc_anchor next = *old;
    bool early = is_before(reading->ticks, old->ticks)
                     ? ticks_to_ns(old->ticks - reading->ticks, old->nominal) <= BACK_NS_MAX
                     : reading->ticks - old->ticks < old->due_ticks;

    if (early)
        return RATION_TSC_KEEP;
    if (line_next(old, reading, &next, out_error)) {
        *out_next = next;
        return RATION_TSC_NEXT;
    }
    /* The line's end, not its time at the reading: another thread may have returned it by now. */
    *out_next = (struct ration_tsc_anchor){
        .ns = ration_tsc_line(old, old->ticks + old->due_ticks),
    };
    return RATION_TSC_ERROR;
}

/* Calibration ---------------------------------------------------------------------------- */

/* An interrupted try is a wide one: the tightest of several was not interrupted. */
struct ration_tsc_reading ration_tsc_read(const struct ration_tsc_sources *sources)
{
    struct ration_tsc_reading best = {.width_ticks = UINT64_MAX};

    for (unsigned i = 0; i < TRIES_COUNT; i++) {
        uint64_t before = sources->counter(sources->context);
        uint64_t mono_ns = sources->monotonic(sources->context);
        uint64_t width_ticks = sources->counter(sources->context) - before;

        if (width_ticks < best.width_ticks)
            best = (struct ration_tsc_reading){before + width_ticks / 2, mono_ns, width_ticks};
    }
    return best;
}

/*
 * Waits for a reading at least one window after from; false if CLOCK_MONOTONIC does not get there.
 */
static bool window_wait(const struct ration_tsc_sources *sources,
                        const struct ration_tsc_reading *from, struct ration_tsc_reading *out_to)
{
    for (unsigned i = 0; i < WINDOW_SPINS_MAX; i++) {
        if (sources->monotonic(sources->context) - from->mono_ns >= WINDOW_NS) {
            *out_to = ration_tsc_read(sources);
            return out_to->mono_ns > from->mono_ns;
        }
    }
    return false;
}

static bool frequency_check(const struct ration_tsc_reading *from,
                            const struct ration_tsc_reading *to, struct ration_tsc_error *out_error)
{
    uint64_t ns = to->mono_ns - from->mono_ns;
    ration_tsc_wide hz = (ration_tsc_wide)(to->ticks - from->ticks) * NS_PER_S / ns;

    if (to->width_ticks == UINT64_MAX || !is_before(from->ticks, to->ticks)) {
        set_error(out_error, "the counter did not advance in %" PRIu64 " ns", ns);
        return false;
    }
    if (hz >= FREQUENCY_HZ_MIN && hz <= FREQUENCY_HZ_MAX)
        return true;
    set_error(out_error, "the counter runs at %" PRIu64 " Hz, outside 1 MHz to 100 GHz",
              hz > UINT64_MAX ? UINT64_MAX : (uint64_t)hz);
    return false;
}

/* Measures until two windows agree; out[0] and out[1] are then the ends of the pair. */
static bool windows_measure(const struct ration_tsc_sources *sources,
                            struct ration_tsc_reading out[2], struct ration_tsc_error *out_error)
{
    struct ration_tsc_reading ends[WINDOW_COUNT_MAX + 1] = {ration_tsc_read(sources)};
    uint64_t off_ppm = 0;
    uint64_t last = 0;

    for (unsigned i = 0; i < WINDOW_COUNT_MAX; i++) {
        if (!window_wait(sources, &ends[i], &ends[i + 1])) {
            set_error(out_error, "CLOCK_MONOTONIC does not advance by %u ns", WINDOW_NS);
            return false;
        }
        if (!frequency_check(&ends[i], &ends[i + 1], out_error))
            return false;
        uint64_t mult =
            slope_of(ends[i + 1].mono_ns - ends[i].mono_ns, ends[i + 1].ticks - ends[i].ticks);
        if (last)
            off_ppm = (mult > last ? mult - last : last - mult) * 1000000 / last;
        if (last && off_ppm <= AGREEMENT_PPM_MAX) {
            out[0] = ends[i - 1];
            out[1] = ends[i + 1];
            return true;
        }
        last = mult;
    }
    set_error(out_error, "the counter's rate differs by %" PRIu64 " ppm from one ms to the next",
              off_ppm);
    return false;
}

/* Returns whether name is one of the words of text. */
static bool has_word(const char *text, const char *name)
{
    size_t length = strlen(name);

    while (*(text += strspn(text, " \t\n"))) {
        size_t word_length = strcspn(text, " \t\n");
        if (word_length == length && memcmp(text, name, length) == 0)
            return true;
        text += word_length;
    }
    return false;
}

static bool machine_check(const struct ration_tsc_sources *sources,
                          struct ration_tsc_error *out_error)
{
    char text[256];

    if (!sources->clocksource) {
        set_error(out_error, "this CPU has no counter that ration can read");
        return false;
    }
    if (!sources->invariant(sources->context)) {
        set_error(out_error, "this CPU's counter changes its rate (no invariant TSC)");
        return false;
    }
    if (sources->clocksources(sources->context, text, sizeof(text)) &&
        !has_word(text, sources->clocksource)) {
        set_error(out_error, "the kernel does not trust the counter (no %s in its clock sources)",
                  sources->clocksource);
        return false;
    }
    return true;
}

bool ration_tsc_calibrate(const struct ration_tsc_sources *sources, uint64_t period_ns,
                          struct ration_tsc_anchor *out_anchor, struct ration_tsc_error *out_error)
{
    struct ration_tsc_reading ends[2];

    if (!machine_check(sources, out_error) || !windows_measure(sources, ends, out_error))
        return false;
    *out_anchor = (struct ration_tsc_anchor){
        .ticks = ends[1].ticks,
        .ns = ends[1].mono_ns,
        .nominal = slope_of(ends[1].mono_ns - ends[0].mono_ns, ends[1].ticks - ends[0].ticks),
        .period_ns = period_ns,
        .mark_ns = ends[1].mono_ns,
        .base_ticks = ends[0].ticks,
        .base_ns = ends[0].mono_ns,
    };
    set_slope(out_anchor);
    return true;
}
