#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "load/report.h"

static json_t *make_number(uint64_t value)
{
    return json_integer((json_int_t)value);
}

static json_t *make_latencies(const struct load_histogram *histogram)
{
    json_t *object = json_object();

    for (size_t i = 0; i < LOAD_PERCENTILES_COUNT; i++)
        json_object_set_new(
            object, load_percentiles[i].name,
            make_number(load_histogram_percentile(histogram, load_percentiles[i].ppm)));
    json_object_set_new(object, "max", make_number(histogram->max_ns));
    json_object_set_new(
        object, "mean",
        json_real(histogram->count > 0 ? histogram->sum_ns / (double)histogram->count : 0));
    return object;
}

static json_t *describe_plan(const struct load_plan *plan, const char *what, const char *keys)
{
    return json_pack(
        "{s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:s, s:f, s:f}", "protocol",
        plan->protocol == LOAD_RESP ? "resp" : "http", "target", plan->target.text, "request", what,
        "keys", keys, "connections", (json_int_t)plan->connection_count, "pipeline",
        (json_int_t)plan->pipeline_count, "threads", (json_int_t)plan->thread_count, "idle",
        (json_int_t)plan->idle_count, "loop", plan->rate_per_second > 0 ? "open" : "closed", "rate",
        plan->rate_per_second, "warmup_seconds", (double)plan->warmup_ns / 1e9);
}

static void add_counts(json_t *object, const struct load_result *result)
{
    const struct load_totals *totals = &result->totals;

    json_object_set_new(object, "requests_per_second", json_real(load_report_per_second(result)));
    json_object_set_new(object, "measured", make_number(result->latency.count));
    json_object_set_new(object, "measured_seconds", json_real((double)result->measured_ns / 1e9));
    json_object_set_new(object, "sent", make_number(result->sent_count));
    json_object_set_new(object, "never_sent", make_number(result->never_sent_count));
    json_object_set_new(object, "answered", make_number(load_totals_total(totals)));
    json_object_set_new(object, "allowed", make_number(totals->allowed_count));
    json_object_set_new(object, "denied", make_number(totals->denied_count));
    json_object_set_new(object, "other", make_number(totals->other_count));
    json_object_set_new(object, "errors", make_number(totals->error_count));
    json_object_set_new(object, "first_error",
                        totals->error_count > 0
                            ? json_stringn_nocheck(totals->first_error, strlen(totals->first_error))
                            : json_null());
}

static void add_usage(json_t *object, const struct load_plan *plan,
                      const struct load_result *result)
{
    json_object_set_new(object, "client_cores",
                        json_real(load_report_cores(result->client_cpu_ns, result)));
    json_object_set_new(object, "client_cpu_ns",
                        json_real(load_report_cpu_ns_each(result->client_cpu_ns, result)));
    if (plan->server_pid == 0)
        return;
    json_object_set_new(object, "server_cores",
                        json_real(load_report_cores(result->server_cpu_ns, result)));
    json_object_set_new(object, "server_cpu_ns",
                        json_real(load_report_cpu_ns_each(result->server_cpu_ns, result)));
    json_object_set_new(object, "server_bytes_per_idle_connection",
                        json_real(load_report_bytes_each_idle(plan, result)));
}

bool load_report_write_json(const char *path, const struct load_plan *plan, const char *what,
                            const char *keys, const struct load_result *result,
                            struct load_error *error)
{
    json_t *object = describe_plan(plan, what, keys);
    bool is_written;

    if (object == NULL)
        return load_fail(error, "the request is not UTF-8 and cannot be written as JSON");
    add_counts(object, result);
    json_object_set_new(object, "latency_ns", make_latencies(&result->latency));
    if (plan->rate_per_second == 0) {
        json_object_set_new(object, "corrected_latency_ns", make_latencies(&result->corrected));
        json_object_set_new(object, "corrected_by_interval_ns", make_number(result->interval_ns));
    }
    add_usage(object, plan, result);
    if (strcmp(path, "-") == 0)
        is_written = json_dumpf(object, stdout, JSON_INDENT(2)) == 0 && fputc('\n', stdout) != EOF;
    else
        is_written = json_dump_file(object, path, JSON_INDENT(2)) == 0;
    json_decref(object);
    return is_written || load_fail(error, "cannot write %s: %s", path, strerror(errno));
}
