/*
 * auth: introduces a connection to Redis with its password, and leaves no copy of that in memory.
 */
#ifndef RATION_REDIS_AUTH_H
#define RATION_REDIS_AUTH_H

#include <hiredis/async.h>

#include "redis/link.h"

/*
 * Sends AUTH as the first command of a connection that was just made; replied() gets the answer. Returns how many
 * commands were sent: 0 if place has no password, or there is no memory.
 */
unsigned ration_redis_auth_send(struct redisAsyncContext *redis,
                                const struct ration_redis_place *place, redisCallbackFn *replied);

#endif
