/*
 * resp_connect: what clients say about themselves when they connect, and ask about the server.
 *
 * Most of it is there so that clients of Redis work unmodified. What has no meaning here is accepted
 * if nothing depends on it (SELECT 0 to 15, CLIENT NO-EVICT), and refused otherwise.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "server/resp_session.h"

/* The version of Redis whose commands and errors these are. */
#define REDIS_VERSION "7.2.0"
#define DATABASES     16
#define HELLO_FIELDS  7

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

/* RESP's user is "default", if one is named at all. */
static bool is_password(const struct ration_resp_desk *desk, const struct ration_key *user,
                        const struct ration_key *password)
{
    return (user == NULL || (user->size == 7 && memcmp(user->bytes, "default", 7) == 0)) &&
           ration_secret_is(desk->service->settings->password, password->bytes, password->size);
}

/* Authenticates, or says why not. */
static bool authenticate(struct ration_resp_desk *desk, const struct ration_key *user,
                         const struct ration_key *password)
{
    if (desk->service->settings->password[0] == '\0') {
        if (user == NULL) {
            ration_desk_error(desk, RATION_ERROR_NO_PASSWORD);
            return false;
        }
        if (user->size == 7 && memcmp(user->bytes, "default", 7) == 0)
            return true; /* as Redis: the default user without a password takes any */
    } else if (is_password(desk, user, password)) {
        desk->session->is_known = true;
        return true;
    }
    ration_service_add(desk->part, RATION_SERVICE_AUTH_FAILURES, 1);
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
    if (hello.password != NULL && !authenticate(desk, hello.user, hello.password))
        return;
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
             "id=%u addr=%s name=%s db=0 sub=0 psub=0 multi=-1 cmd=client user=default resp=%u "
             "lib-name=%s lib-ver=%s\n",
             session->id, address, session->name, session->version, session->library_name,
             session->library_version);
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

    for (uint8_t mode = 0; mode < 3; mode++) {
        if (!ration_commands_is_word(&desk->request.arguments[2], modes[mode]))
            continue;
        if (mode != RATION_REPLY_SKIP || desk->session->reply_mode != RATION_REPLY_OFF)
            desk->session->reply_mode = mode;
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

static void write_help_lines(struct ration_output *output, const char *usage, const char *help)
{
    char line[128];

    snprintf(line, sizeof(line), "    %s", help);
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
    write_help_lines(desk->output, "HELP", "Print this help.");
}

static void write_arity(struct ration_resp_desk *desk, const char *command_name,
                        const char *subcommand_name)
{
    char name[64];

    snprintf(name, sizeof(name), "%s|%s", command_name, subcommand_name);
    ration_service_add(desk->part, RATION_SERVICE_RESP_ERRORS, 1);
    ration_commands_write_arity(desk->output, name);
}

static void serve_subcommand(struct ration_resp_desk *desk, enum ration_command_id id,
                             const struct subcommand *list, size_t list_size)
{
    const struct ration_command *command = &ration_commands[id];
    struct ration_words words = ration_desk_words(desk);

    if (ration_commands_is_word(&words.items[1], "help")) {
        if (words.count == 2)
            write_help(desk, command->name, list, list_size);
        else
            write_arity(desk, command->name, "help");
        return;
    }
    for (size_t i = 0; i < list_size; i++) {
        if (!ration_commands_is_word(&words.items[1], list[i].name))
            continue;
        if (words.count >= list[i].words_min && words.count <= list[i].words_max)
            list[i].serve(desk);
        else
            write_arity(desk, command->name, list[i].name);
        return;
    }
    ration_service_add(desk->part, RATION_SERVICE_RESP_ERRORS, 1);
    ration_commands_write_unknown_subcommand(desk->output, command, &words.items[1]);
}

#define LIST_SIZE(list) (sizeof(list) / sizeof((list)[0]))

void ration_desk_client(struct ration_resp_desk *desk)
{
    static const struct subcommand list[] = {
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

    serve_subcommand(desk, RATION_COMMAND_CLIENT, list, LIST_SIZE(list));
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
    session->is_known = desk->service->settings->password[0] == '\0';
    session->reply_mode = RATION_REPLY_ON;
    session->name[0] = '\0';
    ration_session_leave_multi(session);
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

void ration_desk_command(struct ration_resp_desk *desk)
{
    static const struct subcommand list[] = {
        {"count", 2, 2, write_count, "COUNT", "Return the number of commands."},
        {"docs", 2, SIZE_MAX, write_docs, "DOCS [<command-name> ...]",
         "Return what commands do, and their arguments; of all unless some are named."},
        {"info", 2, SIZE_MAX, write_info, "INFO [<command-name> ...]",
         "Return arity, flags and places of keys; of all unless some are named."},
        {"list", 2, 2, write_list, "LIST", "Return the names of all commands."},
    };

    if (desk->request.argument_count == 1)
        ration_commands_write_all(desk->output);
    else
        serve_subcommand(desk, RATION_COMMAND_COMMAND, list, LIST_SIZE(list));
}

/* What clients ask for before they begin. Values as of a Redis that keeps nothing on disk. */
static void get_config(struct ration_resp_desk *desk)
{
    static const struct {
        const char *name, *value;
    } settings[] = {
        {"save", ""},       {"appendonly", "no"}, {"databases", "16"},
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

void ration_desk_config(struct ration_resp_desk *desk)
{
    static const struct subcommand list[] = {
        {"get", 3, SIZE_MAX, get_config, "GET <name> [<name> ...]",
         "Return what a Redis that keeps nothing would say of these settings."},
    };

    serve_subcommand(desk, RATION_COMMAND_CONFIG, list, LIST_SIZE(list));
}

/* Keys that have a place: those in debt, and those whose place nobody needed yet. */
static uint64_t count_keys(struct ration_service *service)
{
    struct ration_limiter_report report;
    struct ration_visit visit;
    uint64_t count;
    size_t limit_count;

    ration_limiter_read_report(ration_gate_throttle(service->gate), &report);
    count = report.limiter.created - report.limiter.reclaimed;
    ration_gate_enter(service->gate, &visit);
    limit_count = ration_policy_limit_count(ration_gate_policy(&visit));
    for (size_t i = 0; i < limit_count; i++) {
        ration_limiter_read_report(ration_gate_limiter(&visit, i), &report);
        count += report.limiter.created - report.limiter.reclaimed;
    }
    ration_gate_leave(&visit);
    return count;
}

void ration_desk_info(struct ration_resp_desk *desk)
{
    struct ration_service *service = desk->service;
    struct ration_loop_counters counters;
    struct timespec wall;
    char text[1024];

    clock_gettime(CLOCK_REALTIME, &wall);
    ration_loops_counters(service->loops, &counters);
    snprintf(text, sizeof(text),
             "# Server\r\nredis_version:" REDIS_VERSION "\r\nration_version:%s\r\n"
             "redis_mode:standalone\r\nuptime_in_seconds:%llu\r\n\r\n"
             "# Clients\r\nconnected_clients:%llu\r\n\r\n"
             "# Memory\r\ntables_bytes:%zu\r\n\r\n"
             "# Persistence\r\nloading:0\r\n\r\n"
             "# Stats\r\ntotal_connections_received:%llu\r\ntotal_net_input_bytes:%llu\r\n"
             "total_net_output_bytes:%llu\r\n\r\n"
             "# Replication\r\nrole:master\r\nconnected_slaves:0\r\n\r\n"
             "# Keyspace\r\ndb0:keys=%llu,expires=0,avg_ttl=0\r\n",
             ration_version(), (unsigned long long)wall.tv_sec - service->started_wall_s,
             (unsigned long long)counters.open, ration_gate_bytes(service->gate),
             (unsigned long long)counters.accepted, (unsigned long long)counters.received_bytes,
             (unsigned long long)counters.sent_bytes, (unsigned long long)count_keys(service));
    ration_resp_write_verbatim(desk->output, ration_desk_version(desk), text, strlen(text));
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

void ration_desk_size(struct ration_resp_desk *desk)
{
    ration_resp_write_count(desk->output, count_keys(desk->service));
}
