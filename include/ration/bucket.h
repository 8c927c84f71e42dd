/*
 * bucket: one limit for one key, in 16 bytes of the caller's memory.
 *
 *     static struct ration_bucket bucket; // all-zero bytes are a full bucket
 *     if (!ration_bucket_allow(&bucket, &limit)) { ... }
 *
 * Threads: any number of threads may use one bucket at the same time, and processes may share one
 * in shared memory if they use the same clock. Every call is lock-free: a retry means that another
 * caller made progress. A denial writes nothing. A bucket needs no destructor.
 *
 * Memory order: a call that changes the bucket is one 16-byte compare-and-swap, sequentially
 * consistent with the other calls on the same bucket; a call that changes nothing is one atomic
 * 16-byte load with acquire order. So data that a thread wrote before a call that changed the
 * bucket is visible to a thread whose later call read that change.
 *
 * Time: now_ns is a time in nanoseconds of any clock (clock.h), the same clock for all callers. It
 * may be stale, repeated, zero or UINT64_MAX: a time that runs backwards may cause denials but
 * never creates tokens. Values above 2^63 - 1 count as 2^63 - 1.
 *
 * Keep a bucket that several threads use on another cache line than data they only read, such as
 * its limit: each change of the bucket takes its whole cache line from the other cores.
 *
 * The memory must be writable, even for a peek: x86-64 processors without AVX have no atomic
 * 16-byte load except a compare-and-swap.
 *
 * A bucket holds the algorithms whose state fits in 16 bytes: all but RATION_BURST_RESERVE and
 * RATION_SLIDING_LOG. Using it with one of those, or with a limit that was never made, is a bug and
 * stops the program; check with ration_bucket_init() or ration_bucket_fits() first.
 */
#ifndef RATION_BUCKET_H
#define RATION_BUCKET_H

#include <stdbool.h>
#include <stdint.h>

#include "ration/decision.h"
#include "ration/export.h"
#include "ration/limit.h"
#include "ration/status.h"

RATION_C_BEGIN

struct ration_bucket {
    uint64_t words[2];
} __attribute__((aligned(16)));

/* Returns whether a bucket can hold the state of this limit. */
RATION_API bool ration_bucket_fits(const struct ration_limit *limit);

/*
 * Sets a bucket to the limit's initial fill (its `start`). A bucket of all-zero bytes needs no init
 * and is full. Returns RATION_EUNSUPPORTED, with the bucket untouched, if the limit's state does
 * not fit.
 */
RATION_API ration_status ration_bucket_init(struct ration_bucket *bucket,
                                            const struct ration_limit *limit, uint64_t now_ns);

/*
 * Takes one token at the current time of the default clock. Returns true if the caller may proceed.
 */
RATION_API bool ration_bucket_allow(struct ration_bucket *bucket, const struct ration_limit *limit);

/*
 * Takes cost_tokens at now_ns. Returns true if the caller may proceed. The fastest call: it does
 * not compute waits.
 */
RATION_API bool ration_bucket_allow_at(struct ration_bucket *bucket,
                                       const struct ration_limit *limit, uint64_t cost_tokens,
                                       uint64_t now_ns);

/*
 * Takes cost_tokens at now_ns, all or nothing, and returns the full decision. Cost 0 takes nothing
 * and is always ALLOW, even for a bucket that is below zero tokens or blocked (remaining is then
 * 0).
 */
RATION_API struct ration_decision ration_bucket_take(struct ration_bucket *bucket,
                                                     const struct ration_limit *limit,
                                                     uint64_t cost_tokens, uint64_t now_ns);

/*
 * Returns the decision that a take of cost_tokens would get, without taking any: remaining and
 * reset_after_ns describe the unchanged bucket.
 */
RATION_API struct ration_decision ration_bucket_peek(const struct ration_bucket *bucket,
                                                     const struct ration_limit *limit,
                                                     uint64_t cost_tokens, uint64_t now_ns);

/*
 * Takes as many tokens as there are, at most cost_tokens_max, and returns their number.
 * *out_decision (may be NULL) is ALLOW if at least one was taken (or none was requested), otherwise
 * the denial of a single token.
 */
RATION_API uint64_t ration_bucket_take_up_to(struct ration_bucket *bucket,
                                             const struct ration_limit *limit,
                                             uint64_t cost_tokens_max, uint64_t now_ns,
                                             struct ration_decision *out_decision);

/* Returns tokens to the bucket, which never has more than its burst. */
RATION_API void ration_bucket_refund(struct ration_bucket *bucket, const struct ration_limit *limit,
                                     uint64_t tokens, uint64_t now_ns);

/* Takes tokens that were already used, even if fewer are left: the bucket may go below zero. */
RATION_API void ration_bucket_charge(struct ration_bucket *bucket, const struct ration_limit *limit,
                                     uint64_t tokens, uint64_t now_ns);

/* Sets the bucket's tokens (at most its burst). */
RATION_API void ration_bucket_set(struct ration_bucket *bucket, const struct ration_limit *limit,
                                  uint64_t tokens, uint64_t now_ns);

/*
 * Denies every request before until_ns; at until_ns a single token is allowed (a queue accepts it
 * then, behind a full queue). A block or debt that lasts longer is not shortened. Returns
 * RATION_EUNSUPPORTED for window algorithms, whose state cannot represent a block.
 */
RATION_API ration_status ration_bucket_block_until(struct ration_bucket *bucket,
                                                   const struct ration_limit *limit,
                                                   uint64_t until_ns);

/*
 * A reservation: tokens charged ahead of use. Owned by the caller, who settles or cancels it at
 * most once. The fields before, mark and returned are private to the library.
 */
struct ration_bucket_reservation {
    uint64_t cost_tokens;
    uint64_t ready_at_ns; /* the caller may proceed at this time */
    uint64_t before[2];   /* the bucket before this reservation */
    uint64_t mark[2];     /* the bucket after it */
    uint64_t returned;    /* the bucket's count of returned tokens at that time */
    uint32_t open;        /* 1 until settled or cancelled */
};

/*
 * Reserves cost_tokens if they become available within max_wait_ns. On ALLOW the caller may proceed
 * after delay_ns (at out_reservation->ready_at_ns) and later settles with the tokens it really
 * used, or cancels. On DENY and NEVER nothing is taken and *out_reservation is untouched;
 * retry_after_ns is then the wait that would have been needed. No wait is longer than 2 years. Only
 * token buckets and queues let a reservation wait; a window returns ALLOW only if the caller may
 * proceed immediately.
 */
RATION_API struct ration_decision ration_bucket_reserve(
    struct ration_bucket *bucket, const struct ration_limit *limit, uint64_t cost_tokens,
    uint64_t max_wait_ns, uint64_t now_ns, struct ration_bucket_reservation *out_reservation);

/*
 * Ends a reservation with the tokens really used. Tokens used beyond the cost are charged, even if
 * fewer are left. Unused tokens are returned as far as they are still outstanding: tokens that have
 * been refilled since may have been taken by other callers. So the tokens used, counted when their
 * caller could proceed, never exceed the limit (rule R1).
 *
 *     1000/min   reserve 800 at 0 s, settle 100     at 10 s: 633 of the 700 are returned
 *                                                   at 48 s: none, the bucket is full again
 *
 * While other reservations wait behind this one, nothing is returned, because their tokens would be
 * promised twice. Settle after ready_at_ns: before it, only cancelling the last reservation in the
 * queue restores the bucket. If other reservations returned tokens since this one was made, fewer
 * tokens may be returned, never more. Under a queue only the last reservation returns
 * tokens. So cancel waiting reservations in reverse order:
 *
 *     5/min      100 reserve 1 at 0 s, all cancel at 0 s     newest first: the bucket is full
 *                                                            oldest first: every request is denied for 1140 s,
 *                                                            although no reservation is left
 *
 * Tokens refunded since the reservation was made count as its own: that much less is returned.
 * Nothing is returned after an init, a set, a block or a change. (A window cannot count refunds,
 * only detect them: nothing is returned after a refund either. A window never returns anything if
 * its period is an odd number of nanoseconds, or once its bucket was refunded or set 511 times (for
 * a period of whole seconds); nor does an interval bucket of more than 2^20 tokens per period.)
 * limit must be the limit that the reservation was made under. Returns RATION_ECLOSED, with nothing
 * changed, if the reservation was already settled or cancelled.
 */
RATION_API ration_status ration_bucket_settle(struct ration_bucket *bucket,
                                              const struct ration_limit *limit,
                                              struct ration_bucket_reservation *reservation,
                                              uint64_t used_tokens, uint64_t now_ns);

/* Settles with 0 tokens used. Same returns. */
RATION_API ration_status ration_bucket_cancel(struct ration_bucket *bucket,
                                              const struct ration_limit *limit,
                                              struct ration_bucket_reservation *reservation,
                                              uint64_t now_ns);

enum ration_change {
    RATION_CHANGE_KEEP = 0, /* keep the tokens and their fraction; a full bucket stays full */
    RATION_CHANGE_RESET     /* start again with the new limit's initial fill */
};

/*
 * Converts the state written under one limit into that of another. Call it once per change, and
 * make no other call on the bucket until all callers use the new limit: tokens taken under the old
 * limit after the conversion are charged at the old limit's rate. Returns RATION_EUNSUPPORTED if
 * the new limit's state does not fit, RATION_EINVAL for an unknown change; then nothing has
 * changed.
 */
RATION_API ration_status ration_bucket_change(struct ration_bucket *bucket,
                                              const struct ration_limit *old_limit,
                                              const struct ration_limit *new_limit,
                                              enum ration_change change, uint64_t now_ns);

RATION_C_END

#endif
