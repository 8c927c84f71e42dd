/*
 * redis_loop: connects a loop to Redis: sockets and timers for the Redis client.
 *
 * Ruled out: hiredis' own adapter for libuv (0.14). It ignores errors of the socket, so a connection that was
 * refused or reset would be detected only by its timeout.
 */
#include <hiredis/async.h>
#include <stdlib.h>
#include <time.h>
#include <uv.h>

#include "ration/limit.h"
#include "server/net/loop_parts.h"
#include "server/ops/service.h"

/* Connections ---------------------------------------------------------------------------------- */

struct watch {
    uv_poll_t poll;
    struct redisAsyncContext *redis; /* NULL: freed */
    int events;
};

static void on_ready(uv_poll_t *poll, int status, int events)
{
    struct watch *watch = poll->data;

    if (status != 0) /* hiredis reads or writes, and gets the error from the socket */
        events = watch->events;
    if (watch->redis != NULL && (events & UV_READABLE) != 0)
        redisAsyncHandleRead(watch->redis);
    if (watch->redis != NULL && (events & UV_WRITABLE) != 0)
        redisAsyncHandleWrite(watch->redis);
}

static void watch_for(struct watch *watch, int events)
{
    if (events == watch->events)
        return;
    watch->events = events;
    if (events == 0)
        uv_poll_stop(&watch->poll);
    else
        uv_poll_start(&watch->poll, events, on_ready);
}

static void add_read(void *argument)
{
    struct watch *watch = argument;

    watch_for(watch, watch->events | UV_READABLE);
}

static void delete_read(void *argument)
{
    struct watch *watch = argument;

    watch_for(watch, watch->events & ~UV_READABLE);
}

static void add_write(void *argument)
{
    struct watch *watch = argument;

    watch_for(watch, watch->events | UV_WRITABLE);
}

static void delete_write(void *argument)
{
    struct watch *watch = argument;

    watch_for(watch, watch->events & ~UV_WRITABLE);
}

static void free_handle(uv_handle_t *handle)
{
    free(handle->data);
}

static void clean_up(void *argument)
{
    struct watch *watch = argument;

    watch->redis = NULL;
    uv_close((uv_handle_t *)&watch->poll, free_handle);
}

static bool attach_context(void *context, struct redisAsyncContext *redis)
{
    struct ration_loop *loop = context;
    struct watch *watch = calloc(1, sizeof(*watch));

    if (watch == NULL || uv_poll_init(&loop->uv, &watch->poll, redis->c.fd) != 0) {
        free(watch);
        return false;
    }
    watch->poll.data = watch;
    watch->redis = redis;
    redis->ev.data = watch;
    redis->ev.addRead = add_read;
    redis->ev.delRead = delete_read;
    redis->ev.addWrite = add_write;
    redis->ev.delWrite = delete_write;
    redis->ev.cleanup = clean_up;
    return true;
}

/* Time ------------------------------------------------------------------------------------------ */

struct timer {
    uv_timer_t timer;
    void (*wake)(void *argument);
    void *argument;
};

static uint64_t now_ns(void *context)
{
    struct timespec time;

    (void)context;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * RATION_NS_PER_SECOND + (uint64_t)time.tv_nsec;
}

static void on_timer(uv_timer_t *handle)
{
    struct timer *timer = handle->data;

    timer->wake(timer->argument);
    uv_close((uv_handle_t *)handle, free_handle);
}

static void wake_at(void *context, void **raw_timer, uint64_t wake_ns, void (*wake)(void *argument),
                    void *argument)
{
    struct ration_loop *loop = context;
    struct timer *timer = *raw_timer;
    uint64_t now = now_ns(NULL);
    uint64_t wait_ns = wake_ns > now ? wake_ns - now : 0;

    if (timer == NULL) {
        timer = calloc(1, sizeof(*timer));
        if (timer == NULL)
            return;
        uv_timer_init(&loop->uv, &timer->timer);
        timer->timer.data = timer;
    }
    timer->wake = wake;
    timer->argument = argument;
    uv_update_time(&loop->uv);
    uv_timer_start(&timer->timer, on_timer, (wait_ns + RATION_NS_PER_MS - 1) / RATION_NS_PER_MS, 0);
    *raw_timer = timer;
}

static void cancel_timer(void *context, void *raw_timer)
{
    struct timer *timer = raw_timer;

    (void)context;
    uv_close((uv_handle_t *)&timer->timer, free_handle);
}

static struct ration_redis_loop hooks_of(struct ration_loop *loop)
{
    return (struct ration_redis_loop){
        .context = loop,
        .now_ns = now_ns,
        .attach = attach_context,
        .wake_at = wake_at,
        .forget = cancel_timer,
    };
}

/* A loop's connection to Redis ----------------------------------------------------------------- */

static void close_redis_connection(struct ration_loop *loop)
{
    struct ration_worker *worker = ration_loop_user(loop);

    if (worker == NULL) /* ration_service_close_loop() was called: the loop never ran */
        return;
    ration_engine_connection_free(worker->engine_connection);
    worker->engine_connection = NULL;
}

/* Waiting until every loop has tried to connect ------------------------------------------------- */

#define TRY_EVERY_MS 1
#define TRIES_MAX    1000

/* Checks every TRY_EVERY_MS whether a loop's connection to Redis has succeeded or failed. */
struct connect_wait {
    uv_timer_t timer;
    struct ration_service *service;
    struct ration_loop *loop;
    unsigned tries;
};

static void check_connected(uv_timer_t *timer)
{
    struct connect_wait *connect_wait = timer->data;
    struct ration_worker *worker = ration_loop_user(connect_wait->loop);
    struct ration_service *service = connect_wait->service;
    bool has_connection =
        worker != NULL && worker->engine_connection != NULL; /* else it shuts down */

    if (has_connection && !ration_engine_connection_has_connected(worker->engine_connection) &&
        ++connect_wait->tries < TRIES_MAX)
        return;
    if (has_connection)
        ration_service_publish_redis(worker);
    if (__atomic_sub_fetch(&service->untried_connection_count, 1, __ATOMIC_ACQ_REL) == 0)
        (void)ration_loop_post(ration_loops_at(service->loops, 0), &service->ready);
    uv_close((uv_handle_t *)timer, free_handle);
}

bool ration_service_when_ready(struct ration_service *service, ration_loop_function *ready,
                               void *argument)
{
    unsigned count = ration_loops_count(service->loops);

    service->ready = (struct ration_loop_message){.function = ready, .argument = argument};
    if (!ration_engine_is_remote(service->engine))
        return ration_loop_post(ration_loops_at(service->loops, 0), &service->ready);
    service->untried_connection_count = count;
    for (unsigned i = 0; i < count; i++) {
        struct connect_wait *connect_wait = calloc(1, sizeof(*connect_wait));

        if (connect_wait == NULL)
            return false;
        connect_wait->service = service;
        connect_wait->loop = ration_loops_at(service->loops, i);
        connect_wait->timer.data = connect_wait;
        uv_timer_init(&connect_wait->loop->uv, &connect_wait->timer);
        uv_timer_start(&connect_wait->timer, check_connected, 0, TRY_EVERY_MS);
    }
    return true;
}

ration_status ration_service_open_redis(struct ration_service *service, struct ration_loop *loop)
{
    struct ration_worker *worker = ration_loop_user(loop);
    struct ration_redis_loop hooks = hooks_of(loop);
    ration_status status =
        ration_engine_connection_create(service->engine, &hooks, &worker->engine_connection);

    if (status == RATION_OK)
        ration_loop_set_on_stop(loop, close_redis_connection);
    return status;
}
