#include "core/interval.h"

#include <stdbool.h>

#include "base/time.h"
#include "base/u64.h"
#include "base/wide.h"
#include "core/gcra.h"

/* Grid points still to come until the bucket is full. */
static uint64_t points_until_full(struct ration_interval state, const struct ration_limit *limit,
                                  uint64_t now_ns)
{
    if (state.full_at_ns <= now_ns)
        return 0;
    return (state.full_at_ns - now_ns - 1) / limit->period_ns + 1;
}

/* No overflow: amount <= interval, so the product is at most full_at - now + interval. */
static uint64_t tokens_in_use(struct ration_interval state, const struct ration_limit *limit,
                              uint64_t now_ns)
{
    uint64_t points = points_until_full(state, limit, now_ns);

    return points == 0 ? 0 : points * limit->tokens - state.spare_tokens;
}

/*
 * The state with in_use_tokens in use, on a grid of which full_at is a point, `points` points after
 * now. At least that many are needed.
 */
static struct ration_interval state_with_in_use(uint64_t full_at_ns, uint64_t points,
                                                uint64_t in_use_tokens,
                                                const struct ration_limit *limit)
{
    uint64_t needed = in_use_tokens == 0 ? 0 : (in_use_tokens - 1) / limit->tokens + 1;

    return (struct ration_interval){full_at_ns + (needed - points) * limit->period_ns,
                                    needed * limit->tokens - in_use_tokens};
}

/* More tokens in use, on the grid of the state; a full bucket starts its grid at now. */
static struct ration_interval add_in_use(struct ration_interval state,
                                         const struct ration_limit *limit, uint64_t tokens,
                                         uint64_t now_ns)
{
    uint64_t points = points_until_full(state, limit, now_ns);

    if (points == 0)
        return state_with_in_use(now_ns, 0, tokens, limit);
    return state_with_in_use(state.full_at_ns, points, tokens_in_use(state, limit, now_ns) + tokens,
                             limit);
}

/* How long from now until at most burst tokens are in use. */
static uint64_t wait_until_ready_ns(struct ration_interval state, const struct ration_limit *limit,
                                    uint64_t now_ns)
{
    uint64_t points = (limit->burst + state.spare_tokens) / limit->tokens;
    uint64_t reached_ns = now_ns + points * limit->period_ns;

    return state.full_at_ns > reached_ns ? state.full_at_ns - reached_ns : 0;
}

struct ration_step ration_interval_take(struct ration_interval state,
                                        const struct ration_limit *limit, uint64_t cost_tokens,
                                        uint64_t max_wait_ns, uint64_t now_ns)
{
    struct ration_step step = {RATION_ALLOW, 0, {.interval = state}};

    if (ration_state_step_is_plain(&step, cost_tokens, limit->burst))
        return step;

    struct ration_interval next = add_in_use(state, limit, cost_tokens, now_ns);

    step.wait_ns = wait_until_ready_ns(next, limit, now_ns);
    if (step.wait_ns > max_wait_ns || step.wait_ns > RATION_WAIT_NS_MAX)
        step.verdict = RATION_DENY;
    else if (step.wait_ns == 0)
        step.next.interval = next;
    else /* charged for its ready time: refills until then pay for tokens in use now, not for
            this cost */
        step.next.interval = add_in_use(state, limit, cost_tokens, now_ns + step.wait_ns);
    return step;
}

uint64_t ration_interval_remaining(struct ration_interval state, const struct ration_limit *limit,
                                   uint64_t now_ns)
{
    uint64_t in_use = tokens_in_use(state, limit, now_ns);

    return in_use < limit->burst ? limit->burst - in_use : 0;
}

struct ration_interval ration_interval_refund(struct ration_interval state,
                                              const struct ration_limit *limit, uint64_t tokens)
{
    uint64_t points = tokens / limit->tokens;
    uint64_t spare = state.spare_tokens + tokens % limit->tokens;

    if (spare >= limit->tokens) {
        spare -= limit->tokens;
        points++;
    }
    if (points > state.full_at_ns / limit->period_ns)
        return (struct ration_interval){0, 0};
    return (struct ration_interval){state.full_at_ns - points * limit->period_ns, spare};
}

struct ration_interval ration_interval_charge(struct ration_interval state,
                                              const struct ration_limit *limit, uint64_t tokens,
                                              uint64_t now_ns)
{
    uint64_t tokens_max = RATION_SPAN_NS / limit->period_ns * limit->tokens;
    uint64_t full_at_max_ns = now_ns + RATION_SPAN_NS;

    if (tokens == 0)
        return state;
    if (tokens > tokens_max)
        tokens = tokens_max;

    struct ration_interval next = add_in_use(state, limit, tokens, now_ns);

    if (full_at_max_ns < state.full_at_ns)
        full_at_max_ns = state.full_at_ns;
    return next.full_at_ns > full_at_max_ns ? (struct ration_interval){full_at_max_ns, 0} : next;
}

struct ration_interval ration_interval_block(struct ration_interval state,
                                             const struct ration_limit *limit, uint64_t until_ns)
{
    if (tokens_in_use(state, limit, until_ns) >= limit->burst)
        return state;
    return state_with_in_use(until_ns, 0, limit->burst - 1, limit);
}

struct ration_interval ration_interval_set(const struct ration_limit *limit, uint64_t tokens,
                                           uint64_t now_ns)
{
    uint64_t in_use = tokens < limit->burst ? limit->burst - tokens : 0;

    return state_with_in_use(now_ns, 0, in_use, limit);
}

/* The tokens of a reservation that have not been refilled yet. */
static uint64_t outstanding_tokens(const struct ration_limit *limit,
                                   const struct ration_release *release, uint64_t now_ns)
{
    uint64_t by_mark = ration_u64_less(tokens_in_use(release->mark.interval, limit, now_ns),
                                       release->returned_tokens);
    uint64_t passed_ns = now_ns - release->turn_ns;
    uint64_t points = passed_ns == 0 ? 0 : passed_ns / limit->period_ns + 1;
    uint64_t points_max = release->cost_tokens / limit->tokens + 1;
    uint64_t paid = ration_u64_min(points, points_max) * limit->tokens;
    uint64_t by_turn = ration_u64_less(release->cost_tokens, paid);

    return ration_u64_max(by_mark, by_turn);
}

bool ration_interval_is_waited(struct ration_interval state, const struct ration_limit *limit,
                               uint64_t now_ns)
{
    return tokens_in_use(state, limit, now_ns) > limit->burst;
}

struct ration_interval ration_interval_release(struct ration_interval state,
                                               const struct ration_limit *limit,
                                               const struct ration_release *release,
                                               uint64_t now_ns)
{
    if (now_ns < release->turn_ns || ration_interval_is_waited(state, limit, now_ns))
        return state;
    return ration_interval_refund(
        state, limit,
        ration_u64_min(release->unused_tokens, outstanding_tokens(limit, release, now_ns)));
}

uint64_t ration_interval_returned(struct ration_interval before, struct ration_interval after,
                                  const struct ration_limit *limit, uint64_t now_ns)
{
    return ration_u64_less(tokens_in_use(before, limit, now_ns),
                           tokens_in_use(after, limit, now_ns));
}

/* Scales the rest of an interval to the same fraction of another one, rounded up. */
static uint64_t scale_interval_rest_ns(uint64_t part_ns, uint64_t old_period_ns,
                                       uint64_t new_period_ns)
{
    return ration_wide_divide_up(ration_wide_multiply(part_ns, new_period_ns),
                                 (struct ration_wide){0, old_period_ns});
}

struct ration_interval ration_interval_change(struct ration_interval state,
                                              const struct ration_limit *old_limit,
                                              const struct ration_limit *new_limit, uint64_t now_ns)
{
    uint64_t owed_ns = wait_until_ready_ns(state, old_limit, now_ns);
    uint64_t left = old_limit->burst - tokens_in_use(state, old_limit, now_ns + owed_ns);

    /*
     * One refill must be enough for the tokens that arrive at that time, so that none arrives
     * earlier.
     */
    if (owed_ns > 0 && left > new_limit->tokens)
        left = new_limit->tokens;

    uint64_t in_use = left < new_limit->burst ? new_limit->burst - left : 0;

    if (owed_ns > 0) {
        uint64_t longer_ns = new_limit->period_ns > old_limit->period_ns
                                 ? new_limit->period_ns - old_limit->period_ns
                                 : 0;

        return state_with_in_use(now_ns + owed_ns + longer_ns, 0, in_use, new_limit);
    }
    if (in_use == 0)
        return (struct ration_interval){0, 0};

    uint64_t points = points_until_full(state, old_limit, now_ns);
    uint64_t next_ns = state.full_at_ns - (points - 1) * old_limit->period_ns;

    return state_with_in_use(now_ns + scale_interval_rest_ns(next_ns - now_ns, old_limit->period_ns,
                                                             new_limit->period_ns),
                             1, in_use, new_limit);
}
