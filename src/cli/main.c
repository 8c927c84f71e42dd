#include <stdio.h>
#include <string.h>

#include "command.h"
#include "ration/ration.h"

struct command {
    const char *name;
    int (*run)(int argument_count, char **arguments);
    const char *summary;
};

static const struct command commands[] = {
    {"serve", command_serve,
     "serve           run a server for HTTP and the Redis protocol; ration serve --help"},
    {"check", command_check,
     "check NAME=VALUE...   ask a server whether a request is allowed; ration check --help"},
    {"limit", command_limit,
     "limit TEXT...   explain a limit, e.g. ration limit 20 per 100ms burst 100"},
    {"clock", command_clock,
     "clock           show the clocks, what a read costs and which is the default"},
    {"policy", command_policy,
     "policy ...      check a policy file, or explain how it applies to a request"},
    {"bench", command_bench,
     "bench ...       load a server on this host and measure it: ration bench --help"},
};

static void print_help(FILE *stream)
{
    fprintf(stream, "ration %s: an exact, lock-free rate limiter\n\nusage: ration COMMAND ...\n\n",
            ration_version());
    for (size_t index = 0; index < sizeof(commands) / sizeof(commands[0]); index++)
        fprintf(stream, "  %s\n", commands[index].summary);
    fprintf(stream, "  --version       print the version\n  --help          print this\n");
}

int main(int argument_count, char **arguments)
{
    const char *name = argument_count > 1 ? arguments[1] : "--help";

    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0) {
        print_help(stdout);
        return argument_count > 1 ? EXIT_DONE : EXIT_USAGE;
    }
    if (strcmp(name, "--version") == 0) {
        printf("ration %s\n", ration_version());
        return EXIT_DONE;
    }
    for (size_t index = 0; index < sizeof(commands) / sizeof(commands[0]); index++) {
        if (strcmp(name, commands[index].name) == 0)
            return commands[index].run(argument_count - 2, arguments + 2);
    }
    fprintf(stderr, "ration: unknown command '%s': see ration --help\n", name);
    return EXIT_USAGE;
}
