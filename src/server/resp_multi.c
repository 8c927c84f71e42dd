/*
 * resp_multi: requests that are kept back by MULTI and served together by EXEC.
 *
 * Clients of Redis send pipelines so by default. Here requests of one pipeline are decided together
 * anyway, and each request is decided by itself: EXEC is served in steps, between which the loop serves
 * other clients. Its replies come in order in one array; requests of others may come between its
 * requests; nothing is undone if one of them fails.
 */
#include <stdio.h>

#include "server/resp_session.h"

#define QUEUE_BYTES_MAX ((size_t)1 << 20) /* of all requests of one MULTI */

/* Served in one step of EXEC; as many as a read brings of them. */
#define EXEC_STEP_REQUESTS 1024

/* Releases a queue, and what was accounted for it. */
static void release_queue(struct ration_connection *connection, struct ration_output *queue)
{
    struct ration_session *session = ration_connection_state(connection);

    ration_output_done(queue);
    (void)ration_connection_account(connection, &session->queue_bytes, 0);
}

void ration_session_leave_multi(struct ration_connection *connection)
{
    struct ration_session *session = ration_connection_state(connection);

    if (!session->is_queuing)
        return;
    ration_connection_set_transaction(connection, false);
    session->is_queuing = false;
    session->is_spoiled = false;
    session->queued_count = 0;
    release_queue(connection, &session->queue);
}

void ration_desk_multi(struct ration_resp_desk *desk)
{
    struct ration_session *session = desk->session;

    if (session->is_queuing) {
        ration_desk_error(desk, "ERR MULTI calls can not be nested");
        return;
    }
    session->is_queuing = true;
    ration_connection_set_transaction(desk->connection, true);
    ration_output_init(&session->queue, QUEUE_BYTES_MAX);
    ration_resp_write_simple(desk->output, "OK");
}

void ration_desk_discard(struct ration_resp_desk *desk)
{
    if (!desk->session->is_queuing) {
        ration_desk_error(desk, "ERR DISCARD without MULTI");
        return;
    }
    ration_session_leave_multi(desk->connection);
    ration_resp_write_simple(desk->output, "OK");
}

/* False: there is no room for it, and that is answered. What will not be served is not kept. */
static bool keep(struct ration_resp_desk *desk, struct ration_words words)
{
    struct ration_session *session = desk->session;
    bool is_small;

    if (session->is_spoiled)
        return true;
    ration_resp_write_array(&session->queue, words.count);
    for (size_t i = 0; i < words.count; i++)
        ration_resp_write_bulk(&session->queue, words.items[i].bytes, words.items[i].size);
    session->queued_count++;
    is_small = !session->queue.is_failed;
    if (is_small && ration_connection_account(desk->connection, &session->queue_bytes,
                                              session->queue.allocated_bytes))
        return true;
    release_queue(desk->connection, &session->queue);
    ration_desk_error(desk, is_small ? "ERR the buffers of all connections exceed "
                                       "connection-memory-max; try again later"
                                     : "ERR the requests of one MULTI are at most 1048576 bytes");
    return false;
}

void ration_desk_queue(struct ration_resp_desk *desk, const struct ration_command *command)
{
    struct ration_session *session = desk->session;
    struct ration_words words = ration_desk_words(desk);

    if (!ration_desk_flush(desk))
        return;
    if (command != NULL && command->id == RATION_COMMAND_RELOAD) {
        ration_desk_error(desk, "ERR RATION.RELOAD cannot be kept back by MULTI");
    } else if (command != NULL && !ration_desk_permits(desk, command)) {
        /* it is answered, and EXEC will be refused */
    } else if (command != NULL && ration_commands_fits(command, words.count)) {
        if (ration_desk_subcommand_fits(desk, command->id) && keep(desk, words)) {
            ration_resp_write_simple(desk->output, "QUEUED");
            return;
        }
    } else if (command != NULL) {
        ration_service_add(desk->part, RATION_SERVICE_RESP_ERRORS, 1);
        ration_commands_write_arity(desk->output, command->name);
    } else {
        ration_service_add(desk->part, RATION_SERVICE_RESP_ERRORS, 1);
        ration_commands_write_unknown(desk->output, words.items, words.count);
    }
    session->is_spoiled = true;
}

/* Lets others have the loop, and the desk: what was decided is written. */
static void pause_execution(struct ration_resp_desk *desk)
{
    if (!ration_desk_flush(desk))
        return; /* it waits for Redis, which is a pause as well */
    ration_connection_yield(desk->connection);
    desk->is_waiting = true;
}

/* Serves what is queued; false: it goes on in a later turn, or when answers have come from Redis. */
static bool execute(struct ration_resp_desk *desk)
{
    struct ration_session *session = desk->session;
    struct ration_output *queue = &session->exec;
    unsigned served = 0;

    while (session->exec_done < queue->size && !desk->is_over &&
           ration_resp_read(&desk->service->settings->resp_limits,
                            queue->bytes + session->exec_done, queue->size - session->exec_done,
                            &desk->request) == RATION_RESP_REQUEST) {
        size_t used = desk->request.consumed_bytes;

        desk->request_start = queue->bytes + session->exec_done;
        ration_desk_serve(desk);
        if (desk->is_waiting)
            return false;
        session->exec_done += used;
        if (ration_connection_is_held(desk->connection)) { /* by an edit, or a silent check */
            desk->is_waiting = true;
            return false;
        }
        if (session->exec_done < queue->size &&
            (++served == EXEC_STEP_REQUESTS || ration_connection_is_full(desk->connection))) {
            pause_execution(desk);
            return false;
        }
    }
    return true;
}

/* Checks that were postponed are read again from the queue. False: none were. */
static bool return_postponed(struct ration_resp_desk *desk)
{
    struct ration_session *session = desk->session;

    if (desk->postponed == NULL)
        return false;
    session->exec_done = (size_t)(desk->postponed - session->exec.bytes);
    desk->postponed = NULL;
    return true;
}

void ration_desk_abort_exec(struct ration_resp_desk *desk, const char *reason)
{
    char error[RATION_RESP_ERROR_BYTES_MAX];

    snprintf(error, sizeof(error), "EXECABORT Transaction discarded because of: %s", reason);
    ration_session_leave_multi(desk->connection);
    ration_desk_error(desk, error);
}

/* The queue is taken out of the session first: what is served may be RESET. */
void ration_desk_exec(struct ration_resp_desk *desk)
{
    struct ration_session *session = desk->session;

    if (!session->is_queuing && !session->is_executing) {
        ration_desk_error(desk, "ERR EXEC without MULTI");
        return;
    }
    if (session->is_spoiled) {
        ration_session_leave_multi(desk->connection);
        ration_desk_error(desk, "EXECABORT Transaction discarded because of previous errors.");
        return;
    }
    if (!session->is_executing) {
        if (session->reply_mode == RATION_REPLY_ON)
            ration_resp_write_array(desk->output, session->queued_count);
        session->exec = session->queue;
        session->exec_done = 0;
        session->is_executing = true;
        session->is_queuing = false;
        session->queued_count = 0;
        ration_connection_set_transaction(desk->connection, false);
    }
    if (!execute(desk)) {
        (void)return_postponed(desk);
        return;
    }
    if (!ration_desk_flush(desk) && return_postponed(desk)) /* what waits points into the queue */
        return;
    desk->is_waiting = false; /* if it waits on, then for answers to the last of the queue */
    session->is_executing = false;
    if (session->is_skip_after_exec && session->reply_mode != RATION_REPLY_OFF)
        session->reply_mode = RATION_REPLY_SKIP;
    session->is_skip_after_exec = false;
    desk->is_hushed = true;
    release_queue(desk->connection, &session->exec);
}
