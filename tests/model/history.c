#include "history.h"

#include <string.h>

void history_init(struct history *h, const struct ration_limit *limit)
{
    memset(h, 0, sizeof *h);
    h->limit = limit;
}

static const struct history_entry *entry_at(const struct history *h, uint64_t index)
{
    return &h->entries[index % HISTORY_COUNT_MAX];
}

static uint64_t oldest_index(const struct history *h)
{
    return h->count > HISTORY_COUNT_MAX ? h->count - HISTORY_COUNT_MAX : 0;
}

/* Adds the admitted tokens to the excess and subtracts the refill of dt; returns the new excess. */
static model_units excess_after(struct history *h, model_units admitted, model_units per_ns,
                                uint64_t at_ns)
{
    model_units brought = per_ns * (model_units)(at_ns - h->last_ns);

    h->excess = (h->excess > brought ? h->excess - brought : 0) + admitted;
    h->last_ns = at_ns;
    return h->excess;
}

static bool admit_tokens(struct history *h, uint64_t tokens, uint64_t at_ns)
{
    const struct ration_limit *limit = h->limit;
    model_units period = (model_units)limit->period_ns;

    return excess_after(h, (model_units)tokens * period, (model_units)limit->tokens, at_ns) <=
           (model_units)limit->burst * period;
}

/* The sum of both buckets, where its exact form fits 128 bits. */
static bool admit_reserve(struct history *h, uint64_t tokens, uint64_t at_ns)
{
    const struct ration_limit *limit = h->limit;
    model_units period = (model_units)limit->period_ns;
    model_units other = (model_units)limit->reserve_period_ns;
    model_units both = period * other;
    model_units per_ns =
        (model_units)limit->tokens * other + (model_units)limit->reserve_tokens * period;
    model_units burst = (model_units)limit->burst + (model_units)limit->reserve_burst;
    model_units product;

    if (__builtin_mul_overflow(both, 2 * burst, &product) ||
        __builtin_mul_overflow(per_ns, (model_units)(at_ns - h->last_ns), &product))
        return true;
    return excess_after(h, (model_units)tokens * both, per_ns, at_ns) <= burst * both;
}

/* Departures are one token's time apart, except for the resolution of the clock. */
static bool admit_queue(struct history *h, uint64_t tokens, uint64_t at_ns)
{
    const struct ration_limit *limit = h->limit;
    model_units period = (model_units)limit->period_ns;

    /* The work queued before this one must be done when it goes. */
    model_units rest = excess_after(h, 0, (model_units)limit->tokens, at_ns);
    h->excess = rest + (model_units)tokens * period;
    return rest <= (model_units)limit->tokens;
}

static bool admit_interval(const struct history *h, uint64_t at_ns)
{
    const struct ration_limit *limit = h->limit;
    model_units sum = 0;

    for (uint64_t i = h->count; i > oldest_index(h); i--) {
        const struct history_entry *entry = entry_at(h, i - 1);
        uint64_t intervals = (at_ns - entry->at_ns) / limit->period_ns + 1;

        sum += (model_units)entry->tokens;
        if (sum > (model_units)limit->burst + (model_units)limit->tokens * (model_units)intervals)
            return false;
    }
    return true;
}

/* Tokens of the newest entries within one window that ends at the newest, open at its start. */
static model_units in_last_window(const struct history *h, uint64_t at_ns)
{
    model_units sum = 0;

    for (uint64_t i = h->count; i > oldest_index(h); i--) {
        const struct history_entry *entry = entry_at(h, i - 1);

        if (at_ns - entry->at_ns >= h->limit->period_ns)
            break;
        sum += (model_units)entry->tokens;
    }
    return sum;
}

static bool admit_aligned(struct history *h, uint64_t tokens, uint64_t at_ns)
{
    uint64_t index = at_ns / h->limit->period_ns;

    if (index != h->window_index)
        h->window_tokens = 0;
    h->window_index = index;
    h->window_tokens += tokens;
    return h->window_tokens <= h->limit->tokens;
}

bool history_admit(struct history *h, uint64_t tokens, uint64_t at_ns)
{
    model_units limit_tokens = (model_units)h->limit->tokens;

    if (h->count == 0)
        h->last_ns = at_ns;
    h->entries[h->count++ % HISTORY_COUNT_MAX] = (struct history_entry){at_ns, tokens};

    switch (h->limit->algorithm) {
    case RATION_BURST_RESERVE:
        return admit_reserve(h, tokens, at_ns);
    case RATION_LEAKY_QUEUE:
        return admit_queue(h, tokens, at_ns);
    case RATION_FIXED_WINDOW:
        return admit_aligned(h, tokens, at_ns);
    case RATION_SLIDING_WINDOW:
        return admit_aligned(h, tokens, at_ns) && in_last_window(h, at_ns) <= 2 * limit_tokens;
    case RATION_SLIDING_LOG:
        return in_last_window(h, at_ns) <= limit_tokens;
    default:
        if (h->limit->refill == RATION_REFILL_INTERVAL)
            return admit_interval(h, at_ns);
        return admit_tokens(h, tokens, at_ns);
    }
}

bool history_is_greedy_enough(const struct ration_limit *limit, uint64_t admitted_tokens,
                              uint64_t first_ns, uint64_t last_ns)
{
    model_units per_second =
        (model_units)limit->tokens * 1000000000 / (model_units)limit->period_ns;
    model_units part = per_second <= 1000000 ? 1000000000 : 1000000;
    model_units period = (model_units)limit->period_ns;

    /* With a burst of 1 nothing can be saved up, not even a fraction of a nanosecond. */
    if (limit->burst == 1)
        period += (model_units)limit->tokens;

    model_units due = (model_units)limit->tokens * (model_units)(last_ns - first_ns);
    model_units got = ((model_units)admitted_tokens + 1 - (model_units)limit->burst) * period;

    return got >= due - due / part - 1;
}
