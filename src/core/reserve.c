#include "core/reserve.h"

#include "base/u64.h"
#include "base/wide.h"
#include "core/change.h"
#include "core/gcra.h"

static const struct ration_rate *rate_of(const struct ration_limit *limit,
                                         enum ration_reserve_part part)
{
    return part == RATION_PART_SUSTAINED ? &limit->rate : &limit->reserve_rate;
}

static struct ration_reserve with_part(struct ration_reserve state, enum ration_reserve_part part,
                                       struct ration_time tat)
{
    state.tats[part] = tat;
    return state;
}

/* Charges one part, and moves the other one up to now. */
static struct ration_reserve charge_part(struct ration_reserve state, enum ration_reserve_part part,
                                         struct ration_time tat, uint64_t now_ns)
{
    struct ration_time now = ration_time_from_ns(now_ns);

    state.tats[RATION_PART_SUSTAINED] = ration_time_max(state.tats[RATION_PART_SUSTAINED], now);
    state.tats[RATION_PART_RESERVE] = ration_time_max(state.tats[RATION_PART_RESERVE], now);
    return with_part(state, part, tat);
}

static struct ration_reserve_step complete_decision(struct ration_reserve_step step,
                                                    const struct ration_limit *limit,
                                                    uint64_t now_ns)
{
    step.decision.limit = limit->rate.burst + limit->reserve_rate.burst;
    step.decision.remaining = ration_reserve_remaining(step.next, limit, now_ns);
    step.decision.reset_after_ns = ration_reserve_full_after_ns(step.next, now_ns);
    return step;
}

struct ration_reserve_step ration_reserve_take(struct ration_reserve state,
                                               const struct ration_limit *limit,
                                               uint64_t cost_tokens, uint64_t max_wait_ns,
                                               uint64_t now_ns)
{
    now_ns = ration_time_clamp(now_ns);

    struct ration_gcra_step sustained = ration_gcra_take(
        state.tats[RATION_PART_SUSTAINED], &limit->rate, cost_tokens, max_wait_ns, now_ns);
    struct ration_gcra_step reserve = ration_gcra_take(
        state.tats[RATION_PART_RESERVE], &limit->reserve_rate, cost_tokens, max_wait_ns, now_ns);
    bool uses_reserve = reserve.wait_ns < sustained.wait_ns; /* FOREVER exceeds any wait */
    enum ration_reserve_part part = uses_reserve ? RATION_PART_RESERVE : RATION_PART_SUSTAINED;
    const struct ration_gcra_step *chosen = uses_reserve ? &reserve : &sustained;
    struct ration_reserve_step step = {.part = part, .next = state};

    step.decision.verdict = chosen->verdict;
    if (chosen->verdict == RATION_ALLOW) {
        step.decision.delay_ns = chosen->wait_ns;
        step.next = cost_tokens > 0 ? charge_part(state, part, chosen->next, now_ns) : state;
    } else {
        step.decision.retry_after_ns = chosen->wait_ns;
    }
    return complete_decision(step, limit, now_ns);
}

uint64_t ration_reserve_remaining(struct ration_reserve state, const struct ration_limit *limit,
                                  uint64_t now_ns)
{
    now_ns = ration_time_clamp(now_ns);

    return ration_gcra_remaining(state.tats[RATION_PART_SUSTAINED], &limit->rate, now_ns) +
           ration_gcra_remaining(state.tats[RATION_PART_RESERVE], &limit->reserve_rate, now_ns);
}

uint64_t ration_reserve_full_after_ns(struct ration_reserve state, uint64_t now_ns)
{
    now_ns = ration_time_clamp(now_ns);

    return ration_gcra_full_after_ns(
        ration_time_max(state.tats[RATION_PART_SUSTAINED], state.tats[RATION_PART_RESERVE]),
        now_ns);
}

/* Whole tokens that a part lacks. */
static uint64_t missing_tokens(struct ration_reserve state, const struct ration_limit *limit,
                               enum ration_reserve_part part, bool is_rounded_up, uint64_t now_ns)
{
    struct ration_time now = ration_time_from_ns(now_ns);
    struct ration_time out = ration_time_sub_or_zero(state.tats[part], now);
    struct ration_wide token = ration_wide_from_time(rate_of(limit, part)->token);

    return is_rounded_up ? ration_wide_divide_up(ration_wide_from_time(out), token)
                         : ration_wide_divide(ration_wide_from_time(out), token);
}

static struct ration_reserve refund_part(struct ration_reserve state,
                                         const struct ration_limit *limit,
                                         enum ration_reserve_part part, uint64_t tokens)
{
    return with_part(state, part,
                     ration_gcra_refund(state.tats[part], rate_of(limit, part), tokens));
}

struct ration_reserve ration_reserve_refund(struct ration_reserve state,
                                            const struct ration_limit *limit, uint64_t tokens,
                                            uint64_t now_ns)
{
    now_ns = ration_time_clamp(now_ns);

    uint64_t fits = missing_tokens(state, limit, RATION_PART_SUSTAINED, false, now_ns);
    uint64_t reserve =
        ration_u64_min(ration_u64_less(tokens, fits),
                       missing_tokens(state, limit, RATION_PART_RESERVE, true, now_ns));

    state = refund_part(state, limit, RATION_PART_RESERVE, reserve);
    return refund_part(state, limit, RATION_PART_SUSTAINED, tokens - reserve);
}

/* As ration_state_release_is_last(), for the part that paid. */
static bool is_last_reservation(struct ration_reserve state, enum ration_reserve_part part,
                                const struct ration_reserve_release *release)
{
    return ration_time_same(state.tats[part], release->mark.tats[part]) &&
           release->returned_tokens == 0;
}

struct ration_reserve ration_reserve_release(struct ration_reserve state,
                                             const struct ration_limit *limit,
                                             enum ration_reserve_part part,
                                             const struct ration_reserve_release *release,
                                             uint64_t now_ns)
{
    struct ration_gcra_release gcra = {
        .mark = release->mark.tats[part],
        .cost_tokens = release->cost_tokens,
        .unused_tokens = release->unused_tokens,
        .turn_ns = release->turn_ns,
        .returned_tokens = release->returned_tokens,
    };

    now_ns = ration_time_clamp(now_ns);
    if (release->unused_tokens == release->cost_tokens &&
        is_last_reservation(state, part, release)) {
        int other = 1 - (int)part;

        /* A charge for a future time has moved the other part to that time. */
        if (ration_time_same(state.tats[other], release->mark.tats[other]))
            state.tats[other] = release->before.tats[other];
        return with_part(state, part, release->before.tats[part]);
    }
    if (release->is_waited && !is_last_reservation(state, part, release))
        return state;
    return with_part(state, part,
                     ration_gcra_release(state.tats[part], rate_of(limit, part), &gcra, now_ns));
}

bool ration_reserve_is_waited(struct ration_reserve state, const struct ration_limit *limit,
                              uint64_t now_ns)
{
    now_ns = ration_time_clamp(now_ns);

    return ration_gcra_is_waited(state.tats[RATION_PART_SUSTAINED], &limit->rate, now_ns) ||
           ration_gcra_is_waited(state.tats[RATION_PART_RESERVE], &limit->reserve_rate, now_ns);
}

uint64_t ration_reserve_returned(struct ration_reserve before, struct ration_reserve after,
                                 const struct ration_limit *limit, uint64_t now_ns)
{
    now_ns = ration_time_clamp(now_ns);

    uint64_t sustained =
        ration_gcra_returned(before.tats[RATION_PART_SUSTAINED], after.tats[RATION_PART_SUSTAINED],
                             &limit->rate, now_ns);
    uint64_t reserve =
        ration_gcra_returned(before.tats[RATION_PART_RESERVE], after.tats[RATION_PART_RESERVE],
                             &limit->reserve_rate, now_ns);

    return ration_u64_max(sustained, reserve);
}

struct ration_reserve ration_reserve_charge(struct ration_reserve state,
                                            const struct ration_limit *limit, uint64_t tokens,
                                            uint64_t now_ns)
{
    now_ns = ration_time_clamp(now_ns);

    return with_part(
        state, RATION_PART_SUSTAINED,
        ration_gcra_charge(state.tats[RATION_PART_SUSTAINED], &limit->rate, tokens, now_ns));
}

struct ration_reserve ration_reserve_block(struct ration_reserve state,
                                           const struct ration_limit *limit, uint64_t until_ns)
{
    until_ns = ration_time_clamp(until_ns);
    state.tats[RATION_PART_SUSTAINED] =
        ration_gcra_block(state.tats[RATION_PART_SUSTAINED], &limit->rate, until_ns);
    state.tats[RATION_PART_RESERVE] =
        ration_gcra_block(state.tats[RATION_PART_RESERVE], &limit->reserve_rate, until_ns);
    return state;
}

struct ration_reserve ration_reserve_set(const struct ration_limit *limit, uint64_t tokens,
                                         uint64_t now_ns)
{
    now_ns = ration_time_clamp(now_ns);

    uint64_t rest = tokens > limit->rate.burst ? tokens - limit->rate.burst : 0;

    return (struct ration_reserve){{ration_gcra_set(&limit->rate, tokens, now_ns),
                                    ration_gcra_set(&limit->reserve_rate, rest, now_ns)}};
}

struct ration_reserve ration_reserve_change(struct ration_reserve state,
                                            const struct ration_limit *old_limit,
                                            const struct ration_limit *new_limit, uint64_t now_ns)
{
    for (int index = 0; index < 2; index++) {
        enum ration_reserve_part part = (enum ration_reserve_part)index;

        state.tats[part] = ration_change_rate(state.tats[part], rate_of(old_limit, part),
                                              rate_of(new_limit, part), now_ns);
    }
    return state;
}
