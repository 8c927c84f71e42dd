/*
 * server: `ration serve` put together: policy, gate, loops, services, signals, state.
 */
#ifndef RATION_SERVER_SERVER_H
#define RATION_SERVER_SERVER_H

#include <stdbool.h>

#include "server/settings.h"

/*
 * Runs a server until SIGTERM or SIGINT, and tells on the standard error what happens. given is what the
 * command line said (borrowed); the policy's section server: is added to it. False if it could not be
 * started, or could not keep its state at the end: the reason was told. Secrets in given are hidden once they are used
 * (ration_settings_hide_secrets).
 */
bool ration_server_run(struct ration_settings *given);

#endif
