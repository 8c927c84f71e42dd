/*
 * limit_name: a limit that a client names, and what to say of a name that is none.
 *
 * Names are bytes of strangers: they are compared whole, whatever their size and bytes.
 */
#ifndef RATION_SERVER_LIMIT_NAME_H
#define RATION_SERVER_LIMIT_NAME_H

#include <stdbool.h>

#include "ration/gate.h"

#define RATION_LIMIT_NAME_TEXT_SIZE 640

/* What a name may be of. */
enum ration_limit_names {
    RATION_LIMIT_NAMES_POLICY = 0, /* a limit of the policy */
    RATION_LIMIT_NAMES_ALL         /* also RATION_POLICY_THROTTLE */
};

/*
 * The name as the policy has it, which lives as long as the visit; NULL if there is no such limit. The
 * reason is then one sentence without its full stop, with a name that may be meant, or those that there
 * are.
 */
const char *ration_limit_name_find(const struct ration_visit *visit, enum ration_limit_names among,
                                   const struct ration_key *name,
                                   char reason[RATION_LIMIT_NAME_TEXT_SIZE]);

#endif
