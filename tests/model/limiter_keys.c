/*
 * The checks of a table with fewer places than keys. The models in expect are used one by one, each
 * as if its key had a bucket of its own, full at first: what is shared, inherited, or started
 * empty is only ever less.
 */
#include <stdio.h>

#include "limiter_trace_state.h"

void limiter_keys_init(struct limiter_trace *t)
{
    for (unsigned i = 0; i < t->setup.limiter_count; i++)
        for (unsigned key = 0; key < t->setup.key_count; key++) {
            t->keys[i][key].is_own = false;
            t->keys[i][key].has_shared = false;
            t->keys[i][key].last_ns = 0;
            for (unsigned r = 0; r < t->setup.plans[i].rule_count; r++)
                history_init(&t->keys[i][key].histories[r], &t->setup.plans[i].rules[r].limit);
        }
}

void limiter_keys_ask(struct limiter_trace *t, const struct limiter_step *step,
                      struct limiter_answer *out)
{
    t->subject->answer(t->subject, step, out);
    t->count->decisions++;
}

/* --- R1, R7: what was admitted --- */

/* With more tokens in use at the same now, these never allow more. */
static bool is_monotone(const struct ration_limit *limit)
{
    return limit->algorithm != RATION_BURST_RESERVE && limit->refill != RATION_REFILL_INTERVAL;
}

/*
 * Open: a log that starts with some tokens forgets, when its key is started again, when they were last
 * back. A now that runs back behind that moment finds them once more.
 */
static bool is_log_open(const struct limiter_trace *t, const struct ration_limit *limit)
{
    return t->walk.may_run_back && limit->algorithm == RATION_SLIDING_LOG &&
           limit->start == RATION_START_TOKENS;
}

/* The times of two buckets have no common order if one of them waits or a now runs backwards. */
static bool has_history(const struct limiter_trace *t, const struct ration_limit *limit)
{
    return t->options->checks & LIMITER_CHECK_R1 && !t->walk.may_give_back &&
           !is_log_open(t, limit) &&
           !(limit->algorithm == RATION_BURST_RESERVE &&
             (t->walk.may_run_back || t->walk.may_wait));
}

/*
 * A request in a past window is charged to the window that the bucket has reached. For the overflow bucket only the keys
 * that used it know that window; and a key that starts again reaches it without a visible effect.
 */
static bool is_window_unknown(const struct limiter_trace *t, const struct limiter_ask *a,
                              const struct ration_limit *limit)
{
    return t->walk.may_run_back &&
           (t->keys[a->limiter][a->key].has_shared ||
            limiter_plan_stale_after_ns(&t->setup.plans[a->limiter]) > 0) &&
           (limit->algorithm == RATION_FIXED_WINDOW || limit->algorithm == RATION_SLIDING_WINDOW);
}

static void fail_rule(struct limiter_trace *t, const char *rule_name,
                      const struct limiter_step *step, const struct limiter_ask *a, unsigned rule)
{
    limiter_trace_fail(t, rule_name, step);
    if (!t->options->is_quiet)
        printf("  by       limiter %u, k%u, rule %u\n", a->limiter, a->key, rule);
}

static void admit_rule(struct limiter_trace *t, const struct limiter_step *step,
                       const struct limiter_ask *a, unsigned rule, uint64_t delay_ns)
{
    struct limiter_key *key = &t->keys[a->limiter][a->key];
    struct model *own = &t->expect.models[a->limiter][a->key][rule];
    uint64_t now_ns = limiter_setup_clamp(&t->setup, step->now_ns);
    /* in its own line it is taken now, for then; with other keys, when the last of them can go */
    bool is_queue = own->limit->algorithm == RATION_LEAKY_QUEUE;

    if (is_window_unknown(t, a, own->limit))
        return;
    if (t->options->checks & LIMITER_CHECK_R7 && is_monotone(own->limit) &&
        !is_log_open(t, own->limit) &&
        model_peek(own, a->tokens, now_ns + delay_ns).verdict != RATION_ALLOW &&
        !(is_queue && model_peek(own, a->tokens, now_ns).verdict == RATION_ALLOW))
        fail_rule(t, "R7 (a debt was forgotten)", step, a, rule);
    model_charge(own, a->tokens, now_ns + (is_queue ? 0 : delay_ns));
    if (has_history(t, own->limit) &&
        !history_admit(&key->histories[rule], a->tokens, key->last_ns))
        fail_rule(t, "R1 (the contract)", step, a, rule);
}

static void admit(struct limiter_trace *t, const struct limiter_step *step,
                  const struct limiter_ask *a, uint64_t delay_ns, const struct limiter_peek *around)
{
    const struct limiter_plan *plan = &t->setup.plans[a->limiter];
    struct limiter_key *key = &t->keys[a->limiter][a->key];
    uint64_t at_ns = limiter_setup_clamp(&t->setup, step->now_ns) + delay_ns;

    if (a->tokens == 0)
        return;
    key->is_own = !around->has_overflowed;
    key->has_shared |= around->has_overflowed;
    if (around->is_waved && plan->overflow == RATION_OVERFLOW_ALLOW)
        return; /* R1 is suspended, and that was counted */
    if (at_ns > key->last_ns)
        key->last_ns = at_ns;
    for (unsigned r = 0; r < plan->rule_count; r++)
        if (!plan->rules[r].is_shadow)
            admit_rule(t, step, a, r, delay_ns);
}

/* The asks of a step, those of the same key added up. */
static unsigned sum_asks(const struct limiter_step *step, struct limiter_ask *out)
{
    unsigned count = 0;

    for (unsigned i = 0; i < step->ask_count; i++) {
        unsigned same = 0;

        while (same < count &&
               (out[same].limiter != step->asks[i].limiter || out[same].key != step->asks[i].key))
            same++;
        if (same == count)
            out[count++] = step->asks[i];
        else
            out[same].tokens += step->asks[i].tokens;
    }
    return count;
}

static void admit_all(struct limiter_trace *t, const struct limiter_step *step,
                      const struct limiter_answer *got, const struct limiter_peek *around)
{
    struct limiter_ask asks[LIMITER_ASKS_MAX];
    unsigned count = sum_asks(step, asks);

    if (step->call == LIMITER_BATCH) {
        for (unsigned i = 0; i < step->ask_count; i++)
            if (got->verdicts[i] == RATION_ALLOW)
                admit(t, step, &step->asks[i], 0, around);
        return;
    }
    if (got->decision.verdict != RATION_ALLOW)
        return;
    if (step->call == LIMITER_UP_TO)
        asks[0].tokens = got->granted;
    for (unsigned i = 0; i < count; i++)
        admit(t, step, &asks[i], step->call == LIMITER_ALLOW ? 0 : got->decision.delay_ns, around);
    if (step->call == LIMITER_RESERVE)
        t->reservations[step->reservation] = *step;
}

/* --- admin operations --- */

static void update_rule(struct limiter_trace *t, const struct limiter_step *step,
                        const struct limiter_ask *a, unsigned rule)
{
    struct model *own = &t->expect.models[a->limiter][a->key][rule];
    uint64_t now_ns = limiter_setup_clamp(&t->setup, step->now_ns);
    uint64_t used = step->used_tokens;
    struct limiter_key *key = &t->keys[a->limiter][a->key];
    bool is_forced = step->call == LIMITER_SETTLE ? used > a->tokens
                                                  : step->call == LIMITER_CHARGE && a->tokens > 0;
    bool is_kept = !t->is_tight; /* an overflow bucket never goes below zero, whatever is charged */

    if (step->call == LIMITER_REFUND)
        model_refund(own, a->tokens, now_ns);
    else if (step->call == LIMITER_RESET)
        model_init(own, own->limit);
    else if (step->call == LIMITER_SETTLE && used == 0)
        model_init(own, own->limit); /* before its turn the bucket may become what it was */
    else if (step->call == LIMITER_SETTLE && used < a->tokens)
        model_refund(own, a->tokens - used, now_ns);
    else if (is_forced && is_kept)
        model_charge(own, step->call == LIMITER_CHARGE ? a->tokens : used - a->tokens, now_ns);
    key->has_shared |= is_forced && !is_kept; /* a key without a place may not have been charged */
    if (is_forced)                            /* maybe of the overflow bucket: nothing shows it */
        key->is_own = false;
    if (is_forced && now_ns > key->last_ns) /* the moment that the bucket has reached */
        key->last_ns = now_ns;
}

/* A block is not modelled: its denials are accepted. */
static void update(struct limiter_trace *t, const struct limiter_step *step)
{
    const struct limiter_step *whose =
        step->call == LIMITER_SETTLE ? &t->reservations[step->reservation] : step;

    for (unsigned i = 0; i < whose->ask_count; i++)
        for (unsigned r = 0; r < t->setup.plans[whose->asks[i].limiter].rule_count; r++)
            update_rule(t, step, &whose->asks[i], r);
}

/* --- a step --- */

/* Without a reported time the call that returns one is used. */
static void ask_for_delay(const struct limiter_trace *t, struct limiter_step *step)
{
    const struct limiter_plan *plan = &t->setup.plans[0];
    bool has_queue = false;

    for (unsigned r = 0; r < plan->rule_count; r++)
        has_queue |= plan->rules[r].limit.algorithm == RATION_LEAKY_QUEUE;
    if (!has_queue || (step->call != LIMITER_ALLOW && step->call != LIMITER_BATCH))
        return;
    step->call = LIMITER_TAKE;
    step->ask_count = 1;
}

void limiter_keys_run(struct limiter_trace *t, struct limiter_step *step)
{
    struct limiter_peek around = {.has_looked = false};
    struct limiter_answer got;
    struct ration_limiter_stats before;
    struct ration_limiter_stats after;
    uint64_t now_ns = limiter_setup_clamp(&t->setup, step->now_ns);

    if (now_ns > t->latest_ns)
        t->latest_ns = now_ns;
    ask_for_delay(t, step);
    if (limiter_denial_is_looked_at(step))
        limiter_denial_peek(t, step, &around);
    before = limiter_subject_stats(&t->real);
    limiter_keys_ask(t, step, &got);
    after = limiter_subject_stats(&t->real);
    after = ration_limiter_stats_since(&after, &before);
    around.has_overflowed = after.overflow_shared + after.overflow_deny + after.overflow_allow > 0;
    around.is_waved = after.overflow_allow > 0;

    if (around.has_looked && got.decision.verdict != around.before.decision.verdict &&
        t->options->checks & LIMITER_CHECK_PEEK)
        limiter_trace_fail(t, "peek (what a take is answered)", step);
    if (around.has_looked && got.decision.verdict != RATION_ALLOW)
        limiter_denial_check(t, step, &got, &around);
    if (around.has_looked && got.decision.verdict == RATION_DENY && !around.has_overflowed)
        limiter_denial_check_retry(t, step, &got);
    if (step->call == LIMITER_PEEK)
        return;
    if (step->call <= LIMITER_RESERVE)
        admit_all(t, step, &got, &around);
    else
        update(t, step);
    limiter_walk_note(&t->walk, step, &got);
}
