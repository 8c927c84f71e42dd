/*
 * log_ring: the sliding log, exactly as many tokens as the limit in any window, from one time per token.
 *
 * The log is a ring with one cell per token of the limit: the time at which that token is available again (when it
 * was taken, plus the window). Oldest first from the head:
 *
 *     head
 *      v
 *     [ 12.1 | 12.4 | 15.0 | 19.9 ]      4 per 10s, now = 12.3: the first is available again
 *
 * A cost of c is allowed if the c-th oldest token is available again, one comparison; it then overwrites the c
 * oldest cells. Zero bytes are times long past: a full bucket. A now that runs backwards is counted at the newest
 * time in the ring, so the ring stays in order.
 *
 * The ring lies in a table: a function reads it cell by cell, and a step returns its writes instead of making
 * them, since they must be published together with the head.
 */
#ifndef RATION_LIMITER_LOG_RING_H
#define RATION_LIMITER_LOG_RING_H

#include "limiter/bucket_state.h"

/*
 * The time at which the n-th oldest token returns, n from 0; 0: long ago. Never later than that of the tokens
 * after it. Pending writes count as written.
 */
uint64_t ration_log_ring_moment(const struct ration_bucket_state *bucket, uint64_t nth);

struct ration_bucket_state_step ration_log_ring_take(const struct ration_bucket_state *bucket,
                                                     uint64_t cost_tokens, uint64_t now_ns);
uint64_t ration_log_ring_remaining(const struct ration_bucket_state *bucket, uint64_t now_ns);
struct ration_bucket_state ration_log_ring_refund(const struct ration_bucket_state *bucket,
                                                  uint64_t tokens);

/*
 * One step towards returning tokens of a take. *return_at_ns is the time at which they would return by themselves.
 * The step swaps them with the tokens of the next older time that is still in the future; then they have the
 * time of the tokens before them. The caller calls the function again with the new *return_at_ns until that is 0.
 * Then the tokens are back. Each step leaves a log that admits no more than one from which the tokens were
 * never taken. A step writes at most two different times, which is what a table can publish together.
 */
struct ration_bucket_state ration_log_ring_release(const struct ration_bucket_state *bucket,
                                                   uint64_t tokens, uint64_t now_ns,
                                                   uint64_t *return_at_ns);

struct ration_bucket_state ration_log_ring_charge(const struct ration_bucket_state *bucket,
                                                  uint64_t tokens, uint64_t now_ns);

/* No token returns before until_ns; all return then. */
struct ration_bucket_state ration_log_ring_empty_until(const struct ration_bucket_state *bucket,
                                                       uint64_t until_ns);

struct ration_bucket_state ration_log_ring_set(const struct ration_bucket_state *bucket,
                                               uint64_t tokens, uint64_t now_ns);

/*
 * Whether another step may follow the pending writes. If not, they must be published first: two steps together
 * might write more than two different times.
 */
bool ration_log_ring_may_go_on(const struct ration_bucket_state *bucket);

#endif
