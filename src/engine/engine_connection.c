#include "engine/engine_connection.h"

#include <sched.h>
#include <stdlib.h>

#include "base/os.h"
#include "engine/remote.h"

/* Flag of pool->process: that process is resetting the pool. */
#define RESETTING (UINT64_C(1) << 63)
/* After a failed wait for a connection, no thread waits for it again for this long. */
#define FAILED_WAIT_NS RATION_NS_PER_SECOND

static ration_status open_connection(ration_engine *engine, const struct ration_redis_loop *loop,
                                     struct ration_poll_loop *poll_loop,
                                     ration_engine_connection **out_connection)
{
    ration_engine_connection *connection = calloc(1, sizeof(*connection));

    if (connection == NULL)
        return RATION_ENOMEM;
    connection->engine = engine;
    connection->poll_loop = poll_loop;
    if (ration_redis_client_create(engine->remote->options, loop, &connection->client) !=
        RATION_OK) {
        free(connection);
        return RATION_ENOMEM;
    }
    *out_connection = connection;
    return RATION_OK;
}

ration_status ration_engine_connection_create(ration_engine *engine,
                                              const struct ration_redis_loop *loop,
                                              ration_engine_connection **out_connection)
{
    return engine->remote != NULL ? open_connection(engine, loop, NULL, out_connection)
                                  : RATION_EINVAL;
}

/* A connection with its own poll loop, for a thread without a loop. NULL without memory. */
static struct ration_engine_connection *open_with_poll_loop(ration_engine *engine)
{
    struct ration_poll_loop *loop = ration_poll_loop_create();
    struct ration_engine_connection *connection = NULL;

    if (loop != NULL &&
        open_connection(engine, ration_poll_loop_hooks(loop), loop, &connection) != RATION_OK)
        ration_poll_loop_free(loop);
    return connection;
}

void ration_engine_connection_free(ration_engine_connection *connection)
{
    if (connection == NULL)
        return;
    ration_redis_client_free(connection->client);
    ration_poll_loop_free(connection->poll_loop);
    free(connection);
}

bool ration_engine_connection_is_connected(const ration_engine_connection *connection)
{
    return ration_redis_client_is_connected(connection->client);
}

bool ration_engine_connection_has_connected(const ration_engine_connection *connection)
{
    return ration_redis_client_has_connected(connection->client);
}

const char *ration_engine_connection_last_error(const ration_engine_connection *connection)
{
    return ration_redis_client_last_error(connection->client);
}

void ration_engine_connection_stats(const ration_engine_connection *connection,
                                    struct ration_redis_stats *out_stats)
{
    ration_redis_client_stats(connection->client, out_stats);
}

/* The pool -------------------------------------------------------------------------------------- */

static void free_connections(struct ration_engine_connection *connection)
{
    while (connection != NULL) {
        struct ration_engine_connection *next = connection->next;

        ration_engine_connection_free(connection);
        connection = next;
    }
}

void ration_engine_pool_init(struct ration_engine_pool *pool)
{
    *pool = (struct ration_engine_pool){.process = ration_os_process_id()};
    pthread_mutex_init(&pool->lock, NULL);
}

void ration_engine_pool_done(struct ration_engine_pool *pool)
{
    free_connections(pool->idle);
    free_connections(pool->acquiring);
    pthread_mutex_destroy(&pool->lock);
}

/*
 * In a child of fork(), the first thread that comes here resets the pool; other threads wait for it. A thread that held
 * the lock at the fork exists only in the parent, so the lock is initialized again. Connections that were in use at the
 * fork are not freed in the child.
 */
static void reset_after_fork(struct ration_engine_pool *pool)
{
    uint64_t own = ration_os_process_id(), process;

    while ((process = __atomic_load_n(&pool->process, __ATOMIC_ACQUIRE)) != own) {
        struct ration_engine_connection *idle = pool->idle, *acquiring = pool->acquiring;

        /* no wait for a reset that another process had begun when it forked: its thread is not in this process */
        if (process == (own | RESETTING) ||
            !__atomic_compare_exchange_n(&pool->process, &process, own | RESETTING, false,
                                         __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
            sched_yield();
            continue;
        }
        if ((process & RESETTING) != 0) /* that reset may have freed some of them */
            idle = acquiring = NULL;
        pthread_mutex_init(&pool->lock, NULL);
        pool->idle = pool->acquiring = NULL;
        free_connections(idle); /* closes this process's descriptors, and sends nothing to Redis */
        free_connections(acquiring);
        __atomic_store_n(&pool->lease_request_count, 0, __ATOMIC_RELAXED);
        __atomic_store_n(&pool->process, own, __ATOMIC_RELEASE); /* pairs with the load above */
    }
}

bool ration_engine_pool_has_lease_requests(ration_engine *engine)
{
    struct ration_engine_pool *pool = &engine->remote->pool;

    return __atomic_load_n(&pool->lease_request_count, __ATOMIC_RELAXED) > 0 &&
           __atomic_load_n(&pool->process, __ATOMIC_RELAXED) == ration_os_process_id();
}

/* Waits until the connection is up, has stopped trying, or the deadline has passed. */
static void wait_for_connection(struct ration_engine_connection *connection, uint64_t deadline_ns)
{
    const struct ration_redis_loop *hooks = ration_poll_loop_hooks(connection->poll_loop);
    uint64_t now_ns = hooks->now_ns(hooks->context);

    if (now_ns < connection->await_after_ns)
        return;
    while (!ration_engine_connection_is_connected(connection) &&
           ration_redis_client_is_trying(connection->client) && now_ns < deadline_ns) {
        ration_poll_loop_run_until(connection->poll_loop, deadline_ns);
        now_ns = hooks->now_ns(hooks->context);
    }
    if (!ration_engine_connection_is_connected(connection))
        connection->await_after_ns = now_ns + FAILED_WAIT_NS;
}

struct ration_engine_connection *ration_engine_pool_take(ration_engine *engine,
                                                         uint64_t *out_deadline_ns)
{
    struct ration_engine_pool *pool = &engine->remote->pool;
    struct ration_engine_connection *connection, **from;

    reset_after_fork(pool);
    pthread_mutex_lock(&pool->lock);
    from = pool->acquiring != NULL ? &pool->acquiring : &pool->idle;
    connection = *from;
    if (connection != NULL)
        *from = connection->next;
    pthread_mutex_unlock(&pool->lock);
    if (connection == NULL)
        connection = open_with_poll_loop(engine);
    if (connection == NULL)
        return NULL;
    *out_deadline_ns = ration_redis_client_deadline(connection->client);
    ration_poll_loop_poll(connection->poll_loop);
    if (!ration_engine_connection_is_connected(connection))
        wait_for_connection(connection, *out_deadline_ns);
    return connection;
}

void ration_engine_pool_give_back(ration_engine *engine,
                                  struct ration_engine_connection *connection)
{
    struct ration_engine_pool *pool = &engine->remote->pool;
    struct ration_engine_connection **to =
        connection->lease_request_count > 0 ? &pool->acquiring : &pool->idle;

    pthread_mutex_lock(&pool->lock);
    connection->next = *to;
    *to = connection;
    pthread_mutex_unlock(&pool->lock);
}
