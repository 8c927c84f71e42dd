/*
 * server: `ration serve`: creates the policy, engine, loops and listeners, handles signals, saves the state.
 */
#ifndef RATION_SERVER_OPS_SERVER_H
#define RATION_SERVER_OPS_SERVER_H

#include <stdbool.h>

#include "server/ops/settings.h"

/*
 * Runs a server until SIGTERM or SIGINT, and logs to standard error. given are the settings of the command line
 * (borrowed); the policy's server: section completes them. Secrets in given are hidden once they are used
 * (ration_settings_hide_secrets). False if the server could not start, or could not save its state at shutdown;
 * the reason was logged.
 */
bool ration_server_run(struct ration_settings *given);

#endif
