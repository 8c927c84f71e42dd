#include "core/fixed_window.h"

/* The window that now counts in: its own, or a later stored one that was used. */
static struct ration_fixed_window window_at(struct ration_fixed_window state,
                                            const struct ration_limit *limit, uint64_t now_ns)
{
    uint64_t end_ns = (now_ns / limit->period_ns + 1) * limit->period_ns;

    if (state.end_ns >= end_ns && state.count_tokens > 0)
        return state;
    return (struct ration_fixed_window){end_ns, 0};
}

struct ration_step ration_fixed_window_take(struct ration_fixed_window state,
                                            const struct ration_limit *limit, uint64_t cost_tokens,
                                            uint64_t now_ns)
{
    struct ration_step step = {RATION_ALLOW, 0, {.fixed = state}};

    if (ration_state_step_is_plain(&step, cost_tokens, limit->tokens))
        return step;

    struct ration_fixed_window window = window_at(state, limit, now_ns);

    if (window.count_tokens > limit->tokens - cost_tokens) {
        step.verdict = RATION_DENY;
        step.wait_ns = window.end_ns - now_ns;
        return step;
    }
    window.count_tokens += cost_tokens;
    step.next.fixed = window;
    return step;
}

uint64_t ration_fixed_window_remaining(struct ration_fixed_window state,
                                       const struct ration_limit *limit, uint64_t now_ns)
{
    uint64_t count = window_at(state, limit, now_ns).count_tokens;

    return count < limit->tokens ? limit->tokens - count : 0;
}

uint64_t ration_fixed_window_full_after_ns(struct ration_fixed_window state, uint64_t now_ns)
{
    if (state.count_tokens == 0 || state.end_ns <= now_ns)
        return 0;
    return state.end_ns - now_ns;
}

struct ration_fixed_window ration_fixed_window_refund(struct ration_fixed_window state,
                                                      uint64_t tokens)
{
    state.count_tokens -= tokens < state.count_tokens ? tokens : state.count_tokens;
    return state;
}

struct ration_fixed_window ration_fixed_window_release(struct ration_fixed_window state,
                                                       const struct ration_release *release)
{
    if (state.end_ns != release->mark.fixed.end_ns)
        return state;
    return ration_fixed_window_refund(state, release->unused_tokens);
}

struct ration_fixed_window ration_fixed_window_charge(struct ration_fixed_window state,
                                                      const struct ration_limit *limit,
                                                      uint64_t tokens, uint64_t now_ns)
{
    struct ration_fixed_window window = window_at(state, limit, now_ns);
    uint64_t room = UINT64_MAX - window.count_tokens;

    window.count_tokens += tokens < room ? tokens : room;
    return window;
}

struct ration_fixed_window ration_fixed_window_set(const struct ration_limit *limit,
                                                   uint64_t tokens, uint64_t now_ns)
{
    struct ration_fixed_window window =
        window_at((struct ration_fixed_window){0, 0}, limit, now_ns);

    window.count_tokens = tokens < limit->tokens ? limit->tokens - tokens : 0;
    return window;
}
