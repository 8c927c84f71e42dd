#include <stdio.h>
#include <string.h>

#include "command.h"
#include "ration/ration.h"

struct command {
    const char *name;
    int (*run)(int argument_count, char **arguments);
    const char *summary;
    const char *task; /* a heading; NULL: the same as the command before */
};

static const struct command commands[] = {
    {"serve", ration_command_serve, "run a server for HTTP and the Redis protocol", "Server"},
    {"check", ration_command_check, "ask a server whether a request is allowed", NULL},
    {"policy", ration_command_policy, "check a policy file, or explain it for one request",
     "Policies and limits"},
    {"limit", ration_command_limit, "explain a limit, such as 20 per 100ms burst 100", NULL},
    {"clock", ration_command_clock, "list the clocks of this machine and their cost",
     "Measurements"},
    {"bench", ration_command_bench, "put load on a server and measure it", NULL},
};

#define COMMAND_COUNT (sizeof(commands) / sizeof(commands[0]))

static void print_help(FILE *stream)
{
    fprintf(stream, "ration %s: an exact, lock-free rate limiter\n\nusage: ration COMMAND ...\n",
            ration_version());
    for (size_t index = 0; index < COMMAND_COUNT; index++) {
        if (commands[index].task != NULL)
            fprintf(stream, "\n%s:\n", commands[index].task);
        fprintf(stream, "  %-13s  %s\n", commands[index].name, commands[index].summary);
    }
    fprintf(stream, "\nOptions:\n"
                    "  -V, --version  print the version\n"
                    "  -h, --help     print this\n\n"
                    "ration COMMAND --help and ration help COMMAND describe a command.\n\n"
                    "Example: ration serve --policy policy.yaml\n");
}

static const struct command *find_command(const char *name)
{
    for (size_t index = 0; index < COMMAND_COUNT; index++) {
        if (strcmp(name, commands[index].name) == 0)
            return &commands[index];
    }
    return NULL;
}

static int reject_command(const char *name)
{
    static const char *const options[] = {"--help", "--version"};
    const char *names[COMMAND_COUNT + 1] = {"help"};

    if (name[0] == '-')
        return ration_command_reject_word("ration", "option", name, "ration ", options, 2);
    for (size_t index = 0; index < COMMAND_COUNT; index++)
        names[index + 1] = commands[index].name;
    return ration_command_reject_word("ration", "command", name, "ration ", names,
                                      COMMAND_COUNT + 1);
}

int main(int argument_count, char **arguments)
{
    const char *name = argument_count > 1 ? arguments[1] : "--help";
    const struct command *command = find_command(name);

    if (command != NULL)
        return command->run(argument_count - 2, arguments + 2);
    if (strcmp(name, "help") == 0 && argument_count > 2) { /* ration help COMMAND [SUBCOMMAND] */
        command = find_command(arguments[2]);
        return command != NULL ? command->run(1, (char *[]){(char[]){"--help"}, NULL})
                               : reject_command(arguments[2]);
    }
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0) {
        print_help(stdout);
        return argument_count > 1 ? EXIT_DONE : EXIT_USAGE;
    }
    if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0) {
        printf("ration %s\n", ration_version());
        return EXIT_DONE;
    }
    return reject_command(name);
}
