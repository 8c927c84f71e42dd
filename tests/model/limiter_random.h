/*
 * limiter_random: random limiters and stacks, and random calls of them.
 *
 * Limits of one setup are mostly of one scale of time, so that several matter at once, and small,
 * so that they are used up. Moments that were reported, and those one nanosecond beside them, are as
 * frequent as any.
 */
#ifndef RATION_TESTS_LIMITER_RANDOM_H
#define RATION_TESTS_LIMITER_RANDOM_H

#include "limiter_step.h"
#include "trace.h"

struct limiter_options {
    unsigned limiters_max;
    unsigned rules_max;
    unsigned keys_min;
    unsigned keys_max;
    bool is_tight;      /* tables of 16 to 40 places, with any overflow rule */
    bool starts_full;   /* all limits do */
    bool is_replayable; /* no hash with a secret */
    bool only_algorithms_of_buckets;
};

struct limiter_setup limiter_random_setup(struct trace_random *random,
                                          const struct limiter_options *options);

/* A limit of about the scale, that may stand beside others. */
struct ration_limit limiter_random_limit(struct trace_random *random, uint64_t scale_ns,
                                         enum trace_kind kind);

/* What steps are made of. */
struct limiter_walk {
    struct trace_random random;
    const struct limiter_setup *setup;
    uint64_t clock_ns; /* the latest now */
    uint64_t last_now_ns;
    struct ration_decision last; /* what was said then */
    bool is_slow;                /* time rarely advances: tokens in use pile up */
    bool may_run_back;
    bool may_give_back; /* refunds, resets, and reservations settled with less */
    bool may_wait;      /* reservations for later */
    struct {
        bool is_open;
        enum limiter_scope scope;
        unsigned limiter;
        unsigned key;
        uint64_t tokens;
    } reservations[LIMITER_RESERVATIONS_MAX];
};

/* The next step. limiter_walk_note() passes it the answers that it needs. */
struct limiter_step limiter_walk_next(struct limiter_walk *w);

void limiter_walk_note(struct limiter_walk *w, const struct limiter_step *step,
                       const struct limiter_answer *answer);

#endif
