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

struct ration_any ration_any_refund(const struct ration_any *any, uint64_t tokens, uint64_t now_ns)
{
    if (is_log(any->limit))
        return ration_log_refund(any, tokens);
    if (is_reserve(any->limit))
        return with_reserve(any,
                            ration_reserve_refund(any->state.reserve, any->limit, tokens, now_ns));
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
    struct ration_any next;

    if (any->limit->start == RATION_START_FULL)
        return ration_any_set(any, UINT64_MAX, now_ns);
    next = ration_any_set(any, any->limit->start_tokens, now_ns);
    if (is_log(any->limit) && next.write.older_count > 0)
        next.write.older_ns = now_ns; /* they are there since then: none for a now that runs back */
    return next;
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

struct ration_any ration_any_release(const struct ration_any *any,
                                     struct ration_any_release *release, uint64_t now_ns)
{
    if (is_log(any->limit))
        return ration_log_release(any, release->unused_tokens, now_ns,
                                  &release->mark.log.newest_ns);
    if (is_reserve(any->limit)) {
        struct ration_reserve_release reserve = {
            .before = release->before.reserve,
            .mark = release->mark.reserve,
            .cost_tokens = release->cost_tokens,
            .unused_tokens = release->unused_tokens,
            .turn_ns = release->turn_ns,
            .returned_tokens = release->returned_tokens,
            .is_waited = release->is_waited,
        };

        return with_reserve(any, ration_reserve_release(any->state.reserve, any->limit,
                                                        release->part, &reserve, now_ns));
    }

    struct ration_release one = {
        .before = release->before.one,
        .mark = release->mark.one,
        .cost_tokens = release->cost_tokens,
        .unused_tokens = release->unused_tokens,
        .turn_ns = release->turn_ns,
        .returned_tokens = release->returned_tokens,
        .is_waited = release->is_waited,
    };

    return with_one(any, ration_algorithm_release(any->limit, any->state.one, &one, now_ns));
}

bool ration_any_is_waited(const struct ration_any *any, uint64_t now_ns)
{
    if (is_log(any->limit))
        return false;
    if (is_reserve(any->limit))
        return ration_reserve_is_waited(any->state.reserve, any->limit, now_ns);
    return ration_algorithm_is_waited(any->limit, any->state.one, now_ns);
}

uint64_t ration_any_returned(const struct ration_any *before, const struct ration_any *after,
                             uint64_t now_ns)
{
    if (is_log(before->limit)) /* its releases name the moments that they are about */
        return 0;
    if (is_reserve(before->limit))
        return ration_reserve_returned(before->state.reserve, after->state.reserve, before->limit,
                                       now_ns);
    return ration_algorithm_returned(before->limit, before->state.one, after->state.one, now_ns);
}

static struct ration_fixed_window join_fixed(struct ration_fixed_window a,
                                             struct ration_fixed_window b)
{
    if (a.count_tokens == 0 || b.count_tokens == 0)
        return a.count_tokens == 0 ? b : a;
    if (a.end_ns != b.end_ns)
        return a.end_ns > b.end_ns ? a : b;
    return a.count_tokens > b.count_tokens ? a : b;
}

/* The same counts as seen from the window that ends at end_ns, not before the state's own. */
static struct ration_sliding_window moved_to(struct ration_sliding_window window,
                                             const struct ration_limit *limit, uint64_t end_ns)
{
    uint64_t ahead_ns = end_ns - window.end_ns;

    if (ahead_ns == 0)
        return window;
    return (struct ration_sliding_window){
        end_ns, ahead_ns == limit->period_ns ? window.current_tokens : 0, 0};
}

static struct ration_sliding_window join_sliding(struct ration_sliding_window a,
                                                 struct ration_sliding_window b,
                                                 const struct ration_limit *limit)
{
    uint64_t end_ns = a.end_ns > b.end_ns ? a.end_ns : b.end_ns;

    if (a.current_tokens + a.previous_tokens == 0)
        return b;
    if (b.current_tokens + b.previous_tokens == 0)
        return a;
    a = moved_to(a, limit, end_ns);
    b = moved_to(b, limit, end_ns);
    if (b.current_tokens > a.current_tokens)
        a.current_tokens = b.current_tokens;
    if (b.previous_tokens > a.previous_tokens)
        a.previous_tokens = b.previous_tokens;
    return a;
}

/* Grids differ: the later one, with as much out as the other has now. */
static struct ration_any join_interval(const struct ration_any *any, const struct ration_any *other,
                                       uint64_t now_ns)
{
    bool is_later = other->state.one.interval.full_at_ns > any->state.one.interval.full_at_ns;
    struct ration_any later = with_one(any, (is_later ? other : any)->state.one);
    uint64_t left = ration_any_remaining(is_later ? any : other, now_ns);
    uint64_t later_left = ration_any_remaining(&later, now_ns);

    return left < later_left ? ration_any_force(&later, later_left - left, now_ns) : later;
}

struct ration_any ration_any_join(const struct ration_any *any, const struct ration_any *other,
                                  uint64_t now_ns)
{
    struct ration_any next = *any;
    uint64_t other_ns = ration_any_full_after_ns(other, now_ns);
    uint64_t own_ns = ration_any_full_after_ns(any, now_ns);

    if (is_log(any->limit)) {
        if (other_ns == 0)
            return next;
        return ration_log_empty_until(any, now_ns + (own_ns > other_ns ? own_ns : other_ns));
    }
    if (is_reserve(any->limit)) {
        for (int i = 0; i < 2; i++)
            next.state.reserve.tats[i] =
                ration_time_max(any->state.reserve.tats[i], other->state.reserve.tats[i]);
        return next;
    }
    switch (any->limit->algorithm) {
    case RATION_FIXED_WINDOW:
        next.state.one.fixed = join_fixed(any->state.one.fixed, other->state.one.fixed);
        return next;
    case RATION_SLIDING_WINDOW:
        next.state.one.sliding =
            join_sliding(any->state.one.sliding, other->state.one.sliding, any->limit);
        return next;
    default:
        if (any->limit->refill == RATION_REFILL_INTERVAL)
            return join_interval(any, other, now_ns);
        next.state.one.tat = ration_time_max(any->state.one.tat, other->state.one.tat);
        return next;
    }
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
    if (ration_change_is_none(any->limit, new_limit))
        return next;
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

struct ration_any ration_any_change_at(const struct ration_any *any,
                                       const struct ration_limit *new_limit, uint64_t changed_ns,
                                       uint64_t now_ns)
{
    struct ration_any next = ration_any_change(any, new_limit, changed_ns);
    struct ration_any early;

    if (changed_ns <= now_ns)
        return next;
    early = ration_any_change(any, new_limit, now_ns);
    return ration_any_join(&next, &early, now_ns);
}
