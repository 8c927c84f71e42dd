/*
 * limit: so many tokens per period, and how many may be saved up.
 *
 * A limit is a value: copy it, share it between threads, keep it in static storage. Make it with
 * ration_limit_make() or ration_limit_parse(), which check that it can be kept exactly, and do
 * not change its fields afterwards: the last ones are derived from the first.
 *
 *     struct ration_limit limit;
 *     ration_limit_parse("20 per 100ms burst 100", &limit, NULL);
 *
 * Times are nanoseconds. One token of a limit is worth period / tokens of time; that is rounded
 * up once, here, to 2^-20 ns, and every cost is a whole multiple of it. So 3/s is neither a bit
 * more than 3/s nor different for one request of 3 tokens and three of 1.
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
 * The longest block, from its now on. A bucket that fills within RATION_FILL_NS_MAX after it still lies within what a
 * table, a saved state and Redis can hold.
 */
#define RATION_BLOCK_NS_MAX (2 * RATION_NS_PER_YEAR)

#define RATION_LIMIT_NAME_MAX 63

/* Time in two words: whole nanoseconds, and a fraction in units of 2^-20 ns (below 2^20). */
struct ration_time {
    uint64_t ns;
    uint64_t frac;
};

enum ration_algorithm {
    RATION_ALGORITHM_DEFAULT = 0, /* only in a spec: RATION_TOKEN_BUCKET */
    RATION_TOKEN_BUCKET,          /* burst + rate * t in any interval t */
    RATION_BURST_RESERVE,         /* a token bucket, then a slower one behind it */
    RATION_LEAKY_QUEUE,           /* one per token's time; callers are told when to go */
    RATION_FIXED_WINDOW,          /* tokens per window aligned to the clock's zero */
    RATION_SLIDING_WINDOW,        /* two window counts, the older one weighted */
    RATION_SLIDING_LOG            /* exactly tokens in any window: one stamp per token */
};

enum ration_refill {
    RATION_REFILL_CONTINUOUS = 0, /* a fraction of a token at every instant */
    RATION_REFILL_INTERVAL        /* all tokens of a period at its end */
};

enum ration_start {
    RATION_START_FULL = 0,
    RATION_START_EMPTY,
    RATION_START_TOKENS /* start_tokens of them */
};

/* What a limit is made from. All-zero fields mean the default, so name only what you need. */
struct ration_limit_spec {
    uint64_t tokens;    /* at least 1 */
    uint64_t period_ns; /* at least 1; tokens / period at most 1 per ns */
    uint64_t burst;     /* total capacity; 0 means = tokens */
    enum ration_algorithm algorithm;
    enum ration_refill refill; /* INTERVAL goes with RATION_TOKEN_BUCKET only */
    enum ration_start start;
    uint64_t start_tokens;   /* with RATION_START_TOKENS; at most burst */
    uint64_t reserve_tokens; /* RATION_BURST_RESERVE: the second, slower bucket */
    uint64_t reserve_period_ns;
    uint64_t reserve_burst; /* 0 means = reserve_tokens */
    const char *name;       /* copied; NULL or letters, digits and "_-.:/" */
};

/* A continuous rate, ready for arithmetic. Derived; see src/core/gcra.h. */
struct ration_rate {
    struct ration_time token;    /* time worth one token, rounded up to 2^-20 ns */
    struct ration_time capacity; /* burst * token */
    uint64_t burst;
    uint64_t span_tokens; /* the most tokens that one sum of times can hold */
};

struct ration_limit {
    uint64_t tokens;
    uint64_t period_ns;
    uint64_t burst;
    enum ration_algorithm algorithm; /* never RATION_ALGORITHM_DEFAULT once made */
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

/* Limits that can be kept and lie near one that cannot. */
struct ration_limit_nearest {
    size_t count; /* 0 to 2 */
    struct ration_limit_spec limits[2];
};

/*
 * Makes a limit from spec, which is borrowed for the call.
 * Returns RATION_EINVAL for a spec that makes no sense and RATION_ERANGE for one that cannot be
 * kept; error (may be NULL) then says why, and for RATION_ERANGE names the nearest limits that
 * would do. On failure *out_limit is untouched.
 */
RATION_API ration_status ration_limit_make(const struct ration_limit_spec *spec,
                                           struct ration_limit *out_limit,
                                           struct ration_error *error);

/*
 * The nearest limits to a spec for which ration_limit_make() returned RATION_ERANGE, as specs
 * that it accepts. Names are borrowed from spec. count is 0 for any other spec.
 */
RATION_API struct ration_limit_nearest ration_limit_find_nearest(
    const struct ration_limit_spec *spec);

/*
 * How long an empty bucket of the limit takes until it is full, in nanoseconds, rounded up: of a window
 * its length (of a sliding window two), of a burst reserve the longer of its two.
 */
RATION_API uint64_t ration_limit_fill_ns(const struct ration_limit *limit);

/* Shorthands for a token bucket of tokens per period whose burst is tokens. Same errors. */
RATION_API ration_status ration_limit_per(uint64_t tokens, uint64_t period_ns,
                                          struct ration_limit *out_limit);
RATION_API ration_status ration_limit_per_second(uint64_t tokens, struct ration_limit *out_limit);
RATION_API ration_status ration_limit_per_minute(uint64_t tokens, struct ration_limit *out_limit);
RATION_API ration_status ration_limit_per_hour(uint64_t tokens, struct ration_limit *out_limit);

/*
 * Makes a limit from text (borrowed for the call):
 *
 *     10/s    100/min    5 per 10s    20 per 100ms burst 100    1/h start empty
 *     10/s burst 20 reserve 100/h burst 500      100/min sliding-window name login
 *
 * The grammar is in docs/limits.md. Returns RATION_EINVAL, RATION_ERANGE; error (may be NULL)
 * then names the byte, what is wrong and what would be right. *out_limit is untouched on failure.
 */
RATION_API ration_status ration_limit_parse(const char *text, struct ration_limit *out_limit,
                                            struct ration_error *error);

/* As ration_limit_parse() for text that is not terminated; a zero byte in it is an error. */
RATION_API ration_status ration_limit_parse_bytes(const char *text, size_t text_size,
                                                  struct ration_limit *out_limit,
                                                  struct ration_error *error);

/* Room for any printed limit, with its terminating zero. */
#define RATION_LIMIT_TEXT_SIZE 384

/*
 * Prints a limit as text that parses back to an equal one. Returns RATION_ENOSPC if buffer_size is too
 * small (RATION_LIMIT_TEXT_SIZE always suffices), RATION_EINVAL for a limit that was never made; then
 * buffer is untouched.
 */
RATION_API ration_status ration_limit_print(const struct ration_limit *limit, char *buffer,
                                            size_t buffer_size);

RATION_C_END

#endif
