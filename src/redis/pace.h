/*
 * pace: when a lost connection may be tried again.
 *
 * After a rest, which is doubled each time until Redis was found to be well, and spread, so that many who
 * lost the same Redis do not come back together. And within a budget, which is a bucket like any other: one
 * that is found well and lost again all the time is not tried more often for it.
 */
#ifndef RATION_REDIS_PACE_H
#define RATION_REDIS_PACE_H

#include "ration/limit.h"

#define RATION_REDIS_TRIES_BURST 10 /* at once; then two in the longest rest */

struct ration_redis_pace {
    uint64_t rest_min_ns;
    uint64_t rest_max_ns;
    uint64_t rest_ns; /* the next time */
    uint64_t random;
    struct ration_limit budget;
    struct ration_time spent; /* of the budget */
};

/* seed: whatever tells this one from others. */
void ration_redis_pace_init(struct ration_redis_pace *pace, uint64_t rest_min_ns,
                            uint64_t rest_max_ns, uint64_t seed);

/* The moment of the next try, which is charged. */
uint64_t ration_redis_pace_next(struct ration_redis_pace *pace, uint64_t now_ns);

/* The same without a rest, as far as there is something left of the budget. */
uint64_t ration_redis_pace_soon(struct ration_redis_pace *pace, uint64_t now_ns);

/* It was found well: the next rest is a short one. */
void ration_redis_pace_well(struct ration_redis_pace *pace);

#endif
