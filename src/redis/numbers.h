/*
 * numbers: reads the numbers of a text, each followed by a space, and checks the times that pairs of them
 * form.
 */
#ifndef RATION_REDIS_NUMBERS_H
#define RATION_REDIS_NUMBERS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/time.h"

/* Reads the next number, and moves *cursor past its space. False: there is no number, or it exceeds 64 bits. */
static inline bool ration_redis_number_read(const char **cursor, const char *end,
                                            uint64_t *out_number)
{
    const char *first = *cursor;

    *out_number = 0;
    for (; *cursor < end && **cursor >= '0' && **cursor <= '9'; ++*cursor)
        if (__builtin_mul_overflow(*out_number, 10, out_number) ||
            __builtin_add_overflow(*out_number, (uint64_t)(**cursor - '0'), out_number))
            return false;
    return *cursor > first && *cursor < end && *(*cursor)++ == ' ';
}

/* Whether seconds and a fraction, in units of 1/units_per_second s, form a time that a bucket can store. */
static inline bool ration_redis_numbers_fit(uint64_t seconds, uint64_t fraction,
                                            uint64_t units_per_second)
{
    return seconds <= (RATION_NOW_MAX_NS + RATION_SPAN_NS) / RATION_NS_PER_SECOND &&
           fraction < units_per_second;
}

#endif
