#include "core/change.h"

#include "core/algorithm.h"
#include "core/interval.h"

bool ration_change_is_none(const struct ration_limit *a, const struct ration_limit *b)
{
    return a->tokens == b->tokens && a->period_ns == b->period_ns && a->burst == b->burst &&
           a->algorithm == b->algorithm && a->refill == b->refill &&
           a->reserve_tokens == b->reserve_tokens && a->reserve_period_ns == b->reserve_period_ns &&
           a->reserve_burst == b->reserve_burst;
}

/* Converts the time of the tokens left under the old rate into time of the new one. */
static struct ration_time convert_left(struct ration_time left, const struct ration_rate *old_rate,
                                       const struct ration_rate *new_rate)
{
    struct ration_wide old_token = ration_wide_from_time(old_rate->token);
    uint64_t whole = ration_wide_divide(ration_wide_from_time(left), old_token);

    if (whole >= new_rate->burst)
        return new_rate->capacity;

    struct ration_time part = ration_time_sub(left, ration_time_scale(old_rate->token, whole));
    struct ration_wide new_part = ration_wide_multiply_divide(
        ration_wide_from_time(part), ration_wide_from_time(new_rate->token), old_token);

    return ration_time_add(ration_time_scale(new_rate->token, whole),
                           ration_wide_to_time(new_part));
}

/* By how much the old token's time exceeds the new one's. */
static struct ration_time token_excess(const struct ration_rate *old_rate,
                                       const struct ration_rate *new_rate)
{
    return ration_time_sub_or_zero(old_rate->token, new_rate->token);
}

struct ration_time ration_change_rate(struct ration_time tat, const struct ration_rate *old_rate,
                                      const struct ration_rate *new_rate, uint64_t now_ns)
{
    struct ration_time now = ration_time_from_ns(ration_time_clamp(now_ns));
    struct ration_time tat_max = ration_time_from_ns(RATION_NOW_MAX_NS + RATION_SPAN_NS);

    if (!ration_time_less(now, tat))
        return tat;

    struct ration_time used = ration_time_sub(tat, now);

    if (ration_time_less(old_rate->capacity, used)) {
        struct ration_time empty = ration_time_sub(tat, old_rate->capacity);
        struct ration_time next = ration_time_add(ration_time_add(empty, new_rate->capacity),
                                                  token_excess(old_rate, new_rate));

        return ration_time_less(tat_max, next) ? tat_max : next;
    }

    struct ration_time left = ration_time_sub(old_rate->capacity, used);

    return ration_time_add(
        now, ration_time_sub(new_rate->capacity, convert_left(left, old_rate, new_rate)));
}

/* A stale now lies before the stored window; the change then happens in that window. */
static uint64_t clamp_to_window(union ration_state state, const struct ration_limit *limit,
                                uint64_t now_ns)
{
    uint64_t end_ns = limit->algorithm == RATION_FIXED_WINDOW     ? state.fixed.end_ns
                      : limit->algorithm == RATION_SLIDING_WINDOW ? state.sliding.end_ns
                                                                  : 0;

    if (end_ns > now_ns && end_ns - now_ns > limit->period_ns)
        return end_ns - limit->period_ns;
    return now_ns;
}

/*
 * Between algorithms: keeps whole tokens. If there are none, it keeps the time at which one is
 * available: a bucket can store it; a window that contains the nanosecond before it is used up.
 */
static union ration_state keep_tokens(union ration_state state,
                                      const struct ration_limit *old_limit,
                                      const struct ration_limit *new_limit, uint64_t now_ns)
{
    uint64_t tokens = ration_algorithm_remaining(old_limit, state, now_ns);

    if (tokens > 0)
        return ration_algorithm_set(new_limit, tokens, now_ns);

    uint64_t wait_ns = ration_algorithm_take(old_limit, state, 1, 0, now_ns).wait_ns;

    if (!ration_algorithm_can_block(new_limit))
        return ration_algorithm_set(new_limit, 0, now_ns + wait_ns - 1);
    return ration_algorithm_block(new_limit, ration_algorithm_set(new_limit, 0, now_ns),
                                  now_ns + wait_ns);
}

/*
 * A full bucket keeps the time since which it is full, for a now that ran ahead and is followed by
 * an earlier one. For a window that time is its end, which need not be kept. The spare tokens of an
 * interval are kept where one refill of the new limit is larger than that.
 */
static union ration_state keep_full(union ration_state state, const struct ration_limit *new_limit,
                                    bool both_store_time, bool same_refill)
{
    if (!both_store_time)
        return (union ration_state){.words = {0, 0}};
    if (!same_refill || (new_limit->refill == RATION_REFILL_INTERVAL &&
                         state.interval.spare_tokens >= new_limit->tokens))
        state.words[1] = 0;
    return state;
}

union ration_state ration_change_keep(union ration_state state,
                                      const struct ration_limit *old_limit,
                                      const struct ration_limit *new_limit, uint64_t now_ns)
{
    bool both_store_time =
        ration_algorithm_can_block(old_limit) && ration_algorithm_can_block(new_limit);
    bool same_refill = old_limit->refill == new_limit->refill;

    if (ration_change_is_none(old_limit, new_limit))
        return state;
    now_ns = clamp_to_window(state, old_limit, ration_time_clamp(now_ns));
    if (ration_algorithm_is_idle(old_limit, state, now_ns))
        return keep_full(state, new_limit, both_store_time, same_refill);
    if (!both_store_time || !same_refill)
        return keep_tokens(state, old_limit, new_limit, now_ns);
    if (old_limit->refill == RATION_REFILL_INTERVAL)
        return (union ration_state){
            .interval = ration_interval_change(state.interval, old_limit, new_limit, now_ns)};
    return (union ration_state){
        .tat = ration_change_rate(state.tat, &old_limit->rate, &new_limit->rate, now_ns)};
}
