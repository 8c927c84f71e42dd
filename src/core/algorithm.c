#include "core/algorithm.h"

/*
 * The kind of a limit's state. The token bucket and the queue differ only in the wait that a take
 * reports.
 */
enum state_kind { KIND_GCRA, KIND_INTERVAL, KIND_FIXED, KIND_SLIDING };

static enum state_kind state_kind_of(const struct ration_limit *limit)
{
    if (limit->algorithm == RATION_FIXED_WINDOW)
        return KIND_FIXED;
    if (limit->algorithm == RATION_SLIDING_WINDOW)
        return KIND_SLIDING;
    return limit->refill == RATION_REFILL_INTERVAL ? KIND_INTERVAL : KIND_GCRA;
}

struct ration_decision ration_algorithm_describe(const struct ration_limit *limit,
                                                 const struct ration_step *step, uint64_t now_ns)
{
    bool allowed = step->verdict == RATION_ALLOW;

    return (struct ration_decision){
        .verdict = step->verdict,
        .limit = limit->burst,
        .remaining = ration_algorithm_remaining(limit, step->next, now_ns),
        .retry_after_ns = allowed ? 0 : step->wait_ns,
        .reset_after_ns = ration_algorithm_full_after_ns(limit, step->next, now_ns),
        .delay_ns = allowed ? step->wait_ns : 0,
    };
}

uint64_t ration_algorithm_remaining(const struct ration_limit *limit, union ration_state state,
                                    uint64_t now_ns)
{
    now_ns = ration_time_clamp(now_ns);
    switch (state_kind_of(limit)) {
    case KIND_INTERVAL:
        return ration_interval_remaining(state.interval, limit, now_ns);
    case KIND_FIXED:
        return ration_fixed_window_remaining(state.fixed, limit, now_ns);
    case KIND_SLIDING:
        return ration_sliding_window_remaining(state.sliding, limit, now_ns);
    default:
        return ration_gcra_remaining(state.tat, &limit->rate, now_ns);
    }
}

uint64_t ration_algorithm_full_after_ns(const struct ration_limit *limit, union ration_state state,
                                        uint64_t now_ns)
{
    now_ns = ration_time_clamp(now_ns);
    switch (state_kind_of(limit)) {
    case KIND_INTERVAL:
        return ration_interval_full_after_ns(state.interval, now_ns);
    case KIND_FIXED:
        return ration_fixed_window_full_after_ns(state.fixed, now_ns);
    case KIND_SLIDING:
        return ration_sliding_window_full_after_ns(state.sliding, limit, now_ns);
    default:
        return ration_gcra_full_after_ns(state.tat, now_ns);
    }
}

union ration_state ration_algorithm_refund(const struct ration_limit *limit,
                                           union ration_state state, uint64_t tokens,
                                           uint64_t now_ns)
{
    now_ns = ration_time_clamp(now_ns);
    switch (state_kind_of(limit)) {
    case KIND_INTERVAL:
        state.interval = ration_interval_refund(state.interval, limit, tokens);
        break;
    case KIND_FIXED:
        state.fixed = ration_fixed_window_refund(state.fixed, tokens);
        break;
    case KIND_SLIDING:
        state.sliding = ration_sliding_window_refund(state.sliding, limit, tokens, now_ns);
        break;
    default:
        state.tat = ration_gcra_refund(state.tat, &limit->rate, tokens);
    }
    return state;
}

union ration_state ration_algorithm_charge(const struct ration_limit *limit,
                                           union ration_state state, uint64_t tokens,
                                           uint64_t now_ns)
{
    now_ns = ration_time_clamp(now_ns);
    switch (state_kind_of(limit)) {
    case KIND_INTERVAL:
        state.interval = ration_interval_charge(state.interval, limit, tokens, now_ns);
        break;
    case KIND_FIXED:
        state.fixed = ration_fixed_window_charge(state.fixed, limit, tokens, now_ns);
        break;
    case KIND_SLIDING:
        state.sliding = ration_sliding_window_charge(state.sliding, limit, tokens, now_ns);
        break;
    default:
        state.tat = ration_gcra_charge(state.tat, &limit->rate, tokens, now_ns);
    }
    return state;
}

union ration_state ration_algorithm_set(const struct ration_limit *limit, uint64_t tokens,
                                        uint64_t now_ns)
{
    now_ns = ration_time_clamp(now_ns);
    switch (state_kind_of(limit)) {
    case KIND_INTERVAL:
        return (union ration_state){.interval = ration_interval_set(limit, tokens, now_ns)};
    case KIND_FIXED:
        return (union ration_state){.fixed = ration_fixed_window_set(limit, tokens, now_ns)};
    case KIND_SLIDING:
        return (union ration_state){.sliding = ration_sliding_window_set(limit, tokens, now_ns)};
    default:
        return (union ration_state){.tat = ration_gcra_set(&limit->rate, tokens, now_ns)};
    }
}

union ration_state ration_algorithm_start(const struct ration_limit *limit, uint64_t now_ns)
{
    if (limit->start == RATION_START_FULL)
        return (union ration_state){.words = {0, 0}};
    return ration_algorithm_set(limit, limit->start_tokens, now_ns);
}

bool ration_algorithm_can_block(const struct ration_limit *limit)
{
    return state_kind_of(limit) == KIND_GCRA || state_kind_of(limit) == KIND_INTERVAL;
}

union ration_state ration_algorithm_block(const struct ration_limit *limit,
                                          union ration_state state, uint64_t until_ns)
{
    until_ns = ration_time_clamp(until_ns);
    if (state_kind_of(limit) == KIND_INTERVAL)
        state.interval = ration_interval_block(state.interval, limit, until_ns);
    else
        state.tat = ration_gcra_block(state.tat, &limit->rate, until_ns);
    return state;
}

/*
 * In a queue every position is a promise, even one already used: the next must follow at a token's
 * distance. Only the last reservation returns tokens.
 */
static struct ration_time queue_release(const struct ration_limit *limit, struct ration_time tat,
                                        const struct ration_release *release)
{
    return ration_state_release_is_last(release, (union ration_state){.tat = tat})
               ? ration_gcra_refund(tat, &limit->rate, release->unused_tokens)
               : tat;
}

static struct ration_time gcra_release(const struct ration_limit *limit, struct ration_time tat,
                                       const struct ration_release *release, uint64_t now_ns)
{
    if (limit->algorithm == RATION_LEAKY_QUEUE)
        return queue_release(limit, tat, release);
    return ration_gcra_release(tat, &limit->rate,
                               &(struct ration_gcra_release){
                                   .mark = release->mark.tat,
                                   .cost_tokens = release->cost_tokens,
                                   .unused_tokens = release->unused_tokens,
                                   .turn_ns = release->turn_ns,
                                   .returned_tokens = release->returned_tokens,
                               },
                               now_ns);
}

union ration_state ration_algorithm_release(const struct ration_limit *limit,
                                            union ration_state state,
                                            const struct ration_release *release, uint64_t now_ns)
{
    /* another limit of the key may have a waiting reservation that this bucket does not show */
    bool may_return = !release->is_waited || ration_state_release_is_last(release, state);

    now_ns = ration_time_clamp(now_ns);
    if (ration_state_release_is_undone(release, state))
        return release->before;
    switch (state_kind_of(limit)) {
    case KIND_INTERVAL:
        if (may_return)
            state.interval = ration_interval_release(state.interval, limit, release, now_ns);
        break;
    case KIND_FIXED:
        state.fixed = ration_fixed_window_release(state.fixed, release);
        break;
    case KIND_SLIDING:
        state.sliding = ration_sliding_window_release(state.sliding, limit, release);
        break;
    default:
        if (may_return)
            state.tat = gcra_release(limit, state.tat, release, now_ns);
    }
    return state;
}

uint64_t ration_algorithm_returned(const struct ration_limit *limit, union ration_state before,
                                   union ration_state after, uint64_t now_ns)
{
    now_ns = ration_time_clamp(now_ns);
    switch (state_kind_of(limit)) {
    case KIND_INTERVAL:
        return ration_interval_returned(before.interval, after.interval, limit, now_ns);
    case KIND_GCRA:
        return ration_gcra_returned(before.tat, after.tat, &limit->rate, now_ns);
    default:
        return 0;
    }
}

bool ration_algorithm_is_waited(const struct ration_limit *limit, union ration_state state,
                                uint64_t now_ns)
{
    now_ns = ration_time_clamp(now_ns);
    switch (state_kind_of(limit)) {
    case KIND_INTERVAL:
        return ration_interval_is_waited(state.interval, limit, now_ns);
    case KIND_GCRA:
        if (limit->algorithm == RATION_LEAKY_QUEUE)
            return ration_gcra_full_after_ns(state.tat, now_ns) > 0;
        return ration_gcra_is_waited(state.tat, &limit->rate, now_ns);
    default:
        return false;
    }
}
