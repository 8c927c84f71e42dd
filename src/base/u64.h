/* u64: minimum, maximum and saturating subtraction. */
#ifndef RATION_BASE_U64_H
#define RATION_BASE_U64_H

#include <stdint.h>

static inline uint64_t ration_u64_min(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static inline uint64_t ration_u64_max(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* a - b, or 0 if b is larger. */
static inline uint64_t ration_u64_less(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

#endif
