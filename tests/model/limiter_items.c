#include "limiter_items.h"

#define NONE UINT32_MAX

static void ask_each(struct limiter_items *c)
{
    for (unsigned i = 0; i < c->count; i++)
        c->items[i].own = model_peek(c->items[i].model, c->items[i].tokens, c->now_ns);
}

/* The enforced item that decides before anything is taken: the worst. */
static unsigned find_worst(const struct limiter_items *c)
{
    unsigned worst = NONE;

    for (unsigned i = 0; i < c->count; i++) {
        const struct ration_decision *own = &c->items[i].own;
        const struct ration_decision *other = worst == NONE ? NULL : &c->items[worst].own;

        if (c->items[i].is_shadow)
            continue;
        if (other == NULL || own->verdict > other->verdict ||
            (own->verdict == other->verdict && own->retry_after_ns > other->retry_after_ns))
            worst = i;
    }
    return worst;
}

static unsigned find_smallest(const struct limiter_items *c)
{
    unsigned smallest = NONE;
    uint64_t remaining = 0;

    for (unsigned i = 0; i < c->count; i++) {
        uint64_t left = model_remaining(c->items[i].model, c->now_ns);

        if (!c->items[i].is_shadow && (smallest == NONE || left < remaining)) {
            smallest = i;
            remaining = left;
        }
    }
    return smallest;
}

static struct ration_decision describe(const struct limiter_items *c, unsigned index)
{
    const struct limiter_item *item = &c->items[index];

    return (struct ration_decision){
        .verdict = item->own.verdict,
        .limit_index = item->rule,
        .limiter_index = item->limiter,
        .limit = item->own.limit,
        .remaining = model_remaining(item->model, c->now_ns),
        .retry_after_ns = item->own.retry_after_ns,
        .reset_after_ns = model_full_after_ns(item->model, c->now_ns),
        .delay_ns = item->own.delay_ns,
    };
}

void limiter_items_details(const struct limiter_items *c, struct ration_decision *out_details)
{
    for (unsigned i = 0; i < c->count; i++)
        out_details[i] = describe(c, i);
}

/* The latest moment at which one of them could go alone. */
static uint64_t turn_of_all(const struct limiter_items *c)
{
    uint64_t latest = 0;

    for (unsigned i = 0; i < c->count; i++) {
        const struct ration_decision *own = &c->items[i].own;
        uint64_t needed = own->verdict == RATION_ALLOW ? own->delay_ns : own->retry_after_ns;

        if (!c->items[i].is_shadow && needed > latest)
            latest = needed;
    }
    return latest;
}

/* The item with the longest wait has a turn in its own line; the others are charged for the same moment. */
static void charge(struct limiter_items *c, uint64_t delay_ns)
{
    for (unsigned i = 0; i < c->count; i++) {
        struct limiter_item *item = &c->items[i];
        const struct ration_decision *own = &item->own;
        uint64_t needed = own->verdict == RATION_ALLOW ? own->delay_ns : own->retry_after_ns;
        struct ration_decision d;

        if (item->is_shadow)
            continue;
        d = needed == delay_ns ? model_reserve(item->model, item->tokens, delay_ns, c->now_ns)
                               : model_take(item->model, item->tokens, c->now_ns + delay_ns);
        if (d.verdict != RATION_ALLOW)
            __builtin_trap(); /* the model contradicts itself */
    }
}

static void charge_shadows(struct limiter_items *c)
{
    for (unsigned i = 0; i < c->count; i++)
        if (c->items[i].is_shadow)
            model_take(c->items[i].model, c->items[i].tokens, c->now_ns);
}

/* The answer after all changes. binding is the item that is reported. */
static struct ration_decision report(const struct limiter_items *c, unsigned binding,
                                     enum ration_verdict verdict, uint64_t delay_ns)
{
    struct ration_decision d = {.remaining = UINT64_MAX};

    if (binding != NONE)
        d = describe(c, binding);
    d.verdict = verdict;
    d.delay_ns = verdict == RATION_ALLOW ? delay_ns : 0;
    if (verdict == RATION_ALLOW)
        d.retry_after_ns = 0;
    return d;
}

/* A caller that will not wait in a queue gets the time at which it could go at once. */
static void refuse_queues(struct limiter_items *c, uint64_t max_wait_ns)
{
    for (unsigned i = 0; i < c->count; i++) {
        struct limiter_item *item = &c->items[i];

        if (item->is_shadow || item->model->limit->algorithm != RATION_LEAKY_QUEUE)
            continue;
        if (item->own.verdict == RATION_DENY || item->own.delay_ns > max_wait_ns) {
            item->own.verdict = RATION_DENY;
            item->own.retry_after_ns = model_full_after_ns(item->model, c->now_ns);
        }
    }
}

struct ration_decision limiter_items_peek(struct limiter_items *c)
{
    ask_each(c);

    unsigned worst = find_worst(c);

    /* Several keys go now or not at all: no key is reserved until the turn of another. */
    if (worst != NONE && c->items[worst].own.verdict == RATION_ALLOW && !c->may_wait &&
        turn_of_all(c) > 0) {
        refuse_queues(c, 0);
        worst = find_worst(c);
    }
    if (worst == NONE || c->items[worst].own.verdict == RATION_ALLOW)
        return report(c, find_smallest(c), RATION_ALLOW, turn_of_all(c));
    return report(c, worst, c->items[worst].own.verdict, 0);
}

struct ration_decision limiter_items_take(struct limiter_items *c)
{
    struct ration_decision d = limiter_items_peek(c);

    charge_shadows(c);
    if (d.verdict != RATION_ALLOW)
        return d;
    charge(c, d.delay_ns);
    return report(c, find_smallest(c), RATION_ALLOW, d.delay_ns);
}

/* What one take can get of a model at most. */
static uint64_t most_of(const struct model *m, uint64_t tokens_max, uint64_t now_ns)
{
    static struct model scratch;
    struct ration_decision ignored;

    model_copy(&scratch, m);
    return model_take_up_to(&scratch, tokens_max, now_ns, &ignored);
}

struct ration_decision limiter_items_up_to(struct limiter_items *c, uint64_t tokens_max,
                                           uint64_t *out_granted)
{
    uint64_t granted = tokens_max;

    for (unsigned i = 0; i < c->count; i++)
        if (!c->items[i].is_shadow)
            granted = most_of(c->items[i].model, granted, c->now_ns);
    for (unsigned i = 0; i < c->count; i++)
        c->items[i].tokens = granted == 0 && tokens_max > 0 ? 1 : granted;

    *out_granted = granted;
    return limiter_items_take(c);
}

/* Windows, logs and full queues have no line. */
static bool has_line(const struct limiter_item *item)
{
    enum ration_algorithm algorithm = item->model->limit->algorithm;

    return item->own.verdict == RATION_ALLOW ||
           (item->own.retry_after_ns <= MODEL_WAIT_NS_MAX &&
            (algorithm == RATION_TOKEN_BUCKET || algorithm == RATION_BURST_RESERVE));
}

struct ration_decision limiter_items_reserve(struct limiter_items *c, uint64_t max_wait_ns)
{
    bool has_turn = true;

    ask_each(c);

    unsigned worst = find_worst(c);
    uint64_t delay_ns = turn_of_all(c);

    for (unsigned i = 0; i < c->count; i++)
        has_turn &= c->items[i].is_shadow || has_line(&c->items[i]);
    if (worst != NONE && c->items[worst].own.verdict == RATION_NEVER) {
        charge_shadows(c);
        return report(c, worst, RATION_NEVER, 0);
    }
    if (has_turn && delay_ns <= (c->may_wait ? max_wait_ns : 0)) {
        charge(c, delay_ns);
        charge_shadows(c);
        return report(c, find_smallest(c), RATION_ALLOW, delay_ns);
    }
    refuse_queues(c, max_wait_ns);
    charge_shadows(c);
    worst = find_worst(c);
    return report(c, worst, c->items[worst].own.verdict, 0);
}
