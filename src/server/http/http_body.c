/*
 * http_body: parses a JSON body where it does not block the loop.
 *
 * jansson parses about 20 MB per second and cannot be interrupted: a body of 1 MB would block a loop for
 * 60 ms. Large bodies are copied and parsed on a helper thread, and large JSON trees are freed there.
 */
#include <stdlib.h>
#include <string.h>

#include "server/http/http_worker.h"

#define HELPER_BYTES  16384 /* a larger body is parsed on a helper thread */
#define HELPER_CHECKS 64    /* more checks than these are freed on a helper thread */
#define TREE_FACTOR   16    /* approximate bytes of JSON tree for each byte of the body */

struct ration_http_body {
    struct ration_connection *connection; /* NULL: it has closed */
    ration_http_checks_func *on_checks;
    enum ration_check_kind kind;
    bool is_read;
    ration_checks *checks; /* if is_read */
    struct ration_check_error error;
    size_t size;
    char bytes[];
};

static void do_nothing(void *unused)
{
    (void)unused;
}

static void free_checks(void *checks)
{
    ration_check_json_free(checks);
}

void ration_http_release_checks(struct ration_loop *loop, ration_checks *checks)
{
    if (ration_check_json_count(checks) <= HELPER_CHECKS ||
        !ration_loop_run_beside(loop, free_checks, do_nothing, checks))
        ration_check_json_free(checks);
}

void ration_http_forget_body(struct ration_http_session *session)
{
    if (session->body != NULL)
        session->body->connection = NULL;
    session->body = NULL;
}

static void parse_on_helper(void *argument)
{
    struct ration_http_body *body = argument;

    body->is_read =
        ration_check_json_read(body->kind, body->bytes, body->size, &body->checks, &body->error);
}

/* Runs on the loop thread, as inside receive(). */
static void serve_body(struct ration_connection *connection)
{
    struct ration_http_session *session = ration_connection_state(connection);
    struct ration_http_body *body = session->body;
    struct ration_http_worker *worker = ration_http_worker_resume(connection);
    bool is_last = !worker->request.keep_alive;

    session->body = NULL;
    if (body->is_read)
        body->on_checks(worker, body->checks);
    else
        ration_http_worker_problem(worker, 400, body->error.message, body->error.pointer);
    if (ration_connection_is_paused(connection))
        return;
    (void)ration_buffer_account(connection, &session->body_bytes, 0);
    if (is_last)
        ration_connection_close(connection);
}

static void end_parse(void *argument)
{
    struct ration_http_body *body = argument;

    if (body->connection != NULL)
        ration_connection_run(body->connection, serve_body);
    else if (body->is_read)
        ration_check_json_free(body->checks);
    free(body);
}

/* False: no memory, or max-connection-memory is reached; the connection is not paused. */
static bool start_parse(struct ration_http_worker *worker, enum ration_check_kind kind,
                        ration_http_checks_func *on_checks)
{
    struct ration_http_session *session = ration_connection_state(worker->connection);
    const struct ration_key *source = &worker->request.body;
    struct ration_http_body *body;

    if (!ration_buffer_account(worker->connection, &session->body_bytes,
                               source->size * TREE_FACTOR))
        return false;
    body = malloc(sizeof(*body) + source->size);
    if (body == NULL)
        return false; /* the accounted bytes are released with the next request, or with the connection */
    *body = (struct ration_http_body){.connection = worker->connection,
                                      .on_checks = on_checks,
                                      .kind = kind,
                                      .size = source->size};
    memcpy(body->bytes, source->bytes, source->size);
    if (!ration_loop_run_beside(ration_connection_loop(worker->connection), parse_on_helper,
                                end_parse, body)) {
        free(body);
        return false;
    }
    session->body = body;
    ration_connection_pause(worker->connection);
    return true;
}

void ration_http_read_body(struct ration_http_worker *worker, enum ration_check_kind kind,
                           ration_http_checks_func *on_checks)
{
    const struct ration_key *body = &worker->request.body;
    struct ration_check_error error;
    ration_checks *checks;

    if (body->size > HELPER_BYTES) {
        if (!start_parse(worker, kind, on_checks))
            ration_http_worker_problem(worker, 503,
                                       "The server is short of memory, or the buffers of all "
                                       "connections exceed max-connection-memory; try again later.",
                                       NULL);
    } else if (ration_check_json_read(kind, body->bytes, body->size, &checks, &error)) {
        on_checks(worker, checks);
    } else {
        ration_http_worker_problem(worker, 400, error.message, error.pointer);
    }
}
