/*
 * limiter_subject: a real limiter or stack, by the public interface.
 */
#ifndef RATION_TESTS_LIMITER_SUBJECT_H
#define RATION_TESTS_LIMITER_SUBJECT_H

#include "limiter_step.h"
#include "ration/dump.h"

struct limiter_subject {
    struct limiter_answerer base;
    const struct limiter_setup *setup; /* borrowed */
    struct ration_manual_clock clock;
    ration_limiter *limiter; /* one of the two */
    ration_stack *stack;
    struct ration_reservation reservations[LIMITER_RESERVATIONS_MAX];
};

/* Stops the program if it cannot be made. Release with limiter_subject_done(). */
void limiter_subject_init(struct limiter_subject *s, const struct limiter_setup *setup);
void limiter_subject_done(struct limiter_subject *s);

ration_limiter *limiter_subject_at(const struct limiter_subject *s, unsigned index);

/* The key statistics of all its limiters. */
struct ration_limiter_stats limiter_subject_stats(const struct limiter_subject *s);

/* Dumps it at now, and loads it when the clock reads later_ns. Reservations stay valid. */
void limiter_subject_reload(struct limiter_subject *s, uint64_t now_ns, uint64_t later_ns);

#endif
