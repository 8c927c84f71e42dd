/*
 * limit_nearest: suggests limits instead of one that cannot be represented exactly.
 *
 * It starts from the spec and corrects one value that is out of bounds at a time. There are two
 * ways: reduce the burst, or keep it and shorten the period.
 */
#include <string.h>

#include "base/time.h"
#include "base/wide.h"
#include "core/limit_bounds.h"

/*
 * A period in which this burst fills within 16 years. Rounding a token up may slightly exceed that;
 * then the period is shortened by the largest possible effect of the rounding.
 */
static uint64_t shorter_period_ns(struct ration_bare_rate rate,
                                  const struct ration_limit_spec *spec)
{
    struct ration_wide burst = {0, rate.burst};
    uint64_t rounding_ns = (rate.burst >> RATION_FRAC_BITS) + 1;

    if (ration_limit_has_windows(spec->algorithm))
        return RATION_FILL_NS_MAX;
    if (spec->refill == RATION_REFILL_INTERVAL)
        return RATION_FILL_NS_MAX / ((rate.burst - 1) / rate.tokens + 1);
    rate.period_ns =
        ration_wide_divide(ration_wide_multiply(RATION_FILL_NS_MAX, rate.tokens), burst);
    if (ration_limit_is_too_fast(rate) || !ration_limit_is_too_slow(rate, spec))
        return rate.period_ns;
    return ration_wide_divide(ration_wide_multiply(RATION_FILL_NS_MAX - rounding_ns, rate.tokens),
                              burst);
}

/* One correction of a rate towards one that can be represented. burst 0 stays the default. */
static struct ration_bare_rate correct_rate(struct ration_bare_rate rate, uint64_t burst,
                                            const struct ration_limit_spec *spec, bool keep_burst)
{
    struct ration_bare_rate corrected = {rate.tokens, rate.period_ns, burst};

    if (ration_limit_is_too_fast(rate)) {
        corrected.tokens = rate.period_ns;
        return corrected;
    }

    uint64_t period_ns = shorter_period_ns(rate, spec);
    bool would_be_too_fast = period_ns < rate.tokens; /* the shorter period would be too fast */

    if (burst > 0 && ration_limit_burst_max(rate, spec) > 0 && (would_be_too_fast || !keep_burst))
        corrected.burst = ration_limit_burst_max(rate, spec);
    else if (would_be_too_fast) /* one per nanosecond, for the longest possible time */
        corrected = (struct ration_bare_rate){RATION_FILL_NS_MAX, RATION_FILL_NS_MAX, burst};
    else
        corrected.period_ns = period_ns;
    return corrected;
}

/* A bucket that became smaller than its initial fill starts full. */
static struct ration_limit_spec with_fitting_start(struct ration_limit_spec spec)
{
    if (spec.start_tokens > ration_limit_main_rate(&spec).burst) {
        spec.start = RATION_START_FULL;
        spec.start_tokens = 0;
    }
    return spec;
}

/* Corrects the first value of the spec that is out of bounds. */
static struct ration_limit_spec correct_spec(struct ration_limit_spec spec, bool keep_burst)
{
    struct ration_bare_rate rate = ration_limit_main_rate(&spec);

    if (spec.tokens > ration_limit_tokens_max(&spec)) {
        spec.tokens = ration_limit_tokens_max(&spec);
        spec.burst = 0;
    } else if (ration_limit_is_too_fast(rate) || ration_limit_is_too_slow(rate, &spec)) {
        rate = correct_rate(rate, spec.burst, &spec, keep_burst);
        spec.tokens = rate.tokens;
        spec.period_ns = rate.period_ns;
        spec.burst = rate.burst;
    } else {
        rate =
            correct_rate(ration_limit_reserve_rate(&spec), spec.reserve_burst, &spec, keep_burst);
        spec.reserve_tokens = rate.tokens;
        spec.reserve_period_ns = rate.period_ns;
        spec.reserve_burst = rate.burst;
    }
    return with_fitting_start(spec);
}

static bool has_same_rates(const struct ration_limit_spec *a, const struct ration_limit_spec *b)
{
    const uint64_t numbers[2][6] = {
        {a->tokens, a->period_ns, a->burst, a->reserve_tokens, a->reserve_period_ns,
         a->reserve_burst},
        {b->tokens, b->period_ns, b->burst, b->reserve_tokens, b->reserve_period_ns,
         b->reserve_burst},
    };

    return memcmp(numbers[0], numbers[1], sizeof(numbers[0])) == 0;
}

/* Two rates, each with a speed, a burst and a period to correct. */
#define STEPS_MAX 6

struct ration_limit_nearest ration_limit_find_nearest(const struct ration_limit_spec *spec)
{
    struct ration_limit_nearest nearest = {.count = 0};

    if (ration_limit_check(spec, NULL) != RATION_ERANGE)
        return nearest;
    for (int keep_burst = 0; keep_burst <= 1; keep_burst++) {
        struct ration_limit_spec candidate = *spec;

        for (int step = 0; step < STEPS_MAX; step++) {
            if (ration_limit_check(&candidate, NULL) == RATION_ERANGE)
                candidate = correct_spec(candidate, keep_burst != 0);
        }
        if (ration_limit_check(&candidate, NULL) != RATION_OK)
            continue;
        if (nearest.count == 0 || !has_same_rates(&candidate, &nearest.limits[0]))
            nearest.limits[nearest.count++] = candidate;
    }
    return nearest;
}
