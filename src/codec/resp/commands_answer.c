/* commands_answer: writes replies about commands: COMMAND and its subcommands, and errors. */
#include "codec/resp/commands.h"

#include <string.h>

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* The maximum number of bytes of a name, and of all arguments together, that an error quotes. */
#define QUOTE_MAX 128

/* name, arity, flags, three positions of keys, categories, tips, key specifications, subcommands */
#define INFO_VALUES 10

/* A flag derived from the access level of a command; not part of enum ration_command_flag. */
#define NO_AUTH (1u << 31)

static const struct {
    unsigned flag;
    const char *word;     /* the word among the flags, or NULL */
    const char *category; /* the category for access control lists, or NULL */
} flag_words[] = {
    {RATION_COMMAND_WRITE, "write", "@write"},
    {RATION_COMMAND_READONLY, "readonly", "@read"},
    {RATION_COMMAND_ADMIN, "admin", "@admin"},
    {RATION_COMMAND_FAST, "fast", "@fast"},
    {NO_AUTH, "no_auth", NULL},
};

static void write_flags(struct ration_output *output, const struct ration_command *command)
{
    unsigned flags = command->flags | (command->access == RATION_ACCESS_OPEN ? NO_AUTH : 0);
    size_t count = 0;
    for (size_t i = 0; i < COUNT_OF(flag_words); i++)
        count += (flags & flag_words[i].flag) != 0;
    ration_resp_write_array(output, count);
    for (size_t i = 0; i < COUNT_OF(flag_words); i++) {
        if (flags & flag_words[i].flag)
            ration_resp_write_simple(output, flag_words[i].word);
    }
}

static void write_categories(struct ration_output *output, const struct ration_command *command)
{
    bool is_slow = !(command->flags & RATION_COMMAND_FAST);
    bool is_connection = !strcmp(command->group, "connection");
    size_t count = (size_t)is_slow + is_connection;
    for (size_t i = 0; i < COUNT_OF(flag_words); i++)
        count += (command->flags & flag_words[i].flag) && flag_words[i].category;
    ration_resp_write_array(output, count);
    for (size_t i = 0; i < COUNT_OF(flag_words); i++) {
        if ((command->flags & flag_words[i].flag) && flag_words[i].category)
            ration_resp_write_simple(output, flag_words[i].category);
    }
    if (is_slow)
        ration_resp_write_simple(output, "@slow");
    if (is_connection)
        ration_resp_write_simple(output, "@connection");
}

static void write_name(struct ration_output *output, const struct ration_command *command)
{
    ration_resp_write_bulk(output, command->name, command->name_size);
}

static void write_info(struct ration_output *output, const struct ration_command *command)
{
    ration_resp_write_array(output, INFO_VALUES);
    write_name(output, command);
    ration_resp_write_integer(output, command->arity);
    write_flags(output, command);
    ration_resp_write_integer(output, command->first_key);
    ration_resp_write_integer(output, command->last_key);
    ration_resp_write_integer(output, command->key_step);
    write_categories(output, command);
    ration_resp_write_array(output, 0);
    ration_resp_write_array(output, 0);
    ration_resp_write_array(output, 0);
}

void ration_commands_write_all(struct ration_output *output)
{
    ration_resp_write_array(output, RATION_COMMAND_COUNT);
    for (size_t i = 0; i < RATION_COMMAND_COUNT; i++)
        write_info(output, &ration_commands[i]);
}

void ration_commands_write_info(struct ration_output *output, enum ration_resp_version version,
                                const struct ration_key *names, size_t name_count)
{
    ration_resp_write_array(output, name_count);
    for (size_t i = 0; i < name_count; i++) {
        const struct ration_command *command = ration_commands_find(names[i].bytes, names[i].size);
        if (command)
            write_info(output, command);
        else
            ration_resp_write_null(output, version);
    }
}

void ration_commands_write_count(struct ration_output *output)
{
    ration_resp_write_integer(output, RATION_COMMAND_COUNT);
}

void ration_commands_write_list(struct ration_output *output)
{
    ration_resp_write_array(output, RATION_COMMAND_COUNT);
    for (size_t i = 0; i < RATION_COMMAND_COUNT; i++)
        write_name(output, &ration_commands[i]);
}

static void write_pair(struct ration_output *output, const char *name, const char *value)
{
    ration_resp_write_bulk_text(output, name);
    ration_resp_write_bulk_text(output, value);
}

/* The maximum nesting of arguments, such as a oneof in a block in the arguments. */
#define DEPTH_MAX 4

static void write_arguments(struct ration_output *output, enum ration_resp_version version,
                            const struct ration_command_argument *arguments, size_t count,
                            unsigned depth);

static void write_argument(struct ration_output *output, enum ration_resp_version version,
                           const struct ration_command_argument *argument, unsigned depth)
{
    size_t flag_count = (size_t)argument->is_optional + argument->is_multiple;
    bool has_parts = argument->part_count > 0 && depth < DEPTH_MAX;
    size_t pair_count = 2 + (size_t)(argument->token != NULL) + (flag_count > 0) + has_parts;
    ration_resp_write_map(output, version, pair_count);
    write_pair(output, "name", argument->name);
    write_pair(output, "type", argument->type);
    if (argument->token)
        write_pair(output, "token", argument->token);
    if (flag_count > 0) {
        ration_resp_write_bulk_text(output, "flags");
        ration_resp_write_array(output, flag_count);
        if (argument->is_optional)
            ration_resp_write_simple(output, "optional");
        if (argument->is_multiple)
            ration_resp_write_simple(output, "multiple");
    }
    if (has_parts) {
        ration_resp_write_bulk_text(output, "arguments");
        write_arguments(output, version, argument->parts, argument->part_count, depth + 1);
    }
}

static void write_arguments(struct ration_output *output, enum ration_resp_version version,
                            const struct ration_command_argument *arguments, size_t count,
                            unsigned depth)
{
    ration_resp_write_array(output, count);
    for (size_t i = 0; i < count; i++)
        write_argument(output, version, &arguments[i], depth);
}

static void write_docs(struct ration_output *output, enum ration_resp_version version,
                       const struct ration_command *command)
{
    bool has_arguments = command->argument_count > 0;
    write_name(output, command);
    ration_resp_write_map(output, version, 4 + has_arguments);
    write_pair(output, "summary", command->summary);
    write_pair(output, "since", command->since);
    write_pair(output, "group", command->group);
    write_pair(output, "complexity", command->complexity);
    if (has_arguments) {
        ration_resp_write_bulk_text(output, "arguments");
        write_arguments(output, version, command->arguments, command->argument_count, 1);
    }
}

void ration_commands_write_docs(struct ration_output *output, enum ration_resp_version version,
                                const struct ration_key *names, size_t name_count)
{
    bool is_all = name_count == 0;
    size_t count = is_all ? RATION_COMMAND_COUNT : 0;
    for (size_t i = 0; i < name_count; i++)
        count += ration_commands_find(names[i].bytes, names[i].size) != NULL;
    ration_resp_write_map(output, version, count);
    for (size_t i = 0; i < (is_all ? RATION_COMMAND_COUNT : name_count); i++) {
        const struct ration_command *command =
            is_all ? &ration_commands[i] : ration_commands_find(names[i].bytes, names[i].size);
        if (command)
            write_docs(output, version, command);
    }
}

/* An error message of bounded size. The longest message quotes twice QUOTE_MAX bytes. */
struct text {
    char bytes[3 * QUOTE_MAX + 128];
    size_t size;
};

static void append_bytes(struct text *text, const void *bytes, size_t size)
{
    size_t room = sizeof(text->bytes) - text->size;
    if (size > room)
        size = room;
    memcpy(text->bytes + text->size, bytes, size);
    text->size += size;
}

static void append_text(struct text *text, const char *words)
{
    append_bytes(text, words, strlen(words));
}

static void append_quote(struct text *text, const struct ration_key *word, size_t size_max)
{
    append_bytes(text, word->bytes, word->size < size_max ? word->size : size_max);
}

static void write_text(struct ration_output *output, const struct text *text)
{
    ration_resp_write_error_bytes(output, text->bytes, text->size);
}

void ration_commands_write_unknown(struct ration_output *output, const struct ration_key *words,
                                   size_t word_count)
{
    struct text text = {.size = 0};
    append_text(&text, "ERR unknown command '");
    append_quote(&text, &words[0], QUOTE_MAX);
    append_text(&text, "', with args beginning with: ");
    size_t begin = text.size;
    for (size_t i = 1; i < word_count && text.size - begin < QUOTE_MAX; i++) {
        append_text(&text, "'");
        append_quote(&text, &words[i], QUOTE_MAX - (text.size - 1 - begin));
        append_text(&text, "' ");
    }
    write_text(output, &text);
}

void ration_commands_write_arity(struct ration_output *output, const char *name)
{
    struct text text = {.size = 0};
    append_text(&text, "ERR wrong number of arguments for '");
    append_bytes(&text, name, strnlen(name, QUOTE_MAX));
    append_text(&text, "' command");
    write_text(output, &text);
}

void ration_commands_write_no_permission(struct ration_output *output,
                                         const struct ration_command *command, const char *user,
                                         bool has_admin_secret)
{
    struct text text = {.size = 0};
    append_text(&text, "NOPERM User ");
    append_text(&text, user);
    append_text(&text, " has no permissions to run the '");
    append_text(&text, command->name);
    append_text(&text, has_admin_secret ? "' command: it needs the admin secret"
                                        : "' command: the server has no admin secret");
    write_text(output, &text);
}

void ration_commands_write_unknown_subcommand(struct ration_output *output,
                                              const struct ration_command *command,
                                              const struct ration_key *subcommand)
{
    struct text text = {.size = 0};
    append_text(&text, "ERR unknown subcommand '");
    append_quote(&text, subcommand, QUOTE_MAX);
    append_text(&text, "'. Try ");
    for (size_t i = 0; i < command->name_size; i++) {
        char byte = command->name[i];
        char upper = byte >= 'a' && byte <= 'z' ? (char)(byte - 'a' + 'A') : byte;
        append_bytes(&text, &upper, 1);
    }
    append_text(&text, " HELP.");
    write_text(output, &text);
}

void ration_commands_write_hello_option(struct ration_output *output,
                                        const struct ration_key *option)
{
    struct text text = {.size = 0};
    append_text(&text, "ERR Syntax error in HELLO option '");
    append_quote(&text, option, QUOTE_MAX);
    append_text(&text, "'");
    write_text(output, &text);
}
