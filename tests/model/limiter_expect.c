#include "limiter_expect.h"

#include <string.h>

/* --- keys --- */

static void renew(struct limiter_expect *e, unsigned limiter, unsigned key)
{
    const struct limiter_plan *plan = &e->setup->plans[limiter];

    for (unsigned i = 0; i < plan->rule_count; i++)
        model_init(&e->models[limiter][key][i], &plan->rules[i].limit);
}

/* Whether all buckets of the key are full at a moment. */
static bool is_full(const struct limiter_expect *e, unsigned limiter, unsigned key, uint64_t at_ns)
{
    bool full = true;

    for (unsigned i = 0; i < e->setup->plans[limiter].rule_count; i++)
        full &= model_full_after_ns(&e->models[limiter][key][i], at_ns) == 0;
    return full;
}

static bool is_forgotten(const struct limiter_expect *e, unsigned limiter, unsigned key,
                         uint64_t now_ns)
{
    uint64_t stale_ns = limiter_plan_stale_after_ns(&e->setup->plans[limiter]);
    uint64_t since_ns = now_ns - e->epoch_ns;

    return stale_ns > 0 && since_ns >= stale_ns && is_full(e, limiter, key, now_ns - stale_ns);
}

bool limiter_expect_is_kept(const struct limiter_expect *e, unsigned limiter, unsigned key,
                            uint64_t now_ns)
{
    uint64_t stale_ns = limiter_plan_stale_after_ns(&e->setup->plans[limiter]);
    uint64_t early_ns = now_ns > LIMITER_SLACK_NS ? now_ns - LIMITER_SLACK_NS : 0;

    if (stale_ns > 0)
        return e->is_seen[limiter][key] && !is_forgotten(e, limiter, key, early_ns);
    return !is_full(e, limiter, key, early_ns);
}

bool limiter_expect_is_unsure(const struct limiter_expect *e, unsigned limiter, unsigned key,
                              uint64_t now_ns)
{
    uint64_t early_ns = now_ns > LIMITER_SLACK_NS ? now_ns - LIMITER_SLACK_NS : 0;

    return e->is_seen[limiter][key] && is_forgotten(e, limiter, key, now_ns) &&
           !is_forgotten(e, limiter, key, early_ns);
}

/* A peek with a now that jumps does not forget a key. */
static void set_aside(struct limiter_expect *e, unsigned limiter, unsigned key)
{
    struct limiter_expect_lost *lost = &e->lost[e->lost_count++];

    lost->limiter = limiter;
    lost->key = key;
    for (unsigned i = 0; i < e->setup->plans[limiter].rule_count; i++)
        model_copy(&lost->models[i], &e->models[limiter][key][i]);
}

/* Those that were not started again are what they were. */
static void bring_back(struct limiter_expect *e)
{
    for (unsigned k = 0; k < e->lost_count; k++) {
        const struct limiter_expect_lost *lost = &e->lost[k];

        if (e->is_seen[lost->limiter][lost->key])
            continue;
        e->is_seen[lost->limiter][lost->key] = true;
        for (unsigned i = 0; i < e->setup->plans[lost->limiter].rule_count; i++)
            model_copy(&e->models[lost->limiter][lost->key][i], &lost->models[i]);
    }
    e->lost_count = 0;
}

struct model *limiter_expect_open(struct limiter_expect *e, unsigned limiter, unsigned key,
                                  uint64_t now_ns)
{
    const struct limiter_plan *plan = &e->setup->plans[limiter];
    struct model *models = e->models[limiter][key];

    if (limiter_plan_stale_after_ns(plan) == 0)
        return models;
    if (e->is_seen[limiter][key] && !is_forgotten(e, limiter, key, now_ns))
        return models;
    if (e->is_seen[limiter][key])
        set_aside(e, limiter, key);
    e->is_seen[limiter][key] = false;
    renew(e, limiter, key);
    for (unsigned i = 0; i < plan->rule_count; i++)
        model_start(&models[i], now_ns);
    return models;
}

/* --- steps --- */

/* The place of the same bucket among those gathered, or count. */
static unsigned find_item(const struct limiter_items *c, const struct limiter_ask *ask)
{
    unsigned i = 0;

    while (i < c->count && (c->items[i].limiter != ask->limiter || c->items[i].key != ask->key))
        i++;
    return i;
}

static void gather(struct limiter_expect *e, const struct limiter_ask *asks, unsigned ask_count,
                   struct limiter_items *c)
{
    for (unsigned a = 0; a < ask_count; a++) {
        const struct limiter_ask *ask = &asks[a];
        const struct limiter_plan *plan = &e->setup->plans[ask->limiter];
        struct model *models = limiter_expect_open(e, ask->limiter, ask->key, c->now_ns);
        unsigned at = find_item(c, ask);
        bool is_new = at == c->count;

        for (unsigned i = 0; i < plan->rule_count; i++) {
            struct limiter_item *item = &c->items[at + i];

            if (is_new) {
                *item = (struct limiter_item){.model = &models[i],
                                              .is_shadow = plan->rules[i].is_shadow,
                                              .limiter = ask->limiter,
                                              .key = ask->key,
                                              .rule = i};
                c->count++;
            }
            item->tokens +=
                ask->tokens < UINT64_MAX - item->tokens ? ask->tokens : UINT64_MAX - item->tokens;
        }
    }
}

/* From the first take of more than nothing a key is remembered. */
static void see(struct limiter_expect *e, const struct limiter_items *c)
{
    for (unsigned i = 0; i < c->count; i++)
        if (c->items[i].tokens > 0)
            e->is_seen[c->items[i].limiter][c->items[i].key] = true;
}

static void keep_reservation(struct limiter_expect *e, const struct limiter_step *step,
                             const struct limiter_items *c, struct limiter_answer *out)
{
    struct limiter_expect_reservation *reservation = &e->reservations[step->reservation];

    if (out->decision.verdict != RATION_ALLOW)
        return;
    *reservation = (struct limiter_expect_reservation){.is_open = true};
    reservation->ready_at_ns = out->ready_at_ns = c->now_ns + out->decision.delay_ns;
    for (unsigned i = 0; i < c->count; i++) {
        const struct limiter_item *item = &c->items[i];

        if (item->is_shadow)
            continue;
        reservation->slips[reservation->count].limiter = item->limiter;
        reservation->slips[reservation->count].key = item->key;
        reservation->slips[reservation->count].rule = item->rule;
        reservation->slips[reservation->count].tokens = item->tokens;
        reservation->slips[reservation->count].before = item->before;
        reservation->slips[reservation->count++].mark = model_mark(item->model);
    }
}

/* Whether a caller waits under another rule of the key. */
static bool is_waited(const struct limiter_expect *e, unsigned limiter, unsigned key, unsigned rule,
                      uint64_t now_ns)
{
    bool waits = false;

    for (unsigned i = 0; i < e->setup->plans[limiter].rule_count; i++)
        waits |= i != rule && model_is_waited(&e->models[limiter][key][i], now_ns);
    return waits;
}

static void settle(struct limiter_expect *e, const struct limiter_step *step, uint64_t now_ns)
{
    struct limiter_expect_reservation *reservation = &e->reservations[step->reservation];
    uint64_t used = step->used_tokens;
    bool is_promised = used > 0 && now_ns < reservation->ready_at_ns;
    bool waits[LIMITER_DETAILS_MAX];

    reservation->is_open = false;
    for (unsigned i = 0; i < reservation->count; i++) /* all as they are before any changes */
        limiter_expect_open(e, reservation->slips[i].limiter, reservation->slips[i].key, now_ns);
    for (unsigned i = 0; i < reservation->count; i++)
        waits[i] = is_waited(e, reservation->slips[i].limiter, reservation->slips[i].key,
                             reservation->slips[i].rule, now_ns);
    for (unsigned i = 0; i < reservation->count; i++) {
        unsigned limiter = reservation->slips[i].limiter;
        unsigned key = reservation->slips[i].key;
        uint64_t tokens = reservation->slips[i].tokens;
        struct model *m = &e->models[limiter][key][reservation->slips[i].rule];

        e->is_seen[limiter][key] |=
            used > tokens || (tokens > 0 && m->limit->start != RATION_START_FULL);
        if (used > tokens)
            model_charge(m, used - tokens, now_ns);
        else if (used < tokens && !is_promised && model_full_after_ns(m, now_ns) > 0)
            model_release(m,
                          &(struct model_release){
                              .before = reservation->slips[i].before,
                              .mark = reservation->slips[i].mark,
                              .cost_tokens = tokens,
                              .unused_tokens = tokens - used,
                              .turn_ns = reservation->ready_at_ns,
                              .returned_tokens = e->returned[i],
                              .refunded_tokens = e->refunded[i],
                              .is_waited = waits[i],
                          },
                          now_ns);
    }
}

static bool can_block(const struct model *m)
{
    enum ration_algorithm algorithm = m->limit->algorithm;

    return algorithm == RATION_TOKEN_BUCKET || algorithm == RATION_BURST_RESERVE ||
           algorithm == RATION_LEAKY_QUEUE;
}

/* Several anchors may describe the same grid. */
static bool differ(const struct model *a, const struct model *b, uint64_t now_ns, uint64_t until_ns)
{
    if (a->limit->refill == RATION_REFILL_INTERVAL)
        return model_full_after_ns(a, now_ns) != model_full_after_ns(b, now_ns) ||
               model_remaining(a, until_ns) != model_remaining(b, until_ns);
    return memcmp(a, b, offsetof(struct model, windows)) != 0;
}

/* A key counts as seen if it was blocked, unless the block has already ended. */
static ration_status block(struct limiter_expect *e, const struct limiter_step *step,
                           const struct limiter_items *c)
{
    static struct model before;
    ration_status status = RATION_EUNSUPPORTED;

    for (unsigned i = 0; i < c->count; i++)
        if (!c->items[i].is_shadow && can_block(c->items[i].model))
            status = RATION_OK;
    for (unsigned i = 0; i < c->count && status == RATION_OK; i++) {
        struct model *m = c->items[i].model;

        if (!can_block(m))
            continue;
        model_copy(&before, m);
        model_block(m, step->until_ns);
        if (model_full_after_ns(m, c->now_ns) == 0)
            model_copy(m, &before); /* ended, without a visible effect */
        if (differ(m, &before, c->now_ns, step->until_ns))
            e->is_seen[step->asks[0].limiter][step->asks[0].key] = true;
    }
    return status;
}

/* A full bucket accepts no refund, and is not remembered for it. */
static void refund(struct limiter_expect *e, const struct limiter_item *item, uint64_t now_ns)
{
    if (item->tokens == 0 || model_full_after_ns(item->model, now_ns) == 0)
        return;
    model_refund(item->model, item->tokens, now_ns);
    e->is_seen[item->limiter][item->key] = true;
}

static void update(struct limiter_expect *e, const struct limiter_step *step,
                   const struct limiter_items *c, struct limiter_answer *out)
{
    const struct limiter_ask *ask = &step->asks[0];

    if (step->call == LIMITER_BLOCK) {
        out->status = block(e, step, c);
        return;
    }
    for (unsigned i = 0; i < c->count; i++) {
        struct model *m = c->items[i].model;

        if (step->call == LIMITER_REFUND)
            refund(e, &c->items[i], c->now_ns);
        else if (step->call == LIMITER_CHARGE && ask->tokens > 0)
            model_charge(m, ask->tokens, c->now_ns);
        else if (step->call == LIMITER_CHARGE)
            continue; /* it would move windows to now */
        else if (m->limit->start != RATION_START_FULL)
            model_start(m, c->now_ns);
        else if (model_full_after_ns(m, c->now_ns) > 0) /* else it is what it should be */
            model_set(m, UINT64_MAX, c->now_ns);
    }
    if (step->call == LIMITER_CHARGE)
        see(e, c);
}

static void answer(struct limiter_answerer *self, const struct limiter_step *step,
                   struct limiter_answer *out);

static void answer_batch(struct limiter_answerer *self, const struct limiter_step *step,
                         struct limiter_answer *out)
{
    for (unsigned i = 0; i < step->ask_count; i++) {
        struct limiter_step one = {
            .call = LIMITER_TAKE, .now_ns = step->now_ns, .ask_count = 1, .asks = {step->asks[i]}};
        struct limiter_answer its;

        answer(self, &one, &its);
        out->verdicts[i] = its.decision.verdict;
        out->granted += its.decision.verdict == RATION_ALLOW;
    }
}

static bool is_of_one_key(const struct limiter_step *step)
{
    for (unsigned i = 1; i < step->ask_count; i++)
        if (step->asks[i].limiter != step->asks[0].limiter ||
            step->asks[i].key != step->asks[0].key)
            return false;
    return true;
}

static void answer_asks(struct limiter_expect *e, const struct limiter_step *step, uint64_t now_ns,
                        struct limiter_answer *out)
{
    struct limiter_items c = {.now_ns = now_ns, .may_wait = is_of_one_key(step)};

    gather(e, step->asks, step->ask_count, &c);
    switch (step->call) {
    case LIMITER_TAKE:
        out->decision = limiter_items_take(&c);
        break;
    case LIMITER_ALLOW:
        out->decision.verdict =
            limiter_items_take(&c).verdict == RATION_ALLOW ? RATION_ALLOW : RATION_DENY;
        break;
    case LIMITER_PEEK:
        out->decision = limiter_items_peek(&c);
        break;
    case LIMITER_UP_TO:
        out->decision = limiter_items_up_to(&c, step->asks[0].tokens, &out->granted);
        break;
    case LIMITER_RESERVE:
        for (unsigned i = 0; i < c.count; i++)
            c.items[i].before = model_mark(c.items[i].model);
        out->decision = limiter_items_reserve(&c, step->max_wait_ns);
        keep_reservation(e, step, &c, out);
        break;
    default:
        update(e, step, &c, out);
        return;
    }
    if (step->call != LIMITER_PEEK)
        see(e, &c);
    if (step->scope != LIMITER_LIST && (step->call == LIMITER_TAKE || step->call == LIMITER_PEEK)) {
        out->detail_count = c.count;
        limiter_items_details(&c, out->details);
    }
}

static void answer(struct limiter_answerer *self, const struct limiter_step *step,
                   struct limiter_answer *out)
{
    struct limiter_expect *e = (struct limiter_expect *)self;
    uint64_t now_ns = limiter_setup_clamp(e->setup, step->now_ns);

    memset(out, 0, sizeof *out);
    if (step->call == LIMITER_BATCH)
        answer_batch(self, step, out);
    else if (step->call == LIMITER_SETTLE)
        settle(e, step, now_ns);
    else
        answer_asks(e, step, now_ns, out);
    bring_back(e);
}

void limiter_expect_init(struct limiter_expect *e, const struct limiter_setup *setup)
{
    e->base.answer = answer;
    e->setup = setup;
    e->epoch_ns = limiter_setup_epoch_ns(setup);
    e->lost_count = 0;
    memset(e->is_seen, 0, sizeof e->is_seen);
    memset(e->reservations, 0, sizeof e->reservations);
    for (unsigned i = 0; i < setup->limiter_count; i++)
        for (unsigned key = 0; key < setup->key_count; key++)
            renew(e, i, key);
}
