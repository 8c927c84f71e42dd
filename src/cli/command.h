/* The commands of `ration`, one file each. Each returns the process' exit status. */
#ifndef RATION_CLI_COMMAND_H
#define RATION_CLI_COMMAND_H

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* Exit statuses: success, a negative result, the command could not be executed. */
enum { EXIT_DONE = 0, EXIT_NO = 1, EXIT_USAGE = 2 };

/*
 * Whether the only argument requests help, which is printed to the standard output and is no error.
 */
static inline bool ration_command_asks_help(int argument_count, char **arguments)
{
    return argument_count == 1 &&
           (strcmp(arguments[0], "--help") == 0 || strcmp(arguments[0], "-h") == 0);
}

/*
 * Reports a word that is neither an option nor a subcommand: "COMMAND: unknown WHAT 'WORD'; did you mean PREFIX NAME", with the
 * most similar of names, or a pointer to the help if none is similar. Returns EXIT_USAGE.
 */
int ration_command_reject_word(const char *command, const char *what, const char *word,
                               const char *prefix, const char *const *names, size_t name_count);

/* Writes the name of an option's environment variable: prefix, and the name in upper case. Returns buffer. */
static inline const char *ration_command_variable(const char *prefix, const char *name,
                                                  char buffer[64])
{
    size_t used = (size_t)snprintf(buffer, 64, "%s", prefix);

    for (; *name != '\0' && used < 63; name++)
        buffer[used++] = (char)(*name == '-' ? '_' : toupper((unsigned char)*name));
    buffer[used] = '\0';
    return buffer;
}

/*
 * Warns of each variable that begins with RATION_, that no command reads, and whose name is similar to one that a
 * command does. Others are ignored, because orchestrators set such ones.
 */
void ration_command_warn_of_variables(const char *command, char *const *environment);

/* The names of the options that are also variables, without dashes; NULL after the last. */
const char *ration_command_check_option(size_t index);
const char *ration_command_bench_option(size_t index);

/* ration limit TEXT...: explains a limit, or what is wrong with it. */
int ration_command_limit(int argument_count, char **arguments);

/* ration clock: lists the clocks, and whether the CPU's time stamp counter can be trusted. */
int ration_command_clock(int argument_count, char **arguments);

/* ration policy check|explain FILE ...: checks a policy file, or applies it to a request. */
int ration_command_policy(int argument_count, char **arguments);

/* ration bench [resp|http] ...: loads a server and measures it. */
int ration_command_bench(int argument_count, char **arguments);

/* ration serve ...: runs a server until it receives a signal to stop. */
int ration_command_serve(int argument_count, char **arguments);

/* ration check ... NAME=VALUE...: sends a check to a running server. */
int ration_command_check(int argument_count, char **arguments);

#endif
