/*
 * metrics: what the server counts, in Prometheus' text format 0.0.4.
 *
 * Series are bounded by the policy: one per limit and result. Keys appear for the top keys only, at
 * most RATION_METRICS_KEYS_MAX of them, since a series per key would be as many as attackers like,
 * and only to whom shows_keys allows, since keys may be names of people.
 */
#ifndef RATION_SERVER_METRICS_H
#define RATION_SERVER_METRICS_H

#include "server/top.h"
#include "server/walk.h"

#define RATION_METRICS_KEYS_MAX 20

struct ration_metrics_report;

/* A walk whose text are the metrics. The caller sets shows_keys and top.now_ns. */
struct ration_metrics_walk {
    struct ration_walk walk;
    bool shows_keys;
    struct ration_top_list top;
    struct ration_metrics_report
        *reports; /* owned: one per limit, in the end that of inline ones */
    size_t report_count;
    size_t family; /* that is written, from next_report on */
    size_t next_report;
};

/* As in struct ration_walk_kind. */
void ration_metrics_begin(struct ration_walk *walk);
void ration_metrics_visit(struct ration_walk *walk, const struct ration_visit *visit, size_t first,
                          size_t count);
bool ration_metrics_rest(struct ration_walk *walk);
void ration_metrics_free(struct ration_walk *walk);

/* Memory that the process has, as far as it is in RAM. 0: not known. */
uint64_t ration_metrics_resident_bytes(void);

#endif
