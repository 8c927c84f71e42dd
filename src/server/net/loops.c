#include "server/net/loops.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/error.h"
#include "server/net/limits.h"
#include "server/net/loop_parts.h"

/* File descriptors that are not connections: of the whole server, and of each loop. */
#define FILES_OF_SERVER 64
#define FILES_OF_LOOP   (8 + RATION_LISTENERS_MAX)

#define UNIX_MODE_DEFAULT 0660

/* Limits ----------------------------------------------------------------------------------------- */

struct bounds {
    const char *name;
    uint32_t default_value;
    uint32_t min;
    uint32_t max;
    bool may_be_none;
};

static ration_status complete_limit(const struct bounds *bounds, uint32_t *limit,
                                    struct ration_error *error)
{
    if (*limit == 0)
        *limit = bounds->default_value;
    if (*limit == RATION_LIMIT_NONE && bounds->may_be_none)
        return RATION_OK;
    if (*limit >= bounds->min && *limit <= bounds->max)
        return RATION_OK;
    return ration_error_set(error, RATION_EINVAL, "%s must be %u to %u%s (got %u)", bounds->name,
                            bounds->min, bounds->max, bounds->may_be_none ? ", or none" : "",
                            *limit);
}

ration_status ration_server_limits_complete(const struct ration_server_limits *limits,
                                            struct ration_server_limits *out_limits,
                                            struct ration_error *error)
{
    enum { never = false, none = true };
    struct ration_server_limits completed = *limits;

#define COMPLETE(limit, default_value, min, max, may_be_none)                          \
    if (complete_limit(&(struct bounds){#limit, default_value, min, max, may_be_none}, \
                       &completed.limit, error) != RATION_OK)                          \
        return RATION_EINVAL;
    RATION_SERVER_LIMIT_MAP(COMPLETE)
#undef COMPLETE
    *out_limits = completed;
    return RATION_OK;
}

/* Creation ----------------------------------------------------------------------------------- */

/* Raises RLIMIT_NOFILE to its hard limit if possible, and returns the limit in force. */
static uint64_t raise_file_limit(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return UINT64_MAX;
    if (limit.rlim_cur < limit.rlim_max) {
        rlim_t before = limit.rlim_cur;

        limit.rlim_cur = limit.rlim_max;
        if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
            limit.rlim_cur = before;
    }
    return limit.rlim_cur;
}

static void lower_connections_max(struct ration_loops *loops)
{
    uint64_t files = raise_file_limit();
    uint64_t other = FILES_OF_SERVER + (uint64_t)loops->loop_count * FILES_OF_LOOP;
    uint64_t max = files > other ? files - other : 1;

    if (loops->limits.connections_max > max)
        loops->limits.connections_max = (uint32_t)max;
    loops->files_max = other + loops->limits.connections_max;
}

static uint64_t read_default_clock(void *unused)
{
    (void)unused;
    return ration_clock_default_now();
}

static ration_status create_peers_and_loops(struct ration_loops *loops, struct ration_error *error)
{
    const struct ration_server_limits *limits = &loops->limits;
    unsigned loop_count = loops->loop_count;

    lower_connections_max(loops);
    if (limits->connections_per_peer_max < limits->connections_max) {
        loops->peers =
            ration_peers_create(limits->connections_max, limits->connections_per_peer_max);
        if (loops->peers == NULL)
            return ration_error_set(error, RATION_ENOMEM, "no memory to count connections");
    }
    for (loops->loop_count = 0; loops->loop_count < loop_count; loops->loop_count++) {
        ration_status status =
            ration_loop_create(loops, loops->loop_count, &loops->loops[loops->loop_count], error);
        if (status != RATION_OK)
            return status;
    }
    return RATION_OK;
}

ration_status ration_loops_create(const struct ration_loops_options *options,
                                  struct ration_loops **out_loops, struct ration_error *error)
{
    struct ration_loops *loops;
    struct ration_server_limits limits;
    ration_status status = ration_server_limits_complete(&options->limits, &limits, error);

    if (status != RATION_OK)
        return status;
    if (options->loop_count > RATION_LOOPS_MAX)
        return ration_error_set(error, RATION_EINVAL, "loops must be 1 to %d (got %u)",
                                RATION_LOOPS_MAX, options->loop_count);
    loops = calloc(1, sizeof(*loops));
    if (loops == NULL)
        return ration_error_set(error, RATION_ENOMEM, "no memory for the server");
    signal(SIGPIPE, SIG_IGN);
    loops->limits = limits;
    loops->clock = options->clock;
    if (loops->clock.now_ns == NULL)
        loops->clock = (struct ration_clock){RATION_CLOCK_CUSTOM, read_default_clock, NULL};
    loops->coarse_ms = options->coarse_ms;
    loops->coarse_context = options->coarse_context;
    loops->loop_count = options->loop_count > 0 ? options->loop_count : 1;
    pthread_mutex_init(&loops->accept_lock, NULL);
    pthread_mutex_init(&loops->drain_lock, NULL);
    status = create_peers_and_loops(loops, error);
    if (status != RATION_OK) {
        ration_loops_free(loops);
        return status;
    }
    *out_loops = loops;
    return RATION_OK;
}

static void unlink_sockets(struct ration_loops *loops)
{
    for (unsigned i = 0; i < loops->listener_count; i++)
        ration_endpoint_unlink(&loops->listeners[i].endpoint);
}

void ration_loops_free(struct ration_loops *loops)
{
    if (loops == NULL)
        return;
    if (!loops->is_draining)
        unlink_sockets(loops);
    for (unsigned i = loops->loop_count; i-- > 0;) /* loop 0 shuts down last */
        ration_loop_free(loops->loops[i]);
    ration_peers_free(loops->peers);
    pthread_mutex_destroy(&loops->accept_lock);
    pthread_mutex_destroy(&loops->drain_lock);
    free(loops);
}

/* Listening ---------------------------------------------------------------------------------- */

/* Opens a loop's listening socket: loop 0 binds; the others join its TCP port or duplicate its Unix socket. */
static ration_status open_for_loop(struct ration_loops *loops, struct ration_listener *listener,
                                   unsigned loop_index, unsigned unix_mode, int *out_fd,
                                   struct ration_error *error)
{
    const struct ration_endpoint_options options = {
        .joins = loop_index > 0,
        .unix_mode = unix_mode,
        .backlog = (int)loops->limits.accept_backlog,
    };

    if (loop_index == 0 || !ration_endpoint_is_unix(&listener->endpoint))
        return ration_endpoint_listen(&listener->endpoint, &options, out_fd, error);
    *out_fd = fcntl(loops->loops[0]->acceptors[listener->index].fd, F_DUPFD_CLOEXEC, 0);
    if (*out_fd < 0)
        return ration_error_set(error, RATION_ENOMEM, "cannot share %s: %s", listener->address,
                                strerror(errno));
    return RATION_OK;
}

static ration_status listen_on_loop(struct ration_loops *loops, struct ration_listener *listener,
                                    unsigned loop_index, unsigned unix_mode,
                                    struct ration_error *error)
{
    struct ration_loop *loop = loops->loops[loop_index];
    int fd;
    ration_status status = open_for_loop(loops, listener, loop_index, unix_mode, &fd, error);

    if (status != RATION_OK)
        return status;
    ration_endpoint_print(&listener->endpoint, listener->address);
    status = ration_acceptor_add(loop, listener, fd, error);
    if (status != RATION_OK) {
        close(fd);
        return status;
    }
    if (listener->idle_timeout_ms != RATION_LIMIT_NONE)
        ration_deadlines_set_length(&loop->deadlines, RATION_DEADLINE_IDLE + listener->index,
                                    listener->idle_timeout_ms);
    return RATION_OK;
}

ration_status ration_loops_listen(struct ration_loops *loops,
                                  const struct ration_listen_options *options,
                                  struct ration_error *error)
{
    struct ration_listener *listener = &loops->listeners[loops->listener_count];
    unsigned unix_mode = options->unix_mode > 0 ? options->unix_mode : UNIX_MODE_DEFAULT;
    ration_status status;

    if (loops->listener_count == RATION_LISTENERS_MAX)
        return ration_error_set(error, RATION_EINVAL, "cannot listen on more than %d addresses",
                                RATION_LISTENERS_MAX);
    *listener = (struct ration_listener){
        .protocol = options->protocol,
        .context = options->context,
        .index = loops->listener_count,
        .idle_timeout_ms =
            options->idle_timeout_ms > 0 ? options->idle_timeout_ms : loops->limits.idle_timeout_ms,
    };
    status = ration_endpoint_parse(options->address, &listener->endpoint, error);
    for (unsigned i = 0; i < loops->loop_count && status == RATION_OK; i++) {
        status = listen_on_loop(loops, listener, i, unix_mode, error);
        if (i == 0 && status == RATION_OK)
            loops->listener_count++;
    }
    return status;
}

const char *ration_loops_address(const struct ration_loops *loops, unsigned listener_index)
{
    return loops->listeners[listener_index].address;
}

/* Signals ------------------------------------------------------------------------------------ */

static void on_signal(uv_signal_t *uv, int signal_number)
{
    struct ration_signal *signal = uv->data;

    (void)signal_number;
    signal->function(signal->loop, signal->argument);
}

ration_status ration_loops_on_signal(struct ration_loops *loops, int signal_number,
                                     ration_loop_function *function, void *argument,
                                     struct ration_error *error)
{
    struct ration_signal *signal = &loops->signals[loops->signal_count];
    int result;

    if (loops->signal_count == RATION_SIGNALS_MAX)
        return ration_error_set(error, RATION_EINVAL, "cannot catch more than %d signals",
                                RATION_SIGNALS_MAX);
    *signal =
        (struct ration_signal){.loop = loops->loops[0], .function = function, .argument = argument};
    uv_signal_init(&loops->loops[0]->uv, &signal->uv);
    signal->uv.data = signal;
    loops->signal_count++;
    result = uv_signal_start(&signal->uv, on_signal, signal_number);
    uv_unref((uv_handle_t *)&signal->uv); /* it must not keep the loop running */
    if (result != 0)
        return ration_error_set(error, RATION_EINVAL, "cannot catch signal %d: %s", signal_number,
                                uv_strerror(result));
    return RATION_OK;
}

/* Called only when loop 0 is freed: until then a signal must not have its default effect. */
void ration_loops_close_signals(struct ration_loops *loops)
{
    for (unsigned i = 0; i < loops->signal_count; i++)
        uv_close((uv_handle_t *)&loops->signals[i].uv, NULL);
}

/* Running ------------------------------------------------------------------------------------ */

static void *run_loop(void *argument)
{
    struct ration_loop *loop = argument;

    uv_update_time(&loop->uv);
    ration_acceptor_start_all(loop);
    uv_run(&loop->uv, UV_RUN_DEFAULT);
    return NULL;
}

ration_status ration_loops_run(struct ration_loops *loops, struct ration_error *error)
{
    ration_status status = RATION_OK;
    unsigned started = 1;

    for (; started < loops->loop_count && status == RATION_OK; started++) {
        struct ration_loop *loop = loops->loops[started];

        if (pthread_create(&loop->thread, NULL, run_loop, loop) != 0)
            status = ration_error_set(error, RATION_ENOMEM, "cannot start thread %u of %u", started,
                                      loops->loop_count);
    }
    if (status != RATION_OK) {
        started--; /* the last one has no thread */
        ration_loops_drain(loops, 0, NULL, NULL);
        for (unsigned i = started; i < loops->loop_count; i++)
            run_loop(loops->loops[i]); /* only to shut it down: loop 0 must be the last */
    }
    run_loop(loops->loops[0]);
    for (unsigned i = 1; i < started; i++)
        pthread_join(loops->loops[i]->thread, NULL);
    return status;
}

void ration_loops_drain(struct ration_loops *loops, uint32_t deadline_ms,
                        ration_loop_function *function, void *argument)
{
    pthread_mutex_lock(&loops->drain_lock);
    if (!loops->is_draining) {
        loops->is_draining = true;
        loops->on_drained = function;
        loops->on_drained_argument = argument;
        unlink_sockets(loops);
    }
    pthread_mutex_unlock(&loops->drain_lock);
    for (unsigned i = 0; i < loops->loop_count; i++)
        ration_loop_request_drain(loops->loops[i], deadline_ms);
}

/*
 * A loop thread calls this when its loop has shut down. acq_rel: on_drained(), called by the last loop, sees what
 * the other loop threads wrote before; pairs with ration_loops_others_stopped().
 */
void ration_loops_add_stopped(struct ration_loop *loop)
{
    struct ration_loops *loops = loop->loops;
    unsigned stopped_count = __atomic_add_fetch(&loops->stopped_count, 1, __ATOMIC_ACQ_REL);

    if (stopped_count + 1 == loops->loop_count) /* loop 0 may be waiting for this */
        ration_loop_wake(loops->loops[0]);
    if (stopped_count == loops->loop_count && loops->on_drained != NULL)
        loops->on_drained(loop, loops->on_drained_argument);
}

/* acquire: pairs with the release in ration_loops_add_stopped(). */
bool ration_loops_others_stopped(const struct ration_loops *loops)
{
    return __atomic_load_n(&loops->stopped_count, __ATOMIC_ACQUIRE) + 1 >= loops->loop_count;
}

/* Accessors ---------------------------------------------------------------------------------- */

unsigned ration_loops_count(const struct ration_loops *loops)
{
    return loops->loop_count;
}

struct ration_loop *ration_loops_at(struct ration_loops *loops, unsigned index)
{
    return loops->loops[index];
}

void ration_loops_counters(const struct ration_loops *loops,
                           struct ration_loop_counters *out_counters)
{
    uint64_t sum[sizeof(*out_counters) / sizeof(uint64_t)] = {0};

    for (unsigned i = 0; i < loops->loop_count; i++) {
        struct ration_loop_counters one = {0};

        ration_loop_counters(loops->loops[i], &one);
        for (size_t word = 0; word < sizeof(sum) / sizeof(sum[0]); word++)
            sum[word] += ((const uint64_t *)&one)[word];
    }
    memcpy(out_counters, sum, sizeof(sum));
}
