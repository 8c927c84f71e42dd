/*
 * commands: the table of commands that the server supports over the Redis protocol.
 *
 * For each command, the table holds what COMMAND and COMMAND DOCS report, and its arity. Names are
 * looked up without regard to case. The errors that all commands share are defined here too, with
 * exactly the text that Redis uses: clients depend on it.
 */
#ifndef RATION_CODEC_RESP_COMMANDS_H
#define RATION_CODEC_RESP_COMMANDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/output.h"
#include "codec/resp/access.h"
#include "codec/resp/resp_answer.h"
#include "ration/limiter.h"

/* In the order in which they are searched. */
enum ration_command_id {
    RATION_COMMAND_CL_THROTTLE,
    RATION_COMMAND_CHECK,
    RATION_COMMAND_GCRA,
    RATION_COMMAND_PEEK,
    RATION_COMMAND_REFUND,
    RATION_COMMAND_PING,
    RATION_COMMAND_RESET_KEY, /* RATION.RESET */
    RATION_COMMAND_BLOCK,
    RATION_COMMAND_FLUSH, /* RATION.FLUSH */
    RATION_COMMAND_TOP,
    RATION_COMMAND_LIMITS,
    RATION_COMMAND_RELOAD,
    RATION_COMMAND_CLOCK,
    RATION_COMMAND_DEL,
    RATION_COMMAND_HELLO,
    RATION_COMMAND_AUTH,
    RATION_COMMAND_CLIENT,
    RATION_COMMAND_COMMAND,
    RATION_COMMAND_INFO,
    RATION_COMMAND_CONFIG,
    RATION_COMMAND_SELECT,
    RATION_COMMAND_ECHO,
    RATION_COMMAND_RESET, /* resets the connection */
    RATION_COMMAND_QUIT,
    RATION_COMMAND_MULTI,
    RATION_COMMAND_EXEC,
    RATION_COMMAND_DISCARD,
    RATION_COMMAND_TIME,
    RATION_COMMAND_DBSIZE,
    RATION_COMMAND_COUNT
};

/* Flags of commands, one bit each: for clients, and for the server itself. */
enum ration_command_flag {
    RATION_COMMAND_WRITE = 1,
    RATION_COMMAND_READONLY = 2,
    RATION_COMMAND_FAST = 4,
    RATION_COMMAND_ADMIN = 8,
    RATION_COMMAND_OWN_ARITY = 16 /* the command reports a wrong number of arguments itself */
};

/* An argument, as COMMAND DOCS describes it. */
struct ration_command_argument {
    const char *name;
    const char *type;  /* a Redis type: string, integer, double, key, pure-token, oneof, block */
    const char *token; /* the keyword before it, or NULL */
    bool is_optional;
    bool is_multiple;
    const struct ration_command_argument *parts; /* for a oneof or block */
    size_t part_count;
};

struct ration_command {
    enum ration_command_id id;
    const char *name; /* in lower case */
    size_t name_size;
    int arity; /* number of arguments including the name; a minimum if negative */
    unsigned flags;
    enum ration_access access; /* the level that a client needs */
    int first_key, last_key,
        key_step; /* positions of the keys among the arguments; 0 if there are none */
    const char *summary;
    const char *group;
    const char *since;
    const char *complexity;
    const struct ration_command_argument *arguments;
    size_t argument_count;
};

/* Indexed by id. */
extern const struct ration_command ration_commands[RATION_COMMAND_COUNT];

/* Returns the command of this name, ignoring case, or NULL. */
const struct ration_command *ration_commands_find(const char *name, size_t size);

/* Whether word equals lower (in lower case), ignoring case. For subcommands and options. */
bool ration_commands_is_word(const struct ration_key *word, const char *lower);

/* Whether the number of arguments, including the name, is acceptable. */
static inline bool ration_commands_fits(const struct ration_command *command, size_t word_count)
{
    if (command->flags & RATION_COMMAND_OWN_ARITY)
        return true;
    return command->arity < 0 ? word_count >= (size_t)-command->arity
                              : word_count == (size_t)command->arity;
}

/*
 * Whether the first word is that of an HTTP request sent to this port. The caller must close the
 * connection without a reply.
 */
bool ration_commands_is_http(const struct ration_key *name);

/* COMMAND: all commands. COMMAND INFO name...: those named, with a null for each unknown one. */
void ration_commands_write_all(struct ration_output *output);
void ration_commands_write_info(struct ration_output *output, enum ration_resp_version version,
                                const struct ration_key *names, size_t name_count);

/* COMMAND COUNT and COMMAND LIST. */
void ration_commands_write_count(struct ration_output *output);
void ration_commands_write_list(struct ration_output *output);

/* COMMAND DOCS [name...]: all commands if no name is given; unknown names are skipped. */
void ration_commands_write_docs(struct ration_output *output, enum ration_resp_version version,
                                const struct ration_key *names, size_t name_count);

/* Errors that quote the request. words is the whole request. */
void ration_commands_write_unknown(struct ration_output *output, const struct ration_key *words,
                                   size_t word_count);
/* name is in lower case; for a subcommand it is written as client|setname. */
void ration_commands_write_arity(struct ration_output *output, const char *name);
void ration_commands_write_unknown_subcommand(struct ration_output *output,
                                              const struct ration_command *command,
                                              const struct ration_key *subcommand);
void ration_commands_write_no_permission(struct ration_output *output,
                                         const struct ration_command *command, const char *user,
                                         bool has_admin_secret);
void ration_commands_write_hello_option(struct ration_output *output,
                                        const struct ration_key *option);

/* Fixed errors for ration_resp_write_error(). */
#define RATION_ERROR_SYNTAX     "ERR syntax error"
#define RATION_ERROR_INTEGER    "ERR value is not an integer or out of range"
#define RATION_ERROR_NO_AUTH    "NOAUTH Authentication required."
#define RATION_ERROR_WRONG_PASS "WRONGPASS invalid username-password pair or user is disabled."
#define RATION_ERROR_NO_PASSWORD                                                                \
    "ERR AUTH <password> called without any password configured for the default user. Are you " \
    "sure your configuration is correct?"
#define RATION_ERROR_NO_PROTO     "NOPROTO unsupported protocol version"
#define RATION_ERROR_PROTO_NUMBER "ERR Protocol version is not an integer or out of range"
#define RATION_ERROR_HELLO_AUTH                                                                    \
    "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO AUTH " \
    "<user> <pass> option can be used to authenticate the client and select the RESP protocol "    \
    "version at the same time"
#define RATION_ERROR_DB_INDEX "ERR DB index is out of range"
#define RATION_ERROR_CLIENT_NAME \
    "ERR Client names cannot contain spaces, newlines or special characters."
#define RATION_ERROR_CLIENTS_MAX "ERR max number of clients reached"

#endif
