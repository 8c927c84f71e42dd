#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ROWS_MAX 256

/*
 * Slices shorter than a scheduler's, so that what disturbs one pair leaves most others alone; as
 * many of them as fit the time for one work, which is what a row takes for each.
 */
#define SLICE_NS   1e6
#define WORK_NS    250e6
#define REPEAT_MAX 256

struct row {
    const char *name;
    const char *against;
    double value_ns;
    double ratio;     /* 0: none */
    double ratio_max; /* 0: none */
};

struct bench {
    size_t row_count;
    struct row rows[ROWS_MAX];
};

void bench_fail(const char *what)
{
    fprintf(stderr, "bench: did not measure what it says: %s\n", what);
    abort();
}

/* Measuring ------------------------------------------------------------------------------ */

static double now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static double run_ns(const struct bench_work *work, uint64_t count)
{
    double start_ns = now_ns();

    work->function(work->context, count);
    return now_ns() - start_ns;
}

/* The shortest of a few runs: one that another process cut in two says nothing. */
static double best_run_ns(const struct bench_work *work, uint64_t count)
{
    double best_ns = run_ns(work, count);

    for (int i = 0; i < 3; i++) {
        double spent_ns = run_ns(work, count);

        if (spent_ns < best_ns)
            best_ns = spent_ns;
    }
    return best_ns;
}

/* How many times fill a slice. Warms the caches on the way. */
static uint64_t slice_count(const struct bench_work *work, double slice_ns)
{
    uint64_t count = 64;
    double spent_ns = best_run_ns(work, count);

    while (spent_ns < slice_ns / 4) {
        count *= 2;
        spent_ns = best_run_ns(work, count);
    }
    return (uint64_t)((double)count * slice_ns / spent_ns) + 1;
}

static int compare_numbers(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;

    return (x > y) - (x < y);
}

static double find_median(double *values, size_t count)
{
    qsort(values, count, sizeof(values[0]), compare_numbers);
    return values[count / 2];
}

static size_t term_count(const struct bench_subject *subject)
{
    size_t count = 0;

    while (count < BENCH_TERMS_MAX && subject->terms[count].work.function != NULL)
        count++;
    return count;
}

static struct row measure_row(const struct bench_subject *subject)
{
    double slice_ns = subject->slice_ns > 0 ? subject->slice_ns : SLICE_NS;
    size_t repeat_count = (size_t)(WORK_NS / slice_ns) | 1; /* odd, for the median */
    size_t terms = term_count(subject);
    uint64_t count = slice_count(&subject->work, slice_ns);
    uint64_t term_counts[BENCH_TERMS_MAX];
    double values[REPEAT_MAX];
    double ratios[REPEAT_MAX];

    bench_expect(repeat_count <= REPEAT_MAX, "slices are too short");
    for (size_t t = 0; t < terms; t++)
        term_counts[t] = slice_count(&subject->terms[t].work, slice_ns);

    for (size_t i = 0; i < repeat_count; i++) {
        double reference_ns = 0;

        values[i] = run_ns(&subject->work, count) / (double)count;
        for (size_t t = 0; t < terms; t++)
            reference_ns += subject->terms[t].weight *
                            run_ns(&subject->terms[t].work, term_counts[t]) /
                            (double)term_counts[t];
        ratios[i] = terms > 0 ? values[i] / reference_ns : 0;
    }
    return (struct row){subject->name, subject->against, find_median(values, repeat_count),
                        find_median(ratios, repeat_count), subject->ratio_max};
}

/* Showing -------------------------------------------------------------------------------- */

/* Copies the CPU's name to text, or "unknown CPU". */
static void cpu_name(char *text, size_t text_size)
{
    char line[256];
    FILE *file = fopen("/proc/cpuinfo", "r");

    snprintf(text, text_size, "unknown CPU");
    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        const char *colon = strchr(line, ':');

        if (strncmp(line, "model name", 10) != 0 || colon == NULL)
            continue;
        line[strcspn(line, "\n")] = '\0';
        snprintf(text, text_size, "%s", colon + 2);
        break;
    }
    if (file != NULL)
        fclose(file);
}

static bool has_target(const struct row *row)
{
    return row->ratio_max > 0;
}

static bool is_met(const struct row *row)
{
    return row->ratio <= row->ratio_max;
}

/* More than this and other work takes cores from the rows that need two. */
#define LOAD_QUIET 1.0

#define NAME_WIDTH    38
#define AGAINST_WIDTH 26

static void print_head(void)
{
    char cpu[128];
    double load;

    cpu_name(cpu, sizeof(cpu));
    printf("%s; medians of slices, ratios of neighbouring slices\n", cpu);
    if (getloadavg(&load, 1) == 1 && load > LOAD_QUIET)
        printf("(load %.1f: other work runs here, and rows of two threads mean little)\n", load);
    printf("\n");
    printf("%-*s %10s  %-*s %6s %7s  %s\n", NAME_WIDTH, "name", "ns", AGAINST_WIDTH, "against",
           "ratio", "target", "ok");
}

static void print_row(const struct row *row)
{
    printf("%-*s %10.2f  ", NAME_WIDTH, row->name, row->value_ns);
    if (row->against == NULL)
        printf("%-*s %6s ", AGAINST_WIDTH, "-", "-");
    else
        printf("%-*s %6.2f ", AGAINST_WIDTH, row->against, row->ratio);
    if (has_target(row))
        printf("%7.2f  %s\n", row->ratio_max, is_met(row) ? "ok" : "MISSED");
    else
        printf("%7s  -\n", "-");
    fflush(stdout);
}

static void keep_row(struct bench *bench, struct row row)
{
    bench_expect(bench->row_count < ROWS_MAX, "there are more rows than ROWS_MAX");
    bench->rows[bench->row_count++] = row;
    print_row(&row);
}

double bench_row(struct bench *bench, const struct bench_subject *subject)
{
    const char *wanted = getenv("RATION_BENCH_ROWS");
    struct row row;

    if (wanted != NULL && strstr(subject->name, wanted) == NULL)
        return 0;
    row = measure_row(subject);

    keep_row(bench, row);
    return row.value_ns;
}

void bench_row_given(struct bench *bench, const char *name, double value_ns, const char *against,
                     double reference_ns, double ratio_max)
{
    keep_row(bench, (struct row){name, against, value_ns, value_ns / reference_ns, ratio_max});
}

struct bench *bench_create(void)
{
    struct bench *bench = calloc(1, sizeof(*bench));

    bench_expect(bench != NULL, "out of memory");
    print_head();
    return bench;
}

void bench_summary(const struct bench *bench)
{
    size_t target_count = 0;
    size_t met_count = 0;

    for (size_t i = 0; i < bench->row_count; i++) {
        target_count += has_target(&bench->rows[i]);
        met_count += has_target(&bench->rows[i]) && is_met(&bench->rows[i]);
    }
    printf("\n%zu of %zu targets met\n", met_count, target_count);
}

void bench_free(struct bench *bench)
{
    free(bench);
}

/* JSON ----------------------------------------------------------------------------------- */

static void json_text(FILE *file, const char *text)
{
    if (text == NULL) {
        fputs("null", file);
        return;
    }
    fputc('"', file);
    for (; *text != '\0'; text++) {
        if ((unsigned char)*text < 0x20) {
            fprintf(file, "\\u%04x", (unsigned char)*text);
            continue;
        }
        if (*text == '"' || *text == '\\')
            fputc('\\', file);
        fputc(*text, file);
    }
    fputc('"', file);
}

/* A ratio, or null for none. */
static void json_ratio(FILE *file, double ratio)
{
    if (ratio > 0)
        fprintf(file, "%.4f", ratio);
    else
        fputs("null", file);
}

static void json_row(FILE *file, const struct row *row)
{
    fputs("  {\"name\": ", file);
    json_text(file, row->name);
    fprintf(file, ", \"value\": %.3f, \"unit\": \"ns\", \"against\": ", row->value_ns);
    json_text(file, row->against);
    fputs(", \"ratio\": ", file);
    json_ratio(file, row->ratio);
    fputs(", \"target\": ", file);
    json_ratio(file, row->ratio_max);
    fprintf(file, ", \"ok\": %s}", !has_target(row) ? "null" : is_met(row) ? "true" : "false");
}

bool bench_write_json(const struct bench *bench, const char *path)
{
    FILE *file = fopen(path, "w");

    if (file == NULL)
        return false;
    fputs("[\n", file);
    for (size_t i = 0; i < bench->row_count; i++) {
        json_row(file, &bench->rows[i]);
        fputs(i + 1 < bench->row_count ? ",\n" : "\n", file);
    }
    fputs("]\n", file);

    bool failed = ferror(file) != 0;

    return fclose(file) == 0 && !failed;
}
