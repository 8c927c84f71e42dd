/*
 * resp_service: the Redis protocol, served.
 */
#include <stdlib.h>
#include <string.h>

#include "server/credentials.h"
#include "server/reload.h"
#include "server/resp_session.h"

struct ration_resp_desk *ration_resp_desk_create(struct ration_service *service)
{
    struct ration_resp_desk *desk = calloc(1, sizeof(*desk));

    if (desk != NULL)
        desk->service = service;
    return desk;
}

void ration_resp_desk_free(struct ration_resp_desk *desk)
{
    free(desk);
}

void ration_desk_error(struct ration_resp_desk *desk, const char *text)
{
    ration_service_add(desk->part, RATION_SERVICE_RESP_ERRORS, 1);
    ration_resp_write_error(desk->output, text);
}

struct ration_walk *ration_desk_walk(struct ration_resp_desk *desk,
                                     const struct ration_walk_kind *kind)
{
    struct ration_walk *walk =
        ration_walk_create(desk->connection, desk->service, kind, &desk->session->walk);

    if (walk == NULL)
        ration_desk_error(desk, "ERR the server is short of memory");
    else
        walk->is_silent = desk->session->reply_mode != RATION_REPLY_ON;
    return walk;
}

void ration_desk_start_walk(struct ration_resp_desk *desk, const struct ration_walk_kind *kind)
{
    struct ration_walk *walk = ration_desk_walk(desk, kind);

    if (walk != NULL)
        ration_walk_start(walk);
}

void ration_resp_walk_head(struct ration_walk *walk, struct ration_output *output)
{
    (void)output;
    if (walk->is_failed && !walk->is_silent)
        ration_desk_error(ration_resp_desk_take(walk->connection),
                          "ERR the policy is reloaded too often to list it, or the reply is larger "
                          "than output-bytes-max; try again");
}

void ration_resp_walk_end(struct ration_connection *connection)
{
    ration_connection_resume(connection);
}

static void ping(struct ration_resp_desk *desk)
{
    struct ration_words words = ration_desk_words(desk);

    if (words.count > 2)
        ration_commands_write_arity(desk->output, "ping");
    else if (words.count == 2)
        ration_resp_write_bulk(desk->output, words.items[1].bytes, words.items[1].size);
    else
        ration_resp_write_simple(desk->output, "PONG");
}

static void echo(struct ration_resp_desk *desk)
{
    const struct ration_key *word = &desk->request.arguments[1];

    ration_resp_write_bulk(desk->output, word->bytes, word->size);
}

static void quit(struct ration_resp_desk *desk)
{
    ration_resp_write_simple(desk->output, "OK");
    ration_connection_close(desk->connection);
    desk->is_over = true;
}

/* Those that look at every limit or key: thousands of them fit into one read. */
static bool is_costly(enum ration_command_id id)
{
    return id == RATION_COMMAND_TOP || id == RATION_COMMAND_LIMITS || id == RATION_COMMAND_INFO ||
           id == RATION_COMMAND_DBSIZE || id == RATION_COMMAND_COMMAND || id == RATION_COMMAND_DEL;
}

/* All but those that are decided in batches. */
static void serve_other(struct ration_resp_desk *desk, enum ration_command_id id)
{
    static void (*const services[RATION_COMMAND_COUNT])(struct ration_resp_desk * desk) = {
        [RATION_COMMAND_REFUND] = ration_desk_refund,
        [RATION_COMMAND_PING] = ping,
        [RATION_COMMAND_RESET_KEY] = ration_desk_reset_keys,
        [RATION_COMMAND_BLOCK] = ration_desk_block,
        [RATION_COMMAND_FLUSH] = ration_desk_flush_inline,
        [RATION_COMMAND_TOP] = ration_desk_top,
        [RATION_COMMAND_LIMITS] = ration_desk_limits,
        [RATION_COMMAND_RELOAD] = ration_desk_reload,
        [RATION_COMMAND_CLOCK] = ration_desk_clock,
        [RATION_COMMAND_DEL] = ration_desk_delete,
        [RATION_COMMAND_HELLO] = ration_desk_hello,
        [RATION_COMMAND_AUTH] = ration_desk_auth,
        [RATION_COMMAND_CLIENT] = ration_desk_client,
        [RATION_COMMAND_COMMAND] = ration_desk_command,
        [RATION_COMMAND_INFO] = ration_desk_info,
        [RATION_COMMAND_CONFIG] = ration_desk_config,
        [RATION_COMMAND_SELECT] = ration_desk_select,
        [RATION_COMMAND_ECHO] = echo,
        [RATION_COMMAND_RESET] = ration_desk_reset,
        [RATION_COMMAND_QUIT] = quit,
        [RATION_COMMAND_MULTI] = ration_desk_multi,
        [RATION_COMMAND_EXEC] = ration_desk_exec,
        [RATION_COMMAND_DISCARD] = ration_desk_discard,
        [RATION_COMMAND_TIME] = ration_desk_time,
        [RATION_COMMAND_DBSIZE] = ration_desk_size,
    };

    services[id](desk);
    if (is_costly(id))
        ration_connection_yield(desk->connection);
}

const char *ration_desk_user(const struct ration_resp_desk *desk)
{
    enum ration_access access = (enum ration_access)desk->session->access;

    return access == ration_credentials_without_secret(desk->service->settings,
                                                       ration_connection_peer(desk->connection))
               ? "default"
               : ration_access_text(access);
}

bool ration_desk_permits(struct ration_resp_desk *desk, const struct ration_command *command)
{
    enum ration_access access = (enum ration_access)desk->session->access;

    if (ration_access_permits(access, command->access))
        return true;
    if (access == RATION_ACCESS_OPEN && command->id == RATION_COMMAND_EXEC) {
        ration_desk_abort_exec(desk, RATION_ERROR_NO_AUTH);
        return false;
    }
    ration_service_add(desk->part, RATION_SERVICE_RESP_ERRORS, 1);
    if (access == RATION_ACCESS_OPEN)
        ration_resp_write_error(desk->output, RATION_ERROR_NO_AUTH);
    else
        ration_commands_write_no_permission(desk->output, command, ration_desk_user(desk),
                                            desk->service->settings->admin_secret.is_set);
    return false;
}

/* The wrong number of words. As in Redis that spoils a MULTI, whatever the command. */
static void refuse_words(struct ration_resp_desk *desk, const struct ration_command *command)
{
    if (command->id == RATION_COMMAND_EXEC) {
        ration_desk_abort_exec(desk, "wrong number of arguments for 'exec' command");
        return;
    }
    desk->session->is_spoiled = desk->session->is_queuing;
    ration_service_add(desk->part, RATION_SERVICE_RESP_ERRORS, 1);
    ration_commands_write_arity(desk->output, command->name);
}

/* A request that is not decided: what waits comes first. */
static void serve_request(struct ration_resp_desk *desk, const struct ration_command *command)
{
    struct ration_words words = ration_desk_words(desk);

    if (!ration_desk_flush(desk))
        return;
    if (command == NULL && ration_commands_is_http(&words.items[0])) {
        ration_connection_abort(desk->connection);
        desk->is_over = true;
    } else if (command == NULL) {
        ration_service_add(desk->part, RATION_SERVICE_RESP_ERRORS, 1);
        ration_commands_write_unknown(desk->output, words.items, words.count);
    } else if (!ration_commands_fits(command, words.count)) {
        refuse_words(desk, command);
    } else if (ration_desk_permits(desk, command)) {
        serve_other(desk, command->id);
    }
}

/* CLIENT REPLY OFF and SKIP: what was answered is taken back, unless it was CLIENT REPLY ON. */
static void hush(struct ration_resp_desk *desk, size_t size_before)
{
    struct ration_session *session = desk->session;

    if (desk->is_waiting) /* an EXEC, which comes again */
        return;
    (void)ration_desk_flush(desk); /* answers that come later know that they are not wanted */
    desk->is_waiting = false;      /* and this request is among what they answer */
    if (!desk->output->is_failed && session->reply_mode != RATION_REPLY_ON && !desk->is_hushed)
        desk->output->size = size_before;
    if (session->reply_mode == RATION_REPLY_SKIPPING)
        session->reply_mode = RATION_REPLY_ON;
}

/* Not kept back between MULTI and EXEC. */
static bool is_served_in_multi(enum ration_command_id id)
{
    return id == RATION_COMMAND_EXEC || id == RATION_COMMAND_DISCARD ||
           id == RATION_COMMAND_MULTI || id == RATION_COMMAND_RESET || id == RATION_COMMAND_QUIT;
}

void ration_desk_serve(struct ration_resp_desk *desk)
{
    const struct ration_key *name = &desk->request.arguments[0];
    const struct ration_command *command = ration_commands_find(name->bytes, name->size);
    enum ration_command_id id = command != NULL ? command->id : RATION_COMMAND_COUNT;
    uint8_t mode = desk->session->reply_mode;
    size_t size_before = 0;

    if (__builtin_expect(mode != RATION_REPLY_ON, 0)) {
        if (!ration_desk_flush(desk))
            return;
        size_before = desk->output->size;
        desk->is_hushed = false;
        if (mode == RATION_REPLY_SKIP)
            desk->session->reply_mode = RATION_REPLY_SKIPPING;
    }
    if (__builtin_expect(!desk->session->is_known, 0))
        serve_request(desk, command);
    else if (__builtin_expect(desk->session->is_queuing && !is_served_in_multi(id), 0))
        ration_desk_queue(desk, command);
    else if (id == RATION_COMMAND_CL_THROTTLE || id == RATION_COMMAND_GCRA)
        ration_desk_throttle(desk, id == RATION_COMMAND_GCRA);
    else if (id == RATION_COMMAND_CHECK || id == RATION_COMMAND_PEEK)
        ration_desk_check(desk, id == RATION_COMMAND_PEEK);
    else
        serve_request(desk, command);
    if (__builtin_expect(mode != RATION_REPLY_ON, 0))
        hush(desk, size_before);
}

static const struct ration_resp_limits *limits_of(const struct ration_resp_desk *desk)
{
    return desk->session->is_known ? &desk->service->settings->resp_limits
                                   : &ration_resp_limits_stranger;
}

void ration_session_reset_access(struct ration_connection *connection)
{
    const struct ration_service *service = ration_connection_context(connection);

    ration_session_set_access(
        ration_connection_state(connection),
        ration_credentials_without_secret(service->settings, ration_connection_peer(connection)));
    ration_connection_set_authenticated(
        connection, ((struct ration_session *)ration_connection_state(connection))->is_known);
    ration_connection_hide_input(connection, service->settings->check_secret.is_set ||
                                                 service->settings->admin_secret.is_set);
}

static void open_session(struct ration_connection *connection)
{
    struct ration_service *service = ration_connection_context(connection);
    struct ration_session *session = ration_connection_state(connection);

    session->id = __atomic_add_fetch(&service->next_id, 1, __ATOMIC_RELAXED);
    session->version = RATION_RESP2;
    ration_session_reset_access(connection);
}

struct ration_resp_desk *ration_resp_desk_take(struct ration_connection *connection)
{
    struct ration_loop_part *part = ration_loop_user(ration_connection_loop(connection));
    struct ration_resp_desk *desk = part->resp;

    desk->part = part;
    desk->is_over = desk->is_waiting = false;
    desk->postponed = NULL;
    desk->connection = connection;
    desk->session = ration_connection_state(connection);
    desk->output = ration_connection_output(connection);
    return desk;
}

/* Ends a receive(): how much of bytes is consumed, the last request excepted if it has to come again. */
static size_t end_receive(struct ration_resp_desk *desk, const char *bytes, size_t consumed)
{
    if (desk->postponed != NULL) {
        consumed = (size_t)(desk->postponed - bytes);
        desk->command_count -= desk->postponed_count;
        desk->postponed = NULL;
    }
    ration_service_add(desk->part, RATION_SERVICE_RESP_COMMANDS, desk->command_count);
    desk->command_count = 0;
    return consumed;
}

/* Whether a request is a line with quotes, which are removed where they stand: it can be read only once. */
static bool is_quoted_line(const char *bytes, size_t size)
{
    const char *end = memchr(bytes, '\n', size);
    size_t line_size = end != NULL ? (size_t)(end - bytes) : size;

    return memchr(bytes, '"', line_size) != NULL || memchr(bytes, '\'', line_size) != NULL;
}

static size_t receive(struct ration_connection *connection, char *bytes, size_t size)
{
    struct ration_resp_desk *desk = ration_resp_desk_take(connection);
    size_t consumed = 0;
    size_t used;
    bool goes_on = true;

    desk->command_count = 0;
    while (goes_on && consumed < size) {
        bool is_quoted = __builtin_expect(bytes[consumed] != '*', 0) &&
                         is_quoted_line(bytes + consumed, size - consumed);
        enum ration_resp_result result;

        if (is_quoted && !ration_desk_flush(desk))
            return end_receive(desk, bytes, consumed);
        result =
            ration_resp_read(limits_of(desk), bytes + consumed, size - consumed, &desk->request);
        switch (result) {
        case RATION_RESP_REQUEST:
            desk->command_count++;
            used = desk->request.consumed_bytes; /* EXEC reads others meanwhile */
            desk->request_start = bytes + consumed;
            ration_desk_serve(desk);
            if (desk->is_waiting) {
                desk->command_count--;
                return end_receive(desk, bytes, consumed);
            }
            consumed += used;
            if (is_quoted)
                (void)ration_desk_flush(desk); /* alone, it is not postponed */
            goes_on = !desk->is_over && !ration_connection_is_full(connection);
            break;
        case RATION_RESP_NOTHING:
            consumed += desk->request.consumed_bytes;
            break;
        case RATION_RESP_MORE:
            ration_connection_need(connection, desk->request.needed_bytes);
            goes_on = false;
            break;
        default:
            if (!ration_desk_flush(desk))
                return end_receive(desk, bytes, consumed);
            ration_desk_error(desk, desk->request.error);
            ration_connection_close(connection);
            desk->is_over = true;
            goes_on = false;
        }
    }
    (void)ration_desk_flush(desk);
    return end_receive(desk, bytes, desk->is_over ? size : consumed);
}

static void refuse(struct ration_connection *connection, enum ration_ending ending)
{
    struct ration_output *output = ration_connection_output(connection);

    if (ending == RATION_ENDING_CONNECTIONS_MAX || ending == RATION_ENDING_PEER_MAX)
        ration_resp_write_error(output, RATION_ERROR_CLIENTS_MAX);
    else if (ending == RATION_ENDING_INPUT_MAX)
        ration_resp_write_error(output, "ERR Protocol error: too big request");
    else if (ending == RATION_ENDING_OUTPUT_MAX)
        ration_resp_write_error(output, "ERR the replies that wait for this client exceed "
                                        "output-bytes-max: read replies while sending requests");
    else if (ending == RATION_ENDING_MEMORY_MAX)
        ration_resp_write_error(output, "ERR the buffers of all connections exceed "
                                        "connection-memory-max; try again later");
    else if (ending == RATION_ENDING_AUTH_TIMEOUT)
        ration_resp_write_error(output, "ERR the client did not authenticate within auth-timeout");
    else if (ending == RATION_ENDING_MULTI_TIMEOUT)
        ration_resp_write_error(output, "ERR the transaction was open for longer than "
                                        "multi-timeout");
    else
        ration_resp_write_error(output, "ERR the request did not arrive in time");
}

static void close_session(struct ration_connection *connection, enum ration_ending ending)
{
    struct ration_session *session = ration_connection_state(connection);

    (void)ending;
    ration_session_leave_multi(connection);
    ration_reload_forget(session->reload);
    ration_walk_free(session->walk);
    ration_session_forget_later(session);
    ration_gate_editing_forget(session->editing);
    if (session->is_executing)
        ration_output_done(&session->exec);
}

const struct ration_protocol ration_resp_protocol = {
    .name = "resp",
    .state_size = sizeof(struct ration_session),
    .authenticates_once = true,
    .open = open_session,
    .receive = receive,
    .refuse = refuse,
    .close = close_session,
};
