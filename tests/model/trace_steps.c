/* Which step comes next, and the run of a trace. */
#include <string.h>

#include "trace_state.h"

static uint64_t pick(struct trace *t, uint64_t bound)
{
    return trace_random_below(&t->random, bound);
}

static uint64_t later(uint64_t ns, uint64_t by_ns)
{
    return ns + by_ns < ns ? UINT64_MAX : ns + by_ns;
}

/* About the time of a token or of a window. */
static uint64_t pick_step(struct trace *t)
{
    uint64_t token_ns = t->limit.rate.token.ns;
    uint64_t window_ns = t->limit.period_ns;
    uint64_t unit_ns = t->options->kind < TRACE_FIXED && pick(t, 2) ? token_ns : window_ns;

    return pick(t, 3) ? pick(t, 2 * unit_ns + 2) : trace_random_sized(&t->random, 16 * unit_ns);
}

/* The moment that was last reported to a caller, or one nanosecond beside it. */
static uint64_t pick_reported(struct trace *t)
{
    uint64_t reported_ns = 0;
    uint64_t moment_ns;

    if (t->last.verdict == RATION_DENY)
        reported_ns = t->last.retry_after_ns;
    else if (pick(t, 4) == 0)
        reported_ns = t->last.reset_after_ns;
    moment_ns = later(t->last_now_ns, reported_ns);

    moment_ns += pick(t, 2) ? 0 : pick(t, 3) - 1;
    return moment_ns;
}

/* A time that has been, or an extreme. */
static uint64_t pick_stale(struct trace *t)
{
    switch (pick(t, 16)) {
    case 0:
        return 0;
    case 1:
        if (pick(t, 8) == 0) {
            t->steps = t->step + 8; /* nothing but stale times can follow */
            return pick(t, 4) ? MODEL_NOW_MAX_NS - pick(t, 3) : UINT64_MAX - pick(t, 2);
        }
        /* fall through */
    case 2:
    case 3:
        return t->clock_ns - trace_random_sized(&t->random, t->clock_ns);
    default:
        return t->clock_ns - trace_random_sized(&t->random, t->clock_ns < 99 ? t->clock_ns : 99);
    }
}

static uint64_t pick_now(struct trace *t)
{
    uint64_t choice = pick(t, 64);
    uint64_t now_ns = t->clock_ns;

    if (choice < 20)
        now_ns = later(now_ns, pick_step(t));
    else if (choice < 44)
        now_ns = pick_reported(t);
    else if (choice < 45)
        now_ns = later(now_ns, trace_random_sized(&t->random, RATION_NS_PER_YEAR));
    else if (choice < 49 && !t->is_monotone)
        now_ns = pick_stale(t);

    if (t->is_monotone && now_ns > MODEL_NOW_MAX_NS)
        now_ns = MODEL_NOW_MAX_NS;
    if (now_ns < t->clock_ns && t->is_monotone)
        now_ns = t->clock_ns;
    if (now_ns > t->clock_ns)
        t->clock_ns = now_ns;
    return now_ns;
}

static uint64_t pick_cost(struct trace *t)
{
    uint64_t burst = t->limit.burst;
    uint64_t choice = pick(t, 32);

    if (choice < 14)
        return 1;
    if (choice < 17)
        return 0;
    if (choice < 21)
        return 1 + pick(t, 5);
    if (choice < 24)
        return trace_random_sized(&t->random, burst);
    if (choice < 28)
        return t->last.remaining + pick(t, 2);
    if (choice < 30)
        return burst;
    if (t->options->kind == TRACE_RESERVE)
        return t->limit.reserve_burst + pick(t, 2);
    return choice == 30 ? burst + 1 : pick(t, 2) ? UINT64_MAX : burst / 2;
}

static uint64_t pick_max_wait(struct trace *t)
{
    return pick(t, 8) ? trace_random_sized(&t->random, 4 * (t->limit.rate.capacity.ns + 1))
                      : UINT64_MAX;
}

static void do_other(struct trace *t)
{
    uint64_t now_ns = pick_now(t);
    uint64_t cost = pick_cost(t);

    switch (pick(t, 8)) {
    case 0:
        trace_do_change(t, 0, cost, now_ns);
        break;
    case 1:
        trace_do_change(t, pick(t, 4) == 0 ? 2 : 1, cost, now_ns);
        break;
    case 2:
        trace_do_block(t, pick(t, 4) ? later(now_ns, pick_step(t)) : pick_stale(t));
        break;
    case 3:
    case 4:
        trace_do_settle(t, (unsigned)pick(t, TRACE_OPEN_MAX), pick(t, 2) ? 0 : cost, now_ns);
        break;
    default:
        trace_do_reserve(t, cost, pick_max_wait(t), now_ns);
    }
}

static void run_step(struct trace *t)
{
    uint64_t choice = pick(t, 16);

    if (choice < 12) {
        uint64_t now_ns = pick_now(t);
        trace_do_take(t, pick_cost(t), now_ns);
    } else if (choice == 12) {
        trace_do_peek(t, pick_cost(t), pick_now(t));
    } else if (choice == 13) {
        trace_do_take_up_to(t, pick_cost(t), pick_now(t));
    } else if (!t->is_monotone && !t->options->only_takes) {
        do_other(t);
    }
    trace_forget_if_full(t);
}

static void begin(struct trace *t, const struct trace_options *options, struct trace_count *count)
{
    t->options = options;
    t->count = count;
    t->random = (struct trace_random){options->seed};
    t->limit = trace_random_limit(&t->random, options->kind);
    t->subject = options->subject ? options->subject : subject_of(&t->limit);
    t->size = t->subject->size(&t->limit);
    t->is_monotone = pick(t, 2);
    t->failed = false;
    t->clock_ns = pick(t, 32) ? trace_random_sized(&t->random, UINT64_MAX >> 2)
                              : MODEL_NOW_MAX_NS - trace_random_sized(&t->random, UINT64_MAX >> 3);
    t->last = (struct ration_decision){.remaining = t->limit.burst};
    t->last_now_ns = t->clock_ns;
    t->twin_since_ns = 0;
    t->has_twin = false;
    t->open_count = 0;
    memset(t->state, 0, t->size);
    history_init(&t->history, &t->limit);
    model_init(&t->model, &t->limit);
    if (t->limit.start != RATION_START_FULL) {
        t->subject->start(t->state, &t->limit, t->clock_ns);
        model_start(&t->model, t->clock_ns);
    }
    count->traces++;
}

uint64_t trace_run(const struct trace_options *options, struct trace_count *count)
{
    static struct trace trace;

    begin(&trace, options, count);
    trace.steps = 20 + trace_random_sized(&trace.random, 500);
    for (trace.step = 1; trace.step <= trace.steps; trace.step++) {
        run_step(&trace);
        if (trace.failed)
            return trace.step;
    }
    return 0;
}
