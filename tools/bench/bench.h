/*
 * bench: how long something takes, measured beside what it is compared with.
 *
 * Nanoseconds on a machine that others use too are noise; ratios to a known thing in the same
 * moment are not. So a subject and its reference take turns in short slices, A B A B ..., each
 * pair gives one ratio, and the median of those counts.
 *
 *     static void my_call(void *context, uint64_t count) { ... count times ... }
 *
 *     bench_row(bench, &(struct bench_subject){
 *         .name = "my call", .work = {my_call, &mine},
 *         .against = "bare swap", .terms = {{{bare_swap, &pair}, 1.0}}, .ratio_max = 1.8});
 *
 * A reference may be a weighted sum: "a clock's read plus 1.8 swaps". Work calls bench_keep() on
 * results so that the compiler cannot drop them, and bench_expect() so that it measures what it
 * says.
 */
#ifndef RATION_BENCH_BENCH_H
#define RATION_BENCH_BENCH_H

#include <stdbool.h>
#include <stdint.h>

#define BENCH_TERMS_MAX 2

/* The suites, each in its own file and called once by main. */
struct bench;
void bucket_bench(struct bench *bench);
void limiter_bench(struct bench *bench);
void peers_bench(struct bench *bench);

/* Does what is measured count times. */
typedef void bench_function(void *context, uint64_t count);

struct bench_work {
    bench_function *function;
    void *context; /* borrowed for the call */
};

struct bench_term {
    struct bench_work work;
    double weight;
};

struct bench_subject {
    const char *name; /* static storage, as is against */
    struct bench_work work;
    const char *against;                      /* NULL: shown alone */
    struct bench_term terms[BENCH_TERMS_MAX]; /* the reference; an empty one ends them */
    double ratio_max;                         /* the target; 0: for information */
    double slice_ns; /* 0: a millisecond; longer for work that is slow to start */
};

/*
 * Measures a subject, prints its line and keeps it for the report. Returns nanoseconds of a call. With
 * RATION_BENCH_ROWS in the environment only rows whose name contains that are measured; 0 for others.
 */
double bench_row(struct bench *bench, const struct bench_subject *subject);

/* Prints and keeps the line of what was measured elsewhere. Texts are of static storage. */
void bench_row_given(struct bench *bench, const char *name, double value_ns, const char *against,
                     double reference_ns, double ratio_max);

/* Stops the program: what was to be measured did not happen. */
_Noreturn void bench_fail(const char *what);

static inline void bench_expect(bool happened, const char *what)
{
    if (!happened)
        bench_fail(what);
}

/* Makes the compiler believe that value is needed and that memory may have changed. */
static inline void bench_keep(uint64_t value)
{
    __asm__ volatile("" : : "r"(value) : "memory");
}

/*
 * Creates a bench and prints the head of its table. Owned by the caller: release it with
 * bench_free(). Never NULL.
 */
struct bench *bench_create(void);

/* Prints the last line: how many targets were met. */
void bench_summary(const struct bench *bench);

/* Writes the rows as a JSON list. Returns false, with errno set, if the file cannot be written. */
bool bench_write_json(const struct bench *bench, const char *path);

void bench_free(struct bench *bench);

#endif
