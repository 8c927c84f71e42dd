/*
 * times: writes times and durations in the form that the scripts read.
 */
#ifndef RATION_REDIS_TIMES_H
#define RATION_REDIS_TIMES_H

#include "base/time.h"
#include "redis/argv.h"

/* Seconds, and a fraction in 2^-20 ns. */
static inline void ration_redis_argv_add_time(struct ration_redis_argv *argv,
                                              struct ration_time time)
{
    ration_redis_argv_add_u64(argv, time.ns / RATION_NS_PER_SECOND);
    ration_redis_argv_add_u64(argv,
                              (time.ns % RATION_NS_PER_SECOND << RATION_FRAC_BITS) + time.frac);
}

/* Seconds and nanoseconds. */
static inline void ration_redis_argv_add_moment(struct ration_redis_argv *argv, uint64_t ns)
{
    ration_redis_argv_add_u64(argv, ns / RATION_NS_PER_SECOND);
    ration_redis_argv_add_u64(argv, ns % RATION_NS_PER_SECOND);
}

/* now_ns; or two empty arguments, which select Redis' own time. */
static inline void ration_redis_argv_add_now(struct ration_redis_argv *argv, bool has_now,
                                             uint64_t now_ns)
{
    if (has_now) {
        ration_redis_argv_add_moment(argv, ration_time_clamp(now_ns));
    } else {
        ration_redis_argv_add_text(argv, "");
        ration_redis_argv_add_text(argv, "");
    }
}

#endif
