/* overlap: finds limits that may apply to the same request. */
#ifndef RATION_POLICY_OVERLAP_H
#define RATION_POLICY_OVERLAP_H

#include "policy/schema.h"

/*
 * Records an error for each leaky_queue limit that may apply to a request together with another
 * limit: a leaky queue makes its callers wait, and this cannot be decided atomically with limits
 * that deny.
 */
void ration_overlap_check(struct ration_schema *schema);

#endif
