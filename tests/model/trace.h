/*
 * trace: random requests to one bucket, each answer checked.
 *
 * A trace is generated from one number, its seed: the limit, the initial fill and every step follow from
 * it. The caller of trace_run() chooses the kind of limit, the checks and the subject.
 */
#ifndef RATION_TESTS_TRACE_H
#define RATION_TESTS_TRACE_H

#include <stdbool.h>
#include <stdint.h>

#include "subject.h"

/* A small generator, seeded by any number (splitmix64). */
struct trace_random {
    uint64_t state;
};

uint64_t trace_random_next(struct trace_random *random);
uint64_t trace_random_below(struct trace_random *random, uint64_t bound); /* bound > 0 */
/* From 0 to max, every size of number about equally often. */
uint64_t trace_random_sized(struct trace_random *random, uint64_t max);

enum trace_kind {
    TRACE_TOKEN,
    TRACE_INTERVAL,
    TRACE_RESERVE,
    TRACE_QUEUE,
    TRACE_FIXED,
    TRACE_SLIDING,
    TRACE_LOG,
    TRACE_KIND_COUNT
};

/* "token", "interval", ... */
const char *trace_kind_name(enum trace_kind kind);

enum trace_checks {
    TRACE_CHECK_MODEL = 1, /* every field of every answer */
    TRACE_CHECK_R1 = 2,    /* all that was admitted; only where time does not run back */
    TRACE_CHECK_R2 = 4,    /* a denial leaves every byte */
    TRACE_CHECK_R4 = 8,    /* passes at the reported moment, not one nanosecond before */
    TRACE_CHECK_R6 = 16,   /* cost 0 leaves every byte */
    TRACE_CHECK_R7 = 32,   /* a full bucket may be replaced by zero bytes */
    TRACE_CHECK_ALL = 63
};

struct trace_options {
    enum trace_kind kind;
    uint64_t seed;
    unsigned checks;
    const struct subject *subject; /* NULL: the one that the limit needs */
    bool only_takes;               /* no refunds, debts, blocks and reservations */
    bool is_quiet;                 /* a failure is expected: print nothing */
    bool is_verbose;               /* print every step */
};

/* What was done, added up over traces. */
struct trace_count {
    uint64_t traces;
    uint64_t decisions; /* calls that decide, the probes of R4 and the twins of R7 among them */
    uint64_t denials;
    uint64_t retries_skipped; /* reported moments beyond 2^63 - 1 */
    uint64_t forgotten;       /* full buckets replaced by zero bytes */
};

/*
 * Runs one trace. Returns 0 if all checks held, else the number of the step (from 1) at which one
 * did not, after printing the seed, the limit, the step and both answers.
 */
uint64_t trace_run(const struct trace_options *options, struct trace_count *count);

/* Whether two decisions agree in every field. */
bool trace_decisions_equal(const struct ration_decision *a, const struct ration_decision *b);

void trace_print_decision(const char *title, const struct ration_decision *decision);

/* A limit of the kind from random numbers: wide ranges, and small ones. */
struct ration_limit trace_random_limit(struct trace_random *random, enum trace_kind kind);

#endif
