#include "limiter/state.h"

#include "base/time.h"
#include "core/change.h"
#include "limiter/log.h"

static bool is_reserve(const struct ration_limit *limit)
{
    return limit->algorithm == RATION_BURST_RESERVE;
}

static bool is_log(const struct ration_limit *limit)
{
    return limit->algorithm == RATION_SLIDING_LOG;
}

static struct ration_any with_one(const struct ration_any *any, union ration_state one)
{
    struct ration_any next = *any;

    next.state.one = one;
    return next;
}

static struct ration_any with_reserve(const struct ration_any *any, struct ration_reserve reserve)
{
    struct ration_any next = *any;

    next.state.reserve = reserve;
    return next;
}

struct ration_any_step ration_any_take(const struct ration_any *any, uint64_t cost_tokens,
                                       uint64_t max_wait_ns, uint64_t now_ns)
{
    if (is_log(any->limit))
        return ration_log_take(any, cost_tokens, now_ns);
    if (is_reserve(any->limit)) {
        struct ration_reserve_step step =
            ration_reserve_take(any->state.reserve, any->limit, cost_tokens, max_wait_ns, now_ns);
        bool allowed = step.decision.verdict == RATION_ALLOW;

        return (struct ration_any_step){
            .verdict = step.decision.verdict,
            .wait_ns = allowed ? step.decision.delay_ns : step.decision.retry_after_ns,
            .part = step.part,
            .next = with_reserve(any, step.next),
        };
    }

    struct ration_step step =
        ration_algorithm_take(any->limit, any->state.one, cost_tokens, max_wait_ns, now_ns);

    return (struct ration_any_step){
        .verdict = step.verdict, .wait_ns = step.wait_ns, .next = with_one(any, step.next)};
}

uint64_t ration_any_remaining(const struct ration_any *any, uint64_t now_ns)
{
    if (is_log(any->limit))
        return ration_log_remaining(any, now_ns);
    if (is_reserve(any->limit))
        return ration_reserve_remaining(any->state.reserve, any->limit, now_ns);
    return ration_algorithm_remaining(any->limit, any->state.one, now_ns);
}

uint64_t ration_any_most(const struct ration_any *any, uint64_t now_ns)
{
    const struct ration_limit *limit = any->limit;

    if (!is_reserve(limit))
        return ration_any_remaining(any, now_ns);

    const struct ration_time *tats = any->state.reserve.tats;
    uint64_t sustained = ration_gcra_remaining(tats[RATION_PART_SUSTAINED], &limit->rate, now_ns);
    uint64_t reserve =
        ration_gcra_remaining(tats[RATION_PART_RESERVE], &limit->reserve_rate, now_ns);

    return sustained > reserve ? sustained : reserve;
}

uint64_t ration_any_full_after_ns(const struct ration_any *any, uint64_t now_ns)
{
    if (is_log(any->limit))
        return any->state.log.newest_ns > now_ns ? any->state.log.newest_ns - now_ns : 0;
    if (is_reserve(any->limit))
        return ration_reserve_full_after_ns(any->state.reserve, now_ns);
    return ration_algorithm_full_after_ns(any->limit, any->state.one, now_ns);
}

uint64_t ration_any_burst(const struct ration_limit *limit)
{
    if (is_log(limit))
        return limit->tokens;
    return is_reserve(limit) ? limit->rate.burst + limit->reserve_rate.burst : limit->burst;
}

struct ration_any ration_any_refund(const struct ration_any *any, enum ration_reserve_part part,
                                    uint64_t tokens, uint64_t now_ns)
{
    if (is_log(any->limit))
        return ration_log_refund(any, tokens);
    if (is_reserve(any->limit))
        return with_reserve(any,
                            ration_reserve_refund(any->state.reserve, any->limit, part, tokens));
    return with_one(any, ration_algorithm_refund(any->limit, any->state.one, tokens, now_ns));
}

struct ration_any ration_any_force(const struct ration_any *any, uint64_t tokens, uint64_t now_ns)
{
    if (is_log(any->limit))
        return ration_log_force(any, tokens, now_ns);
    if (is_reserve(any->limit))
        return with_reserve(any,
                            ration_reserve_force(any->state.reserve, any->limit, tokens, now_ns));
    return with_one(any, ration_algorithm_force(any->limit, any->state.one, tokens, now_ns));
}

struct ration_any ration_any_set(const struct ration_any *any, uint64_t tokens, uint64_t now_ns)
{
    if (is_log(any->limit))
        return ration_log_set(any, tokens, now_ns);
    if (is_reserve(any->limit))
        return with_reserve(any, ration_reserve_set(any->limit, tokens, now_ns));
    return with_one(any, ration_algorithm_set(any->limit, tokens, now_ns));
}

struct ration_any ration_any_start(const struct ration_any *any, uint64_t now_ns)
{
    if (any->limit->start == RATION_START_FULL)
        return ration_any_set(any, UINT64_MAX, now_ns);
    return ration_any_set(any, any->limit->start_tokens, now_ns);
}

bool ration_any_can_block(const struct ration_limit *limit)
{
    return is_reserve(limit) || (!is_log(limit) && ration_algorithm_can_block(limit));
}

struct ration_any ration_any_block(const struct ration_any *any, uint64_t until_ns)
{
    if (is_reserve(any->limit))
        return with_reserve(any, ration_reserve_block(any->state.reserve, any->limit, until_ns));
    return with_one(any, ration_algorithm_block(any->limit, any->state.one, until_ns));
}

struct ration_any ration_any_release(const struct ration_any *any, union ration_any_state mark,
                                     enum ration_reserve_part part, uint64_t unused_tokens,
                                     uint64_t now_ns)
{
    if (is_log(any->limit)) /* a log promises no later turn */
        return ration_log_refund(any, unused_tokens);
    if (is_reserve(any->limit))
        return with_reserve(any, ration_reserve_release(any->state.reserve, any->limit, part,
                                                        mark.one.tat, unused_tokens, now_ns));
    return with_one(
        any, ration_algorithm_release(any->limit, any->state.one, mark.one, unused_tokens, now_ns));
}

/* Between states of different kinds whole tokens are kept. */
static struct ration_any change_kind(const struct ration_any *any, const struct ration_any *fresh,
                                     uint64_t now_ns)
{
    uint64_t period_ns = any->limit->period_ns;
    uint64_t left;

    /* A stale now lies before the newest token of a log was taken; the change happens then. */
    if (is_log(any->limit) && any->state.log.newest_ns > now_ns + period_ns)
        now_ns = any->state.log.newest_ns - period_ns;
    left = ration_any_remaining(any, now_ns);

    if (ration_any_full_after_ns(any, now_ns) == 0)
        left = UINT64_MAX;
    return ration_any_set(fresh, left, now_ns);
}

struct ration_any ration_any_change(const struct ration_any *any,
                                    const struct ration_limit *new_limit, uint64_t now_ns)
{
    struct ration_any next = *any;

    next.limit = new_limit;
    if (ration_algorithm_fits(any->limit) && ration_algorithm_fits(new_limit)) {
        next.state.one = ration_change_keep(any->state.one, any->limit, new_limit, now_ns);
        return next;
    }
    if (is_reserve(any->limit) && is_reserve(new_limit)) {
        next.state.reserve =
            ration_reserve_change(any->state.reserve, any->limit, new_limit, now_ns);
        return next;
    }
    return change_kind(any, &next, now_ns);
}
