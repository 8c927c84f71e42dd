#include "redis/reply_guard.h"

#include <hiredis/async.h>
#include <hiredis/hiredis.h>
#include <pthread.h>

#define ELEMENTS_MAX 20000 /* the map of a cluster may have 16384 */

static redisReplyObjectFunctions unguarded, guarded;
static pthread_once_t guarded_once = PTHREAD_ONCE_INIT;

/*
 * Whether a command requested this reply. Errors are left to hiredis, which handles unrequested ones ("max
 * number of clients reached").
 */
static bool is_requested(const redisReadTask *task)
{
    const struct redisAsyncContext *redis = task->privdata;

    return task->parent != NULL || task->type == REDIS_REPLY_ERROR || redis->replies.head != NULL;
}

/* Each function returns NULL as if there were no memory, and hiredis then ends the connection. */
static void *create_string(const redisReadTask *task, char *text, size_t size)
{
    return is_requested(task) ? unguarded.createString(task, text, size) : NULL;
}

static void *create_array(const redisReadTask *task, int elements)
{
    return is_requested(task) && elements <= ELEMENTS_MAX ? unguarded.createArray(task, elements)
                                                          : NULL;
}

static void *create_integer(const redisReadTask *task, long long value)
{
    return is_requested(task) ? unguarded.createInteger(task, value) : NULL;
}

static void *create_nil(const redisReadTask *task)
{
    return is_requested(task) ? unguarded.createNil(task) : NULL;
}

/* hiredis does not export its reader functions, so they are copied from a reader. */
static void copy_reader_functions(void)
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

void ration_redis_reply_guard(struct redisAsyncContext *redis)
{
    (void)pthread_once(&guarded_once, copy_reader_functions);
    if (guarded.createString == NULL) /* no memory for a reader in copy_reader_functions() */
        return;
    redis->c.reader->fn = &guarded;
    redis->c.reader->privdata = redis;
}

bool ration_redis_reply_guard_has_more(const struct redisAsyncContext *redis)
{
    return redis->replies.head == NULL && redis->c.reader->pos < redis->c.reader->len;
}
