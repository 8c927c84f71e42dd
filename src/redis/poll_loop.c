#include "redis/poll_loop.h"

#include <hiredis/async.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

#include "ration/limit.h"

#define WATCHES_MAX 160 /* connections: one per node, and some that are closing */
#define TIMERS_MAX  160
#define NEVER_NS    UINT64_MAX

struct watch {
    struct ration_poll_loop *loop;
    struct redisAsyncContext *redis; /* NULL: this entry is free */
    short events;
};

struct timer {
    uint64_t fires_at_ns; /* NEVER_NS: this entry is free */
    void (*wake)(void *argument);
    void *argument;
};

struct ration_poll_loop {
    struct ration_redis_loop hooks;
    struct watch watches[WATCHES_MAX];
    struct timer timers[TIMERS_MAX];
};

static uint64_t now_ns(void *context)
{
    struct timespec time;

    (void)context;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * RATION_NS_PER_SECOND + (uint64_t)time.tv_nsec;
}

/* Hooks for hiredis ---------------------------------------------------------------------------- */

static void add_read(void *argument)
{
    struct watch *watch = argument;

    watch->events |= POLLIN;
}

static void delete_read(void *argument)
{
    struct watch *watch = argument;

    watch->events &= (short)~POLLIN;
}

static void add_write(void *argument)
{
    struct watch *watch = argument;

    watch->events |= POLLOUT;
}

static void delete_write(void *argument)
{
    struct watch *watch = argument;

    watch->events &= (short)~POLLOUT;
}

static void release_watch(void *argument)
{
    struct watch *watch = argument;

    watch->redis = NULL;
    watch->events = 0;
}

static bool attach_context(void *context, struct redisAsyncContext *redis)
{
    struct ration_poll_loop *loop = context;

    for (size_t i = 0; i < WATCHES_MAX; i++) {
        struct watch *watch = &loop->watches[i];

        if (watch->redis != NULL)
            continue;
        *watch = (struct watch){.loop = loop, .redis = redis};
        redis->ev.data = watch;
        redis->ev.addRead = add_read;
        redis->ev.delRead = delete_read;
        redis->ev.addWrite = add_write;
        redis->ev.delWrite = delete_write;
        redis->ev.cleanup = release_watch;
        return true;
    }
    return false;
}

/* Time ------------------------------------------------------------------------------------------ */

static void wake_at(void *context, void **raw_timer, uint64_t fires_at_ns,
                    void (*wake)(void *argument), void *argument)
{
    struct ration_poll_loop *loop = context;
    struct timer *timer = *raw_timer;

    for (size_t i = 0; timer == NULL && i < TIMERS_MAX; i++)
        if (loop->timers[i].fires_at_ns == NEVER_NS)
            timer = &loop->timers[i];
    if (timer != NULL)
        *timer = (struct timer){fires_at_ns, wake, argument};
    *raw_timer = timer;
}

static void forget_timer(void *context, void *raw_timer)
{
    struct timer *timer = raw_timer;

    (void)context;
    timer->fires_at_ns = NEVER_NS;
}

static void run_timers(struct ration_poll_loop *loop)
{
    uint64_t now = now_ns(NULL);

    for (size_t i = 0; i < TIMERS_MAX; i++) {
        struct timer timer = loop->timers[i];

        if (timer.fires_at_ns > now)
            continue;
        loop->timers[i].fires_at_ns = NEVER_NS;
        timer.wake(timer.argument);
    }
}

/* Milliseconds until the next timer or latest_ns, rounded up; -1: there is neither. */
static int time_left_ms(const struct ration_poll_loop *loop, uint64_t latest_ns)
{
    uint64_t now = now_ns(NULL), next = latest_ns;

    for (size_t i = 0; i < TIMERS_MAX; i++)
        if (loop->timers[i].fires_at_ns < next)
            next = loop->timers[i].fires_at_ns;
    if (next == NEVER_NS)
        return -1;
    return next <= now ? 0 : (int)((next - now + RATION_NS_PER_MS - 1) / RATION_NS_PER_MS);
}

/* Writing ----------------------------------------------------------------------------------------- */

/*
 * If Redis has closed the connection, the write of hiredis raises SIGPIPE, which by default ends the
 * application. So the signal is blocked during the write, and discarded if the write raised it.
 */
static void write_without_sigpipe(struct redisAsyncContext *redis)
{
    static const struct timespec no_wait = {0, 0};
    sigset_t pipe, old_mask, pending;
    bool was_pending;

    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    sigemptyset(&pending);
    pthread_sigmask(SIG_BLOCK, &pipe, &old_mask);
    /* a caller that blocks SIGPIPE may have one pending, which must stay */
    if (sigismember(&old_mask, SIGPIPE) == 1)
        sigpending(&pending);
    was_pending = sigismember(&pending, SIGPIPE) == 1;
    redisAsyncHandleWrite(redis);
    if (!was_pending && sigpending(&pending) == 0 && sigismember(&pending, SIGPIPE) == 1)
        (void)sigtimedwait(&pipe, NULL, &no_wait);
    pthread_sigmask(SIG_SETMASK, &old_mask, NULL);
}

/* Running -------------------------------------------------------------------------------------- */

static void run_once(struct ration_poll_loop *loop, int wait_ms)
{
    struct pollfd files[WATCHES_MAX];
    struct watch *watches[WATCHES_MAX];
    nfds_t count = 0;

    for (size_t i = 0; i < WATCHES_MAX; i++) {
        struct watch *watch = &loop->watches[i];

        if (watch->redis == NULL || watch->events == 0)
            continue;
        files[count] = (struct pollfd){.fd = watch->redis->c.fd, .events = watch->events};
        watches[count++] = watch;
    }
    if (poll(files, count, wait_ms) > 0) {
        for (nfds_t i = 0; i < count; i++) {
            struct watch *watch = watches[i];
            struct redisAsyncContext *redis = watch->redis;

            if (redis != NULL && (files[i].revents & (POLLIN | POLLERR | POLLHUP)) != 0 &&
                (watch->events & POLLIN) != 0)
                redisAsyncHandleRead(redis);
            if (redis != NULL && watch->redis == redis &&
                (files[i].revents & (POLLOUT | POLLERR | POLLHUP)) != 0 &&
                (watch->events & POLLOUT) != 0)
                write_without_sigpipe(redis);
        }
    }
    run_timers(loop);
}

void ration_poll_loop_run(struct ration_poll_loop *loop)
{
    run_once(loop, time_left_ms(loop, NEVER_NS));
}

void ration_poll_loop_run_until(struct ration_poll_loop *loop, uint64_t latest_ns)
{
    run_once(loop, time_left_ms(loop, latest_ns));
}

void ration_poll_loop_poll(struct ration_poll_loop *loop)
{
    run_once(loop, 0);
}

struct ration_poll_loop *ration_poll_loop_create(void)
{
    struct ration_poll_loop *loop = calloc(1, sizeof(*loop));

    if (loop == NULL)
        return NULL;
    loop->hooks = (struct ration_redis_loop){
        .context = loop,
        .now_ns = now_ns,
        .attach = attach_context,
        .wake_at = wake_at,
        .forget = forget_timer,
    };
    for (size_t i = 0; i < TIMERS_MAX; i++)
        loop->timers[i].fires_at_ns = NEVER_NS;
    return loop;
}

void ration_poll_loop_free(struct ration_poll_loop *loop)
{
    free(loop);
}

const struct ration_redis_loop *ration_poll_loop_hooks(const struct ration_poll_loop *loop)
{
    return &loop->hooks;
}
