/*
 * resp_service: the Redis protocol: reads requests, dispatches commands and suppresses replies.
 */
#include <stdlib.h>
#include <string.h>

#include "server/ops/credentials.h"
#include "server/ops/reloader.h"
#include "server/resp/resp_worker.h"

struct ration_resp_worker *ration_resp_worker_create(struct ration_service *service)
{
    struct ration_resp_worker *worker = calloc(1, sizeof(*worker));

    if (worker != NULL)
        worker->service = service;
    return worker;
}

void ration_resp_worker_free(struct ration_resp_worker *worker)
{
    free(worker);
}

void ration_resp_error(struct ration_resp_worker *worker, const char *text)
{
    ration_service_add(worker->loop_worker, RATION_SERVICE_RESP_ERRORS, 1);
    ration_resp_write_error(worker->output, text);
}

struct ration_walk *ration_resp_walk(struct ration_resp_worker *worker,
                                     const struct ration_walk_kind *kind)
{
    struct ration_walk *walk =
        ration_walk_create(worker->connection, worker->service, kind, &worker->session->walk);

    if (walk == NULL)
        ration_resp_error(worker, "ERR the server is short of memory");
    else
        walk->is_silent = worker->session->reply_mode != RATION_REPLY_ON;
    return walk;
}

void ration_resp_start_walk(struct ration_resp_worker *worker, const struct ration_walk_kind *kind)
{
    struct ration_walk *walk = ration_resp_walk(worker, kind);

    if (walk != NULL)
        ration_walk_start(walk);
}

void ration_resp_walk_head(struct ration_walk *walk, struct ration_output *output)
{
    (void)output;
    if (walk->is_failed && !walk->is_silent)
        ration_resp_error(ration_resp_worker_take(walk->connection),
                          "ERR the policy is reloaded too often to list it, or the reply is larger "
                          "than max-output; try again");
}

void ration_resp_walk_end(struct ration_connection *connection)
{
    ration_connection_resume(connection);
}

static void serve_ping(struct ration_resp_worker *worker)
{
    struct ration_resp_args args = ration_resp_args_of(worker);

    if (args.count > 2)
        ration_commands_write_arity(worker->output, "ping");
    else if (args.count == 2)
        ration_resp_write_bulk(worker->output, args.items[1].bytes, args.items[1].size);
    else
        ration_resp_write_simple(worker->output, "PONG");
}

static void serve_echo(struct ration_resp_worker *worker)
{
    const struct ration_key *argument = &worker->request.arguments[1];

    ration_resp_write_bulk(worker->output, argument->bytes, argument->size);
}

static void serve_quit(struct ration_resp_worker *worker)
{
    ration_resp_write_simple(worker->output, "OK");
    ration_connection_close(worker->connection);
    worker->is_over = true;
}

/* Commands that read every limit or key. One read may hold thousands of them, so the connection yields after each. */
static bool is_costly(enum ration_command_id id)
{
    return id == RATION_COMMAND_TOP || id == RATION_COMMAND_LIMITS || id == RATION_COMMAND_INFO ||
           id == RATION_COMMAND_DBSIZE || id == RATION_COMMAND_COMMAND || id == RATION_COMMAND_DEL;
}

/* Serves all commands except those that are decided in batches. */
static void dispatch_command(struct ration_resp_worker *worker, enum ration_command_id id)
{
    static void (*const handlers[RATION_COMMAND_COUNT])(struct ration_resp_worker * worker) = {
        [RATION_COMMAND_REFUND] = ration_resp_refund,
        [RATION_COMMAND_PING] = serve_ping,
        [RATION_COMMAND_RESET_KEY] = ration_resp_reset_keys,
        [RATION_COMMAND_BLOCK] = ration_resp_block,
        [RATION_COMMAND_FLUSH] = ration_resp_flush_inline,
        [RATION_COMMAND_TOP] = ration_resp_top,
        [RATION_COMMAND_LIMITS] = ration_resp_limits,
        [RATION_COMMAND_RELOAD] = ration_resp_reload,
        [RATION_COMMAND_CLOCK] = ration_resp_clock,
        [RATION_COMMAND_DEL] = ration_resp_delete,
        [RATION_COMMAND_HELLO] = ration_resp_hello,
        [RATION_COMMAND_AUTH] = ration_resp_auth,
        [RATION_COMMAND_CLIENT] = ration_resp_client,
        [RATION_COMMAND_COMMAND] = ration_resp_command,
        [RATION_COMMAND_INFO] = ration_resp_info,
        [RATION_COMMAND_CONFIG] = ration_resp_config,
        [RATION_COMMAND_SELECT] = ration_resp_select,
        [RATION_COMMAND_ECHO] = serve_echo,
        [RATION_COMMAND_RESET] = ration_resp_reset_session,
        [RATION_COMMAND_QUIT] = serve_quit,
        [RATION_COMMAND_MULTI] = ration_resp_multi,
        [RATION_COMMAND_EXEC] = ration_resp_exec,
        [RATION_COMMAND_DISCARD] = ration_resp_discard,
        [RATION_COMMAND_TIME] = ration_resp_time,
        [RATION_COMMAND_DBSIZE] = ration_resp_dbsize,
    };

    handlers[id](worker);
    if (is_costly(id))
        ration_connection_yield(worker->connection);
}

const char *ration_resp_session_user(const struct ration_resp_worker *worker)
{
    enum ration_access access = (enum ration_access)worker->session->access;

    return access == ration_credentials_without_secret(worker->service->settings,
                                                       ration_connection_peer(worker->connection))
               ? "default"
               : ration_access_text(access);
}

bool ration_resp_permits(struct ration_resp_worker *worker, const struct ration_command *command)
{
    enum ration_access access = (enum ration_access)worker->session->access;

    if (ration_access_permits(access, command->access))
        return true;
    if (access == RATION_ACCESS_OPEN && command->id == RATION_COMMAND_EXEC) {
        ration_resp_abort_exec(worker, RATION_ERROR_NO_AUTH);
        return false;
    }
    ration_service_add(worker->loop_worker, RATION_SERVICE_RESP_ERRORS, 1);
    if (access == RATION_ACCESS_OPEN)
        ration_resp_write_error(worker->output, RATION_ERROR_NO_AUTH);
    else
        ration_commands_write_no_permission(worker->output, command,
                                            ration_resp_session_user(worker),
                                            worker->service->settings->admin_secret.is_set);
    return false;
}

/* Answers the wrong number of arguments. As in Redis this aborts a MULTI, whatever the command. */
static void reject_arity(struct ration_resp_worker *worker, const struct ration_command *command)
{
    if (command->id == RATION_COMMAND_EXEC) {
        ration_resp_abort_exec(worker, "wrong number of arguments for 'exec' command");
        return;
    }
    worker->session->multi_aborted = worker->session->is_queuing;
    ration_service_add(worker->loop_worker, RATION_SERVICE_RESP_ERRORS, 1);
    ration_commands_write_arity(worker->output, command->name);
}

/* Serves a request that is not part of a batch, after flushing the batch before it. */
static void serve_request(struct ration_resp_worker *worker, const struct ration_command *command)
{
    struct ration_resp_args args = ration_resp_args_of(worker);

    if (!ration_resp_flush_batch(worker))
        return;
    if (command == NULL && ration_commands_is_http(&args.items[0])) {
        ration_connection_abort(worker->connection);
        worker->is_over = true;
    } else if (command == NULL) {
        ration_service_add(worker->loop_worker, RATION_SERVICE_RESP_ERRORS, 1);
        ration_commands_write_unknown(worker->output, args.items, args.count);
    } else if (!ration_commands_fits(command, args.count)) {
        reject_arity(worker, command);
    } else if (ration_resp_permits(worker, command)) {
        dispatch_command(worker, command->id);
    }
}

/* CLIENT REPLY OFF and SKIP: removes the reply from the output, unless the request was CLIENT REPLY ON. */
static void suppress_reply(struct ration_resp_worker *worker, size_t size_before)
{
    struct ration_resp_session *session = worker->session;

    if (worker->is_waiting) /* an EXEC, which is read again */
        return;
    /* A batch that Redis decides suppresses its own replies, and includes this request. */
    (void)ration_resp_flush_batch(worker);
    worker->is_waiting = false;
    if (!worker->output->is_failed && session->reply_mode != RATION_REPLY_ON &&
        !worker->suppresses_reply)
        worker->output->size = size_before;
    if (session->reply_mode == RATION_REPLY_SKIPPING)
        session->reply_mode = RATION_REPLY_ON;
}

/* Commands that are served, not queued, between MULTI and EXEC. */
static bool is_served_in_multi(enum ration_command_id id)
{
    return id == RATION_COMMAND_EXEC || id == RATION_COMMAND_DISCARD ||
           id == RATION_COMMAND_MULTI || id == RATION_COMMAND_RESET || id == RATION_COMMAND_QUIT;
}

void ration_resp_serve(struct ration_resp_worker *worker)
{
    const struct ration_key *name = &worker->request.arguments[0];
    const struct ration_command *command = ration_commands_find(name->bytes, name->size);
    enum ration_command_id id = command != NULL ? command->id : RATION_COMMAND_COUNT;
    uint8_t mode = worker->session->reply_mode;
    size_t size_before = 0;

    if (__builtin_expect(mode != RATION_REPLY_ON, 0)) {
        if (!ration_resp_flush_batch(worker))
            return;
        size_before = worker->output->size;
        worker->suppresses_reply = false;
        if (mode == RATION_REPLY_SKIP)
            worker->session->reply_mode = RATION_REPLY_SKIPPING;
    }
    if (__builtin_expect(!worker->session->is_authenticated, 0))
        serve_request(worker, command);
    else if (__builtin_expect(worker->session->is_queuing && !is_served_in_multi(id), 0))
        ration_resp_queue(worker, command);
    else if (id == RATION_COMMAND_CL_THROTTLE || id == RATION_COMMAND_GCRA)
        ration_resp_inline_check(worker, id == RATION_COMMAND_GCRA);
    else if (id == RATION_COMMAND_CHECK || id == RATION_COMMAND_PEEK)
        ration_resp_check(worker, id == RATION_COMMAND_PEEK);
    else
        serve_request(worker, command);
    if (__builtin_expect(mode != RATION_REPLY_ON, 0))
        suppress_reply(worker, size_before);
}

static const struct ration_resp_limits *request_limits(const struct ration_resp_worker *worker)
{
    return worker->session->is_authenticated ? &worker->service->settings->resp_limits
                                             : &ration_resp_limits_unauthenticated;
}

void ration_resp_session_reset_access(struct ration_connection *connection)
{
    const struct ration_service *service = ration_connection_context(connection);

    ration_resp_session_set_access(
        ration_connection_state(connection),
        ration_credentials_without_secret(service->settings, ration_connection_peer(connection)));
    ration_connection_set_authenticated(
        connection,
        ((struct ration_resp_session *)ration_connection_state(connection))->is_authenticated);
    ration_connection_hide_input(connection, service->settings->check_secret.is_set ||
                                                 service->settings->admin_secret.is_set);
}

static void open_session(struct ration_connection *connection)
{
    struct ration_service *service = ration_connection_context(connection);
    struct ration_resp_session *session = ration_connection_state(connection);

    session->id = __atomic_add_fetch(&service->next_id, 1, __ATOMIC_RELAXED);
    session->version = RATION_RESP2;
    ration_resp_session_reset_access(connection);
}

struct ration_resp_worker *ration_resp_worker_take(struct ration_connection *connection)
{
    struct ration_worker *loop_worker = ration_loop_user(ration_connection_loop(connection));
    struct ration_resp_worker *worker = loop_worker->resp;

    worker->loop_worker = loop_worker;
    worker->is_over = worker->is_waiting = false;
    worker->postponed = NULL;
    worker->connection = connection;
    worker->session = ration_connection_state(connection);
    worker->output = ration_connection_output(connection);
    return worker;
}

/* Ends receive_requests(): returns how many bytes are consumed, without the checks that are postponed. */
static size_t end_receive(struct ration_resp_worker *worker, const char *bytes, size_t consumed)
{
    if (worker->postponed != NULL) {
        consumed = (size_t)(worker->postponed - bytes);
        worker->command_count -= worker->postponed_count;
        worker->postponed = NULL;
    }
    ration_service_add(worker->loop_worker, RATION_SERVICE_RESP_COMMANDS, worker->command_count);
    worker->command_count = 0;
    return consumed;
}

/* Whether a request is an inline command with quotes. The parser removes quotes in place: it can be read only once. */
static bool is_quoted_line(const char *bytes, size_t size)
{
    const char *end = memchr(bytes, '\n', size);
    size_t line_size = end != NULL ? (size_t)(end - bytes) : size;

    return memchr(bytes, '"', line_size) != NULL || memchr(bytes, '\'', line_size) != NULL;
}

static size_t receive_requests(struct ration_connection *connection, char *bytes, size_t size)
{
    struct ration_resp_worker *worker = ration_resp_worker_take(connection);
    size_t consumed = 0;
    size_t used;
    bool continues = true;

    worker->command_count = 0;
    while (continues && consumed < size) {
        bool is_quoted = __builtin_expect(bytes[consumed] != '*', 0) &&
                         is_quoted_line(bytes + consumed, size - consumed);
        enum ration_resp_result result;

        if (is_quoted && !ration_resp_flush_batch(worker))
            return end_receive(worker, bytes, consumed);
        result = ration_resp_read(request_limits(worker), bytes + consumed, size - consumed,
                                  &worker->request);
        switch (result) {
        case RATION_RESP_REQUEST:
            worker->command_count++;
            used = worker->request.consumed_bytes; /* saved: EXEC overwrites worker->request */
            worker->request_start = bytes + consumed;
            ration_resp_serve(worker);
            if (worker->is_waiting) {
                worker->command_count--;
                return end_receive(worker, bytes, consumed);
            }
            consumed += used;
            if (is_quoted)
                (void)ration_resp_flush_batch(worker); /* a first check is never postponed */
            continues = !worker->is_over && !ration_connection_is_full(connection);
            break;
        case RATION_RESP_NOTHING:
            consumed += worker->request.consumed_bytes;
            break;
        case RATION_RESP_MORE:
            ration_connection_need(connection, worker->request.needed_bytes);
            continues = false;
            break;
        default:
            if (!ration_resp_flush_batch(worker))
                return end_receive(worker, bytes, consumed);
            ration_resp_error(worker, worker->request.error);
            ration_connection_close(connection);
            worker->is_over = true;
            continues = false;
        }
    }
    (void)ration_resp_flush_batch(worker);
    return end_receive(worker, bytes, worker->is_over ? size : consumed);
}

static void write_refusal(struct ration_connection *connection,
                          enum ration_close_reason close_reason)
{
    struct ration_output *output = ration_connection_output(connection);

    if (close_reason == RATION_CLOSE_REASON_MAX_CONNECTIONS ||
        close_reason == RATION_CLOSE_REASON_MAX_CONNECTIONS_PER_PEER)
        ration_resp_write_error(output, RATION_ERROR_CLIENTS_MAX);
    else if (close_reason == RATION_CLOSE_REASON_MAX_INPUT)
        ration_resp_write_error(output, "ERR Protocol error: too big request");
    else if (close_reason == RATION_CLOSE_REASON_MAX_OUTPUT)
        ration_resp_write_error(output, "ERR the replies that wait for this client exceed "
                                        "max-output: read replies while sending requests");
    else if (close_reason == RATION_CLOSE_REASON_MAX_CONNECTION_MEMORY)
        ration_resp_write_error(output, "ERR the buffers of all connections exceed "
                                        "max-connection-memory; try again later");
    else if (close_reason == RATION_CLOSE_REASON_AUTH_TIMEOUT)
        ration_resp_write_error(output, "ERR the client did not authenticate within auth-timeout");
    else if (close_reason == RATION_CLOSE_REASON_MULTI_TIMEOUT)
        ration_resp_write_error(output, "ERR the transaction was open for longer than "
                                        "multi-timeout");
    else
        ration_resp_write_error(output, "ERR the request did not arrive in time");
}

static void close_session(struct ration_connection *connection,
                          enum ration_close_reason close_reason)
{
    struct ration_resp_session *session = ration_connection_state(connection);

    (void)close_reason;
    ration_resp_session_leave_multi(connection);
    ration_reloader_forget(session->reload);
    ration_walk_free(session->walk);
    ration_resp_session_forget_async(session);
    ration_engine_admin_forget(session->admin_run);
    if (session->is_executing)
        ration_output_done(&session->exec);
}

const struct ration_protocol ration_resp_protocol = {
    .name = "resp",
    .state_size = sizeof(struct ration_resp_session),
    .authenticates_once = true,
    .open = open_session,
    .receive = receive_requests,
    .refuse = write_refusal,
    .close = close_session,
};
