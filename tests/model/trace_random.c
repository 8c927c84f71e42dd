/* Random numbers, and random limits made of them. */
#include "trace.h"

#include <string.h>

uint64_t trace_random_next(struct trace_random *random)
{
    uint64_t z = (random->state += UINT64_C(0x9e3779b97f4a7c15));

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

uint64_t trace_random_below(struct trace_random *random, uint64_t bound)
{
    return (uint64_t)(((unsigned __int128)trace_random_next(random) * bound) >> 64);
}

uint64_t trace_random_sized(struct trace_random *random, uint64_t max)
{
    if (max == 0)
        return 0;

    unsigned bits = 64 - (unsigned)__builtin_clzll(max);
    uint64_t mask = UINT64_MAX >> trace_random_below(random, bits) >> (64 - bits);
    uint64_t value = trace_random_next(random) & mask;

    return value <= max ? value : value >> 1;
}

const char *trace_kind_name(enum trace_kind kind)
{
    static const char *const names[TRACE_KIND_COUNT] = {"token", "interval", "reserve", "queue",
                                                        "fixed", "sliding",  "log"};

    return names[kind];
}

static uint64_t random_period(struct trace_random *random)
{
    static const uint64_t usual[] = {RATION_NS_PER_US,     RATION_NS_PER_MS,   RATION_NS_PER_SECOND,
                                     RATION_NS_PER_MINUTE, RATION_NS_PER_HOUR, RATION_NS_PER_DAY,
                                     RATION_NS_PER_YEAR};
    uint64_t choice = trace_random_below(random, 8);

    if (choice < 2)
        return 1 + trace_random_below(random, 20);
    if (choice < 5)
        return usual[trace_random_below(random, sizeof usual / sizeof usual[0])];
    return 1 + trace_random_sized(random, RATION_NS_PER_YEAR);
}

static uint64_t random_tokens(struct trace_random *random, uint64_t max)
{
    uint64_t small = max < 9 ? max : 9;

    if (trace_random_below(random, 2))
        return 1 + trace_random_below(random, small);
    return 1 + trace_random_sized(random, max - 1);
}

static void random_start(struct trace_random *random, struct ration_limit_spec *spec)
{
    uint64_t burst = spec->burst ? spec->burst : spec->tokens;

    spec->start = (enum ration_start)(trace_random_below(random, 6) % 4 % 3);
    if (spec->start == RATION_START_TOKENS)
        spec->start_tokens = trace_random_sized(random, burst);
}

static void random_reserve(struct trace_random *random, struct ration_limit_spec *spec)
{
    spec->reserve_tokens = random_tokens(random, 1000000000);
    spec->reserve_period_ns = random_period(random);
    if (trace_random_below(random, 2))
        spec->reserve_burst = random_tokens(random, 1000000);
}

static struct ration_limit_spec random_spec(struct trace_random *random, enum trace_kind kind)
{
    static const enum ration_algorithm algorithms[TRACE_KIND_COUNT] = {
        RATION_TOKEN_BUCKET, RATION_TOKEN_BUCKET,   RATION_BURST_RESERVE, RATION_LEAKY_QUEUE,
        RATION_FIXED_WINDOW, RATION_SLIDING_WINDOW, RATION_SLIDING_LOG};
    struct ration_limit_spec spec = {.algorithm = algorithms[kind]};
    uint64_t log_max = trace_random_below(random, 64) == 0 ? SUBJECT_LOG_TOKENS_MAX : 24;

    spec.tokens = random_tokens(random, kind == TRACE_LOG ? log_max : 1000000000);
    spec.period_ns = random_period(random);
    if (kind == TRACE_INTERVAL)
        spec.refill = RATION_REFILL_INTERVAL;
    if (kind <= TRACE_QUEUE && trace_random_below(random, 3))
        spec.burst = random_tokens(random, trace_random_below(random, 4) ? 9 : UINT64_MAX >> 5);
    if (kind == TRACE_RESERVE)
        random_reserve(random, &spec);
    random_start(random, &spec);
    return spec;
}

struct ration_limit trace_random_limit(struct trace_random *random, enum trace_kind kind)
{
    struct ration_limit limit;

    for (;;) { /* about one in two can be kept */
        struct ration_limit_spec spec = random_spec(random, kind);

        if (ration_limit_make(&spec, &limit, NULL) == RATION_OK)
            return limit;
    }
}
