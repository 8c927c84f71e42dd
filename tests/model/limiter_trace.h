/*
 * limiter_trace: random calls of a limiter or a stack, each answer checked.
 *
 * As trace.h, with keys: a trace is made of one number, its seed.
 *
 *     exact      a place for everyone, time that runs forward: every answer is the model's. Half
 *                of them also against a table of 16 places that reclaims all the time (R7)
 *     overflow   more keys in debt than places: no key gets more than its limit (R1) nor more than
 *                its own model has (R7: no debt is forgotten), and a denial costs nothing (R2)
 *     stale      both, with a now that runs back, jumps, is 0 or maximal (R6)
 *     reload     both, dumped and loaded at random points
 *     change     the limit of one rule becomes another: every answer is a bucket's (limiter_rule_change.c)
 *     choice     a rule chooses from several limits: a bucket for each (limiter_choice.c)
 */
#ifndef RATION_TESTS_LIMITER_TRACE_H
#define RATION_TESTS_LIMITER_TRACE_H

#include "limiter_subject.h"

enum limiter_mode {
    LIMITER_EXACT,
    LIMITER_OVERFLOW,
    LIMITER_STALE,
    LIMITER_RELOAD,
    LIMITER_CHANGE,
    LIMITER_CHOICE,
    LIMITER_MODE_COUNT
};

/* "exact", "overflow", ... */
const char *limiter_mode_name(enum limiter_mode mode);

enum limiter_checks {
    LIMITER_CHECK_MODEL = 1,
    LIMITER_CHECK_R1 = 2,
    LIMITER_CHECK_R2 = 4,
    LIMITER_CHECK_R4 = 8,
    LIMITER_CHECK_R7 = 16,   /* the table that reclaims answers alike; no debt is forgotten */
    LIMITER_CHECK_PEEK = 32, /* a peek agrees with the take that follows */
    LIMITER_CHECK_ALL = 63
};

struct limiter_trace_options {
    enum limiter_mode mode;
    uint64_t seed;
    unsigned checks;
    bool is_quiet;   /* a failure is expected: print nothing */
    bool is_verbose; /* print every step */

    /* A control: answers instead of the subject, with its help. NULL: the subject itself. */
    struct limiter_answerer *(*disguise)(struct limiter_subject *subject, uint64_t seed);
};

/* What was done, added up over traces. */
struct limiter_trace_count {
    uint64_t traces;
    uint64_t decisions; /* answers that were compared or checked */
    uint64_t denials;   /* whose reported wait was tried */
    uint64_t reclaimed;
    uint64_t overflow_shared;
    uint64_t overflow_deny;
    uint64_t overflow_allow;
    uint64_t reloads;
    uint64_t changes;
};

/*
 * Runs one trace. Returns 0 if all checks held, else the number of the step (from 1) at which one
 * did not, after printing what was made, the step and both answers.
 */
uint64_t limiter_trace_run(const struct limiter_trace_options *options,
                           struct limiter_trace_count *count);

/* The same for LIMITER_CHANGE and LIMITER_CHOICE, which limiter_trace_run() calls. */
uint64_t limiter_change_run(const struct limiter_trace_options *options,
                            struct limiter_trace_count *count);
uint64_t limiter_choice_run(const struct limiter_trace_options *options,
                            struct limiter_trace_count *count);

#endif
