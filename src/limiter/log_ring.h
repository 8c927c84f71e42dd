/*
 * log_ring: core/sliding_log.h for a ring that lies in a table.
 *
 * The steps are the same; but a function reads the ring cell by cell, and a step returns its writes instead of
 * making them, since they must be published together with the head.
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
