/* commands: the table, and the lookup by name. Replies about commands are in commands_answer.c. */
#include "codec/resp/commands.h"

#include <string.h>

#include "base/text.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

#define CONSTANT "O(1)"
#define SINCE    "0.1.0"

typedef const struct ration_command_argument argument;

static argument throttle_arguments[] = {
    {.name = "key", .type = "key"},
    {.name = "max_burst", .type = "integer"},
    {.name = "count", .type = "integer"},
    {.name = "period", .type = "integer"},
    {.name = "quantity", .type = "integer", .is_optional = true},
};

static argument gcra_arguments[] = {
    {.name = "key", .type = "key"},
    {.name = "max_burst", .type = "integer"},
    {.name = "tokens_per_period", .type = "integer"},
    {.name = "period", .type = "double"},
    {.name = "tokens", .type = "integer", .token = "TOKENS", .is_optional = true},
};

static argument attribute_parts[] = {
    {.name = "attribute", .type = "string"},
    {.name = "value", .type = "string"},
};

/* The attributes that describe a request: ip 192.0.2.1 path /login. */
#define ATTRIBUTES                                                                      \
    {                                                                                   \
        .name = "data", .type = "block", .is_multiple = true, .parts = attribute_parts, \
        .part_count = COUNT_OF(attribute_parts)                                         \
    }

/* Restricts the command to this one of the limits that apply. */
#define LIMIT_NAME                                                               \
    {                                                                            \
        .name = "limit", .type = "string", .token = "LIMIT", .is_optional = true \
    }

static argument check_arguments[] = {
    {.name = "cost", .type = "integer", .token = "COST", .is_optional = true},
    ATTRIBUTES,
};

static argument refund_arguments[] = {
    {.name = "tokens", .type = "integer", .token = "TOKENS", .is_optional = true},
    LIMIT_NAME,
    ATTRIBUTES,
};

static argument reset_arguments[] = {LIMIT_NAME, ATTRIBUTES};

static argument block_parts[] = {
    {.name = "seconds", .type = "integer", .token = "SECONDS"},
    {.name = "milliseconds", .type = "integer", .token = "MS"},
};

static argument block_arguments[] = {
    {.name = "duration",
     .type = "oneof",
     .parts = block_parts,
     .part_count = COUNT_OF(block_parts)},
    LIMIT_NAME,
    ATTRIBUTES,
};

static argument top_orders[] = {
    {.name = "denied", .type = "pure-token", .token = "DENIED"},
    {.name = "cost", .type = "pure-token", .token = "COST"},
};

static argument top_arguments[] = {
    {.name = "order",
     .type = "oneof",
     .token = "BY",
     .is_optional = true,
     .parts = top_orders,
     .part_count = COUNT_OF(top_orders)},
    {.name = "count", .type = "integer", .token = "COUNT", .is_optional = true},
    {.name = "limit", .type = "string", .token = "LIMIT", .is_optional = true},
};

static argument clock_parts[] = {
    {.name = "get", .type = "pure-token", .token = "GET"},
    {.name = "set", .type = "integer", .token = "SET"},
    {.name = "advance", .type = "integer", .token = "ADVANCE"},
};

static argument clock_arguments[] = {
    {.name = "operation",
     .type = "oneof",
     .parts = clock_parts,
     .part_count = COUNT_OF(clock_parts)},
};

static argument del_arguments[] = {{.name = "key", .type = "key", .is_multiple = true}};

static argument hello_auth_parts[] = {
    {.name = "username", .type = "string"},
    {.name = "password", .type = "string"},
};

static argument hello_parts[] = {
    {.name = "protover", .type = "integer"},
    {.name = "auth",
     .type = "block",
     .token = "AUTH",
     .is_optional = true,
     .parts = hello_auth_parts,
     .part_count = COUNT_OF(hello_auth_parts)},
    {.name = "clientname", .type = "string", .token = "SETNAME", .is_optional = true},
};

static argument hello_arguments[] = {
    {.name = "arguments",
     .type = "block",
     .is_optional = true,
     .parts = hello_parts,
     .part_count = COUNT_OF(hello_parts)},
};

static argument auth_arguments[] = {
    {.name = "username", .type = "string", .is_optional = true},
    {.name = "password", .type = "string"},
};

static argument subcommand_arguments[] = {
    {.name = "subcommand", .type = "string"},
    {.name = "argument", .type = "string", .is_optional = true, .is_multiple = true},
};

static argument command_arguments[] = {
    {.name = "subcommand", .type = "string", .is_optional = true},
    {.name = "command", .type = "string", .is_optional = true, .is_multiple = true},
};

static argument info_arguments[] = {
    {.name = "section", .type = "string", .is_optional = true, .is_multiple = true},
};

static argument select_arguments[] = {{.name = "index", .type = "integer"}};
static argument flush_arguments[] = {{.name = "inline", .type = "pure-token", .token = "INLINE"}};
static argument ping_arguments[] = {{.name = "message", .type = "string", .is_optional = true}};
static argument echo_arguments[] = {{.name = "message", .type = "string"}};

#define NAME(which, text) \
    .id = RATION_COMMAND_##which, .name = text, .name_size = sizeof(text) - 1, .since = SINCE
#define ARGUMENTS(array)  .arguments = array, .argument_count = COUNT_OF(array)
#define OPEN_ACCESS       .access = RATION_ACCESS_OPEN
#define CHECK_ACCESS      .access = RATION_ACCESS_CHECK
#define ADMIN_ACCESS      .access = RATION_ACCESS_ADMIN
#define KEYS(first, last) .first_key = first, .last_key = last, .key_step = 1

enum {
    WRITE = RATION_COMMAND_WRITE,
    READONLY = RATION_COMMAND_READONLY,
    FAST = RATION_COMMAND_FAST,
    ADMIN = RATION_COMMAND_ADMIN,
    OWN_ARITY = RATION_COMMAND_OWN_ARITY
};

const struct ration_command ration_commands[RATION_COMMAND_COUNT] = {
    [RATION_COMMAND_CL_THROTTLE] = {NAME(CL_THROTTLE, "cl.throttle"), CHECK_ACCESS, .arity = -5,
                                    .flags = WRITE | FAST | OWN_ARITY, KEYS(1, 1),
                                    .summary = "Take tokens from an inline limit",
                                    .group = "module", .complexity = CONSTANT,
                                    ARGUMENTS(throttle_arguments)},
    [RATION_COMMAND_CHECK] = {NAME(CHECK, "ration.check"), CHECK_ACCESS, .arity = -1,
                              .flags = WRITE | FAST,
                              .summary = "Check a request against the policy and charge its limits",
                              .group = "module", .complexity = "O(N) in the limits of the policy",
                              ARGUMENTS(check_arguments)},
    [RATION_COMMAND_GCRA] =
        {NAME(GCRA, "gcra"), CHECK_ACCESS, .arity = -5, .flags = WRITE | FAST, KEYS(1, 1),
         .summary = "Take tokens from an inline limit whose period may have a fraction",
         .group = "module", .complexity = CONSTANT, ARGUMENTS(gcra_arguments)},
    [RATION_COMMAND_PEEK] = {NAME(PEEK, "ration.peek"), CHECK_ACCESS, .arity = -1,
                             .flags = READONLY | FAST,
                             .summary =
                                 "Report how a request would be decided, without charging it",
                             .group = "module", .complexity = "O(N) in the limits of the policy",
                             ARGUMENTS(check_arguments)},
    [RATION_COMMAND_REFUND] = {NAME(REFUND, "ration.refund"), ADMIN_ACCESS, .arity = -1,
                               .flags = WRITE | FAST,
                               .summary = "Return tokens to the limits of a request",
                               .group = "module", .complexity = "O(N) in the limits of the policy",
                               ARGUMENTS(refund_arguments)},
    [RATION_COMMAND_PING] = {NAME(PING, "ping"), CHECK_ACCESS, .arity = -1, .flags = FAST,
                             .summary = "Ping the server", .group = "connection",
                             .complexity = CONSTANT, ARGUMENTS(ping_arguments)},
    [RATION_COMMAND_RESET_KEY] = {NAME(RESET_KEY, "ration.reset"), ADMIN_ACCESS, .arity = -3,
                                  .flags = WRITE | FAST,
                                  .summary = "Refill the buckets of a request", .group = "module",
                                  .complexity = "O(N) in the limits of the policy",
                                  ARGUMENTS(reset_arguments)},
    [RATION_COMMAND_BLOCK] = {NAME(BLOCK, "ration.block"), ADMIN_ACCESS, .arity = -5,
                              .flags = WRITE | FAST,
                              .summary =
                                  "Deny all requests with the keys of a request for some time",
                              .group = "module", .complexity = "O(N) in the limits of the policy",
                              ARGUMENTS(block_arguments)},
    [RATION_COMMAND_FLUSH] = {NAME(FLUSH, "ration.flush"), ADMIN_ACCESS, .arity = 2,
                              .flags = WRITE | ADMIN, .summary = "Clear all keys of inline limits",
                              .group = "module", .complexity = "O(N) in the keys at most",
                              ARGUMENTS(flush_arguments)},
    [RATION_COMMAND_TOP] = {NAME(TOP, "ration.top"), ADMIN_ACCESS, .arity = -1, .flags = READONLY,
                            .summary = "List the keys that are denied most, or that cost most",
                            .group = "module", .complexity = "O(N) in the keys listed",
                            ARGUMENTS(top_arguments)},
    [RATION_COMMAND_LIMITS] = {NAME(LIMITS, "ration.limits"), CHECK_ACCESS, .arity = 1,
                               .flags = READONLY,
                               .summary = "List the limits of the policy and their statistics",
                               .group = "module", .complexity = "O(N) in the limits of the policy"},
    [RATION_COMMAND_RELOAD] = {NAME(RELOAD, "ration.reload"), ADMIN_ACCESS, .arity = 1,
                               .flags = ADMIN, .summary = "Reload the policy file",
                               .group = "module", .complexity = "O(N) in the limits of the policy"},
    [RATION_COMMAND_CLOCK] = {NAME(CLOCK, "ration.clock"), ADMIN_ACCESS, .arity = -2,
                              .flags = ADMIN | FAST,
                              .summary = "Read the clock, or set a manual clock", .group = "module",
                              .complexity = CONSTANT, ARGUMENTS(clock_arguments)},
    [RATION_COMMAND_DEL] = {NAME(DEL, "del"), ADMIN_ACCESS, .arity = -2, .flags = WRITE,
                            KEYS(1, -1), .summary = "Delete keys of inline limits",
                            .group = "generic", .complexity = "O(N) in the keys",
                            ARGUMENTS(del_arguments)},
    [RATION_COMMAND_HELLO] = {NAME(HELLO, "hello"), OPEN_ACCESS, .arity = -1, .flags = FAST,
                              .summary = "Handshake with the server", .group = "connection",
                              .complexity = CONSTANT, ARGUMENTS(hello_arguments)},
    [RATION_COMMAND_AUTH] = {NAME(AUTH, "auth"), OPEN_ACCESS, .arity = -2, .flags = FAST,
                             .summary = "Authenticate to the server", .group = "connection",
                             .complexity = CONSTANT, ARGUMENTS(auth_arguments)},
    [RATION_COMMAND_CLIENT] = {NAME(CLIENT, "client"), CHECK_ACCESS, .arity = -2, .flags = 0,
                               .summary = "Show or name this connection", .group = "connection",
                               .complexity = CONSTANT, ARGUMENTS(subcommand_arguments)},
    [RATION_COMMAND_COMMAND] = {NAME(COMMAND, "command"), CHECK_ACCESS, .arity = -1, .flags = 0,
                                .summary = "Get information about commands", .group = "server",
                                .complexity = "O(N) in the commands", ARGUMENTS(command_arguments)},
    [RATION_COMMAND_INFO] = {NAME(INFO, "info"), CHECK_ACCESS, .arity = -1, .flags = 0,
                             .summary = "Get information and statistics about the server",
                             .group = "server", .complexity = CONSTANT, ARGUMENTS(info_arguments)},
    [RATION_COMMAND_CONFIG] = {NAME(CONFIG, "config"), CHECK_ACCESS, .arity = -2, .flags = ADMIN,
                               .summary = "Show settings", .group = "server",
                               .complexity = CONSTANT, ARGUMENTS(subcommand_arguments)},
    [RATION_COMMAND_SELECT] = {NAME(SELECT, "select"), CHECK_ACCESS, .arity = 2, .flags = FAST,
                               .summary = "Select database 0, the only one", .group = "connection",
                               .complexity = CONSTANT, ARGUMENTS(select_arguments)},
    [RATION_COMMAND_ECHO] = {NAME(ECHO, "echo"), CHECK_ACCESS, .arity = 2, .flags = FAST,
                             .summary = "Echo the given string", .group = "connection",
                             .complexity = CONSTANT, ARGUMENTS(echo_arguments)},
    [RATION_COMMAND_RESET] = {NAME(RESET, "reset"), OPEN_ACCESS, .arity = 1, .flags = FAST,
                              .summary = "Reset the connection", .group = "connection",
                              .complexity = CONSTANT},
    [RATION_COMMAND_QUIT] = {NAME(QUIT, "quit"), OPEN_ACCESS, .arity = -1, .flags = FAST,
                             .summary = "Close the connection", .group = "connection",
                             .complexity = CONSTANT},
    [RATION_COMMAND_MULTI] = {NAME(MULTI, "multi"), CHECK_ACCESS, .arity = 1, .flags = FAST,
                              .summary = "Queue requests until EXEC", .group = "transactions",
                              .complexity = CONSTANT},
    [RATION_COMMAND_EXEC] = {NAME(EXEC, "exec"), CHECK_ACCESS, .arity = 1, .flags = 0,
                             .summary = "Execute the queued requests", .group = "transactions",
                             .complexity = "Depends on the requests"},
    [RATION_COMMAND_DISCARD] = {NAME(DISCARD, "discard"), CHECK_ACCESS, .arity = 1, .flags = FAST,
                                .summary = "Discard the queued requests", .group = "transactions",
                                .complexity = "O(N) in the requests"},
    [RATION_COMMAND_TIME] = {NAME(TIME, "time"), CHECK_ACCESS, .arity = 1, .flags = FAST,
                             .summary = "Return the current server time", .group = "server",
                             .complexity = CONSTANT},
    [RATION_COMMAND_DBSIZE] = {NAME(DBSIZE, "dbsize"), CHECK_ACCESS, .arity = 1,
                               .flags = READONLY | FAST,
                               .summary = "Return the number of keys in use", .group = "server",
                               .complexity = CONSTANT},
};

/* Compares without regard to the case of name; lower must be in lower case. */
static bool equals_any_case(const char *name, const char *lower, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if (ration_text_lower(name[i]) != lower[i])
            return false;
    }
    return true;
}

const struct ration_command *ration_commands_find(const char *name, size_t size)
{
    for (size_t i = 0; i < RATION_COMMAND_COUNT; i++) {
        if (ration_commands[i].name_size == size &&
            equals_any_case(name, ration_commands[i].name, size))
            return &ration_commands[i];
    }
    return NULL;
}

bool ration_commands_is_word(const struct ration_key *word, const char *lower)
{
    return word->size == strlen(lower) && equals_any_case(word->bytes, lower, word->size);
}

bool ration_commands_is_http(const struct ration_key *name)
{
    return ration_commands_is_word(name, "post") || ration_commands_is_word(name, "host:");
}
