/*
 * resp_connect: commands about the connection and the server: AUTH, HELLO, CLIENT, COMMAND, CONFIG, INFO and others.
 *
 * Most of them exist so that Redis clients work unmodified. A command without a meaning here is accepted
 * if no client depends on its effect (SELECT 0, CLIENT NO-EVICT), and rejected otherwise.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "server/ops/auth_failures.h"
#include "server/ops/credentials.h"
#include "server/ops/metrics.h"
#include "server/resp/resp_worker.h"

/* The version of Redis whose commands and errors are implemented here. */
#define REDIS_VERSION "7.2.0"
#define DATABASES     1
#define HELLO_FIELDS  7

#define INFO_BYTES_MAX 2048 /* the text has 700 bytes, and its 17 numbers at most 20 bytes each */

static bool is_printable(const struct ration_key *argument)
{
    const unsigned char *bytes = argument->bytes;

    for (size_t i = 0; i < argument->size; i++)
        if (bytes[i] < '!' || bytes[i] > '~')
            return false;
    return true;
}

static void copy_argument(char *text, size_t text_size, const struct ration_key *argument)
{
    snprintf(text, text_size, "%.*s", (int)argument->size, (const char *)argument->bytes);
}

static bool is_user(const struct ration_key *user, const char *name)
{
    return user->size == strlen(name) && memcmp(user->bytes, name, user->size) == 0;
}

/* Overwrites a password in the connection's input, which is not read again. */
static void wipe_password(const struct ration_key *password)
{
    explicit_bzero((void *)(uintptr_t)password->bytes, password->size);
}

/*
 * The access that a user and a password grant; RATION_ACCESS_UNSET: none. The users are check, admin, and
 * default, which accepts either secret. user may be NULL: default.
 */
static enum ration_access access_of_user(const struct ration_resp_worker *worker,
                                         const struct ration_key *user,
                                         const struct ration_key *password)
{
    enum ration_access access =
        ration_credentials_of_secret(worker->service->settings, password->bytes, password->size);

    if (user == NULL || is_user(user, "default"))
        return access;
    return access != RATION_ACCESS_UNSET && is_user(user, ration_access_text(access))
               ? access
               : RATION_ACCESS_UNSET;
}

/* Authenticates the session. False: an error is written, and the access is unchanged. */
static bool authenticate_session(struct ration_resp_worker *worker, const struct ration_key *user,
                                 const struct ration_key *password)
{
    const struct ration_settings *settings = worker->service->settings;
    enum ration_access access = access_of_user(worker, user, password);

    if (access != RATION_ACCESS_UNSET) {
        ration_resp_session_set_access(worker->session, access);
        ration_connection_set_authenticated(worker->connection, true);
        ration_connection_hide_input(worker->connection, false);
        return true;
    }
    if (!settings->check_secret.is_set && !settings->admin_secret.is_set) {
        if (user == NULL) {
            ration_resp_error(worker, RATION_ERROR_NO_PASSWORD);
            return false;
        }
        if (is_user(user, "default"))
            return true; /* as in Redis: the default user without a password accepts any */
    }
    ration_service_add(worker->loop_worker, RATION_SERVICE_AUTH_FAILURES, 1);
    ration_auth_failures_add(worker->service, worker->connection, "secret");
    ration_resp_error(worker, RATION_ERROR_WRONG_PASS);
    return false;
}

void ration_resp_auth(struct ration_resp_worker *worker)
{
    struct ration_resp_args args = ration_resp_args_of(worker);

    if (args.count > 3) {
        ration_resp_error(worker, RATION_ERROR_SYNTAX);
        return;
    }
    if (authenticate_session(worker, args.count == 3 ? &args.items[1] : NULL,
                             &args.items[args.count - 1]))
        ration_resp_write_simple(worker->output, "OK");
    wipe_password(&args.items[args.count - 1]);
}

struct hello {
    uint64_t version;
    const struct ration_key *user, *password, *name;
};

/* False: the request is answered with an error. */
static bool read_hello(struct ration_resp_worker *worker, struct hello *hello)
{
    struct ration_resp_args args = ration_resp_args_of(worker);

    if (args.count > 1 && !ration_resp_arg_number(&args.items[1], &hello->version)) {
        ration_resp_error(worker, RATION_ERROR_PROTO_NUMBER);
        return false;
    }
    if (hello->version != RATION_RESP2 && hello->version != RATION_RESP3) {
        ration_resp_error(worker, RATION_ERROR_NO_PROTO);
        return false;
    }
    for (size_t i = 2; i < args.count; i++) {
        size_t more = args.count - 1 - i;

        if (ration_commands_is_word(&args.items[i], "auth") && more >= 2) {
            hello->user = &args.items[++i];
            hello->password = &args.items[++i];
        } else if (ration_commands_is_word(&args.items[i], "setname") && more >= 1) {
            hello->name = &args.items[++i];
        } else {
            ration_service_add(worker->loop_worker, RATION_SERVICE_RESP_ERRORS, 1);
            ration_commands_write_hello_option(worker->output, &args.items[i]);
            return false;
        }
    }
    if (hello->name != NULL && !is_printable(hello->name)) {
        ration_resp_error(worker, RATION_ERROR_CLIENT_NAME);
        return false;
    }
    return true;
}

static void write_text_field(struct ration_output *output, const char *name, const char *value)
{
    ration_resp_write_bulk_text(output, name);
    ration_resp_write_bulk_text(output, value);
}

static void write_number_field(struct ration_output *output, const char *name, uint64_t value)
{
    ration_resp_write_bulk_text(output, name);
    ration_resp_write_count(output, value);
}

void ration_resp_hello(struct ration_resp_worker *worker)
{
    struct ration_resp_session *session = worker->session;
    struct ration_output *output = worker->output;
    struct hello hello = {.version = session->version};

    if (!read_hello(worker, &hello))
        return;
    if (hello.password != NULL) {
        bool is_authentic = authenticate_session(worker, hello.user, hello.password);

        wipe_password(hello.password);
        if (!is_authentic)
            return;
    }
    if (!session->is_authenticated) {
        ration_resp_error(worker, RATION_ERROR_HELLO_AUTH);
        return;
    }
    if (hello.name != NULL)
        copy_argument(session->name, sizeof(session->name), hello.name);
    session->version = (uint8_t)hello.version;
    ration_resp_write_map(output, ration_resp_version_of(worker), HELLO_FIELDS);
    write_text_field(output, "server", "redis");
    write_text_field(output, "version", REDIS_VERSION);
    write_number_field(output, "proto", session->version);
    write_number_field(output, "id", session->id);
    write_text_field(output, "mode", "standalone");
    write_text_field(output, "role", "master");
    ration_resp_write_bulk_text(output, "modules");
    ration_resp_write_array(output, 0);
}

/* id=7 addr=... name=... resp=2 */
static void write_client(struct ration_resp_worker *worker)
{
    const struct ration_resp_session *session = worker->session;
    const struct ration_address *peer = ration_connection_peer(worker->connection);
    char address[RATION_ADDRESS_TEXT_SIZE] = "unix";
    char line[512];

    if (peer->family != 0)
        address[ration_address_print(peer, address)] = '\0';
    snprintf(line, sizeof(line),
             "id=%u addr=%s name=%s db=0 sub=0 psub=0 multi=-1 cmd=client user=%s resp=%u "
             "lib-name=%s lib-ver=%s\n",
             session->id, address, session->name, ration_resp_session_user(worker),
             session->version, session->library_name, session->library_version);
    ration_resp_write_verbatim(worker->output, ration_resp_version_of(worker), line, strlen(line));
}

static void set_name(struct ration_resp_worker *worker)
{
    const struct ration_key *name = &worker->request.arguments[2];

    if (!is_printable(name) || name->size > RATION_SESSION_NAME_MAX) {
        ration_resp_error(worker, RATION_ERROR_CLIENT_NAME);
        return;
    }
    copy_argument(worker->session->name, sizeof(worker->session->name), name);
    ration_resp_write_simple(worker->output, "OK");
}

static void get_name(struct ration_resp_worker *worker)
{
    if (worker->session->name[0] == '\0')
        ration_resp_write_null(worker->output, ration_resp_version_of(worker));
    else
        ration_resp_write_bulk_text(worker->output, worker->session->name);
}

static void set_info(struct ration_resp_worker *worker)
{
    const struct ration_key *option = &worker->request.arguments[2];
    const struct ration_key *value = &worker->request.arguments[3];
    struct ration_resp_session *session = worker->session;

    if (!is_printable(value)) {
        ration_resp_error(worker, "ERR lib-name and lib-ver cannot contain spaces, newlines or "
                                  "special characters.");
        return;
    }
    if (ration_commands_is_word(option, "lib-name")) {
        copy_argument(session->library_name, sizeof(session->library_name), value);
    } else if (ration_commands_is_word(option, "lib-ver")) {
        copy_argument(session->library_version, sizeof(session->library_version), value);
    } else {
        ration_resp_error(worker,
                          "ERR Unrecognized option: CLIENT SETINFO takes LIB-NAME or LIB-VER");
        return;
    }
    ration_resp_write_simple(worker->output, "OK");
}

static void set_reply(struct ration_resp_worker *worker)
{
    static const char *const modes[] = {"on", "off", "skip"};
    struct ration_resp_session *session = worker->session;

    for (uint8_t mode = 0; mode < 3; mode++) {
        if (!ration_commands_is_word(&worker->request.arguments[2], modes[mode]))
            continue;
        if (mode != RATION_REPLY_SKIP)
            session->reply_mode = mode;
        else if (session->reply_mode != RATION_REPLY_OFF && session->is_executing)
            session->is_skip_after_exec = true;
        else if (session->reply_mode != RATION_REPLY_OFF)
            session->reply_mode = mode;
        if (mode == RATION_REPLY_ON)
            ration_resp_write_simple(worker->output, "OK");
        return;
    }
    ration_resp_error(worker, RATION_ERROR_SYNTAX);
}

static void write_id(struct ration_resp_worker *worker)
{
    ration_resp_write_count(worker->output, worker->session->id);
}

static void write_ok(struct ration_resp_worker *worker)
{
    ration_resp_write_simple(worker->output, "OK");
}

/* A subcommand: the number of arguments with command and subcommand, its handler, and its help. */
struct subcommand {
    const char *name;
    size_t args_min, args_max;
    void (*serve)(struct ration_resp_worker *worker);
    const char *usage;
    const char *help;
};

static const struct subcommand help;

static void write_help_lines(struct ration_output *output, const char *usage, const char *text)
{
    char line[128];

    snprintf(line, sizeof(line), "    %s", text);
    ration_resp_write_simple(output, usage);
    ration_resp_write_simple(output, line);
}

/* In the format of Redis: a heading, then two lines for each subcommand. */
static void write_help(struct ration_resp_worker *worker, const char *command_name,
                       const struct subcommand *list, size_t list_size)
{
    char heading[128];

    snprintf(heading, sizeof(heading),
             "%s <subcommand> [<arg> [value] [opt] ...]. Subcommands are:", command_name);
    for (char *letter = heading; *letter != ' '; letter++)
        *letter = (char)(*letter - 'a' +
                         'A'); /* names of commands with subcommands have only lower case letters */
    ration_resp_write_array(worker->output, 1 + 2 * (list_size + 1));
    ration_resp_write_simple(worker->output, heading);
    for (size_t i = 0; i < list_size; i++)
        write_help_lines(worker->output, list[i].usage, list[i].help);
    write_help_lines(worker->output, help.usage, help.help);
}

static void write_arity(struct ration_resp_worker *worker, const char *command_name,
                        const char *subcommand_name)
{
    char name[64];

    snprintf(name, sizeof(name), "%s|%s", command_name, subcommand_name);
    ration_service_add(worker->loop_worker, RATION_SERVICE_RESP_ERRORS, 1);
    ration_commands_write_arity(worker->output, name);
}

/* A command with subcommands. */
struct container {
    enum ration_command_id id;
    const struct subcommand *list;
    size_t size;
};

enum { CLIENT, COMMAND, CONFIG, CONTAINERS };
static const struct container containers[CONTAINERS];

static void serve_help(struct ration_resp_worker *worker);

static const struct subcommand help = {"help", 2, 2, serve_help, "HELP", "Print this help."};

/* The subcommand of the request. NULL: unknown, or with a wrong number of arguments; the request is answered. */
static const struct subcommand *find_subcommand(struct ration_resp_worker *worker,
                                                const struct container *container)
{
    const struct ration_command *command = &ration_commands[container->id];
    struct ration_resp_args args = ration_resp_args_of(worker);
    const struct subcommand *found =
        ration_commands_is_word(&args.items[1], help.name) ? &help : NULL;
    const struct subcommand *list = container->list;

    for (size_t i = 0; found == NULL && i < container->size; i++)
        if (ration_commands_is_word(&args.items[1], list[i].name))
            found = &list[i];
    if (found != NULL && args.count >= found->args_min && args.count <= found->args_max)
        return found;
    if (found != NULL) {
        write_arity(worker, command->name, found->name);
    } else {
        ration_service_add(worker->loop_worker, RATION_SERVICE_RESP_ERRORS, 1);
        ration_commands_write_unknown_subcommand(worker->output, command, &args.items[1]);
    }
    return NULL;
}

static void serve_subcommand(struct ration_resp_worker *worker, const struct container *container)
{
    const struct subcommand *found = find_subcommand(worker, container);

    if (found != NULL)
        found->serve(worker);
}

#define LIST_SIZE(list) (sizeof(list) / sizeof((list)[0]))

static const struct subcommand client_list[] = {
    {"getname", 2, 2, get_name, "GETNAME", "Return the name of this connection."},
    {"id", 2, 2, write_id, "ID", "Return the number of this connection."},
    {"info", 2, 2, write_client, "INFO", "Return information about this connection."},
    {"list", 2, SIZE_MAX, write_client, "LIST", "The same: other connections are not listed."},
    {"no-evict", 3, 3, write_ok, "NO-EVICT (ON|OFF)", "Accepted, and without effect."},
    {"no-touch", 3, 3, write_ok, "NO-TOUCH (ON|OFF)", "Accepted, and without effect."},
    {"reply", 3, 3, set_reply, "REPLY (ON|OFF|SKIP)", "Whether requests are answered."},
    {"setinfo", 4, 4, set_info, "SETINFO (LIB-NAME|LIB-VER) <value>",
     "Set the name or version of the client library."},
    {"setname", 3, 3, set_name, "SETNAME <name>", "Give this connection a name."},
};

void ration_resp_client(struct ration_resp_worker *worker)
{
    serve_subcommand(worker, &containers[CLIENT]);
}

void ration_resp_select(struct ration_resp_worker *worker)
{
    struct ration_key index = worker->request.arguments[1];
    bool is_negative = index.size > 1 && ((const char *)index.bytes)[0] == '-';
    uint64_t number;

    if (is_negative)
        index = (struct ration_key){(const char *)index.bytes + 1, index.size - 1};
    if (!ration_resp_arg_number(&index, &number))
        ration_resp_error(worker, RATION_ERROR_INTEGER);
    else if (is_negative || number >= DATABASES)
        ration_resp_error(worker, RATION_ERROR_DB_INDEX);
    else
        ration_resp_write_simple(worker->output, "OK");
}

void ration_resp_reset_session(struct ration_resp_worker *worker)
{
    struct ration_resp_session *session = worker->session;

    session->version = RATION_RESP2;
    ration_resp_session_reset_access(worker->connection);
    if (session->reply_mode !=
        RATION_REPLY_SKIPPING) /* if SKIPPING, the reply to RESET itself is suppressed */
        session->reply_mode = RATION_REPLY_ON;
    session->name[0] = '\0';
    ration_resp_session_leave_multi(worker->connection);
    ration_resp_write_simple(worker->output, "RESET");
}

static void write_command_count(struct ration_resp_worker *worker)
{
    ration_commands_write_count(worker->output);
}

static void write_command_list(struct ration_resp_worker *worker)
{
    ration_commands_write_list(worker->output);
}

static void write_command_docs(struct ration_resp_worker *worker)
{
    struct ration_resp_args args = ration_resp_args_of(worker);

    ration_commands_write_docs(worker->output, ration_resp_version_of(worker), args.items + 2,
                               args.count - 2);
}

static void write_command_info(struct ration_resp_worker *worker)
{
    struct ration_resp_args args = ration_resp_args_of(worker);

    if (args.count == 2)
        ration_commands_write_all(worker->output);
    else
        ration_commands_write_info(worker->output, ration_resp_version_of(worker), args.items + 2,
                                   args.count - 2);
}

static const struct subcommand command_list[] = {
    {"count", 2, 2, write_command_count, "COUNT", "Return the number of commands."},
    {"docs", 2, SIZE_MAX, write_command_docs, "DOCS [<command-name> ...]",
     "Return what commands do, and their arguments; of all unless some are named."},
    {"info", 2, SIZE_MAX, write_command_info, "INFO [<command-name> ...]",
     "Return arity, flags and key positions; of all unless some are named."},
    {"list", 2, 2, write_command_list, "LIST", "Return the names of all commands."},
};

void ration_resp_command(struct ration_resp_worker *worker)
{
    if (worker->request.argument_count == 1)
        ration_commands_write_all(worker->output);
    else
        serve_subcommand(worker, &containers[COMMAND]);
}

/* CONFIG GET of settings that clients read at startup. Values are those of a Redis without persistence. */
static void write_config(struct ration_resp_worker *worker)
{
    static const struct {
        const char *name, *value;
    } settings[] = {
        {"save", ""},       {"appendonly", "no"}, {"databases", "1"},
        {"maxmemory", "0"}, {"timeout", "0"},     {"maxmemory-policy", "noeviction"},
    };
    struct ration_resp_args args = ration_resp_args_of(worker);
    bool is_requested[LIST_SIZE(settings)] = {false};
    size_t count = 0;

    for (size_t i = 0; i < LIST_SIZE(settings); i++) {
        for (size_t k = 2; k < args.count; k++)
            is_requested[i] |= ration_commands_is_word(&args.items[k], settings[i].name) ||
                               ration_commands_is_word(&args.items[k], "*");
        count += is_requested[i];
    }
    ration_resp_write_map(worker->output, ration_resp_version_of(worker), count);
    for (size_t i = 0; i < LIST_SIZE(settings); i++)
        if (is_requested[i])
            write_text_field(worker->output, settings[i].name, settings[i].value);
}

static const struct subcommand config_list[] = {
    {"get", 3, SIZE_MAX, write_config, "GET <name> [<name> ...]",
     "Return these settings as of a Redis without persistence."},
};

void ration_resp_config(struct ration_resp_worker *worker)
{
    serve_subcommand(worker, &containers[CONFIG]);
}

static const struct container containers[CONTAINERS] = {
    [CLIENT] = {RATION_COMMAND_CLIENT, client_list, LIST_SIZE(client_list)},
    [COMMAND] = {RATION_COMMAND_COMMAND, command_list, LIST_SIZE(command_list)},
    [CONFIG] = {RATION_COMMAND_CONFIG, config_list, LIST_SIZE(config_list)},
};

static const struct container *find_container(enum ration_command_id id)
{
    for (size_t i = 0; i < CONTAINERS; i++)
        if (containers[i].id == id)
            return &containers[i];
    return NULL;
}

static void serve_help(struct ration_resp_worker *worker)
{
    const struct ration_key *name = &worker->request.arguments[0];
    const struct ration_command *command = ration_commands_find(name->bytes, name->size);
    const struct container *container = find_container(command->id);

    write_help(worker, command->name, container->list, container->size);
}

bool ration_resp_subcommand_fits(struct ration_resp_worker *worker, enum ration_command_id id)
{
    const struct container *container = find_container(id);

    return container == NULL || worker->request.argument_count == 1 ||
           find_subcommand(worker, container) != NULL;
}

/* INFO and DBSIZE count keys with a slot: those in use, and full ones whose slot is not reclaimed yet. */
struct keys_walk {
    struct ration_walk walk;
    uint64_t key_count;
};

static uint64_t count_keys(ration_limiter *limiter)
{
    struct ration_limiter_report report;

    ration_limiter_read_report(limiter, &report);
    /* the two counters are not read at one time: reclaimed may be ahead */
    return report.limiter.created > report.limiter.reclaimed
               ? report.limiter.created - report.limiter.reclaimed
               : 0;
}

static void begin_keys(struct ration_walk *walk)
{
    ((struct keys_walk *)walk)->key_count =
        count_keys(ration_engine_inline_limiter(walk->service->engine));
}

static void visit_keys(struct ration_walk *walk, const struct ration_engine_guard *guard,
                       size_t first, size_t count)
{
    for (size_t i = first; i < first + count; i++)
        ((struct keys_walk *)walk)->key_count += count_keys(ration_engine_limiter(guard, i));
}

/* The fields that redis-cli --stat and exporters read. No command blocks, and every key expires once it is full. */
static bool write_server_info(struct ration_walk *walk)
{
    struct ration_service *service = walk->service;
    const struct ration_worker *loop_worker =
        ration_loop_user(ration_connection_loop(walk->connection));
    unsigned long long keys = ((struct keys_walk *)walk)->key_count;
    unsigned long long memory = ration_metrics_resident_bytes();
    struct ration_loop_counters counters;
    struct timespec wall;
    char text[INFO_BYTES_MAX];

    clock_gettime(CLOCK_REALTIME, &wall);
    ration_loops_counters(service->loops, &counters);
    snprintf(
        text, sizeof(text),
        "# Server\r\nredis_version:" REDIS_VERSION "\r\nration_version:%s\r\n"
        "redis_mode:standalone\r\nprocess_id:%d\r\nuptime_in_seconds:%llu\r\n\r\n"
        "# Clients\r\nconnected_clients:%llu\r\nmaxclients:%u\r\nblocked_clients:0\r\n\r\n"
        "# Memory\r\nused_memory:%llu\r\nused_memory_rss:%llu\r\nmaxmemory:0\r\n"
        "tables_bytes:%zu\r\n\r\n"
        "# Persistence\r\nloading:0\r\n\r\n"
        "# Stats\r\ntotal_connections_received:%llu\r\ntotal_commands_processed:%llu\r\n"
        "total_net_input_bytes:%llu\r\ntotal_net_output_bytes:%llu\r\n"
        "rejected_connections:%llu\r\ntotal_error_replies:%llu\r\n\r\n"
        "# Replication\r\nrole:master\r\nconnected_slaves:0\r\n\r\n"
        "# Keyspace\r\ndb0:keys=%llu,expires=%llu,avg_ttl=0\r\n",
        ration_version(), (int)getpid(), (unsigned long long)wall.tv_sec - service->started_wall_s,
        (unsigned long long)counters.open, service->settings->limits.connections_max, memory,
        memory, ration_engine_bytes(service->engine), (unsigned long long)counters.accepted,
        (unsigned long long)ration_service_total(service, RATION_SERVICE_RESP_COMMANDS) +
            loop_worker->resp->command_count,
        (unsigned long long)counters.received_bytes, (unsigned long long)counters.sent_bytes,
        (unsigned long long)(counters.ended[RATION_CLOSE_REASON_MAX_CONNECTIONS] +
                             counters.ended[RATION_CLOSE_REASON_MAX_CONNECTIONS_PER_PEER]),
        (unsigned long long)ration_service_total(service, RATION_SERVICE_RESP_ERRORS), keys, keys);
    ration_resp_write_verbatim(&walk->text, ration_resp_session_version(walk->connection), text,
                               strlen(text));
    return true;
}

void ration_resp_info(struct ration_resp_worker *worker)
{
    static const struct ration_walk_kind kind = {.size = sizeof(struct keys_walk),
                                                 .begin = begin_keys,
                                                 .visit = visit_keys,
                                                 .finish = write_server_info,
                                                 .head = ration_resp_walk_head,
                                                 .end = ration_resp_walk_end};

    ration_resp_start_walk(worker, &kind);
}

void ration_resp_time(struct ration_resp_worker *worker)
{
    struct timespec wall;
    char text[32];

    clock_gettime(CLOCK_REALTIME, &wall);
    ration_resp_write_array(worker->output, 2);
    snprintf(text, sizeof(text), "%llu", (unsigned long long)wall.tv_sec);
    ration_resp_write_bulk_text(worker->output, text);
    snprintf(text, sizeof(text), "%ld", wall.tv_nsec / 1000);
    ration_resp_write_bulk_text(worker->output, text);
}

static bool write_dbsize(struct ration_walk *walk)
{
    ration_resp_write_count(&walk->text, ((struct keys_walk *)walk)->key_count);
    return true;
}

void ration_resp_dbsize(struct ration_resp_worker *worker)
{
    static const struct ration_walk_kind kind = {.size = sizeof(struct keys_walk),
                                                 .begin = begin_keys,
                                                 .visit = visit_keys,
                                                 .finish = write_dbsize,
                                                 .head = ration_resp_walk_head,
                                                 .end = ration_resp_walk_end};

    ration_resp_start_walk(worker, &kind);
}
