/*
 * guard: what hiredis is to refuse of an answer.
 *
 * An answer that nobody has asked for ends the program (hiredis 0.14 asserts that there is none). Here it ends the
 * connection, as any other that is not understood; so does an array of more elements than any answer has.
 */
#ifndef RATION_REDIS_GUARD_H
#define RATION_REDIS_GUARD_H

#include <stdbool.h>

struct redisAsyncContext;

/* Guards a connection that was just made. */
void ration_redis_guard(struct redisAsyncContext *redis);

/*
 * Asked while an answer is told: whether more has come than was asked for. Then this answer, too, may be of somebody
 * else.
 */
bool ration_redis_guard_has_more(const struct redisAsyncContext *redis);

#endif
