#include "server/reload.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/log.h"
#include "server/notify.h"
#include "server/policy_source.h"

#define REPORT_BYTES_MAX ((size_t)1 << 20)

/* A connection that waits for a task. Its loop's thread owns it, but for the result. */
struct ration_reload {
    enum ration_reloader_task task;
    struct ration_reload *next; /* in the queue; the reloader's */
    struct ration_loop_message message;
    struct ration_loop *loop;
    struct ration_connection *connection; /* NULL: it is gone */
    struct ration_reload **place;
    ration_reload_answer *answer;
    struct ration_output text;
    bool is_done;
};

struct ration_reloader {
    struct ration_service *service;
    const struct ration_settings *given;
    struct ration_secret text; /* of the policy in force, as its file had it; it may hold secrets */

    pthread_mutex_t lock;        /* of what follows */
    struct ration_reload *first; /* who waits */
    struct ration_reload **last;
    bool is_asked; /* by a signal */
    bool is_over;
    bool has_thread; /* to be joined */
    bool is_running; /* the thread, which looks for work once more before it ends */
    pthread_t thread;
};

/*
 * A client that may reload may do so again and again. What one reload changes is logged line by line, for
 * policies of any size that people have; what came of it in one line. Those who sent the request are told
 * all of it, and each reload is counted.
 */
static struct ration_log_bound change_lines = {"what reloads changed or found wrong",
                                               .burst_lines = 5000, .lines_per_second = 10};
static struct ration_log_bound outcome_lines = {"the outcome of reloads", .burst_lines = 200,
                                                .lines_per_second = 1};

/* Lines that are logged and also handed to the client that sent the request. */
struct report {
    struct ration_output *text; /* NULL: nobody */
    enum ration_log_level level;
    size_t line_count;
    size_t lost_count; /* found no room */
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

/* The end of what is handed on: how many lines are missing, and the end of a string. */
static void end_report(struct report *report, struct ration_output *text)
{
    char line[80] = "";

    if (report->lost_count > 0)
        snprintf(line, sizeof(line), "\nand %zu lines more, which are in the log",
                 report->lost_count);
    text->bytes_max += sizeof(line);
    ration_output_append(text, line, strlen(line) + 1);
}

static void report_change(void *context, enum ration_gate_change change, const char *name)
{
    char line[RATION_LIMIT_NAME_MAX + 64];

    snprintf(line, sizeof(line), "limit %s %s", name, ration_gate_change_name(change));
    report_line(context, line);
}

static void report_setting(void *context, const char *name)
{
    char line[128];

    snprintf(line, sizeof(line), "setting %s has changed; it needs a restart", name);
    report_line(context, line);
}

/* Remembers the hash of the policy's file as it is now. True: it differs from the one before, or none was known. */
static bool is_other_text(struct ration_reloader *reloader)
{
    const char *path = reloader->given->policy_path;
    FILE *file = path != NULL ? fopen(path, "re") : NULL;
    char *text = file != NULL ? malloc(RATION_POLICY_BYTES_MAX) : NULL;
    bool is_other = path != NULL; /* one that cannot be read may be another */

    if (text != NULL) {
        setvbuf(file, NULL, _IONBF, 0); /* a buffer of its own would keep what it read */
        size_t size = fread(text, 1, RATION_POLICY_BYTES_MAX, file);

        is_other = !ration_secret_is(&reloader->text, text, size);
        (void)ration_secret_set(&reloader->text, text, size);
        explicit_bzero(text, size);
    }
    free(text);
    if (file != NULL)
        fclose(file);
    return is_other;
}

/* Puts a policy in place that was read and is valid. Takes the policy over. */
static bool put_in_place(struct ration_reloader *reloader, ration_policy *policy,
                         struct ration_settings *settings, struct report *report)
{
    struct ration_service *service = reloader->service;
    struct ration_error error = {.message = ""};
    bool is_other;
    ration_status status = ration_gate_reload(service->gate, policy, report_change, report, &error);

    if (status != RATION_OK) {
        report->level = RATION_LOG_ERROR;
        report_line(report, error.message[0] != '\0' ? error.message : ration_status_text(status));
        ration_policy_free(policy);
        return false;
    }
    report->level = RATION_LOG_WARNING;
    (void)ration_settings_hide_secrets(settings); /* those in force are hidden too */
    ration_settings_compare(service->settings, settings, report_setting, report);
    report->level = RATION_LOG_INFO;
    is_other = is_other_text(reloader);
    if (report->line_count == 0)
        report_line(report, is_other
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
    is_done = put_in_place(reloader, policy, &settings, report);
    ration_settings_done(&settings);
    return is_done;
}

/* text: NULL, or for who waits. */
static bool reload(struct ration_reloader *reloader, struct ration_output *text)
{
    struct ration_service *service = reloader->service;
    struct report report = {.text = text};
    bool is_done = reload_and_report(reloader, &report);

    if (is_done) {
        ration_log_bounded(&outcome_lines, RATION_LOG_INFO, NULL, 0, "reloaded the policy");
    } else {
        __atomic_add_fetch(&service->failed_reloads, 1, __ATOMIC_RELAXED);
        ration_log_bounded(&outcome_lines, RATION_LOG_ERROR, NULL, 0,
                           "the policy was not reloaded; the one before stays in force");
    }
    if (text != NULL)
        end_report(&report, text);
    return is_done;
}

/* Who waits ----------------------------------------------------------------------------------- */

static void free_reload(struct ration_reload *wait)
{
    ration_output_done(&wait->text);
    free(wait);
}

/* On the loop of the connection. */
static void finish(struct ration_loop *loop, void *argument)
{
    struct ration_reload *wait = argument;
    struct ration_reload_result result = {
        .is_done = wait->is_done,
        .text = wait->text.is_failed ? "there is no memory to say it here: see the log"
                                     : wait->text.bytes,
    };

    (void)loop;
    if (wait->connection != NULL) {
        *wait->place = NULL;
        wait->answer(wait->connection, &result);
    }
    free_reload(wait);
}

void ration_reload_forget(struct ration_reload *wait)
{
    if (wait != NULL)
        wait->connection = NULL;
}

/* The thread ---------------------------------------------------------------------------------- */

/* The next who waits, or NULL; with the lock. */
static struct ration_reload *take_first(struct ration_reloader *reloader)
{
    struct ration_reload *wait = reloader->first;

    if (wait != NULL) {
        reloader->first = wait->next;
        if (reloader->first == NULL)
            reloader->last = &reloader->first;
    }
    return wait;
}

/* For one who waits, or for a signal. */
static void serve(struct ration_reloader *reloader, struct ration_reload *wait)
{
    if (wait == NULL) {
        ration_notify("RELOADING=1");
        reload(reloader, NULL);
        ration_notify("READY=1");
        return;
    }
    switch (wait->task) {
    case RATION_RELOADER_RELOAD:
        wait->is_done = reload(reloader, &wait->text);
        break;
    case RATION_RELOADER_CLEAR_INLINE:
        wait->is_done = ration_gate_clear_inline(reloader->service->gate) == RATION_OK;
        break;
    }
    wait->message = (struct ration_loop_message){.function = finish, .argument = wait};
    if (!ration_loop_post(wait->loop, &wait->message))
        free_reload(wait); /* the loop has ended, and with it the connection */
}

static void *run(void *argument)
{
    struct ration_reloader *reloader = argument;

    pthread_mutex_lock(&reloader->lock);
    while (!reloader->is_over && (reloader->first != NULL || reloader->is_asked)) {
        struct ration_reload *wait = take_first(reloader);

        if (wait == NULL)
            reloader->is_asked = false;
        pthread_mutex_unlock(&reloader->lock);
        serve(reloader, wait);
        pthread_mutex_lock(&reloader->lock);
    }
    reloader->is_running = false;
    pthread_mutex_unlock(&reloader->lock);
    return NULL;
}

/*
 * Sees to it that the thread runs, with the lock. It is there only while there is something to do: a
 * server of one loop then has one thread, for which every system call costs less.
 */
static bool begin_thread(struct ration_reloader *reloader)
{
    if (reloader->is_running)
        return true;
    if (reloader->has_thread)
        pthread_join(reloader->thread, NULL); /* it needs nothing more than to end */
    reloader->has_thread = reloader->is_running =
        pthread_create(&reloader->thread, NULL, run, reloader) == 0;
    return reloader->is_running;
}

bool ration_reloader_serve(struct ration_reloader *reloader, enum ration_reloader_task task,
                           struct ration_connection *connection, ration_reload_answer *answer,
                           struct ration_reload **place)
{
    struct ration_reload *wait = malloc(sizeof(*wait));
    bool is_begun;

    if (wait == NULL)
        return false;
    *wait = (struct ration_reload){
        .task = task,
        .loop = ration_connection_loop(connection),
        .connection = connection,
        .place = place,
        .answer = answer,
    };
    ration_output_init(&wait->text, REPORT_BYTES_MAX);
    pthread_mutex_lock(&reloader->lock);
    is_begun = begin_thread(reloader);
    if (is_begun) {
        *place = wait;
        ration_connection_hold(connection);
        *reloader->last = wait;
        reloader->last = &wait->next;
    }
    pthread_mutex_unlock(&reloader->lock);
    if (!is_begun)
        free_reload(wait);
    return is_begun;
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
    (void)is_other_text(reloader);
    pthread_mutex_init(&reloader->lock, NULL);
    service->reloader = reloader;
    *out_reloader = reloader;
    return RATION_OK;
}

void ration_reloader_ask(struct ration_reloader *reloader)
{
    pthread_mutex_lock(&reloader->lock);
    reloader->is_asked = true;
    if (!begin_thread(reloader)) {
        reloader->is_asked = false;
        __atomic_add_fetch(&reloader->service->failed_reloads, 1, __ATOMIC_RELAXED);
        ration_log_bounded(&outcome_lines, RATION_LOG_ERROR, NULL, 0,
                           "the policy was not reloaded: no thread can be started; the one before "
                           "stays in force. Send SIGHUP again when memory or threads are free");
    }
    pthread_mutex_unlock(&reloader->lock);
}

void ration_reloader_free(struct ration_reloader *reloader)
{
    if (reloader == NULL)
        return;
    pthread_mutex_lock(&reloader->lock);
    reloader->is_over = true;
    pthread_mutex_unlock(&reloader->lock);
    if (reloader->has_thread)
        pthread_join(reloader->thread, NULL);
    for (struct ration_reload *wait; (wait = take_first(reloader)) != NULL;)
        free_reload(wait);
    ration_log_bound_report(&change_lines);
    ration_log_bound_report(&outcome_lines);
    pthread_mutex_destroy(&reloader->lock);
    free(reloader);
}
