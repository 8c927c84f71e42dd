/* random: pseudorandom numbers, reproducible from a seed (SplitMix64). Not for secrets. */
#ifndef RATION_BASE_RANDOM_H
#define RATION_BASE_RANDOM_H

#include <stdint.h>

#include "base/wide.h"

/*
 * Returns the next 64-bit number. The sequence contains all of them; *state is the seed at first.
 */
static inline uint64_t ration_random_next(uint64_t *state)
{
    uint64_t mixed = *state += UINT64_C(0x9E3779B97F4A7C15);

    mixed = (mixed ^ (mixed >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    mixed = (mixed ^ (mixed >> 27)) * UINT64_C(0x94D049BB133111EB);
    return mixed ^ (mixed >> 31);
}

/*
 * Returns a number from 0 to max, both included: a random fraction of the range (bias below 2^-64
 * of it).
 */
static inline uint64_t ration_random_up_to(uint64_t *state, uint64_t max)
{
    uint64_t fraction = ration_random_next(state);
    struct ration_wide product = ration_wide_multiply(fraction, max);

    return ration_wide_add(product, (struct ration_wide){0, fraction}).high;
}

#endif
