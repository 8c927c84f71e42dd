/* Random calls. */
#include "limiter_random.h"

#include <string.h>

static uint64_t pick(struct limiter_walk *w, uint64_t bound)
{
    return trace_random_below(&w->random, bound);
}

static uint64_t later(uint64_t ns, uint64_t by_ns)
{
    return ns + by_ns < ns ? UINT64_MAX : ns + by_ns;
}

/* --- when --- */

static const struct ration_limit *pick_limit(struct limiter_walk *w, unsigned limiter)
{
    const struct limiter_plan *plan = &w->setup->plans[limiter];

    return &plan->rules[pick(w, plan->rule_count)].limit;
}

static uint64_t pick_span(struct limiter_walk *w)
{
    const struct ration_limit *limit = pick_limit(w, (unsigned)pick(w, w->setup->limiter_count));
    uint64_t unit_ns = pick(w, 2) ? limit->rate.token.ns : limit->period_ns;

    return pick(w, 3) ? pick(w, 2 * unit_ns + 2) : trace_random_sized(&w->random, 16 * unit_ns);
}

/* The moment that was last reported to a caller, or one nanosecond beside it. */
static uint64_t pick_reported(struct limiter_walk *w)
{
    uint64_t reported_ns = 0;

    if (w->last.verdict == RATION_DENY)
        reported_ns = w->last.retry_after_ns;
    else if (pick(w, 4) == 0)
        reported_ns = w->last.reset_after_ns;
    return later(w->last_now_ns, reported_ns) + (pick(w, 2) ? 0 : pick(w, 3) - 1);
}

/* A time that has been, or an extreme. */
static uint64_t pick_stale(struct limiter_walk *w)
{
    uint64_t distance_ns = w->clock_ns < 99 ? w->clock_ns : 99;

    switch (pick(w, 16)) {
    case 0:
        return 0;
    case 1:
        return pick(w, 12) ? w->clock_ns : UINT64_MAX - pick(w, 3);
    case 2:
        return w->clock_ns - trace_random_sized(&w->random, w->clock_ns);
    case 3:
    case 4:
    case 5: {
        uint64_t span_ns = pick_span(w);
        return w->clock_ns - (span_ns < w->clock_ns ? span_ns : w->clock_ns);
    }
    default:
        return w->clock_ns - trace_random_sized(&w->random, distance_ns);
    }
}

static uint64_t pick_now(struct limiter_walk *w)
{
    uint64_t choice = pick(w, 64);
    uint64_t now_ns = w->clock_ns;

    if (w->is_slow && choice < 36 && pick(w, 8))
        return now_ns;
    if (choice < 16)
        now_ns = later(now_ns, pick_span(w));
    else if (choice < 34)
        now_ns = pick_reported(w);
    else if (choice < 35)
        now_ns = later(now_ns, trace_random_sized(&w->random, RATION_NS_PER_YEAR / 16));
    else if (choice < 43 && w->may_run_back)
        return pick_stale(w);

    if (now_ns < w->clock_ns && !w->may_run_back)
        now_ns = w->clock_ns;
    if (now_ns - w->clock_ns > RATION_NS_PER_YEAR && now_ns > w->clock_ns)
        now_ns = w->clock_ns; /* the bucket is full in years: wait for another event */
    return now_ns;
}

/* --- what --- */

/*
 * Whether tokens may be given back to keys of a limiter. Where keys are remembered beyond being full
 * it is left open how long one is that was filled by a refund: a window without a count, or a log
 * without tokens, has no moment.
 */
static bool may_give_back(const struct limiter_walk *w, unsigned limiter)
{
    return w->may_give_back && limiter_plan_stale_after_ns(&w->setup->plans[limiter]) == 0;
}

static uint64_t pick_tokens(struct limiter_walk *w, unsigned limiter)
{
    const struct ration_limit *limit = pick_limit(w, limiter);
    uint64_t choice = pick(w, 32);

    if (choice < 14)
        return 1;
    if (choice < 16)
        return 0;
    if (choice < 20)
        return 1 + pick(w, 5);
    if (choice < 23)
        return trace_random_sized(&w->random, limit->burst);
    if (choice < 27)
        return w->last.remaining < UINT64_MAX ? w->last.remaining + pick(w, 2) : 2;
    if (choice < 29)
        return limit->burst;
    if (choice == 29)
        return limit->reserve_burst + pick(w, 2);
    return choice == 30 ? limit->burst + 1 : pick(w, 2) ? UINT64_MAX : limit->burst / 2;
}

/* What an admin operation may add: different counts must be distinguishable. */
static uint64_t pick_forced(struct limiter_walk *w, unsigned limiter)
{
    uint64_t tokens = pick_tokens(w, limiter);
    uint64_t most = 4 * pick_limit(w, limiter)->tokens + 4;

    return tokens < most ? tokens : most;
}

static unsigned pick_key(struct limiter_walk *w)
{
    unsigned few = w->setup->key_count < 3 ? w->setup->key_count : 3;

    return (unsigned)pick(w, pick(w, 3) ? w->setup->key_count : few);
}

static void ask_one(struct limiter_walk *w, struct limiter_step *step)
{
    unsigned limiter = (unsigned)pick(w, w->setup->limiter_count);

    step->scope = LIMITER_ONE;
    step->ask_count = 1;
    step->asks[0] = (struct limiter_ask){limiter, pick_key(w), pick_tokens(w, limiter)};
}

static void ask_all(struct limiter_walk *w, struct limiter_step *step)
{
    unsigned key = pick_key(w);
    uint64_t tokens = pick_tokens(w, (unsigned)pick(w, w->setup->limiter_count));

    step->scope = LIMITER_ALL;
    step->ask_count = w->setup->limiter_count;
    for (unsigned i = 0; i < step->ask_count; i++)
        step->asks[i] = (struct limiter_ask){i, w->setup->has_key_func ? pick_key(w) : key, tokens};
}

/* Several keys, some of them twice; no more rules than a stack may decide. */
static void ask_list(struct limiter_walk *w, struct limiter_step *step)
{
    unsigned count = 1 + (unsigned)pick(w, 5);
    unsigned rules = 0;

    step->scope = LIMITER_LIST;
    step->ask_count = 0;
    for (unsigned i = 0; i < count; i++) {
        unsigned limiter = (unsigned)pick(w, w->setup->limiter_count);
        struct limiter_ask ask = {limiter, pick_key(w), pick(w, 3) ? 1 : pick_tokens(w, limiter)};

        if (i > 0 && pick(w, 3) == 0) {
            ask.limiter = step->asks[0].limiter;
            ask.key = step->asks[0].key;
        }
        rules += w->setup->plans[ask.limiter].rule_count;
        if (rules <= RATION_CALL_RULES_MAX)
            step->asks[step->ask_count++] = ask;
    }
}

static void ask_batch(struct limiter_walk *w, struct limiter_step *step)
{
    unsigned limiter = (unsigned)pick(w, w->setup->limiter_count);

    step->call = LIMITER_BATCH;
    step->scope = LIMITER_ONE;
    step->ask_count = 1 + (unsigned)trace_random_sized(&w->random, LIMITER_ASKS_MAX - 1);
    for (unsigned i = 0; i < step->ask_count; i++)
        step->asks[i] =
            (struct limiter_ask){limiter, pick_key(w), pick(w, 4) ? 1 : pick_tokens(w, limiter)};
}

static void ask_reserve(struct limiter_walk *w, struct limiter_step *step)
{
    const struct ration_limit *limit;

    step->call = LIMITER_RESERVE;
    step->reservation = (unsigned)pick(w, LIMITER_RESERVATIONS_MAX);
    if (w->setup->is_stack && pick(w, 2))
        ask_all(w, step);
    else
        ask_one(w, step);
    limit = pick_limit(w, step->asks[0].limiter);
    step->max_wait_ns =
        pick(w, 8) ? trace_random_sized(&w->random, 4 * (limit->rate.capacity.ns + 1)) : UINT64_MAX;
    if (!w->may_wait)
        step->max_wait_ns = 0;
}

static void ask_settle(struct limiter_walk *w, struct limiter_step *step)
{
    unsigned reservation = (unsigned)pick(w, LIMITER_RESERVATIONS_MAX);
    uint64_t tokens = w->reservations[reservation].tokens;
    bool is_one_way = false;

    if (!w->reservations[reservation].is_open) {
        step->call = LIMITER_TAKE;
        return;
    }
    step->call = LIMITER_SETTLE;
    step->reservation = reservation;
    step->scope = w->reservations[reservation].scope;
    step->ask_count = 1;
    step->asks[0] = (struct limiter_ask){w->reservations[reservation].limiter,
                                         w->reservations[reservation].key, tokens};
    step->used_tokens = pick(w, 2) ? 0 : pick_forced(w, step->asks[0].limiter);
    for (unsigned i = 0; i < w->setup->limiter_count; i++)
        is_one_way |=
            (step->scope == LIMITER_ALL || i == step->asks[0].limiter) && !may_give_back(w, i);
    if (is_one_way && step->used_tokens < tokens)
        step->used_tokens = tokens;
}

static void ask_other(struct limiter_walk *w, struct limiter_step *step)
{
    unsigned limiter = step->asks[0].limiter;

    switch (pick(w, 9)) {
    case 0:
        step->call = may_give_back(w, limiter) ? LIMITER_REFUND : LIMITER_CHARGE;
        step->asks[0].tokens = pick_forced(w, limiter);
        break;
    case 1:
        step->call = LIMITER_CHARGE;
        step->asks[0].tokens = pick_forced(w, limiter);
        break;
    case 2:
        step->call = may_give_back(w, limiter) ? LIMITER_RESET : LIMITER_PEEK;
        break;
    case 3:
        step->call = LIMITER_BLOCK;
        step->until_ns = pick(w, 4) || !w->may_run_back /* what is over is time that runs back */
                             ? later(step->now_ns, pick_span(w))
                             : pick_stale(w);
        if (step->until_ns > later(w->clock_ns, RATION_NS_PER_YEAR))
            step->until_ns = w->may_run_back ? w->clock_ns : step->now_ns;
        break;
    case 4:
    case 5:
        ask_settle(w, step);
        break;
    default:
        ask_reserve(w, step);
    }
}

struct limiter_step limiter_walk_next(struct limiter_walk *w)
{
    struct limiter_step step;
    uint64_t choice = pick(w, 32);

    memset(&step, 0, sizeof step);
    step.now_ns = pick_now(w);
    ask_one(w, &step);
    if (choice < 10 && w->setup->is_stack)
        ask_all(w, &step);
    else if (choice < 14 && w->setup->is_stack)
        ask_list(w, &step);

    if (step.scope == LIMITER_LIST)
        step.call = LIMITER_TAKE;
    else if (choice < 18)
        step.call = pick(w, 4) ? LIMITER_TAKE : LIMITER_ALLOW;
    else if (choice < 20)
        step.call = LIMITER_PEEK;
    else if (choice < 22)
        step.call = LIMITER_UP_TO;
    else if (choice < 23)
        ask_batch(w, &step);
    else if (choice < 26)
        step.call = LIMITER_ALLOW;
    else
        ask_other(w, &step);
    return step;
}

void limiter_walk_note(struct limiter_walk *w, const struct limiter_step *step,
                       const struct limiter_answer *answer)
{
    bool is_jump = w->may_run_back && step->now_ns - w->clock_ns > RATION_NS_PER_YEAR;

    if (step->now_ns > w->clock_ns && !is_jump)
        w->clock_ns = step->now_ns;
    if (step->call == LIMITER_SETTLE)
        w->reservations[step->reservation].is_open = false;
    if (step->call > LIMITER_RESERVE)
        return;
    w->last = answer->decision;
    w->last_now_ns = step->now_ns;
    if (step->call != LIMITER_RESERVE || answer->decision.verdict != RATION_ALLOW)
        return;
    w->reservations[step->reservation].is_open = step->asks[0].tokens > 0;
    w->reservations[step->reservation].scope = step->scope;
    w->reservations[step->reservation].limiter = step->asks[0].limiter;
    w->reservations[step->reservation].key = step->asks[0].key;
    w->reservations[step->reservation].tokens = step->asks[0].tokens;
}
