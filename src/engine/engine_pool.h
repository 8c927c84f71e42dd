/*
 * engine_pool: the connections of threads without an event loop, which wait for Redis.
 *
 * A thread takes a connection from the pool for the duration of its calls. Connections with outstanding requests for
 * leases are used first, because the leases may have arrived. A child of fork() opens its own connections: those that
 * it inherited belong to its parent.
 */
#ifndef RATION_ENGINE_ENGINE_POOL_H
#define RATION_ENGINE_ENGINE_POOL_H

#include <pthread.h>

#include "engine/engine_internal.h"

struct ration_engine_connection;

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
