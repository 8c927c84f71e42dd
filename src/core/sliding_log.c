#include "core/sliding_log.h"

#include "base/time.h"

/* The word of the n-th oldest token, n from 0 to tokens - 1. */
static uint64_t *word_at(const struct ration_sliding_log *log, const struct ration_limit *limit,
                         uint64_t nth)
{
    return &log->back_at_ns[(log->head_index + nth) % limit->tokens];
}

static uint64_t newest(const struct ration_sliding_log *log, const struct ration_limit *limit)
{
    return *word_at(log, limit, limit->tokens - 1);
}

static void write_tokens(struct ration_sliding_log *log, const struct ration_limit *limit,
                         uint64_t tokens, uint64_t now_ns)
{
    uint64_t back_at_ns = now_ns + limit->period_ns;

    if (back_at_ns < newest(log, limit))
        back_at_ns = newest(log, limit);
    for (uint64_t nth = 0; nth < tokens; nth++)
        *word_at(log, limit, nth) = back_at_ns;
    log->head_index = (log->head_index + tokens) % limit->tokens;
}

struct ration_sliding_log_step ration_sliding_log_take(struct ration_sliding_log *log,
                                                       const struct ration_limit *limit,
                                                       uint64_t cost_tokens, uint64_t now_ns)
{
    now_ns = ration_time_clamp(now_ns);

    if (cost_tokens == 0)
        return (struct ration_sliding_log_step){RATION_ALLOW, 0};
    if (cost_tokens > limit->tokens)
        return (struct ration_sliding_log_step){RATION_NEVER, RATION_FOREVER};

    uint64_t back_at_ns = *word_at(log, limit, cost_tokens - 1);

    if (back_at_ns > now_ns)
        return (struct ration_sliding_log_step){RATION_DENY, back_at_ns - now_ns};
    write_tokens(log, limit, cost_tokens, now_ns);
    return (struct ration_sliding_log_step){RATION_ALLOW, 0};
}

struct ration_decision ration_sliding_log_describe(const struct ration_sliding_log *log,
                                                   const struct ration_limit *limit,
                                                   struct ration_sliding_log_step step,
                                                   uint64_t now_ns)
{
    return (struct ration_decision){
        .verdict = step.verdict,
        .limit = limit->tokens,
        .remaining = ration_sliding_log_remaining(log, limit, now_ns),
        .retry_after_ns = step.wait_ns,
        .reset_after_ns = ration_sliding_log_full_after_ns(log, limit, now_ns),
    };
}

/* The ring is in order from the head, so the available tokens are a prefix: bisect. */
uint64_t ration_sliding_log_remaining(const struct ration_sliding_log *log,
                                      const struct ration_limit *limit, uint64_t now_ns)
{
    now_ns = ration_time_clamp(now_ns);

    uint64_t low = 0;
    uint64_t high = limit->tokens;

    while (low < high) {
        uint64_t middle = low + (high - low) / 2;

        if (*word_at(log, limit, middle) <= now_ns)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

uint64_t ration_sliding_log_full_after_ns(const struct ration_sliding_log *log,
                                          const struct ration_limit *limit, uint64_t now_ns)
{
    now_ns = ration_time_clamp(now_ns);

    uint64_t back_at_ns = newest(log, limit);

    return back_at_ns > now_ns ? back_at_ns - now_ns : 0;
}

void ration_sliding_log_refund(struct ration_sliding_log *log, const struct ration_limit *limit,
                               uint64_t tokens)
{
    if (tokens > limit->tokens)
        tokens = limit->tokens;
    /* The newest become the oldest, as times long past. */
    log->head_index = (log->head_index + limit->tokens - tokens) % limit->tokens;
    for (uint64_t nth = 0; nth < tokens; nth++)
        *word_at(log, limit, nth) = 0;
}

void ration_sliding_log_charge(struct ration_sliding_log *log, const struct ration_limit *limit,
                               uint64_t tokens, uint64_t now_ns)
{
    now_ns = ration_time_clamp(now_ns);

    write_tokens(log, limit, tokens < limit->tokens ? tokens : limit->tokens, now_ns);
}

void ration_sliding_log_set(struct ration_sliding_log *log, const struct ration_limit *limit,
                            uint64_t tokens, uint64_t now_ns)
{
    now_ns = ration_time_clamp(now_ns);

    ration_sliding_log_refund(log, limit, limit->tokens);
    if (tokens < limit->tokens)
        write_tokens(log, limit, limit->tokens - tokens, now_ns);
}

void ration_sliding_log_change(const struct ration_sliding_log *old_log,
                               const struct ration_limit *old_limit,
                               struct ration_sliding_log *new_log,
                               const struct ration_limit *new_limit, uint64_t now_ns)
{
    uint64_t newest_ns = newest(old_log, old_limit);

    /* A stale now lies before the newest token was taken; the change then happens at that time. */
    now_ns = ration_time_clamp(now_ns);
    if (newest_ns > now_ns + old_limit->period_ns)
        now_ns = newest_ns - old_limit->period_ns;

    uint64_t left = ration_sliding_log_remaining(old_log, old_limit, now_ns);

    ration_sliding_log_set(new_log, new_limit, left == old_limit->tokens ? UINT64_MAX : left,
                           now_ns);
}
