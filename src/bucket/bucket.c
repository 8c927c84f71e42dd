/*
 * bucket: a pure step of the core, published by one compare-and-swap.
 *
 * Every call that changes a bucket is the same loop: load the 16 bytes, compute the next state,
 * swap it in if no other thread was faster, otherwise start again from the state that thread left.
 * A failed swap means that another call succeeded, so the loop is lock-free and needs no bound. A
 * call that changes nothing (a denial, a peek) ends with the load.
 *
 *     state seen      legal next                                by
 *     any s           s (no write)                              peek, DENY, NEVER
 *     any s           step(s, limit, cost, now)                 take, reserve
 *     any s           refund, charge, set, block, release, change of s
 *
 * Nothing else is ever written, and no state needs a second write to be complete: a thread may stop
 * anywhere.
 *
 * Bits that the state does not use count the tokens returned to the bucket, so that a reservation
 * can compute how much of it is still outstanding: bucket/returns.h.
 */
#include "ration/bucket.h"

#include <string.h>

#include "base/atomic16.h"
#include "base/yield.h"
#include "bucket/returns.h"
#include "core/algorithm.h"
#include "core/change.h"

_Static_assert(sizeof(struct ration_bucket) == 16, "a bucket is 16 bytes");
_Static_assert(sizeof(struct ration_bucket) == sizeof(struct ration_pair), "one swap");
_Static_assert(_Alignof(struct ration_bucket) == 16, "a swap needs alignment");

/* The bucket's words as the pair that is loaded and swapped. Same layout, same alignment. */
static struct ration_pair *pair_of(struct ration_bucket *bucket)
{
    return (struct ration_pair *)(void *)bucket;
}

static union ration_state load_state(const struct ration_bucket *bucket)
{
    /* acquire: pairs with the swap in publish_state() */
    struct ration_pair pair =
        ration_atomic16_load((const struct ration_pair *)(const void *)bucket);

    return (union ration_state){.words = {pair.words[0], pair.words[1]}};
}

/* Returns true if next replaced *seen; otherwise *seen is the bucket's current content. */
static bool publish_state(struct ration_bucket *bucket, union ration_state *seen,
                          union ration_state next)
{
    struct ration_pair expected = {{seen->words[0], seen->words[1]}};
    struct ration_pair desired = {{next.words[0], next.words[1]}};

    ration_yield_point();
    /* sequentially consistent: pairs with the load in load_state() and with itself */
    bool swapped = ration_atomic16_swap(pair_of(bucket), &expected, desired);

    seen->words[0] = expected.words[0];
    seen->words[1] = expected.words[1];
    return swapped;
}

/* A limit that was never made, or whose state is larger, is a bug in the caller. */
static inline void expect_fit(const struct ration_limit *limit)
{
    if (__builtin_expect(!ration_algorithm_fits(limit), 0))
        __builtin_trap();
}

/*
 * Takes, starting again while other threads change the bucket. Inline, with spare and is_gcra
 * constant: the loop does not test again what its callers know about the limit.
 */
static inline __attribute__((always_inline)) struct ration_step take_loop(
    struct ration_bucket *bucket, const struct ration_limit *limit, bool is_gcra,
    struct ration_spare spare, uint64_t cost_tokens, uint64_t max_wait_ns, uint64_t now_ns)
{
    union ration_state seen = load_state(bucket);

    for (;;) {
        if (ration_algorithm_is_gcra(limit) != is_gcra)
            __builtin_unreachable();

        struct ration_step step = ration_algorithm_take(
            limit, ration_returns_without_count(seen, spare), cost_tokens, max_wait_ns, now_ns);

        if (step.verdict != RATION_ALLOW || cost_tokens == 0 ||
            publish_state(bucket, &seen, ration_returns_with_count(step.next, seen, spare)))
            return step;
    }
}

static inline __attribute__((always_inline)) struct ration_step take_gcra(
    struct ration_bucket *bucket, const struct ration_limit *limit, uint64_t cost_tokens,
    uint64_t max_wait_ns, uint64_t now_ns)
{
    return take_loop(bucket, limit, true, ration_returns_spare_of_count(true), cost_tokens,
                     max_wait_ns, now_ns);
}

/* Takes from a bucket of any other algorithm. */
static inline __attribute__((always_inline)) struct ration_step take_other(
    struct ration_bucket *bucket, const struct ration_limit *limit, uint64_t cost_tokens,
    uint64_t max_wait_ns, uint64_t now_ns)
{
    if (ration_algorithm_is_window(limit))
        return take_loop(bucket, limit, false, ration_returns_spare_of_window(limit), cost_tokens,
                         max_wait_ns, now_ns);
    expect_fit(limit);
    if (ration_returns_has_spare_count(limit))
        return take_loop(bucket, limit, false, ration_returns_spare_of_count(true), cost_tokens,
                         max_wait_ns, now_ns);
    return take_loop(bucket, limit, false, ration_returns_spare_of_count(false), cost_tokens,
                     max_wait_ns, now_ns);
}

static inline struct ration_step take_tokens(struct ration_bucket *bucket,
                                             const struct ration_limit *limit, uint64_t cost_tokens,
                                             uint64_t max_wait_ns, uint64_t now_ns)
{
    if (__builtin_expect(ration_algorithm_is_gcra(limit), 1))
        return take_gcra(bucket, limit, cost_tokens, max_wait_ns, now_ns);
    return take_other(bucket, limit, cost_tokens, max_wait_ns, now_ns);
}

/* Neither is inline: each call saves only the registers that its own algorithm needs. */
static __attribute__((noinline)) bool allow_gcra(struct ration_bucket *bucket,
                                                 const struct ration_limit *limit,
                                                 uint64_t cost_tokens, uint64_t now_ns)
{
    return take_gcra(bucket, limit, cost_tokens, 0, now_ns).verdict == RATION_ALLOW;
}

static __attribute__((noinline)) bool allow_other(struct ration_bucket *bucket,
                                                  const struct ration_limit *limit,
                                                  uint64_t cost_tokens, uint64_t now_ns)
{
    return take_other(bucket, limit, cost_tokens, 0, now_ns).verdict == RATION_ALLOW;
}

bool ration_bucket_fits(const struct ration_limit *limit)
{
    return ration_algorithm_fits(limit);
}

bool ration_bucket_allow_at(struct ration_bucket *bucket, const struct ration_limit *limit,
                            uint64_t cost_tokens, uint64_t now_ns)
{
    if (__builtin_expect(ration_algorithm_is_gcra(limit), 1))
        return allow_gcra(bucket, limit, cost_tokens, now_ns);
    return allow_other(bucket, limit, cost_tokens, now_ns);
}

struct ration_decision ration_bucket_take(struct ration_bucket *bucket,
                                          const struct ration_limit *limit, uint64_t cost_tokens,
                                          uint64_t now_ns)
{
    struct ration_step step = take_tokens(bucket, limit, cost_tokens, 0, now_ns);

    return ration_algorithm_describe(limit, &step, now_ns);
}

struct ration_decision ration_bucket_peek(const struct ration_bucket *bucket,
                                          const struct ration_limit *limit, uint64_t cost_tokens,
                                          uint64_t now_ns)
{
    expect_fit(limit);

    union ration_state seen =
        ration_returns_without_count(load_state(bucket), ration_returns_spare_of(limit));
    struct ration_step step = ration_algorithm_take(limit, seen, cost_tokens, 0, now_ns);

    step.next = seen;
    return ration_algorithm_describe(limit, &step, now_ns);
}

uint64_t ration_bucket_take_up_to(struct ration_bucket *bucket, const struct ration_limit *limit,
                                  uint64_t cost_tokens_max, uint64_t now_ns,
                                  struct ration_decision *out_decision)
{
    expect_fit(limit);

    const struct ration_spare spare = ration_returns_spare_of(limit);
    union ration_state seen = load_state(bucket);
    struct ration_step step;
    uint64_t granted;

    do {
        union ration_state state = ration_returns_without_count(seen, spare);
        uint64_t remaining = ration_algorithm_remaining(limit, state, now_ns);

        granted = cost_tokens_max < remaining ? cost_tokens_max : remaining;
        /* With no tokens left, the decision is that of a single token. */
        step = ration_algorithm_take(limit, state,
                                     granted == 0 && cost_tokens_max > 0 ? 1 : granted, 0, now_ns);
    } while (granted > 0 &&
             !publish_state(bucket, &seen, ration_returns_with_count(step.next, seen, spare)));

    if (out_decision != NULL)
        *out_decision = ration_algorithm_describe(limit, &step, now_ns);
    return granted;
}

/* The changes other than takes: each is a function of the state and one of these. */
struct update {
    const struct ration_limit *limit;
    const struct ration_limit *new_limit;                /* NULL: the limit does not change */
    const struct ration_bucket_reservation *reservation; /* being settled; NULL: none */
    struct ration_release release;
    uint64_t tokens; /* for a settle: those used */
    /* The most that any earlier reservation may have been refunded. 0 for a settle. */
    uint64_t refunded_tokens;
    uint64_t now_ns;
};

typedef union ration_state update_func(const struct update *update, union ration_state state);

/* The bucket with the state next, and with the tokens that the update returned to it counted. */
static union ration_state count_update(const struct update *update, union ration_state raw,
                                       union ration_state state, union ration_state next)
{
    const struct ration_limit *limit =
        update->new_limit != NULL ? update->new_limit : update->limit;
    struct ration_spare spare = ration_returns_spare_of(update->limit);
    struct ration_spare new_spare = ration_returns_spare_of(limit);
    uint64_t returned = ration_algorithm_returned(update->limit, state, next, update->now_ns);
    bool is_used = (state.words[0] | state.words[1]) != 0;
    bool is_same = update->new_limit != NULL && memcmp(&next, &state, sizeof(next)) == 0;

    if (update->refunded_tokens > 0 && is_used && !is_same)
        raw = ration_returns_add_refunded(raw, spare,
                                          ration_u64_max(returned, update->refunded_tokens));
    /* The last reservation moves no other: there is no later one. */
    else if (update->reservation != NULL && !ration_state_release_is_last(&update->release, state))
        raw = ration_returns_add_returned(raw, spare, returned);
    for (int i = 0; i < 2; i++)
        spare.words[i] &= new_spare.words[i];
    return ration_returns_with_count(next, raw, spare);
}

/* Passes the tokens returned to the bucket since the reservation to its release. */
static void load_returns(struct update *update, union ration_state seen)
{
    struct ration_returns returns =
        ration_returns_since(update->limit, update->reservation->returned, seen);
    uint64_t cost = update->reservation->cost_tokens;

    update->release.returned_tokens = returns.returned_tokens;
    /* refunded tokens may have been the reservation's own: they are returned only once */
    update->release.cost_tokens = ration_u64_less(cost, returns.refunded_tokens);
    update->release.unused_tokens = ration_u64_less(cost - update->tokens, returns.refunded_tokens);
}

static void apply_update(struct ration_bucket *bucket, update_func *function, struct update *update)
{
    const struct ration_spare spare = ration_returns_spare_of(update->limit);
    union ration_state seen = load_state(bucket);
    union ration_state next;

    do {
        union ration_state state = ration_returns_without_count(seen, spare);

        if (update->reservation != NULL)
            load_returns(update, seen);
        next = count_update(update, seen, state, function(update, state));
        if (memcmp(&next, &seen, sizeof(next)) == 0)
            return;
    } while (!publish_state(bucket, &seen, next));
}

static union ration_state update_refund(const struct update *update, union ration_state state)
{
    return ration_algorithm_refund(update->limit, state, update->tokens, update->now_ns);
}

static union ration_state update_charge(const struct update *update, union ration_state state)
{
    return ration_algorithm_charge(update->limit, state, update->tokens, update->now_ns);
}

static union ration_state update_set(const struct update *update, union ration_state state)
{
    (void)state;
    return ration_algorithm_set(update->limit, update->tokens, update->now_ns);
}

static union ration_state update_start(const struct update *update, union ration_state state)
{
    (void)state;
    return ration_algorithm_start(update->limit, update->now_ns);
}

static union ration_state update_block(const struct update *update, union ration_state state)
{
    return ration_algorithm_block(update->limit, state, update->now_ns);
}

static union ration_state update_release(const struct update *update, union ration_state state)
{
    return ration_algorithm_release(update->limit, state, &update->release, update->now_ns);
}

static union ration_state update_change(const struct update *update, union ration_state state)
{
    return ration_change_keep(state, update->limit, update->new_limit, update->now_ns);
}

ration_status ration_bucket_init(struct ration_bucket *bucket, const struct ration_limit *limit,
                                 uint64_t now_ns)
{
    if (!ration_algorithm_fits(limit))
        return RATION_EUNSUPPORTED;
    apply_update(
        bucket, update_start,
        &(struct update){.limit = limit, .refunded_tokens = limit->burst, .now_ns = now_ns});
    return RATION_OK;
}

void ration_bucket_refund(struct ration_bucket *bucket, const struct ration_limit *limit,
                          uint64_t tokens, uint64_t now_ns)
{
    expect_fit(limit);
    apply_update(bucket, update_refund,
                 &(struct update){.limit = limit,
                                  .tokens = tokens,
                                  .refunded_tokens = ration_u64_min(tokens, limit->burst),
                                  .now_ns = now_ns});
}

void ration_bucket_charge(struct ration_bucket *bucket, const struct ration_limit *limit,
                          uint64_t tokens, uint64_t now_ns)
{
    expect_fit(limit);
    apply_update(bucket, update_charge,
                 &(struct update){.limit = limit, .tokens = tokens, .now_ns = now_ns});
}

void ration_bucket_set(struct ration_bucket *bucket, const struct ration_limit *limit,
                       uint64_t tokens, uint64_t now_ns)
{
    expect_fit(limit);
    apply_update(
        bucket, update_set,
        &(struct update){
            .limit = limit, .tokens = tokens, .refunded_tokens = limit->burst, .now_ns = now_ns});
}

ration_status ration_bucket_block_until(struct ration_bucket *bucket,
                                        const struct ration_limit *limit, uint64_t until_ns)
{
    expect_fit(limit);
    if (!ration_algorithm_can_block(limit))
        return RATION_EUNSUPPORTED;
    /* the tokens in use at that time keep the bucket blocked, so no reservation may return them */
    apply_update(
        bucket, update_block,
        &(struct update){.limit = limit, .refunded_tokens = limit->burst, .now_ns = until_ns});
    return RATION_OK;
}

/*
 * A queue accepts every caller that fits; ration_bucket_reserve() accepts only those whose ready
 * time comes soon enough. For the others the wait is the time until they could proceed immediately,
 * whether the queue is full or too long for them.
 */
static struct ration_step limit_wait(struct ration_step step, const struct ration_limit *limit,
                                     union ration_state seen, uint64_t max_wait_ns, uint64_t now_ns)
{
    bool is_late = step.verdict == RATION_ALLOW && step.wait_ns > max_wait_ns;

    if (limit->algorithm != RATION_LEAKY_QUEUE || (!is_late && step.verdict != RATION_DENY))
        return step;
    return (struct ration_step){RATION_DENY, ration_algorithm_full_after_ns(limit, seen, now_ns),
                                seen};
}

struct ration_decision ration_bucket_reserve(struct ration_bucket *bucket,
                                             const struct ration_limit *limit, uint64_t cost_tokens,
                                             uint64_t max_wait_ns, uint64_t now_ns,
                                             struct ration_bucket_reservation *out_reservation)
{
    expect_fit(limit);

    const struct ration_spare spare = ration_returns_spare_of(limit);
    union ration_state seen = load_state(bucket);
    union ration_state state;
    struct ration_step step;

    do {
        state = ration_returns_without_count(seen, spare);
        step = ration_algorithm_take(limit, state, cost_tokens, max_wait_ns, now_ns);
        step = limit_wait(step, limit, state, max_wait_ns, now_ns);
    } while (step.verdict == RATION_ALLOW && cost_tokens > 0 &&
             !publish_state(bucket, &seen, ration_returns_with_count(step.next, seen, spare)));

    if (step.verdict == RATION_ALLOW)
        *out_reservation = (struct ration_bucket_reservation){
            .cost_tokens = cost_tokens,
            .ready_at_ns = ration_time_clamp(now_ns) + step.wait_ns,
            .before = {state.words[0], state.words[1]},
            .mark = {step.next.words[0], step.next.words[1]},
            .returned = ration_returns_count(seen, spare),
            .open = 1,
        };
    return ration_algorithm_describe(limit, &step, now_ns);
}

ration_status ration_bucket_settle(struct ration_bucket *bucket, const struct ration_limit *limit,
                                   struct ration_bucket_reservation *reservation,
                                   uint64_t used_tokens, uint64_t now_ns)
{
    expect_fit(limit);
    if (!reservation->open)
        return RATION_ECLOSED;
    reservation->open = 0;

    uint64_t cost = reservation->cost_tokens;
    struct update update = {.limit = limit, .now_ns = now_ns};

    /* A reservation before its ready time is still promised that time, whatever it will use. */
    bool is_promised = used_tokens > 0 && ration_time_clamp(now_ns) < reservation->ready_at_ns;

    if (used_tokens < cost && !is_promised) {
        update.reservation = reservation;
        update.tokens = used_tokens;
        update.release = (struct ration_release){
            .before = {.words = {reservation->before[0], reservation->before[1]}},
            .mark = {.words = {reservation->mark[0], reservation->mark[1]}},
            .turn_ns = reservation->ready_at_ns,
        };
        apply_update(bucket, update_release, &update);
    } else if (used_tokens > cost) {
        update.tokens = used_tokens - cost;
        apply_update(bucket, update_charge, &update);
    }
    return RATION_OK;
}

ration_status ration_bucket_cancel(struct ration_bucket *bucket, const struct ration_limit *limit,
                                   struct ration_bucket_reservation *reservation, uint64_t now_ns)
{
    return ration_bucket_settle(bucket, limit, reservation, 0, now_ns);
}

ration_status ration_bucket_change(struct ration_bucket *bucket,
                                   const struct ration_limit *old_limit,
                                   const struct ration_limit *new_limit, enum ration_change change,
                                   uint64_t now_ns)
{
    expect_fit(old_limit);
    if ((unsigned)change > RATION_CHANGE_RESET)
        return RATION_EINVAL;
    if (!ration_algorithm_fits(new_limit))
        return RATION_EUNSUPPORTED;
    if (change == RATION_CHANGE_RESET)
        return ration_bucket_init(bucket, new_limit, now_ns);
    apply_update(bucket, update_change,
                 &(struct update){.limit = old_limit,
                                  .new_limit = new_limit,
                                  .refunded_tokens = old_limit->burst,
                                  .now_ns = now_ns});
    return RATION_OK;
}
