/* ration serve: runs a server in the foreground. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "command.h"
#include "server/ops/credentials.h"
#include "server/ops/server.h"
#include "server/ops/settings.h"

static void print_help(void)
{
    fputs("usage: ration serve [options]\n\n"
          "Runs the rate limit server, which answers over HTTP and the Redis protocol.\n"
          "SIGHUP reloads the policy. SIGTERM and SIGINT finish pending requests and exit.\n\n"
          "Each option is also an environment variable (--max-input: RATION_MAX_INPUT)\n"
          "and, except --policy, a field of the policy's section server: (max_input).\n"
          "The command line overrides the environment, which overrides the policy.\n"
          "Times have a unit (250ms, 10s), sizes may have one (16KB, 1MiB), and the\n"
          "elements of a list are separated by commas. Defaults are in brackets.\n\n"
          "Example: ration serve --policy policy.yaml --http 8429 --threads 2\n",
          stdout);
    ration_settings_print_help(stdout);
    fputs("  --print-settings              Print all settings, separated by tabs\n"
          "  --access                      Print the access each route and command needs\n"
          "  --help                        Print this\n",
          stdout);
}

static void print_error(void *unused, const struct ration_policy_error *error)
{
    (void)unused;
    fprintf(stderr, "ration serve: %s\n", error->message);
}

int ration_command_serve(int argument_count, char **arguments)
{
    struct ration_settings settings;
    ration_status status, arguments_status;
    bool is_ok;

    for (int i = 0; i < argument_count; i++) {
        if (strcmp(arguments[i], "--help") == 0 || strcmp(arguments[i], "-h") == 0) {
            print_help();
            return EXIT_DONE;
        }
        if (strcmp(arguments[i], "--print-settings") == 0) {
            ration_settings_print_list(stdout);
            return EXIT_DONE;
        }
        if (strcmp(arguments[i], "--access") == 0) {
            ration_credentials_print_list(stdout);
            return EXIT_DONE;
        }
    }
    ration_command_warn_of_variables("ration serve", environ);
    ration_settings_init(&settings);
    status = ration_settings_read_environment(&settings, environ, print_error, NULL);
    arguments_status =
        ration_settings_read_arguments(&settings, argument_count, arguments, print_error, NULL);
    ration_settings_hide_environment(environ);
    ration_settings_hide_arguments(argument_count, arguments);
    if (status != RATION_OK || arguments_status != RATION_OK) {
        if (status == RATION_ENOMEM || arguments_status == RATION_ENOMEM)
            fprintf(stderr, "ration serve: out of memory\n");
        ration_settings_done(&settings);
        return EXIT_USAGE;
    }
    is_ok = ration_server_run(&settings);
    ration_settings_done(&settings);
    return is_ok ? EXIT_DONE : EXIT_USAGE;
}
