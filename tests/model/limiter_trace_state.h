/*
 * limiter_trace_state: a trace of a limiter while it runs.
 */
#ifndef RATION_TESTS_LIMITER_TRACE_STATE_H
#define RATION_TESTS_LIMITER_TRACE_STATE_H

#include "history.h"
#include "limiter_expect.h"
#include "limiter_random.h"
#include "limiter_trace.h"

/* What one key got of one limiter. */
struct limiter_key {
    bool is_own;     /* the last time, from a bucket of its own */
    bool has_shared; /* ever: the overflow bucket */
    uint64_t last_ns;
    struct history histories[LIMITER_RULES_MAX];
};

struct limiter_trace {
    const struct limiter_trace_options *options;
    struct limiter_trace_count *count;
    struct limiter_walk walk;
    struct limiter_setup setup;
    struct limiter_setup twin_setup;
    uint64_t step;
    bool failed;
    bool is_tight;   /* fewer places than keys */
    bool is_by_keys; /* what each key gets is checked, not every answer */
    bool has_twin;

    struct limiter_answerer *subject;
    struct limiter_subject real;
    struct limiter_subject twin; /* as the subject, with 16 places */

    /* Of each key: when it was last asked for, so that the twin may keep its place. 0: never */
    uint64_t asked_ns[LIMITER_COUNT_MAX][LIMITER_KEYS_MAX];
    struct limiter_expect expect;

    uint64_t made_ns;
    uint64_t latest_ns; /* of all nows, also those that jump */

    /* Where there are fewer places than keys. */
    struct limiter_key keys[LIMITER_COUNT_MAX][LIMITER_KEYS_MAX];
    struct limiter_step reservations[LIMITER_RESERVATIONS_MAX]; /* that got them */
};

void limiter_trace_fail(struct limiter_trace *t, const char *rule, const struct limiter_step *step);

/*
 * What each key got, where there are fewer places than keys. Which bucket decides cannot be known
 * from outside, but no key may get more than a bucket that is its own and was full at first.
 */
void limiter_keys_init(struct limiter_trace *t);
void limiter_keys_run(struct limiter_trace *t, struct limiter_step *step);

/* Observations of a step besides its answer. */
struct limiter_peek {
    struct limiter_answer before; /* the same, as a peek */
    struct limiter_step bystander;
    struct limiter_answer bystander_before;
    bool has_looked;
    bool has_overflowed;
    bool is_waved; /* some key was not limited at all */
};

/* Asks the subject, and counts it. */
void limiter_keys_ask(struct limiter_trace *t, const struct limiter_step *step,
                      struct limiter_answer *out);

/* Peeks before a take, also at another key. Only for steps that are checked this way. */
bool limiter_denial_is_looked_at(const struct limiter_step *step);
void limiter_denial_peek(struct limiter_trace *t, const struct limiter_step *step,
                         struct limiter_peek *around);

/* After a denied take: no peek shows it. */
void limiter_denial_check(struct limiter_trace *t, const struct limiter_step *step,
                          const struct limiter_answer *got, const struct limiter_peek *around);

/* After the reported wait it passes, one nanosecond earlier it does not, if the keys have buckets of their own. */
void limiter_denial_check_retry(struct limiter_trace *t, const struct limiter_step *step,
                                const struct limiter_answer *got);

#endif
