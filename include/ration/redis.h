/*
 * redis: limits that many nodes share, kept in Redis.
 *
 *     struct ration_redis redis = {.url = "redis://10.0.0.5", .node_count = 4};
 *     struct ration_gate_options options = {.struct_size = sizeof(options), .redis = &redis};
 *
 * Every decision of a gate made so is one call of a script in Redis, by Redis' time. Where Redis does
 * not answer in time, the policy says what happens instead: a local share of the limit decides, or the
 * request passes, or it cannot be decided.
 */
#ifndef RATION_REDIS_H
#define RATION_REDIS_H

#include <stdbool.h>
#include <stdint.h>

#include "ration/export.h"
#include "ration/status.h"

RATION_C_BEGIN

/* Where Redis is, and how it is asked. 0 or NULL means the default. */
struct ration_redis {
    /*
     * redis://[user:password@]host[:port][/database]
     * unix:/path[?db=n], unix://user:password@/path[?db=n]
     * redis+sentinel://[user:password@]host[:port],.../master[/database][?sentinel=[user]:password]
     * redis+cluster://[user:password@]host[:port],...
     */
    const char *url;
    const char *prefix;           /* of all names; "ration" */
    uint64_t deadline_ns;         /* of an answer: 20 ms */
    uint64_t connect_deadline_ns; /* 1 s */
    uint64_t retry_min_ns;        /* before a lost connection is tried again: 100 ms, then longer */
    uint64_t retry_max_ns;        /* 2 s */
    uint32_t node_count; /* that share the limits: 1. A local share is one of so many parts */
    const char
        *key_secret; /* copied; keys the hash that names keys of more than 128 bytes. The same
                               on all nodes, or they count such keys apart. NULL: an unkeyed hash */
};

struct redisAsyncContext;

/* What is needed of an event loop, for those who have one. All calls come from its thread. */
struct ration_redis_loop {
    void *context;
    uint64_t (*now_ns)(void *context); /* of a clock that does not jump */
    /* Has the loop watch the connection, as an adapter of hiredis does. False: it cannot. */
    bool (*attach)(void *context, struct redisAsyncContext *redis);
    /*
     * Has wake(argument) called at this moment or soon after, once. *timer is NULL, or one that was
     * given before and has not woken: then it is set anew.
     */
    void (*wake_at)(void *context, void **timer, uint64_t moment_ns, void (*wake)(void *argument),
                    void *argument);
    void (*forget)(void *context, void *timer);
};

/* What a link to Redis has done. */
struct ration_redis_stats {
    uint64_t sent;
    uint64_t answered;
    uint64_t late;    /* sent, and not answered in time */
    uint64_t lost;    /* sent, and then the connection was lost */
    uint64_t refused; /* not sent: there is no connection, or one that just came back */
    uint64_t connects;
    uint64_t losses;
    uint64_t redirected; /* a node of a cluster named another, which was asked instead */
};

RATION_C_END

#endif
