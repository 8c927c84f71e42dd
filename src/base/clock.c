/*
 * clock: the clocks that a caller can choose.
 *
 * tsc.c checks and adjusts the clock of the CPU's counter; this file has the state that its readers
 * share, its access to this machine, and the shared instance, which is the default clock.
 */
#include "ration/clock.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <time.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "base/tsc.h"

/* Cannot fail: these clocks exist on every Linux that has the vDSO. */
static uint64_t read_ns(clockid_t id)
{
    struct timespec time = {0};

    clock_gettime(id, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static uint64_t monotonic_now(void *context)
{
    (void)context;
    return read_ns(CLOCK_MONOTONIC);
}

static uint64_t boottime_now(void *context)
{
    (void)context;
    return read_ns(CLOCK_BOOTTIME);
}

static uint64_t coarse_now(void *context)
{
    (void)context;
    return read_ns(CLOCK_MONOTONIC_COARSE);
}

struct ration_clock ration_clock_monotonic(void)
{
    return (struct ration_clock){RATION_CLOCK_MONOTONIC, monotonic_now, NULL};
}

struct ration_clock ration_clock_boottime(void)
{
    return (struct ration_clock){RATION_CLOCK_BOOTTIME, boottime_now, NULL};
}

struct ration_clock ration_clock_coarse(void)
{
    return (struct ration_clock){RATION_CLOCK_COARSE, coarse_now, NULL};
}

const char *ration_clock_kind_name(enum ration_clock_kind kind)
{
    switch (kind) {
    case RATION_CLOCK_MONOTONIC:
        return "monotonic";
    case RATION_CLOCK_BOOTTIME:
        return "boottime";
    case RATION_CLOCK_COARSE:
        return "coarse";
    case RATION_CLOCK_TSC:
        return "tsc";
    case RATION_CLOCK_MANUAL:
        return "manual";
    case RATION_CLOCK_CUSTOM:
        return "custom";
    }
    return "unknown";
}

/* The manual clock: one number. Relaxed: it orders no other memory. */

static uint64_t manual_now(void *context)
{
    const struct ration_manual_clock *manual = context;

    return __atomic_load_n(&manual->ns, __ATOMIC_RELAXED);
}

struct ration_clock ration_clock_manual(struct ration_manual_clock *manual)
{
    return (struct ration_clock){RATION_CLOCK_MANUAL, manual_now, manual};
}

void ration_clock_manual_set(struct ration_manual_clock *manual, uint64_t ns)
{
    __atomic_store_n(&manual->ns, ns, __ATOMIC_RELAXED);
}

void ration_clock_manual_advance(struct ration_manual_clock *manual, uint64_t ns)
{
    uint64_t old_ns = __atomic_load_n(&manual->ns, __ATOMIC_RELAXED);
    uint64_t new_ns;

    do {
        new_ns = ns > UINT64_MAX - old_ns ? UINT64_MAX : old_ns + ns;
    } while (!__atomic_compare_exchange_n(&manual->ns, &old_ns, new_ns, true, __ATOMIC_RELAXED,
                                          __ATOMIC_RELAXED));
}

/* The clock of the CPU's counter: lines computed by tsc.c, shared by any number of threads. */

#define ANCHOR_WORDS (sizeof(struct ration_tsc_anchor) / sizeof(uint64_t))
#define TRIES_MAX    4u /* tries, where a new line is due again before it is read */

static_assert(sizeof(struct ration_tsc_anchor) % sizeof(uint64_t) == 0, "copied word by word");

/*
 * Loads the anchor in use, consistently, and its seq. A retry proves that a writer made progress.
 */
static uint64_t anchor_load(const struct ration_tsc *tsc, struct ration_tsc_anchor *out_anchor)
{
    uint64_t *to = (uint64_t *)out_anchor;
    uint64_t seq;

    do {
        seq =
            __atomic_load_n(&tsc->seq, __ATOMIC_ACQUIRE); /* acquire: pairs with publish_anchor() */
        const uint64_t *from = (const uint64_t *)&tsc->slots[seq & 1];
        for (size_t i = 0; i < ANCHOR_WORDS; i++)
            to[i] = __atomic_load_n(&from[i], __ATOMIC_ACQUIRE);
    } while (seq != __atomic_load_n(&tsc->seq, __ATOMIC_RELAXED));
    return seq;
}

/*
 * Fills the slot not in use and makes it current. A reader that loaded the seq before last may
 * still be reading this slot: its words are stored with release, so a reader that acquires one of
 * them also sees that seq has changed.
 */
static void publish_anchor(struct ration_tsc *tsc, const struct ration_tsc_anchor *anchor)
{
    uint64_t seq = __atomic_load_n(&tsc->seq, __ATOMIC_RELAXED) + 1;
    const uint64_t *from = (const uint64_t *)anchor;
    uint64_t *to = (uint64_t *)&tsc->slots[seq & 1];

    for (size_t i = 0; i < ANCHOR_WORDS; i++)
        __atomic_store_n(&to[i], from[i], __ATOMIC_RELEASE);
    __atomic_store_n(&tsc->seq, seq, __ATOMIC_RELEASE); /* release: pairs with the loads of seq */
}

static void publish_error(struct ration_tsc *tsc, const struct ration_tsc_error *error)
{
    tsc->error_text = *error;
    /* release: pairs with the acquire in ration_tsc_error() */
    __atomic_store_n(&tsc->error, tsc->error_text.text, __ATOMIC_RELEASE);
}

void ration_tsc_start(struct ration_tsc *tsc, const struct ration_tsc_sources *sources,
                      uint64_t period_ns)
{
    struct ration_tsc_anchor anchor = {0};
    struct ration_tsc_error error;

    assert(period_ns >= 1000 && period_ns <= RATION_TSC_PERIOD_NS_MAX);
    tsc->sources = sources;
    if (!ration_tsc_calibrate(sources, period_ns, &anchor, &error))
        publish_error(tsc, &error);
    publish_anchor(tsc, &anchor);
}

const char *ration_tsc_error(const struct ration_tsc *tsc)
{
    return __atomic_load_n(&tsc->error, __ATOMIC_ACQUIRE);
}

/*
 * If the line in use at seq is due, compares it with CLOCK_MONOTONIC and replaces it, unless
 * another thread already did. Returns false if another thread is replacing it, or if the line
 * stays. Any thread.
 */
static bool renew_anchor(struct ration_tsc *tsc, uint64_t seq)
{
    struct ration_tsc_reading reading = ration_tsc_read(tsc->sources);
    struct ration_tsc_anchor anchor;
    struct ration_tsc_error error;
    enum ration_tsc_outcome outcome;

    if (anchor_load(tsc, &anchor) != seq || anchor.due_ticks == 0)
        return true;
    outcome = ration_tsc_steer(&anchor, &reading, &anchor, &error);
    if (outcome == RATION_TSC_KEEP)
        return false;
    /*
     * Taken only after the measurement, so that a thread interrupted while it measures does not
     * hold other threads at the end of the line. acquire: pairs with the release of the previous
     * writer.
     */
    if (__atomic_exchange_n(&tsc->busy, 1, __ATOMIC_ACQUIRE))
        return false;
    if (__atomic_load_n(&tsc->seq, __ATOMIC_RELAXED) == seq) {
        if (outcome == RATION_TSC_ERROR)
            publish_error(tsc, &error);
        publish_anchor(tsc, &anchor);
    }
    __atomic_store_n(&tsc->busy, 0, __ATOMIC_RELEASE);
    return true;
}

uint64_t ration_tsc_now_slowly(struct ration_tsc *tsc)
{
    struct ration_tsc_anchor anchor;
    uint64_t seq = anchor_load(tsc, &anchor);
    uint64_t ticks = 0;

    if (seq == 0) {
        tsc->begin();
        seq = anchor_load(tsc, &anchor);
    }
    for (unsigned i = 0; i < TRIES_MAX && anchor.due_ticks != 0; i++) {
        ticks = tsc->sources->counter(tsc->sources->context);
        if (ticks - anchor.ticks < anchor.due_ticks || !renew_anchor(tsc, seq))
            break;
        seq = anchor_load(tsc, &anchor);
    }
    if (anchor.due_ticks == 0) {
        uint64_t mono_ns = tsc->sources->monotonic(tsc->sources->context);
        return mono_ns > anchor.ns ? mono_ns : anchor.ns;
    }
    return ration_tsc_line(&anchor, ticks);
}

/* Access to this machine. */

#if defined(__x86_64__)
#define COUNTER_CLOCKSOURCE "tsc"
#elif defined(__aarch64__)
#define COUNTER_CLOCKSOURCE "arch_sys_counter"
#else
#define COUNTER_CLOCKSOURCE NULL
#endif

static uint64_t machine_counter(void *context)
{
    (void)context;
    return ration_tsc_counter();
}

static bool machine_invariant(void *context)
{
    (void)context;
#if defined(__x86_64__)
    unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;

    return __get_cpuid(0x80000007, &eax, &ebx, &ecx, &edx) && (edx & 1u << 8);
#else
    return true; /* guaranteed by the architecture, where there is a counter */
#endif
}

/* A kernel that finds the counter unstable removes it from this list. */
static bool machine_clocksources(void *context, char *out_text, size_t size)
{
    static const char path[] = "/sys/devices/system/clocksource/clocksource0/available_clocksource";
    ssize_t length = -1;
    int file = open(path, O_RDONLY | O_CLOEXEC);

    (void)context;
    if (file >= 0) {
        length = read(file, out_text, size - 1);
        close(file);
    }
    if (length <= 0)
        return false;
    out_text[length] = '\0';
    return true;
}

const struct ration_tsc_sources ration_tsc_machine = {
    .counter = machine_counter,
    .monotonic = monotonic_now,
    .invariant = machine_invariant,
    .clocksources = machine_clocksources,
    .clocksource = COUNTER_CLOCKSOURCE,
};

/* The shared clock of the counter, which is the default clock. */

static void start_shared_once(void);

struct ration_tsc ration_tsc_shared = {.begin = start_shared_once};

/*
 * In a child of fork(): a thread that was computing a new line does not exist there to finish it.
 */
static void busy_clear(void)
{
    __atomic_store_n(&ration_tsc_shared.busy, 0, __ATOMIC_RELAXED);
}

static void start_shared(void)
{
    int saved_errno = errno; /* reading a clock must not change errno */

    /*
     * If this fails for lack of memory, a child of a badly timed fork() stops adjusting its clock,
     * nothing worse.
     */
    pthread_atfork(NULL, NULL, busy_clear);
    ration_tsc_start(&ration_tsc_shared, &ration_tsc_machine, RATION_TSC_PERIOD_NS);
    errno = saved_errno;
}

/* Starts ration_tsc_shared if it is not started: takes about 2 ms. Any number of threads. */
static void start_shared_once(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, start_shared);
}

static uint64_t tsc_now(void *context)
{
    (void)context; /* a constant address saves one load */
    return ration_tsc_now(&ration_tsc_shared);
}

struct ration_clock ration_clock_tsc(void)
{
    if (ration_clock_tsc_error())
        return ration_clock_monotonic();
    return (struct ration_clock){RATION_CLOCK_TSC, tsc_now, NULL};
}

const char *ration_clock_tsc_error(void)
{
    start_shared_once();
    return ration_tsc_error(&ration_tsc_shared);
}

uint64_t ration_clock_default_now(void)
{
    return ration_tsc_now(&ration_tsc_shared);
}
