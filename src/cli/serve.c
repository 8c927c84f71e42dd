/*
 * ration serve: a server in the foreground.
 */
#include <stdio.h>
#include <string.h>

#include "command.h"
#include "server/credentials.h"
#include "server/server.h"
#include "server/settings.h"

static void print_help(void)
{
    printf(
        "usage: ration serve [options]\n\n"
        "Answers whether requests may go on, by HTTP and by the Redis protocol. SIGHUP reads the\n"
        "policy anew; SIGTERM and SIGINT end the server when requests under way are answered.\n"
        "Each option but --policy may also stand in the policy's section server:, without dashes\n"
        "in front; the command line wins. Defaults are in brackets.\n");
    ration_settings_print_help(stdout);
    printf(
        "  --settings                         print all settings, apart by tabs\n"
        "  --access                           print the access that each route and command needs\n"
        "  --help                             print this\n");
}

static void print_fault(void *unused, const struct ration_policy_fault *fault)
{
    (void)unused;
    fprintf(stderr, "ration serve: %s\n", fault->message);
}

int command_serve(int argument_count, char **arguments)
{
    struct ration_settings settings;
    ration_status status;
    bool is_well;

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
        ration_settings_read_arguments(&settings, argument_count, arguments, print_fault, NULL);
    ration_settings_hide_arguments(argument_count, arguments);
    if (status != RATION_OK) {
        if (status == RATION_ENOMEM)
            fprintf(stderr, "ration serve: no memory\n");
        ration_settings_done(&settings);
        return EXIT_USAGE;
    }
    is_well = ration_server_run(&settings);
    ration_settings_done(&settings);
    return is_well ? EXIT_DONE : EXIT_USAGE;
}
