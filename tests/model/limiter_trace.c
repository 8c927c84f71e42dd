#include "limiter_trace.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "limiter_trace_state.h"

/* The longest time of a trace, after which 16 years still fit. */
#define TRACE_NS_MAX (UINT64_C(1) << 57)

const char *limiter_mode_name(enum limiter_mode mode)
{
    static const char *const names[LIMITER_MODE_COUNT] = {"exact",  "overflow", "stale",
                                                          "reload", "change",   "choice"};

    return names[mode];
}

void limiter_trace_fail(struct limiter_trace *t, const char *rule, const struct limiter_step *step)
{
    t->failed = true;
    if (t->options->is_quiet)
        return;
    printf("%s broken: %s trace, seed %" PRIu64 ", step %" PRIu64 "\n", rule,
           limiter_mode_name(t->options->mode), t->options->seed, t->step);
    limiter_print_setup(&t->setup);
    printf("  step     ");
    limiter_print_step(step);
}

static void compare(struct limiter_trace *t, const char *rule, const struct limiter_step *step,
                    const struct limiter_answer *got, const struct limiter_answer *want)
{
    t->count->decisions += step->call == LIMITER_BATCH ? step->ask_count : 1;
    if (limiter_answers_equal(got, want))
        return;
    limiter_trace_fail(t, rule, step);
    if (!t->options->is_quiet) {
        limiter_print_answer("expected", want);
        limiter_print_answer("got", got);
    }
}

/* --- exact --- */

/* No now at which a slot may or may not be remembered, and no year in which it is past its end. */
static void be_sure_of(struct limiter_trace *t, struct limiter_step *step)
{
    for (unsigned i = 0; i < t->setup.limiter_count; i++)
        for (unsigned key = 0; key < t->setup.key_count; key++) {
            if (limiter_plan_stale_after_ns(&t->setup.plans[i]) == 0)
                continue;
            while (limiter_expect_is_unsure(&t->expect, i, key,
                                            limiter_setup_clamp(&t->setup, step->now_ns))) {
                step->now_ns += LIMITER_SLACK_NS + 1;
                i = 0;
                key = 0;
            }
        }
}

/* Whether a key may still have its place: an established key keeps it for a minute when it is full. */
static bool is_kept(const struct limiter_trace *t, unsigned limiter, unsigned key, uint64_t now_ns)
{
    const uint64_t margin_ns = 60 * RATION_NS_PER_SECOND;
    uint64_t early_ns = now_ns > margin_ns ? now_ns - margin_ns : 0;

    if (limiter_expect_is_kept(&t->expect, limiter, key, now_ns))
        return true;
    return t->asked_ns[limiter][key] > early_ns ||
           limiter_expect_is_kept(&t->expect, limiter, key, early_ns);
}

/* Whether the twin has a place for every key of the step: 16 of each limiter. Notes the keys if so. */
static bool twin_has_room(struct limiter_trace *t, const struct limiter_step *step)
{
    bool is_asked[LIMITER_COUNT_MAX][LIMITER_KEYS_MAX] = {{false}};
    uint64_t now_ns = limiter_setup_clamp(&t->setup, step->now_ns);
    const struct limiter_expect_reservation *reservation =
        &t->expect.reservations[step->reservation];

    for (unsigned i = 0; i < t->setup.limiter_count; i++) {
        unsigned kept = 0;

        for (unsigned a = 0; a < step->ask_count; a++)
            if (step->asks[a].limiter == i || step->scope == LIMITER_ALL)
                is_asked[i][step->asks[a].key] = true;
        for (unsigned k = 0; step->call == LIMITER_SETTLE && k < reservation->count; k++)
            if (reservation->slips[k].limiter == i)
                is_asked[i][reservation->slips[k].key] = true;
        for (unsigned key = 0; key < t->setup.key_count; key++)
            kept += is_asked[i][key] || is_kept(t, i, key, now_ns);
        if (kept > 16)
            return false;
    }
    for (unsigned i = 0; i < t->setup.limiter_count; i++)
        for (unsigned key = 0; key < t->setup.key_count; key++)
            if (is_asked[i][key])
                t->asked_ns[i][key] = now_ns;
    return true;
}

static void run_exact(struct limiter_trace *t, struct limiter_step *step)
{
    struct limiter_answer got;
    struct limiter_answer want;
    struct limiter_answer other;

    if (!t->walk.may_run_back)
        be_sure_of(t, step);
    if (step->until_ns < limiter_setup_epoch_ns(&t->setup)) /* the table knows no earlier moment */
        step->until_ns = limiter_setup_epoch_ns(&t->setup);
    if (t->has_twin && !twin_has_room(t, step))
        return;
    t->subject->answer(t->subject, step, &got);
    memcpy(t->expect.returned, got.returned, sizeof got.returned);
    memcpy(t->expect.refunded, got.refunded, sizeof got.refunded);
    t->expect.base.answer(&t->expect.base, step, &want);
    if (t->options->checks & LIMITER_CHECK_MODEL)
        compare(t, "model", step, &got, &want);
    if (t->has_twin) {
        t->twin.base.answer(&t->twin.base, step, &other);
        /* The keys that share a counter of returned tokens are others in each table. */
        if (memcmp(got.returned, other.returned, sizeof got.returned) != 0 ||
            memcmp(got.refunded, other.refunded, sizeof got.refunded) != 0)
            t->has_twin = false;
        if (t->options->checks & LIMITER_CHECK_R7)
            compare(t, "R7 (reclaimed or not)", step, &got, &other);
    }
    limiter_walk_note(&t->walk, step, &got);
}

/* --- the run of a trace --- */

static const struct limiter_options roomy = {
    .limiters_max = 3, .rules_max = 4, .keys_min = 1, .keys_max = 50};
static const struct limiter_options tight = {.limiters_max = 3,
                                             .rules_max = 3,
                                             .keys_min = 40,
                                             .keys_max = LIMITER_KEYS_MAX,
                                             .is_tight = true,
                                             .is_replayable = true};

static void begin(struct limiter_trace *t, const struct limiter_trace_options *options,
                  struct limiter_trace_count *count)
{
    enum limiter_mode mode = options->mode;

    t->options = options;
    t->count = count;
    t->failed = false;
    t->latest_ns = 0;
    memset(t->asked_ns, 0, sizeof(t->asked_ns));
    t->walk = (struct limiter_walk){.random = {options->seed}};
    t->is_tight = mode == LIMITER_OVERFLOW ||
                  (mode != LIMITER_EXACT && trace_random_below(&t->walk.random, 2));

    struct limiter_options choices = t->is_tight ? tight : roomy;

    /*
     * A key that is full and still remembered is not in a dump, and when one was forgotten is not the
     * same for a now that runs back. There, what each key gets is checked.
     */
    choices.starts_full =
        (mode == LIMITER_STALE || mode == LIMITER_RELOAD) && trace_random_below(&t->walk.random, 2);
    t->is_by_keys = t->is_tight || (mode != LIMITER_EXACT && !choices.starts_full);
    t->setup = limiter_random_setup(&t->walk.random, &choices);
    t->walk.setup = &t->setup;
    t->made_ns = t->setup.clock_ns;
    t->walk.clock_ns = t->walk.last_now_ns = t->setup.clock_ns;
    t->walk.is_slow = t->is_tight && trace_random_below(&t->walk.random, 4);
    t->walk.may_run_back = mode == LIMITER_STALE;
    t->walk.may_give_back = !t->is_by_keys || trace_random_below(&t->walk.random, 2);
    t->walk.may_wait = !t->is_by_keys || trace_random_below(&t->walk.random, 2);
    t->walk.last.remaining = 1;

    limiter_subject_init(&t->real, &t->setup);
    t->subject = options->disguise ? options->disguise(&t->real, options->seed) : &t->real.base;
    limiter_expect_init(&t->expect, &t->setup);
    t->has_twin = mode == LIMITER_EXACT && trace_random_below(&t->walk.random, 2);
    if (t->has_twin) {
        t->twin_setup = t->setup;
        for (unsigned i = 0; i < t->setup.limiter_count; i++)
            t->twin_setup.plans[i].keys_max = 1;
        limiter_subject_init(&t->twin, &t->twin_setup);
    }
    limiter_keys_init(t);
    count->traces++;
}

static void add_stats(struct limiter_trace *t, const struct limiter_subject *subject)
{
    struct ration_limiter_stats stats = limiter_subject_stats(subject);

    t->count->reclaimed += stats.reclaimed;
    t->count->overflow_shared += stats.overflow_shared;
    t->count->overflow_deny += stats.overflow_deny;
    t->count->overflow_allow += stats.overflow_allow;
}

static void end(struct limiter_trace *t)
{
    add_stats(t, &t->real);
    limiter_subject_done(&t->real);
    if (t->has_twin)
        add_stats(t, &t->twin);
    limiter_subject_done(&t->twin); /* also one that the trace stopped comparing */
}

/*
 * Dumps and loads it, at once or a bit later by the limiter's clock. By the wall clock no time has passed: if the
 * limiter's clock is more than a second ahead, the tokens in use stay as they were, and only less is admitted.
 */
static void reload(struct limiter_trace *t)
{
    uint64_t later_ns = t->walk.clock_ns;

    if (trace_random_below(&t->walk.random, 2))
        later_ns += t->is_by_keys ? trace_random_sized(&t->walk.random, RATION_NS_PER_HOUR)
                                  : trace_random_below(&t->walk.random, RATION_NS_PER_SECOND / 2);
    limiter_subject_reload(&t->real, t->walk.clock_ns, later_ns);
    for (unsigned i = 0; later_ns > t->walk.clock_ns && i < t->setup.limiter_count; i++)
        for (unsigned key = 0; key < t->setup.key_count; key++)
            t->keys[i][key].is_own =
                false; /* windows that were moved may end earlier than reported */
    t->setup.clock_ns = later_ns;
    t->walk.clock_ns = later_ns;
    t->count->reloads++;
}

static void run_step(struct limiter_trace *t)
{
    struct limiter_step step;

    if (t->options->mode == LIMITER_RELOAD && trace_random_below(&t->walk.random, 16) == 0)
        reload(t);
    step = limiter_walk_next(&t->walk);

    if (t->options->is_verbose) {
        printf("%4" PRIu64 " ", t->step);
        limiter_print_step(&step);
    }
    if (t->is_by_keys)
        limiter_keys_run(t, &step);
    else
        run_exact(t, &step);
}

uint64_t limiter_trace_run(const struct limiter_trace_options *options,
                           struct limiter_trace_count *count)
{
    static struct limiter_trace trace;
    struct limiter_trace *t = &trace;

    if (options->mode == LIMITER_CHANGE)
        return limiter_change_run(options, count);
    if (options->mode == LIMITER_CHOICE)
        return limiter_choice_run(options, count);
    begin(t, options, count);

    uint64_t steps = 20 + trace_random_sized(&t->walk.random, 600);

    for (t->step = 1; t->step <= steps && !t->failed; t->step++) {
        if (t->walk.clock_ns - t->made_ns > TRACE_NS_MAX)
            break;
        run_step(t);
    }
    end(t);
    return t->failed ? t->step - 1 : 0;
}
