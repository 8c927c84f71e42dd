/*
 * metrics: the server's counters, in Prometheus' text format 0.0.4.
 *
 * The policy bounds the number of series: one per limit and result. Keys appear only for the top keys, at
 * most RATION_METRICS_KEYS_MAX of them, since an attacker could create any number of series if there were one
 * per key, and only if shows_keys is set, since keys may be names of people.
 */
#ifndef RATION_SERVER_OPS_METRICS_H
#define RATION_SERVER_OPS_METRICS_H

#include "server/ops/top.h"
#include "server/ops/walk.h"

#define RATION_METRICS_KEYS_MAX 20

struct ration_metrics_report;

/* A walk whose text is the metrics. The caller sets shows_keys and top.now_ns. */
struct ration_metrics_walk {
    struct ration_walk walk;
    bool shows_keys;
    struct ration_top_list top;
    struct ration_metrics_report *reports; /* owned: one per limit, then one for inline limits */
    size_t report_count;
    size_t family; /* index of the family that is being written, from next_report on */
    size_t next_report;
};

/* Members of a struct ration_walk_kind. */
void ration_metrics_begin(struct ration_walk *walk);
void ration_metrics_visit(struct ration_walk *walk, const struct ration_engine_guard *guard,
                          size_t first, size_t count);
bool ration_metrics_finish(struct ration_walk *walk);
void ration_metrics_free(struct ration_walk *walk);

/* Resident memory of the process. 0: not known. */
uint64_t ration_metrics_resident_bytes(void);

#endif
