/*
 * A rule that chooses from several limits, together with one that always applies, against separate buckets, one for each
 * (limit, key). A request is charged to the chosen limit and to the other, to both or none.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "limiter_random.h"
#include "limiter_trace.h"

#define KEYS_MAX    8
#define CHOICES_MAX 4
#define ALWAYS      CHOICES_MAX /* of buckets: behind those of the choices */

struct choice_request {
    unsigned key;
    int choice; /* -1: the rule does not apply */
};

struct choice_trace {
    const struct limiter_trace_options *options;
    struct trace_random random;
    struct ration_limit limits[CHOICES_MAX + 1]; /* the last one always applies */
    unsigned choice_count;
    unsigned key_count;
    struct ration_bucket buckets[KEYS_MAX][CHOICES_MAX + 1];
    struct ration_manual_clock clock;
    ration_limiter *limiter;
};

static ration_status key_of(void *context, const void *request, char *room,
                            struct ration_key *out_key)
{
    (void)context, (void)room;
    *out_key =
        (struct ration_key){&((const struct choice_request *)request)->key, sizeof(unsigned)};
    return RATION_OK;
}

static const struct ration_limit *choose(void *context, const void *request, uint64_t *cost_tokens)
{
    const struct choice_trace *t = context;
    int choice = ((const struct choice_request *)request)->choice;

    (void)cost_tokens;
    return choice < 0 ? NULL : &t->limits[choice];
}

static void begin(struct choice_trace *t, const struct limiter_trace_options *options)
{
    static const enum trace_kind kinds[] = {TRACE_TOKEN, TRACE_INTERVAL, TRACE_FIXED,
                                            TRACE_SLIDING};
    struct ration_clock clock = ration_clock_manual(&t->clock);
    struct ration_rule rules[2] = {{.choose = choose, .choose_context = t, .limits = t->limits}};
    uint64_t scale_ns;

    *t = (struct choice_trace){.options = options, .random = {options->seed}};
    scale_ns = (uint64_t[]){20, 1000, RATION_NS_PER_HOUR}[options->seed % 3];
    t->choice_count = 1 + (unsigned)trace_random_below(&t->random, CHOICES_MAX);
    t->key_count = 1 + (unsigned)trace_random_below(&t->random, KEYS_MAX);
    for (unsigned i = 0; i <= ALWAYS; i++) {
        t->limits[i] =
            limiter_random_limit(&t->random, scale_ns, kinds[trace_random_below(&t->random, 4)]);
        t->limits[i].start = RATION_START_FULL;
        t->limits[i].start_tokens = 0;
    }
    t->clock.ns = trace_random_sized(&t->random, UINT64_C(1) << 50);
    rules[0].limit_count = t->choice_count;
    rules[1].limit = t->limits[ALWAYS];
    if (ration_limiter_create(
            &(struct ration_limiter_options){.struct_size = sizeof(struct ration_limiter_options),
                                             .rules = rules,
                                             .rule_count = 2,
                                             .keys_max = 100,
                                             .key_func = key_of,
                                             .clock = &clock},
            &t->limiter, NULL) != RATION_OK)
        __builtin_trap();
}

/* The model's bucket of a limit: by its index in the limiter. */
static struct ration_bucket *bucket_of(struct choice_trace *t, unsigned key, unsigned index,
                                       const struct ration_limit **out_limit)
{
    unsigned at = index == t->choice_count ? ALWAYS : index;

    *out_limit = &t->limits[at];
    return &t->buckets[key][at];
}

static bool applies(const struct choice_trace *t, const struct choice_request *request,
                    unsigned index)
{
    return index == t->choice_count || (int)index == request->choice;
}

/* Every limit's own decision about a take: all that apply pass, or none is charged. */
static void expect_take(struct choice_trace *t, const struct choice_request *request, uint64_t cost,
                        bool is_peek, struct ration_decision *out_details)
{
    uint64_t now_ns = t->clock.ns;
    bool passes = true;

    for (unsigned i = 0; i <= t->choice_count; i++) {
        const struct ration_limit *limit;
        struct ration_bucket *bucket = bucket_of(t, request->key, i, &limit);

        out_details[i] = (struct ration_decision){.remaining = UINT64_MAX};
        if (!applies(t, request, i))
            continue;
        out_details[i] = ration_bucket_peek(bucket, limit, cost, now_ns);
        out_details[i].limit_index = i;
        passes &= out_details[i].verdict == RATION_ALLOW;
    }
    for (unsigned i = 0; i <= t->choice_count && passes && !is_peek; i++) {
        const struct ration_limit *limit;
        struct ration_bucket *bucket = bucket_of(t, request->key, i, &limit);

        if (!applies(t, request, i))
            continue;
        out_details[i] = ration_bucket_take(bucket, limit, cost, now_ns);
        out_details[i].limit_index = i;
    }
}

static bool run_take(struct choice_trace *t, const struct choice_request *request, uint64_t cost)
{
    bool is_peek = trace_random_below(&t->random, 4) == 0;
    struct ration_decision got, details[CHOICES_MAX + 1], want[CHOICES_MAX + 1];
    ration_status status = (is_peek ? ration_limiter_peek : ration_limiter_take)(
        t->limiter, request, cost, t->clock.ns, &got, details);

    expect_take(t, request, cost, is_peek, want);
    return status == RATION_OK &&
           memcmp(details, want, (t->choice_count + 1) * sizeof(want[0])) == 0;
}

/* Applies an admin operation to every limit that applies; a reset and a block to all that could be chosen. */
static bool run_update(struct choice_trace *t, const struct choice_request *request,
                       uint64_t tokens, unsigned kind)
{
    uint64_t now_ns = t->clock.ns, until_ns = now_ns + tokens;
    bool can_choices = request->choice >= 0;
    bool is_wide = kind >= 2 && request->choice >= 0;
    ration_status want = RATION_OK, got;

    for (unsigned i = 0; i < t->choice_count; i++)
        can_choices &= t->limits[i].algorithm == RATION_TOKEN_BUCKET;
    if (kind == 3 && !can_choices && t->limits[ALWAYS].algorithm != RATION_TOKEN_BUCKET)
        want = RATION_EUNSUPPORTED;
    got = kind == 0   ? ration_limiter_refund(t->limiter, request, tokens, now_ns)
          : kind == 1 ? ration_limiter_charge(t->limiter, request, tokens, now_ns)
          : kind == 2 ? ration_limiter_reset(t->limiter, request, now_ns)
                      : ration_limiter_block_until(t->limiter, request, until_ns, now_ns);
    for (unsigned i = 0; i <= t->choice_count && want == RATION_OK; i++) {
        const struct ration_limit *limit;
        struct ration_bucket *bucket = bucket_of(t, request->key, i, &limit);

        if (!is_wide && !applies(t, request, i))
            continue;
        if (kind == 0)
            ration_bucket_refund(bucket, limit, tokens, now_ns);
        else if (kind == 1 && tokens > 0)
            ration_bucket_charge(bucket, limit, tokens, now_ns);
        else if (kind == 2)
            (void)ration_bucket_init(bucket, limit, now_ns);
        else if (kind == 3)
            (void)ration_bucket_block_until(bucket, limit, until_ns);
    }
    return got == want;
}

static bool run_step(struct choice_trace *t)
{
    struct choice_request request = {(unsigned)trace_random_below(&t->random, t->key_count),
                                     (int)trace_random_below(&t->random, t->choice_count + 1) - 1};
    uint64_t tokens = trace_random_below(&t->random, 4);
    unsigned call = (unsigned)trace_random_below(&t->random, 24);

    if (trace_random_below(&t->random, 3) == 0)
        t->clock.ns += trace_random_sized(&t->random, t->limits[0].period_ns);
    return call < 4 ? run_update(t, &request, tokens, call) : run_take(t, &request, tokens);
}

uint64_t limiter_choice_run(const struct limiter_trace_options *options,
                            struct limiter_trace_count *count)
{
    static struct choice_trace trace;
    struct choice_trace *t = &trace;
    uint64_t failed_step = 0;

    begin(t, options);
    for (uint64_t step = 1; step <= 300 && failed_step == 0; step++) {
        count->decisions++;
        if (!run_step(t))
            failed_step = step;
    }
    if (failed_step != 0 && !options->is_quiet) {
        printf("model broken: choice trace, seed %" PRIu64 ", step %" PRIu64 "\n", options->seed,
               failed_step);
        for (unsigned i = 0; i <= ALWAYS; i++) {
            char text[RATION_LIMIT_TEXT_SIZE];

            ration_limit_print(&t->limits[i], text, sizeof(text));
            if (i < t->choice_count || i == ALWAYS)
                printf("  %s %s\n", i == ALWAYS ? "always" : "choice", text);
        }
    }
    count->traces++;
    ration_limiter_free(t->limiter);
    return failed_step;
}
