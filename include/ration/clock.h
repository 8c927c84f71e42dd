/*
 * clock: the source of the current time.
 *
 * A clock is a value: a function and its context. Decisions take the time as a number, so any
 * source of nanoseconds can be used; the library provides these. All callers of one bucket must use
 * the same kind.
 *
 *     kind        reads                          cost of a read  advances during suspend
 *     MONOTONIC   CLOCK_MONOTONIC (vDSO)         ~25 ns          no
 *     BOOTTIME    CLOCK_BOOTTIME (vDSO)          ~25 ns          yes
 *     COARSE      CLOCK_MONOTONIC_COARSE (vDSO)  ~6 ns           no; advances in steps of 1-4 ms
 *     TSC         the CPU's time stamp counter,  ~12 ns          no
 *                 adjusted to CLOCK_MONOTONIC
 *     MANUAL      a number set by the caller     for tests
 *
 *     struct ration_clock clock = ration_clock_tsc();
 *     uint64_t now_ns = ration_clock_now(&clock);              // once per request, for all its decisions
 *     allowed = ration_bucket_allow_at(&bucket, &limit, 1, now_ns);
 */
#ifndef RATION_CLOCK_H
#define RATION_CLOCK_H

#include <stdint.h>

#include "ration/export.h"

RATION_C_BEGIN

enum ration_clock_kind {
    RATION_CLOCK_MONOTONIC = 1,
    RATION_CLOCK_BOOTTIME,
    RATION_CLOCK_COARSE,
    RATION_CLOCK_TSC,
    RATION_CLOCK_MANUAL,
    RATION_CLOCK_CUSTOM /* provided by the caller */
};

struct ration_clock {
    enum ration_clock_kind kind;
    uint64_t (*now_ns)(void *context);
    void *context; /* borrowed for as long as the clock is used */
};

/* Returns the current time of a clock, in nanoseconds since the clock's own zero. */
static inline uint64_t ration_clock_now(const struct ration_clock *clock)
{
    return clock->now_ns(clock->context);
}

/* Return the clocks of the kernel, as listed above. They cannot fail. */
RATION_API struct ration_clock ration_clock_monotonic(void);
RATION_API struct ration_clock ration_clock_boottime(void);
RATION_API struct ration_clock ration_clock_coarse(void);

/*
 * Returns the clock of the CPU's time stamp counter. The first call calibrates and tests the
 * counter for about 2 ms. If the counter is not reliable, the returned clock reads CLOCK_MONOTONIC
 * and has that kind, and ration_clock_tsc_error() gives the reason.
 *
 * While in use, the counter is compared with CLOCK_MONOTONIC about twice a second and adjusted
 * towards it. Time never runs backwards within one thread; between threads it may by microseconds,
 * because the counter is read without a fence. If the counter misbehaves later, reads switch to
 * CLOCK_MONOTONIC.
 */
RATION_API struct ration_clock ration_clock_tsc(void);

/* Returns why the time stamp counter is not in use, or NULL if it is. Static storage. */
RATION_API const char *ration_clock_tsc_error(void);

/*
 * Returns "monotonic", "boottime", "coarse", "tsc", "manual", "custom" or "unknown". Static
 * storage.
 */
RATION_API const char *ration_clock_kind_name(enum ration_clock_kind kind);

/*
 * A clock that advances only when it is set. All-zero bytes read 0. Any number of threads may use
 * it.
 */
struct ration_manual_clock {
    uint64_t ns;
};

/* Returns a clock that reads manual, which is borrowed for as long as the clock is used. */
RATION_API struct ration_clock ration_clock_manual(struct ration_manual_clock *manual);

/* Sets the clock to ns nanoseconds, also backwards. */
RATION_API void ration_clock_manual_set(struct ration_manual_clock *manual, uint64_t ns);

/* Adds ns nanoseconds. Stops at UINT64_MAX instead of wrapping. */
RATION_API void ration_clock_manual_advance(struct ration_manual_clock *manual, uint64_t ns);

/*
 * Returns the current time of the default clock in nanoseconds: the time stamp counter, or
 * CLOCK_MONOTONIC where the counter is not reliable.
 */
RATION_API uint64_t ration_clock_default_now(void);

RATION_C_END

#endif
