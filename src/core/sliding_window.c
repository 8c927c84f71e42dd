#include "core/sliding_window.h"

#include "base/wide.h"

/*
 * The counts as seen at now: advanced by a window or more, or a later stored window. A state
 * without counts is treated as not stored (R7).
 */
static struct ration_sliding_window window_at(struct ration_sliding_window state,
                                              const struct ration_limit *limit, uint64_t now_ns)
{
    uint64_t end_ns = (now_ns / limit->period_ns + 1) * limit->period_ns;

    if (state.current_tokens == 0 && state.previous_tokens == 0)
        return (struct ration_sliding_window){end_ns, 0, 0};
    if (state.end_ns >= end_ns)
        return state;
    if (end_ns - state.end_ns == limit->period_ns)
        return (struct ration_sliding_window){end_ns, state.current_tokens, 0};
    return (struct ration_sliding_window){end_ns, 0, 0};
}

/* How much of the current window is still to come: the previous count's weight, times W. */
static uint64_t window_left_ns(struct ration_sliding_window window,
                               const struct ration_limit *limit, uint64_t now_ns)
{
    uint64_t left = window.end_ns - now_ns;

    return left < limit->period_ns ? left : limit->period_ns;
}

/* The most that may be left of a window so that count, weighted by it, is at most room. */
static uint64_t window_left_max_ns(uint64_t count_tokens, uint64_t room_tokens,
                                   const struct ration_limit *limit)
{
    return ration_wide_divide(ration_wide_multiply(room_tokens, limit->period_ns),
                              (struct ration_wide){0, count_tokens});
}

/*
 * The wait of a cost that does not fit now. If the current count leaves room, the previous count
 * has to lose weight: the cost fits at some time in this window, at the latest at its end. If not,
 * this window's count must become the previous one and lose weight.
 */
static uint64_t wait_ns(struct ration_sliding_window window, const struct ration_limit *limit,
                        uint64_t cost_tokens, uint64_t now_ns)
{
    uint64_t room = limit->tokens - cost_tokens;

    if (window.current_tokens <= room)
        return window.end_ns - now_ns -
               window_left_max_ns(window.previous_tokens, room - window.current_tokens, limit);
    return window.end_ns - now_ns + limit->period_ns -
           window_left_max_ns(window.current_tokens, room, limit);
}

/* Whether previous * left / W + current + cost <= tokens. */
static bool cost_fits(struct ration_sliding_window window, const struct ration_limit *limit,
                      uint64_t cost_tokens, uint64_t now_ns)
{
    uint64_t room = limit->tokens - cost_tokens;

    if (window.current_tokens > room)
        return false;
    return !ration_wide_less(
        ration_wide_multiply(room - window.current_tokens, limit->period_ns),
        ration_wide_multiply(window.previous_tokens, window_left_ns(window, limit, now_ns)));
}

struct ration_step ration_sliding_window_take(struct ration_sliding_window state,
                                              const struct ration_limit *limit,
                                              uint64_t cost_tokens, uint64_t now_ns)
{
    struct ration_step step = {RATION_ALLOW, 0, {.sliding = state}};

    if (ration_state_step_is_plain(&step, cost_tokens, limit->tokens))
        return step;

    struct ration_sliding_window window = window_at(state, limit, now_ns);

    if (!cost_fits(window, limit, cost_tokens, now_ns)) {
        step.verdict = RATION_DENY;
        step.wait_ns = wait_ns(window, limit, cost_tokens, now_ns);
        return step;
    }
    window.current_tokens += (uint32_t)cost_tokens;
    step.next.sliding = window;
    return step;
}

uint64_t ration_sliding_window_remaining(struct ration_sliding_window state,
                                         const struct ration_limit *limit, uint64_t now_ns)
{
    struct ration_sliding_window window = window_at(state, limit, now_ns);
    uint64_t weighted = ration_wide_divide_up(
        ration_wide_multiply(window.previous_tokens, window_left_ns(window, limit, now_ns)),
        (struct ration_wide){0, limit->period_ns});
    uint64_t used = window.current_tokens + weighted;

    return used < limit->tokens ? limit->tokens - used : 0;
}

uint64_t ration_sliding_window_full_after_ns(struct ration_sliding_window state,
                                             const struct ration_limit *limit, uint64_t now_ns)
{
    struct ration_sliding_window window = window_at(state, limit, now_ns);

    if (window.current_tokens > 0)
        return window.end_ns - now_ns + limit->period_ns;
    return window.previous_tokens > 0 ? window.end_ns - now_ns : 0;
}

static uint32_t subtract_tokens(uint32_t count, uint64_t tokens)
{
    return tokens < count ? count - (uint32_t)tokens : 0;
}

struct ration_sliding_window ration_sliding_window_refund(struct ration_sliding_window state,
                                                          const struct ration_limit *limit,
                                                          uint64_t tokens, uint64_t now_ns)
{
    struct ration_sliding_window window = window_at(state, limit, now_ns);

    if (tokens > window.current_tokens)
        window.previous_tokens =
            subtract_tokens(window.previous_tokens, tokens - window.current_tokens);
    window.current_tokens = subtract_tokens(window.current_tokens, tokens);
    return window;
}

struct ration_sliding_window ration_sliding_window_release(struct ration_sliding_window state,
                                                           const struct ration_limit *limit,
                                                           const struct ration_release *release)
{
    uint64_t end_ns = release->mark.sliding.end_ns;

    if (state.end_ns == end_ns)
        state.current_tokens = subtract_tokens(state.current_tokens, release->unused_tokens);
    else if (state.end_ns == end_ns + limit->period_ns)
        state.previous_tokens = subtract_tokens(state.previous_tokens, release->unused_tokens);
    return state;
}

struct ration_sliding_window ration_sliding_window_charge(struct ration_sliding_window state,
                                                          const struct ration_limit *limit,
                                                          uint64_t tokens, uint64_t now_ns)
{
    struct ration_sliding_window window = window_at(state, limit, now_ns);
    uint32_t room = UINT32_MAX - window.current_tokens;

    window.current_tokens += tokens < room ? (uint32_t)tokens : room;
    return window;
}

struct ration_sliding_window ration_sliding_window_set(const struct ration_limit *limit,
                                                       uint64_t tokens, uint64_t now_ns)
{
    struct ration_sliding_window window =
        window_at((struct ration_sliding_window){0, 0, 0}, limit, now_ns);

    window.current_tokens = tokens < limit->tokens ? (uint32_t)(limit->tokens - tokens) : 0;
    return window;
}
