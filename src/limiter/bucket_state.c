#include "limiter/bucket_state.h"

#include "base/time.h"
#include "core/change.h"
#include "limiter/log_ring.h"

static bool is_reserve(const struct ration_limit *limit)
{
    return limit->algorithm == RATION_BURST_RESERVE;
}

static bool is_log(const struct ration_limit *limit)
{
    return limit->algorithm == RATION_SLIDING_LOG;
}

static struct ration_bucket_state with_one(const struct ration_bucket_state *bucket,
                                           union ration_state one)
{
    struct ration_bucket_state next = *bucket;

    next.state.one = one;
    return next;
}

static struct ration_bucket_state with_reserve(const struct ration_bucket_state *bucket,
                                               struct ration_reserve reserve)
{
    struct ration_bucket_state next = *bucket;

    next.state.reserve = reserve;
    return next;
}

struct ration_bucket_state_step ration_bucket_state_take(const struct ration_bucket_state *bucket,
                                                         uint64_t cost_tokens, uint64_t max_wait_ns,
                                                         uint64_t now_ns)
{
    if (is_log(bucket->limit))
        return ration_log_ring_take(bucket, cost_tokens, now_ns);
    if (is_reserve(bucket->limit)) {
        struct ration_reserve_step step = ration_reserve_take(bucket->state.reserve, bucket->limit,
                                                              cost_tokens, max_wait_ns, now_ns);
        bool allowed = step.decision.verdict == RATION_ALLOW;

        return (struct ration_bucket_state_step){
            .verdict = step.decision.verdict,
            .wait_ns = allowed ? step.decision.delay_ns : step.decision.retry_after_ns,
            .part = step.part,
            .next = with_reserve(bucket, step.next),
        };
    }

    struct ration_step step =
        ration_algorithm_take(bucket->limit, bucket->state.one, cost_tokens, max_wait_ns, now_ns);

    return (struct ration_bucket_state_step){
        .verdict = step.verdict, .wait_ns = step.wait_ns, .next = with_one(bucket, step.next)};
}

uint64_t ration_bucket_state_remaining(const struct ration_bucket_state *bucket, uint64_t now_ns)
{
    if (is_log(bucket->limit))
        return ration_log_ring_remaining(bucket, now_ns);
    if (is_reserve(bucket->limit))
        return ration_reserve_remaining(bucket->state.reserve, bucket->limit, now_ns);
    return ration_algorithm_remaining(bucket->limit, bucket->state.one, now_ns);
}

uint64_t ration_bucket_state_max_take(const struct ration_bucket_state *bucket, uint64_t now_ns)
{
    const struct ration_limit *limit = bucket->limit;

    if (!is_reserve(limit))
        return ration_bucket_state_remaining(bucket, now_ns);

    const struct ration_time *tats = bucket->state.reserve.tats;
    uint64_t sustained = ration_gcra_remaining(tats[RATION_PART_SUSTAINED], &limit->rate, now_ns);
    uint64_t reserve =
        ration_gcra_remaining(tats[RATION_PART_RESERVE], &limit->reserve_rate, now_ns);

    return sustained > reserve ? sustained : reserve;
}

uint64_t ration_bucket_state_full_after_ns(const struct ration_bucket_state *bucket,
                                           uint64_t now_ns)
{
    if (is_log(bucket->limit))
        return bucket->state.log.newest_ns > now_ns ? bucket->state.log.newest_ns - now_ns : 0;
    if (is_reserve(bucket->limit))
        return ration_reserve_full_after_ns(bucket->state.reserve, now_ns);
    return ration_algorithm_full_after_ns(bucket->limit, bucket->state.one, now_ns);
}

uint64_t ration_bucket_state_burst(const struct ration_limit *limit)
{
    if (is_log(limit))
        return limit->tokens;
    return is_reserve(limit) ? limit->rate.burst + limit->reserve_rate.burst : limit->burst;
}

struct ration_bucket_state ration_bucket_state_refund(const struct ration_bucket_state *bucket,
                                                      uint64_t tokens, uint64_t now_ns)
{
    if (is_log(bucket->limit))
        return ration_log_ring_refund(bucket, tokens);
    if (is_reserve(bucket->limit))
        return with_reserve(
            bucket, ration_reserve_refund(bucket->state.reserve, bucket->limit, tokens, now_ns));
    return with_one(bucket,
                    ration_algorithm_refund(bucket->limit, bucket->state.one, tokens, now_ns));
}

struct ration_bucket_state ration_bucket_state_charge(const struct ration_bucket_state *bucket,
                                                      uint64_t tokens, uint64_t now_ns)
{
    if (is_log(bucket->limit))
        return ration_log_ring_charge(bucket, tokens, now_ns);
    if (is_reserve(bucket->limit))
        return with_reserve(
            bucket, ration_reserve_charge(bucket->state.reserve, bucket->limit, tokens, now_ns));
    return with_one(bucket,
                    ration_algorithm_charge(bucket->limit, bucket->state.one, tokens, now_ns));
}

struct ration_bucket_state ration_bucket_state_set(const struct ration_bucket_state *bucket,
                                                   uint64_t tokens, uint64_t now_ns)
{
    if (is_log(bucket->limit))
        return ration_log_ring_set(bucket, tokens, now_ns);
    if (is_reserve(bucket->limit))
        return with_reserve(bucket, ration_reserve_set(bucket->limit, tokens, now_ns));
    return with_one(bucket, ration_algorithm_set(bucket->limit, tokens, now_ns));
}

struct ration_bucket_state ration_bucket_state_start(const struct ration_bucket_state *bucket,
                                                     uint64_t now_ns)
{
    struct ration_bucket_state next;

    if (bucket->limit->start == RATION_START_FULL)
        return ration_bucket_state_set(bucket, UINT64_MAX, now_ns);
    next = ration_bucket_state_set(bucket, bucket->limit->start_tokens, now_ns);
    /* they exist only since now_ns: a now that runs backwards finds none */
    if (is_log(bucket->limit) && next.write.older_count > 0)
        next.write.older_ns = now_ns;
    return next;
}

bool ration_bucket_state_can_block(const struct ration_limit *limit)
{
    return is_reserve(limit) || (!is_log(limit) && ration_algorithm_can_block(limit));
}

struct ration_bucket_state ration_bucket_state_block(const struct ration_bucket_state *bucket,
                                                     uint64_t until_ns)
{
    if (is_reserve(bucket->limit))
        return with_reserve(bucket,
                            ration_reserve_block(bucket->state.reserve, bucket->limit, until_ns));
    return with_one(bucket, ration_algorithm_block(bucket->limit, bucket->state.one, until_ns));
}

struct ration_bucket_state ration_bucket_state_release(const struct ration_bucket_state *bucket,
                                                       struct ration_bucket_state_release *release,
                                                       uint64_t now_ns)
{
    if (is_log(bucket->limit))
        return ration_log_ring_release(bucket, release->unused_tokens, now_ns,
                                       &release->mark.log.newest_ns);
    if (is_reserve(bucket->limit)) {
        struct ration_reserve_release reserve = {
            .before = release->before.reserve,
            .mark = release->mark.reserve,
            .cost_tokens = release->cost_tokens,
            .unused_tokens = release->unused_tokens,
            .turn_ns = release->turn_ns,
            .returned_tokens = release->returned_tokens,
            .is_waited = release->is_waited,
        };

        return with_reserve(bucket, ration_reserve_release(bucket->state.reserve, bucket->limit,
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

    return with_one(bucket,
                    ration_algorithm_release(bucket->limit, bucket->state.one, &one, now_ns));
}

bool ration_bucket_state_is_waited(const struct ration_bucket_state *bucket, uint64_t now_ns)
{
    if (is_log(bucket->limit))
        return false;
    if (is_reserve(bucket->limit))
        return ration_reserve_is_waited(bucket->state.reserve, bucket->limit, now_ns);
    return ration_algorithm_is_waited(bucket->limit, bucket->state.one, now_ns);
}

uint64_t ration_bucket_state_returned(const struct ration_bucket_state *before,
                                      const struct ration_bucket_state *after, uint64_t now_ns)
{
    /* the releases of a log name the times of the tokens that they return */
    if (is_log(before->limit))
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

/* The same counts as seen from the window that ends at end_ns, which is not before the window's own end. */
static struct ration_sliding_window move_window_to(struct ration_sliding_window window,
                                                   const struct ration_limit *limit,
                                                   uint64_t end_ns)
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
    a = move_window_to(a, limit, end_ns);
    b = move_window_to(b, limit, end_ns);
    if (b.current_tokens > a.current_tokens)
        a.current_tokens = b.current_tokens;
    if (b.previous_tokens > a.previous_tokens)
        a.previous_tokens = b.previous_tokens;
    return a;
}

/*
 * The refill times of the two differ: takes the later one, with at least as many tokens in use as the other has
 * now.
 */
static struct ration_bucket_state join_interval(const struct ration_bucket_state *bucket,
                                                const struct ration_bucket_state *other,
                                                uint64_t now_ns)
{
    bool is_later = other->state.one.interval.full_at_ns > bucket->state.one.interval.full_at_ns;
    struct ration_bucket_state later = with_one(bucket, (is_later ? other : bucket)->state.one);
    uint64_t left = ration_bucket_state_remaining(is_later ? bucket : other, now_ns);
    uint64_t later_left = ration_bucket_state_remaining(&later, now_ns);

    return left < later_left ? ration_bucket_state_charge(&later, later_left - left, now_ns)
                             : later;
}

struct ration_bucket_state ration_bucket_state_join(const struct ration_bucket_state *bucket,
                                                    const struct ration_bucket_state *other,
                                                    uint64_t now_ns)
{
    struct ration_bucket_state next = *bucket;
    uint64_t other_ns = ration_bucket_state_full_after_ns(other, now_ns);
    uint64_t own_ns = ration_bucket_state_full_after_ns(bucket, now_ns);

    if (is_log(bucket->limit)) {
        if (other_ns == 0)
            return next;
        return ration_log_ring_empty_until(bucket,
                                           now_ns + (own_ns > other_ns ? own_ns : other_ns));
    }
    if (is_reserve(bucket->limit)) {
        for (int i = 0; i < 2; i++)
            next.state.reserve.tats[i] =
                ration_time_max(bucket->state.reserve.tats[i], other->state.reserve.tats[i]);
        return next;
    }
    switch (bucket->limit->algorithm) {
    case RATION_FIXED_WINDOW:
        next.state.one.fixed = join_fixed(bucket->state.one.fixed, other->state.one.fixed);
        return next;
    case RATION_SLIDING_WINDOW:
        next.state.one.sliding =
            join_sliding(bucket->state.one.sliding, other->state.one.sliding, bucket->limit);
        return next;
    default:
        if (bucket->limit->refill == RATION_REFILL_INTERVAL)
            return join_interval(bucket, other, now_ns);
        next.state.one.tat = ration_time_max(bucket->state.one.tat, other->state.one.tat);
        return next;
    }
}

/* Between states of different kinds only whole tokens are preserved. */
static struct ration_bucket_state change_kind(const struct ration_bucket_state *bucket,
                                              const struct ration_bucket_state *fresh,
                                              uint64_t now_ns)
{
    uint64_t period_ns = bucket->limit->period_ns;
    uint64_t left;

    /*
     * A stale now lies before the time at which the newest token of a log was taken; the change then happens at
     * that time.
     */
    if (is_log(bucket->limit) && bucket->state.log.newest_ns > now_ns + period_ns)
        now_ns = bucket->state.log.newest_ns - period_ns;
    left = ration_bucket_state_remaining(bucket, now_ns);

    if (ration_bucket_state_full_after_ns(bucket, now_ns) == 0)
        left = UINT64_MAX;
    return ration_bucket_state_set(fresh, left, now_ns);
}

struct ration_bucket_state ration_bucket_state_change(const struct ration_bucket_state *bucket,
                                                      const struct ration_limit *new_limit,
                                                      uint64_t now_ns)
{
    struct ration_bucket_state next = *bucket;

    next.limit = new_limit;
    if (ration_change_is_none(bucket->limit, new_limit))
        return next;
    if (ration_algorithm_fits(bucket->limit) && ration_algorithm_fits(new_limit)) {
        next.state.one = ration_change_keep(bucket->state.one, bucket->limit, new_limit, now_ns);
        return next;
    }
    if (is_reserve(bucket->limit) && is_reserve(new_limit)) {
        next.state.reserve =
            ration_reserve_change(bucket->state.reserve, bucket->limit, new_limit, now_ns);
        return next;
    }
    return change_kind(bucket, &next, now_ns);
}

struct ration_bucket_state ration_bucket_state_change_at(const struct ration_bucket_state *bucket,
                                                         const struct ration_limit *new_limit,
                                                         uint64_t changed_ns, uint64_t now_ns)
{
    struct ration_bucket_state next = ration_bucket_state_change(bucket, new_limit, changed_ns);
    struct ration_bucket_state early;

    if (changed_ns <= now_ns)
        return next;
    early = ration_bucket_state_change(bucket, new_limit, now_ns);
    return ration_bucket_state_join(&next, &early, now_ns);
}
