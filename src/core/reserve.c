#include "core/reserve.h"

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

static struct ration_reserve_step describe(struct ration_reserve_step step,
                                           const struct ration_limit *limit, uint64_t now_ns)
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
    bool spare = reserve.wait_ns < sustained.wait_ns; /* FOREVER loses to any wait */
    enum ration_reserve_part part = spare ? RATION_PART_RESERVE : RATION_PART_SUSTAINED;
    const struct ration_gcra_step *chosen = spare ? &reserve : &sustained;
    struct ration_reserve_step step = {.part = part, .next = state};

    step.decision.verdict = chosen->verdict;
    if (chosen->verdict == RATION_ALLOW) {
        step.decision.delay_ns = chosen->wait_ns;
        step.next = with_part(state, part, chosen->next);
    } else {
        step.decision.retry_after_ns = chosen->wait_ns;
    }
    return describe(step, limit, now_ns);
}

struct ration_reserve_step ration_reserve_take_up_to(struct ration_reserve state,
                                                     const struct ration_limit *limit,
                                                     uint64_t cost_tokens_max, uint64_t now_ns,
                                                     uint64_t *out_granted_tokens)
{
    now_ns = ration_time_clamp(now_ns);

    uint64_t sustained =
        ration_gcra_remaining(state.tats[RATION_PART_SUSTAINED], &limit->rate, now_ns);
    uint64_t reserve =
        ration_gcra_remaining(state.tats[RATION_PART_RESERVE], &limit->reserve_rate, now_ns);
    uint64_t most = sustained > reserve ? sustained : reserve;
    uint64_t granted = cost_tokens_max < most ? cost_tokens_max : most;

    *out_granted_tokens = granted;
    /* With nothing there, the answer is that of a single token. */
    return ration_reserve_take(state, limit, granted == 0 && cost_tokens_max > 0 ? 1 : granted, 0,
                               now_ns);
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

struct ration_reserve ration_reserve_refund(struct ration_reserve state,
                                            const struct ration_limit *limit,
                                            enum ration_reserve_part part, uint64_t tokens)
{
    return with_part(state, part,
                     ration_gcra_refund(state.tats[part], rate_of(limit, part), tokens));
}

struct ration_reserve ration_reserve_release(struct ration_reserve state,
                                             const struct ration_limit *limit,
                                             enum ration_reserve_part part, struct ration_time mark,
                                             uint64_t unused_tokens, uint64_t now_ns)
{
    now_ns = ration_time_clamp(now_ns);

    return with_part(
        state, part,
        ration_gcra_release(state.tats[part], rate_of(limit, part), mark, unused_tokens, now_ns));
}

struct ration_reserve ration_reserve_force(struct ration_reserve state,
                                           const struct ration_limit *limit, uint64_t tokens,
                                           uint64_t now_ns)
{
    now_ns = ration_time_clamp(now_ns);

    return with_part(
        state, RATION_PART_SUSTAINED,
        ration_gcra_force(state.tats[RATION_PART_SUSTAINED], &limit->rate, tokens, now_ns));
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
