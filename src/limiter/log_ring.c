#include "limiter/log_ring.h"

#include "base/time.h"

uint64_t ration_log_ring_moment(const struct ration_bucket_state *bucket, uint64_t nth)
{
    uint64_t tokens_max = bucket->limit->tokens;
    uint64_t index = (bucket->state.log.head_index + nth) % tokens_max;
    uint64_t offset = (index + tokens_max - bucket->write.first_index) % tokens_max;

    if (offset < bucket->write.older_count)
        return bucket->write.older_ns;
    if (offset < bucket->write.older_count + bucket->write.count)
        return bucket->write.moment_ns;
    return bucket->reader.read(&bucket->reader, index);
}

/* Whether a pending write sets the whole ring to one time. */
static bool is_uniform(const struct ration_bucket_state *bucket)
{
    return bucket->write.older_count == 0 && bucket->write.count == bucket->limit->tokens;
}

bool ration_log_ring_may_go_on(const struct ration_bucket_state *bucket)
{
    return bucket->write.older_count + bucket->write.count == 0 || is_uniform(bucket);
}

/* Takes the oldest tokens: they return one period after now, and become the newest. */
static struct ration_bucket_state with_taken(const struct ration_bucket_state *bucket,
                                             uint64_t tokens, uint64_t now_ns)
{
    struct ration_bucket_state next = *bucket;
    uint64_t back_at_ns = now_ns + bucket->limit->period_ns;

    if (tokens == 0)
        return next;
    if (back_at_ns < bucket->state.log.newest_ns)
        back_at_ns = bucket->state.log.newest_ns;
    next.write = (struct ration_log_ring_write){
        .first_index = bucket->state.log.head_index, .count = tokens, .moment_ns = back_at_ns};
    next.state.log = (struct ration_log_ring_head){
        back_at_ns, (bucket->state.log.head_index + tokens) % bucket->limit->tokens};
    if (is_uniform(bucket)) { /* the whole ring is rewritten, so its head may be anywhere */
        next.write.first_index = 0;
        next.write.older_count = bucket->limit->tokens - tokens;
        next.write.older_ns = bucket->write.moment_ns;
        next.state.log.head_index = 0;
    }
    return next;
}

struct ration_bucket_state_step ration_log_ring_take(const struct ration_bucket_state *bucket,
                                                     uint64_t cost_tokens, uint64_t now_ns)
{
    struct ration_bucket_state_step step = {.verdict = RATION_ALLOW, .next = *bucket};

    if (cost_tokens > bucket->limit->tokens) {
        step.verdict = RATION_NEVER;
        step.wait_ns = RATION_FOREVER;
    } else if (cost_tokens > 0) {
        uint64_t back_at_ns = ration_log_ring_moment(bucket, cost_tokens - 1);

        if (back_at_ns > now_ns) {
            step.verdict = RATION_DENY;
            step.wait_ns = back_at_ns - now_ns;
        } else {
            step.next = with_taken(bucket, cost_tokens, now_ns);
        }
    }
    return step;
}

/*
 * Counts the tokens that return at or before return_at_ns, by binary search: they come first in the ring, from its head
 * on.
 */
static uint64_t count_until(const struct ration_bucket_state *bucket, uint64_t return_at_ns)
{
    uint64_t low = 0;
    uint64_t high = bucket->limit->tokens;

    while (low < high) {
        uint64_t middle = low + (high - low) / 2;

        if (ration_log_ring_moment(bucket, middle) <= return_at_ns)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

uint64_t ration_log_ring_remaining(const struct ration_bucket_state *bucket, uint64_t now_ns)
{
    if (bucket->state.log.newest_ns <= now_ns)
        return bucket->limit->tokens;
    return count_until(bucket, now_ns);
}

struct ration_bucket_state ration_log_ring_refund(const struct ration_bucket_state *bucket,
                                                  uint64_t tokens)
{
    uint64_t tokens_max = bucket->limit->tokens;
    uint64_t count = tokens < tokens_max ? tokens : tokens_max;
    uint64_t head = bucket->state.log.head_index;
    struct ration_bucket_state next = *bucket;

    if (count < tokens_max) /* otherwise the head goes around once */
        head = (head + tokens_max - count) % tokens_max;
    /* The newest tokens become the oldest, with times long past. */
    next.write = (struct ration_log_ring_write){.first_index = head, .older_count = count};
    next.state.log.head_index = head;
    next.state.log.newest_ns =
        count == tokens_max ? 0 : ration_log_ring_moment(bucket, tokens_max - count - 1);
    if (is_uniform(bucket)) {
        next.write.count = tokens_max - count;
        next.write.moment_ns = bucket->write.moment_ns;
    }
    return next;
}

/* The time at which the token before the nth returns, or 0 if that is already back or there is none. */
static uint64_t return_time_before(const struct ration_bucket_state *bucket, uint64_t nth,
                                   uint64_t now_ns)
{
    uint64_t return_at_ns = nth > 0 ? ration_log_ring_moment(bucket, nth - 1) : 0;

    return return_at_ns > now_ns ? return_at_ns : 0;
}

struct ration_bucket_state ration_log_ring_release(const struct ration_bucket_state *bucket,
                                                   uint64_t tokens, uint64_t now_ns,
                                                   uint64_t *return_at_ns)
{
    struct ration_bucket_state next = *bucket;
    uint64_t end = count_until(bucket, *return_at_ns);
    uint64_t first = *return_at_ns > now_ns ? count_until(bucket, *return_at_ns - 1) : end;
    uint64_t count = tokens < end - first ? tokens : end - first;
    uint64_t older_ns = return_time_before(bucket, first, now_ns);

    if (count == 0 || end == bucket->limit->tokens) {
        *return_at_ns = 0;
        return ration_log_ring_refund(bucket, count);
    }

    uint64_t older_first = older_ns > 0 ? count_until(bucket, older_ns - 1) : first;

    *return_at_ns = return_time_before(bucket, older_first, now_ns);
    next.write = (struct ration_log_ring_write){
        .first_index = (bucket->state.log.head_index + older_first) % bucket->limit->tokens,
        .older_count = count,
        .older_ns = older_first > 0 ? ration_log_ring_moment(bucket, older_first - 1) : 0,
        .count = first - older_first,
        .moment_ns = older_ns,
    };
    return next;
}

struct ration_bucket_state ration_log_ring_charge(const struct ration_bucket_state *bucket,
                                                  uint64_t tokens, uint64_t now_ns)
{
    uint64_t tokens_max = bucket->limit->tokens;

    return with_taken(bucket, tokens < tokens_max ? tokens : tokens_max, now_ns);
}

struct ration_bucket_state ration_log_ring_empty_until(const struct ration_bucket_state *bucket,
                                                       uint64_t until_ns)
{
    struct ration_bucket_state next = *bucket;

    next.state.log = (struct ration_log_ring_head){.newest_ns = until_ns, .head_index = 0};
    next.write =
        (struct ration_log_ring_write){.count = bucket->limit->tokens, .moment_ns = until_ns};
    return next;
}

struct ration_bucket_state ration_log_ring_set(const struct ration_bucket_state *bucket,
                                               uint64_t tokens, uint64_t now_ns)
{
    uint64_t tokens_max = bucket->limit->tokens;
    uint64_t left = tokens < tokens_max ? tokens : tokens_max;
    struct ration_bucket_state next = *bucket;

    next.state.log = (struct ration_log_ring_head){
        .newest_ns = left < tokens_max ? now_ns + bucket->limit->period_ns : 0, .head_index = 0};
    next.write = (struct ration_log_ring_write){.first_index = 0,
                                                .older_count = left,
                                                .count = tokens_max - left,
                                                .moment_ns = next.state.log.newest_ns};
    return next;
}
