#include "limiter/log.h"

#include "base/time.h"

uint64_t ration_log_moment(const struct ration_any *any, uint64_t nth)
{
    uint64_t most = any->limit->tokens;
    uint64_t index = (any->state.log.head_index + nth) % most;
    uint64_t offset = (index + most - any->write.first_index) % most;

    if (offset < any->write.older_count)
        return any->write.older_ns;
    if (offset < any->write.older_count + any->write.count)
        return any->write.moment_ns;
    return any->reader.read(&any->reader, index);
}

/* Whether the whole ring is yet to be written, with one moment. */
static bool is_uniform(const struct ration_any *any)
{
    return any->write.older_count == 0 && any->write.count == any->limit->tokens;
}

bool ration_log_may_go_on(const struct ration_any *any)
{
    return any->write.older_count + any->write.count == 0 || is_uniform(any);
}

/* The oldest tokens are taken: they come back a period after now, and become the newest. */
static struct ration_any with_taken(const struct ration_any *any, uint64_t tokens, uint64_t now_ns)
{
    struct ration_any next = *any;
    uint64_t back_at_ns = now_ns + any->limit->period_ns;

    if (tokens == 0)
        return next;
    if (back_at_ns < any->state.log.newest_ns)
        back_at_ns = any->state.log.newest_ns;
    next.write = (struct ration_log_write){
        .first_index = any->state.log.head_index, .count = tokens, .moment_ns = back_at_ns};
    next.state.log = (struct ration_log_head){back_at_ns, (any->state.log.head_index + tokens) %
                                                              any->limit->tokens};
    if (is_uniform(any)) { /* all of the ring is written anew, so that it may begin anywhere */
        next.write.first_index = 0;
        next.write.older_count = any->limit->tokens - tokens;
        next.write.older_ns = any->write.moment_ns;
        next.state.log.head_index = 0;
    }
    return next;
}

struct ration_any_step ration_log_take(const struct ration_any *any, uint64_t cost_tokens,
                                       uint64_t now_ns)
{
    struct ration_any_step step = {.verdict = RATION_ALLOW, .next = *any};

    if (cost_tokens > any->limit->tokens) {
        step.verdict = RATION_NEVER;
        step.wait_ns = RATION_FOREVER;
    } else if (cost_tokens > 0) {
        uint64_t back_at_ns = ration_log_moment(any, cost_tokens - 1);

        if (back_at_ns > now_ns) {
            step.verdict = RATION_DENY;
            step.wait_ns = back_at_ns - now_ns;
        } else {
            step.next = with_taken(any, cost_tokens, now_ns);
        }
    }
    return step;
}

/* How many tokens come back by then. They are a prefix of the ring from its head on: bisect. */
static uint64_t count_until(const struct ration_any *any, uint64_t moment_ns)
{
    uint64_t low = 0;
    uint64_t high = any->limit->tokens;

    while (low < high) {
        uint64_t middle = low + (high - low) / 2;

        if (ration_log_moment(any, middle) <= moment_ns)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

uint64_t ration_log_remaining(const struct ration_any *any, uint64_t now_ns)
{
    if (any->state.log.newest_ns <= now_ns)
        return any->limit->tokens;
    return count_until(any, now_ns);
}

struct ration_any ration_log_refund(const struct ration_any *any, uint64_t tokens)
{
    uint64_t most = any->limit->tokens;
    uint64_t count = tokens < most ? tokens : most;
    uint64_t head = (any->state.log.head_index + most - count) % most;
    struct ration_any next = *any;

    /* The newest become the oldest, as moments long past. */
    next.write = (struct ration_log_write){.first_index = head, .older_count = count};
    next.state.log.head_index = head;
    next.state.log.newest_ns = count == most ? 0 : ration_log_moment(any, most - count - 1);
    if (is_uniform(any)) {
        next.write.count = most - count;
        next.write.moment_ns = any->write.moment_ns;
    }
    return next;
}

/* The moment of the token before the nth, or 0 if that is back, or there is none. */
static uint64_t moment_before(const struct ration_any *any, uint64_t nth, uint64_t now_ns)
{
    uint64_t moment_ns = nth > 0 ? ration_log_moment(any, nth - 1) : 0;

    return moment_ns > now_ns ? moment_ns : 0;
}

struct ration_any ration_log_release(const struct ration_any *any, uint64_t tokens, uint64_t now_ns,
                                     uint64_t *moment_ns)
{
    struct ration_any next = *any;
    uint64_t end = count_until(any, *moment_ns);
    uint64_t first = *moment_ns > now_ns ? count_until(any, *moment_ns - 1) : end;
    uint64_t count = tokens < end - first ? tokens : end - first;
    uint64_t older_ns = moment_before(any, first, now_ns);

    if (count == 0 || end == any->limit->tokens) {
        *moment_ns = 0;
        return ration_log_refund(any, count);
    }

    uint64_t older_first = older_ns > 0 ? count_until(any, older_ns - 1) : first;

    *moment_ns = moment_before(any, older_first, now_ns);
    next.write = (struct ration_log_write){
        .first_index = (any->state.log.head_index + older_first) % any->limit->tokens,
        .older_count = count,
        .older_ns = older_first > 0 ? ration_log_moment(any, older_first - 1) : 0,
        .count = first - older_first,
        .moment_ns = older_ns,
    };
    return next;
}

struct ration_any ration_log_force(const struct ration_any *any, uint64_t tokens, uint64_t now_ns)
{
    uint64_t most = any->limit->tokens;

    return with_taken(any, tokens < most ? tokens : most, now_ns);
}

struct ration_any ration_log_empty_until(const struct ration_any *any, uint64_t until_ns)
{
    struct ration_any next = *any;

    next.state.log = (struct ration_log_head){.newest_ns = until_ns, .head_index = 0};
    next.write = (struct ration_log_write){.count = any->limit->tokens, .moment_ns = until_ns};
    return next;
}

struct ration_any ration_log_set(const struct ration_any *any, uint64_t tokens, uint64_t now_ns)
{
    uint64_t most = any->limit->tokens;
    uint64_t left = tokens < most ? tokens : most;
    struct ration_any next = *any;

    next.state.log = (struct ration_log_head){
        .newest_ns = left < most ? now_ns + any->limit->period_ns : 0, .head_index = 0};
    next.write = (struct ration_log_write){.first_index = 0,
                                           .older_count = left,
                                           .count = most - left,
                                           .moment_ns = next.state.log.newest_ns};
    return next;
}
