#include "server/metrics.h"

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
 * A label's value: any bytes, as text. What is not printable ASCII becomes \xHH and a backslash \\,
 * so that no two keys give one series; the format wants each of those backslashes doubled.
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

/* One more label; the first opens the brace. */
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

/* A family with one sample and no label. */
static void write_one(struct ration_output *output, const char *name, const char *type,
                      const char *help, uint64_t value)
{
    write_head(output, name, type, help);
    write_sample(output, name, value);
}

/* Nanoseconds as seconds, exactly. */
static void write_seconds(struct ration_output *output, uint64_t ns)
{
    char text[NUMBER_SIZE];

    snprintf(text, sizeof(text), " %llu.%09llu\n", (unsigned long long)(ns / RATION_NS_PER_SECOND),
             (unsigned long long)(ns % RATION_NS_PER_SECOND));
    ration_output_append_text(output, text);
}

/* What is read of each limit ----------------------------------------------------------------- */

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

void ration_metrics_visit(struct ration_walk *walk, const struct ration_visit *visit, size_t first,
                          size_t count)
{
    struct ration_metrics_walk *metrics = (struct ration_metrics_walk *)walk;
    const ration_policy *policy = ration_gate_policy(visit);

    for (size_t i = first; i < first + count && metrics->reports != NULL; i++) {
        const struct ration_policy_limit *limit = ration_policy_limit_at(policy, i);

        read_report(&metrics->reports[metrics->report_count++], limit->limit.name, limit->keys_max,
                    ration_gate_limiter(visit, i));
    }
    if (metrics->shows_keys)
        ration_top_add(&metrics->top, visit, first, count);
}

void ration_metrics_free(struct ration_walk *walk)
{
    free(((struct ration_metrics_walk *)walk)->reports);
}

/* Families with samples for each limit ------------------------------------------------------- */

/* A sample of a limit with a second label. */
static void write_labelled_twice(struct ration_output *output, const char *name,
                                 const struct ration_metrics_report *item, const char *label,
                                 const char *label_value, uint64_t value)
{
    ration_output_append_text(output, name);
    write_label(output, true, "limit", item->name, strlen(item->name));
    write_label(output, false, label, label_value, strlen(label_value));
    ration_output_append_byte(output, '}');
    write_value(output, value);
}

static void write_acquires(struct ration_output *output, const char *name,
                           const struct ration_metrics_report *item)
{
    static const char *const results[] = {"allowed", "denied", "never", "error"};
    const struct ration_limit_stats *stats = &item->report.rules[0];
    const uint64_t counts[] = {stats->allowed, stats->denied, stats->never, stats->errors};

    for (size_t k = 0; k < sizeof(counts) / sizeof(counts[0]); k++)
        write_labelled_twice(output, name, item, "result", results[k], counts[k]);
}

static void write_overflow(struct ration_output *output, const char *name,
                           const struct ration_metrics_report *item)
{
    static const char *const rules[] = {"shared", "deny", "allow"};
    const struct ration_limiter_stats *stats = &item->report.limiter;
    const uint64_t counts[] = {stats->overflow_shared, stats->overflow_deny, stats->overflow_allow};

    for (size_t k = 0; k < sizeof(counts) / sizeof(counts[0]); k++)
        write_labelled_twice(output, name, item, "rule", rules[k], counts[k]);
}

static uint64_t read_tokens(const struct ration_metrics_report *item)
{
    return item->report.rules[0].allowed_tokens;
}

static uint64_t read_near(const struct ration_metrics_report *item)
{
    return item->report.rules[0].near;
}

static uint64_t read_shadow(const struct ration_metrics_report *item)
{
    return item->report.rules[0].shadow_denied;
}

static uint64_t read_keys(const struct ration_metrics_report *item)
{
    const struct ration_limiter_stats *stats = &item->report.limiter;

    /* read one after the other while keys come and go */
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

/* One number of each limit, or what write() writes. */
static const struct family {
    const char *name, *type, *help;
    uint64_t (*read)(const struct ration_metrics_report *item);
    void (*write)(struct ration_output *output, const char *name,
                  const struct ration_metrics_report *item);
} families[] = {
    {"rate_limit_acquire_total", "counter",
     "Decisions, by limit and result; a request counts for each limit that it is held to.", NULL,
     write_acquires},
    {"rate_limit_allowed_tokens_total", "counter", "Tokens that were taken.", read_tokens, NULL},
    {"rate_limit_near_limit_total", "counter",
     "Decisions that allowed and left less than a fifth of the burst.", read_near, NULL},
    {"rate_limit_shadow_denied_total", "counter",
     "Decisions of shadow limits that would have been denials.", read_shadow, NULL},
    {"rate_limit_table_keys", "gauge",
     "Places that are used: by keys in debt, and by others until a new key needs theirs.",
     read_keys, NULL},
    {"rate_limit_table_keys_max", "gauge", "Keys that may be in debt at one time and have a place.",
     read_keys_max, NULL},
    {"rate_limit_table_reclaimed_total", "counter",
     "Full buckets that lost their slot to another key, a reload or a flush.", read_reclaimed,
     NULL},
    {"rate_limit_overflow_total", "counter",
     "Decisions about keys that found no place in their table, by what was done.", NULL,
     write_overflow},
};

#define FAMILY_COUNT     (sizeof(families) / sizeof(families[0]))
#define SAMPLES_PER_STEP 1024 /* limits whose samples of a family one step writes */

/* Writes samples of one family. */
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

/* Tokens that the keys which are denied most have left. */
static void write_top(const struct ration_top_list *list, struct ration_output *output)
{
    write_head(
        output, "rate_limit_tokens", "gauge",
        "Tokens left of the keys that are denied most; at most 20, for those with the token.");
    for (size_t i = 0; i < list->count; i++) {
        const struct ration_top_item *item = &list->items[i];

        if (!item->has_left)
            continue;
        ration_output_append_text(output, "rate_limit_tokens");
        write_label(output, true, "limit", item->limit_name, strlen(item->limit_name));
        write_label(output, false, "key", item->key.name, (size_t)item->key.name_size);
        ration_output_append_byte(output, '}');
        write_value(output, item->left_tokens);
    }
}

/* The server as a whole ---------------------------------------------------------------------- */

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
    uint64_t so_far = 0;

    for (unsigned i = 0; i < ration_loops_count(service->loops); i++) {
        const struct ration_loop_part *part = ration_loop_user(ration_loops_at(service->loops, i));

        for (size_t k = 0; part != NULL && k < RATION_DURATION_COUNT; k++)
            counts[k] += __atomic_load_n(&part->durations.counts[k], __ATOMIC_RELAXED);
        if (part != NULL)
            sum_ns += __atomic_load_n(&part->durations.sum_ns, __ATOMIC_RELAXED);
    }
    write_head(output, name, "histogram",
               "Time to decide one request, without the network; of one batch in 16.");
    for (size_t k = 0; k < RATION_DURATION_COUNT; k++) {
        so_far += counts[k];
        ration_output_append_text(output, name);
        write_labelled(output, "_bucket", "le",
                       k < RATION_DURATION_COUNT - 1 ? bounds[k].seconds : "+Inf", so_far);
    }
    ration_output_append_text(output, name);
    ration_output_append_text(output, "_sum");
    write_seconds(output, sum_ns);
    ration_output_append_text(output, name);
    write_sample(output, "_count", so_far);
}

static void write_connections(struct ration_service *service, struct ration_output *output)
{
    struct ration_loop_counters counters;

    ration_loops_counters(service->loops, &counters);
    write_one(output, "ration_connections", "gauge", "Connections that are open.", counters.open);
    write_one(output, "ration_connections_accepted_total", "counter", "Connections let in.",
              counters.accepted);
    write_head(output, "ration_connections_ended_total", "counter",
               "Connections closed or not let in, by reason.");
    for (unsigned i = RATION_ENDING_NONE + 1; i < RATION_ENDING_COUNT; i++)
        write_labelled(output, "ration_connections_ended_total", "reason",
                       ration_ending_word((enum ration_ending)i), counters.ended[i]);
    write_one(output, "ration_received_bytes_total", "counter", "Bytes received.",
              counters.received_bytes);
    write_one(output, "ration_sent_bytes_total", "counter", "Bytes sent.", counters.sent_bytes);
    write_one(output, "ration_accept_pauses_total", "counter",
              "Times that accepting had to rest, for want of files or memory.",
              counters.accept_pauses);
    write_head(output, "ration_requests_total", "counter", "Requests, by protocol.");
    write_labelled(output, "ration_requests_total", "protocol", "resp",
                   ration_service_total(service, RATION_SERVICE_RESP_COMMANDS));
    write_labelled(output, "ration_requests_total", "protocol", "http",
                   ration_service_total(service, RATION_SERVICE_HTTP_REQUESTS));
    write_head(output, "ration_request_errors_total", "counter",
               "Requests answered with an error, by protocol; denials are none.");
    write_labelled(output, "ration_request_errors_total", "protocol", "resp",
                   ration_service_total(service, RATION_SERVICE_RESP_ERRORS));
    write_labelled(output, "ration_request_errors_total", "protocol", "http",
                   ration_service_total(service, RATION_SERVICE_HTTP_ERRORS));
    write_one(output, "ration_auth_failures_total", "counter",
              "Requests and AUTH commands without the secret that they need.",
              ration_service_total(service, RATION_SERVICE_AUTH_FAILURES));
}

static void write_gate(struct ration_service *service, struct ration_output *output)
{
    struct ration_gate_stats stats;

    ration_gate_read_stats(service->gate, &stats);
    write_head(output, "rate_limit_unlimited_total", "counter",
               "Requests that no limit decided, by reason.");
    write_labelled(output, "rate_limit_unlimited_total", "reason", "exempt", stats.exempt);
    write_labelled(output, "rate_limit_unlimited_total", "reason", "no_match", stats.unlimited);
    write_one(output, "rate_limit_banned_total", "counter",
              "Requests denied by the list of the banned.", stats.banned);
    write_one(output, "rate_limit_errors_total", "counter",
              "Checks that could not be decided: wrong addresses, costs, keys.", stats.errors);
    write_head(output, "ration_reloads_total", "counter", "Reloads of the policy, by result.");
    write_labelled(output, "ration_reloads_total", "result", "done", stats.reloads);
    write_labelled(output, "ration_reloads_total", "result", "refused",
                   __atomic_load_n(&service->failed_reloads, __ATOMIC_RELAXED));
    write_one(output, "ration_tables_max_bytes", "gauge", "Memory that the tables use when full.",
              ration_gate_bytes(service->gate));
}

static void write_redis(struct ration_service *service, struct ration_output *output)
{
    static const struct {
        const char *result;
        size_t offset;
    } results[] = {
        {"answered", offsetof(struct ration_redis_stats, answered)},
        {"late", offsetof(struct ration_redis_stats, late)},
        {"lost", offsetof(struct ration_redis_stats, lost)},
        {"refused", offsetof(struct ration_redis_stats, refused)},
        {"connects", offsetof(struct ration_redis_stats, connects)}, /* these are no results */
        {"redirected", offsetof(struct ration_redis_stats, redirected)},
    };
    enum { CONNECTS = 4, REDIRECTED };
    uint64_t sums[sizeof(results) / sizeof(results[0])] = {0};
    struct ration_gate_stats stats;
    uint64_t up_count = 0;

    if (!ration_gate_is_remote(service->gate))
        return;
    for (unsigned i = 0; i < ration_loops_count(service->loops); i++) {
        const struct ration_loop_part *part = ration_loop_user(ration_loops_at(service->loops, i));

        for (size_t k = 0; k < sizeof(sums) / sizeof(sums[0]); k++)
            sums[k] +=
                __atomic_load_n((const uint64_t *)((const char *)&part->redis + results[k].offset),
                                __ATOMIC_RELAXED);
        up_count += __atomic_load_n(&part->is_redis_up, __ATOMIC_RELAXED);
    }
    ration_gate_read_stats(service->gate, &stats);
    write_one(output, "ration_redis_links_up", "gauge",
              "Loops whose link to Redis answered when it was last used.", up_count);
    write_head(output, "ration_redis_calls_total", "counter",
               "Calls of Redis, by what came of them.");
    for (size_t k = 0; k < CONNECTS; k++)
        write_labelled(output, "ration_redis_calls_total", "result", results[k].result, sums[k]);
    write_one(output, "ration_redis_connects_total", "counter",
              "Connections to Redis that came up.", sums[CONNECTS]);
    write_one(output, "ration_redis_redirected_total", "counter",
              "Calls that a node of a cluster passed on to another.", sums[REDIRECTED]);
    write_one(output, "rate_limit_degraded_total", "counter",
              "Checks that Redis should have decided, and did not.", stats.degraded);
    write_one(output, "rate_limit_near_total", "counter",
              "Checks decided by a lease or a local bucket, without asking Redis.", stats.near);
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

static void write_process(struct ration_service *service, struct ration_output *output)
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
    write_one(output, "process_resident_memory_bytes", "gauge", "Memory in use.",
              ration_metrics_resident_bytes());
    write_one(output, "process_start_time_seconds", "gauge", "When the server started, Unix time.",
              service->started_wall_s);
    write_head(output, "ration_build_info", "gauge", "What is running.");
    write_labelled(output, "ration_build_info", "version", ration_version(), 1);
}

bool ration_metrics_rest(struct ration_walk *walk)
{
    struct ration_metrics_walk *metrics = (struct ration_metrics_walk *)walk;
    struct ration_service *service = walk->service;
    struct ration_output *output = &walk->text;

    if (metrics->report_count == walk->item_count)
        read_report(&metrics->reports[metrics->report_count++], RATION_POLICY_THROTTLE,
                    service->settings->throttle_keys, ration_gate_throttle(service->gate));
    if (metrics->report_count <= SAMPLES_PER_STEP / FAMILY_COUNT) /* all of them are one step */
        while (metrics->family < FAMILY_COUNT)
            write_family(metrics);
    if (metrics->family < FAMILY_COUNT) {
        write_family(metrics);
        return false;
    }
    if (metrics->shows_keys) {
        ration_top_add_throttle(&metrics->top, service->gate);
        write_top(&metrics->top, output);
    }
    write_durations(service, output);
    write_gate(service, output);
    write_redis(service, output);
    write_connections(service, output);
    write_process(service, output);
    return true;
}
