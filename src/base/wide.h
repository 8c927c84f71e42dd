/*
 * wide: unsigned 128-bit numbers as two words.
 *
 * For products and quotients that do not fit in 64 bits: a count times a window, a span of time
 * divided by a token. Sums and products are plain C that Frama-C proves. Division is the compiler's
 * own (Frama-C does not know its 128-bit type), and the proofs assume its contract; the tests
 * compare it with long division by hand.
 */
#ifndef RATION_BASE_WIDE_H
#define RATION_BASE_WIDE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/time.h"

/* 2^64 / RATION_FRAC_COUNT: the nanoseconds that fit in one word together with a fraction. */
#define RATION_REST_COUNT (UINT64_C(1) << (64 - RATION_FRAC_BITS))

struct ration_wide {
    uint64_t high;
    uint64_t low;
};

/*@
  logic integer two64 = 0x10000000000000000;
  logic integer value(struct ration_wide w) = w.high * two64 + w.low;
*/

/*@ assigns \nothing;
    ensures value(\result) == a * b;
*/
static inline struct ration_wide ration_wide_multiply(uint64_t a, uint64_t b)
{
    uint64_t a_low = a % RATION_HALF;
    uint64_t a_high = a / RATION_HALF;
    uint64_t b_low = b % RATION_HALF;
    uint64_t b_high = b / RATION_HALF;
    uint64_t low = a_low * b_low;
    uint64_t middle = a_high * b_low + low / RATION_HALF;
    uint64_t other = a_low * b_high + middle % RATION_HALF;

    /*@ assert a_high * b_high <= (RATION_HALF - 1) * (RATION_HALF - 1); */
    /*@ assert a * b ==
          (a_high * b_high * RATION_HALF + a_high * b_low + a_low * b_high) * RATION_HALF + low; */
    return (struct ration_wide){a_high * b_high + middle / RATION_HALF + other / RATION_HALF,
                                (other % RATION_HALF) * RATION_HALF + low % RATION_HALF};
}

/*@ requires value(a) + value(b) < two64 * two64;
    assigns \nothing;
    ensures value(\result) == value(a) + value(b);
*/
static inline struct ration_wide ration_wide_add(struct ration_wide a, struct ration_wide b)
{
    uint64_t carry = a.low > UINT64_MAX - b.low ? 1 : 0;
    uint64_t low = carry ? a.low - (UINT64_MAX - b.low) - 1 : a.low + b.low;

    return (struct ration_wide){a.high + b.high + carry, low};
}

/*@ assigns \nothing;
    ensures \result <==> value(a) < value(b);
*/
static inline bool ration_wide_less(struct ration_wide a, struct ration_wide b)
{
    return a.high < b.high || (a.high == b.high && a.low < b.low);
}

/* The integer that a time represents. */
/*@ requires proper(t);
    assigns \nothing;
    ensures value(\result) == units(t);
*/
static inline struct ration_wide ration_wide_from_time(struct ration_time t)
{
    return (struct ration_wide){t.ns / RATION_REST_COUNT,
                                (t.ns % RATION_REST_COUNT) * RATION_FRAC_COUNT + t.frac};
}

/* The time that an integer below 2^84 represents. */
/*@ requires w.high < RATION_FRAC_COUNT;
    assigns \nothing;
    ensures proper(\result);
    ensures units(\result) == value(w);
*/
static inline struct ration_time ration_wide_to_time(struct ration_wide w)
{
    return (struct ration_time){w.high * RATION_REST_COUNT + w.low / RATION_FRAC_COUNT,
                                w.low % RATION_FRAC_COUNT};
}

/* a / b rounded down, or UINT64_MAX if that does not fit. b is not zero. */
/*@ requires value(b) > 0;
    assigns \nothing;
    ensures \result == \min(value(a) / value(b), UINT64_MAX);
*/
uint64_t ration_wide_divide(struct ration_wide a, struct ration_wide b);

/* a / b rounded up, or UINT64_MAX if that does not fit. b is not zero. */
uint64_t ration_wide_divide_up(struct ration_wide a, struct ration_wide b);

/*
 * a * b / c rounded down, exact although the product may need 256 bits. a < c < 2^127, b < 2^127.
 * One step per bit of b: for changes of a limit, not for decisions.
 */
struct ration_wide ration_wide_multiply_divide(struct ration_wide a, struct ration_wide b,
                                               struct ration_wide c);

#endif
