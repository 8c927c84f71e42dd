/*
 * reloader: replaces the policy of a running server. Also runs the other slow task, clearing inline limits.
 *
 * A policy is replaced by a complete, valid one or not at all. A loop thread must not wait for such a task, so a
 * separate thread runs the tasks, one at a time; the connection that requested one is paused until the reply.
 */
#ifndef RATION_SERVER_OPS_RELOADER_H
#define RATION_SERVER_OPS_RELOADER_H

#include "server/ops/service.h"

struct ration_reloader;
struct ration_reload;

/*
 * Creates a reloader and stores it in service->reloader. given are the settings of the command line; both are
 * borrowed. *out_reloader is released with ration_reloader_free().
 * Returns RATION_ENOMEM.
 */
ration_status ration_reloader_create(struct ration_service *service,
                                     const struct ration_settings *given,
                                     struct ration_reloader **out_reloader);

/* Requests a reload (SIGHUP). Any thread. Several requests before the reload begins count as one. */
void ration_reloader_request(struct ration_reloader *reloader);

/* The tasks that a connection may request. */
enum ration_reloader_task {
    RATION_RELOADER_RELOAD,
    RATION_RELOADER_CLEAR_INLINE, /* ration_engine_clear_inline(), which may visit every slot of the table */
};

/* The result of a task. */
struct ration_reload_result {
    bool is_done; /* false: nothing was changed. CLEAR_INLINE: false if the limits are in Redis */

    /* RELOAD: the changes, or the errors, as lines separated by line ends. Else NULL. */
    const char *text;
};

/* Writes the reply to ration_connection_output(connection), and resumes or closes the connection. */
typedef void ration_reload_answer(struct ration_connection *connection,
                                  const struct ration_reload_result *result);

/*
 * Queues a task and pauses the connection; when the task is done, the connection's loop thread calls answer().
 * On the connection's loop thread. *handle, which is part of the connection's state, is not NULL until then; the
 * caller passes it to ration_reloader_forget() when the connection closes. False: no memory or no thread, and
 * the connection is not paused.
 */
bool ration_reloader_serve(struct ration_reloader *reloader, enum ration_reloader_task task,
                           struct ration_connection *connection, ration_reload_answer *answer,
                           struct ration_reload **handle);

/* Drops the reply, because the connection closes. NULL is accepted. */
void ration_reloader_forget(struct ration_reload *request);

/* Waits for the running task and drops the queued ones. NULL is accepted. */
void ration_reloader_free(struct ration_reloader *reloader);

#endif
