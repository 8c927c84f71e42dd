/*
 * draw: a lease asked for, and what came of it.
 */
#ifndef RATION_REDIS_DRAW_H
#define RATION_REDIS_DRAW_H

#include "redis/client.h"
#include "redis/lease.h"

/* What was drawn. */
struct ration_redis_portion {
    uint64_t tokens; /* 0: nothing */
    uint32_t number; /* below RATION_REDIS_LEASE_NUMBERS; it is told when something is given back */
};

/*
 * told: what was decided about the cost. NULL: Redis has not said it; tokens may have been drawn, which
 * then expire.
 */
typedef void ration_redis_drawn(void *context, const struct ration_redis_told *told,
                                struct ration_redis_portion portion);

/* drawn() is called once, perhaps before this returns. What lease points to is used now only. */
void ration_redis_draw(struct ration_redis_client *client, const struct ration_redis_lease *lease,
                       ration_redis_drawn *drawn, void *context);

#endif
