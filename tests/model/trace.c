#include "trace.h"
#include "core/algorithm.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/time.h"
#include "bucket/returns.h"
#include "trace_state.h"

/* --- reports --- */

bool trace_decisions_equal(const struct ration_decision *a, const struct ration_decision *b)
{
    return a->verdict == b->verdict && a->limit_index == b->limit_index && a->limit == b->limit &&
           a->remaining == b->remaining && a->retry_after_ns == b->retry_after_ns &&
           a->reset_after_ns == b->reset_after_ns && a->delay_ns == b->delay_ns;
}

void trace_print_decision(const char *title, const struct ration_decision *d)
{
    printf("  %-8s %s limit %" PRIu64 " remaining %" PRIu64 " retry %" PRIu64 " reset %" PRIu64
           " delay %" PRIu64 "\n",
           title, ration_decision_verdict_name(d->verdict), d->limit, d->remaining,
           d->retry_after_ns, d->reset_after_ns, d->delay_ns);
}

static void fail(struct trace *t, const char *rule, const char *operation, uint64_t tokens,
                 uint64_t now_ns)
{
    char text[RATION_LIMIT_TEXT_SIZE];

    t->failed = true;
    if (t->options->is_quiet)
        return;
    ration_limit_print(&t->limit, text, sizeof text);
    printf("%s broken: %s trace, seed %" PRIu64 ", step %" PRIu64 "\n", rule,
           trace_kind_name(t->options->kind), t->options->seed, t->step);
    printf("  limit    %s\n  call     %s %" PRIu64 " at %" PRIu64 "\n", text, operation, tokens,
           now_ns);
}

static void compare(struct trace *t, const char *operation, uint64_t tokens, uint64_t now_ns,
                    const struct ration_decision *got, const struct ration_decision *want)
{
    if (!(t->options->checks & TRACE_CHECK_MODEL) || trace_decisions_equal(got, want))
        return;
    fail(t, "model", operation, tokens, now_ns);
    if (!t->options->is_quiet) {
        trace_print_decision("expected", want);
        trace_print_decision("got", got);
    }
}

static void say(const struct trace *t, const char *operation, uint64_t tokens, uint64_t now_ns)
{
    if (t->options->is_verbose)
        printf("%4" PRIu64 " %-10s %20" PRIu64 " at %20" PRIu64 "  state %" PRIu64 " %" PRIu64 "\n",
               t->step, operation, tokens, now_ns, t->state[0], t->state[1]);
}

/* --- the checks of one decision --- */

static void check_untouched(struct trace *t, const struct ration_decision *got, uint64_t cost,
                            uint64_t now_ns)
{
    bool is_same = memcmp(t->state, t->scratch, t->size) == 0;

    if (cost == 0 && t->options->checks & TRACE_CHECK_R6 && !is_same)
        fail(t, "R6 (cost 0 writes nothing)", "take", cost, now_ns);
    if (got->verdict != RATION_ALLOW && t->options->checks & TRACE_CHECK_R2 && !is_same)
        fail(t, "R2 (a denial writes nothing)", "take", cost, now_ns);
}

static enum ration_verdict probe(struct trace *t, uint64_t cost, uint64_t now_ns)
{
    memcpy(t->scratch, t->state, t->size);
    t->count->decisions++;
    return t->subject->take(t->scratch, &t->limit, cost, now_ns).verdict;
}

static void check_retry(struct trace *t, const struct ration_decision *got, uint64_t cost,
                        uint64_t now_ns)
{
    uint64_t from_ns = now_ns < MODEL_NOW_MAX_NS ? now_ns : MODEL_NOW_MAX_NS;

    if (got->verdict != RATION_DENY || !(t->options->checks & TRACE_CHECK_R4))
        return;
    t->count->denials++;
    if (got->retry_after_ns > MODEL_NOW_MAX_NS - from_ns) {
        t->count->retries_skipped++;
        return;
    }
    if (got->retry_after_ns == 0 ||
        probe(t, cost, from_ns + got->retry_after_ns - 1) == RATION_ALLOW)
        fail(t, "R4 (one nanosecond earlier fails)", "take", cost, now_ns);
    if (probe(t, cost, from_ns + got->retry_after_ns) != RATION_ALLOW)
        fail(t, "R4 (on time passes)", "take", cost, now_ns);
}

static void check_history(struct trace *t, const struct ration_decision *got, uint64_t tokens,
                          uint64_t now_ns)
{
    if (!t->is_monotone || !(t->options->checks & TRACE_CHECK_R1) || tokens == 0 ||
        got->verdict != RATION_ALLOW)
        return;
    if (!history_admit(&t->history, tokens, now_ns + got->delay_ns))
        fail(t, "R1 (the contract)", "take", tokens, now_ns);
}

/*
 * The twin is made of zero bytes whenever the bucket is full. It answers alike as long as time
 * does not run back behind that moment; then it is copied again.
 */
static bool twin_follows(struct trace *t, uint64_t now_ns)
{
    if (!(t->options->checks & TRACE_CHECK_R7))
        return false;
    if (now_ns < t->twin_since_ns)
        t->has_twin = false;
    return t->has_twin;
}

void trace_forget_if_full(struct trace *t)
{
    if (!(t->options->checks & TRACE_CHECK_R7) || t->clock_ns > MODEL_NOW_MAX_NS ||
        t->subject->full_after(t->state, &t->limit, t->clock_ns) != 0)
        return;
    if (model_full_after_ns(&t->model, t->clock_ns) != 0 && t->options->checks & TRACE_CHECK_MODEL)
        fail(t, "model (full)", "full_after", 0, t->clock_ns);
    memset(t->twin, 0, t->size);
    /* Except for the count of returned tokens, which open reservations use: see bucket.c. */
    if (t->subject == &subject_bucket) {
        struct ration_spare spare = ration_returns_spare_of(&t->limit);

        t->twin[0] = t->state[0] & spare.words[0];
        t->twin[1] = t->state[1] & spare.words[1];
    }
    t->twin_since_ns = t->clock_ns;
    t->has_twin = true;
    t->count->forgotten++;
}

static void compare_twin(struct trace *t, const char *operation, uint64_t tokens, uint64_t now_ns,
                         const struct ration_decision *got, const struct ration_decision *twin)
{
    if (trace_decisions_equal(got, twin))
        return;
    fail(t, "R7 (idle equals absent)", operation, tokens, now_ns);
    if (!t->options->is_quiet) {
        trace_print_decision("kept", got);
        trace_print_decision("absent", twin);
    }
}

/* --- the operations --- */

static void remember(struct trace *t, const struct ration_decision *got, uint64_t now_ns)
{
    t->last = *got;
    t->last_now_ns = now_ns;
    t->count->decisions++;
}

void trace_do_take(struct trace *t, uint64_t cost, uint64_t now_ns)
{
    say(t, "take", cost, now_ns);
    memcpy(t->scratch, t->state, t->size);

    struct ration_decision got = t->subject->take(t->state, &t->limit, cost, now_ns);
    struct ration_decision want = model_take(&t->model, cost, now_ns);

    remember(t, &got, now_ns);
    compare(t, "take", cost, now_ns, &got, &want);
    if (got.verdict != RATION_ALLOW || cost == 0)
        check_untouched(t, &got, cost, now_ns);
    check_retry(t, &got, cost, now_ns);
    check_history(t, &got, cost, now_ns);
    if (twin_follows(t, now_ns)) {
        struct ration_decision twin = t->subject->take(t->twin, &t->limit, cost, now_ns);
        t->count->decisions++;
        compare_twin(t, "take", cost, now_ns, &got, &twin);
    }
}

void trace_do_peek(struct trace *t, uint64_t cost, uint64_t now_ns)
{
    if (!t->subject->peek)
        return;
    say(t, "peek", cost, now_ns);

    struct ration_decision got = t->subject->peek(t->state, &t->limit, cost, now_ns);
    struct ration_decision want = model_peek(&t->model, cost, now_ns);

    remember(t, &got, now_ns);
    compare(t, "peek", cost, now_ns, &got, &want);
}

void trace_do_take_up_to(struct trace *t, uint64_t cost, uint64_t now_ns)
{
    struct ration_decision got;
    struct ration_decision want;
    struct ration_decision twin;

    if (!t->subject->take_up_to)
        return;
    say(t, "take_up_to", cost, now_ns);

    uint64_t granted = t->subject->take_up_to(t->state, &t->limit, cost, now_ns, &got);
    uint64_t expected = model_take_up_to(&t->model, cost, now_ns, &want);

    remember(t, &got, now_ns);
    compare(t, "take_up_to", cost, now_ns, &got, &want);
    if (granted != expected)
        fail(t, "model (granted)", "take_up_to", cost, now_ns);
    check_history(t, &got, granted, now_ns);
    if (twin_follows(t, now_ns)) {
        t->subject->take_up_to(t->twin, &t->limit, cost, now_ns, &twin);
        compare_twin(t, "take_up_to", cost, now_ns, &got, &twin);
    }
}

void trace_do_change(struct trace *t, unsigned choice, uint64_t tokens, uint64_t now_ns)
{
    static const char *const names[] = {"refund", "force", "set"};
    void (*const calls[])(void *, const struct ration_limit *, uint64_t,
                          uint64_t) = {t->subject->refund, t->subject->charge, t->subject->set};

    say(t, names[choice], tokens, now_ns);
    calls[choice](t->state, &t->limit, tokens, now_ns);
    if (twin_follows(t, now_ns))
        calls[choice](t->twin, &t->limit, tokens, now_ns);
    if (choice == 0)
        model_refund(&t->model, tokens, now_ns);
    else if (choice == 1)
        model_charge(&t->model, tokens, now_ns);
    else
        model_set(&t->model, tokens, now_ns);
}

void trace_do_block(struct trace *t, uint64_t until_ns)
{
    if (!t->subject->block)
        return;
    say(t, "block", 0, until_ns);
    if (t->subject->block(t->state, &t->limit, until_ns) != RATION_OK)
        return; /* windows cannot */
    model_block(&t->model, until_ns);
    if (twin_follows(t, until_ns)) /* a past moment is time that runs backwards */
        t->subject->block(t->twin, &t->limit, until_ns);
}

void trace_do_reserve(struct trace *t, uint64_t cost, uint64_t max_wait_ns, uint64_t now_ns)
{
    struct open_reservation r;
    struct ration_decision twin;

    if (!t->subject->reserve || t->open_count == TRACE_OPEN_MAX)
        return;
    memset(&r, 0, sizeof r);
    r.before = model_mark(&t->model);
    say(t, "reserve", cost, now_ns);

    struct ration_decision got =
        t->subject->reserve(t->state, &t->limit, cost, max_wait_ns, now_ns, &r.subject);
    struct ration_decision want = model_reserve(&t->model, cost, max_wait_ns, now_ns);

    remember(t, &got, now_ns);
    compare(t, "reserve", cost, now_ns, &got, &want);
    if (twin_follows(t, now_ns)) {
        twin = t->subject->reserve(t->twin, &t->limit, cost, max_wait_ns, now_ns, &r.twin);
        compare_twin(t, "reserve", cost, now_ns, &got, &twin);
    } else {
        r.twin = r.subject;
    }
    if (got.verdict == RATION_ALLOW && cost > 0) {
        r.mark = model_mark(&t->model);
        t->open[t->open_count++] = r;
    }
}

void trace_do_settle(struct trace *t, unsigned index, uint64_t used, uint64_t now_ns)
{
    if (index >= t->open_count)
        return;

    struct open_reservation r = t->open[index];
    uint64_t cost = r.subject.bucket.cost_tokens;

    say(t, "settle", used, now_ns);
    t->open[index] = t->open[--t->open_count];
    t->subject->settle(t->state, &t->limit, &r.subject, used, now_ns);
    if (twin_follows(t, now_ns))
        t->subject->settle(t->twin, &t->limit, &r.twin, used, now_ns);
    bool is_promised = used > 0 && ration_time_clamp(now_ns) < r.subject.bucket.ready_at_ns;

    if (used < cost && !is_promised)
        model_release(&t->model,
                      &(struct model_release){
                          .before = r.before,
                          .mark = r.mark,
                          .cost_tokens = cost,
                          .unused_tokens = cost - used,
                          .turn_ns = r.subject.bucket.ready_at_ns,
                          .returned_tokens = r.subject.returned_tokens,
                          .refunded_tokens = r.subject.refunded_tokens,
                      },
                      now_ns);
    else if (used > cost)
        model_charge(&t->model, used - cost, now_ns);
}
