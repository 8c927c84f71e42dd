/*
 * log: core/sliding_log.h, for a ring that lies in a table.
 *
 * The steps are the same; but the ring is read cell by cell through a function, and what is to be
 * written is told instead of written, since it must be published together with the head.
 */
#ifndef RATION_LIMITER_LOG_H
#define RATION_LIMITER_LOG_H

#include "limiter/state.h"

/*
 * The moment at which the n-th oldest token comes back, n from 0; 0: long ago. Older than any after it. What is to
 * be written counts as written.
 */
uint64_t ration_log_moment(const struct ration_any *any, uint64_t nth);

struct ration_any_step ration_log_take(const struct ration_any *any, uint64_t cost_tokens,
                                       uint64_t now_ns);
uint64_t ration_log_remaining(const struct ration_any *any, uint64_t now_ns);
struct ration_any ration_log_refund(const struct ration_any *any, uint64_t tokens);

/*
 * A step towards giving back tokens of a take. *moment_ns is when those would come back by
 * themselves. They change places with the tokens of the next older moment that is still to come,
 * and then stand where those before them stand: call it again with what *moment_ns has become,
 * until that is 0. Then they are back. Each step leaves a log that admits no more than one from
 * which the tokens were never taken. A step writes two moments at most, which is what a table can
 * publish together.
 */
struct ration_any ration_log_release(const struct ration_any *any, uint64_t tokens, uint64_t now_ns,
                                     uint64_t *moment_ns);

struct ration_any ration_log_force(const struct ration_any *any, uint64_t tokens, uint64_t now_ns);

/* No token is back before until, all are then. */
struct ration_any ration_log_empty_until(const struct ration_any *any, uint64_t until_ns);

struct ration_any ration_log_set(const struct ration_any *any, uint64_t tokens, uint64_t now_ns);

/*
 * Whether a step may follow on what is yet to be written to the ring. Else that has to be published
 * first: two steps together might write more than two moments.
 */
bool ration_log_may_go_on(const struct ration_any *any);

#endif
