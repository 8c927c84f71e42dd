/* ration serve: runs a server in the foreground. */
#include <stdio.h>
#include <string.h>

#include "command.h"
#include "server/ops/credentials.h"
#include "server/ops/server.h"
#include "server/ops/settings.h"

static void print_help(void)
{
    printf("usage: ration serve [options]\n\n"
           "Decides whether requests are allowed, over HTTP and the Redis protocol. SIGHUP reloads "
           "the\npolicy; SIGTERM and SIGINT shut the server down after pending requests are "
           "answered.\nEach option except --policy may also be set in the section server: of the "
           "policy, without\nthe leading dashes; the command line takes precedence. Defaults are "
           "in brackets.\n");
    ration_settings_print_help(stdout);
    printf(
        "  --settings                         print all settings, separated by tabs\n"
        "  --access                           print the access that each route and command needs\n"
        "  --help                             print this\n");
}

static void print_error(void *unused, const struct ration_policy_error *error)
{
    (void)unused;
    fprintf(stderr, "ration serve: %s\n", error->message);
}

int command_serve(int argument_count, char **arguments)
{
    struct ration_settings settings;
    ration_status status;
    bool is_ok;

    for (int i = 0; i < argument_count; i++) {
        if (strcmp(arguments[i], "--help") == 0 || strcmp(arguments[i], "-h") == 0) {
            print_help();
            return EXIT_DONE;
        }
        if (strcmp(arguments[i], "--settings") == 0) {
            ration_settings_print_list(stdout);
            return EXIT_DONE;
        }
        if (strcmp(arguments[i], "--access") == 0) {
            ration_credentials_print_list(stdout);
            return EXIT_DONE;
        }
    }
    ration_settings_init(&settings);
    status =
        ration_settings_read_arguments(&settings, argument_count, arguments, print_error, NULL);
    ration_settings_hide_arguments(argument_count, arguments);
    if (status != RATION_OK) {
        if (status == RATION_ENOMEM)
            fprintf(stderr, "ration serve: out of memory\n");
        ration_settings_done(&settings);
        return EXIT_USAGE;
    }
    is_ok = ration_server_run(&settings);
    ration_settings_done(&settings);
    return is_ok ? EXIT_DONE : EXIT_USAGE;
}
