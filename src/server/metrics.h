/*
 * metrics: what the server counts, in Prometheus' text format 0.0.4.
 *
 * Series are bounded by the policy: one per limit and result. Keys appear for the top keys only, at
 * most RATION_METRICS_KEYS_MAX of them, since a series per key would be as many as attackers like,
 * and only to whom shows_keys allows, since keys may be names of people.
 */
#ifndef RATION_SERVER_METRICS_H
#define RATION_SERVER_METRICS_H

#include "base/output.h"
#include "server/service.h"

#define RATION_METRICS_KEYS_MAX 20

void ration_metrics_write(struct ration_service *service, uint64_t now_ns, bool shows_keys,
                          struct ration_output *output);

/* Memory that the process has, as far as it is in RAM. 0: not known. */
uint64_t ration_metrics_resident_bytes(void);

#endif
