/*
 * limit: tokens per period, and how many tokens may accumulate (the burst).
 *
 * A limit is a value: copy it, share it between threads, keep it in static storage. Make it with
 * ration_limit_make() or ration_limit_parse(), which check that it can be represented exactly, and
 * do not change its fields afterwards: the last ones are derived from the others.
 *
 *     struct ration_limit limit;
 *     ration_limit_parse("20 per 100ms burst 100", &limit, NULL);
 *
 * Times are in nanoseconds. One token of a limit is worth period / tokens of time. That time is
 * rounded up once, when the limit is made, to 2^-20 ns, and every cost is a whole multiple of it.
 * So 3/s never allows slightly more than 3/s, and one request of 3 tokens costs exactly as much as
 * three requests of 1.
 */
#ifndef RATION_LIMIT_H
#define RATION_LIMIT_H

#include <stddef.h>
#include <stdint.h>

#include "ration/export.h"
#include "ration/status.h"

RATION_C_BEGIN

#define RATION_NS_PER_US     UINT64_C(1000)
#define RATION_NS_PER_MS     UINT64_C(1000000)
#define RATION_NS_PER_SECOND UINT64_C(1000000000)
#define RATION_NS_PER_MINUTE (60 * RATION_NS_PER_SECOND)
#define RATION_NS_PER_HOUR   (60 * RATION_NS_PER_MINUTE)
#define RATION_NS_PER_DAY    (24 * RATION_NS_PER_HOUR)
#define RATION_NS_PER_WEEK   (7 * RATION_NS_PER_DAY)
#define RATION_NS_PER_YEAR   (365 * RATION_NS_PER_DAY)

/* The longest time a bucket may take to fill, and the longest window. */
#define RATION_FILL_NS_MAX (16 * RATION_NS_PER_YEAR)

/*
 * The longest block, in nanoseconds from the time of the call. A bucket that takes
 * RATION_FILL_NS_MAX to fill after such a block still has a time that the table, a saved state and
 * Redis can represent.
 */
#define RATION_BLOCK_NS_MAX (2 * RATION_NS_PER_YEAR)

#define RATION_LIMIT_NAME_MAX 63

/* A time: whole nanoseconds, and a fraction in units of 2^-20 ns (0 to 2^20 - 1). */
struct ration_time {
    uint64_t ns;
    uint64_t frac;
};

enum ration_algorithm {
    RATION_ALGORITHM_DEFAULT = 0, /* only in a spec: means RATION_TOKEN_BUCKET */
    RATION_TOKEN_BUCKET,          /* at most burst + rate * t in any interval t */
    RATION_BURST_RESERVE,         /* a token bucket, and a slower one used when it is empty */
    RATION_LEAKY_QUEUE,           /* one token at a time; a decision says when to proceed */
    RATION_FIXED_WINDOW,          /* tokens per window; windows are aligned to the clock's zero */
    RATION_SLIDING_WINDOW,        /* counts of two windows, the older one weighted */
    RATION_SLIDING_LOG            /* exactly tokens in any window: one timestamp per token */
};

enum ration_refill {
    RATION_REFILL_CONTINUOUS = 0, /* tokens arrive evenly, also in fractions */
    RATION_REFILL_INTERVAL        /* all tokens of a period arrive at its end */
};

enum ration_start {
    RATION_START_FULL = 0,
    RATION_START_EMPTY,
    RATION_START_TOKENS /* start_tokens tokens */
};

/* The input of ration_limit_make(). Zero in a field means its default. */
struct ration_limit_spec {
    uint64_t tokens;    /* at least 1 */
    uint64_t period_ns; /* at least 1; tokens / period at most 1 per ns */
    uint64_t burst;     /* total capacity; 0: tokens */
    enum ration_algorithm algorithm;
    enum ration_refill refill; /* INTERVAL only with RATION_TOKEN_BUCKET */
    enum ration_start start;
    uint64_t start_tokens;   /* only with RATION_START_TOKENS; at most burst */
    uint64_t reserve_tokens; /* RATION_BURST_RESERVE: the second, slower bucket */
    uint64_t reserve_period_ns;
    uint64_t reserve_burst; /* 0: reserve_tokens */
    const char *name;       /* copied; letters, digits and "_-.:/". NULL: none */
};

/* A continuous rate in the units of src/core/gcra.h. Derived when the limit is made. */
struct ration_rate {
    struct ration_time token;    /* time worth one token, rounded up to 2^-20 ns */
    struct ration_time capacity; /* burst * token */
    uint64_t burst;
    uint64_t span_tokens; /* the most tokens whose time one sum can hold */
};

struct ration_limit {
    uint64_t tokens;
    uint64_t period_ns;
    uint64_t burst;
    enum ration_algorithm algorithm; /* never RATION_ALGORITHM_DEFAULT */
    enum ration_refill refill;
    enum ration_start start;
    uint64_t start_tokens;
    uint64_t reserve_tokens;
    uint64_t reserve_period_ns;
    uint64_t reserve_burst;
    char name[RATION_LIMIT_NAME_MAX + 1];

    struct ration_rate rate;         /* derived */
    struct ration_rate reserve_rate; /* derived, for RATION_BURST_RESERVE */
};

/* The representable limits closest to one that cannot be represented exactly. */
struct ration_limit_nearest {
    size_t count; /* 0 to 2 */
    struct ration_limit_spec limits[2];
};

/*
 * Makes a limit from spec, which is borrowed for the call. Returns RATION_EINVAL for an invalid
 * spec and RATION_ERANGE for a limit that cannot be represented exactly; error (may be NULL) then
 * says why and, for RATION_ERANGE, names the nearest limits that can. On failure *out_limit is
 * untouched.
 */
RATION_API ration_status ration_limit_make(const struct ration_limit_spec *spec,
                                           struct ration_limit *out_limit,
                                           struct ration_error *error);

/*
 * Returns the limits nearest to a spec for which ration_limit_make() returned RATION_ERANGE, as
 * specs that it accepts. Their names are borrowed from spec. For any other spec, count is 0.
 */
RATION_API struct ration_limit_nearest ration_limit_find_nearest(
    const struct ration_limit_spec *spec);

/*
 * Returns how long an empty bucket of the limit takes to fill, in nanoseconds, rounded up. For a
 * window or log this is its period, for a sliding window twice its period, for a burst reserve the
 * longer of its two times.
 */
RATION_API uint64_t ration_limit_fill_ns(const struct ration_limit *limit);

/*
 * Make a token bucket of tokens per period whose burst is tokens. Same errors as
 * ration_limit_make().
 */
RATION_API ration_status ration_limit_per(uint64_t tokens, uint64_t period_ns,
                                          struct ration_limit *out_limit);
RATION_API ration_status ration_limit_per_second(uint64_t tokens, struct ration_limit *out_limit);
RATION_API ration_status ration_limit_per_minute(uint64_t tokens, struct ration_limit *out_limit);
RATION_API ration_status ration_limit_per_hour(uint64_t tokens, struct ration_limit *out_limit);

/*
 * Makes a limit from zero-terminated text (borrowed for the call):
 *
 *     10/s    100/min    5 per 10s    20 per 100ms burst 100    1/h start empty
 *     10/s burst 20 reserve 100/h burst 500      100/min sliding_window name login
 *
 * The grammar is in docs/reference/limit-text.md. Returns RATION_EINVAL or RATION_ERANGE; error (may be NULL)
 * then gives the offset of the wrong byte, what is wrong and what would be valid. On failure
 * *out_limit is untouched.
 */
RATION_API ration_status ration_limit_parse(const char *text, struct ration_limit *out_limit,
                                            struct ration_error *error);

/* As ration_limit_parse(), for text that is not terminated; a zero byte in it is an error. */
RATION_API ration_status ration_limit_parse_bytes(const char *text, size_t text_size,
                                                  struct ration_limit *out_limit,
                                                  struct ration_error *error);

/* Size in bytes of a buffer for any printed limit, with its terminating zero. */
#define RATION_LIMIT_TEXT_SIZE 384

/*
 * Prints a limit as text that parses back to an equal one. Returns RATION_ENOSPC if buffer_size is
 * too small (RATION_LIMIT_TEXT_SIZE always suffices) or RATION_EINVAL for a limit that was never
 * made; then buffer is untouched.
 */
RATION_API ration_status ration_limit_print(const struct ration_limit *limit, char *buffer,
                                            size_t buffer_size);

RATION_C_END

#endif
