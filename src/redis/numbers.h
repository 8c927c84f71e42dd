/*
 * numbers: the numbers of a text, each with a blank behind it, and the moments that two of them make.
 */
#ifndef RATION_REDIS_NUMBERS_H
#define RATION_REDIS_NUMBERS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/time.h"

/* The next number; *at is then behind its blank. False: there is none, or it is beyond 64 bits. */
static inline bool ration_redis_number_read(const char **at, const char *end, uint64_t *out_number)
{
    const char *first = *at;

    *out_number = 0;
    for (; *at < end && **at >= '0' && **at <= '9'; ++*at)
        if (__builtin_mul_overflow(*out_number, 10, out_number) ||
            __builtin_add_overflow(*out_number, (uint64_t)(**at - '0'), out_number))
            return false;
    return *at > first && *at < end && *(*at)++ == ' ';
}

/* Whether seconds and a rest of one, in parts of which a second has `parts`, are a moment that a bucket can hold. */
static inline bool ration_redis_numbers_fit(uint64_t seconds, uint64_t rest, uint64_t parts)
{
    return seconds <= (RATION_NOW_MAX_NS + RATION_SPAN_NS) / RATION_NS_PER_SECOND && rest < parts;
}

#endif
