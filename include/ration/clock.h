/*
 * clock: where now comes from.
 *
 * A clock is a value: a function and what it reads. Decisions take now as a number, so any
 * source of nanoseconds will do; these are the ones worth having. All callers of one bucket
 * must use the same kind.
 *
 *     kind        reads                          a read costs    counts suspend
 *     MONOTONIC   CLOCK_MONOTONIC (vDSO)         ~25 ns          no
 *     BOOTTIME    CLOCK_BOOTTIME (vDSO)          ~25 ns          yes
 *     COARSE      CLOCK_MONOTONIC_COARSE (vDSO)  ~6 ns, 1-4 ms steps
 *     TSC         the CPU's counter, kept to     ~12 ns          no
 *                 CLOCK_MONOTONIC
 *     MANUAL      a number that you set          for tests
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
    RATION_CLOCK_CUSTOM /* one that you made yourself */
};

struct ration_clock {
    enum ration_clock_kind kind;
    uint64_t (*now_ns)(void *context);
    void *context; /* borrowed for as long as the clock is used */
};

static inline uint64_t ration_clock_now(const struct ration_clock *clock)
{
    return clock->now_ns(clock->context);
}

RATION_API struct ration_clock ration_clock_monotonic(void);
RATION_API struct ration_clock ration_clock_boottime(void);
RATION_API struct ration_clock ration_clock_coarse(void);

/*
 * The CPU's counter. The first call measures and tests it for about 2 ms; where it cannot be
 * trusted the clock returned is CLOCK_MONOTONIC, its kind says so, and ration_clock_tsc_fault()
 * tells why. While in use it is compared with CLOCK_MONOTONIC about twice a second and steered
 * towards it, never backwards for one thread (between threads by microseconds, as the counter is
 * read without a fence); if it ever misbehaves, reads go over to CLOCK_MONOTONIC.
 */
RATION_API struct ration_clock ration_clock_tsc(void);

/* Why the CPU's counter is not in use, or NULL if it is. Static storage. */
RATION_API const char *ration_clock_tsc_fault(void);

/* "monotonic", "boottime", "coarse", "tsc", "manual", "custom", or "unknown". Static storage. */
RATION_API const char *ration_clock_kind_name(enum ration_clock_kind kind);

/* A clock that stands still until told. Zero bytes read 0. Any number of threads. */
struct ration_manual_clock {
    uint64_t ns;
};

/* The clock that reads manual, which is borrowed for as long as the clock is used. */
RATION_API struct ration_clock ration_clock_manual(struct ration_manual_clock *manual);
RATION_API void ration_manual_clock_set(struct ration_manual_clock *manual, uint64_t ns);
/* Stops at UINT64_MAX instead of wrapping. */
RATION_API void ration_manual_clock_advance(struct ration_manual_clock *manual, uint64_t ns);

/* Now by the default clock: TSC, or CLOCK_MONOTONIC where TSC is not to be trusted. */
RATION_API uint64_t ration_now(void);

RATION_C_END

#endif
