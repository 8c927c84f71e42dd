/*
 * policy_source: reads a server's policy and the server settings in it.
 */
#ifndef RATION_SERVER_OPS_POLICY_SOURCE_H
#define RATION_SERVER_OPS_POLICY_SOURCE_H

#include "ration/policy.h"
#include "server/ops/settings.h"

/* Receives one error as a line: "FILE:LINE:COLUMN: message". Borrowed for the call. */
typedef void ration_policy_line_func(void *context, const char *line);

/*
 * Reads the policy file that given names, or the built-in policy, and completes a copy of given with the policy's
 * server: section. Calls report for each error. *out_policy is owned by the caller, *out_settings is released with
 * ration_settings_done(). Returns RATION_EINVAL, RATION_ENOMEM; outputs are then untouched.
 */
ration_status ration_policy_source_read(const struct ration_settings *given,
                                        ration_policy_line_func *report, void *context,
                                        ration_policy **out_policy,
                                        struct ration_settings *out_settings);

#endif
