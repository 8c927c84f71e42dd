/*
 * Limits that change: a limiter of one rule against separate buckets, one per key.
 *
 * A limiter converts a key at its next access, from the limit under which it was written to the current one, each change
 * as of its own time. It writes the result if the call changes the bucket, not after a denial (R2). So each bucket here
 * remembers its limit and the changes since, which ration_bucket_change() applies. core/change.h describes what a change
 * preserves, and has tests of its own.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "limiter_random.h"
#include "limiter_trace.h"

#define KEYS_MAX 8

/* After so many changes without an access a key keeps its moment instead of its tokens. */
#define CHANGES_MAX 5

struct change_key {
    struct ration_bucket bucket;
    struct ration_limit limit; /* that wrote it */
    unsigned change_count;     /* since then */
    struct {
        struct ration_limit limit;
        enum ration_change kind;
        uint64_t at_ns;
    } changes[CHANGES_MAX + 1];
};

struct change_trace {
    const struct limiter_trace_options *options;
    struct limiter_trace_count *count;
    struct limiter_walk walk;
    struct limiter_setup setup;
    struct limiter_subject real;
    struct limiter_answerer *subject;
    struct change_key keys[KEYS_MAX];
    uint64_t scale_ns;
    uint64_t step;
    bool failed;
};

static const struct ration_limit *current(const struct change_trace *t)
{
    return &t->setup.plans[0].rules[0].limit;
}

static struct ration_limit pick_limit(struct change_trace *t, enum trace_kind kind)
{
    struct ration_limit limit;

    do {
        limit = limiter_random_limit(&t->walk.random, t->scale_ns, kind);
        limit.start = RATION_START_FULL;
        limit.start_tokens = 0;
    } while (limit.refill == RATION_REFILL_INTERVAL && limit.tokens > UINT64_C(1) << 20);
    return limit;
}

/* A sliding window needs more room than the others, and changes only into its kind. */
static enum trace_kind pick_kind(struct change_trace *t, bool is_sliding)
{
    static const enum trace_kind kinds[] = {TRACE_TOKEN, TRACE_TOKEN, TRACE_INTERVAL, TRACE_QUEUE,
                                            TRACE_FIXED};

    return is_sliding ? TRACE_SLIDING : kinds[trace_random_below(&t->walk.random, 5)];
}

static void begin(struct change_trace *t, const struct limiter_trace_options *options,
                  struct limiter_trace_count *count)
{
    *t = (struct change_trace){.options = options, .count = count};
    t->walk.random = (struct trace_random){options->seed};
    t->scale_ns = (uint64_t[]){20, 1000, RATION_NS_PER_HOUR}[options->seed % 3];
    t->setup.limiter_count = 1;
    t->setup.key_count = 1 + (unsigned)trace_random_below(&t->walk.random, KEYS_MAX);
    t->setup.clock_ns = trace_random_sized(&t->walk.random, UINT64_C(1) << 57);
    t->setup.has_key_func = trace_random_below(&t->walk.random, 2);
    t->setup.is_stackable = trace_random_below(&t->walk.random, 2);
    t->setup.plans[0].rule_count = 1;
    t->setup.plans[0].keys_max = 600;
    t->setup.plans[0].rules[0].limit =
        pick_limit(t, pick_kind(t, trace_random_below(&t->walk.random, 6) == 0));
    t->walk.setup = &t->setup;
    t->walk.clock_ns = t->walk.last_now_ns = t->setup.clock_ns;
    t->walk.may_give_back = true;
    for (unsigned i = 0; i < KEYS_MAX; i++)
        t->keys[i].limit = *current(t);
    limiter_subject_init(&t->real, &t->setup);
    t->subject = options->disguise ? options->disguise(&t->real, options->seed) : &t->real.base;
    count->traces++;
}

static void fail(struct change_trace *t, const struct limiter_step *step)
{
    t->failed = true;
    if (t->options->is_quiet)
        return;
    printf("model broken: %s trace, seed %" PRIu64 ", step %" PRIu64 "\n",
           limiter_mode_name(t->options->mode), t->options->seed, t->step);
    limiter_print_setup(&t->setup);
    printf("  step     ");
    limiter_print_step(step);
}

/* The bucket as it is under the current limit, for a call at now. */
static struct ration_bucket met(const struct change_key *key, uint64_t now_ns)
{
    struct ration_bucket bucket = key->bucket;
    const struct ration_limit *limit = &key->limit;

    for (unsigned i = 0; i < key->change_count; i++) {
        uint64_t at_ns = key->changes[i].at_ns < now_ns ? key->changes[i].at_ns : now_ns;

        if (ration_bucket_change(&bucket, limit, &key->changes[i].limit, key->changes[i].kind,
                                 at_ns) != RATION_OK)
            __builtin_trap();
        limit = &key->changes[i].limit;
    }
    return bucket;
}

/* The bucket's answer to a step; false if buckets do not have that call. */
static bool answer(struct ration_bucket *b, const struct ration_limit *limit,
                   const struct limiter_step *step, struct limiter_answer *out)
{
    uint64_t tokens = step->asks[0].tokens;

    *out = (struct limiter_answer){.status = RATION_OK};
    switch (step->call) {
    case LIMITER_TAKE:
        out->decision = ration_bucket_take(b, limit, tokens, step->now_ns);
        break;
    case LIMITER_PEEK:
        out->decision = ration_bucket_peek(b, limit, tokens, step->now_ns);
        break;
    case LIMITER_ALLOW:
        out->decision.verdict =
            ration_bucket_allow_at(b, limit, tokens, step->now_ns) ? RATION_ALLOW : RATION_DENY;
        break;
    case LIMITER_UP_TO:
        out->granted = ration_bucket_take_up_to(b, limit, tokens, step->now_ns, &out->decision);
        break;
    case LIMITER_REFUND:
        ration_bucket_refund(b, limit, tokens, step->now_ns);
        break;
    case LIMITER_CHARGE:
        if (tokens > 0)
            ration_bucket_charge(b, limit, tokens, step->now_ns);
        break;
    case LIMITER_BLOCK:
        out->status = ration_bucket_block_until(b, limit, step->until_ns);
        break;
    default:
        return false;
    }
    return true;
}

static void run(struct change_trace *t, const struct limiter_step *step)
{
    struct change_key *key = &t->keys[step->asks[0].key];
    struct ration_bucket before = met(key, step->now_ns), bucket = before;
    struct limiter_answer got;
    struct limiter_answer want;

    if (!answer(&bucket, current(t), step, &want))
        return;
    t->subject->answer(t->subject, step, &got);
    got.detail_count = 0;
    t->count->decisions++;
    if (!limiter_answers_equal(&got, &want)) {
        fail(t, step);
        if (!t->options->is_quiet) {
            limiter_print_answer("expected", &want);
            limiter_print_answer("got", &got);
        }
    }
    limiter_walk_note(&t->walk, step, &got);
    if (memcmp(&bucket, &before, sizeof(bucket)) != 0)
        *key = (struct change_key){.bucket = bucket, .limit = *current(t)};
}

/* Writes buckets that were not written for long, by charging one token. */
static void meet_all(struct change_trace *t)
{
    for (unsigned i = 0; i < t->setup.key_count; i++) {
        struct limiter_step step = {.call = LIMITER_CHARGE,
                                    .now_ns = t->walk.clock_ns,
                                    .ask_count = 1,
                                    .asks = {{.key = i, .tokens = 1}}};

        if (t->keys[i].change_count >= CHANGES_MAX)
            run(t, &step);
    }
}

static void change(struct change_trace *t)
{
    bool is_sliding = current(t)->algorithm == RATION_SLIDING_WINDOW;
    bool is_reset = trace_random_below(&t->walk.random, 4) == 0;

    meet_all(t);
    t->setup.plans[0].rules[0].limit = pick_limit(t, pick_kind(t, is_sliding));
    if (ration_limiter_change(t->real.limiter, t->setup.plans[0].rules, 1,
                              is_reset ? RATION_CHANGE_RESET : RATION_CHANGE_KEEP,
                              NULL) != RATION_OK)
        __builtin_trap();
    for (unsigned i = 0; i < t->setup.key_count; i++) {
        struct change_key *key = &t->keys[i];

        key->changes[key->change_count].limit = *current(t);
        key->changes[key->change_count].kind = is_reset ? RATION_CHANGE_RESET : RATION_CHANGE_KEEP;
        key->changes[key->change_count++].at_ns = t->real.clock.ns;
    }
    t->count->changes++;
}

uint64_t limiter_change_run(const struct limiter_trace_options *options,
                            struct limiter_trace_count *count)
{
    static struct change_trace trace;
    struct change_trace *t = &trace;

    begin(t, options, count);

    uint64_t steps = 20 + trace_random_sized(&t->walk.random, 600);

    for (t->step = 1; t->step <= steps && !t->failed; t->step++) {
        if (trace_random_below(&t->walk.random, 12) == 0)
            change(t);

        struct limiter_step step = limiter_walk_next(&t->walk);

        if (t->walk.clock_ns - t->setup.clock_ns > UINT64_C(1) << 57)
            break;
        if (options->is_verbose)
            limiter_print_step(&step);
        if (!t->failed)
            run(t, &step);
    }
    limiter_subject_done(&t->real);
    return t->failed ? t->step : 0;
}
