/*
 * The worker has its own loop over epoll instead of libuv, because of the open loop: it sleeps with
 * microsecond precision, while libuv's timers count milliseconds. Otherwise they perform alike: the
 * same closed loop over libuv took 6 % more CPU time per request with 50 connections and a pipeline
 * of 1, and the same with 16 and 64 (docs/bench.md).
 */
#include "load/worker.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_SECOND UINT64_C(1000000000)
#define WAIT_NS_MAX   UINT64_C(50000000) /* the interval at which the worker checks whether to stop */
#define EVENTS_MAX    128

uint64_t load_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * NS_PER_SECOND + (uint64_t)now.tv_nsec;
}

/* The share of one of count parts; the first parts get the remainder. */
static uint64_t compute_share(uint64_t whole, uint32_t index, uint32_t count)
{
    return whole / count + (index < whole % count);
}

/* Making --------------------------------------------------------------------------------- */

static bool update_epoll(struct load_worker *worker, struct load_connection *connection,
                         int operation, struct load_error *error)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = connection};

    if (connection->unsent_size > 0)
        event.events |= EPOLLOUT;
    if (epoll_ctl(worker->epoll_fd, operation, connection->socket_fd, &event) != 0)
        return load_fail(error, "epoll: %s", strerror(errno));
    return true;
}

static bool open_connections(struct load_worker *worker, struct load_error *error)
{
    const struct load_plan *plan = worker->plan;

    for (uint32_t i = 0; i < worker->connection_count; i++) {
        struct load_connection *connection = &worker->connections[i];

        if (!load_connection_init(&plan->target, plan->protocol, plan->pipeline_count,
                                  plan->request.size, connection, error) ||
            !update_epoll(worker, connection, EPOLL_CTL_ADD, error))
            return false;
    }
    return true;
}

struct load_worker *load_worker_create(const struct load_plan *plan, uint32_t thread_index,
                                       struct load_error *error)
{
    struct load_worker *worker = calloc(1, sizeof(*worker));
    uint64_t seed = plan->seed + thread_index * UINT64_C(0x9E3779B97F4A7C15) * 12345;

    if (worker == NULL) {
        load_fail(error, "out of memory");
        return NULL;
    }
    worker->plan = plan;
    worker->connection_count =
        (uint32_t)compute_share(plan->connection_count, thread_index, plan->thread_count);
    worker->budget_count = plan->request_count > 0 ? compute_share(plan->request_count,
                                                                   thread_index, plan->thread_count)
                                                   : UINT64_MAX;
    worker->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    worker->connections = calloc(worker->connection_count, sizeof(worker->connections[0]));
    if (worker->epoll_fd < 0 || worker->connections == NULL) {
        load_fail(error, "cannot create an event loop: %s", strerror(errno));
        load_worker_free(worker);
        return NULL;
    }
    if (!load_batch_init(&plan->request, &plan->keys, seed, plan->pipeline_count, &worker->batch,
                         error) ||
        !open_connections(worker, error)) {
        load_worker_free(worker);
        return NULL;
    }
    return worker;
}

void load_worker_free(struct load_worker *worker)
{
    if (worker == NULL)
        return;
    for (uint32_t i = 0; worker->connections != NULL && i < worker->connection_count; i++)
        load_connection_done(&worker->connections[i]);
    free(worker->connections);
    load_batch_done(&worker->batch);
    if (worker->epoll_fd >= 0)
        close(worker->epoll_fd);
    free(worker);
}

void load_worker_set_times(struct load_worker *worker, uint32_t thread_index,
                           const struct load_times *times)
{
    const struct load_plan *plan = worker->plan;

    worker->times = *times;
    worker->last_answer_ns = times->start_ns;
    if (plan->rate_per_second > 0)
        worker->schedule = load_schedule_make(times->start_ns, plan->rate_per_second, thread_index,
                                              plan->thread_count);
}

/* Sending -------------------------------------------------------------------------------- */

static bool is_open_loop(const struct load_worker *worker)
{
    return worker->plan->rate_per_second > 0;
}

static void check_end(struct load_worker *worker, uint64_t now_ns)
{
    worker->is_over = worker->is_over || now_ns >= worker->times.stop_ns ||
                      worker->budget_count == 0 || __atomic_load_n(worker->stop, __ATOMIC_RELAXED);
}

/* Sends requests. The caller has called load_connection_expect() for them. */
static bool send_requests(struct load_worker *worker, struct load_connection *connection,
                          uint32_t request_count)
{
    bool was_unsent = connection->unsent_size > 0;
    size_t size = load_batch_fill(&worker->batch, request_count);

    worker->budget_count -= request_count;
    worker->sent_count += request_count;
    worker->waiting_count += request_count;
    if (!load_connection_send(connection, worker->batch.bytes, size, &worker->error))
        return false;
    return was_unsent == (connection->unsent_size > 0) ||
           update_epoll(worker, connection, EPOLL_CTL_MOD, &worker->error);
}

/* Closed loop: sends the next pipeline on a connection that waits for no answer. */
static bool send_pipeline(struct load_worker *worker, struct load_connection *connection)
{
    uint64_t now_ns = load_now_ns();
    uint32_t request_count = worker->plan->pipeline_count;

    check_end(worker, now_ns);
    if (worker->is_over)
        return true;
    if (request_count > worker->budget_count)
        request_count = (uint32_t)worker->budget_count;
    load_connection_expect(connection, now_ns, request_count);
    return send_requests(worker, connection, request_count);
}

/* Open loop: sends as many due requests as one connection has room for, at most count_max. */
static bool send_some_due(struct load_worker *worker, struct load_connection *connection,
                          uint64_t count_max)
{
    uint32_t request_count = worker->plan->pipeline_count - connection->waiting_count;

    if (request_count > count_max)
        request_count = (uint32_t)count_max;
    if (request_count == 0)
        return true;
    for (uint32_t i = 0; i < request_count; i++)
        load_connection_expect(connection,
                               load_schedule_due_ns(&worker->schedule, worker->sent_count + i), 1);
    return send_requests(worker, connection, request_count);
}

/* Open loop: distributes the due requests over the connections, as far as they have room. */
static bool send_due(struct load_worker *worker, uint64_t now_ns)
{
    uint64_t due_count = load_schedule_due_count(&worker->schedule, now_ns) - worker->sent_count;
    uint64_t each_count = due_count / worker->connection_count + 1; /* a worker has at least one */

    if (due_count > worker->budget_count)
        due_count = worker->budget_count;
    if (worker->waiting_count == 0)
        worker->last_answer_ns = now_ns; /* no request has been waiting until now */
    for (uint32_t i = 0; i < worker->connection_count && due_count > 0; i++) {
        struct load_connection *connection = &worker->connections[worker->next_connection];
        uint64_t before_count = worker->sent_count;

        if (!send_some_due(worker, connection, each_count < due_count ? each_count : due_count))
            return false;
        due_count -= worker->sent_count - before_count;
        worker->next_connection = (worker->next_connection + 1) % worker->connection_count;
    }
    return true;
}

/* Receiving ------------------------------------------------------------------------------ */

static bool record_answers(struct load_worker *worker, struct load_connection *connection,
                           uint64_t answer_count, uint64_t now_ns)
{
    if (answer_count > connection->waiting_count)
        return load_fail(&worker->error, "the server sent an answer without a request");
    worker->waiting_count -= answer_count;
    worker->last_answer_ns = now_ns;
    while (answer_count > 0) {
        struct load_group group = load_connection_answered(connection, answer_count);

        answer_count -= group.request_count;
        if (group.since_ns >= worker->times.measure_from_ns)
            load_histogram_record(&worker->latency, now_ns - group.since_ns, group.request_count);
    }
    return true;
}

static bool receive_answers(struct load_worker *worker, struct load_connection *connection)
{
    uint64_t before_count = load_totals_total(&worker->totals);
    size_t size;

    if (!load_connection_receive(connection, worker->received, sizeof(worker->received), &size,
                                 &worker->error))
        return false;

    uint64_t now_ns = load_now_ns();

    if (!load_replies_read(&connection->replies, worker->received, size, &worker->totals,
                           &worker->error) ||
        !record_answers(worker, connection, load_totals_total(&worker->totals) - before_count,
                        now_ns))
        return false;
    if (is_open_loop(worker) || connection->waiting_count > 0)
        return true;
    return send_pipeline(worker, connection);
}

static bool handle_event(struct load_worker *worker, const struct epoll_event *event)
{
    struct load_connection *connection = event->data.ptr;

    if ((event->events & EPOLLOUT) != 0 && connection->unsent_size > 0 &&
        (!load_connection_flush(connection, &worker->error) ||
         (connection->unsent_size == 0 &&
          !update_epoll(worker, connection, EPOLL_CTL_MOD, &worker->error))))
        return false;
    return (event->events & ~(uint32_t)EPOLLOUT) == 0 || receive_answers(worker, connection);
}

/* The loop ------------------------------------------------------------------------------- */

static bool has_room(const struct load_worker *worker)
{
    return worker->waiting_count <
           (uint64_t)worker->connection_count * worker->plan->pipeline_count;
}

/* How long the worker may sleep before it must send. */
static uint64_t compute_wait_ns(const struct load_worker *worker)
{
    uint64_t now_ns;
    uint64_t due_ns;

    if (!is_open_loop(worker) || worker->is_over)
        return WAIT_NS_MAX;
    now_ns = load_now_ns();
    due_ns = load_schedule_due_ns(&worker->schedule, worker->sent_count);
    if (due_ns <= now_ns)
        return has_room(worker) ? 0 : WAIT_NS_MAX; /* an answer will make room */
    return due_ns - now_ns < WAIT_NS_MAX ? due_ns - now_ns : WAIT_NS_MAX;
}

static bool run_once(struct load_worker *worker)
{
    struct epoll_event events[EVENTS_MAX];
    struct timespec timeout = {.tv_nsec = (long)compute_wait_ns(worker)};
    int event_count = epoll_pwait2(worker->epoll_fd, events, EVENTS_MAX, &timeout, NULL);

    if (event_count < 0 && errno != EINTR)
        return load_fail(&worker->error, "epoll: %s", strerror(errno));
    for (int i = 0; i < event_count; i++) {
        if (!handle_event(worker, &events[i]))
            return false;
    }

    uint64_t now_ns = load_now_ns();

    check_end(worker, now_ns);
    __atomic_store_n(worker->answered_count, load_totals_total(&worker->totals), __ATOMIC_RELAXED);
    if (worker->waiting_count > 0 && now_ns > worker->last_answer_ns + LOAD_PATIENCE_NS)
        return load_fail(&worker->error, "the server has not answered for %d s",
                         (int)(LOAD_PATIENCE_NS / NS_PER_SECOND));
    return worker->is_over || !is_open_loop(worker) || send_due(worker, now_ns);
}

static bool run_loop(struct load_worker *worker)
{
    if (is_open_loop(worker)) {
        prctl(PR_SET_TIMERSLACK, 1UL); /* wake when due, not up to 50 us later */
    } else {
        for (uint32_t i = 0; i < worker->connection_count; i++) {
            if (!send_pipeline(worker, &worker->connections[i]))
                return false;
        }
    }
    while (!worker->is_over || worker->waiting_count > 0) {
        if (!run_once(worker))
            return false;
    }
    return true;
}

void *load_worker_run(void *argument)
{
    struct load_worker *worker = argument;

    worker->failed = !run_loop(worker);
    if (worker->failed)
        __atomic_store_n(worker->stop, true, __ATOMIC_RELAXED);
    return NULL;
}
