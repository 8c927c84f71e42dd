#include "subject.h"

#include <string.h>

#include "bucket/returns.h"
#include "core/algorithm.h"
#include "support/large_state.h"

/* --- 16 bytes, by the public interface --- */

static size_t bucket_size(const struct ration_limit *limit)
{
    (void)limit;
    return sizeof(struct ration_bucket);
}

static void bucket_start(void *state, const struct ration_limit *limit, uint64_t now_ns)
{
    if (ration_bucket_init(state, limit, now_ns) != RATION_OK)
        __builtin_trap();
}

static struct ration_decision bucket_take(void *state, const struct ration_limit *limit,
                                          uint64_t cost, uint64_t now_ns)
{
    return ration_bucket_take(state, limit, cost, now_ns);
}

static struct ration_decision bucket_peek(const void *state, const struct ration_limit *limit,
                                          uint64_t cost, uint64_t now_ns)
{
    return ration_bucket_peek(state, limit, cost, now_ns);
}

static uint64_t bucket_take_up_to(void *state, const struct ration_limit *limit, uint64_t cost_max,
                                  uint64_t now_ns, struct ration_decision *out)
{
    return ration_bucket_take_up_to(state, limit, cost_max, now_ns, out);
}

static void bucket_refund(void *state, const struct ration_limit *limit, uint64_t tokens,
                          uint64_t now_ns)
{
    ration_bucket_refund(state, limit, tokens, now_ns);
}

static void bucket_charge(void *state, const struct ration_limit *limit, uint64_t tokens,
                          uint64_t now_ns)
{
    ration_bucket_charge(state, limit, tokens, now_ns);
}

static void bucket_set(void *state, const struct ration_limit *limit, uint64_t tokens,
                       uint64_t now_ns)
{
    ration_bucket_set(state, limit, tokens, now_ns);
}

static ration_status bucket_block(void *state, const struct ration_limit *limit, uint64_t until_ns)
{
    return ration_bucket_block_until(state, limit, until_ns);
}

static struct ration_decision bucket_reserve(void *state, const struct ration_limit *limit,
                                             uint64_t cost, uint64_t max_wait_ns, uint64_t now_ns,
                                             struct subject_reservation *out)
{
    return ration_bucket_reserve(state, limit, cost, max_wait_ns, now_ns, &out->bucket);
}

/* Reads how many tokens were returned to a bucket: see bucket/returns.h. */
static void read_returns(const struct ration_bucket *bucket, const struct ration_limit *limit,
                         struct subject_reservation *r)
{
    struct ration_returns returns =
        ration_returns_since(limit, r->bucket.returned,
                             (union ration_state){.words = {bucket->words[0], bucket->words[1]}});

    r->returned_tokens = returns.returned_tokens;
    r->refunded_tokens = returns.refunded_tokens;
}

static void bucket_settle(void *state, const struct ration_limit *limit,
                          struct subject_reservation *r, uint64_t used, uint64_t now_ns)
{
    ration_status status;

    read_returns(state, limit, r);
    status = used == 0 ? ration_bucket_cancel(state, limit, &r->bucket, now_ns)
                       : ration_bucket_settle(state, limit, &r->bucket, used, now_ns);

    if (status != RATION_OK ||
        ration_bucket_settle(state, limit, &r->bucket, used, now_ns) != RATION_ECLOSED)
        __builtin_trap();
}

static uint64_t bucket_full_after(const void *state, const struct ration_limit *limit,
                                  uint64_t now_ns)
{
    union ration_state words;

    memcpy(&words, state, sizeof words);
    return ration_algorithm_full_after_ns(
        limit, ration_returns_without_count(words, ration_returns_spare_of(limit)), now_ns);
}

const struct subject subject_bucket = {
    "bucket",          bucket_size,   bucket_start,      bucket_take, bucket_peek,
    bucket_take_up_to, bucket_refund, bucket_charge,     bucket_set,  bucket_block,
    bucket_reserve,    bucket_settle, bucket_full_after,
};

/* --- burst reserve --- */

static size_t reserve_size(const struct ration_limit *limit)
{
    (void)limit;
    return sizeof(struct ration_reserve);
}

static void reserve_set(void *state, const struct ration_limit *limit, uint64_t tokens,
                        uint64_t now_ns)
{
    *(struct ration_reserve *)state = ration_reserve_set(limit, tokens, now_ns);
}

static void reserve_start(void *state, const struct ration_limit *limit, uint64_t now_ns)
{
    if (limit->start == RATION_START_FULL)
        memset(state, 0, sizeof(struct ration_reserve));
    else
        reserve_set(state, limit, limit->start == RATION_START_EMPTY ? 0 : limit->start_tokens,
                    now_ns);
}

static struct ration_decision reserve_take(void *state, const struct ration_limit *limit,
                                           uint64_t cost, uint64_t now_ns)
{
    struct ration_reserve *s = state;
    struct ration_reserve_step step = ration_reserve_take(*s, limit, cost, 0, now_ns);

    *s = step.next;
    return step.decision;
}

static uint64_t reserve_take_up_to(void *state, const struct ration_limit *limit, uint64_t cost_max,
                                   uint64_t now_ns, struct ration_decision *out)
{
    struct ration_reserve *s = state;
    uint64_t granted = 0;
    struct ration_reserve_step step =
        large_state_reserve_up_to(*s, limit, cost_max, now_ns, &granted);

    *s = step.next;
    *out = step.decision;
    return granted;
}

static void reserve_refund(void *state, const struct ration_limit *limit, uint64_t tokens,
                           uint64_t now_ns)
{
    struct ration_reserve *s = state;

    *s = ration_reserve_refund(*s, limit, tokens, now_ns);
}

static void reserve_charge(void *state, const struct ration_limit *limit, uint64_t tokens,
                           uint64_t now_ns)
{
    struct ration_reserve *s = state;

    *s = ration_reserve_charge(*s, limit, tokens, now_ns);
}

static ration_status reserve_block(void *state, const struct ration_limit *limit, uint64_t until_ns)
{
    struct ration_reserve *s = state;

    *s = ration_reserve_block(*s, limit, until_ns);
    return RATION_OK;
}

static struct ration_decision reserve_reserve(void *state, const struct ration_limit *limit,
                                              uint64_t cost, uint64_t max_wait_ns, uint64_t now_ns,
                                              struct subject_reservation *out)
{
    struct ration_reserve *s = state;
    struct ration_reserve_step step = ration_reserve_take(*s, limit, cost, max_wait_ns, now_ns);

    if (step.decision.verdict == RATION_ALLOW) {
        out->part = step.part;
        out->bucket.cost_tokens = cost;
        out->bucket.ready_at_ns = ration_time_clamp(now_ns) + step.decision.delay_ns;
        out->reserve_before = *s;
        out->reserve_mark = step.next;
    }
    *s = step.next;
    return step.decision;
}

static void reserve_settle(void *state, const struct ration_limit *limit,
                           struct subject_reservation *r, uint64_t used, uint64_t now_ns)
{
    struct ration_reserve *s = state;
    bool is_promised = used > 0 && ration_time_clamp(now_ns) < r->bucket.ready_at_ns;
    struct ration_reserve_release release = {
        .before = r->reserve_before,
        .mark = r->reserve_mark,
        .cost_tokens = r->bucket.cost_tokens,
        .unused_tokens = r->bucket.cost_tokens - used,
        .turn_ns = r->bucket.ready_at_ns,
    };

    /* Returned tokens are not counted here: any number will do, if the model has the same. */
    r->returned_tokens = release.returned_tokens = used % 4 == 1 ? r->bucket.cost_tokens / 2 : 0;
    if (used < r->bucket.cost_tokens && !is_promised)
        *s = ration_reserve_release(*s, limit, r->part, &release, now_ns);
    else if (used > r->bucket.cost_tokens)
        *s = ration_reserve_charge(*s, limit, used - r->bucket.cost_tokens, now_ns);
}

static uint64_t reserve_full_after(const void *state, const struct ration_limit *limit,
                                   uint64_t now_ns)
{
    (void)limit;
    return ration_reserve_full_after_ns(*(const struct ration_reserve *)state, now_ns);
}

const struct subject subject_reserve = {
    "reserve",          reserve_size,   reserve_start,      reserve_take, NULL,
    reserve_take_up_to, reserve_refund, reserve_charge,     reserve_set,  reserve_block,
    reserve_reserve,    reserve_settle, reserve_full_after,
};

/* --- sliding log: its head, then the ring --- */

static size_t log_size(const struct ration_limit *limit)
{
    return sizeof(struct ration_log_ring_head) + sizeof(uint64_t) * limit->tokens;
}

static struct array_log log_view(const void *state)
{
    struct ration_log_ring_head *head = (struct ration_log_ring_head *)(uintptr_t)state;

    return (struct array_log){*head, (uint64_t *)(head + 1)};
}

static void log_keep(void *state, const struct array_log *log)
{
    *(struct ration_log_ring_head *)state = log->head;
}

static struct ration_decision log_take(void *state, const struct ration_limit *limit, uint64_t cost,
                                       uint64_t now_ns)
{
    struct array_log log = log_view(state);
    struct ration_decision decision = array_log_take(&log, limit, cost, now_ns);

    log_keep(state, &log);
    return decision;
}

static void log_refund(void *state, const struct ration_limit *limit, uint64_t tokens,
                       uint64_t now_ns)
{
    struct array_log log = log_view(state);

    array_log_refund(&log, limit, tokens, now_ns);
    log_keep(state, &log);
}

static void log_charge(void *state, const struct ration_limit *limit, uint64_t tokens,
                       uint64_t now_ns)
{
    struct array_log log = log_view(state);

    array_log_charge(&log, limit, tokens, now_ns);
    log_keep(state, &log);
}

static void log_set(void *state, const struct ration_limit *limit, uint64_t tokens, uint64_t now_ns)
{
    struct array_log log = log_view(state);

    array_log_set(&log, limit, tokens, now_ns);
    log_keep(state, &log);
}

static void log_start(void *state, const struct ration_limit *limit, uint64_t now_ns)
{
    if (limit->start == RATION_START_FULL)
        memset(state, 0, log_size(limit));
    else
        log_set(state, limit, limit->start == RATION_START_EMPTY ? 0 : limit->start_tokens, now_ns);
}

static uint64_t log_full_after(const void *state, const struct ration_limit *limit, uint64_t now_ns)
{
    struct array_log log = log_view(state);

    return array_log_full_after_ns(&log, limit, now_ns);
}

const struct subject subject_log = {
    "log",      log_size, log_start, log_take, NULL, NULL,           log_refund,
    log_charge, log_set,  NULL,      NULL,     NULL, log_full_after,
};

const struct subject *subject_of(const struct ration_limit *limit)
{
    if (limit->algorithm == RATION_BURST_RESERVE)
        return &subject_reserve;
    return limit->algorithm == RATION_SLIDING_LOG ? &subject_log : &subject_bucket;
}
