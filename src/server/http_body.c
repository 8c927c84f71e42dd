/*
 * http_body: a body of JSON, read where it keeps nobody waiting.
 *
 * jansson reads about 20 MB a second and cannot stop in between: a body of 1 MB would keep a loop for
 * 60 ms. Large ones are copied and read on a thread beside the loops, and large trees are released there.
 */
#include <stdlib.h>
#include <string.h>

#include "server/http_desk.h"

#define BESIDE_BYTES  16384 /* a body that is larger is read beside the loop */
#define BESIDE_CHECKS 64    /* checks that are more are released there */
#define TREE_FACTOR   16    /* about what a tree takes, in bytes for each byte of the body */

struct ration_http_body {
    struct ration_connection *connection; /* NULL: it is gone */
    ration_http_then *then;
    enum ration_check_kind kind;
    bool is_read;
    ration_checks *checks; /* if so */
    struct ration_check_error error;
    size_t size;
    char bytes[];
};

static void nothing(void *unused)
{
    (void)unused;
}

static void free_checks(void *checks)
{
    ration_checks_free(checks);
}

void ration_http_release_checks(struct ration_loop *loop, ration_checks *checks)
{
    if (ration_checks_count(checks) <= BESIDE_CHECKS ||
        !ration_loop_run_beside(loop, free_checks, nothing, checks))
        ration_checks_free(checks);
}

void ration_http_forget_body(struct ration_http_session *session)
{
    if (session->body != NULL)
        session->body->connection = NULL;
    session->body = NULL;
}

static void read_beside(void *argument)
{
    struct ration_http_body *body = argument;

    body->is_read =
        ration_checks_read(body->kind, body->bytes, body->size, &body->checks, &body->error);
}

/* On the loop, as inside receive(). */
static void serve_body(struct ration_connection *connection)
{
    struct ration_http_session *session = ration_connection_state(connection);
    struct ration_http_body *body = session->body;
    struct ration_http_desk *desk = ration_http_desk_resume(connection);
    bool is_last = !desk->request.keep_alive;

    session->body = NULL;
    if (body->is_read)
        body->then(desk, body->checks);
    else
        ration_http_desk_problem(desk, 400, body->error.message, body->error.pointer);
    if (ration_connection_is_held(connection))
        return;
    (void)ration_connection_account(connection, &session->body_bytes, 0);
    if (is_last)
        ration_connection_close(connection);
}

static void end_beside(void *argument)
{
    struct ration_http_body *body = argument;

    if (body->connection != NULL)
        ration_connection_run(body->connection, serve_body);
    else if (body->is_read)
        ration_checks_free(body->checks);
    free(body);
}

/* False: no memory, or no more for this connection; nothing is held. */
static bool read_later(struct ration_http_desk *desk, enum ration_check_kind kind,
                       ration_http_then *then)
{
    struct ration_http_session *session = ration_connection_state(desk->connection);
    const struct ration_key *from = &desk->request.body;
    struct ration_http_body *body;

    if (!ration_connection_account(desk->connection, &session->body_bytes,
                                   from->size * TREE_FACTOR))
        return false;
    body = malloc(sizeof(*body) + from->size);
    if (body == NULL)
        return false; /* what is accounted goes with the next request, or with the connection */
    *body = (struct ration_http_body){
        .connection = desk->connection, .then = then, .kind = kind, .size = from->size};
    memcpy(body->bytes, from->bytes, from->size);
    if (!ration_loop_run_beside(ration_connection_loop(desk->connection), read_beside, end_beside,
                                body)) {
        free(body);
        return false;
    }
    session->body = body;
    ration_connection_hold(desk->connection);
    return true;
}

void ration_http_read_body(struct ration_http_desk *desk, enum ration_check_kind kind,
                           ration_http_then *then)
{
    const struct ration_key *body = &desk->request.body;
    struct ration_check_error error;
    ration_checks *checks;

    if (body->size > BESIDE_BYTES) {
        if (!read_later(desk, kind, then))
            ration_http_desk_problem(desk, 503,
                                     "The server is short of memory, or the buffers of all "
                                     "connections exceed connection-memory-max; try again later.",
                                     NULL);
    } else if (ration_checks_read(kind, body->bytes, body->size, &checks, &error)) {
        then(desk, checks);
    } else {
        ration_http_desk_problem(desk, 400, error.message, error.pointer);
    }
}
