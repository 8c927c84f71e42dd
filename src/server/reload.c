#include "server/reload.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/log.h"
#include "server/notify.h"
#include "server/policy_source.h"

struct ration_reloader {
    struct ration_service *service;
    const struct ration_settings *given;
    pthread_mutex_t reload_lock; /* one reload at a time */
    char *text;                  /* of the policy in force, as its file had it; NULL: not known */
    size_t text_size;

    pthread_t thread;
    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t asked;
    bool is_asked;
    bool is_over;
};

/* Lines that are logged and also handed to whoever asked. */
struct report {
    char *text;
    size_t size;
    size_t used;
    enum ration_log_level level;
    size_t line_count;
};

/* Lines are apart by line ends; what has no room is in the log. */
static void report_line(void *context, const char *line)
{
    struct report *report = context;
    size_t size = strlen(line);
    bool is_first = report->used == 0;

    ration_log(report->level, "reload: %s", line);
    report->line_count++;
    if (report->used + !is_first + size + 1 > report->size)
        return;
    if (!is_first)
        report->text[report->used++] = '\n';
    memcpy(report->text + report->used, line, size + 1);
    report->used += size;
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

/* The policy's file as it is now; NULL if there is none. Release: free(). */
static char *read_text(const struct ration_settings *given, size_t *out_size)
{
    FILE *file = given->policy_path != NULL ? fopen(given->policy_path, "re") : NULL;
    char *text = file != NULL ? malloc(RATION_POLICY_BYTES_MAX) : NULL;

    if (text != NULL)
        *out_size = fread(text, 1, RATION_POLICY_BYTES_MAX, file);
    if (file != NULL)
        fclose(file);
    return text;
}

/* Remembers the text. Whether it is another than before. */
static bool is_other_text(struct ration_reloader *reloader)
{
    size_t size = 0;
    char *text = read_text(reloader->given, &size);
    bool is_other = text != NULL && (reloader->text == NULL || size != reloader->text_size ||
                                     memcmp(text, reloader->text, size) != 0);

    if (text != NULL) {
        free(reloader->text);
        reloader->text = text;
        reloader->text_size = size;
    }
    return is_other;
}

/* Puts a policy in place that was read and is valid. Takes the policy over. */
static bool put_in_place(struct ration_reloader *reloader, ration_policy *policy,
                         const struct ration_settings *settings, struct report *report)
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

static bool reload_locked(struct ration_reloader *reloader, struct report *report)
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

static bool reload(struct ration_service *service, char *text, size_t text_size)
{
    struct ration_reloader *reloader = service->reload_context;
    struct report report = {.text = text, .size = text_size};
    bool is_done;

    if (text_size > 0)
        text[0] = '\0';
    pthread_mutex_lock(&reloader->reload_lock);
    is_done = reload_locked(reloader, &report);
    pthread_mutex_unlock(&reloader->reload_lock);
    if (is_done) {
        ration_log(RATION_LOG_INFO, "reloaded the policy");
    } else {
        __atomic_add_fetch(&service->failed_reloads, 1, __ATOMIC_RELAXED);
        ration_log(RATION_LOG_ERROR, "the policy was not reloaded; the one before stays in force");
    }
    return is_done;
}

/* The thread ---------------------------------------------------------------------------------- */

static void *run(void *argument)
{
    struct ration_reloader *reloader = argument;

    pthread_mutex_lock(&reloader->lock);
    while (!reloader->is_over) {
        if (!reloader->is_asked) {
            pthread_cond_wait(&reloader->asked, &reloader->lock);
            continue;
        }
        reloader->is_asked = false;
        pthread_mutex_unlock(&reloader->lock);
        ration_notify("RELOADING=1");
        reload(reloader->service, NULL, 0);
        ration_notify("READY=1");
        pthread_mutex_lock(&reloader->lock);
    }
    pthread_mutex_unlock(&reloader->lock);
    return NULL;
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
    reloader->text = read_text(given, &reloader->text_size);
    pthread_mutex_init(&reloader->reload_lock, NULL);
    pthread_mutex_init(&reloader->lock, NULL);
    pthread_cond_init(&reloader->asked, NULL);
    if (pthread_create(&reloader->thread, NULL, run, reloader) != 0) {
        free(reloader->text);
        free(reloader);
        return RATION_ENOMEM;
    }
    service->reload = reload;
    service->reload_context = reloader;
    *out_reloader = reloader;
    return RATION_OK;
}

void ration_reloader_ask(struct ration_reloader *reloader)
{
    pthread_mutex_lock(&reloader->lock);
    reloader->is_asked = true;
    pthread_cond_signal(&reloader->asked);
    pthread_mutex_unlock(&reloader->lock);
}

void ration_reloader_free(struct ration_reloader *reloader)
{
    if (reloader == NULL)
        return;
    pthread_mutex_lock(&reloader->lock);
    reloader->is_over = true;
    pthread_cond_signal(&reloader->asked);
    pthread_mutex_unlock(&reloader->lock);
    pthread_join(reloader->thread, NULL);
    pthread_cond_destroy(&reloader->asked);
    pthread_mutex_destroy(&reloader->lock);
    pthread_mutex_destroy(&reloader->reload_lock);
    free(reloader->text);
    free(reloader);
}
