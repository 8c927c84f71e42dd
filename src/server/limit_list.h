/*
 * limit_list: what is told of a limit of the policy, by every protocol.
 */
#ifndef RATION_SERVER_LIMIT_LIST_H
#define RATION_SERVER_LIMIT_LIST_H

#include "proto/admin_answer.h"
#include "ration/gate.h"

/* Of the policy's limit at an index, for a thread that visits. */
void ration_limit_list_get(const struct ration_visit *visit, size_t limit_index,
                           struct ration_admin_limit *out_limit);

#endif
