/* The algorithms that keep tokens or work: token bucket, interval bucket, leaky queue. */
#include "model_parts.h"

static model_units token_units(const struct ration_rate *rate)
{
    return units_of(rate->token.ns) + (model_units)rate->token.frac;
}

/* --- token bucket --- */

struct model_tokens model_tokens_make(const struct ration_rate *rate)
{
    struct model_tokens t = {token_units(rate), (model_units)rate->burst, 0, 0};

    t.available = t.token * t.burst;
    return t;
}

static model_units tokens_capacity(const struct model_tokens *t)
{
    return t->token * t->burst;
}

static model_units tokens_unclamped(const struct model_tokens *t, uint64_t now_ns)
{
    return t->available + units_of(now_ns) - units_of(t->at_ns);
}

model_units model_tokens_now(const struct model_tokens *t, uint64_t now_ns)
{
    return min_units(tokens_unclamped(t, now_ns), tokens_capacity(t));
}

static void tokens_put(struct model_tokens *t, model_units available, uint64_t now_ns)
{
    /* A bucket that was always full has the most tokens. */
    t->available = min_units(available, tokens_capacity(t) + units_of(now_ns));
    t->at_ns = now_ns;
}

uint64_t model_tokens_wait(const struct model_tokens *t, uint64_t cost, uint64_t now_ns)
{
    return wait_of(t->token * (model_units)cost - model_tokens_now(t, now_ns));
}

void model_tokens_pay(struct model_tokens *t, uint64_t cost, uint64_t now_ns)
{
    tokens_put(t, model_tokens_now(t, now_ns) - t->token * (model_units)cost, now_ns);
}

uint64_t model_tokens_remaining(const struct model_tokens *t, uint64_t now_ns)
{
    return (uint64_t)divide_down(max_units(model_tokens_now(t, now_ns), 0), t->token);
}

uint64_t model_tokens_full_after(const struct model_tokens *t, uint64_t now_ns)
{
    return wait_of(tokens_capacity(t) - tokens_unclamped(t, now_ns));
}

/* The time of so many tokens, limited to the whole tokens that fit in the span. */
static model_units tokens_worth(const struct model_tokens *t, uint64_t tokens)
{
    return t->token * min_units((model_units)tokens, units_of(MODEL_SPAN_NS) / t->token);
}

void model_tokens_refund(struct model_tokens *t, uint64_t tokens, uint64_t now_ns)
{
    tokens_put(t, tokens_unclamped(t, now_ns) + tokens_worth(t, tokens), now_ns);
}

void model_tokens_charge(struct model_tokens *t, uint64_t tokens, uint64_t now_ns)
{
    model_units before = model_tokens_now(t, now_ns);
    model_units lowest = min_units(before, tokens_capacity(t) - units_of(MODEL_SPAN_NS));

    tokens_put(t, max_units(before - tokens_worth(t, tokens), lowest), now_ns);
}

void model_tokens_set(struct model_tokens *t, uint64_t tokens, uint64_t now_ns)
{
    tokens_put(t, t->token * min_units((model_units)tokens, t->burst), now_ns);
}

void model_tokens_block(struct model_tokens *t, uint64_t until_ns)
{
    if (tokens_unclamped(t, until_ns) > t->token)
        tokens_put(t, t->token, until_ns);
}

/* Tokens beyond the burst that are lost at this now are also lost for an earlier now. */
void model_tokens_touch(struct model_tokens *t, uint64_t now_ns)
{
    tokens_put(t, model_tokens_now(t, now_ns), now_ns);
}

bool model_tokens_is_at(const struct model_tokens *t, const struct model_tokens *mark,
                        uint64_t now_ns)
{
    return tokens_unclamped(t, now_ns) == tokens_unclamped(mark, now_ns);
}

/* No caller waits, the turn has come, and the tokens are not refilled yet. */
void model_tokens_release(struct model_tokens *t, const struct model_release *r, uint64_t now_ns)
{
    const struct model_tokens *mark = &r->mark.parts[r->mark.part];
    model_units have = tokens_unclamped(t, now_ns);
    model_units by_mark = tokens_capacity(mark) - tokens_unclamped(mark, now_ns) -
                          tokens_worth(t, r->returned_tokens);
    model_units by_turn = units_of(r->turn_ns) + tokens_worth(t, r->cost_tokens) - units_of(now_ns);
    model_units back =
        min_units(tokens_worth(t, r->unused_tokens), max_units(max_units(by_mark, by_turn), 0));

    if (have < 0 || now_ns < r->turn_ns)
        back = 0;
    tokens_put(t, have + back, now_ns);
}

/* --- interval bucket --- */

/* Grid points passed since the anchor; below zero before it. */
static model_units interval_steps(const struct model *m, uint64_t now_ns)
{
    return divide_down((model_units)now_ns - (model_units)m->interval.anchor_ns,
                       (model_units)m->limit->period_ns);
}

model_units model_interval_out(const struct model *m, uint64_t now_ns)
{
    model_units amount = (model_units)m->limit->tokens;

    return max_units(m->interval.out_tokens - amount * interval_steps(m, now_ns), 0);
}

/* The count-th grid point after now, as a wait. */
static uint64_t interval_wait_points(const struct model *m, model_units count, uint64_t now_ns)
{
    model_units point = (model_units)m->interval.anchor_ns +
                        (interval_steps(m, now_ns) + count) * (model_units)m->limit->period_ns;

    return (uint64_t)(point - (model_units)now_ns);
}

uint64_t model_interval_wait(const struct model *m, uint64_t cost, uint64_t now_ns)
{
    model_units missing =
        model_interval_out(m, now_ns) + (model_units)cost - (model_units)m->limit->burst;

    if (missing <= 0)
        return 0;
    return interval_wait_points(m, divide_up(missing, (model_units)m->limit->tokens), now_ns);
}

static void interval_put(struct model *m, model_units out_tokens, uint64_t now_ns)
{
    model_units steps = interval_steps(m, now_ns);

    m->interval.out_tokens = out_tokens + (model_units)m->limit->tokens * steps;
}

void model_interval_pay(struct model *m, model_units cost, uint64_t now_ns)
{
    model_units out = model_interval_out(m, now_ns);

    if (out == 0)
        m->interval.anchor_ns = now_ns;
    interval_put(m, out + cost, now_ns);
}

uint64_t model_interval_full_after(const struct model *m, uint64_t now_ns)
{
    model_units out = model_interval_out(m, now_ns);

    if (out == 0)
        return 0;
    return interval_wait_points(m, divide_up(out, (model_units)m->limit->tokens), now_ns);
}

void model_interval_refund(struct model *m, uint64_t tokens)
{
    m->interval.out_tokens -= (model_units)tokens;
}

/* The grid point at which the bucket is full, if it ever was not. */
static model_units interval_full_at(const struct model *m, const struct model_interval *state)
{
    model_units points = divide_up(state->out_tokens, (model_units)m->limit->tokens);

    return (model_units)state->anchor_ns + points * (model_units)m->limit->period_ns;
}

/* A bucket that would be full only after the span is full at the end of the span, on a grid of its own. */
void model_interval_charge(struct model *m, uint64_t tokens, uint64_t now_ns)
{
    model_units last_ns =
        max_units((model_units)(now_ns + MODEL_SPAN_NS), interval_full_at(m, &m->interval));
    model_units tokens_max =
        (model_units)(MODEL_SPAN_NS / m->limit->period_ns) * (model_units)m->limit->tokens;

    if (tokens == 0)
        return;
    model_interval_pay(m, min_units((model_units)tokens, tokens_max), now_ns);
    if (interval_full_at(m, &m->interval) > last_ns)
        m->interval = (struct model_interval){(uint64_t)last_ns, 0};
}

void model_interval_set(struct model *m, uint64_t tokens, uint64_t now_ns)
{
    m->interval.anchor_ns = now_ns;
    m->interval.out_tokens =
        (model_units)m->limit->burst - min_units((model_units)tokens, (model_units)m->limit->burst);
}

void model_interval_block(struct model *m, uint64_t until_ns)
{
    if (model_interval_out(m, until_ns) < (model_units)m->limit->burst)
        model_interval_set(m, 1, until_ns);
}

/* Whether the line ends where mark left it: the same grid, and as many tokens in use. */
bool model_interval_is_at(const struct model *m, const struct model_interval *mark)
{
    model_units period = (model_units)m->limit->period_ns;
    model_units steps =
        ((model_units)m->interval.anchor_ns - (model_units)mark->anchor_ns) / period;

    return interval_full_at(m, &m->interval) == interval_full_at(m, mark) &&
           m->interval.out_tokens + steps * (model_units)m->limit->tokens == mark->out_tokens;
}

void model_interval_release(struct model *m, const struct model_release *r, uint64_t now_ns)
{
    struct model then = *m;
    model_units passed = (model_units)now_ns - (model_units)r->turn_ns;
    model_units points = passed > 0 ? passed / (model_units)m->limit->period_ns + 1 : 0;
    model_units by_turn = (model_units)r->cost_tokens - points * (model_units)m->limit->tokens;
    model_units by_mark;

    if (passed < 0 || model_interval_out(m, now_ns) > (model_units)m->limit->burst)
        return;
    then.interval = r->mark.interval;
    by_mark = model_interval_out(&then, now_ns) - (model_units)r->returned_tokens;
    m->interval.out_tokens -=
        min_units((model_units)r->unused_tokens, max_units(max_units(by_mark, by_turn), 0));
}

/* --- leaky queue --- */

static model_units queue_unclamped(const struct model *m, uint64_t now_ns)
{
    return m->queue.backlog - (units_of(now_ns) - units_of(m->queue.at_ns));
}

model_units model_queue_backlog(const struct model *m, uint64_t now_ns)
{
    return max_units(queue_unclamped(m, now_ns), 0);
}

static void queue_put(struct model *m, model_units backlog, uint64_t now_ns)
{
    m->queue.backlog = max_units(backlog, -units_of(now_ns));
    m->queue.at_ns = now_ns;
}

uint64_t model_queue_wait(const struct model *m, uint64_t cost, uint64_t now_ns)
{
    const struct model_tokens *t = &m->parts[0];

    return wait_of(model_queue_backlog(m, now_ns) + t->token * (model_units)cost -
                   tokens_capacity(t));
}

void model_queue_charge(struct model *m, uint64_t tokens, uint64_t now_ns)
{
    model_units before = model_queue_backlog(m, now_ns);
    model_units after = before + tokens_worth(&m->parts[0], tokens);

    queue_put(m, min_units(after, max_units(before, units_of(MODEL_SPAN_NS))), now_ns);
}

void model_queue_set(struct model *m, uint64_t tokens, uint64_t now_ns)
{
    const struct model_tokens *t = &m->parts[0];

    queue_put(m, t->token * (t->burst - min_units((model_units)tokens, t->burst)), now_ns);
}

void model_queue_block(struct model *m, uint64_t until_ns)
{
    const struct model_tokens *t = &m->parts[0];

    if (queue_unclamped(m, until_ns) < t->token * (t->burst - 1))
        queue_put(m, t->token * (t->burst - 1), until_ns);
}

void model_queue_refund(struct model *m, uint64_t tokens, uint64_t now_ns)
{
    queue_put(m, queue_unclamped(m, now_ns) - tokens_worth(&m->parts[0], tokens), now_ns);
}

/* Whether the line ends where mark left it. */
bool model_queue_is_at(const struct model *m, const struct model_queue *mark, uint64_t now_ns)
{
    return queue_unclamped(m, now_ns) == mark->backlog - units_of(now_ns) + units_of(mark->at_ns);
}
