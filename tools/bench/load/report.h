/* report: writes the results of a run for people and for scripts. */
#ifndef RATION_LOAD_REPORT_H
#define RATION_LOAD_REPORT_H

#include <stdio.h>

#include "load/load.h"

/* The percentiles of every report. */
struct load_percentile {
    const char *name;
    uint32_t ppm;
};

#define LOAD_PERCENTILES_COUNT 5
extern const struct load_percentile load_percentiles[LOAD_PERCENTILES_COUNT];

/* Values derived from the counts; 0 if nothing was measured. */
double load_report_per_second(const struct load_result *result);
double load_report_cores(uint64_t cpu_ns, const struct load_result *result);
double load_report_cpu_ns_each(uint64_t cpu_ns, const struct load_result *result);
double load_report_bytes_each_idle(const struct load_plan *plan, const struct load_result *result);

/* Prints tables and a histogram. what describes the request, keys the distribution of keys. */
void load_report_print(FILE *stream, const struct load_plan *plan, const char *what,
                       const char *keys, const struct load_result *result);

/* Writes one JSON object to a file; "-" means the standard output. */
bool load_report_write_json(const char *path, const struct load_plan *plan, const char *what,
                            const char *keys, const struct load_result *result,
                            struct load_error *error);

#endif
