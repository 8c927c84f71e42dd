/*
 * engine_connection: the connections from an engine to Redis.
 *
 * A caller with an event loop has a connection of its own. Threads without a loop share a pool: a thread takes a
 * connection from it for the duration of its calls, and waits for Redis. Connections with unanswered requests for leases
 * are taken first, because the leases may have arrived. A child of fork() opens its own connections: those that it
 * inherited belong to its parent.
 */
#ifndef RATION_ENGINE_ENGINE_CONNECTION_H
#define RATION_ENGINE_ENGINE_CONNECTION_H

#include <pthread.h>

#include "engine/engine_internal.h"
#include "redis/client.h"
#include "redis/poll_loop.h"

#define RATION_ENGINE_BATCH_MAX    1024 /* checks in one batch of a caller without a loop */
#define RATION_ENGINE_LEADER_LISTS 64   /* hash buckets of leaders */

struct ration_pending_check;

struct ration_engine_connection {
    struct ration_engine_connection *next; /* in a list of the pool */
    ration_engine *engine;
    struct ration_redis_client *client;
    struct ration_poll_loop *poll_loop; /* owned; NULL: the caller has its own loop */
    uint64_t await_after_ns;            /* a wait for it timed out: no thread waits for it before */
    uint32_t lease_request_count;       /* unanswered requests for leases ahead of need */

    /* Checks that wait for a lease from Redis, by hash of their key: see pending_check_local.c. */
    struct ration_pending_check *leaders[RATION_ENGINE_LEADER_LISTS];
};

/* The pool of an engine. */
struct ration_engine_pool {
    uint64_t process; /* owner of the pool; with the highest bit set: being reset by it */
    pthread_mutex_t lock;
    struct ration_engine_connection *idle;
    struct ration_engine_connection *acquiring; /* idle, with unanswered requests for leases */
    uint32_t lease_request_count;               /* of all connections */
};

void ration_engine_pool_init(struct ration_engine_pool *pool);
void ration_engine_pool_done(struct ration_engine_pool *pool);

/*
 * Takes a connection for the calling thread, until it gives it back. NULL without memory. If the connection is being
 * opened, waits for it, unless such a wait failed less than a second ago. *out_deadline_ns is the deadline of that wait
 * and of the first calls after it, by the connection's loop.
 */
struct ration_engine_connection *ration_engine_pool_take(ration_engine *engine,
                                                         uint64_t *out_deadline_ns);
void ration_engine_pool_give_back(ration_engine *engine,
                                  struct ration_engine_connection *connection);

/* Whether a lease may have arrived: then the next thread that takes a connection receives it. */
bool ration_engine_pool_has_lease_requests(ration_engine *engine);

#endif
