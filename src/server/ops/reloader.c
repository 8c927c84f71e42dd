#include "server/ops/reloader.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/ops/log.h"
#include "server/ops/policy_source.h"
#include "server/ops/sd_notify.h"

#define REPORT_BYTES_MAX ((size_t)1 << 20)

/* A connection's request. The connection's loop thread owns it; the reload thread writes text and is_done. */
struct ration_reload {
    enum ration_reloader_task task;
    struct ration_reload *next; /* in the reloader's queue */
    struct ration_loop_message message;
    struct ration_loop *loop;
    struct ration_connection *connection; /* NULL: closed */
    struct ration_reload **handle;
    ration_reload_answer *answer;
    struct ration_output text;
    bool is_done;
};

struct ration_reloader {
    struct ration_service *service;
    const struct ration_settings *given;
    struct ration_secret text; /* hash of the policy file; the text may contain secrets */

    pthread_mutex_t lock;        /* protects the members below */
    struct ration_reload *first; /* queue of requests */
    struct ration_reload **last;
    bool is_requested; /* by a signal */
    bool is_stopping;
    bool has_thread; /* thread must be joined */
    bool is_running; /* the thread will check the queue once more before it exits */
    pthread_t thread;
};

/*
 * An admin client may reload again and again, so these lines are bounded. Each change of a reload is one line, and
 * the bound is large enough for real policies; the outcome is one line. The client that sent the request gets all
 * lines, and each reload is counted.
 */
static struct ration_log_bound change_lines = {"what reloads changed or found wrong",
                                               .burst_lines = 5000, .lines_per_second = 10};
static struct ration_log_bound outcome_lines = {"the outcome of reloads", .burst_lines = 200,
                                                .lines_per_second = 1};

/* Lines that are logged and also sent to the client that requested the reload. */
struct report {
    struct ration_output *text; /* NULL: no client, only the log */
    enum ration_log_level level;
    size_t line_count;
    size_t lost_count; /* lines that did not fit into text */
};

static void report_line(void *context, const char *line)
{
    struct report *report = context;
    size_t size_before = report->text != NULL ? report->text->size : 0;

    ration_log_bounded(&change_lines, report->level, NULL, 0, "reload: %s", line);
    report->line_count++;
    if (report->text == NULL)
        return;
    if (size_before > 0)
        ration_output_append_byte(report->text, '\n');
    ration_output_append_text(report->text, line);
    if (!report->text->is_failed)
        return;
    ration_output_rewind(report->text, size_before);
    report->lost_count++;
}

/* Appends how many lines are missing, and the terminating zero. */
static void end_report(struct report *report, struct ration_output *text)
{
    char line[80] = "";

    if (report->lost_count > 0)
        snprintf(line, sizeof(line), "\nand %zu lines more, which are in the log",
                 report->lost_count);
    text->bytes_max += sizeof(line);
    ration_output_append(text, line, strlen(line) + 1);
}

static void report_change(void *context, enum ration_engine_change change, const char *name)
{
    char line[RATION_LIMIT_NAME_MAX + 64];

    snprintf(line, sizeof(line), "limit %s %s", name, ration_engine_change_name(change));
    report_line(context, line);
}

static void report_setting(void *context, const char *name)
{
    char line[128];

    snprintf(line, sizeof(line), "setting %s has changed; it needs a restart", name);
    report_line(context, line);
}

/* Stores the hash of the policy file. True: the hash has changed, none was stored, or the file is unreadable. */
static bool has_file_changed(struct ration_reloader *reloader)
{
    const char *path = reloader->given->policy_path;
    FILE *file = path != NULL ? fopen(path, "re") : NULL;
    char *text = file != NULL ? malloc(RATION_POLICY_BYTES_MAX) : NULL;
    bool has_changed = path != NULL; /* an unreadable file may have changed */

    if (text != NULL) {
        setvbuf(file, NULL, _IONBF, 0); /* stdio's buffer would not be wiped */
        size_t size = fread(text, 1, RATION_POLICY_BYTES_MAX, file);

        has_changed = !ration_secret_is(&reloader->text, text, size);
        (void)ration_secret_set(&reloader->text, text, size);
        explicit_bzero(text, size);
    }
    free(text);
    if (file != NULL)
        fclose(file);
    return has_changed;
}

/* Replaces the engine's policy by a valid one. Takes ownership of the policy. */
static bool apply_policy(struct ration_reloader *reloader, ration_policy *policy,
                         struct ration_settings *settings, struct report *report)
{
    struct ration_service *service = reloader->service;
    struct ration_error error = {.message = ""};
    bool has_changed;
    ration_status status =
        ration_engine_reload(service->engine, policy, report_change, report, &error);

    if (status != RATION_OK) {
        report->level = RATION_LOG_ERROR;
        report_line(report, error.message[0] != '\0' ? error.message : ration_status_text(status));
        ration_policy_free(policy);
        return false;
    }
    report->level = RATION_LOG_WARNING;
    (void)ration_settings_hide_secrets(settings); /* those of the running server are hidden too */
    ration_settings_compare(service->settings, settings, report_setting, report);
    report->level = RATION_LOG_INFO;
    has_changed = has_file_changed(reloader);
    if (report->line_count == 0)
        report_line(report, has_changed
                                ? "limits are the same; what is exempt or banned, or the words "
                                  "of the file, have changed"
                                : "nothing has changed");
    return true;
}

static bool reload_and_report(struct ration_reloader *reloader, struct report *report)
{
    struct ration_settings settings;
    ration_policy *policy;
    bool is_done;

    report->level = RATION_LOG_ERROR;
    if (ration_policy_source_read(reloader->given, report_line, report, &policy, &settings) !=
        RATION_OK)
        return false;
    report->level = RATION_LOG_INFO;
    is_done = apply_policy(reloader, policy, &settings, report);
    ration_settings_done(&settings);
    return is_done;
}

/* text: NULL, or the report for the client that waits. */
static bool reload_policy(struct ration_reloader *reloader, struct ration_output *text)
{
    struct ration_service *service = reloader->service;
    struct report report = {.text = text};
    bool is_done = reload_and_report(reloader, &report);

    if (is_done) {
        ration_log_bounded(&outcome_lines, RATION_LOG_INFO, NULL, 0, "reloaded the policy");
    } else {
        __atomic_add_fetch(&service->failed_reloads, 1, __ATOMIC_RELAXED);
        ration_log_bounded(&outcome_lines, RATION_LOG_ERROR, NULL, 0,
                           "the policy was not reloaded; the previous policy stays in force");
    }
    if (text != NULL)
        end_report(&report, text);
    return is_done;
}

/* Requests ------------------------------------------------------------------------------------ */

static void free_request(struct ration_reload *request)
{
    ration_output_done(&request->text);
    free(request);
}

/* On the connection's loop thread. */
static void answer_request(struct ration_loop *loop, void *argument)
{
    struct ration_reload *request = argument;
    struct ration_reload_result result = {
        .is_done = request->is_done,
        .text = request->text.is_failed ? "the server is short of memory: the result is in the log"
                                        : request->text.bytes,
    };

    (void)loop;
    if (request->connection != NULL) {
        *request->handle = NULL;
        request->answer(request->connection, &result);
    }
    free_request(request);
}

void ration_reloader_forget(struct ration_reload *request)
{
    if (request != NULL)
        request->connection = NULL;
}

/* The thread ---------------------------------------------------------------------------------- */

/* Removes the next request, or returns NULL. The caller holds the lock. */
static struct ration_reload *dequeue_request(struct ration_reloader *reloader)
{
    struct ration_reload *request = reloader->first;

    if (request != NULL) {
        reloader->first = request->next;
        if (reloader->first == NULL)
            reloader->last = &reloader->first;
    }
    return request;
}

/* Runs the task of a request, or a reload for a signal (request is NULL). On the reload thread. */
static void run_task(struct ration_reloader *reloader, struct ration_reload *request)
{
    if (request == NULL) {
        ration_sd_notify("RELOADING=1");
        reload_policy(reloader, NULL);
        ration_sd_notify("READY=1");
        return;
    }
    switch (request->task) {
    case RATION_RELOADER_RELOAD:
        request->is_done = reload_policy(reloader, &request->text);
        break;
    case RATION_RELOADER_CLEAR_INLINE:
        request->is_done = ration_engine_clear_inline(reloader->service->engine) == RATION_OK;
        break;
    }
    request->message =
        (struct ration_loop_message){.function = answer_request, .argument = request};
    if (!ration_loop_post(request->loop, &request->message))
        free_request(request); /* the loop has shut down, and the connection is closed */
}

static void *run_tasks(void *argument)
{
    struct ration_reloader *reloader = argument;

    pthread_mutex_lock(&reloader->lock);
    while (!reloader->is_stopping && (reloader->first != NULL || reloader->is_requested)) {
        struct ration_reload *request = dequeue_request(reloader);

        if (request == NULL)
            reloader->is_requested = false;
        pthread_mutex_unlock(&reloader->lock);
        run_task(reloader, request);
        pthread_mutex_lock(&reloader->lock);
    }
    reloader->is_running = false;
    pthread_mutex_unlock(&reloader->lock);
    return NULL;
}

/*
 * Starts the thread if it does not run; the caller holds the lock. The thread exists only while there are tasks:
 * a server with one loop then has one thread, and system calls of a single-threaded process cost less.
 */
static bool start_thread(struct ration_reloader *reloader)
{
    if (reloader->is_running)
        return true;
    if (reloader->has_thread)
        pthread_join(reloader->thread, NULL); /* it has released the lock and is about to exit */
    reloader->has_thread = reloader->is_running =
        pthread_create(&reloader->thread, NULL, run_tasks, reloader) == 0;
    return reloader->is_running;
}

bool ration_reloader_serve(struct ration_reloader *reloader, enum ration_reloader_task task,
                           struct ration_connection *connection, ration_reload_answer *answer,
                           struct ration_reload **handle)
{
    struct ration_reload *request = malloc(sizeof(*request));
    bool is_started;

    if (request == NULL)
        return false;
    *request = (struct ration_reload){
        .task = task,
        .loop = ration_connection_loop(connection),
        .connection = connection,
        .handle = handle,
        .answer = answer,
    };
    ration_output_init(&request->text, REPORT_BYTES_MAX);
    pthread_mutex_lock(&reloader->lock);
    is_started = start_thread(reloader);
    if (is_started) {
        *handle = request;
        ration_connection_pause(connection);
        *reloader->last = request;
        reloader->last = &request->next;
    }
    pthread_mutex_unlock(&reloader->lock);
    if (!is_started)
        free_request(request);
    return is_started;
}

ration_status ration_reloader_create(struct ration_service *service,
                                     const struct ration_settings *given,
                                     struct ration_reloader **out_reloader)
{
    struct ration_reloader *reloader = calloc(1, sizeof(*reloader));

    if (reloader == NULL)
        return RATION_ENOMEM;
    reloader->service = service;
    reloader->given = given;
    reloader->last = &reloader->first;
    (void)has_file_changed(reloader);
    pthread_mutex_init(&reloader->lock, NULL);
    service->reloader = reloader;
    *out_reloader = reloader;
    return RATION_OK;
}

void ration_reloader_request(struct ration_reloader *reloader)
{
    pthread_mutex_lock(&reloader->lock);
    reloader->is_requested = true;
    if (!start_thread(reloader)) {
        reloader->is_requested = false;
        __atomic_add_fetch(&reloader->service->failed_reloads, 1, __ATOMIC_RELAXED);
        ration_log_bounded(
            &outcome_lines, RATION_LOG_ERROR, NULL, 0,
            "the policy was not reloaded: cannot start a thread. The previous policy "
            "stays in force; send SIGHUP again when memory or threads are available");
    }
    pthread_mutex_unlock(&reloader->lock);
}

void ration_reloader_free(struct ration_reloader *reloader)
{
    if (reloader == NULL)
        return;
    pthread_mutex_lock(&reloader->lock);
    reloader->is_stopping = true;
    pthread_mutex_unlock(&reloader->lock);
    if (reloader->has_thread)
        pthread_join(reloader->thread, NULL);
    for (struct ration_reload *request; (request = dequeue_request(reloader)) != NULL;)
        free_request(request);
    ration_log_bound_report(&change_lines);
    ration_log_bound_report(&outcome_lines);
    pthread_mutex_destroy(&reloader->lock);
    free(reloader);
}
