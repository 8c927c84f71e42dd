/*
 * Negative controls: limiters with one bug each, wrapped around a real one, and run through the same checks. Each check
 * must catch the bugs that it is for, otherwise it proves nothing.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "limiter_trace.h"
#include "trace.h"

#define TRACES_MAX 3000

/* A limiter around the real one, which sometimes shows its bug. */
struct disguise {
    struct limiter_answerer base;
    struct limiter_subject *real;
    struct trace_random random;
};

static struct disguise disguise;

static void pass(const struct limiter_step *step, struct limiter_answer *out)
{
    disguise.real->base.answer(&disguise.real->base, step, out);
}

static bool now_and_then(uint64_t one_in)
{
    return trace_random_below(&disguise.random, one_in) == 0;
}

/* The same step with one of the requests only. */
static struct limiter_step about(const struct limiter_step *step, enum limiter_call call,
                                 unsigned index)
{
    struct limiter_step one = {.call = call,
                               .scope = LIMITER_ONE,
                               .now_ns = step->now_ns,
                               .ask_count = 1,
                               .asks = {step->asks[index]}};

    return one;
}

static bool is_take(const struct limiter_step *step)
{
    return step->call == LIMITER_TAKE || step->call == LIMITER_ALLOW;
}

/* --- the bugs --- */

static void none(struct limiter_answerer *self, const struct limiter_step *step,
                 struct limiter_answer *out)
{
    (void)self;
    pass(step, out);
}

/* A key with tokens in use is evicted, as with LRU. */
static void forgets(struct limiter_answerer *self, const struct limiter_step *step,
                    struct limiter_answer *out)
{
    (void)self;
    if (is_take(step) && now_and_then(8)) {
        struct limiter_step reset = about(step, LIMITER_RESET, 0);
        struct limiter_answer ignored;

        pass(&reset, &ignored);
    }
    pass(step, out);
}

/* The first limiter of a stack keeps its tokens when another denies. */
static void charges_first(struct limiter_answerer *self, const struct limiter_step *step,
                          struct limiter_answer *out)
{
    (void)self;
    pass(step, out);
    if (is_take(step) && step->ask_count > 1 && out->decision.verdict == RATION_DENY) {
        struct limiter_step charge = about(step, LIMITER_CHARGE, 0);
        struct limiter_answer ignored;

        pass(&charge, &ignored);
    }
}

/* A denial of one limiter costs a token. */
static void denial_costs(struct limiter_answerer *self, const struct limiter_step *step,
                         struct limiter_answer *out)
{
    (void)self;
    pass(step, out);
    if (step->call == LIMITER_TAKE && out->decision.verdict == RATION_DENY) {
        struct limiter_step charge = about(step, LIMITER_CHARGE, 0);
        struct limiter_answer ignored;

        pass(&charge, &ignored);
    }
}

static void reports_less(struct limiter_answerer *self, const struct limiter_step *step,
                         struct limiter_answer *out)
{
    (void)self;
    pass(step, out);
    if (out->decision.verdict == RATION_DENY && out->decision.retry_after_ns > 1)
        out->decision.retry_after_ns--;
}

static void reports_more(struct limiter_answerer *self, const struct limiter_step *step,
                         struct limiter_answer *out)
{
    (void)self;
    pass(step, out);
    if (out->decision.verdict == RATION_DENY)
        out->decision.retry_after_ns++;
}

static void refunds_twice(struct limiter_answerer *self, const struct limiter_step *step,
                          struct limiter_answer *out)
{
    (void)self;
    pass(step, out);
    if (step->call == LIMITER_REFUND)
        pass(step, out);
}

/* The second of a key's takes in one batch is not decided by itself. */
static void batch_decides_once(struct limiter_answerer *self, const struct limiter_step *step,
                               struct limiter_answer *out)
{
    struct limiter_step once = *step;
    unsigned from[LIMITER_ASKS_MAX];
    struct limiter_answer answer;

    (void)self;
    if (step->call != LIMITER_BATCH) {
        pass(step, out);
        return;
    }
    once.ask_count = 0;
    for (unsigned i = 0; i < step->ask_count; i++) {
        from[i] = 0;
        while (from[i] < once.ask_count && once.asks[from[i]].key != step->asks[i].key)
            from[i]++;
        if (from[i] == once.ask_count)
            once.asks[once.ask_count++] = step->asks[i];
    }
    pass(&once, &answer);
    *out = answer;
    memset(out->verdicts, 0, sizeof out->verdicts);
    out->granted = 0;
    for (unsigned i = 0; i < step->ask_count; i++) {
        out->verdicts[i] = answer.verdicts[from[i]];
        out->granted += out->verdicts[i] == RATION_ALLOW;
    }
}

/* A key without a place is admitted, and not charged. */
static void overflow_forgets(struct limiter_answerer *self, const struct limiter_step *step,
                             struct limiter_answer *out)
{
    struct ration_limiter_stats before = limiter_subject_stats(disguise.real);
    struct ration_limiter_stats after;

    (void)self;
    pass(step, out);
    after = limiter_subject_stats(disguise.real);
    if (is_take(step) && after.overflow_shared > before.overflow_shared &&
        out->decision.verdict == RATION_DENY)
        out->decision.verdict = RATION_ALLOW;
}

/* Two takes at once both see the tokens that one of them gets. */
static void takes_twice(struct limiter_answerer *self, const struct limiter_step *step,
                        struct limiter_answer *out)
{
    (void)self;
    pass(step, out);
    if (step->call == LIMITER_TAKE && out->decision.verdict == RATION_DENY && now_and_then(4))
        out->decision.verdict = RATION_ALLOW;
}

/* A peek is not free. */
static void peek_takes(struct limiter_answerer *self, const struct limiter_step *step,
                       struct limiter_answer *out)
{
    (void)self;
    pass(step, out);
    if (step->call == LIMITER_PEEK && step->scope == LIMITER_ONE && now_and_then(2)) {
        struct limiter_step take = *step;
        struct limiter_answer ignored;

        take.call = LIMITER_TAKE;
        pass(&take, &ignored);
    }
}

/* A now that runs backwards starts the key again. */
static void stale_resets(struct limiter_answerer *self, const struct limiter_step *step,
                         struct limiter_answer *out)
{
    static uint64_t latest_ns;

    (void)self;
    if (is_take(step) && step->now_ns < latest_ns) {
        struct limiter_step reset = about(step, LIMITER_RESET, 0);
        struct limiter_answer ignored;

        pass(&reset, &ignored);
    }
    latest_ns = step->now_ns;
    pass(step, out);
}

struct control {
    const char *name;
    void (*answer)(struct limiter_answerer *self, const struct limiter_step *step,
                   struct limiter_answer *out);
    enum limiter_mode mode;
    unsigned checks;
    const char *check_name;
};

static const struct control controls[] = {
    {"evicts keys in debt", forgets, LIMITER_EXACT, LIMITER_CHECK_MODEL, "model"},
    {"evicts keys in debt", forgets, LIMITER_EXACT, LIMITER_CHECK_R7, "R7"},
    {"evicts keys in debt", forgets, LIMITER_OVERFLOW, LIMITER_CHECK_R7, "R7"},
    {"evicts keys in debt", forgets, LIMITER_OVERFLOW, LIMITER_CHECK_R1, "R1"},
    {"evicts keys in debt", forgets, LIMITER_RELOAD, LIMITER_CHECK_R1, "R1"},
    {"first limit keeps its token", charges_first, LIMITER_EXACT, LIMITER_CHECK_MODEL, "model"},
    {"first limit keeps its token", charges_first, LIMITER_OVERFLOW, LIMITER_CHECK_R2, "R2"},
    {"denial costs", denial_costs, LIMITER_OVERFLOW, LIMITER_CHECK_R2, "R2"},
    {"reported wait 1 ns too short", reports_less, LIMITER_EXACT, LIMITER_CHECK_MODEL, "model"},
    {"reported wait 1 ns too short", reports_less, LIMITER_OVERFLOW, LIMITER_CHECK_R4, "R4"},
    {"reported wait 1 ns too long", reports_more, LIMITER_OVERFLOW, LIMITER_CHECK_R4, "R4"},
    {"refunds twice", refunds_twice, LIMITER_CHANGE, LIMITER_CHECK_MODEL, "model"},
    {"evicts keys in debt", forgets, LIMITER_CHANGE, LIMITER_CHECK_MODEL, "model"},
    {"refunds twice", refunds_twice, LIMITER_EXACT, LIMITER_CHECK_MODEL, "model"},
    {"batch decides a key once", batch_decides_once, LIMITER_EXACT, LIMITER_CHECK_MODEL, "model"},
    {"batch decides a key once", batch_decides_once, LIMITER_OVERFLOW, LIMITER_CHECK_R1, "R1"},
    {"overflow without debt", overflow_forgets, LIMITER_OVERFLOW, LIMITER_CHECK_R1, "R1"},
    {"overflow without debt", overflow_forgets, LIMITER_OVERFLOW, LIMITER_CHECK_R7, "R7"},
    {"admits without charging", takes_twice, LIMITER_OVERFLOW, LIMITER_CHECK_PEEK, "peek"},
    {"admits without charging", takes_twice, LIMITER_STALE, LIMITER_CHECK_R1, "R1"},
    {"peek takes", peek_takes, LIMITER_EXACT, LIMITER_CHECK_MODEL, "model"},
    {"peek takes", peek_takes, LIMITER_OVERFLOW, LIMITER_CHECK_R2, "R2"},
    {"stale now resets", stale_resets, LIMITER_STALE, LIMITER_CHECK_R1, "R1"},
    {"stale now resets", stale_resets, LIMITER_STALE, LIMITER_CHECK_R7, "R7"},
};

static struct limiter_answerer *put_on(struct limiter_subject *subject, uint64_t seed)
{
    disguise.real = subject;
    disguise.random = (struct trace_random){seed};
    return &disguise.base;
}

/* The step at which a trace catches it, or 0; *out_trace is the number of the trace. */
static uint64_t catch_control(const struct control *c, uint64_t traces, uint64_t *out_trace)
{
    struct limiter_trace_count count = {0};
    uint64_t step = 0;

    disguise.base.answer = c->answer;
    for (*out_trace = 1; *out_trace <= traces && step == 0; ++*out_trace) {
        struct limiter_trace_options options = {.mode = c->mode,
                                                .seed = *out_trace,
                                                .checks = c->checks,
                                                .is_quiet = true,
                                                .disguise = put_on};

        step = limiter_trace_run(&options, &count);
    }
    --*out_trace;
    return step;
}

static bool check_control(const struct control *c)
{
    uint64_t trace;
    uint64_t step = catch_control(c, TRACES_MAX, &trace);

    if (step == 0)
        printf("control '%s' (%s) by %s: NOT caught\n", c->name, limiter_mode_name(c->mode),
               c->check_name);
    else
        printf("control '%s' (%s) by %s: caught at step %" PRIu64 " of trace %" PRIu64 "\n",
               c->name, limiter_mode_name(c->mode), c->check_name, step, trace);
    return step != 0;
}

/* Without a bug nothing is caught, so the check finds the bug and not the harness. */
static bool check_no_bug(enum limiter_mode mode)
{
    struct control c = {"no bug", none, mode, LIMITER_CHECK_ALL, "all"};
    uint64_t trace;
    bool passes = catch_control(&c, TRACES_MAX / 10, &trace) == 0;

    printf("control 'no bug' (%s) by all: %s\n", limiter_mode_name(mode),
           passes ? "passes" : "FAILS");
    return passes;
}

int main(void)
{
    bool all = true;

    for (enum limiter_mode mode = LIMITER_EXACT; mode < LIMITER_MODE_COUNT; mode++)
        all &= check_no_bug(mode);
    for (size_t i = 0; i < sizeof controls / sizeof controls[0]; i++)
        all &= check_control(&controls[i]);
    return all ? 0 : 1;
}
