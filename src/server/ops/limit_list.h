/*
 * limit_list: the description of a limit of the policy, for every protocol.
 */
#ifndef RATION_SERVER_OPS_LIMIT_LIST_H
#define RATION_SERVER_OPS_LIMIT_LIST_H

#include "codec/json/admin_answer.h"
#include "ration/engine.h"

/* Describes the limit at an index of the policy. The calling thread holds the guard. */
void ration_limit_list_get(const struct ration_engine_guard *guard, size_t limit_index,
                           struct ration_admin_limit *out_limit);

#endif
