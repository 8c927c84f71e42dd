/*
 * argv: the arguments of a Redis command. Arguments are any bytes; at most RATION_REDIS_ARGV_MAX of them.
 */
#ifndef RATION_REDIS_ARGV_H
#define RATION_REDIS_ARGV_H

#include "base/output.h"
#include "base/time.h"

#define RATION_REDIS_ARGV_MAX 384

struct ration_redis_argv {
    struct ration_output text; /* all arguments, concatenated */
    size_t ends[RATION_REDIS_ARGV_MAX];
    size_t count;
};

void ration_redis_argv_init(struct ration_redis_argv *argv);
void ration_redis_argv_done(struct ration_redis_argv *argv);

/* Removes all arguments, and keeps the memory. */
void ration_redis_argv_reset(struct ration_redis_argv *argv);

/* Removes all arguments from index count on. */
void ration_redis_argv_cut(struct ration_redis_argv *argv, size_t count);

/* Adds an argument. Without memory, or with too many arguments, text.is_failed is set. */
void ration_redis_argv_add(struct ration_redis_argv *argv, const void *bytes, size_t size);
void ration_redis_argv_add_text(struct ration_redis_argv *argv, const char *text);
void ration_redis_argv_add_u64(struct ration_redis_argv *argv, uint64_t number);

/* Ends an argument that was appended to argv->text in pieces. */
void ration_redis_argv_end(struct ration_redis_argv *argv);

static inline size_t ration_redis_argv_size(const struct ration_redis_argv *argv, size_t index)
{
    return argv->ends[index] - (index > 0 ? argv->ends[index - 1] : 0);
}

static inline const char *ration_redis_argv_at(const struct ration_redis_argv *argv, size_t index)
{
    return argv->text.bytes + (index > 0 ? argv->ends[index - 1] : 0);
}

/* The next functions add times in the form that the scripts read. This one: seconds, and a fraction in 2^-20 ns. */
static inline void ration_redis_argv_add_time(struct ration_redis_argv *argv,
                                              struct ration_time time)
{
    ration_redis_argv_add_u64(argv, time.ns / RATION_NS_PER_SECOND);
    ration_redis_argv_add_u64(argv,
                              (time.ns % RATION_NS_PER_SECOND << RATION_FRAC_BITS) + time.frac);
}

/* Seconds and nanoseconds. */
static inline void ration_redis_argv_add_ns(struct ration_redis_argv *argv, uint64_t ns)
{
    ration_redis_argv_add_u64(argv, ns / RATION_NS_PER_SECOND);
    ration_redis_argv_add_u64(argv, ns % RATION_NS_PER_SECOND);
}

/* now_ns; or two empty arguments, which select Redis' own time. */
static inline void ration_redis_argv_add_now(struct ration_redis_argv *argv, bool has_now,
                                             uint64_t now_ns)
{
    if (has_now) {
        ration_redis_argv_add_ns(argv, ration_time_clamp(now_ns));
    } else {
        ration_redis_argv_add_text(argv, "");
        ration_redis_argv_add_text(argv, "");
    }
}

#endif
