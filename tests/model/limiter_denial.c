/* R2 and R4 by peeks: before a take, after its denial, and at the reported moment. */
#include "limiter_trace_state.h"

static struct limiter_step as_peek(const struct limiter_step *step, uint64_t now_ns)
{
    struct limiter_step peek = *step;

    peek.call = LIMITER_PEEK;
    peek.now_ns = now_ns;
    return peek;
}

bool limiter_denial_is_looked_at(const struct limiter_step *step)
{
    return step->call == LIMITER_TAKE && step->scope != LIMITER_LIST;
}

void limiter_denial_peek(struct limiter_trace *t, const struct limiter_step *step,
                         struct limiter_peek *around)
{
    struct limiter_step peek = as_peek(step, step->now_ns);
    unsigned limiter = (unsigned)trace_random_below(&t->walk.random, t->setup.limiter_count);

    limiter_keys_ask(t, &peek, &around->before);
    around->bystander = (struct limiter_step){.call = LIMITER_PEEK,
                                              .scope = LIMITER_ONE,
                                              .now_ns = step->now_ns,
                                              .ask_count = 1,
                                              .asks = {{.limiter = limiter, .tokens = 1}}};
    around->bystander.asks[0].key =
        (unsigned)trace_random_below(&t->walk.random, t->setup.key_count);
    limiter_keys_ask(t, &around->bystander, &around->bystander_before);
    around->has_looked = true;
}

/* Whether a denial may write: it starts keys that start empty, and shadows have their own verdict. */
static bool may_write(const struct limiter_trace *t)
{
    bool may = false;

    for (unsigned i = 0; i < t->setup.limiter_count; i++) {
        may |= limiter_plan_stale_after_ns(&t->setup.plans[i]) > 0;
        for (unsigned r = 0; r < t->setup.plans[i].rule_count; r++)
            may |= t->setup.plans[i].rules[r].is_shadow;
    }
    return may;
}

/* The answer without shadows, which may be charged, and need a place for that. */
static struct limiter_answer enforced(const struct limiter_trace *t, struct limiter_answer answer)
{
    if (may_write(t))
        answer.detail_count = 0;
    if (may_write(t) && answer.decision.verdict == RATION_NEVER) /* of whichever bucket */
        answer.decision.remaining = answer.decision.reset_after_ns = 0;
    return answer;
}

void limiter_denial_check(struct limiter_trace *t, const struct limiter_step *step,
                          const struct limiter_answer *got, const struct limiter_peek *around)
{
    struct limiter_step peek = as_peek(step, step->now_ns);
    struct limiter_answer before = enforced(t, around->before);
    struct limiter_answer denied = enforced(t, *got);
    struct limiter_answer again;

    if (!limiter_answers_equal(&before, &denied) && t->options->checks & LIMITER_CHECK_PEEK) {
        limiter_trace_fail(t, "peek (what a take is answered)", step);
        if (!t->options->is_quiet) {
            limiter_print_answer("peek", &around->before);
            limiter_print_answer("take", got);
        }
    }
    if (!(t->options->checks & LIMITER_CHECK_R2) || (around->has_overflowed && may_write(t)))
        return; /* a shadow that was charged to the overflow bucket has others inherit from there */
    limiter_keys_ask(t, &peek, &again);
    again = enforced(t, again);
    if (!limiter_answers_equal(&before, &again)) {
        limiter_trace_fail(t, "R2 (a denial costs nothing)", step);
        if (!t->options->is_quiet) {
            limiter_print_answer("before", &around->before);
            limiter_print_answer("take", got);
            limiter_print_answer("after", &again);
        }
    }
    limiter_keys_ask(t, &around->bystander, &again);
    if (!limiter_answers_equal(&around->bystander_before, &again) && !may_write(t))
        limiter_trace_fail(t, "R2 (nobody sees that it was tried)", step);
}

/* Whether the keys have buckets of their own: charged there, and with tokens in use since. */
static bool are_own(const struct limiter_trace *t, const struct limiter_step *step)
{
    bool own = true;

    for (unsigned i = 0; i < step->ask_count; i++) {
        const struct limiter_ask *a = &step->asks[i];
        bool in_debt = false;

        for (unsigned r = 0; r < t->setup.plans[a->limiter].rule_count; r++)
            in_debt |=
                model_full_after_ns(&t->expect.models[a->limiter][a->key][r], t->latest_ns) > 0;
        own &= in_debt && t->keys[a->limiter][a->key].is_own;
    }
    return own;
}

/* Whether a key may be forgotten by one limiter of a stack while it waits for another. */
static bool outlasts_memory(const struct limiter_trace *t, const struct limiter_step *step,
                            uint64_t wait_ns)
{
    bool outlasts = false;

    for (unsigned i = 0; i < step->ask_count && step->ask_count > 1; i++) {
        uint64_t stale_ns = limiter_plan_stale_after_ns(&t->setup.plans[step->asks[i].limiter]);

        outlasts |= stale_ns > 0 && wait_ns >= stale_ns;
    }
    return outlasts;
}

void limiter_denial_check_retry(struct limiter_trace *t, const struct limiter_step *step,
                                const struct limiter_answer *got)
{
    uint64_t now_ns = limiter_setup_clamp(&t->setup, step->now_ns);
    uint64_t then_ns = now_ns + got->decision.retry_after_ns;
    struct limiter_step peek = as_peek(step, then_ns);
    struct limiter_answer answer;

    if (!(t->options->checks & LIMITER_CHECK_R4) || !are_own(t, step) ||
        limiter_setup_clamp(&t->setup, then_ns) != then_ns ||
        outlasts_memory(t, step, got->decision.retry_after_ns))
        return;
    t->count->denials++;
    limiter_keys_ask(t, &peek, &answer);
    if (answer.decision.verdict != RATION_ALLOW)
        limiter_trace_fail(t, "R4 (on time passes)", step);
    peek.now_ns--;
    limiter_keys_ask(t, &peek, &answer);
    if (answer.decision.verdict == RATION_ALLOW)
        limiter_trace_fail(t, "R4 (one nanosecond earlier fails)", step);
}
