/*
 * R1 for limiters with reservations that are settled or cancelled, in any order.
 *
 *     reservation_limiter_test [SEED [TRACES]]
 *
 * One to three limits of every algorithm, two keys. A caller who reserved goes at its ready time and
 * counts there with the tokens that it really used, under each limit; what is still open counts
 * whole. There is no allowance for what was given back. Times run forward.
 *
 * In between keys are reset, blocked, and given refunds of what a reservation will not use; see
 * reservation_test.c.
 *
 * Also: a reservation that is cancelled without a later caller leaves every bucket as it was.
 *
 * The negative controls return too many tokens, each for one reason, and must be caught.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "history.h"
#include "ration/limiter.h"
#include "trace.h"

#ifdef RATION_TESTS_SHORT
#define TRACES_DEFAULT 3000
#else
#define TRACES_DEFAULT 60000
#endif

#define PLACES_MAX 24
#define RULES_MAX  3
#define KEYS       2

struct place {
    struct ration_reservation reservation;
    unsigned key;
    uint64_t ready_at_ns;
    uint64_t cost_tokens;
    uint64_t used_tokens;
    uint64_t refunded_tokens;
    uint64_t taken_at_ns, ended_at_ns;
    bool is_open;
    bool is_forgiven; /* its key was reset since */
};

struct line {
    bool returns_all;   /* control: what was not used is refunded */
    bool returns_newer; /* control: the reservation is made to look as if it was just written */
    bool returns_reset; /* control: as if nobody had refunded or reset since */
    bool has_updates;   /* resets, blocks and refunds in between */
    struct ration_manual_clock clock;
    uint64_t blocked_until_ns[KEYS];
    bool is_block_broken;
    struct ration_rule rules[RULES_MAX];
    unsigned rule_count;
    ration_limiter *limiter;
    unsigned count;
    struct place places[PLACES_MAX];
};

static const struct ration_key keys[KEYS] = {{"a", 1}, {"b", 1}};

static struct ration_limit small_limit(struct trace_random *random, bool may_queue)
{
    static const enum ration_algorithm algorithms[] = {
        RATION_TOKEN_BUCKET,   RATION_TOKEN_BUCKET, RATION_BURST_RESERVE, RATION_FIXED_WINDOW,
        RATION_SLIDING_WINDOW, RATION_SLIDING_LOG,  RATION_LEAKY_QUEUE,
    };
    struct ration_limit limit;
    struct ration_limit_spec spec;

    do {
        spec = (struct ration_limit_spec){0};
        spec.algorithm = algorithms[trace_random_below(random, may_queue ? 7 : 6)];
        spec.tokens = 1 + trace_random_below(random, 6);
        spec.period_ns = 1 + trace_random_below(random, 40);
        if (spec.algorithm <= RATION_BURST_RESERVE || spec.algorithm == RATION_LEAKY_QUEUE)
            spec.burst = 1 + trace_random_below(random, 6);
        if (spec.algorithm == RATION_TOKEN_BUCKET && trace_random_below(random, 3) == 0)
            spec.refill = RATION_REFILL_INTERVAL;
        if (spec.algorithm == RATION_BURST_RESERVE) {
            spec.reserve_tokens = 1 + trace_random_below(random, 3);
            spec.reserve_period_ns = 1 + trace_random_below(random, 60);
            spec.reserve_burst = 1 + trace_random_below(random, 6);
        }
    } while (ration_limit_make(&spec, &limit, NULL) != RATION_OK);
    return limit;
}

static void open_line(struct line *l, struct trace_random *random)
{
    struct ration_clock clock = ration_clock_manual(&l->clock);
    bool has_log = false;

    l->count = 0;
    l->is_block_broken = false;
    memset(l->blocked_until_ns, 0, sizeof l->blocked_until_ns);
    ration_clock_manual_set(&l->clock, 1000);
    l->rule_count = 1 + (unsigned)trace_random_below(random, RULES_MAX);
    for (unsigned i = 0; i < l->rule_count; i++) {
        do { /* one log per limiter */
            l->rules[i] = (struct ration_rule){.limit = small_limit(random, l->rule_count == 1)};
        } while (has_log && l->rules[i].limit.algorithm == RATION_SLIDING_LOG);
        has_log |= l->rules[i].limit.algorithm == RATION_SLIDING_LOG;
    }
    if (ration_limiter_create(
            &(struct ration_limiter_options){.struct_size = sizeof(struct ration_limiter_options),
                                             .rules = l->rules,
                                             .rule_count = l->rule_count,
                                             .keys_max = 100,
                                             .clock = &clock},
            &l->limiter, NULL) != RATION_OK)
        abort();
}

static uint64_t largest_cost(const struct line *l)
{
    uint64_t cost = UINT64_MAX;

    for (unsigned i = 0; i < l->rule_count; i++)
        if (l->rules[i].limit.burst < cost)
            cost = l->rules[i].limit.burst;
    return cost;
}

static void take_place(struct line *l, struct trace_random *random)
{
    struct place *p = &l->places[l->count];
    uint64_t wait_ns = trace_random_below(random, 4) * 40;
    struct ration_decision d;

    p->key = trace_random_below(random, 4) == 0;
    p->cost_tokens = p->used_tokens = 1 + trace_random_below(random, largest_cost(l));
    if (ration_limiter_reserve(l->limiter, &keys[p->key], p->cost_tokens, wait_ns, l->clock.ns, &d,
                               &p->reservation) != RATION_OK)
        abort();
    if (d.verdict != RATION_ALLOW)
        return;
    p->ready_at_ns = p->reservation.ready_at_ns;
    p->taken_at_ns = l->clock.ns;
    p->refunded_tokens = 0;
    p->is_open = true;
    p->is_forgiven = false;
    l->is_block_broken |= p->ready_at_ns < l->blocked_until_ns[p->key];
    l->count++;
}

/* Refunds some of what a reservation holds whose turn has just come, and which uses so much less. */
static void refund_place(struct line *l, struct trace_random *random)
{
    struct place *p = &l->places[trace_random_below(random, l->count)];
    bool is_waited = false;
    uint64_t tokens;

    for (unsigned i = 0; i < l->rule_count;
         i++) /* a refund knows no place in a queue, nor which half
                                                    of a burst reserve has paid */
        is_waited |= l->rules[i].limit.algorithm == RATION_LEAKY_QUEUE ||
                     l->rules[i].limit.algorithm == RATION_BURST_RESERVE;
    for (unsigned i = 0; i < l->count; i++)
        is_waited |= l->places[i].ready_at_ns > l->clock.ns;
    if (is_waited || !p->is_open || p->is_forgiven || p->ready_at_ns != l->clock.ns)
        return;
    tokens = trace_random_below(random, p->used_tokens + 1);
    ration_limiter_refund(l->limiter, &keys[p->key], tokens, l->clock.ns);
    p->refunded_tokens += tokens;
    p->used_tokens -= tokens;
    if (tokens > 0)
        l->blocked_until_ns[p->key] = 0;
}

static void update_key(struct line *l, struct trace_random *random)
{
    unsigned key = trace_random_below(random, 4) == 0;
    uint64_t until_ns = l->clock.ns + trace_random_below(random, 80);
    uint64_t choice = trace_random_below(random, 3);

    if (choice == 0) {
        if (ration_limiter_block_until(l->limiter, &keys[key], until_ns, l->clock.ns) ==
                RATION_OK &&
            until_ns > l->blocked_until_ns[key])
            l->blocked_until_ns[key] = until_ns;
    } else if (choice == 1 && l->count > 0) {
        refund_place(l, random);
    } else {
        ration_limiter_reset(l->limiter, &keys[key], l->clock.ns);
        l->blocked_until_ns[key] = 0;
        for (unsigned i = 0; i < l->count; i++)
            l->places[i].is_forgiven |= l->places[i].key == key;
    }
}

static void end_place(struct line *l, struct trace_random *random)
{
    struct place *p = &l->places[trace_random_below(random, l->count)];

    if (!p->is_open)
        return;
    p->is_open = false;
    p->ended_at_ns = l->clock.ns;
    p->used_tokens =
        trace_random_below(random, 2) ? 0 : trace_random_below(random, p->used_tokens + 1);
    if (l->returns_all && l->clock.ns >= p->ready_at_ns) {
        ration_limiter_refund(l->limiter, &keys[p->key], p->cost_tokens - p->used_tokens,
                              l->clock.ns);
        return;
    }
    if (l->returns_newer ||
        l->returns_reset) { /* as if it were just written: nobody has returned anything since */
        struct ration_reservation newer;
        struct ration_decision d;

        ration_limiter_reserve(l->limiter, &keys[p->key], 0, 0, l->clock.ns, &d, &newer);
        for (uint32_t i = 0; i < p->reservation.part_count; i++) {
            if (l->returns_newer)
                p->reservation.parts[i].returned_tokens = newer.parts[i].returned_tokens;
            p->reservation.parts[i].refunded_tokens = newer.parts[i].refunded_tokens;
        }
    }
    ration_limiter_settle(l->limiter, &p->reservation, p->used_tokens, l->clock.ns);
}

/* Without calls in between, a cancelled reservation changes nothing. */
static bool is_undone(const struct line *l, struct trace_random *random)
{
    struct ration_decision before[RULES_MAX], after[RULES_MAX], d;
    uint64_t cost = 1 + trace_random_below(random, largest_cost(l));
    struct ration_reservation reservation;

    memset(before, 0, sizeof before);
    memset(after, 0, sizeof after);
    ration_limiter_peek(l->limiter, &keys[0], cost, l->clock.ns, &d, before);
    ration_limiter_reserve(l->limiter, &keys[0], cost, 400, l->clock.ns, &d, &reservation);
    if (d.verdict != RATION_ALLOW)
        return true;
    ration_limiter_cancel(l->limiter, &reservation, l->clock.ns);
    ration_limiter_peek(l->limiter, &keys[0], cost, l->clock.ns, &d, after);
    return memcmp(before, after, sizeof before) == 0;
}

static int by_time(const void *a, const void *b)
{
    const struct history_entry *x = a;
    const struct history_entry *y = b;

    return (x->at_ns > y->at_ns) - (x->at_ns < y->at_ns);
}

static bool keeps_contract(const struct line *l)
{
    struct history_entry events[PLACES_MAX];

    for (unsigned key = 0; key < KEYS; key++) {
        unsigned count = 0;

        for (unsigned i = 0; i < l->count; i++)
            if (l->places[i].key == key && l->places[i].used_tokens > 0 &&
                !l->places[i].is_forgiven)
                events[count++] =
                    (struct history_entry){l->places[i].ready_at_ns, l->places[i].used_tokens};
        qsort(events, count, sizeof events[0], by_time);
        for (unsigned r = 0; r < l->rule_count; r++) {
            struct history history;

            history_init(&history, &l->rules[r].limit);
            for (unsigned i = 0; i < count; i++)
                if (!history_admit(&history, events[i].tokens, events[i].at_ns))
                    return false;
        }
    }
    return true;
}

static void print_line(const struct line *l)
{
    char text[RATION_LIMIT_TEXT_SIZE];

    for (unsigned i = 0; i < l->rule_count; i++) {
        ration_limit_print(&l->rules[i].limit, text, sizeof text);
        printf("  limit %s\n", text);
    }
    for (unsigned i = 0; i < l->count; i++) {
        const struct place *p = &l->places[i];

        printf("  key %u: at %" PRIu64 " takes %" PRIu64 ", goes at %" PRIu64, p->key,
               p->taken_at_ns, p->cost_tokens, p->ready_at_ns);
        if (!p->is_open)
            printf(", ended at %" PRIu64 " with %" PRIu64, p->ended_at_ns, p->used_tokens);
        printf("%s, refunded %" PRIu64 "\n", p->is_forgiven ? ", forgiven" : "",
               p->refunded_tokens);
    }
}

/* False if a check fails. */
static bool run_line(struct line *l, uint64_t seed, unsigned steps)
{
    struct trace_random random = {seed};
    bool holds = true;

    open_line(l, &random);
    for (unsigned i = 0; i < steps && holds; i++) {
        if (trace_random_below(&random, 2))
            ration_clock_manual_set(&l->clock, l->clock.ns + trace_random_below(&random, 30));
        if (l->has_updates && trace_random_below(&random, 4) == 0)
            update_key(l, &random);
        else if (!l->returns_all && !l->returns_newer && !l->returns_reset &&
                 trace_random_below(&random, 8) == 0)
            holds = is_undone(l, &random);
        else if (l->count == 0 || trace_random_below(&random, 3))
            take_place(l, &random);
        else
            end_place(l, &random);
    }
    holds = holds && !l->is_block_broken && keeps_contract(l);
    ration_limiter_free(l->limiter);
    return holds;
}

/* Traces of growing length, so that the first failure is a short one. Its steps, or 0. */
static unsigned first_failure(struct line *l, uint64_t seed, uint64_t traces)
{
    struct trace_random seeds = {seed};

    for (uint64_t i = 0; i < traces; i++) {
        unsigned steps = 2 + (unsigned)(i * (PLACES_MAX - 2) / traces);

        if (!run_line(l, trace_random_next(&seeds), steps))
            return steps;
    }
    return 0;
}

static bool check_control(const char *name, struct line control, uint64_t seed)
{
    static struct line line;
    unsigned steps;

    line = control;
    steps = first_failure(&line, seed, 20000);
    printf("control '%s': %s %u\n", name, steps ? "caught at step" : "NOT caught", steps);
    return steps != 0;
}

int main(int argc, char **argv)
{
    static struct line line;
    uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 0) : 0;
    uint64_t traces = argc > 2 ? strtoull(argv[2], NULL, 0) : TRACES_DEFAULT;

    if (seed == 0)
        seed = (uint64_t)time(NULL);
    printf("seed %" PRIu64 "\n", seed);
    if (!check_control("refunds what was not used", (struct line){.returns_all = true}, seed) ||
        !check_control("does not count what others returned", (struct line){.returns_newer = true},
                       seed) ||
        !check_control("gives back what a reset or a refund has",
                       (struct line){.returns_reset = true, .has_updates = true}, seed))
        return 1;
    for (int i = 0; i < 2; i++) {
        line.has_updates = i == 1;
        if (first_failure(&line, seed + (uint64_t)i, traces / 2) != 0) {
            printf("R1 or a block broken, or a cancelled reservation left something\n");
            print_line(&line);
            return 1;
        }
    }
    printf("decisions: %" PRIu64 " histories keep R1\n", traces);
    return 0;
}
