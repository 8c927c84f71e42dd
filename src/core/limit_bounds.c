#include "core/limit_bounds.h"

#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "base/time.h"
#include "base/units.h"
#include "base/wide.h"
#include "core/sliding_window.h"

#define LOG_TOKENS_MAX UINT32_MAX /* the cells of a ring are counted in 32 bits */

static struct ration_bare_rate with_default_burst(uint64_t tokens, uint64_t period_ns,
                                                  uint64_t burst)
{
    return (struct ration_bare_rate){tokens, period_ns, burst > 0 ? burst : tokens};
}

struct ration_bare_rate ration_limit_main_rate(const struct ration_limit_spec *spec)
{
    return with_default_burst(spec->tokens, spec->period_ns, spec->burst);
}

struct ration_bare_rate ration_limit_reserve_rate(const struct ration_limit_spec *spec)
{
    return with_default_burst(spec->reserve_tokens, spec->reserve_period_ns, spec->reserve_burst);
}

bool ration_limit_has_windows(enum ration_algorithm algorithm)
{
    return algorithm == RATION_FIXED_WINDOW || algorithm == RATION_SLIDING_WINDOW ||
           algorithm == RATION_SLIDING_LOG;
}

enum ration_algorithm ration_limit_algorithm(const struct ration_limit_spec *spec)
{
    if (spec->algorithm != RATION_ALGORITHM_DEFAULT)
        return spec->algorithm;
    return spec->reserve_tokens > 0 ? RATION_BURST_RESERVE : RATION_TOKEN_BUCKET;
}

struct ration_time ration_limit_token_time(struct ration_bare_rate rate)
{
    struct ration_wide units = ration_wide_multiply(rate.period_ns, RATION_FRAC_COUNT);
    struct ration_wide rest = {units.high % rate.tokens, units.low};
    struct ration_wide tokens = {0, rate.tokens};

    /* The quotient may need 84 bits: divide the high word, then the remainder. */
    return ration_wide_to_time(
        (struct ration_wide){units.high / rate.tokens, ration_wide_divide_up(rest, tokens)});
}

/* With interval refill only whole refills count. A window has its tokens if it is short enough. */
uint64_t ration_limit_burst_max(struct ration_bare_rate rate, const struct ration_limit_spec *spec)
{
    if (ration_limit_has_windows(spec->algorithm))
        return rate.period_ns > RATION_FILL_NS_MAX ? 0 : rate.tokens;
    if (spec->refill == RATION_REFILL_INTERVAL)
        return RATION_FILL_NS_MAX / rate.period_ns * rate.tokens;
    return ration_wide_divide(ration_wide_from_time(ration_time_from_ns(RATION_FILL_NS_MAX)),
                              ration_wide_from_time(ration_limit_token_time(rate)));
}

bool ration_limit_is_too_fast(struct ration_bare_rate rate)
{
    return rate.tokens > rate.period_ns;
}

bool ration_limit_is_too_slow(struct ration_bare_rate rate, const struct ration_limit_spec *spec)
{
    return rate.burst > ration_limit_burst_max(rate, spec);
}

uint64_t ration_limit_tokens_max(const struct ration_limit_spec *spec)
{
    switch (ration_limit_algorithm(spec)) {
    case RATION_SLIDING_WINDOW:
        return RATION_SLIDING_WINDOW_TOKENS_MAX;
    case RATION_SLIDING_LOG:
        return LOG_TOKENS_MAX;
    default:
        return UINT64_MAX;
    }
}

static ration_status check_numbers(const struct ration_limit_spec *spec, struct ration_error *error)
{
    if (spec->tokens == 0)
        return ration_error_set(error, RATION_EINVAL, "tokens must be at least 1 (got 0)");
    if (spec->period_ns == 0)
        return ration_error_set(error, RATION_EINVAL, "the period must be at least 1ns (got 0)");
    if ((spec->reserve_tokens == 0) != (spec->reserve_period_ns == 0))
        return ration_error_set(error, RATION_EINVAL, "a reserve needs both tokens and a period");
    if (spec->reserve_burst > 0 && spec->reserve_tokens == 0)
        return ration_error_set(error, RATION_EINVAL,
                                "a reserve's burst needs the reserve's tokens");
    return RATION_OK;
}

static ration_status check_algorithm(const struct ration_limit_spec *spec,
                                     struct ration_error *error)
{
    enum ration_algorithm algorithm = ration_limit_algorithm(spec);

    if ((unsigned)algorithm > RATION_SLIDING_LOG)
        return ration_error_set(error, RATION_EINVAL, "unknown algorithm %u", (unsigned)algorithm);
    if ((unsigned)spec->refill > RATION_REFILL_INTERVAL)
        return ration_error_set(error, RATION_EINVAL, "unknown refill mode %u",
                                (unsigned)spec->refill);
    if (spec->refill == RATION_REFILL_INTERVAL && algorithm != RATION_TOKEN_BUCKET)
        return ration_error_set(error, RATION_EINVAL,
                                "interval refill works only with a token bucket");
    if (ration_limit_has_windows(algorithm) && spec->burst > 0 && spec->burst != spec->tokens)
        return ration_error_set(
            error, RATION_EINVAL,
            "a window has no burst of its own: leave burst out, or use a token bucket");
    if (algorithm == RATION_BURST_RESERVE && spec->reserve_tokens == 0)
        return ration_error_set(error, RATION_EINVAL,
                                "a burst reserve needs the reserve's tokens and period");
    if (algorithm != RATION_BURST_RESERVE && spec->reserve_tokens > 0)
        return ration_error_set(error, RATION_EINVAL, "a reserve works only with a token bucket");
    return RATION_OK;
}

static ration_status check_start(const struct ration_limit_spec *spec, struct ration_error *error)
{
    uint64_t tokens_max = ration_limit_main_rate(spec).burst;
    uint64_t reserve = ration_limit_reserve_rate(spec).burst;

    tokens_max = tokens_max > UINT64_MAX - reserve ? UINT64_MAX : tokens_max + reserve;
    if ((unsigned)spec->start > RATION_START_TOKENS)
        return ration_error_set(error, RATION_EINVAL, "unknown start %u", (unsigned)spec->start);
    if (spec->start != RATION_START_TOKENS && spec->start_tokens > 0)
        return ration_error_set(error, RATION_EINVAL,
                                "start_tokens needs start = RATION_START_TOKENS");
    if (spec->start_tokens > tokens_max)
        return ration_error_set(error, RATION_EINVAL,
                                "start must be at most the burst of %" PRIu64 " (got %" PRIu64 ")",
                                tokens_max, spec->start_tokens);
    return RATION_OK;
}

static bool is_name_byte(char byte)
{
    return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
           (byte >= '0' && byte <= '9') || strchr("_-.:/", byte) != NULL;
}

static ration_status check_name(const struct ration_limit_spec *spec, struct ration_error *error)
{
    if (spec->name == NULL)
        return RATION_OK;
    for (size_t index = 0; spec->name[index] != 0; index++) {
        if (!is_name_byte(spec->name[index]))
            return ration_error_set(
                error, RATION_EINVAL,
                "byte %zu of the name is not a letter, a digit or one of _ - . : /", index);
        if (index == RATION_LIMIT_NAME_MAX)
            return ration_error_set(error, RATION_EINVAL, "the name is longer than %d bytes",
                                    RATION_LIMIT_NAME_MAX);
    }
    return RATION_OK;
}

static ration_status check_rate(struct ration_bare_rate rate, const struct ration_limit_spec *spec,
                                struct ration_error *error)
{
    char period[RATION_UNITS_TEXT_SIZE];

    ration_units_print_duration(rate.period_ns, period, sizeof(period));
    if (ration_limit_is_too_fast(rate))
        return ration_error_set(error, RATION_ERANGE,
                                "%" PRIu64 " per %s is more than one per nanosecond", rate.tokens,
                                period);
    if (ration_limit_is_too_slow(rate, spec) && ration_limit_has_windows(spec->algorithm))
        return ration_error_set(error, RATION_ERANGE, "a window of %s is longer than 16 years",
                                period);
    if (ration_limit_is_too_slow(rate, spec))
        return ration_error_set(error, RATION_ERANGE,
                                "%" PRIu64 " per %s with a burst of %" PRIu64
                                " takes over 16 years to fill",
                                rate.tokens, period, rate.burst);
    return RATION_OK;
}

/* Whether the reserve refills more slowly, by cross multiplication. */
static bool is_reserve_slower(const struct ration_limit_spec *spec)
{
    return ration_wide_less(ration_wide_multiply(spec->reserve_tokens, spec->period_ns),
                            ration_wide_multiply(spec->tokens, spec->reserve_period_ns));
}

static ration_status check_bounds(const struct ration_limit_spec *spec, struct ration_error *error)
{
    if (spec->tokens > ration_limit_tokens_max(spec))
        return ration_error_set(error, RATION_ERANGE,
                                "this algorithm counts up to %" PRIu64 " tokens (got %" PRIu64 ")",
                                ration_limit_tokens_max(spec), spec->tokens);

    ration_status status = check_rate(ration_limit_main_rate(spec), spec, error);

    if (status != RATION_OK || spec->reserve_tokens == 0)
        return status;
    if (!is_reserve_slower(spec))
        return ration_error_set(error, RATION_EINVAL,
                                "a reserve must refill more slowly than the main bucket");
    return check_rate(ration_limit_reserve_rate(spec), spec, error);
}

ration_status ration_limit_check(const struct ration_limit_spec *spec, struct ration_error *error)
{
    ration_status (*const checks[])(const struct ration_limit_spec *, struct ration_error *) = {
        check_numbers, check_algorithm, check_start, check_name, check_bounds};

    for (size_t index = 0; index < sizeof(checks) / sizeof(checks[0]); index++) {
        ration_status status = checks[index](spec, error);

        if (status != RATION_OK)
            return status;
    }
    return RATION_OK;
}

bool ration_limit_is_made(const struct ration_limit *limit)
{
    return (unsigned)limit->algorithm - 1 < RATION_SLIDING_LOG &&
           (unsigned)limit->refill <= RATION_REFILL_INTERVAL &&
           (unsigned)limit->start <= RATION_START_TOKENS && limit->tokens > 0;
}
