/*
 * redis: limits that several nodes share; their buckets are stored in Redis.
 *
 *     struct ration_redis redis = {.url = "redis://10.0.0.5", .node_count = 4};
 *     struct ration_engine_options options = {.struct_size = sizeof(options), .redis = &redis};
 *
 * The engine makes every decision with one call of a script in Redis, which uses Redis' time. If Redis does not answer
 * in time, the policy says what happens instead: the node decides with its local share of the limit, or allows the
 * request, or reports that the request cannot be decided.
 */
#ifndef RATION_REDIS_H
#define RATION_REDIS_H

#include <stdbool.h>
#include <stdint.h>

#include "ration/export.h"
#include "ration/status.h"

RATION_C_BEGIN

/* Address of Redis, and the timeouts. 0 or NULL selects the default. */
struct ration_redis {
    /*
     * redis://[user:password@]host[:port][/database]
     * unix:/path[?db=n], unix://user:password@/path[?db=n]
     * redis+sentinel://[user:password@]host[:port],.../master[/database][?sentinel=[user]:password]
     * redis+cluster://[user:password@]host[:port],...
     */
    const char *url;
    const char *prefix;          /* prefix of every key written to Redis; default "ration" */
    uint64_t timeout_ns;         /* timeout of a reply; default 20 ms */
    uint64_t connect_timeout_ns; /* timeout of connecting; default 1 s */
    /* first delay before reconnecting; default 100 ms. It grows with each attempt */
    uint64_t retry_min_ns;
    uint64_t retry_max_ns; /* longest delay before reconnecting; default 2 s */
    /* nodes that share the limits; default 1. A node's local share is 1/node_count of a limit */
    uint32_t node_count;
    /*
     * Copied. Key of the hash that replaces keys of more than 128 bytes in Redis. All nodes need the same
     * secret, or they count such keys separately. NULL: an unkeyed hash.
     */
    const char *key_secret;
};

struct redisAsyncContext;

/*
 * The functions the library needs from the caller's event loop. The library calls them from the loop's thread
 * only.
 */
struct ration_redis_loop {
    void *context;
    uint64_t (*now_ns)(void *context); /* monotonic clock */
    /* Makes the loop watch the connection, as a hiredis adapter does. Returns false if it cannot. */
    bool (*attach)(void *context, struct redisAsyncContext *redis);
    /*
     * Makes the loop call wake(argument) once, at this time or soon after. *timer is NULL, or a timer from an
     * earlier call that has not fired: then it is set to the new time.
     */
    void (*wake_at)(void *context, void **timer, uint64_t at_ns, void (*wake)(void *argument),
                    void *argument);
    /* Releases a timer, which then never fires. */
    void (*forget)(void *context, void *timer);
};

/* Counters of the connections to Redis. */
struct ration_redis_stats {
    uint64_t sent;
    uint64_t answered;
    uint64_t late;    /* sent, but the reply timed out */
    uint64_t lost;    /* sent, and then the connection was lost */
    uint64_t refused; /* not sent: no connection, or one that has just recovered */
    uint64_t connects;
    uint64_t losses;
    uint64_t redirected; /* a cluster node redirected the request to another node */
};

RATION_C_END

#endif
