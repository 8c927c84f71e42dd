/*
 * overlap: limits that may apply to one request together.
 */
#ifndef RATION_POLICY_OVERLAP_H
#define RATION_POLICY_OVERLAP_H

#include "policy/schema.h"

/*
 * Notes a fault for each leaky-queue that may apply to a request together with another limit: it makes
 * its callers wait, which cannot be decided together with what refuses them.
 */
void ration_overlap_check(struct ration_schema *schema);

#endif
