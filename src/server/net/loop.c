/*
 * loop: one thread's event loop: time, jobs, deadlines, messages, start and shutdown.
 */
#include "server/net/loop.h"

#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/error.h"
#include "server/net/loop_parts.h"

void *ration_loop_user(const struct ration_loop *loop)
{
    return loop->user;
}

void ration_loop_set_user(struct ration_loop *loop, void *user)
{
    loop->user = user;
}

void ration_loop_set_on_stop(struct ration_loop *loop, void (*function)(struct ration_loop *loop))
{
    loop->on_stop = function;
}

void ration_loop_counters(const struct ration_loop *loop, struct ration_loop_counters *out_counters)
{
    const uint64_t *from = (const uint64_t *)&loop->counters;
    uint64_t *to = (uint64_t *)out_counters;

    for (size_t i = 0; i < sizeof(*out_counters) / sizeof(*to); i++)
        to[i] = __atomic_load_n(&from[i], __ATOMIC_RELAXED);
}

/* Time --------------------------------------------------------------------------------------- */

uint64_t ration_loop_now(struct ration_loop *loop)
{
    if (!loop->is_now_cached) {
        loop->now_ns = ration_clock_now(&loop->loops->clock);
        loop->is_now_cached = true;
        loop->reads_since_now = 0;
    }
    return loop->now_ns;
}

static void on_turn(uv_prepare_t *turn)
{
    struct ration_loop *loop = turn->data;

    ration_loop_count(&loop->counters.turns, 1);
    loop->is_now_cached = false;
    loop->match_steps = loop->connection_match_steps = 0;
}

/* Jobs --------------------------------------------------------------------------------------- */

void ration_loop_cancel_job(struct ration_job *job)
{
    if (job->before == NULL)
        return;
    job->before->behind = job->behind;
    job->behind->before = job->before;
    job->before = NULL;
}

static void run_jobs(uv_idle_t *idle)
{
    struct ration_loop *loop = idle->data;
    uint64_t units = 0;

    /* If requests have used up this turn, jobs wait for the next one; not twice in a row, or they might starve. */
    loop->are_jobs_deferred =
        loop->match_steps >= RATION_TURN_MATCH_STEPS && !loop->are_jobs_deferred;
    if (loop->are_jobs_deferred)
        return;
    while (loop->jobs.behind != &loop->jobs && units < RATION_TURN_UNITS_MAX) {
        struct ration_job *job = loop->jobs.behind;

        ration_loop_cancel_job(job);
        ration_loop_count(&loop->counters.steps, 1);
        units += job->step(job);
    }
    if (units > loop->counters.units_max)
        ration_loop_count(&loop->counters.units_max, units - loop->counters.units_max);
    if (loop->jobs.behind == &loop->jobs && !loop->is_stopped)
        uv_idle_stop(&loop->jobs_idle);
}

void ration_loop_queue(struct ration_loop *loop, struct ration_job *job)
{
    if (job->before != NULL)
        return;
    if (loop->jobs.behind == &loop->jobs)
        uv_idle_start(&loop->jobs_idle, run_jobs);
    job->before = loop->jobs.before;
    job->behind = &loop->jobs;
    loop->jobs.before->behind = job;
    loop->jobs.before = job;
}

/* Work for libuv's thread pool, whose threads libuv starts on first use. */
struct work_item {
    uv_work_t uv;
    void (*work)(void *argument);
    void (*done)(void *argument);
    void *argument;
};

static void run_work(uv_work_t *uv)
{
    struct work_item *item = uv->data;

    item->work(item->argument);
}

static void on_work_done(uv_work_t *uv, int status)
{
    struct work_item *item = uv->data;

    (void)status; /* never UV_ECANCELED: no call cancels it */
    item->done(item->argument);
    free(item);
}

bool ration_loop_run_beside(struct ration_loop *loop, void (*work)(void *argument),
                            void (*done)(void *argument), void *argument)
{
    struct work_item *item = malloc(sizeof(*item));

    if (item == NULL)
        return false;
    item->work = work;
    item->done = done;
    item->argument = argument;
    item->uv.data = item;
    if (uv_queue_work(&loop->uv, &item->uv, run_work, on_work_done) == 0)
        return true;
    free(item);
    return false;
}

static void on_timer(uv_timer_t *timer)
{
    struct ration_loop *loop = timer->data;

    loop->timer_ms = RATION_DEADLINE_NEVER_MS;
    ration_loop_tick(loop);
}

void ration_loop_deadline_started(struct ration_loop *loop, uint64_t end_ms)
{
    uint64_t now_ms = uv_now(&loop->uv);

    if (end_ms >= loop->timer_ms || loop->loops->coarse_ms != NULL)
        return;
    loop->timer_ms = end_ms;
    uv_timer_start(&loop->timer, on_timer, end_ms > now_ms ? end_ms - now_ms : 0, 0);
}

static void close_all(struct ration_loop *loop, enum ration_close_reason close_reason)
{
    while (loop->connections != NULL)
        ration_connection_end(loop->connections, close_reason);
}

/* Calls ration_connection_deadline_passed() for the connection that contains the deadline. */
static void handle_passed_deadline(struct ration_deadline *deadline)
{
    bool is_pause = deadline->class_index == RATION_DEADLINE_STALL ||
                    deadline->class_index == RATION_DEADLINE_DELAY;
    size_t offset = is_pause ? offsetof(struct ration_connection, second_deadline)
                    : deadline->class_index == RATION_DEADLINE_AUTH
                        ? offsetof(struct ration_connection, auth_deadline)
                        : offsetof(struct ration_connection, deadline);
    struct ration_connection *connection = (struct ration_connection *)((char *)deadline - offset);

    ration_connection_deadline_passed(connection, deadline->class_index);
}

void ration_loop_tick(struct ration_loop *loop)
{
    uint64_t now_ms = ration_loop_coarse_ms(loop), next_ms;
    struct ration_deadline *passed;

    while ((passed = ration_deadlines_passed(&loop->deadlines, now_ms)) != NULL)
        handle_passed_deadline(passed);
    if (loop->draining && now_ms >= loop->drain_end_ms)
        close_all(loop, RATION_CLOSE_REASON_SHUTDOWN_TIMEOUT);
    if (loop->is_stopped)
        return;
    next_ms = ration_deadlines_next_ms(&loop->deadlines);
    if (loop->draining && now_ms < loop->drain_end_ms && loop->drain_end_ms < next_ms)
        next_ms = loop->drain_end_ms;
    if (next_ms != RATION_DEADLINE_NEVER_MS)
        ration_loop_deadline_started(loop, next_ms);
}

/* Messages ----------------------------------------------------------------------------------- */

/* The caller holds messages_lock. */
static bool post_locked(struct ration_loop *loop, struct ration_loop_message *message)
{
    if (loop->messages_closed)
        return false;
    message->next = NULL;
    *loop->messages_last = message;
    loop->messages_last = &message->next;
    uv_async_send(&loop->wake);
    return true;
}

bool ration_loop_post(struct ration_loop *loop, struct ration_loop_message *message)
{
    bool posted;

    pthread_mutex_lock(&loop->messages_lock);
    posted = post_locked(loop, message);
    pthread_mutex_unlock(&loop->messages_lock);
    return posted;
}

void ration_loop_request_drain(struct ration_loop *loop, uint32_t deadline_ms)
{
    bool is_posted; /* already, and not handled yet */

    pthread_mutex_lock(&loop->messages_lock);
    is_posted = loop->drain_request_ms != RATION_DEADLINE_NEVER_MS;
    if (deadline_ms < loop->drain_request_ms)
        loop->drain_request_ms = deadline_ms;
    if (!is_posted)
        (void)post_locked(loop, &loop->drain_message);
    pthread_mutex_unlock(&loop->messages_lock);
}

void ration_loop_wake(struct ration_loop *loop)
{
    pthread_mutex_lock(&loop->messages_lock);
    if (!loop->messages_closed)
        uv_async_send(&loop->wake);
    pthread_mutex_unlock(&loop->messages_lock);
}

static struct ration_loop_message *take_messages(struct ration_loop *loop, bool close)
{
    struct ration_loop_message *first;

    pthread_mutex_lock(&loop->messages_lock);
    first = loop->messages_first;
    loop->messages_first = NULL;
    loop->messages_last = &loop->messages_first;
    loop->messages_closed |= close;
    pthread_mutex_unlock(&loop->messages_lock);
    return first;
}

static void run_messages(struct ration_loop *loop, bool close)
{
    struct ration_loop_message *message = take_messages(loop, close);

    while (message != NULL) {
        struct ration_loop_message *next = message->next; /* the function may release it */

        message->function(loop, message->argument);
        message = next;
    }
}

static void on_wake(uv_async_t *wake)
{
    struct ration_loop *loop = wake->data;

    run_messages(loop, false);
    ration_loop_stop_if_empty(loop);
}

static void on_drain_request(struct ration_loop *loop, void *unused);

/* Start and shutdown -------------------------------------------------------------------------- */

static void init_deadlines(struct ration_loop *loop)
{
    const struct ration_server_limits *limits = &loop->loops->limits;
    const struct {
        unsigned class_index;
        uint32_t length_ms;
    } classes[] = {{RATION_DEADLINE_HEADERS, limits->header_timeout_ms},
                   {RATION_DEADLINE_BODY, limits->body_timeout_ms},
                   {RATION_DEADLINE_WRITE, limits->write_timeout_ms},
                   {RATION_DEADLINE_LINGER, limits->linger_timeout_ms},
                   {RATION_DEADLINE_AUTH, limits->auth_timeout_s * 1000},
                   {RATION_DEADLINE_MULTI, limits->multi_timeout_s * 1000},
                   {RATION_DEADLINE_STALL, RATION_STALL_MS},
                   {RATION_DEADLINE_DELAY, RATION_DELAY_MS}};

    ration_deadlines_init(&loop->deadlines);
    for (size_t i = 0; i < sizeof(classes) / sizeof(classes[0]); i++) {
        if (classes[i].length_ms != RATION_LIMIT_NONE)
            ration_deadlines_set_length(&loop->deadlines, classes[i].class_index,
                                        classes[i].length_ms);
    }
    loop->timer_ms = RATION_DEADLINE_NEVER_MS;
}

static int init_handles(struct ration_loop *loop)
{
    int result = uv_loop_init(&loop->uv);

    if (result != 0)
        return result;
    result = uv_async_init(&loop->uv, &loop->wake, on_wake);
    if (result != 0) {
        uv_loop_close(&loop->uv);
        return result;
    }
    uv_prepare_init(&loop->uv, &loop->turn);
    uv_timer_init(&loop->uv, &loop->timer);
    uv_timer_init(&loop->uv, &loop->accept_pause);
    uv_idle_init(&loop->uv, &loop->jobs_idle);
    loop->jobs.before = loop->jobs.behind = &loop->jobs;
    loop->jobs_idle.data = loop;
    loop->wake.data = loop->turn.data = loop->timer.data = loop->accept_pause.data = loop;
    uv_prepare_start(&loop->turn, on_turn);
    return 0;
}

/*
 * libuv has a table of watchers indexed by file descriptor, and aborts the process if it cannot enlarge the table
 * when a connection is accepted. So this thread makes libuv allocate the whole table now, before there are
 * clients: it watches the highest possible descriptor and closes that watcher at once.
 */
static void reserve_watchers(struct ration_loop *loop, uint64_t file_count)
{
    int low = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int high =
        low >= 0 && file_count <= INT_MAX ? fcntl(low, F_DUPFD_CLOEXEC, (int)file_count - 1) : -1;

    if (high >= 0 && uv_poll_init(&loop->uv, &loop->highest_fd_poll, high) == 0) {
        (void)uv_poll_start(&loop->highest_fd_poll, UV_READABLE, NULL);
        uv_close((uv_handle_t *)&loop->highest_fd_poll, NULL);
    }
    if (high >= 0)
        close(high);
    if (low >= 0)
        close(low);
}

ration_status ration_loop_create(struct ration_loops *loops, unsigned index,
                                 struct ration_loop **out_loop, struct ration_error *error)
{
    struct ration_loop *loop = calloc(1, sizeof(*loop));
    int result;

    if (loop == NULL || (loop->input = malloc(RATION_LOOP_INPUT_SIZE)) == NULL) {
        free(loop);
        return ration_error_set(error, RATION_ENOMEM, "no memory for an event loop");
    }
    result = init_handles(loop);
    if (result != 0) {
        free(loop->input);
        free(loop);
        return ration_error_set(error, RATION_ENOMEM, "cannot create an event loop: %s",
                                uv_strerror(result));
    }
    loop->loops = loops;
    loop->index = index;
    loop->spare_fd = ration_acceptor_open_spare();
    loop->messages_last = &loop->messages_first;
    loop->drain_request_ms = RATION_DEADLINE_NEVER_MS;
    loop->drain_message.function = on_drain_request;
    pthread_mutex_init(&loop->messages_lock, NULL);
    ration_output_init(&loop->output, loops->limits.output_bytes_max);
    init_deadlines(loop);
    reserve_watchers(loop, loops->files_max);
    *out_loop = loop;
    return RATION_OK;
}

static void on_handles_closed(uv_handle_t *handle)
{
    struct ration_loop *loop = handle->data;

    if (loop->on_stop != NULL)
        loop->on_stop(loop);
}

static void close_handles(struct ration_loop *loop)
{
    uv_close((uv_handle_t *)&loop->wake, NULL);
    uv_close((uv_handle_t *)&loop->turn, on_handles_closed);
    uv_close((uv_handle_t *)&loop->timer, NULL);
    uv_close((uv_handle_t *)&loop->accept_pause, NULL);
    uv_close((uv_handle_t *)&loop->jobs_idle, NULL);
}

/*
 * Runs the messages posted until now; posts after that fail. Loop 0 shuts down last: while another loop drains,
 * loop 0 must still handle signals.
 */
void ration_loop_stop_if_empty(struct ration_loop *loop)
{
    if (!loop->draining || loop->is_stopped || loop->connections != NULL)
        return;
    if (loop->index == 0 && !ration_loops_others_stopped(loop->loops))
        return;
    loop->is_stopped = true;
    run_messages(loop, true);
    /* on_stop() runs when the handles are closed, not here: it may free the object whose callback is running. */
    close_handles(loop);
    ration_loops_add_stopped(loop);
}

static void drain_loop(struct ration_loop *loop, uint64_t deadline_ms)
{
    uint64_t end_ms = ration_loop_coarse_ms(loop) + deadline_ms;
    struct ration_connection *connection, *next;

    if (!loop->draining || end_ms < loop->drain_end_ms)
        loop->drain_end_ms = end_ms;
    if (!loop->draining) {
        ration_acceptor_stop_all(loop);
        loop->draining = true;
        for (connection = loop->connections; connection != NULL; connection = next) {
            next = connection->behind;
            ration_connection_drain(connection);
        }
    }
    ration_loop_tick(loop);
    ration_loop_stop_if_empty(loop);
}

static void on_drain_request(struct ration_loop *loop, void *unused)
{
    uint64_t deadline_ms;

    (void)unused;
    pthread_mutex_lock(&loop->messages_lock);
    deadline_ms = loop->drain_request_ms;
    loop->drain_request_ms = RATION_DEADLINE_NEVER_MS;
    pthread_mutex_unlock(&loop->messages_lock);
    drain_loop(loop, deadline_ms);
}

void ration_loop_free(struct ration_loop *loop)
{
    drain_loop(loop, 0);
    if (loop->index == 0)
        ration_loops_close_signals(loop->loops);
    uv_run(&loop->uv, UV_RUN_DEFAULT);
    uv_loop_close(&loop->uv);
    pthread_mutex_destroy(&loop->messages_lock);
    ration_output_done(&loop->output);
    free(loop->input);
    free(loop);
}
