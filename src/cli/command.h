/* The commands of `ration`, one file each. Each returns the process' exit status. */
#ifndef RATION_CLI_COMMAND_H
#define RATION_CLI_COMMAND_H

#include <stdbool.h>
#include <string.h>

/* Exit statuses: done, the answer is no, the command could not be carried out. */
enum { EXIT_DONE = 0, EXIT_NO = 1, EXIT_USAGE = 2 };

/* Whether the only argument asks for help, which goes to the standard output and is no mistake. */
static inline bool command_asks_help(int argument_count, char **arguments)
{
    return argument_count == 1 &&
           (strcmp(arguments[0], "--help") == 0 || strcmp(arguments[0], "-h") == 0);
}

/* ration limit TEXT...: what a limit means, or what is wrong with it. */
int command_limit(int argument_count, char **arguments);

/* ration clock: which clocks there are, and whether the CPU's counter can be trusted. */
int command_clock(int argument_count, char **arguments);

/* ration policy check|explain FILE ...: a policy file, and what it says of a request. */
int command_policy(int argument_count, char **arguments);
/* ration bench [resp|http] ...: loads a server and measures it. */
int command_bench(int argument_count, char **arguments);

/* ration serve ...: a server, until it is told to end. */
int command_serve(int argument_count, char **arguments);

/* ration check ... NAME=VALUE...: asks a server that runs. */
int command_check(int argument_count, char **arguments);

#endif
