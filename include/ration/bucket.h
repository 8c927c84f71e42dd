/*
 * bucket: one limit for one thing, in 16 bytes of your own memory.
 *
 *     static struct ration_bucket bucket; // all-zero bytes are a full bucket
 *     if (!ration_bucket_allow(&bucket, &limit)) { ... }
 *
 * Any number of threads may use one bucket at once, and processes may share one in shared
 * memory if they share the clock. Every call is lock-free: a retry means that another caller
 * got through. A denial writes nothing. There is no destructor.
 *
 * Memory order: a call that changes the bucket is one 16-byte compare-and-swap, sequentially
 * consistent with the other calls on the same bucket; a call that changes nothing is one atomic
 * 16-byte load with acquire order. So what a thread wrote before a call that changed the bucket
 * is seen by a thread whose later call saw that change.
 *
 * now_ns is any clock that runs in nanoseconds (clock.h), the same for all callers. It may be
 * stale, repeated, zero or maximal: a value that runs back may deny but never mints tokens.
 * Above 2^63 - 1 it counts as 2^63 - 1.
 *
 * Keep a bucket that several threads use away from what they only read, its limit for one: each
 * change of the bucket takes its whole cache line from the other cores.
 *
 * The memory must be writable, also for a look: x86-64 processors without AVX have no other
 * atomic load of 16 bytes than a compare-and-swap.
 *
 * A bucket holds the algorithms whose state fits 16 bytes: all but RATION_BURST_RESERVE and
 * RATION_SLIDING_LOG. Using it with one of those, or with a limit that was never made, is a bug
 * and stops the program; ration_bucket_init() and ration_bucket_fits() tell beforehand.
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

/* Whether a bucket can hold the state of this limit. */
RATION_API bool ration_bucket_fits(const struct ration_limit *limit);

/*
 * Sets a bucket to the limit's initial fill (its `start`). A bucket of zero bytes needs no init
 * and is full. Returns RATION_EUNFIT, with the bucket untouched, if the limit does not fit.
 */
RATION_API ration_status ration_bucket_init(struct ration_bucket *bucket,
                                            const struct ration_limit *limit, uint64_t now_ns);

/* Takes one token now, by the default clock. True: go ahead. */
RATION_API bool ration_bucket_allow(struct ration_bucket *bucket, const struct ration_limit *limit);

/* Takes cost tokens at now. True: go ahead. The fastest call: it computes no waits. */
RATION_API bool ration_bucket_allow_at(struct ration_bucket *bucket,
                                       const struct ration_limit *limit, uint64_t cost_tokens,
                                       uint64_t now_ns);

/*
 * Takes cost tokens at now, all or nothing, and tells everything about it. Cost 0 takes nothing and is always
 * ALLOW, also of a bucket that is in debt or blocked: remaining is then 0.
 */
RATION_API struct ration_decision ration_bucket_take(struct ration_bucket *bucket,
                                                     const struct ration_limit *limit,
                                                     uint64_t cost_tokens, uint64_t now_ns);

/*
 * What a take of cost tokens would be answered, taking nothing: remaining and reset_after_ns
 * are those of the bucket as it stands.
 */
RATION_API struct ration_decision ration_bucket_look(const struct ration_bucket *bucket,
                                                     const struct ration_limit *limit,
                                                     uint64_t cost_tokens, uint64_t now_ns);

/*
 * Takes as many tokens as there are, at most cost_max. Returns how many. *out_decision (may be
 * NULL) is ALLOW if at least one was granted (or none was asked for), else the denial of a
 * single token.
 */
RATION_API uint64_t ration_bucket_take_up_to(struct ration_bucket *bucket,
                                             const struct ration_limit *limit,
                                             uint64_t cost_tokens_max, uint64_t now_ns,
                                             struct ration_decision *out_decision);

/* Gives tokens back. A bucket never holds more than its burst. */
RATION_API void ration_bucket_refund(struct ration_bucket *bucket, const struct ration_limit *limit,
                                     uint64_t tokens, uint64_t now_ns);

/* Takes tokens that were already used, whatever is left: the bucket may go below zero. */
RATION_API void ration_bucket_force(struct ration_bucket *bucket, const struct ration_limit *limit,
                                    uint64_t tokens, uint64_t now_ns);

/* Sets the bucket to hold tokens (at most its burst). */
RATION_API void ration_bucket_set(struct ration_bucket *bucket, const struct ration_limit *limit,
                                  uint64_t tokens, uint64_t now_ns);

/*
 * Denies everything before until_ns; a single token passes at that moment (a queue lets it in
 * then, behind a full queue). A longer block or debt stays.
 * Returns RATION_EUNFIT for window algorithms, whose state cannot say it.
 */
RATION_API ration_status ration_bucket_block_until(struct ration_bucket *bucket,
                                                   const struct ration_limit *limit,
                                                   uint64_t until_ns);

/* A place taken in a bucket's line. Owned by the caller; settled or cancelled at most once. */
struct ration_reservation {
    uint64_t cost_tokens;
    uint64_t ready_at_ns; /* go at this time */
    uint64_t before[2];   /* the bucket as this reservation found it */
    uint64_t mark[2];     /* and as it left it */
    uint64_t returned;    /* what the bucket had counted then as returned */
    uint32_t open;        /* 1 until settled or cancelled */
};

/*
 * Takes a place in line for cost tokens if its turn comes within max_wait_ns. On ALLOW the
 * caller goes after delay_ns (at out_reservation->ready_at_ns) and later settles with what it
 * really used, or cancels. On DENY and NEVER nothing is taken and *out_reservation is untouched;
 * retry_after_ns then is the wait that would have been needed. No line is longer than 2 years.
 * Token buckets and queues have a line to wait in; windows have none and say ALLOW only if the
 * caller may go at once.
 */
RATION_API struct ration_decision ration_bucket_reserve(struct ration_bucket *bucket,
                                                        const struct ration_limit *limit,
                                                        uint64_t cost_tokens, uint64_t max_wait_ns,
                                                        uint64_t now_ns,
                                                        struct ration_reservation *out_reservation);

/*
 * Ends a reservation with the tokens really used. What was used beyond the cost is charged,
 * whatever is left. What was not used comes back as far as it is still outstanding: tokens that
 * time has paid back since may have been taken by others. So what is used, counted when its
 * caller could go, never exceeds the contract (R1).
 *
 *     1000/min   reserve 800 at 0 s, settle 100     at 10 s: 633 of the 700 come back
 *                                                   at 48 s: none, the bucket is full again
 *
 * While others wait behind it for a turn that they were promised, nothing comes back: their
 * moments would be promised twice. Settle after the turn has come: before it, only a cancelled
 * reservation that is the last in line leaves the bucket as it was. If other reservations returned
 * tokens since this one was made, less may come back, never more. A queue gives back only to the last
 * in line. So reservations that wait are best cancelled last first:
 *
 *     5/min      100 reserve 1 at 0 s, all cancel at 0 s     last first: the bucket is full
 *                                                            first first: nothing passes for 1140 s,
 *                                                            though nobody waits any more
 *
 * Tokens that were refunded since count as this reservation's own: that much less comes back. After
 * an init, a set, a block or a change nothing does. (A window cannot count refunds, only notice them: after
 * one, too, nothing comes back; nor ever, of a window whose period is an odd number of nanoseconds or
 * whose bucket was refunded or set 511 times, for a period of whole seconds, and of an interval
 * bucket of more than 2^20 tokens a time.) The limit is the one that the reservation was made under.
 * Returns RATION_ECLOSED, with nothing changed, the second time.
 */
RATION_API ration_status ration_bucket_settle(struct ration_bucket *bucket,
                                              const struct ration_limit *limit,
                                              struct ration_reservation *reservation,
                                              uint64_t used_tokens, uint64_t now_ns);

/* Settles with 0. Same returns. */
RATION_API ration_status ration_bucket_cancel(struct ration_bucket *bucket,
                                              const struct ration_limit *limit,
                                              struct ration_reservation *reservation,
                                              uint64_t now_ns);

enum ration_change {
    RATION_CHANGE_KEEP = 0, /* keep the tokens and the fraction; full stays full */
    RATION_CHANGE_RESET     /* start anew, with the new limit's initial fill */
};

/*
 * Turns the state written under one limit into that of another. Call it once per change, with no
 * other call on the bucket until all callers use the new limit: what is taken under the old one
 * after it is charged in the old one's time.
 * Returns RATION_EUNFIT if the new one does not fit, RATION_EINVAL for an unknown change; then nothing
 * has changed.
 */
RATION_API ration_status ration_bucket_change(struct ration_bucket *bucket,
                                              const struct ration_limit *old_limit,
                                              const struct ration_limit *new_limit,
                                              enum ration_change change, uint64_t now_ns);

RATION_C_END

#endif
