/* run: runs a plan in its threads, and combines what they measured. */
#include <pthread.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "load/idle.h"
#include "load/load.h"
#include "load/load_process.h"
#include "load/worker.h"

#define NS_PER_SECOND 1000000000L
#define PROGRESS_NS   200000000L

/* Descriptors besides the connections: standard streams, epoll, those opened by libraries. */
#define DESCRIPTORS_SPARE 64u

struct run {
    const struct load_plan *plan;
    struct load_worker *workers[LOAD_THREADS_MAX];
    pthread_t threads[LOAD_THREADS_MAX];
    uint32_t started_count;
    uint64_t answered_counts[LOAD_THREADS_MAX]; /* atomic: written by workers */
    bool stop;                                  /* atomic: a worker has failed */
    struct load_times times;
};

/* Making --------------------------------------------------------------------------------- */

static bool allow_descriptors(const struct load_plan *plan, struct load_error *error)
{
    struct rlimit limit;
    rlim_t wanted =
        (rlim_t)plan->connection_count + plan->idle_count + plan->thread_count + DESCRIPTORS_SPARE;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted)
        return true;
    limit.rlim_cur = wanted < limit.rlim_max ? wanted : limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur < wanted)
        return load_fail(error, "%llu connections need a higher limit of open files (ulimit -n)",
                         (unsigned long long)plan->connection_count + plan->idle_count);
    return true;
}

static bool make_workers(struct run *run, struct load_error *error)
{
    for (uint32_t i = 0; i < run->plan->thread_count; i++) {
        run->workers[i] = load_worker_create(run->plan, i, error);
        if (run->workers[i] == NULL)
            return false;
        run->workers[i]->stop = &run->stop;
        run->workers[i]->answered_count = &run->answered_counts[i];
    }
    return true;
}

static void free_workers(struct run *run)
{
    for (uint32_t i = 0; i < run->plan->thread_count; i++)
        load_worker_free(run->workers[i]);
}

/* Running -------------------------------------------------------------------------------- */

static void set_times(struct run *run)
{
    const struct load_plan *plan = run->plan;
    uint64_t now_ns = load_now_ns();

    run->times = (struct load_times){
        .start_ns = now_ns,
        .measure_from_ns = now_ns + plan->warmup_ns,
        .stop_ns =
            plan->duration_ns > 0 ? now_ns + plan->warmup_ns + plan->duration_ns : UINT64_MAX,
    };
    for (uint32_t i = 0; i < plan->thread_count; i++)
        load_worker_set_times(run->workers[i], i, &run->times);
}

static bool start_threads(struct run *run, struct load_error *error)
{
    for (; run->started_count < run->plan->thread_count; run->started_count++) {
        uint32_t i = run->started_count;
        int failure = pthread_create(&run->threads[i], NULL, load_worker_run, run->workers[i]);

        if (failure != 0) {
            __atomic_store_n(&run->stop, true, __ATOMIC_RELAXED);
            return load_fail(error, "cannot start a thread: %s", strerror(failure));
        }
    }
    return true;
}

static void show_progress(struct run *run, load_progress *progress, void *context)
{
    uint64_t answered_count = 0;

    for (uint32_t i = 0; i < run->plan->thread_count; i++)
        answered_count += __atomic_load_n(&run->answered_counts[i], __ATOMIC_RELAXED);
    progress(context, answered_count, load_now_ns() - run->times.start_ns);
}

/* Returns a wall clock time, as pthread_timedjoin_np() requires; a clock step does no harm. */
static struct timespec next_progress(void)
{
    struct timespec until;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += PROGRESS_NS;
    if (until.tv_nsec >= NS_PER_SECOND) {
        until.tv_nsec -= NS_PER_SECOND;
        until.tv_sec++;
    }
    return until;
}

static void join_thread(struct run *run, uint32_t index, load_progress *progress, void *context)
{
    struct timespec until = next_progress();

    while (pthread_timedjoin_np(run->threads[index], NULL, &until) != 0) {
        if (progress != NULL)
            show_progress(run, progress, context);
        until = next_progress();
    }
}

static void join_threads(struct run *run, load_progress *progress, void *context)
{
    for (uint32_t i = 0; i < run->started_count; i++)
        join_thread(run, i, progress, context);
}

/* Results -------------------------------------------------------------------------------- */

static void add_worker(const struct load_worker *worker, struct load_result *result)
{
    uint64_t due_count = 0;

    load_totals_add(&result->totals, &worker->totals);
    load_histogram_add(&result->latency, &worker->latency);
    result->sent_count += worker->sent_count;
    if (worker->plan->rate_per_second > 0 && worker->times.stop_ns != UINT64_MAX)
        due_count = load_schedule_due_count(&worker->schedule, worker->times.stop_ns - 1);
    if (due_count > worker->sent_count && worker->budget_count > 0)
        result->never_sent_count += due_count - worker->sent_count;
    if (worker->last_answer_ns > worker->times.measure_from_ns &&
        worker->last_answer_ns - worker->times.measure_from_ns > result->measured_ns)
        result->measured_ns = worker->last_answer_ns - worker->times.measure_from_ns;
}

static void correct_latency(const struct load_plan *plan, struct load_result *result)
{
    uint64_t round_count =
        result->latency.count / ((uint64_t)plan->connection_count * plan->pipeline_count);

    if (plan->rate_per_second == 0 && round_count > 0)
        result->interval_ns = result->measured_ns / round_count;
    load_histogram_correct(&result->latency, result->interval_ns, &result->corrected);
}

static bool merge_results(const struct run *run, struct load_result *result,
                          struct load_error *error)
{
    for (uint32_t i = 0; i < run->plan->thread_count; i++) {
        const struct load_worker *worker = run->workers[i];

        if (worker->failed && worker->totals.error_count > 0)
            return load_fail(error, "%s; its first error was: %s", worker->error.message,
                             worker->totals.first_error);
        if (worker->failed)
            return load_fail(error, "%s", worker->error.message);
        add_worker(worker, result);
    }
    correct_latency(run->plan, result);
    return true;
}

static bool run_workers(struct run *run, load_progress *progress, void *context,
                        struct load_result *result, struct load_error *error)
{
    pid_t server = run->plan->server_pid;
    uint64_t server_before_ns = server > 0 ? load_process_usage(server).cpu_ns : 0;
    uint64_t own_before_ns = load_process_own_cpu_ns();
    bool started;

    set_times(run);
    started = start_threads(run, error);
    join_threads(run, progress, context);
    if (!started || !merge_results(run, result, error))
        return false;
    result->total_ns = load_now_ns() - run->times.start_ns;
    result->client_cpu_ns = load_process_own_cpu_ns() - own_before_ns;
    if (server > 0)
        result->server_cpu_ns = load_process_usage(server).cpu_ns - server_before_ns;
    return true;
}

bool load_run(const struct load_plan *plan, load_progress *progress, void *context,
              struct load_result *out_result, struct load_error *error)
{
    struct run run = {.plan = plan};
    struct load_idle idle;
    bool done;

    memset(out_result, 0, sizeof(*out_result));
    if (!allow_descriptors(plan, error))
        return false;
    if (plan->server_pid > 0)
        out_result->server_before_bytes = load_process_usage(plan->server_pid).resident_bytes;
    if (!load_idle_init(plan, &idle, error))
        return false;
    if (plan->server_pid > 0)
        out_result->server_idle_bytes = load_process_usage(plan->server_pid).resident_bytes;
    done = make_workers(&run, error) && run_workers(&run, progress, context, out_result, error);
    free_workers(&run);
    load_idle_done(&idle);
    return done;
}
