#include "server/ops/metrics.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define NUMBER_SIZE 32

static void write_head(struct ration_output *output, const char *name, const char *type,
                       const char *help)
{
    const char *const parts[] = {"# HELP ", name, " ", help, "\n# TYPE ", name, " ", type, "\n"};

    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        ration_output_append_text(output, parts[i]);
}

/*
 * Writes any bytes as a label's value. Bytes that are not printable ASCII become \xHH and a backslash \\,
 * so that two keys never share a series; the format requires each of those backslashes to be doubled.
 */
static void write_label_value(struct ration_output *output, const void *value, size_t size)
{
    static const char digits[] = "0123456789abcdef";
    const unsigned char *bytes = value;

    ration_output_append_byte(output, '"');
    for (size_t i = 0; i < size; i++) {
        const char escaped[] = {'\\', '\\', 'x', digits[bytes[i] >> 4], digits[bytes[i] & 15]};

        if (bytes[i] == '\\')
            ration_output_append(output, "\\\\\\\\", 4);
        else if (bytes[i] == '"')
            ration_output_append(output, "\\\"", 2);
        else if (bytes[i] < ' ' || bytes[i] > '~')
            ration_output_append(output, escaped, sizeof(escaped));
        else
            ration_output_append_byte(output, (char)bytes[i]);
    }
    ration_output_append_byte(output, '"');
}

/* Writes one label; the first opens the brace. */
static void write_label(struct ration_output *output, bool is_first, const char *name,
                        const void *value, size_t size)
{
    ration_output_append_byte(output, is_first ? '{' : ',');
    ration_output_append_text(output, name);
    ration_output_append_byte(output, '=');
    write_label_value(output, value, size);
}

static void write_value(struct ration_output *output, uint64_t value)
{
    ration_output_append_byte(output, ' ');
    ration_output_append_u64(output, value);
    ration_output_append_byte(output, '\n');
}

static void write_sample(struct ration_output *output, const char *name, uint64_t value)
{
    ration_output_append_text(output, name);
    write_value(output, value);
}

static void write_labelled(struct ration_output *output, const char *name, const char *label,
                           const char *label_value, uint64_t value)
{
    ration_output_append_text(output, name);
    write_label(output, true, label, label_value, strlen(label_value));
    ration_output_append_byte(output, '}');
    write_value(output, value);
}

/* Writes a family with one sample and no label. */
static void write_single(struct ration_output *output, const char *name, const char *type,
                         const char *help, uint64_t value)
{
    write_head(output, name, type, help);
    write_sample(output, name, value);
}

/* Writes nanoseconds as seconds, exactly. */
static void write_seconds(struct ration_output *output, uint64_t ns)
{
    char text[NUMBER_SIZE];

    snprintf(text, sizeof(text), " %llu.%09llu\n", (unsigned long long)(ns / RATION_NS_PER_SECOND),
             (unsigned long long)(ns % RATION_NS_PER_SECOND));
    ration_output_append_text(output, text);
}

/* Reports of limits --------------------------------------------------------------------------- */

struct ration_metrics_report {
    char name[RATION_LIMIT_NAME_MAX + 1];
    uint64_t keys_max;
    struct ration_limiter_report report;
};

static void read_report(struct ration_metrics_report *item, const char *name, uint64_t keys_max,
                        ration_limiter *limiter)
{
    snprintf(item->name, sizeof(item->name), "%s", name);
    item->keys_max = keys_max;
    ration_limiter_read_report(limiter, &item->report);
}

void ration_metrics_begin(struct ration_walk *walk)
{
    struct ration_metrics_walk *metrics = (struct ration_metrics_walk *)walk;

    free(metrics->reports);
    metrics->reports = calloc(walk->item_count + 1, sizeof(*metrics->reports));
    metrics->report_count = 0;
    metrics->family = metrics->next_report = 0;
    metrics->top.by = RATION_TOP_DENIED;
    metrics->top.items_max = RATION_METRICS_KEYS_MAX;
    metrics->top.count = 0;
    walk->is_failed |= metrics->reports == NULL;
}

void ration_metrics_visit(struct ration_walk *walk, const struct ration_engine_guard *guard,
                          size_t first, size_t count)
{
    struct ration_metrics_walk *metrics = (struct ration_metrics_walk *)walk;
    const ration_policy *policy = ration_engine_policy(guard);

    for (size_t i = first; i < first + count && metrics->reports != NULL; i++) {
        const struct ration_policy_limit *limit = ration_policy_limit_at(policy, i);

        read_report(&metrics->reports[metrics->report_count++], limit->limit.name, limit->keys_max,
                    ration_engine_limiter(guard, i));
    }
    if (metrics->shows_keys)
        ration_top_add(&metrics->top, guard, first, count);
}

void ration_metrics_free(struct ration_walk *walk)
{
    free(((struct ration_metrics_walk *)walk)->reports);
}

/* Families with samples for each limit ------------------------------------------------------- */

/* Writes a sample of a limit with a second label. */
static void write_limit_sample(struct ration_output *output, const char *name,
                               const struct ration_metrics_report *item, const char *label,
                               const char *label_value, uint64_t value)
{
    ration_output_append_text(output, name);
    write_label(output, true, "limit", item->name, strlen(item->name));
    write_label(output, false, label, label_value, strlen(label_value));
    ration_output_append_byte(output, '}');
    write_value(output, value);
}

static void write_acquire_results(struct ration_output *output, const char *name,
                                  const struct ration_metrics_report *item)
{
    static const char *const results[] = {"allowed", "denied", "never", "error"};
    const struct ration_limit_stats *stats = &item->report.rules[0];
    const uint64_t counts[] = {stats->allowed, stats->denied, stats->never, stats->errors};

    for (size_t k = 0; k < sizeof(counts) / sizeof(counts[0]); k++)
        write_limit_sample(output, name, item, "result", results[k], counts[k]);
}

static void write_overflow(struct ration_output *output, const char *name,
                           const struct ration_metrics_report *item)
{
    static const char *const rules[] = {"shared", "deny", "allow"};
    const struct ration_limiter_stats *stats = &item->report.limiter;
    const uint64_t counts[] = {stats->overflow_shared, stats->overflow_deny, stats->overflow_allow};

    for (size_t k = 0; k < sizeof(counts) / sizeof(counts[0]); k++)
        write_limit_sample(output, name, item, "rule", rules[k], counts[k]);
}

static uint64_t read_allowed_tokens(const struct ration_metrics_report *item)
{
    return item->report.rules[0].allowed_tokens;
}

static uint64_t read_near_limit(const struct ration_metrics_report *item)
{
    return item->report.rules[0].near_limit;
}

static uint64_t read_shadow_denied(const struct ration_metrics_report *item)
{
    return item->report.rules[0].shadow_denied;
}

static uint64_t read_keys(const struct ration_metrics_report *item)
{
    const struct ration_limiter_stats *stats = &item->report.limiter;

    /* the two counters are not read at one time: reclaimed may be ahead */
    return stats->created > stats->reclaimed ? stats->created - stats->reclaimed : 0;
}

static uint64_t read_keys_max(const struct ration_metrics_report *item)
{
    return item->keys_max;
}

static uint64_t read_reclaimed(const struct ration_metrics_report *item)
{
    return item->report.limiter.reclaimed;
}

/* A metric family with samples per limit: read() returns the single sample, or write() writes several. */
static const struct family {
    const char *name, *type, *help;
    uint64_t (*read)(const struct ration_metrics_report *item);
    void (*write)(struct ration_output *output, const char *name,
                  const struct ration_metrics_report *item);
} families[] = {
    {"rate_limit_acquire_total", "counter",
     "Decisions, by limit and result; a request counts once for each limit that applies to it.",
     NULL, write_acquire_results},
    {"ration_allowed_tokens_total", "counter", "Tokens taken by allowed requests.",
     read_allowed_tokens, NULL},
    {"ration_near_limit_total", "counter",
     "Allowed decisions that left less than a fifth of the burst.", read_near_limit, NULL},
    {"ration_shadow_denied_total", "counter",
     "Decisions of shadow limits that would have been denials.", read_shadow_denied, NULL},
    {"ration_table_keys", "gauge",
     "Slots in use: by keys with tokens in use, and by full keys until a new key needs their slot.",
     read_keys, NULL},
    {"ration_table_max_keys", "gauge", "Maximum keys with a slot at one time.", read_keys_max,
     NULL},
    {"ration_table_reclaimed_total", "counter",
     "Full buckets that lost their slot to another key, a reload or a flush.", read_reclaimed,
     NULL},
    {"ration_overflow_total", "counter",
     "Decisions about keys that found no free slot in their table, by overflow rule.", NULL,
     write_overflow},
};

#define FAMILY_COUNT     (sizeof(families) / sizeof(families[0]))
#define SAMPLES_PER_STEP 1024 /* limits whose samples of a family one step writes */

/* Writes up to SAMPLES_PER_STEP samples of the current family, and moves to the next after the last. */
static void write_family(struct ration_metrics_walk *metrics)
{
    const struct family *family = &families[metrics->family];
    struct ration_output *output = &metrics->walk.text;
    size_t end = metrics->next_report + SAMPLES_PER_STEP;

    if (metrics->next_report == 0)
        write_head(output, family->name, family->type, family->help);
    for (; metrics->next_report < metrics->report_count && metrics->next_report < end;
         metrics->next_report++) {
        const struct ration_metrics_report *item = &metrics->reports[metrics->next_report];

        if (family->write != NULL)
            family->write(output, family->name, item);
        else
            write_labelled(output, family->name, "limit", item->name, family->read(item));
    }
    if (metrics->next_report == metrics->report_count) {
        metrics->next_report = 0;
        metrics->family++;
    }
}

/* Writes the remaining tokens of the most denied keys. */
static void write_top_keys(const struct ration_top_list *list, struct ration_output *output)
{
    write_head(output, "rate_limit_tokens", "gauge",
               "Tokens remaining of the keys that are denied most; at most 20, for admin clients.");
    for (size_t i = 0; i < list->count; i++) {
        const struct ration_top_item *item = &list->items[i];

        if (!item->has_remaining)
            continue;
        ration_output_append_text(output, "rate_limit_tokens");
        write_label(output, true, "limit", item->limit_name, strlen(item->limit_name));
        write_label(output, false, "key", item->key.name, (size_t)item->key.name_size);
        ration_output_append_byte(output, '}');
        write_value(output, item->remaining_tokens);
    }
}

/* The whole server ----------------------------------------------------------------------- */

static void write_durations(struct ration_service *service, struct ration_output *output)
{
#define BOUND(ns) {ns, #ns "e-9"},
    static const struct {
        uint64_t ns;
        const char *seconds;
    } bounds[] = {RATION_DURATION_BOUNDS_MAP(BOUND)};
#undef BOUND
    static const char name[] = "rate_limit_acquire_duration_seconds";
    uint64_t counts[RATION_DURATION_COUNT] = {0};
    uint64_t sum_ns = 0;
    uint64_t cumulative = 0;

    for (unsigned i = 0; i < ration_loops_count(service->loops); i++) {
        const struct ration_worker *loop_worker =
            ration_loop_user(ration_loops_at(service->loops, i));

        for (size_t k = 0; loop_worker != NULL && k < RATION_DURATION_COUNT; k++)
            counts[k] += __atomic_load_n(&loop_worker->durations.counts[k], __ATOMIC_RELAXED);
        if (loop_worker != NULL)
            sum_ns += __atomic_load_n(&loop_worker->durations.sum_ns, __ATOMIC_RELAXED);
    }
    write_head(output, name, "histogram",
               "Time to decide one request, without the network; sampled from one batch in 16.");
    for (size_t k = 0; k < RATION_DURATION_COUNT; k++) {
        cumulative += counts[k];
        ration_output_append_text(output, name);
        write_labelled(output, "_bucket", "le",
                       k < RATION_DURATION_COUNT - 1 ? bounds[k].seconds : "+Inf", cumulative);
    }
    ration_output_append_text(output, name);
    ration_output_append_text(output, "_sum");
    write_seconds(output, sum_ns);
    ration_output_append_text(output, name);
    write_sample(output, "_count", cumulative);
}

static void write_connection_metrics(struct ration_service *service, struct ration_output *output)
{
    struct ration_loop_counters counters;

    ration_loops_counters(service->loops, &counters);
    write_single(output, "ration_connections", "gauge", "Connections that are open.",
                 counters.open);
    write_single(output, "ration_connections_accepted_total", "counter", "Connections accepted.",
                 counters.accepted);
    write_head(output, "ration_connections_closed_total", "counter",
               "Connections closed or rejected, by reason.");
    for (unsigned i = RATION_CLOSE_REASON_NONE + 1; i < RATION_CLOSE_REASON_COUNT; i++)
        write_labelled(output, "ration_connections_closed_total", "reason",
                       ration_protocol_close_reason_name((enum ration_close_reason)i),
                       counters.ended[i]);
    write_single(output, "ration_received_bytes_total", "counter", "Bytes received.",
                 counters.received_bytes);
    write_single(output, "ration_sent_bytes_total", "counter", "Bytes sent.", counters.sent_bytes);
    write_single(output, "ration_accept_pauses_total", "counter",
                 "Times that accepting paused for lack of file descriptors or memory.",
                 counters.accept_pauses);
    write_head(output, "ration_requests_total", "counter", "Requests, by protocol.");
    write_labelled(output, "ration_requests_total", "protocol", "resp",
                   ration_service_total(service, RATION_SERVICE_RESP_COMMANDS));
    write_labelled(output, "ration_requests_total", "protocol", "http",
                   ration_service_total(service, RATION_SERVICE_HTTP_REQUESTS));
    write_head(output, "ration_request_errors_total", "counter",
               "Requests answered with an error, by protocol; a denial is not an error.");
    write_labelled(output, "ration_request_errors_total", "protocol", "resp",
                   ration_service_total(service, RATION_SERVICE_RESP_ERRORS));
    write_labelled(output, "ration_request_errors_total", "protocol", "http",
                   ration_service_total(service, RATION_SERVICE_HTTP_ERRORS));
    write_single(output, "ration_auth_failures_total", "counter",
                 "Requests and AUTH commands without the required secret.",
                 ration_service_total(service, RATION_SERVICE_AUTH_FAILURES));
}

static void write_engine_metrics(struct ration_service *service, struct ration_output *output)
{
    struct ration_engine_stats stats;

    ration_engine_read_stats(service->engine, &stats);
    write_head(output, "ration_unlimited_total", "counter",
               "Requests that no limit decided, by reason.");
    write_labelled(output, "ration_unlimited_total", "reason", "exempt", stats.exempt);
    write_labelled(output, "ration_unlimited_total", "reason", "no_match", stats.unlimited);
    write_single(output, "ration_banned_total", "counter",
                 "Requests denied because the policy bans the client.", stats.banned);
    write_single(output, "ration_errors_total", "counter",
                 "Checks that could not be decided: invalid addresses, costs or keys.",
                 stats.errors);
    write_head(output, "ration_reloads_total", "counter", "Reloads of the policy, by result.");
    write_labelled(output, "ration_reloads_total", "result", "done", stats.reloads);
    write_labelled(output, "ration_reloads_total", "result", "refused",
                   __atomic_load_n(&service->failed_reloads, __ATOMIC_RELAXED));
    write_single(output, "ration_tables_max_bytes", "gauge",
                 "Memory that the tables use when full.", ration_engine_bytes(service->engine));
}

static void write_redis_metrics(struct ration_service *service, struct ration_output *output)
{
    static const struct {
        const char *result;
        size_t offset;
    } results[] = {
        {"answered", offsetof(struct ration_redis_stats, answered)},
        {"late", offsetof(struct ration_redis_stats, late)},
        {"lost", offsetof(struct ration_redis_stats, lost)},
        {"refused", offsetof(struct ration_redis_stats, refused)},
        {"connects",
         offsetof(struct ration_redis_stats, connects)}, /* from here on: not results of calls */
        {"redirected", offsetof(struct ration_redis_stats, redirected)},
    };
    enum { CONNECTS = 4, REDIRECTED };
    uint64_t sums[sizeof(results) / sizeof(results[0])] = {0};
    struct ration_engine_stats stats;
    uint64_t connected_count = 0;

    if (!ration_engine_is_remote(service->engine))
        return;
    for (unsigned i = 0; i < ration_loops_count(service->loops); i++) {
        const struct ration_worker *loop_worker =
            ration_loop_user(ration_loops_at(service->loops, i));

        for (size_t k = 0; k < sizeof(sums) / sizeof(sums[0]); k++)
            sums[k] += __atomic_load_n(
                (const uint64_t *)((const char *)&loop_worker->redis + results[k].offset),
                __ATOMIC_RELAXED);
        connected_count += __atomic_load_n(&loop_worker->is_redis_up, __ATOMIC_RELAXED);
    }
    ration_engine_read_stats(service->engine, &stats);
    write_single(output, "ration_redis_connections_up", "gauge",
                 "Loops whose Redis connection answered when it was last used.", connected_count);
    write_head(output, "ration_redis_calls_total", "counter", "Calls to Redis, by result.");
    for (size_t k = 0; k < CONNECTS; k++)
        write_labelled(output, "ration_redis_calls_total", "result", results[k].result, sums[k]);
    write_single(output, "ration_redis_connects_total", "counter",
                 "Connections to Redis that were established.", sums[CONNECTS]);
    write_single(output, "ration_redis_redirected_total", "counter",
                 "Calls that a cluster node redirected to another.", sums[REDIRECTED]);
    write_single(output, "ration_degraded_total", "counter",
                 "Checks that Redis should have decided but did not.", stats.degraded);
    write_single(output, "ration_decided_locally_total", "counter",
                 "Checks decided by a lease or a local bucket, without a call to Redis.",
                 stats.decided_locally);
}

uint64_t ration_metrics_resident_bytes(void)
{
    FILE *file = fopen("/proc/self/statm", "re");
    unsigned long long pages = 0;

    if (file == NULL)
        return 0;
    if (fscanf(file, "%*s %llu", &pages) != 1)
        pages = 0;
    fclose(file);
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static void write_process_metrics(struct ration_service *service, struct ration_output *output)
{
    struct rusage usage;

    getrusage(RUSAGE_SELF, &usage);
    write_head(output, "process_cpu_seconds_total", "counter", "CPU time used.");
    ration_output_append_text(output, "process_cpu_seconds_total");
    write_seconds(output,
                  ((uint64_t)usage.ru_utime.tv_sec + (uint64_t)usage.ru_stime.tv_sec) *
                          RATION_NS_PER_SECOND +
                      ((uint64_t)usage.ru_utime.tv_usec + (uint64_t)usage.ru_stime.tv_usec) *
                          RATION_NS_PER_US);
    write_single(output, "process_resident_memory_bytes", "gauge", "Memory in use.",
                 ration_metrics_resident_bytes());
    write_single(output, "process_start_time_seconds", "gauge",
                 "Start time of the server, as Unix time.", service->started_wall_s);
    write_head(output, "ration_build_info", "gauge", "Version of the server.");
    write_labelled(output, "ration_build_info", "version", ration_version(), 1);
}

bool ration_metrics_finish(struct ration_walk *walk)
{
    struct ration_metrics_walk *metrics = (struct ration_metrics_walk *)walk;
    struct ration_service *service = walk->service;
    struct ration_output *output = &walk->text;

    if (metrics->report_count == walk->item_count)
        read_report(&metrics->reports[metrics->report_count++], RATION_POLICY_INLINE,
                    service->settings->inline_keys, ration_engine_inline_limiter(service->engine));
    if (metrics->report_count <=
        SAMPLES_PER_STEP / FAMILY_COUNT) /* all samples fit into one step */
        while (metrics->family < FAMILY_COUNT)
            write_family(metrics);
    if (metrics->family < FAMILY_COUNT) {
        write_family(metrics);
        return false;
    }
    if (metrics->shows_keys) {
        ration_top_add_inline(&metrics->top, service->engine);
        write_top_keys(&metrics->top, output);
    }
    write_durations(service, output);
    write_engine_metrics(service, output);
    write_redis_metrics(service, output);
    write_connection_metrics(service, output);
    write_process_metrics(service, output);
    return true;
}
