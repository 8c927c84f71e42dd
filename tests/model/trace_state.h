/*
 * trace_state: a trace while it runs, and the operations of which it is made: each is done to the
 * subject, to the model and to the twin, and what they answer is checked.
 */
#ifndef RATION_TESTS_TRACE_STATE_H
#define RATION_TESTS_TRACE_STATE_H

#include "history.h"
#include "model.h"
#include "trace.h"

#define TRACE_OPEN_MAX 4

/* A reservation that is not ended, as the subject, its twin and the model remember it. */
struct open_reservation {
    struct subject_reservation subject;
    struct subject_reservation twin;
    struct model_mark before;
    struct model_mark mark;
};

struct trace {
    const struct trace_options *options;
    struct trace_count *count;
    const struct subject *subject;
    struct trace_random random;
    struct ration_limit limit;
    size_t size;
    bool is_monotone;
    uint64_t step;
    uint64_t steps;
    bool failed;

    uint64_t clock_ns;           /* the latest now */
    struct ration_decision last; /* and what was said then */
    uint64_t last_now_ns;
    uint64_t twin_since_ns; /* when the twin was last made zero */
    bool has_twin;

    unsigned open_count;
    struct open_reservation open[TRACE_OPEN_MAX];
    struct history history;
    struct model model;
    _Alignas(16) uint64_t state[SUBJECT_STATE_SIZE_MAX / 8];
    _Alignas(16) uint64_t twin[SUBJECT_STATE_SIZE_MAX / 8];
    _Alignas(16) uint64_t scratch[SUBJECT_STATE_SIZE_MAX / 8];
};

void trace_do_take(struct trace *t, uint64_t cost, uint64_t now_ns);
void trace_do_peek(struct trace *t, uint64_t cost, uint64_t now_ns);
void trace_do_take_up_to(struct trace *t, uint64_t cost, uint64_t now_ns);

/* choice: 0 refund, 1 charge, 2 set. */
void trace_do_change(struct trace *t, unsigned choice, uint64_t tokens, uint64_t now_ns);
void trace_do_block(struct trace *t, uint64_t until_ns);
void trace_do_reserve(struct trace *t, uint64_t cost, uint64_t max_wait_ns, uint64_t now_ns);
void trace_do_settle(struct trace *t, unsigned index, uint64_t used, uint64_t now_ns);

/* Makes the twin of zero bytes if the bucket is full by now. */
void trace_forget_if_full(struct trace *t);

#endif
