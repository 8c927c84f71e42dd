/*
 * reload: a new policy for a server that runs, and the other task that takes long: to clear inline limits.
 *
 * A policy is replaced whole and valid or not at all. A loop must not wait for such a task, so a thread of
 * its own does them, one at a time; the connection that requested one is held until it is answered.
 */
#ifndef RATION_SERVER_RELOAD_H
#define RATION_SERVER_RELOAD_H

#include "server/service.h"

struct ration_reloader;
struct ration_reload;

/*
 * Makes what a reload needs. given is what the command line said, and settings what the server was started
 * with; both are borrowed. *out_reloader is released with ration_reloader_free().
 * Returns RATION_ENOMEM.
 */
ration_status ration_reloader_create(struct ration_service *service,
                                     const struct ration_settings *given,
                                     struct ration_reloader **out_reloader);

/* Has the thread reload, soon. Any thread; several requests before it begins are one. */
void ration_reloader_ask(struct ration_reloader *reloader);

/* What the thread does for a connection. */
enum ration_reloader_task {
    RATION_RELOADER_RELOAD,
    RATION_RELOADER_CLEAR_INLINE, /* ration_gate_clear_inline(), which may visit every slot of the table */
};

/* The result of a task. */
struct ration_reload_result {
    bool is_done; /* false: nothing was changed; inline limits that are not cleared live in Redis */

    /* RELOAD: what changed, or what is wrong: lines, with line ends between them. Else NULL. */
    const char *text;
};

/* Writes the answer to ration_connection_output(connection), and resumes or closes it. */
typedef void ration_reload_answer(struct ration_connection *connection,
                                  const struct ration_reload_result *result);

/*
 * Has the thread do the task, behind those that were requested before; holds the connection, and when it is
 * done calls answer() on the connection's loop. On the connection's thread. *place, which lies in the state of
 * the connection, is not NULL meanwhile; give it to ration_reload_forget() when the connection
 * closes. False: no memory or no thread, and nothing is held.
 */
bool ration_reloader_serve(struct ration_reloader *reloader, enum ration_reloader_task task,
                           struct ration_connection *connection, ration_reload_answer *answer,
                           struct ration_reload **place);

/* The connection closes: nobody waits for the answer. NULL is fine. */
void ration_reload_forget(struct ration_reload *reload);

/* Waits for a task that has begun. NULL is fine. */
void ration_reloader_free(struct ration_reloader *reloader);

#endif
