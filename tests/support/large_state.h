/*
 * large_state: the two algorithms whose state exceeds 16 bytes, decided without a table.
 *
 * A sliding log's ring is an array here, and its steps are those of limiter/bucket_state.h: the code that a limiter
 * runs. For a burst reserve only the search for the largest grant is added to core/reserve.h.
 */
#ifndef RATION_TESTS_LARGE_STATE_H
#define RATION_TESTS_LARGE_STATE_H

#include "base/time.h"
#include "limiter/bucket_state.h"

/* All zero bytes are a full log. */
struct array_log {
    struct ration_log_ring_head head;
    uint64_t *ring; /* limit->tokens words, borrowed */
};

static inline uint64_t array_log_read(const struct ration_log_ring_reader *reader, uint64_t index)
{
    return ((const uint64_t *)reader->context)[index];
}

static inline struct ration_bucket_state array_log_state(const struct array_log *log,
                                                         const struct ration_limit *limit)
{
    return (struct ration_bucket_state){
        .limit = limit,
        .state.log = log->head,
        .reader = {.read = array_log_read, .context = log->ring},
    };
}

/* Applies the writes of a step. */
static inline void array_log_publish(struct array_log *log, const struct ration_bucket_state *next)
{
    const struct ration_log_ring_write *write = &next->write;

    for (uint64_t i = 0; i < write->older_count + write->count; i++)
        log->ring[(write->first_index + i) % next->limit->tokens] =
            i < write->older_count ? write->older_ns : write->moment_ns;
    log->head = next->state.log;
}

static inline uint64_t array_log_full_after_ns(const struct array_log *log,
                                               const struct ration_limit *limit, uint64_t now_ns)
{
    struct ration_bucket_state state = array_log_state(log, limit);

    return ration_bucket_state_full_after_ns(&state, ration_time_clamp(now_ns));
}

static inline struct ration_decision array_log_take(struct array_log *log,
                                                    const struct ration_limit *limit, uint64_t cost,
                                                    uint64_t now_ns)
{
    struct ration_bucket_state state = array_log_state(log, limit);
    struct ration_bucket_state_step step;

    now_ns = ration_time_clamp(now_ns);
    step = ration_bucket_state_take(&state, cost, 0, now_ns);
    array_log_publish(log, &step.next);
    state = array_log_state(log, limit);
    return (struct ration_decision){
        .verdict = step.verdict,
        .limit = ration_bucket_state_burst(limit),
        .remaining = ration_bucket_state_remaining(&state, now_ns),
        .retry_after_ns = step.wait_ns,
        .reset_after_ns = ration_bucket_state_full_after_ns(&state, now_ns),
    };
}

static inline void array_log_refund(struct array_log *log, const struct ration_limit *limit,
                                    uint64_t tokens, uint64_t now_ns)
{
    struct ration_bucket_state state = array_log_state(log, limit);

    state = ration_bucket_state_refund(&state, tokens, ration_time_clamp(now_ns));
    array_log_publish(log, &state);
}

static inline void array_log_charge(struct array_log *log, const struct ration_limit *limit,
                                    uint64_t tokens, uint64_t now_ns)
{
    struct ration_bucket_state state = array_log_state(log, limit);

    state = ration_bucket_state_charge(&state, tokens, ration_time_clamp(now_ns));
    array_log_publish(log, &state);
}

static inline void array_log_set(struct array_log *log, const struct ration_limit *limit,
                                 uint64_t tokens, uint64_t now_ns)
{
    struct ration_bucket_state state = array_log_state(log, limit);

    state = ration_bucket_state_set(&state, tokens, ration_time_clamp(now_ns));
    array_log_publish(log, &state);
}

/* Rewrites the log for another limit; the ring must have room for its tokens. */
static inline void array_log_change(struct array_log *log, const struct ration_limit *old_limit,
                                    const struct ration_limit *new_limit, uint64_t now_ns)
{
    struct ration_bucket_state state = array_log_state(log, old_limit);

    state = ration_bucket_state_change(&state, new_limit, ration_time_clamp(now_ns));
    array_log_publish(log, &state);
}

/* Takes as many tokens as one part has, at most cost_max. With none left the decision is that for one token. */
static inline struct ration_reserve_step large_state_reserve_up_to(struct ration_reserve reserve,
                                                                   const struct ration_limit *limit,
                                                                   uint64_t cost_max,
                                                                   uint64_t now_ns,
                                                                   uint64_t *out_granted)
{
    struct ration_bucket_state state = {.limit = limit, .state.reserve = reserve};
    uint64_t granted = ration_bucket_state_max_take(&state, ration_time_clamp(now_ns));

    if (granted > cost_max)
        granted = cost_max;
    *out_granted = granted;
    return ration_reserve_take(reserve, limit, granted == 0 && cost_max > 0 ? 1 : granted, 0,
                               now_ns);
}

#endif
