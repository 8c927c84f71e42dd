/*
 * backoff: when to reconnect after a connection was lost.
 *
 * The delay doubles with each attempt until the connection has recovered, and it is randomized, so that clients
 * which lost the same Redis do not reconnect together. In addition, attempts are charged to a budget, which is a
 * token bucket: a connection that recovers and is lost again all the time is not retried more often because of
 * that.
 */
#ifndef RATION_REDIS_BACKOFF_H
#define RATION_REDIS_BACKOFF_H

#include "ration/limit.h"

#define RATION_REDIS_TRIES_BURST 10 /* attempts at once; then two per longest delay */

struct ration_redis_backoff {
    uint64_t delay_min_ns;
    uint64_t delay_max_ns;
    uint64_t delay_ns; /* of the next attempt */
    uint64_t random;
    struct ration_limit budget;
    struct ration_time budget_tat; /* state of the budget: its theoretical arrival time */
};

/* seed: any value that differs between connections. */
void ration_redis_backoff_init(struct ration_redis_backoff *backoff, uint64_t delay_min_ns,
                               uint64_t delay_max_ns, uint64_t seed);

/* Returns the time of the next attempt, and charges the attempt to the budget. */
uint64_t ration_redis_backoff_next(struct ration_redis_backoff *backoff, uint64_t now_ns);

/* The same without the delay: now, or when the budget allows it. */
uint64_t ration_redis_backoff_retry_soon(struct ration_redis_backoff *backoff, uint64_t now_ns);

/* The connection has recovered: the next delay is the shortest one. */
void ration_redis_backoff_reset(struct ration_redis_backoff *backoff);

#endif
