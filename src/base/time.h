/*
 * time: arithmetic on struct ration_time, exact to 2^-20 ns.
 *
 * A time is two words, whole nanoseconds and a fraction below 2^20, and represents one integer:
 *
 *     units(t) = t.ns * 2^20 + t.frac
 *
 * 3 per second makes a token of (333333333, 349526): a third of a second rounded up to 2^-20 ns.
 *
 * Bounds, so that no sum below overflows: the caller's now is at most RATION_NOW_MAX_NS, and no
 * bucket lies more than RATION_SPAN_NS ahead of the now that wrote it.
 *
 * The annotations are contracts. Frama-C proves them for exactly these lines (tests/proof/run.sh).
 */
#ifndef RATION_BASE_TIME_H
#define RATION_BASE_TIME_H

#include <stdbool.h>
#include <stdint.h>

#include "ration/limit.h"

#define RATION_FRAC_BITS  20
#define RATION_FRAC_COUNT (UINT64_C(1) << RATION_FRAC_BITS)

/* 2^32: words are halved by / and %, which provers understand and compilers turn into shifts. */
#define RATION_HALF (UINT64_C(1) << 32)

/* 2^63 - 1 ns: 292 years of any clock, including wall clocks. A later now counts as this one. */
#define RATION_NOW_MAX_NS (UINT64_MAX >> 1)

/* 2^59 ns, 18 years: the upper bound of any product of tokens and their time. */
#define RATION_SPAN_NS (UINT64_C(1) << 59)

/*@
  logic integer in_units(integer ns) = ns * RATION_FRAC_COUNT;
  logic integer units(struct ration_time t) = in_units(t.ns) + t.frac;
  logic integer span = in_units(RATION_SPAN_NS);
  predicate proper(struct ration_time t) = t.frac < RATION_FRAC_COUNT;
*/

/*@ assigns \nothing;
    ensures \result == \min(now_ns, RATION_NOW_MAX_NS);
*/
static inline uint64_t ration_time_clamp(uint64_t now_ns)
{
    return now_ns < RATION_NOW_MAX_NS ? now_ns : RATION_NOW_MAX_NS;
}

/*@ assigns \nothing;
    ensures proper(\result);
    ensures units(\result) == in_units(ns);
*/
static inline struct ration_time ration_time_from_ns(uint64_t ns)
{
    return (struct ration_time){ns, 0};
}

/*@ requires proper(a) && proper(b);
    requires a.ns + b.ns < UINT64_MAX;
    assigns \nothing;
    ensures proper(\result);
    ensures units(\result) == units(a) + units(b);
*/
static inline struct ration_time ration_time_add(struct ration_time a, struct ration_time b)
{
    uint64_t frac = a.frac + b.frac;
    uint64_t carry = frac >= RATION_FRAC_COUNT ? 1 : 0;

    return (struct ration_time){a.ns + b.ns + carry, frac - carry * RATION_FRAC_COUNT};
}

/*@ requires proper(a) && proper(b);
    assigns \nothing;
    ensures \result <==> units(a) < units(b);
*/
static inline bool ration_time_less(struct ration_time a, struct ration_time b)
{
    return a.ns < b.ns || (a.ns == b.ns && a.frac < b.frac);
}

/*@ requires proper(a) && proper(b);
    assigns \nothing;
    ensures \result <==> units(a) == units(b);
*/
static inline bool ration_time_same(struct ration_time a, struct ration_time b)
{
    return a.ns == b.ns && a.frac == b.frac;
}

/*@ requires proper(a) && proper(b);
    requires units(b) <= units(a);
    assigns \nothing;
    ensures proper(\result);
    ensures units(\result) == units(a) - units(b);
*/
static inline struct ration_time ration_time_sub(struct ration_time a, struct ration_time b)
{
    uint64_t borrow = a.frac < b.frac ? 1 : 0;

    return (struct ration_time){a.ns - b.ns - borrow, a.frac + borrow * RATION_FRAC_COUNT - b.frac};
}

/* a - b, or zero if b is larger. */
/*@ requires proper(a) && proper(b);
    assigns \nothing;
    ensures proper(\result);
    ensures units(\result) == \max(units(a) - units(b), 0);
*/
static inline struct ration_time ration_time_sub_or_zero(struct ration_time a, struct ration_time b)
{
    return ration_time_less(a, b) ? (struct ration_time){0, 0} : ration_time_sub(a, b);
}

/*@ requires proper(a) && proper(b);
    assigns \nothing;
    ensures \result == a || \result == b;
    ensures units(\result) == \max(units(a), units(b));
*/
static inline struct ration_time ration_time_max(struct ration_time a, struct ration_time b)
{
    return ration_time_less(a, b) ? b : a;
}

/* Whole nanoseconds, rounded up. */
/*@ requires proper(t);
    requires t.ns < UINT64_MAX;
    assigns \nothing;
    ensures in_units(\result - 1) < units(t) <= in_units(\result);
*/
static inline uint64_t ration_time_ceil_ns(struct ration_time t)
{
    return t.ns + (t.frac > 0 ? 1 : 0);
}

/*
 * count times t, which must not exceed RATION_SPAN_NS. The fraction's product may need 79 bits, so
 * count is multiplied in two halves of 32 bits.
 */
/*@ requires proper(t);
    requires count * units(t) <= span;
    assigns \nothing;
    ensures proper(\result);
    ensures units(\result) == count * units(t);
*/
static inline struct ration_time ration_time_scale(struct ration_time t, uint64_t count)
{
    uint64_t high = (count / RATION_HALF) * t.frac;
    uint64_t low = (count % RATION_HALF) * t.frac + (high % RATION_FRAC_COUNT) * RATION_HALF;

    /*@ assert count * t.frac == in_units((high / RATION_FRAC_COUNT) * RATION_HALF) + low; */
    /*@ assert in_units(count * t.ns) + count * t.frac <= span; */
    return (struct ration_time){count * t.ns + (high / RATION_FRAC_COUNT) * RATION_HALF +
                                    low / RATION_FRAC_COUNT,
                                low % RATION_FRAC_COUNT};
}

#endif
