#include "ration/retry.h"

#include "base/random.h"

static uint64_t add_saturating(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static uint64_t min_u64(uint64_t value, uint64_t max)
{
    return value < max ? value : max;
}

ration_status ration_retry_init(struct ration_retry *out_retry, enum ration_jitter jitter,
                                uint64_t base_ns, uint64_t cap_ns, uint64_t seed)
{
    if (base_ns == 0 || base_ns > cap_ns || (unsigned)jitter > RATION_JITTER_DECORRELATED)
        return RATION_EINVAL;
    *out_retry = (struct ration_retry){jitter, base_ns, cap_ns, 0, seed};
    return RATION_OK;
}

/* Between base and three times the last random part, at most cap. */
static uint64_t decorrelated_ns(struct ration_retry *retry)
{
    uint64_t last = retry->last_ns > 0 ? retry->last_ns : retry->base_ns;
    uint64_t tripled = add_saturating(last, add_saturating(last, last));

    retry->last_ns =
        retry->base_ns +
        ration_random_up_to(&retry->random_state, min_u64(tripled, retry->cap_ns) - retry->base_ns);
    return retry->last_ns;
}

/* The span of this denial: base at first, then doubled each time, at most cap. */
static uint64_t grow_span_ns(struct ration_retry *retry)
{
    uint64_t doubled = add_saturating(retry->last_ns, retry->last_ns);

    retry->last_ns = min_u64(doubled > 0 ? doubled : retry->base_ns, retry->cap_ns);
    return retry->last_ns;
}

static uint64_t jitter_ns(struct ration_retry *retry)
{
    if (retry->jitter == RATION_JITTER_DECORRELATED)
        return decorrelated_ns(retry);

    uint64_t span = grow_span_ns(retry);
    uint64_t fixed_part = retry->jitter == RATION_JITTER_EQUAL ? span / 2 : 0;

    return fixed_part + ration_random_up_to(&retry->random_state, span - fixed_part);
}

uint64_t ration_retry_next(struct ration_retry *retry, const struct ration_decision *decision)
{
    if (decision->verdict == RATION_NEVER)
        return RATION_FOREVER;
    if (decision->verdict == RATION_ALLOW) {
        retry->last_ns = 0;
        return decision->delay_ns;
    }
    /* Never shorter than retry_after_ns, and never equal to RATION_FOREVER ("do not retry"). */
    return min_u64(add_saturating(decision->retry_after_ns, jitter_ns(retry)), RATION_FOREVER - 1);
}
