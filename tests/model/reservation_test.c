/*
 * R1 for buckets with reservations that are settled or cancelled.
 *
 *     reservation_test [SEED [TRACES]]
 *
 * A caller who reserved goes at its ready time and counts there, with the tokens that it really used.
 * That is checked over the whole of each history, by the limit as it was written. Reservations
 * that are still open count whole.
 *
 * In a queue callers must go one token's time apart.
 *
 * In between the bucket is set, started again, blocked, and given refunds of what a reservation will not
 * use. What was admitted before a set or a start does not count any more, and must not come back. Of
 * a refund nothing is subtracted: the reservation uses that much less. Before a block ends nobody goes.
 *
 * Times run forward, nothing is forced. The negative controls give back too much, each for one
 * reason, and must be caught.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bucket/returns.h"
#include "history.h"
#include "model.h"
#include "trace.h"

#ifdef RATION_TESTS_SHORT
#define TRACES_DEFAULT 30000
#else
#define TRACES_DEFAULT 3000000
#endif

#define PLACES_MAX 24

/* One admission: a take, or a reservation until it is ended. */
struct place {
    struct ration_bucket_reservation reservation;
    uint64_t taken_at_ns;
    uint64_t ready_at_ns;
    uint64_t cost_tokens;
    uint64_t used_tokens;
    uint64_t refunded_tokens;
    uint64_t ended_at_ns;
    bool is_open;
    bool is_forgiven; /* the bucket was set or started since */
};

typedef void settle_function(struct ration_bucket *bucket, const struct ration_limit *limit,
                             struct ration_bucket_reservation *reservation, uint64_t used_tokens,
                             uint64_t now_ns);

struct line {
    settle_function *settle;
    bool is_whole_ns; /* only limits whose token time is whole nanoseconds */
    bool is_gcra;     /* only continuous token buckets */
    bool has_updates; /* sets, starts, blocks and refunds in between */
    struct ration_limit limit;
    struct ration_bucket bucket;
    uint64_t now_ns;
    uint64_t blocked_until_ns;
    bool is_block_broken;
    unsigned count;
    struct place places[PLACES_MAX];
    uint64_t decisions;
};

struct event {
    uint64_t at_ns;
    model_units tokens;
};

static void settle(struct ration_bucket *bucket, const struct ration_limit *limit,
                   struct ration_bucket_reservation *reservation, uint64_t used_tokens,
                   uint64_t now_ns)
{
    ration_bucket_settle(bucket, limit, reservation, used_tokens, now_ns);
}

/* The control: ignores the turns promised to other callers. */
static void settle_all(struct ration_bucket *bucket, const struct ration_limit *limit,
                       struct ration_bucket_reservation *reservation, uint64_t used_tokens,
                       uint64_t now_ns)
{
    ration_bucket_refund(bucket, limit, reservation->cost_tokens - used_tokens, now_ns);
}

/* Another: as if no caller waited, all unused tokens come back, also those refilled meanwhile. */
static void settle_paid(struct ration_bucket *bucket, const struct ration_limit *limit,
                        struct ration_bucket_reservation *reservation, uint64_t used_tokens,
                        uint64_t now_ns)
{
    struct ration_decision d = ration_bucket_peek(bucket, limit, 0, now_ns);

    if (d.reset_after_ns <= limit->rate.capacity.ns && now_ns >= reservation->ready_at_ns)
        settle_all(bucket, limit, reservation, used_tokens, now_ns);
}

/* Another: tokens returned by others meanwhile are not counted, so its mark counts as current. */
static void settle_uncounted(struct ration_bucket *bucket, const struct ration_limit *limit,
                             struct ration_bucket_reservation *reservation, uint64_t used_tokens,
                             uint64_t now_ns)
{
    reservation->returned =
        ration_returns_count((union ration_state){.words = {bucket->words[0], bucket->words[1]}},
                             ration_returns_spare_of(limit));
    ration_bucket_settle(bucket, limit, reservation, used_tokens, now_ns);
}

/* Another: a set or a refund counts as if other reservations had returned the tokens. */
static void settle_updated(struct ration_bucket *bucket, const struct ration_limit *limit,
                           struct ration_bucket_reservation *reservation, uint64_t used_tokens,
                           uint64_t now_ns)
{
    uint64_t count =
        ration_returns_count((union ration_state){.words = {bucket->words[0], bucket->words[1]}},
                             ration_returns_spare_of(limit));

    reservation->returned =
        (reservation->returned & ~RATION_UPDATES_MAX) | (count & RATION_UPDATES_MAX);
    ration_bucket_settle(bucket, limit, reservation, used_tokens, now_ns);
}

static int by_time(const void *a, const void *b)
{
    const struct event *x = a;
    const struct event *y = b;

    return (x->at_ns > y->at_ns) - (x->at_ns < y->at_ns);
}

static unsigned events_of(const struct line *l, struct event *out_events)
{
    unsigned count = 0;

    for (unsigned i = 0; i < l->count; i++)
        if (!l->places[i].is_forgiven)
            out_events[count++] =
                (struct event){l->places[i].ready_at_ns, (model_units)l->places[i].used_tokens};
    qsort(out_events, count, sizeof out_events[0], by_time);
    return count;
}

/* The most that an interval of t may hold, times the period. */
static model_units most_within(const struct ration_limit *limit, uint64_t t)
{
    model_units burst = (model_units)limit->burst * (model_units)limit->period_ns;
    model_units intervals = (model_units)(t / limit->period_ns + 1) * (model_units)limit->period_ns;

    if (limit->refill == RATION_REFILL_INTERVAL)
        return burst + (model_units)limit->tokens * intervals;
    return burst + (model_units)limit->tokens * (model_units)t;
}

/* In a queue each caller goes one token's time after each token before it. */
static bool keeps_distance(const struct line *l)
{
    struct event events[PLACES_MAX];
    unsigned count = events_of(l, events);
    model_units period = (model_units)l->limit.period_ns;
    uint64_t grain_ns = l->limit.rate.token.frac > 0; /* moments are reported in whole ns */
    const struct event *before = NULL;

    for (unsigned i = 0; i < count; i++) {
        if (events[i].tokens == 0)
            continue;
        if (before != NULL && (model_units)l->limit.tokens *
                                      (model_units)(events[i].at_ns - before->at_ns + grain_ns) <
                                  before->tokens * period)
            return false;
        before = &events[i];
    }
    return true;
}

static bool has_windows(const struct ration_limit *limit)
{
    return limit->algorithm == RATION_FIXED_WINDOW || limit->algorithm == RATION_SLIDING_WINDOW;
}

static bool keeps_windows(const struct line *l)
{
    struct event events[PLACES_MAX];
    unsigned count = events_of(l, events);
    struct history history;

    history_init(&history, &l->limit);
    for (unsigned i = 0; i < count; i++)
        if (events[i].tokens > 0 &&
            !history_admit(&history, (uint64_t)events[i].tokens, events[i].at_ns))
            return false;
    return true;
}

/* Every closed interval between two events holds what it may. */
static bool keeps_contract(const struct line *l)
{
    struct event events[PLACES_MAX];
    unsigned count = events_of(l, events);
    model_units period = (model_units)l->limit.period_ns;

    if (l->is_block_broken)
        return false;
    if (has_windows(&l->limit))
        return keeps_windows(l);
    if (l->limit.algorithm == RATION_LEAKY_QUEUE)
        return keeps_distance(l);
    for (unsigned first = 0; first < count; first++) {
        model_units sum = 0;

        if (first > 0 && events[first - 1].at_ns == events[first].at_ns)
            continue;
        for (unsigned last = first; last < count; last++) {
            uint64_t t = events[last].at_ns - events[first].at_ns;

            sum += events[last].tokens * period;
            if (last + 1 < count && events[last + 1].at_ns == events[last].at_ns)
                continue;
            if (sum > most_within(&l->limit, t))
                return false;
        }
    }
    return true;
}

static void print_line(const struct line *l)
{
    char text[RATION_LIMIT_TEXT_SIZE];

    ration_limit_print(&l->limit, text, sizeof text);
    printf("  limit %s\n", text);
    for (unsigned i = 0; i < l->count; i++) {
        const struct place *p = &l->places[i];

        printf("  %c: at %" PRIu64 " takes %" PRIu64 ", goes at %" PRIu64, (char)('A' + i),
               p->taken_at_ns, p->cost_tokens, p->ready_at_ns);
        if (p->used_tokens < p->cost_tokens)
            printf(", ended at %" PRIu64 " with %" PRIu64, p->ended_at_ns, p->used_tokens);
        printf("%s, refunded %" PRIu64, p->is_forgiven ? ", forgiven" : "", p->refunded_tokens);
        printf("\n");
    }
}

static void take_place(struct line *l, struct trace_random *random)
{
    uint64_t cost = 1 + trace_random_below(random, l->limit.burst);
    uint64_t wait_ns = trace_random_below(random, 4) * l->limit.rate.capacity.ns;
    struct place *p = &l->places[l->count];
    struct ration_decision d =
        ration_bucket_reserve(&l->bucket, &l->limit, cost, wait_ns, l->now_ns, &p->reservation);

    l->decisions++;
    if (d.verdict != RATION_ALLOW)
        return;
    p->taken_at_ns = l->now_ns;
    p->ready_at_ns = p->reservation.ready_at_ns;
    p->cost_tokens = cost;
    p->used_tokens = cost;
    p->refunded_tokens = 0;
    p->is_open = true;
    p->is_forgiven = false;
    l->is_block_broken |= p->ready_at_ns < l->blocked_until_ns;
    l->count++;
}

/* The tokens of a reservation whose turn has come that are not refilled yet. */
static uint64_t outstanding(const struct line *l, const struct place *p)
{
    uint64_t passed_ns = l->now_ns - p->ready_at_ns;
    uint64_t period_ns = l->limit.period_ns;
    uint64_t paid = (passed_ns * l->limit.tokens + period_ns - 1) / period_ns;

    if (has_windows(&l->limit))
        paid = passed_ns == 0 ? 0 : p->cost_tokens;
    else if (l->limit.refill == RATION_REFILL_INTERVAL)
        paid = passed_ns == 0 ? 0 : (passed_ns / period_ns + 1) * l->limit.tokens;
    return p->cost_tokens > paid ? p->cost_tokens - paid : 0;
}

/* Refunds some of what a reservation holds, which then uses so much less. */
static void refund_place(struct line *l, struct trace_random *random)
{
    struct place *p = &l->places[trace_random_below(random, l->count)];
    bool is_waited = l->limit.algorithm == RATION_LEAKY_QUEUE;
    uint64_t most;

    for (unsigned i = 0; i < l->count; i++)
        is_waited |= l->places[i].ready_at_ns > l->now_ns;
    if (is_waited || !p->is_open || p->is_forgiven)
        return;
    most = outstanding(l, p);
    most = most > p->refunded_tokens ? most - p->refunded_tokens : 0;
    most = most < p->used_tokens ? most : p->used_tokens;
    most = trace_random_below(random, most + 1);
    ration_bucket_refund(&l->bucket, &l->limit, most, l->now_ns);
    p->refunded_tokens += most;
    p->used_tokens -= most;
    if (most > 0)
        l->blocked_until_ns = 0;
}

static void update_bucket(struct line *l, struct trace_random *random)
{
    uint64_t until_ns = l->now_ns + trace_random_below(random, 2 * l->limit.period_ns);
    uint64_t choice = trace_random_below(random, 4);

    if (choice == 0) {
        if (ration_bucket_block_until(&l->bucket, &l->limit, until_ns) == RATION_OK &&
            until_ns > l->blocked_until_ns)
            l->blocked_until_ns = until_ns;
        return;
    }
    if (choice == 1 && l->count > 0) {
        refund_place(l, random);
        return;
    }
    if (choice == 2)
        ration_bucket_init(&l->bucket, &l->limit, l->now_ns);
    else
        ration_bucket_set(&l->bucket, &l->limit, trace_random_below(random, l->limit.burst + 1),
                          l->now_ns);
    for (unsigned i = 0; i < l->count; i++)
        l->places[i].is_forgiven = true;
    l->blocked_until_ns = 0;
}

static void end_place(struct line *l, struct trace_random *random)
{
    struct place *p = &l->places[trace_random_below(random, l->count)];

    if (!p->is_open)
        return;
    p->is_open = false;
    p->ended_at_ns = l->now_ns;
    p->used_tokens =
        trace_random_below(random, 2) ? 0 : trace_random_below(random, p->used_tokens + 1);
    l->settle(&l->bucket, &l->limit, &p->reservation, p->used_tokens, l->now_ns);
}

static struct ration_limit small_limit(struct trace_random *random)
{
    struct ration_limit limit;
    struct ration_limit_spec spec = {0};

    do {
        spec.tokens = trace_random_below(random, 3) ? 1 + trace_random_below(random, 5) : 1;
        spec.period_ns = 1 + trace_random_below(random, 30);
        spec.burst = 1 + trace_random_below(random, 5);
        spec.refill =
            trace_random_below(random, 4) ? RATION_REFILL_CONTINUOUS : RATION_REFILL_INTERVAL;
        spec.algorithm = trace_random_below(random, 4) ? RATION_TOKEN_BUCKET : RATION_LEAKY_QUEUE;
        if (trace_random_below(random, 8) == 0) {
            spec.algorithm =
                trace_random_below(random, 2) ? RATION_FIXED_WINDOW : RATION_SLIDING_WINDOW;
            spec.refill = RATION_REFILL_CONTINUOUS;
            spec.burst = 0;
        }
    } while (ration_limit_make(&spec, &limit, NULL) != RATION_OK);
    return limit;
}

static void run_line(struct line *l, uint64_t seed, unsigned steps)
{
    struct trace_random random = {seed};
    struct line fresh = {.settle = l->settle,
                         .is_whole_ns = l->is_whole_ns,
                         .is_gcra = l->is_gcra,
                         .has_updates = l->has_updates,
                         .decisions = l->decisions};

    *l = fresh;
    do {
        l->limit = small_limit(&random);
    } while ((l->is_whole_ns && l->limit.rate.token.frac > 0) ||
             (l->is_gcra && !ration_algorithm_is_gcra(&l->limit)));
    for (unsigned i = 0; i < steps; i++) {
        if (trace_random_below(&random, 2))
            l->now_ns += trace_random_below(&random, 2 * l->limit.rate.token.ns + 2);
        if (l->has_updates && trace_random_below(&random, 4) == 0)
            update_bucket(l, &random);
        else if (l->count == 0 || trace_random_below(&random, 3))
            take_place(l, &random);
        else
            end_place(l, &random);
    }
}

/* Traces of growing length, so that the first failure is a short one. Its steps, or 0. */
static unsigned first_failure(struct line *l, uint64_t seed, uint64_t traces)
{
    struct trace_random seeds = {seed};

    for (uint64_t i = 0; i < traces; i++) {
        unsigned steps = 2 + (unsigned)(i * (PLACES_MAX - 2) / traces);

        run_line(l, trace_random_next(&seeds), steps);
        if (!keeps_contract(l))
            return steps;
    }
    return 0;
}

static bool check_control(const char *name, settle_function *settle_wrongly, bool has_updates,
                          uint64_t seed)
{
    static struct line line;
    unsigned steps;

    line = (struct line){
        .settle = settle_wrongly, .is_whole_ns = true, .is_gcra = true, .has_updates = has_updates};
    steps = first_failure(&line, seed, 1000000);
    printf("control '%s': %s %u\n", name, steps ? "caught at step" : "NOT caught", steps);
    return steps != 0;
}

int main(int argc, char **argv)
{
    static struct line line = {.settle = settle};
    uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 0) : 0;
    uint64_t traces = argc > 2 ? strtoull(argv[2], NULL, 0) : TRACES_DEFAULT;

    if (seed == 0)
        seed = (uint64_t)time(NULL);
    printf("seed %" PRIu64 "\n", seed);
    if (!check_control("gives back what others were promised", settle_all, false, seed) ||
        !check_control("gives back what time has paid back", settle_paid, false, seed) ||
        !check_control("does not count what others returned", settle_uncounted, false, seed) ||
        !check_control("gives back what a set or a refund has", settle_updated, true, seed))
        return 1;
    for (int i = 0; i < 2; i++) {
        line.has_updates = i == 1;
        if (first_failure(&line, seed + (uint64_t)i, traces / 2) != 0) {
            printf("R1 broken, or a block\n");
            print_line(&line);
            return 1;
        }
    }
    printf("%" PRIu64 " histories keep R1\ndecisions: %" PRIu64 "\n", traces, line.decisions);
    return 0;
}
