#include <stdio.h>
#include <string.h>

#include "command.h"
#include "ration/ration.h"
#include "server/ops/settings.h"

struct command {
    const char *name;
    int (*run)(int argument_count, char **arguments);
    const char *summary;
};

static const struct command commands[] = {
    {"serve", command_serve, "run a server for HTTP and the Redis protocol"},
    {"check", command_check, "ask a server whether a request is allowed"},
    {"policy", command_policy, "check a policy file, or explain it for one request"},
    {"limit", command_limit, "explain a limit, such as 20 per 100ms burst 100"},
    {"clock", command_clock, "list the clocks of this machine and their cost"},
    {"bench", command_bench, "put load on a server and measure it"},
};

#define COMMAND_COUNT (sizeof(commands) / sizeof(commands[0]))

static void print_help(FILE *stream)
{
    fprintf(stream, "ration %s: an exact, lock-free rate limiter\n\nusage: ration COMMAND ...\n\n",
            ration_version());
    for (size_t index = 0; index < COMMAND_COUNT; index++)
        fprintf(stream, "  %-10s  %s\n", commands[index].name, commands[index].summary);
    fprintf(stream, "  --version   print the version\n"
                    "  --help      print this\n\n"
                    "ration COMMAND --help describes a command.\n\n"
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
    const char *names[COMMAND_COUNT], *nearest;

    for (size_t index = 0; index < COMMAND_COUNT; index++)
        names[index] = commands[index].name;
    nearest = ration_settings_nearest_word(name, names, COMMAND_COUNT);
    fprintf(stderr, "ration: unknown command '%.64s'; %s%s\n", name,
            nearest != NULL ? "did you mean ration " : "see ration --help",
            nearest != NULL ? nearest : "");
    return EXIT_USAGE;
}

int main(int argument_count, char **arguments)
{
    const char *name = argument_count > 1 ? arguments[1] : "--help";
    const struct command *command = find_command(name);

    if (command != NULL)
        return command->run(argument_count - 2, arguments + 2);
    if (strcmp(name, "help") == 0 && argument_count == 3) { /* ration help COMMAND */
        command = find_command(arguments[2]);
        return command != NULL ? command->run(1, (char *[]){(char[]){"--help"}, NULL})
                               : reject_command(arguments[2]);
    }
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0) {
        print_help(stdout);
        return argument_count > 1 ? EXIT_DONE : EXIT_USAGE;
    }
    if (strcmp(name, "--version") == 0) {
        printf("ration %s\n", ration_version());
        return EXIT_DONE;
    }
    return reject_command(name);
}
