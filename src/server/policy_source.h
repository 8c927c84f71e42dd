/*
 * policy_source: where a server's policy comes from, and what it says of the server.
 */
#ifndef RATION_SERVER_POLICY_SOURCE_H
#define RATION_SERVER_POLICY_SOURCE_H

#include "ration/policy.h"
#include "server/settings.h"

/* A line for a person: FILE:LINE:COLUMN: what is wrong. Borrowed for the call. */
typedef void ration_policy_line_fn(void *context, const char *line);

/*
 * Reads the policy that given names, or the built-in one, and completes given with its section server:. All
 * faults are told to tell as lines. *out_policy is owned by the caller, *out_settings is released with
 * ration_settings_done(). Returns RATION_EINVAL, RATION_ENOMEM; outputs are then untouched.
 */
ration_status ration_policy_source_read(const struct ration_settings *given,
                                        ration_policy_line_fn *tell, void *context,
                                        ration_policy **out_policy,
                                        struct ration_settings *out_settings);

#endif
