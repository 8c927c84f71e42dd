/*
 * resp_connect: what clients say about themselves when they connect, and ask about the server.
 *
 * Most of it is there so that clients of Redis work unmodified. What has no meaning here is accepted
 * if nothing depends on it (SELECT 0, CLIENT NO-EVICT), and refused otherwise.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "server/auth_failures.h"
#include "server/credentials.h"
#include "server/metrics.h"
#include "server/resp_session.h"

/* The version of Redis whose commands and errors these are. */
#define REDIS_VERSION "7.2.0"
#define DATABASES     1
#define HELLO_FIELDS  7

#define INFO_BYTES_MAX 2048 /* its words are 700, and its 17 numbers 20 each at most */

static bool is_printable(const struct ration_key *word)
{
    const unsigned char *bytes = word->bytes;

    for (size_t i = 0; i < word->size; i++)
        if (bytes[i] < '!' || bytes[i] > '~')
            return false;
    return true;
}

static void keep(char *text, size_t text_size, const struct ration_key *word)
{
    snprintf(text, text_size, "%.*s", (int)word->size, (const char *)word->bytes);
}

static bool is_user(const struct ration_key *user, const char *name)
{
    return user->size == strlen(name) && memcmp(user->bytes, name, user->size) == 0;
}

/* It lies in the connection's input, and nobody reads it again. */
static void wipe(const struct ration_key *password)
{
    explicit_bzero((void *)(uintptr_t)password->bytes, password->size);
}

/*
 * What a user and a password grant; RATION_ACCESS_UNSET: nothing. The users are check, admin, and
 * default, which is also the one that is not named: it takes either secret.
 */
static enum ration_access access_of(const struct ration_resp_desk *desk,
                                    const struct ration_key *user,
                                    const struct ration_key *password)
{
    enum ration_access access =
        ration_credentials_of_secret(desk->service->settings, password->bytes, password->size);

    if (user == NULL || is_user(user, "default"))
        return access;
    return access != RATION_ACCESS_UNSET && is_user(user, ration_access_text(access))
               ? access
               : RATION_ACCESS_UNSET;
}

/* Authenticates, or writes why not; then the access stays as it was. */
static bool authenticate(struct ration_resp_desk *desk, const struct ration_key *user,
                         const struct ration_key *password)
{
    const struct ration_settings *settings = desk->service->settings;
    enum ration_access access = access_of(desk, user, password);

    if (access != RATION_ACCESS_UNSET) {
        ration_session_set_access(desk->session, access);
        ration_connection_set_authenticated(desk->connection, true);
        ration_connection_hide_input(desk->connection, false);
        return true;
    }
    if (!settings->check_secret.is_set && !settings->admin_secret.is_set) {
        if (user == NULL) {
            ration_desk_error(desk, RATION_ERROR_NO_PASSWORD);
            return false;
        }
        if (is_user(user, "default"))
            return true; /* as Redis: the default user without a password takes any */
    }
    ration_service_add(desk->part, RATION_SERVICE_AUTH_FAILURES, 1);
    ration_auth_failures_add(desk->service, desk->connection, "secret");
    ration_desk_error(desk, RATION_ERROR_WRONG_PASS);
    return false;
}

void ration_desk_auth(struct ration_resp_desk *desk)
{
    struct ration_words words = ration_desk_words(desk);

    if (words.count > 3) {
        ration_desk_error(desk, RATION_ERROR_SYNTAX);
        return;
    }
    if (authenticate(desk, words.count == 3 ? &words.items[1] : NULL,
                     &words.items[words.count - 1]))
        ration_resp_write_simple(desk->output, "OK");
    wipe(&words.items[words.count - 1]);
}

struct hello {
    uint64_t version;
    const struct ration_key *user, *password, *name;
};

/* False: it is answered with an error. */
static bool read_hello(struct ration_resp_desk *desk, struct hello *hello)
{
    struct ration_words words = ration_desk_words(desk);

    if (words.count > 1 && !ration_word_number(&words.items[1], &hello->version)) {
        ration_desk_error(desk, RATION_ERROR_PROTO_NUMBER);
        return false;
    }
    if (hello->version != RATION_RESP2 && hello->version != RATION_RESP3) {
        ration_desk_error(desk, RATION_ERROR_NO_PROTO);
        return false;
    }
    for (size_t i = 2; i < words.count; i++) {
        size_t more = words.count - 1 - i;

        if (ration_commands_is_word(&words.items[i], "auth") && more >= 2) {
            hello->user = &words.items[++i];
            hello->password = &words.items[++i];
        } else if (ration_commands_is_word(&words.items[i], "setname") && more >= 1) {
            hello->name = &words.items[++i];
        } else {
            ration_service_add(desk->part, RATION_SERVICE_RESP_ERRORS, 1);
            ration_commands_write_hello_option(desk->output, &words.items[i]);
            return false;
        }
    }
    if (hello->name != NULL && !is_printable(hello->name)) {
        ration_desk_error(desk, RATION_ERROR_CLIENT_NAME);
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

void ration_desk_hello(struct ration_resp_desk *desk)
{
    struct ration_session *session = desk->session;
    struct ration_output *output = desk->output;
    struct hello hello = {.version = session->version};

    if (!read_hello(desk, &hello))
        return;
    if (hello.password != NULL) {
        bool is_authentic = authenticate(desk, hello.user, hello.password);

        wipe(hello.password);
        if (!is_authentic)
            return;
    }
    if (!session->is_known) {
        ration_desk_error(desk, RATION_ERROR_HELLO_AUTH);
        return;
    }
    if (hello.name != NULL)
        keep(session->name, sizeof(session->name), hello.name);
    session->version = (uint8_t)hello.version;
    ration_resp_write_map(output, ration_desk_version(desk), HELLO_FIELDS);
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
static void write_client(struct ration_resp_desk *desk)
{
    const struct ration_session *session = desk->session;
    const struct ration_address *peer = ration_connection_peer(desk->connection);
    char address[RATION_ADDRESS_TEXT_SIZE] = "unix";
    char line[512];

    if (peer->family != 0)
        address[ration_address_print(peer, address)] = '\0';
    snprintf(line, sizeof(line),
             "id=%u addr=%s name=%s db=0 sub=0 psub=0 multi=-1 cmd=client user=%s resp=%u "
             "lib-name=%s lib-ver=%s\n",
             session->id, address, session->name, ration_desk_user(desk), session->version,
             session->library_name, session->library_version);
    ration_resp_write_verbatim(desk->output, ration_desk_version(desk), line, strlen(line));
}

static void set_name(struct ration_resp_desk *desk)
{
    const struct ration_key *name = &desk->request.arguments[2];

    if (!is_printable(name) || name->size > RATION_SESSION_NAME_MAX) {
        ration_desk_error(desk, RATION_ERROR_CLIENT_NAME);
        return;
    }
    keep(desk->session->name, sizeof(desk->session->name), name);
    ration_resp_write_simple(desk->output, "OK");
}

static void get_name(struct ration_resp_desk *desk)
{
    if (desk->session->name[0] == '\0')
        ration_resp_write_null(desk->output, ration_desk_version(desk));
    else
        ration_resp_write_bulk_text(desk->output, desk->session->name);
}

static void set_info(struct ration_resp_desk *desk)
{
    const struct ration_key *option = &desk->request.arguments[2];
    const struct ration_key *value = &desk->request.arguments[3];
    struct ration_session *session = desk->session;

    if (!is_printable(value)) {
        ration_desk_error(desk, "ERR lib-name and lib-ver cannot contain spaces, newlines or "
                                "special characters.");
        return;
    }
    if (ration_commands_is_word(option, "lib-name")) {
        keep(session->library_name, sizeof(session->library_name), value);
    } else if (ration_commands_is_word(option, "lib-ver")) {
        keep(session->library_version, sizeof(session->library_version), value);
    } else {
        ration_desk_error(desk,
                          "ERR Unrecognized option: CLIENT SETINFO takes LIB-NAME or LIB-VER");
        return;
    }
    ration_resp_write_simple(desk->output, "OK");
}

static void set_reply(struct ration_resp_desk *desk)
{
    static const char *const modes[] = {"on", "off", "skip"};
    struct ration_session *session = desk->session;

    for (uint8_t mode = 0; mode < 3; mode++) {
        if (!ration_commands_is_word(&desk->request.arguments[2], modes[mode]))
            continue;
        if (mode != RATION_REPLY_SKIP)
            session->reply_mode = mode;
        else if (session->reply_mode != RATION_REPLY_OFF && session->is_executing)
            session->is_skip_after_exec = true;
        else if (session->reply_mode != RATION_REPLY_OFF)
            session->reply_mode = mode;
        if (mode == RATION_REPLY_ON)
            ration_resp_write_simple(desk->output, "OK");
        return;
    }
    ration_desk_error(desk, RATION_ERROR_SYNTAX);
}

static void write_id(struct ration_resp_desk *desk)
{
    ration_resp_write_count(desk->output, desk->session->id);
}

static void write_ok(struct ration_resp_desk *desk)
{
    ration_resp_write_simple(desk->output, "OK");
}

/* A word behind a command: how many words in all, what it does, and how that is told. */
struct subcommand {
    const char *name;
    size_t words_min, words_max;
    void (*serve)(struct ration_resp_desk *desk);
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

/* In the form of Redis: a heading, then two lines for each. */
static void write_help(struct ration_resp_desk *desk, const char *command_name,
                       const struct subcommand *list, size_t list_size)
{
    char heading[128];

    snprintf(heading, sizeof(heading),
             "%s <subcommand> [<arg> [value] [opt] ...]. Subcommands are:", command_name);
    for (char *at = heading; *at != ' '; at++)
        *at = (char)(*at - 'a' + 'A'); /* names of commands with subcommands are letters */
    ration_resp_write_array(desk->output, 1 + 2 * (list_size + 1));
    ration_resp_write_simple(desk->output, heading);
    for (size_t i = 0; i < list_size; i++)
        write_help_lines(desk->output, list[i].usage, list[i].help);
    write_help_lines(desk->output, help.usage, help.help);
}

static void write_arity(struct ration_resp_desk *desk, const char *command_name,
                        const char *subcommand_name)
{
    char name[64];

    snprintf(name, sizeof(name), "%s|%s", command_name, subcommand_name);
    ration_service_add(desk->part, RATION_SERVICE_RESP_ERRORS, 1);
    ration_commands_write_arity(desk->output, name);
}

/* A command with subcommands, and these. */
struct container {
    enum ration_command_id id;
    const struct subcommand *list;
    size_t size;
};

enum { CLIENT, COMMAND, CONFIG, CONTAINERS };
static const struct container containers[CONTAINERS];

static void serve_help(struct ration_resp_desk *desk);

static const struct subcommand help = {"help", 2, 2, serve_help, "HELP", "Print this help."};

/* The subcommand that was sent; NULL: there is none, or it has other words, and that is answered. */
static const struct subcommand *find_subcommand(struct ration_resp_desk *desk,
                                                const struct container *container)
{
    const struct ration_command *command = &ration_commands[container->id];
    struct ration_words words = ration_desk_words(desk);
    const struct subcommand *found =
        ration_commands_is_word(&words.items[1], help.name) ? &help : NULL;

    for (size_t i = 0; found == NULL && i < container->size; i++)
        if (ration_commands_is_word(&words.items[1], container->list[i].name))
            found = &container->list[i];
    if (found != NULL && words.count >= found->words_min && words.count <= found->words_max)
        return found;
    if (found != NULL) {
        write_arity(desk, command->name, found->name);
    } else {
        ration_service_add(desk->part, RATION_SERVICE_RESP_ERRORS, 1);
        ration_commands_write_unknown_subcommand(desk->output, command, &words.items[1]);
    }
    return NULL;
}

static void serve_subcommand(struct ration_resp_desk *desk, const struct container *container)
{
    const struct subcommand *found = find_subcommand(desk, container);

    if (found != NULL)
        found->serve(desk);
}

#define LIST_SIZE(list) (sizeof(list) / sizeof((list)[0]))

static const struct subcommand client_list[] = {
    {"getname", 2, 2, get_name, "GETNAME", "Return the name of this connection."},
    {"id", 2, 2, write_id, "ID", "Return the number of this connection."},
    {"info", 2, 2, write_client, "INFO", "Return what is known of this connection."},
    {"list", 2, SIZE_MAX, write_client, "LIST", "The same: others are not listed."},
    {"no-evict", 3, 3, write_ok, "NO-EVICT (ON|OFF)", "Accepted, and without effect."},
    {"no-touch", 3, 3, write_ok, "NO-TOUCH (ON|OFF)", "Accepted, and without effect."},
    {"reply", 3, 3, set_reply, "REPLY (ON|OFF|SKIP)", "Whether requests are answered."},
    {"setinfo", 4, 4, set_info, "SETINFO (LIB-NAME|LIB-VER) <value>",
     "Tell what the client is made with."},
    {"setname", 3, 3, set_name, "SETNAME <name>", "Give this connection a name."},
};

void ration_desk_client(struct ration_resp_desk *desk)
{
    serve_subcommand(desk, &containers[CLIENT]);
}

void ration_desk_select(struct ration_resp_desk *desk)
{
    struct ration_key index = desk->request.arguments[1];
    bool is_negative = index.size > 1 && ((const char *)index.bytes)[0] == '-';
    uint64_t number;

    if (is_negative)
        index = (struct ration_key){(const char *)index.bytes + 1, index.size - 1};
    if (!ration_word_number(&index, &number))
        ration_desk_error(desk, RATION_ERROR_INTEGER);
    else if (is_negative || number >= DATABASES)
        ration_desk_error(desk, RATION_ERROR_DB_INDEX);
    else
        ration_resp_write_simple(desk->output, "OK");
}

void ration_desk_reset(struct ration_resp_desk *desk)
{
    struct ration_session *session = desk->session;

    session->version = RATION_RESP2;
    ration_session_reset_access(desk->connection);
    if (session->reply_mode != RATION_REPLY_SKIPPING) /* then RESET itself is not answered */
        session->reply_mode = RATION_REPLY_ON;
    session->name[0] = '\0';
    ration_session_leave_multi(desk->connection);
    ration_resp_write_simple(desk->output, "RESET");
}

static void write_count(struct ration_resp_desk *desk)
{
    ration_commands_write_count(desk->output);
}

static void write_list(struct ration_resp_desk *desk)
{
    ration_commands_write_list(desk->output);
}

static void write_docs(struct ration_resp_desk *desk)
{
    struct ration_words words = ration_desk_words(desk);

    ration_commands_write_docs(desk->output, ration_desk_version(desk), words.items + 2,
                               words.count - 2);
}

static void write_info(struct ration_resp_desk *desk)
{
    struct ration_words words = ration_desk_words(desk);

    if (words.count == 2)
        ration_commands_write_all(desk->output);
    else
        ration_commands_write_info(desk->output, ration_desk_version(desk), words.items + 2,
                                   words.count - 2);
}

static const struct subcommand command_list[] = {
    {"count", 2, 2, write_count, "COUNT", "Return the number of commands."},
    {"docs", 2, SIZE_MAX, write_docs, "DOCS [<command-name> ...]",
     "Return what commands do, and their arguments; of all unless some are named."},
    {"info", 2, SIZE_MAX, write_info, "INFO [<command-name> ...]",
     "Return arity, flags and places of keys; of all unless some are named."},
    {"list", 2, 2, write_list, "LIST", "Return the names of all commands."},
};

void ration_desk_command(struct ration_resp_desk *desk)
{
    if (desk->request.argument_count == 1)
        ration_commands_write_all(desk->output);
    else
        serve_subcommand(desk, &containers[COMMAND]);
}

/* What clients ask for before they begin. Values as of a Redis that keeps nothing on disk. */
static void get_config(struct ration_resp_desk *desk)
{
    static const struct {
        const char *name, *value;
    } settings[] = {
        {"save", ""},       {"appendonly", "no"}, {"databases", "1"},
        {"maxmemory", "0"}, {"timeout", "0"},     {"maxmemory-policy", "noeviction"},
    };
    struct ration_words words = ration_desk_words(desk);
    bool is_asked[LIST_SIZE(settings)] = {false};
    size_t count = 0;

    for (size_t i = 0; i < LIST_SIZE(settings); i++) {
        for (size_t k = 2; k < words.count; k++)
            is_asked[i] |= ration_commands_is_word(&words.items[k], settings[i].name) ||
                           ration_commands_is_word(&words.items[k], "*");
        count += is_asked[i];
    }
    ration_resp_write_map(desk->output, ration_desk_version(desk), count);
    for (size_t i = 0; i < LIST_SIZE(settings); i++)
        if (is_asked[i])
            write_text_field(desk->output, settings[i].name, settings[i].value);
}

static const struct subcommand config_list[] = {
    {"get", 3, SIZE_MAX, get_config, "GET <name> [<name> ...]",
     "Return what a Redis that keeps nothing would say of these settings."},
};

void ration_desk_config(struct ration_resp_desk *desk)
{
    serve_subcommand(desk, &containers[CONFIG]);
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

static void serve_help(struct ration_resp_desk *desk)
{
    const struct ration_key *name = &desk->request.arguments[0];
    const struct ration_command *command = ration_commands_find(name->bytes, name->size);
    const struct container *container = find_container(command->id);

    write_help(desk, command->name, container->list, container->size);
}

bool ration_desk_subcommand_fits(struct ration_resp_desk *desk, enum ration_command_id id)
{
    const struct container *container = find_container(id);

    return container == NULL || desk->request.argument_count == 1 ||
           find_subcommand(desk, container) != NULL;
}

/* INFO and DBSIZE: keys that have a place, those in debt and those whose place nobody needed yet. */
struct keys_walk {
    struct ration_walk walk;
    uint64_t key_count;
};

static uint64_t count_keys(ration_limiter *limiter)
{
    struct ration_limiter_report report;

    ration_limiter_read_report(limiter, &report);
    /* read one after the other while keys come and go */
    return report.limiter.created > report.limiter.reclaimed
               ? report.limiter.created - report.limiter.reclaimed
               : 0;
}

static void begin_keys(struct ration_walk *walk)
{
    ((struct keys_walk *)walk)->key_count = count_keys(ration_gate_throttle(walk->service->gate));
}

static void visit_keys(struct ration_walk *walk, const struct ration_visit *visit, size_t first,
                       size_t count)
{
    for (size_t i = first; i < first + count; i++)
        ((struct keys_walk *)walk)->key_count += count_keys(ration_gate_limiter(visit, i));
}

/* What redis-cli --stat and exporters read. No command blocks, and a key is forgotten once it is full. */
static bool write_server(struct ration_walk *walk)
{
    struct ration_service *service = walk->service;
    const struct ration_loop_part *part =
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
        memory, ration_gate_bytes(service->gate), (unsigned long long)counters.accepted,
        (unsigned long long)ration_service_total(service, RATION_SERVICE_RESP_COMMANDS) +
            part->resp->command_count,
        (unsigned long long)counters.received_bytes, (unsigned long long)counters.sent_bytes,
        (unsigned long long)(counters.ended[RATION_ENDING_CONNECTIONS_MAX] +
                             counters.ended[RATION_ENDING_PEER_MAX]),
        (unsigned long long)ration_service_total(service, RATION_SERVICE_RESP_ERRORS), keys, keys);
    ration_resp_write_verbatim(&walk->text, ration_session_version(walk->connection), text,
                               strlen(text));
    return true;
}

void ration_desk_info(struct ration_resp_desk *desk)
{
    static const struct ration_walk_kind kind = {.size = sizeof(struct keys_walk),
                                                 .begin = begin_keys,
                                                 .visit = visit_keys,
                                                 .rest = write_server,
                                                 .head = ration_resp_walk_head,
                                                 .end = ration_resp_walk_end};

    ration_desk_start_walk(desk, &kind);
}

void ration_desk_time(struct ration_resp_desk *desk)
{
    struct timespec wall;
    char text[32];

    clock_gettime(CLOCK_REALTIME, &wall);
    ration_resp_write_array(desk->output, 2);
    snprintf(text, sizeof(text), "%llu", (unsigned long long)wall.tv_sec);
    ration_resp_write_bulk_text(desk->output, text);
    snprintf(text, sizeof(text), "%ld", wall.tv_nsec / 1000);
    ration_resp_write_bulk_text(desk->output, text);
}

static bool write_size(struct ration_walk *walk)
{
    ration_resp_write_count(&walk->text, ((struct keys_walk *)walk)->key_count);
    return true;
}

void ration_desk_size(struct ration_resp_desk *desk)
{
    static const struct ration_walk_kind kind = {.size = sizeof(struct keys_walk),
                                                 .begin = begin_keys,
                                                 .visit = visit_keys,
                                                 .rest = write_size,
                                                 .head = ration_resp_walk_head,
                                                 .end = ration_resp_walk_end};

    ration_desk_start_walk(desk, &kind);
}
