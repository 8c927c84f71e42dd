#include "model.h"

#include <stddef.h>
#include <string.h>

#include "model_parts.h"

enum kind { TOKENS, INTERVAL, RESERVE, QUEUE, WINDOWS, LOG };

static enum kind kind_of(const struct model *m)
{
    switch (m->limit->algorithm) {
    case RATION_BURST_RESERVE:
        return RESERVE;
    case RATION_LEAKY_QUEUE:
        return QUEUE;
    case RATION_FIXED_WINDOW:
    case RATION_SLIDING_WINDOW:
        return WINDOWS;
    case RATION_SLIDING_LOG:
        return LOG;
    default:
        return m->limit->refill == RATION_REFILL_INTERVAL ? INTERVAL : TOKENS;
    }
}

static uint64_t clamp_now(uint64_t now_ns)
{
    return now_ns < MODEL_NOW_MAX_NS ? now_ns : MODEL_NOW_MAX_NS;
}

void model_init(struct model *m, const struct ration_limit *limit)
{
    memset(m, 0, offsetof(struct model, log));
    m->limit = limit;
    m->parts[0] = model_tokens_make(&limit->rate);
    if (kind_of(m) == RESERVE)
        m->parts[1] = model_tokens_make(&limit->reserve_rate);
}

void model_copy(struct model *to, const struct model *from)
{
    memcpy(to, from, offsetof(struct model, log) + from->log_count * sizeof from->log[0]);
}

/* --- functions of every algorithm --- */

static uint64_t part_wait(const struct model *m, int part, uint64_t cost, uint64_t now_ns)
{
    const struct model_tokens *t = &m->parts[part];

    return (model_units)cost > t->burst ? RATION_FOREVER : model_tokens_wait(t, cost, now_ns);
}

/* The bucket that pays: the one with the shorter wait, the first if they are equal. */
static int paying_part(const struct model *m, uint64_t cost, uint64_t now_ns)
{
    return kind_of(m) == RESERVE && part_wait(m, 1, cost, now_ns) < part_wait(m, 0, cost, now_ns);
}

static uint64_t wait_for(const struct model *m, uint64_t cost, uint64_t now_ns)
{
    switch (kind_of(m)) {
    case INTERVAL:
        return model_interval_wait(m, cost, now_ns);
    case QUEUE:
        return model_queue_wait(m, cost, now_ns);
    case WINDOWS:
        return model_windows_wait(m, cost, now_ns);
    case LOG:
        return model_log_wait(m, cost, now_ns);
    default:
        return part_wait(m, paying_part(m, cost, now_ns), cost, now_ns);
    }
}

static void pay(struct model *m, uint64_t cost, uint64_t now_ns)
{
    switch (kind_of(m)) {
    case INTERVAL: /* at its turn: a bucket that is full by then is not charged in advance */
        model_interval_pay(m, (model_units)cost, now_ns + model_interval_wait(m, cost, now_ns));
        break;
    case QUEUE:
        model_queue_charge(m, cost, now_ns);
        break;
    case WINDOWS:
        model_windows_pay(m, cost, now_ns);
        break;
    case LOG:
        model_log_pay(m, cost, now_ns);
        break;
    default:
        m->paid_part = paying_part(m, cost, now_ns);
        if (kind_of(m) == RESERVE) /* the other part has seen this now */
            model_tokens_touch(&m->parts[1 - m->paid_part], now_ns);
        /* The turn is taken at the whole nanosecond that was reported. */
        model_tokens_pay(&m->parts[m->paid_part], cost,
                         now_ns + part_wait(m, m->paid_part, cost, now_ns));
    }
}

uint64_t model_remaining(const struct model *m, uint64_t now_ns)
{
    now_ns = clamp_now(now_ns);
    model_units room;

    switch (kind_of(m)) {
    case INTERVAL:
        room = (model_units)m->limit->burst - model_interval_out(m, now_ns);
        return (uint64_t)max_units(room, 0);
    case QUEUE:
        room = m->parts[0].token * m->parts[0].burst - model_queue_backlog(m, now_ns);
        return (uint64_t)divide_down(max_units(room, 0), m->parts[0].token);
    case WINDOWS:
        return model_windows_remaining(m, now_ns);
    case LOG:
        return model_log_remaining(m, now_ns);
    case RESERVE:
        return model_tokens_remaining(&m->parts[0], now_ns) +
               model_tokens_remaining(&m->parts[1], now_ns);
    default:
        return model_tokens_remaining(&m->parts[0], now_ns);
    }
}

uint64_t model_full_after_ns(const struct model *m, uint64_t now_ns)
{
    now_ns = clamp_now(now_ns);
    uint64_t first;
    uint64_t second;

    switch (kind_of(m)) {
    case INTERVAL:
        return model_interval_full_after(m, now_ns);
    case QUEUE:
        return wait_of(model_queue_backlog(m, now_ns));
    case WINDOWS:
        return model_windows_full_after(m, now_ns);
    case LOG:
        return model_log_full_after(m, now_ns);
    case RESERVE:
        first = model_tokens_full_after(&m->parts[0], now_ns);
        second = model_tokens_full_after(&m->parts[1], now_ns);
        return first > second ? first : second;
    default:
        return model_tokens_full_after(&m->parts[0], now_ns);
    }
}

/* --- decisions --- */

static uint64_t burst_of(const struct model *m)
{
    return m->limit->burst + (kind_of(m) == RESERVE ? m->limit->reserve_burst : 0);
}

static uint64_t cost_max_of(const struct model *m)
{
    uint64_t first = m->limit->burst;
    uint64_t second = kind_of(m) == RESERVE ? m->limit->reserve_burst : 0;

    return first > second ? first : second;
}

static struct ration_decision describe(const struct model *m, enum ration_verdict verdict,
                                       uint64_t now_ns)
{
    struct ration_decision d = {.verdict = verdict, .limit = burst_of(m)};

    d.remaining = model_remaining(m, now_ns);
    d.reset_after_ns = model_full_after_ns(m, now_ns);
    return d;
}

static struct ration_decision decide(const struct model *m, uint64_t cost, uint64_t max_wait_ns,
                                     uint64_t now_ns)
{
    struct ration_decision d = {.verdict = RATION_ALLOW, .limit = burst_of(m)};

    if (cost == 0)
        return d;
    if (cost > cost_max_of(m)) {
        d.verdict = RATION_NEVER;
        d.retry_after_ns = RATION_FOREVER;
        return d;
    }

    uint64_t wait = wait_for(m, cost, now_ns);
    uint64_t wait_max = max_wait_ns < MODEL_WAIT_NS_MAX ? max_wait_ns : MODEL_WAIT_NS_MAX;

    if (kind_of(m) == QUEUE && wait == 0) { /* there is a place in line, but it may be too late */
        wait = wait_of(model_queue_backlog(m, now_ns));
        wait_max = max_wait_ns;
    } else if (kind_of(m) == QUEUE || kind_of(m) == WINDOWS || kind_of(m) == LOG) {
        wait_max = 0;
    }
    d.verdict = wait <= wait_max ? RATION_ALLOW : RATION_DENY;
    if (d.verdict == RATION_ALLOW)
        d.delay_ns = wait;
    else
        d.retry_after_ns = wait;
    return d;
}

static struct ration_decision with_state(const struct model *m, struct ration_decision d,
                                         uint64_t now_ns)
{
    struct ration_decision full = describe(m, d.verdict, now_ns);

    full.retry_after_ns = d.retry_after_ns;
    full.delay_ns = d.delay_ns;
    return full;
}

/* A take must go now; but a queue admits every caller that finds a place. */
static uint64_t patience(const struct model *m)
{
    return kind_of(m) == QUEUE ? UINT64_MAX : 0;
}

static struct ration_decision decide_and_pay(struct model *m, uint64_t cost_tokens,
                                             uint64_t max_wait_ns, uint64_t now_ns)
{
    now_ns = clamp_now(now_ns);
    struct ration_decision d = decide(m, cost_tokens, max_wait_ns, now_ns);

    if (d.verdict == RATION_ALLOW && cost_tokens > 0)
        pay(m, cost_tokens, now_ns);
    return with_state(m, d, now_ns);
}

/* A caller that would not wait so long in a queue gets the time at which it could go without waiting. */
struct ration_decision model_reserve(struct model *m, uint64_t cost_tokens, uint64_t max_wait_ns,
                                     uint64_t now_ns)
{
    struct ration_decision d = decide_and_pay(m, cost_tokens, max_wait_ns, now_ns);

    if (kind_of(m) == QUEUE && d.verdict == RATION_DENY)
        d.retry_after_ns = d.reset_after_ns;
    return d;
}

struct ration_decision model_take(struct model *m, uint64_t cost_tokens, uint64_t now_ns)
{
    return decide_and_pay(m, cost_tokens, patience(m), now_ns);
}

struct ration_decision model_peek(const struct model *m, uint64_t cost_tokens, uint64_t now_ns)
{
    now_ns = clamp_now(now_ns);
    return with_state(m, decide(m, cost_tokens, patience(m), now_ns), now_ns);
}

/* The most that one take can get. */
static uint64_t largest_take(const struct model *m, uint64_t now_ns)
{
    if (kind_of(m) != RESERVE)
        return model_remaining(m, now_ns);

    uint64_t first = model_tokens_remaining(&m->parts[0], now_ns);
    uint64_t second = model_tokens_remaining(&m->parts[1], now_ns);
    return first > second ? first : second;
}

uint64_t model_take_up_to(struct model *m, uint64_t cost_tokens_max, uint64_t now_ns,
                          struct ration_decision *out_decision)
{
    now_ns = clamp_now(now_ns);
    uint64_t there = largest_take(m, now_ns);
    uint64_t granted = cost_tokens_max < there ? cost_tokens_max : there;
    bool denied = granted == 0 && cost_tokens_max > 0;

    *out_decision = model_take(m, denied ? 1 : granted, now_ns);
    return granted;
}

/* --- changes --- */

/* Whole tokens that a part lacks, rounded up or down. */
static uint64_t part_lacks(const struct model_tokens *t, bool is_rounded_up, uint64_t now_ns)
{
    model_units out = max_units(t->token * t->burst - model_tokens_now(t, now_ns), 0);

    return (uint64_t)(is_rounded_up ? divide_up(out, t->token) : divide_down(out, t->token));
}

/* The first part gets the whole tokens that it lacks; the second part gets what it lacks of the rest. */
static void refund_parts(struct model *m, uint64_t tokens, uint64_t now_ns)
{
    uint64_t first = part_lacks(&m->parts[0], false, now_ns);
    uint64_t second = kind_of(m) == RESERVE ? part_lacks(&m->parts[1], true, now_ns) : 0;
    uint64_t rest = tokens > first ? tokens - first : 0;

    if (rest > second)
        rest = second;
    if (kind_of(m) == RESERVE)
        model_tokens_refund(&m->parts[1], rest, now_ns);
    model_tokens_refund(&m->parts[0], tokens - rest, now_ns);
}

void model_refund(struct model *m, uint64_t tokens, uint64_t now_ns)
{
    now_ns = clamp_now(now_ns);
    switch (kind_of(m)) {
    case INTERVAL:
        model_interval_refund(m, tokens);
        break;
    case QUEUE:
        model_queue_refund(m, tokens, now_ns);
        break;
    case WINDOWS:
        model_windows_refund(m, tokens, now_ns);
        break;
    case LOG:
        model_log_refund(m, tokens);
        break;
    default:
        refund_parts(m, tokens, now_ns);
    }
}

void model_charge(struct model *m, uint64_t tokens, uint64_t now_ns)
{
    now_ns = clamp_now(now_ns);
    switch (kind_of(m)) {
    case INTERVAL:
        model_interval_charge(m, tokens, now_ns);
        break;
    case QUEUE:
        model_queue_charge(m, tokens, now_ns);
        break;
    case WINDOWS:
        model_windows_pay(m, tokens, now_ns);
        break;
    case LOG:
        model_log_pay(m, tokens, now_ns);
        break;
    default:
        model_tokens_charge(&m->parts[0], tokens, now_ns);
    }
}

void model_set(struct model *m, uint64_t tokens, uint64_t now_ns)
{
    uint64_t rest = tokens > m->limit->burst ? tokens - m->limit->burst : 0;

    now_ns = clamp_now(now_ns);
    switch (kind_of(m)) {
    case INTERVAL:
        model_interval_set(m, tokens, now_ns);
        break;
    case QUEUE:
        model_queue_set(m, tokens, now_ns);
        break;
    case WINDOWS:
        model_windows_set(m, tokens, now_ns);
        break;
    case LOG:
        model_log_set(m, tokens, now_ns);
        break;
    case RESERVE:
        model_tokens_set(&m->parts[1], rest, now_ns);
        model_tokens_set(&m->parts[0], tokens, now_ns);
        break;
    default:
        model_tokens_set(&m->parts[0], tokens, now_ns);
    }
}

void model_start(struct model *m, uint64_t now_ns)
{
    if (m->limit->start == RATION_START_EMPTY)
        model_set(m, 0, now_ns);
    else if (m->limit->start == RATION_START_TOKENS)
        model_set(m, m->limit->start_tokens, now_ns);
}

void model_block(struct model *m, uint64_t until_ns)
{
    until_ns = clamp_now(until_ns);
    switch (kind_of(m)) {
    case INTERVAL:
        model_interval_block(m, until_ns);
        break;
    case QUEUE:
        model_queue_block(m, until_ns);
        break;
    case RESERVE:
        model_tokens_block(&m->parts[1], until_ns);
        model_tokens_block(&m->parts[0], until_ns);
        break;
    default:
        model_tokens_block(&m->parts[0], until_ns);
    }
}

struct model_mark model_mark(const struct model *m)
{
    return (struct model_mark){
        .part = m->paid_part,
        .parts = {m->parts[0], m->parts[1]},
        .interval = m->interval,
        .queue = m->queue,
        .windows = m->windows,
        .log_back_at_ns = m->log_count > 0 ? m->log[m->log_count - 1].back_at_ns : 0,
    };
}

/* Whether the bucket is unchanged since the reservation. */
static bool is_last(const struct model *m, const struct model_release *r, uint64_t now_ns)
{
    int part = r->mark.part;

    if (r->returned_tokens > 0)
        return false;
    switch (kind_of(m)) {
    case INTERVAL:
        return model_interval_is_at(m, &r->mark.interval);
    case QUEUE:
        return model_queue_is_at(m, &r->mark.queue, now_ns);
    case WINDOWS:
        return m->windows.index == r->mark.windows.index &&
               m->windows.current_tokens == r->mark.windows.current_tokens &&
               m->windows.previous_tokens == r->mark.windows.previous_tokens;
    case LOG:
        return false; /* a log uses its moments */
    default:
        return model_tokens_is_at(&m->parts[part], &r->mark.parts[part], now_ns);
    }
}

/* Restores the state before; of a burst reserve also the part that did not pay. */
static void undo(struct model *m, const struct model_release *r, uint64_t now_ns)
{
    int part = r->mark.part;

    if (kind_of(m) == RESERVE &&
        model_tokens_is_at(&m->parts[1 - part], &r->mark.parts[1 - part], now_ns))
        m->parts[1 - part] = r->before.parts[1 - part];
    m->parts[part] = r->before.parts[part];
    m->interval = r->before.interval;
    m->queue = r->before.queue;
    m->windows = r->before.windows;
}

/* Later refunds may have been of the reservation's own tokens: they reduce the unused tokens. */
static struct model_release without_refunded(struct model_release r)
{
    r.cost_tokens -= r.refunded_tokens < r.cost_tokens ? r.refunded_tokens : r.cost_tokens;
    r.unused_tokens -= r.refunded_tokens < r.unused_tokens ? r.refunded_tokens : r.unused_tokens;
    return r;
}

void model_release(struct model *m, const struct model_release *release, uint64_t now_ns)
{
    struct model_release rest = without_refunded(*release);
    const struct model_release *r = &rest;
    int part = r->mark.part;

    now_ns = clamp_now(now_ns);
    if (r->unused_tokens == r->cost_tokens && is_last(m, r, now_ns)) {
        undo(m, r, now_ns);
        return;
    }
    if (r->is_waited && !is_last(m, r, now_ns) && kind_of(m) != WINDOWS && kind_of(m) != LOG)
        return;
    switch (kind_of(m)) {
    case INTERVAL:
        model_interval_release(m, r, now_ns);
        break;
    case QUEUE:
        if (is_last(m, r, now_ns))
            model_queue_refund(m, r->unused_tokens, now_ns);
        break;
    case TOKENS:
    case RESERVE:
        model_tokens_release(&m->parts[part], r, now_ns);
        break;
    case WINDOWS:
        model_windows_release(m, r);
        break;
    case LOG:
        model_log_release(m, r, now_ns);
    }
}

bool model_is_waited(const struct model *m, uint64_t now_ns)
{
    now_ns = clamp_now(now_ns);
    switch (kind_of(m)) {
    case INTERVAL:
        return model_interval_out(m, now_ns) > (model_units)m->limit->burst;
    case QUEUE:
        return model_queue_backlog(m, now_ns) > 0;
    case TOKENS:
        return model_tokens_now(&m->parts[0], now_ns) < 0;
    case RESERVE:
        return model_tokens_now(&m->parts[0], now_ns) < 0 ||
               model_tokens_now(&m->parts[1], now_ns) < 0;
    default:
        return false;
    }
}
