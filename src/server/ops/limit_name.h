/*
 * limit_name: finds the limit that a client names, or the error for a name that is unknown; and describes a limit, for
 * every protocol.
 *
 * Names come from untrusted clients: they are compared in full, whatever their size and bytes.
 */
#ifndef RATION_SERVER_OPS_LIMIT_NAME_H
#define RATION_SERVER_OPS_LIMIT_NAME_H

#include <stdbool.h>

#include "codec/json/admin_answer.h"
#include "ration/engine.h"

#define RATION_LIMIT_NAME_TEXT_SIZE 640

/* The limits among which a name is looked up. */
enum ration_limit_names {
    RATION_LIMIT_NAMES_POLICY = 0, /* a limit of the policy */
    RATION_LIMIT_NAMES_ALL         /* also RATION_POLICY_INLINE */
};

/*
 * Returns the name as the policy stores it, valid while the guard is held; NULL if there is no such limit. Then
 * reason is one sentence without its full stop, with the most similar name or a list of the names.
 */
const char *ration_limit_name_find(const struct ration_engine_guard *guard,
                                   enum ration_limit_names among, const struct ration_key *name,
                                   char reason[RATION_LIMIT_NAME_TEXT_SIZE]);

/* Describes the limit at an index of the policy. The calling thread holds the guard. */
void ration_limit_list_get(const struct ration_engine_guard *guard, size_t limit_index,
                           struct ration_admin_limit *out_limit);

#endif
