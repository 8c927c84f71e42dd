/*
 * resp_multi: requests that MULTI queues and EXEC serves together.
 *
 * Some Redis clients send pipelines as MULTI by default. ration decides the requests of one pipeline together
 * anyway, and each request separately: EXEC is served in steps, between which the loop serves
 * other clients. Its replies come in order in one array; requests of other clients may be served between its
 * requests; nothing is undone if one of them fails.
 */
#include <stdio.h>

#include "server/resp/resp_worker.h"

#define QUEUE_BYTES_MAX ((size_t)1 << 20) /* of all queued requests of one MULTI */

/* Requests served in one step of EXEC. */
#define EXEC_STEP_REQUESTS 1024

/* Releases a queue, and the connection memory accounted for it. */
static void release_queue(struct ration_connection *connection, struct ration_output *queue)
{
    struct ration_resp_session *session = ration_connection_state(connection);

    ration_output_done(queue);
    (void)ration_buffer_account(connection, &session->queue_bytes, 0);
}

void ration_resp_session_leave_multi(struct ration_connection *connection)
{
    struct ration_resp_session *session = ration_connection_state(connection);

    if (!session->is_queuing)
        return;
    ration_connection_set_transaction(connection, false);
    session->is_queuing = false;
    session->multi_aborted = false;
    session->queued_count = 0;
    release_queue(connection, &session->queue);
}

void ration_resp_multi(struct ration_resp_worker *worker)
{
    struct ration_resp_session *session = worker->session;

    if (session->is_queuing) {
        ration_resp_error(worker, "ERR MULTI calls can not be nested");
        return;
    }
    session->is_queuing = true;
    ration_connection_set_transaction(worker->connection, true);
    ration_output_init(&session->queue, QUEUE_BYTES_MAX);
    ration_resp_write_simple(worker->output, "OK");
}

void ration_resp_discard(struct ration_resp_worker *worker)
{
    if (!worker->session->is_queuing) {
        ration_resp_error(worker, "ERR DISCARD without MULTI");
        return;
    }
    ration_resp_session_leave_multi(worker->connection);
    ration_resp_write_simple(worker->output, "OK");
}

/* Copies a request to the queue, unless the MULTI is aborted. False: no memory, and the request is answered. */
static bool queue_request(struct ration_resp_worker *worker, struct ration_resp_args args)
{
    struct ration_resp_session *session = worker->session;
    bool fits;

    if (session->multi_aborted)
        return true;
    ration_resp_write_array(&session->queue, args.count);
    for (size_t i = 0; i < args.count; i++)
        ration_resp_write_bulk(&session->queue, args.items[i].bytes, args.items[i].size);
    session->queued_count++;
    fits = !session->queue.is_failed;
    if (fits && ration_buffer_account(worker->connection, &session->queue_bytes,
                                      session->queue.allocated_bytes))
        return true;
    release_queue(worker->connection, &session->queue);
    ration_resp_error(worker, fits ? "ERR the buffers of all connections exceed "
                                     "max-connection-memory; try again later"
                                   : "ERR the requests of one MULTI are at most 1048576 bytes");
    return false;
}

void ration_resp_queue(struct ration_resp_worker *worker, const struct ration_command *command)
{
    struct ration_resp_session *session = worker->session;
    struct ration_resp_args args = ration_resp_args_of(worker);

    if (!ration_resp_flush_batch(worker))
        return;
    if (command != NULL && command->id == RATION_COMMAND_RELOAD) {
        ration_resp_error(worker, "ERR RATION.RELOAD cannot be queued by MULTI");
    } else if (command != NULL && !ration_resp_permits(worker, command)) {
        /* the request is answered, and EXEC will fail */
    } else if (command != NULL && ration_commands_fits(command, args.count)) {
        if (ration_resp_subcommand_fits(worker, command->id) && queue_request(worker, args)) {
            ration_resp_write_simple(worker->output, "QUEUED");
            return;
        }
    } else if (command != NULL) {
        ration_service_add(worker->loop_worker, RATION_SERVICE_RESP_ERRORS, 1);
        ration_commands_write_arity(worker->output, command->name);
    } else {
        ration_service_add(worker->loop_worker, RATION_SERVICE_RESP_ERRORS, 1);
        ration_commands_write_unknown(worker->output, args.items, args.count);
    }
    session->multi_aborted = true;
}

/* Yields the loop and the worker to other connections; first decides the batch, which the worker holds. */
static void yield_exec(struct ration_resp_worker *worker)
{
    if (!ration_resp_flush_batch(worker))
        return; /* the connection already waits for Redis, or yields */
    ration_connection_yield(worker->connection);
    worker->is_waiting = true;
}

/* Serves the queue. False: it continues in a later iteration of the loop, or when Redis has replied. */
static bool serve_queue(struct ration_resp_worker *worker)
{
    struct ration_resp_session *session = worker->session;
    struct ration_output *queue = &session->exec;
    unsigned served = 0;

    while (session->exec_done < queue->size && !worker->is_over &&
           ration_resp_read(&worker->service->settings->resp_limits,
                            queue->bytes + session->exec_done, queue->size - session->exec_done,
                            &worker->request) == RATION_RESP_REQUEST) {
        size_t used = worker->request.consumed_bytes;

        worker->request_start = queue->bytes + session->exec_done;
        ration_resp_serve(worker);
        if (worker->is_waiting)
            return false;
        session->exec_done += used;
        if (ration_connection_is_paused(
                worker
                    ->connection)) { /* by an admin operation, or by a check whose reply is suppressed */
            worker->is_waiting = true;
            return false;
        }
        if (session->exec_done < queue->size &&
            (++served == EXEC_STEP_REQUESTS || ration_connection_is_full(worker->connection))) {
            yield_exec(worker);
            return false;
        }
    }
    return true;
}

/* Moves back to the first postponed check, which is read again from the queue. False: none was postponed. */
static bool rewind_to_postponed(struct ration_resp_worker *worker)
{
    struct ration_resp_session *session = worker->session;

    if (worker->postponed == NULL)
        return false;
    session->exec_done = (size_t)(worker->postponed - session->exec.bytes);
    worker->postponed = NULL;
    return true;
}

void ration_resp_abort_exec(struct ration_resp_worker *worker, const char *reason)
{
    char error[RATION_RESP_ERROR_BYTES_MAX];

    snprintf(error, sizeof(error), "EXECABORT Transaction discarded because of: %s", reason);
    ration_resp_session_leave_multi(worker->connection);
    ration_resp_error(worker, error);
}

/* Moves the queue out of the session first: a queued RESET would release it. */
void ration_resp_exec(struct ration_resp_worker *worker)
{
    struct ration_resp_session *session = worker->session;

    if (!session->is_queuing && !session->is_executing) {
        ration_resp_error(worker, "ERR EXEC without MULTI");
        return;
    }
    if (session->multi_aborted) {
        ration_resp_session_leave_multi(worker->connection);
        ration_resp_error(worker, "EXECABORT Transaction discarded because of previous errors.");
        return;
    }
    if (!session->is_executing) {
        if (session->reply_mode == RATION_REPLY_ON)
            ration_resp_write_array(worker->output, session->queued_count);
        session->exec = session->queue;
        session->exec_done = 0;
        session->is_executing = true;
        session->is_queuing = false;
        session->queued_count = 0;
        ration_connection_set_transaction(worker->connection, false);
    }
    if (!serve_queue(worker)) {
        (void)rewind_to_postponed(worker);
        return;
    }
    if (!ration_resp_flush_batch(worker) &&
        rewind_to_postponed(worker)) /* the batch points into the queue */
        return;
    worker->is_waiting =
        false; /* any batch still at Redis holds the last requests of the queue: EXEC is consumed */
    session->is_executing = false;
    if (session->is_skip_after_exec && session->reply_mode != RATION_REPLY_OFF)
        session->reply_mode = RATION_REPLY_SKIP;
    session->is_skip_after_exec = false;
    worker->suppresses_reply = true;
    release_queue(worker->connection, &session->exec);
}
