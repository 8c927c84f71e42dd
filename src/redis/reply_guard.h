/*
 * reply_guard: makes hiredis reject replies that are not valid here.
 *
 * A reply that no command requested would end the program (hiredis 0.14 asserts that there is none). With the guard
 * it ends the connection, like any other malformed reply; so does an array with more elements than any reply has.
 */
#ifndef RATION_REDIS_REPLY_GUARD_H
#define RATION_REDIS_REPLY_GUARD_H

#include <stdbool.h>

struct redisAsyncContext;

/* Guards a connection that was just created. */
void ration_redis_reply_guard(struct redisAsyncContext *redis);

/*
 * Called from a reply callback: whether more replies have arrived than commands were sent. Then this reply,
 * too, may belong to another command.
 */
bool ration_redis_reply_guard_has_more(const struct redisAsyncContext *redis);

#endif
