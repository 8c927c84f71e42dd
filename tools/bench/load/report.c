#include "load/report.h"

#include <inttypes.h>
#include <string.h>

#include "load/escape.h"

#define NS_PER_SECOND 1e9
#define BAR_WIDTH     40
#define BAR_EIGHTHS   (BAR_WIDTH * 8)

const struct load_percentile load_percentiles[LOAD_PERCENTILES_COUNT] = {
    {"p50", 500000}, {"p90", 900000}, {"p99", 990000}, {"p99.9", 999000}, {"p99.99", 999900},
};

/* Numbers -------------------------------------------------------------------------------- */

double load_report_per_second(const struct load_result *result)
{
    if (result->measured_ns == 0)
        return 0;
    return (double)result->latency.count * NS_PER_SECOND / (double)result->measured_ns;
}

double load_report_cores(uint64_t cpu_ns, const struct load_result *result)
{
    return result->total_ns > 0 ? (double)cpu_ns / (double)result->total_ns : 0;
}

double load_report_cpu_ns_each(uint64_t cpu_ns, const struct load_result *result)
{
    return result->sent_count > 0 ? (double)cpu_ns / (double)result->sent_count : 0;
}

double load_report_bytes_each_idle(const struct load_plan *plan, const struct load_result *result)
{
    double more = (double)result->server_idle_bytes - (double)result->server_before_bytes;

    return plan->idle_count > 0 ? more / plan->idle_count : 0;
}

/* Prints a duration with four digits and its unit, nine columns wide. */
static void print_duration(FILE *stream, uint64_t ns)
{
    static const struct {
        uint64_t ns;
        const char *name;
    } units[] = {{1000000000, "s "}, {1000000, "ms"}, {1000, "us"}};

    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        double value = (double)ns / (double)units[i].ns;

        if (ns < units[i].ns)
            continue;
        fprintf(stream, "%6.*f %s",
                value < 10     ? 3
                : value < 100  ? 2
                : value < 1000 ? 1
                               : 0,
                value, units[i].name);
        return;
    }
    fprintf(stream, "%6" PRIu64 " ns", ns);
}

/* Tables --------------------------------------------------------------------------------- */

static void print_plan(FILE *stream, const struct load_plan *plan, const char *what,
                       const char *keys)
{
    fprintf(stream, "%s\nto %s over %s: %u connection%s, pipeline %u, %u thread%s, keys %s\n", what,
            plan->target.text, plan->protocol == LOAD_RESP ? "RESP" : "HTTP",
            plan->connection_count, plan->connection_count == 1 ? "" : "s", plan->pipeline_count,
            plan->thread_count, plan->thread_count == 1 ? "" : "s", keys);
    if (plan->idle_count > 0)
        fprintf(stream, "with %u idle connections open\n", plan->idle_count);
    fputc('\n', stream);
}

static void print_cpu(FILE *stream, const char *whose, uint64_t cpu_ns,
                      const struct load_result *result)
{
    fprintf(stream, "%-11s%.2f cores, %.0f ns a request\n", whose,
            load_report_cores(cpu_ns, result), load_report_cpu_ns_each(cpu_ns, result));
}

static void print_counts(FILE *stream, const struct load_plan *plan,
                         const struct load_result *result)
{
    const struct load_totals *totals = &result->totals;
    char shown[4 * LOAD_FIRST_ERROR_SIZE];

    fprintf(stream, "throughput %.0f requests/s: %" PRIu64 " in %.2f s",
            load_report_per_second(result), result->latency.count,
            (double)result->measured_ns / NS_PER_SECOND);
    if (plan->warmup_ns > 0)
        fprintf(stream, ", after a warm-up of %.2f s", (double)plan->warmup_ns / NS_PER_SECOND);
    fprintf(stream,
            "\nanswers    %" PRIu64 " allowed, %" PRIu64 " denied, %" PRIu64 " other, %" PRIu64
            " errors; %" PRIu64 " in all\n",
            totals->allowed_count, totals->denied_count, totals->other_count, totals->error_count,
            load_totals_total(totals));
    if (totals->error_count > 0)
        fprintf(
            stream, "first error: %s\n",
            load_escape(totals->first_error, strlen(totals->first_error), shown, sizeof(shown)));
    if (result->never_sent_count > 0)
        fprintf(stream, "too slow: %" PRIu64 " requests were due and never sent\n",
                result->never_sent_count);
    print_cpu(stream, "client", result->client_cpu_ns, result);
    if (plan->server_pid > 0)
        print_cpu(stream, "server", result->server_cpu_ns, result);
    if (plan->server_pid > 0 && plan->idle_count > 0)
        fprintf(stream, "memory     %.0f bytes per idle connection\n",
                load_report_bytes_each_idle(plan, result));
}

static void print_latency_row(FILE *stream, const char *name, uint64_t measured_ns,
                              uint64_t corrected_ns, bool has_both)
{
    fprintf(stream, "  %-8s", name);
    print_duration(stream, measured_ns);
    if (has_both) {
        fputs("     ", stream);
        print_duration(stream, corrected_ns);
    }
    fputc('\n', stream);
}

static void print_latencies(FILE *stream, const struct load_plan *plan,
                            const struct load_result *result)
{
    bool is_closed = plan->rate_per_second == 0;

    if (is_closed) {
        fprintf(stream, "\nlatency     measured     corrected\n");
    } else {
        fprintf(stream, "\nlatency, from when each request was due (open loop, %g/s)\n",
                plan->rate_per_second);
    }
    for (size_t i = 0; i < LOAD_PERCENTILES_COUNT; i++)
        print_latency_row(stream, load_percentiles[i].name,
                          load_histogram_percentile(&result->latency, load_percentiles[i].ppm),
                          load_histogram_percentile(&result->corrected, load_percentiles[i].ppm),
                          is_closed);
    print_latency_row(stream, "max", result->latency.max_ns, result->corrected.max_ns, is_closed);
    if (is_closed)
        fprintf(stream,
                "closed loop: corrected for the requests that connections, sending every %.0f "
                "us,\ndid not send while they waited\n",
                (double)result->interval_ns / 1e3);
}

/* The histogram -------------------------------------------------------------------------- */

/* Rows grow by 1, 2, 5, 10, ...: the scale is logarithmic. */
static uint64_t next_step(uint64_t ns)
{
    uint64_t decade = 1;

    while (decade * 10 <= ns)
        decade *= 10;
    return ns < decade * 2 ? decade * 2 : ns < decade * 5 ? decade * 5 : decade * 10;
}

/* Every row that is not empty gets a visible bar, even for one request in a million. */
static void print_bar(FILE *stream, double share_of_longest)
{
    static const char *const eighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
    int length = (int)(share_of_longest * BAR_EIGHTHS);

    if (length == 0 && share_of_longest > 0)
        length = 1;
    for (int i = 0; i < length / 8; i++)
        fputs("█", stream);
    fputs(eighths[length % 8], stream);
    fprintf(stream, "%*s", BAR_WIDTH - (length + 7) / 8, "");
}

static void print_histogram(FILE *stream, const struct load_histogram *histogram)
{
    uint64_t first_ns = 1;
    uint64_t longest_count = 0;

    if (histogram->count == 0)
        return;
    while (load_histogram_count_between(histogram, 0, next_step(first_ns)) == 0 &&
           first_ns <= histogram->max_ns)
        first_ns = next_step(first_ns);
    for (uint64_t ns = first_ns; ns <= histogram->max_ns; ns = next_step(ns)) {
        uint64_t count = load_histogram_count_between(histogram, ns, next_step(ns));

        longest_count = count > longest_count ? count : longest_count;
    }
    fputc('\n', stream);
    for (uint64_t ns = first_ns; ns <= histogram->max_ns; ns = next_step(ns)) {
        uint64_t count = load_histogram_count_between(histogram, ns, next_step(ns));

        fputs("  ", stream);
        print_duration(stream, ns);
        fputs(" ", stream);
        print_bar(stream, longest_count > 0 ? (double)count / (double)longest_count : 0);
        fprintf(stream, " %9.4f %%\n", (double)count * 100 / (double)histogram->count);
    }
}

void load_report_print(FILE *stream, const struct load_plan *plan, const char *what,
                       const char *keys, const struct load_result *result)
{
    print_plan(stream, plan, what, keys);
    print_counts(stream, plan, result);
    print_latencies(stream, plan, result);
    print_histogram(stream, &result->latency);
}
