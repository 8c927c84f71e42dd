/*
 * tsc: the CPU's time stamp counter as a clock that follows CLOCK_MONOTONIC.
 *
 * Time is a straight line through an anchor, in integers:
 *
 *     ns = anchor.ns + ((ticks - anchor.ticks) * anchor.mult >> 32)
 *
 * At 2.5 GHz a tick is 0.4 ns, so mult = 0.4 * 2^32 = 1717986918. A line is valid for due_ticks
 * (half a second). After that it stays at its end, and the next reading thread compares it with
 * CLOCK_MONOTONIC and computes a new line, whose slope is chosen to meet CLOCK_MONOTONIC where the
 * new line ends.
 *
 *     A line never returns a time after its end, and the next line starts no earlier than that end.
 *
 * Hence no thread sees time run backwards, however long it sleeps between reading the anchor and
 * the counter, or between measuring a new line and publishing it.
 *
 * An anchor of zero bytes, and that of a counter no longer trusted, has due_ticks = 0: it sends
 * every read to ration_tsc_now_slowly(), so that "not started", "not trusted" and "due" together
 * cost the fast path one comparison.
 */
#ifndef RATION_BASE_TSC_H
#define RATION_BASE_TSC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

__extension__ typedef unsigned __int128 ration_tsc_wide;

#define RATION_TSC_PERIOD_NS     500000000u  /* how long a line is valid */
#define RATION_TSC_PERIOD_NS_MAX 1000000000u /* so that products in steering fit in 64 bits */

/* Only 64-bit words: slots are copied word by word with atomic loads and stores. */
struct ration_tsc_anchor {
    uint64_t ticks;     /* the line's start, by the counter ... */
    uint64_t ns;        /* ... and its time there */
    uint64_t mult;      /* the line's slope: nanoseconds per tick, times 2^32 */
    uint64_t due_ticks; /* the line's length; 0: no line, ns is the earliest time to return */

    uint64_t nominal;    /* the counter's own slope, by the longest measurement so far */
    uint64_t period_ns;  /* length of the next line */
    uint64_t mark_ns;    /* CLOCK_MONOTONIC at ticks */
    uint64_t base_ticks; /* start of that longest measurement */
    uint64_t base_ns;
    uint64_t lost_count; /* consecutive checks that found lost time */
};

/* The counter and CLOCK_MONOTONIC at the same time, plus or minus half of width_ticks. */
struct ration_tsc_reading {
    uint64_t ticks;
    uint64_t mono_ns;
    uint64_t width_ticks; /* UINT64_MAX: the counter ran backwards at each try */
};

/* A sentence for a person. Empty: no error. */
struct ration_tsc_error {
    char text[160];
};

enum ration_tsc_outcome {
    RATION_TSC_KEEP,  /* the old line stays */
    RATION_TSC_NEXT,  /* a new line */
    RATION_TSC_ERROR, /* the counter must not be used any more */
};

/* What the clock needs from the machine; tests provide their own. */
struct ration_tsc_sources {
    uint64_t (*counter)(void *context);
    uint64_t (*monotonic)(void *context);
    /*
     * Returns whether the counter ticks at one rate, whatever the CPU's frequency and sleep state.
     */
    bool (*invariant)(void *context);
    /*
     * Writes the kernel's list of usable clock sources, zero-terminated; returns false if unknown.
     */
    bool (*clocksources)(void *context, char *out_text, size_t size);
    const char *clocksource; /* the counter's name in that list; NULL if the CPU has no counter */
    void *context;
};

/* This machine. */
extern const struct ration_tsc_sources ration_tsc_machine;

/*
 * The clock, whose functions are in clock.c. slots[seq & 1] is the anchor in use; seq 0 is a clock
 * not started. Readers never wait. busy admits one writer at a time; a thread that finds it set
 * continues with the old line.
 */
struct ration_tsc {
    uint64_t seq;
    uint32_t busy;
    const char *error;   /* NULL, or error_text.text once that is complete */
    void (*begin)(void); /* called by the first read to start the clock; otherwise NULL */
    const struct ration_tsc_sources *sources;
    struct ration_tsc_error error_text;
    _Alignas(64) struct ration_tsc_anchor slots[2];
};

/* The process's own clock: starts at its first read, and works after fork(). */
extern struct ration_tsc ration_tsc_shared;

/*
 * Measures and tests the counter, then starts a zeroed clock on it; or marks the clock unusable,
 * after which it returns CLOCK_MONOTONIC. sources is borrowed for the clock's life; period_ns (1000
 * to RATION_TSC_PERIOD_NS_MAX) is the length of its lines. One thread, before any read.
 */
void ration_tsc_start(struct ration_tsc *tsc, const struct ration_tsc_sources *sources,
                      uint64_t period_ns);

/* Returns why the counter is not in use, or NULL. The text lives as long as the clock. */
const char *ration_tsc_error(const struct ration_tsc *tsc);

/*
 * Returns the time by the counter of tsc->sources, after computing a new line if one is due. Any
 * thread.
 */
uint64_t ration_tsc_now_slowly(struct ration_tsc *tsc);

/* Pure functions: no clock, no memory but the arguments. */

/* Returns the line's time at ticks: its start's time before it, its end's time after it. */
uint64_t ration_tsc_line(const struct ration_tsc_anchor *anchor, uint64_t ticks);

/*
 * Compares old with a reading. NEXT writes the following line to *out_next; ERROR writes an anchor
 * that only bounds time from below, and the reason to *out_error; KEEP, the outcome while old is
 * not due, writes nothing. out_next may be old.
 */
enum ration_tsc_outcome ration_tsc_steer(const struct ration_tsc_anchor *old,
                                         const struct ration_tsc_reading *reading,
                                         struct ration_tsc_anchor *out_next,
                                         struct ration_tsc_error *out_error);

/* Functions of the sources, without other state. */

/* Returns the tightest of a few readings. */
struct ration_tsc_reading ration_tsc_read(const struct ration_tsc_sources *sources);

/*
 * Tests the counter and measures its rate. On success writes the first line to *out_anchor and
 * returns true; on failure only the reason to *out_error.
 */
bool ration_tsc_calibrate(const struct ration_tsc_sources *sources, uint64_t period_ns,
                          struct ration_tsc_anchor *out_anchor, struct ration_tsc_error *out_error);

/*
 * Reads the counter. No fence: it would make the caller's cache misses wait for one another, and a
 * result that is early or late by the depth of the CPU's window is good enough. The memory clobber
 * keeps the compiler from reading it before the anchor.
 */
static inline uint64_t ration_tsc_counter(void)
{
#if defined(__x86_64__)
    uint32_t low, high;
    __asm__ volatile("rdtsc" : "=a"(low), "=d"(high) : : "memory");
    return (uint64_t)high << 32 | low;
#elif defined(__aarch64__)
    uint64_t ticks;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks) : : "memory");
    return ticks;
#else
    return 0;
#endif
}

/*
 * Returns the time by this machine's counter: for clocks started on ration_tsc_machine, and the
 * shared one. Any thread.
 */
static inline uint64_t ration_tsc_now(struct ration_tsc *tsc)
{
    /* acquire: pairs with the release in publish_anchor() */
    uint64_t seq = __atomic_load_n(&tsc->seq, __ATOMIC_ACQUIRE);
    const struct ration_tsc_anchor *slot = &tsc->slots[seq & 1];
    /* acquire: a word of a later line is seen only together with a later seq, checked below */
    uint64_t start_ticks = __atomic_load_n(&slot->ticks, __ATOMIC_ACQUIRE);
    uint64_t ns = __atomic_load_n(&slot->ns, __ATOMIC_ACQUIRE);
    uint64_t mult = __atomic_load_n(&slot->mult, __ATOMIC_ACQUIRE);
    uint64_t due_ticks = __atomic_load_n(&slot->due_ticks, __ATOMIC_ACQUIRE);
    uint64_t ticks = ration_tsc_counter() - start_ticks;

    if (__builtin_expect(ticks < due_ticks, 1) &&
        __builtin_expect(seq == __atomic_load_n(&tsc->seq, __ATOMIC_RELAXED), 1))
        return ns + (uint64_t)((ration_tsc_wide)ticks * mult >> 32);
    return ration_tsc_now_slowly(tsc);
}

#endif
