#include "ration/limit.h"

#include <stdio.h>
#include <string.h>

#include "base/time.h"
#include "base/wide.h"
#include "core/limit_bounds.h"

static struct ration_rate derive_rate(struct ration_bare_rate bare)
{
    struct ration_time token = ration_limit_token_time(bare);
    struct ration_wide span = ration_wide_from_time(ration_time_from_ns(RATION_SPAN_NS));

    return (struct ration_rate){
        .token = token,
        .capacity = ration_time_scale(token, bare.burst),
        .burst = bare.burst,
        .span_tokens = ration_wide_divide(span, ration_wide_from_time(token)),
    };
}

/* A start with all or no tokens becomes full or empty, so that equal limits compare equal. */
static void derive_start(struct ration_limit *limit, uint64_t start_tokens)
{
    uint64_t tokens_max = limit->burst + limit->reserve_burst;

    if (limit->start == RATION_START_FULL)
        limit->start_tokens = tokens_max;
    else if (limit->start == RATION_START_TOKENS)
        limit->start_tokens = start_tokens;
    if (limit->start_tokens == tokens_max)
        limit->start = RATION_START_FULL;
    else if (limit->start_tokens == 0)
        limit->start = RATION_START_EMPTY;
}

static struct ration_limit derive_limit(const struct ration_limit_spec *spec)
{
    struct ration_bare_rate bare = ration_limit_main_rate(spec);
    struct ration_bare_rate reserve = ration_limit_reserve_rate(spec);
    struct ration_limit limit = {
        .tokens = spec->tokens,
        .period_ns = spec->period_ns,
        .burst = bare.burst,
        .algorithm = ration_limit_algorithm(spec),
        .refill = spec->refill,
        .start = spec->start,
        .reserve_tokens = reserve.tokens,
        .reserve_period_ns = reserve.period_ns,
        .reserve_burst = reserve.burst,
    };

    if (spec->name != NULL)
        memcpy(limit.name, spec->name, strlen(spec->name) + 1);
    if (!ration_limit_has_windows(limit.algorithm) && limit.refill == RATION_REFILL_CONTINUOUS)
        limit.rate = derive_rate(bare);
    if (limit.algorithm == RATION_BURST_RESERVE)
        limit.reserve_rate = derive_rate(reserve);
    derive_start(&limit, spec->start_tokens);
    return limit;
}

static void append_nearest(struct ration_error *error, const struct ration_limit_spec *spec)
{
    struct ration_limit_nearest nearest = ration_limit_find_nearest(spec);

    for (size_t index = 0; index < nearest.count; index++) {
        char text[RATION_LIMIT_TEXT_SIZE];
        struct ration_limit limit = derive_limit(&nearest.limits[index]);
        size_t used = strlen(error->message);

        limit.name[0] = 0;
        ration_limit_print(&limit, text, sizeof(text));
        snprintf(error->message + used, sizeof(error->message) - used, "%s%s",
                 index == 0 ? "; the nearest valid limit: " : ", or ", text);
    }
}

ration_status ration_limit_make(const struct ration_limit_spec *spec,
                                struct ration_limit *out_limit, struct ration_error *error)
{
    ration_status status = ration_limit_check(spec, error);

    if (status == RATION_OK)
        *out_limit = derive_limit(spec);
    else if (status == RATION_ERANGE && error != NULL)
        append_nearest(error, spec);
    return status;
}

uint64_t ration_limit_fill_ns(const struct ration_limit *limit)
{
    uint64_t main_ns = ration_time_ceil_ns(limit->rate.capacity);
    uint64_t reserve_ns = ration_time_ceil_ns(limit->reserve_rate.capacity);

    if (limit->algorithm == RATION_SLIDING_WINDOW)
        return 2 * limit->period_ns;
    if (ration_limit_has_windows(limit->algorithm))
        return limit->period_ns;
    if (limit->refill == RATION_REFILL_INTERVAL)
        return (limit->burst - 1) / limit->tokens * limit->period_ns + limit->period_ns;
    return reserve_ns > main_ns ? reserve_ns : main_ns;
}

ration_status ration_limit_per(uint64_t tokens, uint64_t period_ns, struct ration_limit *out_limit)
{
    struct ration_limit_spec spec = {.tokens = tokens, .period_ns = period_ns};

    return ration_limit_make(&spec, out_limit, NULL);
}

ration_status ration_limit_per_second(uint64_t tokens, struct ration_limit *out_limit)
{
    return ration_limit_per(tokens, RATION_NS_PER_SECOND, out_limit);
}

ration_status ration_limit_per_minute(uint64_t tokens, struct ration_limit *out_limit)
{
    return ration_limit_per(tokens, RATION_NS_PER_MINUTE, out_limit);
}

ration_status ration_limit_per_hour(uint64_t tokens, struct ration_limit *out_limit)
{
    return ration_limit_per(tokens, RATION_NS_PER_HOUR, out_limit);
}
