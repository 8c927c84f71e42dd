/*
 * draw: a lease asked for, and what came of it.
 */
#ifndef RATION_REDIS_DRAW_H
#define RATION_REDIS_DRAW_H

#include "redis/client.h"
#include "redis/lease.h"

/*
 * told: what was decided about the cost. NULL: Redis has not said it; tokens may have been drawn, which
 * then expire.
 */
typedef void ration_redis_drawn(void *context, const struct ration_redis_told *told,
                                uint64_t drawn_tokens);

/* drawn() is called once, perhaps before this returns. What lease points to is used now only. */
void ration_redis_draw(struct ration_redis_client *client, const struct ration_redis_lease *lease,
                       ration_redis_drawn *drawn, void *context);

#endif
