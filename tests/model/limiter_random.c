/* Random limiters. */
#include "limiter_random.h"

#include <string.h>

#define LOG_TOKENS_MAX 64

static uint64_t pick(struct trace_random *random, uint64_t bound)
{
    return trace_random_below(random, bound);
}

static struct ration_limit small_limit(struct trace_random *random, uint64_t scale_ns,
                                       enum trace_kind kind)
{
    static const enum ration_algorithm algorithms[TRACE_KIND_COUNT] = {
        RATION_TOKEN_BUCKET, RATION_TOKEN_BUCKET,   RATION_BURST_RESERVE, RATION_LEAKY_QUEUE,
        RATION_FIXED_WINDOW, RATION_SLIDING_WINDOW, RATION_SLIDING_LOG};
    struct ration_limit limit;

    for (;;) {
        struct ration_limit_spec spec = {.algorithm = algorithms[kind],
                                         .tokens = 1 + pick(random, 9),
                                         .period_ns = 1 + pick(random, 4 * scale_ns)};

        if (kind == TRACE_INTERVAL)
            spec.refill = RATION_REFILL_INTERVAL;
        if (kind <= TRACE_QUEUE && pick(random, 2))
            spec.burst = 1 + pick(random, 12);
        if (kind == TRACE_RESERVE) {
            spec.reserve_tokens = 1 + pick(random, 9);
            spec.reserve_period_ns = 1 + pick(random, 16 * scale_ns);
        }
        spec.start = (enum ration_start)(pick(random, 6) % 4 % 3);
        if (spec.start == RATION_START_TOKENS)
            spec.start_tokens = pick(random, (spec.burst ? spec.burst : spec.tokens) + 1);
        if (ration_limit_make(&spec, &limit, NULL) == RATION_OK)
            return limit;
    }
}

struct ration_limit limiter_random_limit(struct trace_random *random, uint64_t scale_ns,
                                         enum trace_kind kind)
{
    for (;;) {
        struct ration_limit limit = pick(random, 4) ? small_limit(random, scale_ns, kind)
                                                    : trace_random_limit(random, kind);

        if (kind != TRACE_LOG || limit.tokens <= LOG_TOKENS_MAX)
            return limit;
    }
}

static struct ration_limit as_full(struct ration_limit limit)
{
    limit.start = RATION_START_FULL;
    limit.start_tokens = 0;
    return limit;
}

static enum trace_kind random_kind(struct trace_random *random,
                                   const struct limiter_options *options, bool has_queue,
                                   bool has_log)
{
    enum trace_kind kind;

    do {
        kind = pick(random, 3) ? (enum trace_kind)pick(random, TRACE_KIND_COUNT) : TRACE_TOKEN;
    } while ((kind == TRACE_QUEUE && !has_queue) || (kind == TRACE_LOG && has_log) ||
             (options->only_algorithms_of_buckets && (kind == TRACE_LOG || kind == TRACE_RESERVE)));
    return kind;
}

static void random_plan(struct trace_random *random, const struct limiter_options *options,
                        uint64_t scale_ns, bool has_queue, struct limiter_plan *plan)
{
    bool has_log = false;
    bool is_simple = pick(random, 4) == 0; /* what the short way decides */

    plan->rule_count = 1 + (unsigned)pick(random, options->rules_max);
    plan->keys_max = options->is_tight ? 1 + pick(random, 20) : 600;
    plan->overflow =
        options->is_tight ? (enum ration_overflow)(pick(random, 4) % 3) : RATION_OVERFLOW_SHARED;
    for (unsigned i = 0; i < plan->rule_count; i++) {
        enum trace_kind kind =
            is_simple ? TRACE_TOKEN : random_kind(random, options, has_queue, has_log);
        struct ration_limit limit = limiter_random_limit(random, scale_ns, kind);
        uint64_t stale_ns = pick(random, 4) ? trace_random_sized(random, 64 * scale_ns)
                                            : trace_random_sized(random, 365 * RATION_NS_PER_DAY);

        has_log |= kind == TRACE_LOG;
        plan->rules[i] = (struct ration_rule){
            .limit = is_simple || options->starts_full ? as_full(limit) : limit,
            .stale_after_ns = stale_ns,
            .is_shadow = !is_simple && pick(random, 6) == 0,
        };
    }
}

struct limiter_setup limiter_random_setup(struct trace_random *random,
                                          const struct limiter_options *options)
{
    static const uint64_t scales[] = {3, 20, 1000, RATION_NS_PER_MS, RATION_NS_PER_HOUR};
    uint64_t scale_ns = scales[pick(random, sizeof scales / sizeof scales[0])];
    struct limiter_setup setup;

    memset(&setup, 0, sizeof setup);
    setup.limiter_count = 1 + (unsigned)pick(random, options->limiters_max);
    setup.is_stack = setup.limiter_count > 1 || pick(random, 8) == 0;
    setup.has_key_func = pick(random, 2);
    setup.is_stackable = pick(random, 4) == 0;
    setup.trusts_keys = options->is_replayable || pick(random, 2);
    setup.key_count =
        options->keys_min + (unsigned)pick(random, options->keys_max - options->keys_min + 1);
    setup.clock_ns = trace_random_sized(random, UINT64_C(1) << 57);
    if (pick(random, 4) == 0) /* a clock that counts from long ago */
        setup.clock_ns += UINT64_C(1) << 60;
    for (unsigned i = 0; i < setup.limiter_count; i++)
        random_plan(random, options, scale_ns, setup.limiter_count == 1, &setup.plans[i]);
    return setup;
}
