/*
 * auth: authenticates a connection to Redis, and wipes the copies of the password that this makes.
 */
#ifndef RATION_REDIS_AUTH_H
#define RATION_REDIS_AUTH_H

#include <hiredis/async.h>

#include "redis/redis_connection.h"

/*
 * Sends AUTH as the first command of a new connection; on_reply() gets the reply. Returns the number of
 * commands sent: 0 if the endpoint has no password, or there is no memory.
 */
unsigned ration_redis_auth_send(struct redisAsyncContext *redis,
                                const struct ration_redis_endpoint *endpoint,
                                redisCallbackFn *on_reply);

#endif
