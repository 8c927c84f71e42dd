#include "redis/guard.h"

#include <hiredis/async.h>
#include <hiredis/hiredis.h>
#include <pthread.h>

#define ELEMENTS_MAX 20000 /* a cluster's map may have 16384 */

static redisReplyObjectFunctions unguarded, guarded;
static pthread_once_t guarded_once = PTHREAD_ONCE_INIT;

/* Whether an answer may begin. An error is understood by hiredis: there are too many clients, say. */
static bool is_asked_for(const redisReadTask *task)
{
    const struct redisAsyncContext *redis = task->privdata;

    return task->parent != NULL || task->type == REDIS_REPLY_ERROR || redis->replies.head != NULL;
}

/* Each answers NULL as if there were no memory, and the connection ends. */
static void *create_string(const redisReadTask *task, char *text, size_t size)
{
    return is_asked_for(task) ? unguarded.createString(task, text, size) : NULL;
}

static void *create_array(const redisReadTask *task, int elements)
{
    return is_asked_for(task) && elements <= ELEMENTS_MAX ? unguarded.createArray(task, elements)
                                                          : NULL;
}

static void *create_integer(const redisReadTask *task, long long value)
{
    return is_asked_for(task) ? unguarded.createInteger(task, value) : NULL;
}

static void *create_nil(const redisReadTask *task)
{
    return is_asked_for(task) ? unguarded.createNil(task) : NULL;
}

/* What hiredis' own readers have is known only by looking at one. */
static void learn(void)
{
    redisReader *reader = redisReaderCreate();

    if (reader == NULL)
        return;
    unguarded = *reader->fn;
    guarded = unguarded;
    guarded.createString = create_string;
    guarded.createArray = create_array;
    guarded.createInteger = create_integer;
    guarded.createNil = create_nil;
    redisReaderFree(reader);
}

void ration_redis_guard(struct redisAsyncContext *redis)
{
    (void)pthread_once(&guarded_once, learn);
    if (guarded.createString == NULL) /* there was no memory to look */
        return;
    redis->c.reader->fn = &guarded;
    redis->c.reader->privdata = redis;
}

bool ration_redis_guard_has_more(const struct redisAsyncContext *redis)
{
    return redis->replies.head == NULL && redis->c.reader->pos < redis->c.reader->len;
}
