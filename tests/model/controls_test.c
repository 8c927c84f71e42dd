/*
 * Negative controls: limiters with one bug each, run through the same checks. Each check must catch the bugs that it is
 * for, otherwise it proves nothing.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "greedy.h"
#include "history.h"
#include "model.h"
#include "trace.h"

#define TRACES_MAX 20000

enum mutant {
    NONE,
    TRUNCATED_TOKEN, /* token time truncated to whole nanoseconds */
    ROUNDED_TOKEN,   /* token time rounded up to whole nanoseconds */
    TRUNCATED_WAIT,  /* reported wait truncated to whole nanoseconds */
    LONG_WAIT,       /* reported wait one nanosecond too long */
    LESS_NOT_EQUAL,  /* < where <= belongs */
    NO_CLAMP,        /* tokens pile up beyond the burst */
    STALE_REWINDS,   /* a time before the last one starts the bucket again */
    DENIAL_CONSUMES,
    PEEK_WRITES /* cost 0 moves the state */
};

static struct ration_decision describe(enum ration_verdict verdict, model_units tat,
                                       model_units token, uint64_t wait_ns,
                                       const struct ration_limit *limit, uint64_t now_ns)
{
    model_units used = tat - (model_units)now_ns * MODEL_UNITS_PER_NS;
    model_units left = token * (model_units)limit->burst - (used > 0 ? used : 0);

    return (struct ration_decision){
        .verdict = verdict,
        .limit = limit->burst,
        .remaining = left > 0 ? (uint64_t)(left / token) : 0,
        .retry_after_ns = wait_ns,
        .reset_after_ns =
            used > 0 ? (uint64_t)((used + MODEL_UNITS_PER_NS - 1) / MODEL_UNITS_PER_NS) : 0,
    };
}

static model_units token_of(const struct ration_limit *limit, enum mutant mutant)
{
    if (mutant == TRUNCATED_TOKEN)
        return (model_units)limit->rate.token.ns * MODEL_UNITS_PER_NS;
    if (mutant == ROUNDED_TOKEN && limit->rate.token.frac > 0)
        return (model_units)(limit->rate.token.ns + 1) * MODEL_UNITS_PER_NS;
    return (model_units)limit->rate.token.ns * MODEL_UNITS_PER_NS +
           (model_units)limit->rate.token.frac;
}

static uint64_t wait_of(model_units units, enum mutant mutant)
{
    uint64_t wait_ns = (uint64_t)((units + MODEL_UNITS_PER_NS - 1) / MODEL_UNITS_PER_NS);

    if (mutant == TRUNCATED_WAIT)
        wait_ns = (uint64_t)(units / MODEL_UNITS_PER_NS);
    return wait_ns + (mutant == LONG_WAIT);
}

static void store(uint64_t *words, model_units tat)
{
    words[0] = (uint64_t)(tat / MODEL_UNITS_PER_NS);
    words[1] = (uint64_t)(tat % MODEL_UNITS_PER_NS);
}

/* A token bucket written from the rules, with the bug. */
static struct ration_decision mutant_take(uint64_t *words, const struct ration_limit *limit,
                                          uint64_t cost, uint64_t now_ns, enum mutant mutant)
{
    now_ns = now_ns < MODEL_NOW_MAX_NS ? now_ns : MODEL_NOW_MAX_NS;
    model_units tat = (model_units)words[0] * MODEL_UNITS_PER_NS + (model_units)words[1];
    model_units now = (model_units)now_ns * MODEL_UNITS_PER_NS;
    model_units token = token_of(limit, mutant);
    model_units room = now + token * (model_units)limit->burst;

    if (cost > limit->burst)
        return describe(RATION_NEVER, tat, token, RATION_FOREVER, limit, now_ns);
    if (mutant == STALE_REWINDS && tat > room)
        tat = now;

    model_units start = tat > now || mutant == NO_CLAMP ? tat : now;
    model_units next = start + token * (model_units)cost;
    bool fits = mutant == LESS_NOT_EQUAL ? next < room : next <= room;

    if (cost == 0 && mutant == PEEK_WRITES)
        store(words, start);
    if (cost == 0)
        return describe(RATION_ALLOW, tat, token, 0, limit, now_ns);
    if (fits || mutant == DENIAL_CONSUMES)
        store(words, next);
    if (!fits)
        return describe(RATION_DENY, tat, token, wait_of(next - room, mutant), limit, now_ns);
    return describe(RATION_ALLOW, next, token, 0, limit, now_ns);
}

#define MUTANT(name, value)                                                           \
    static struct ration_decision name(void *state, const struct ration_limit *limit, \
                                       uint64_t cost, uint64_t now_ns)                \
    {                                                                                 \
        return mutant_take(state, limit, cost, now_ns, value);                        \
    }

MUTANT(take_none, NONE)
MUTANT(take_truncated_token, TRUNCATED_TOKEN)
MUTANT(take_rounded_token, ROUNDED_TOKEN)
MUTANT(take_truncated_wait, TRUNCATED_WAIT)
MUTANT(take_long_wait, LONG_WAIT)
MUTANT(take_less_not_equal, LESS_NOT_EQUAL)
MUTANT(take_no_clamp, NO_CLAMP)
MUTANT(take_stale_rewinds, STALE_REWINDS)
MUTANT(take_denial_consumes, DENIAL_CONSUMES)
MUTANT(take_peek_writes, PEEK_WRITES)

/* For the other algorithms: every take is allowed. */
static struct ration_decision take_always(void *state, const struct ration_limit *limit,
                                          uint64_t cost, uint64_t now_ns)
{
    (void)state;
    (void)cost;
    (void)now_ns;
    return (struct ration_decision){.verdict = RATION_ALLOW, .limit = limit->burst};
}

typedef struct ration_decision take_function(void *state, const struct ration_limit *limit,
                                             uint64_t cost, uint64_t now_ns);

struct control {
    const char *name;
    take_function *take;
    enum trace_kind kind;
    unsigned checks;
    const char *check_name;
};

static const struct control controls[] = {
    {"token time truncated", take_truncated_token, TRACE_TOKEN, TRACE_CHECK_MODEL, "model"},
    {"token time truncated", take_truncated_token, TRACE_TOKEN, TRACE_CHECK_R1, "R1"},
    {"token time rounded up to ns", take_rounded_token, TRACE_TOKEN, TRACE_CHECK_MODEL, "model"},
    {"reported wait truncated", take_truncated_wait, TRACE_TOKEN, TRACE_CHECK_MODEL, "model"},
    {"reported wait truncated", take_truncated_wait, TRACE_TOKEN, TRACE_CHECK_R4, "R4"},
    {"reported wait 1 ns too long", take_long_wait, TRACE_TOKEN, TRACE_CHECK_R4, "R4"},
    {"< where <= belongs", take_less_not_equal, TRACE_TOKEN, TRACE_CHECK_MODEL, "model"},
    {"< where <= belongs", take_less_not_equal, TRACE_TOKEN, TRACE_CHECK_R4, "R4"},
    {"refill without clamp", take_no_clamp, TRACE_TOKEN, TRACE_CHECK_MODEL, "model"},
    {"refill without clamp", take_no_clamp, TRACE_TOKEN, TRACE_CHECK_R1, "R1"},
    {"refill without clamp", take_no_clamp, TRACE_TOKEN, TRACE_CHECK_R7, "R7"},
    {"stale now rewinds", take_stale_rewinds, TRACE_TOKEN, TRACE_CHECK_MODEL, "model"},
    {"denial consumes", take_denial_consumes, TRACE_TOKEN, TRACE_CHECK_MODEL, "model"},
    {"denial consumes", take_denial_consumes, TRACE_TOKEN, TRACE_CHECK_R2, "R2"},
    {"cost 0 writes", take_peek_writes, TRACE_TOKEN, TRACE_CHECK_R6, "R6"},
    {"always allowed, token", take_always, TRACE_TOKEN, TRACE_CHECK_R1, "R1"},
    {"always allowed, interval", take_always, TRACE_INTERVAL, TRACE_CHECK_R1, "R1"},
    {"always allowed, reserve", take_always, TRACE_RESERVE, TRACE_CHECK_R1, "R1"},
    {"always allowed, queue", take_always, TRACE_QUEUE, TRACE_CHECK_R1, "R1"},
    {"always allowed, fixed", take_always, TRACE_FIXED, TRACE_CHECK_R1, "R1"},
    {"always allowed, sliding", take_always, TRACE_SLIDING, TRACE_CHECK_R1, "R1"},
    {"always allowed, log", take_always, TRACE_LOG, TRACE_CHECK_R1, "R1"},
};

static const struct subject *subject_of_kind(enum trace_kind kind)
{
    if (kind == TRACE_RESERVE)
        return &subject_reserve;
    return kind == TRACE_LOG ? &subject_log : &subject_bucket;
}

/* The step at which a trace catches it, or 0; *out_trace is the number of the trace. */
static uint64_t catch_control(const struct control *c, uint64_t traces, uint64_t *out_trace)
{
    struct subject subject = *subject_of_kind(c->kind);
    struct trace_count count = {0};
    uint64_t step = 0;

    subject.take = c->take;
    subject.take_up_to = NULL;
    for (*out_trace = 1; *out_trace <= traces; ++*out_trace) {
        struct trace_options options = {.kind = c->kind,
                                        .seed = *out_trace,
                                        .checks = c->checks,
                                        .subject = &subject,
                                        .only_takes = true,
                                        .is_quiet = true};

        step = trace_run(&options, &count);
        if (step != 0)
            break;
    }
    return step;
}

static bool check_control(const struct control *c)
{
    uint64_t trace;
    uint64_t step = catch_control(c, TRACES_MAX, &trace);

    if (step == 0)
        printf("control '%s' by %s: NOT caught\n", c->name, c->check_name);
    else
        printf("control '%s' by %s: caught at step %" PRIu64 " of trace %" PRIu64 "\n", c->name,
               c->check_name, step, trace);
    return step != 0;
}

/* Without a bug nothing is caught, so the check finds the bug and not the harness. */
static bool check_no_mutant(void)
{
    static const struct control none = {"no bug", take_none, TRACE_TOKEN, TRACE_CHECK_ALL, "all"};
    uint64_t trace;
    uint64_t step = catch_control(&none, TRACES_MAX / 10, &trace);

    printf("control 'no bug' by all: %s\n", step == 0 ? "passes" : "FAILS");
    return step == 0;
}

/* Token times rounded up starve a greedy caller, truncated ones give it too much. */
static bool check_greedy(const char *text, take_function *take, const char *name)
{
    struct subject subject = subject_bucket;
    struct ration_limit limit;

    subject.take = take;
    ration_limit_parse(text, &limit, NULL);
    for (uint64_t count = 1; count < UINT64_C(1) << 20; count *= 2) {
        struct greedy_result r = greedy_run(&subject, &limit, 0, count);
        bool is_enough = history_is_greedy_enough(&limit, r.admitted_tokens, 0, r.last_ns);

        if (r.keeps_contract && is_enough)
            continue;
        printf("control '%s' at %s by R5: caught within %" PRIu64 " tokens, %s\n", name, text,
               count, is_enough ? "too many" : "too few");
        return true;
    }
    printf("control '%s' at %s by R5: NOT caught\n", name, text);
    return false;
}

int main(void)
{
    bool all = check_no_mutant();

    for (size_t i = 0; i < sizeof controls / sizeof controls[0]; i++)
        all &= check_control(&controls[i]);
    all &= check_greedy("900000/s burst 2", take_rounded_token, "token time rounded up to ns");
    all &= check_greedy("900000/s burst 2", take_truncated_token, "token time truncated");
    all &= check_greedy("700M/s burst 9", take_rounded_token, "token time rounded up to ns");
    return all ? 0 : 1;
}
