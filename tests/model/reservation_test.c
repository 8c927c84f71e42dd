/*
 * R1 for token buckets with reservations that are settled or cancelled.
 *
 *     reservation_test [SEED [TRACES]]
 *
 * Whoever reserved goes at its ready time and counts there, with the tokens it really used. Two
 * readings of R1 are checked over the whole of each history, by the limit as it was written:
 *
 *     net      what was ended before its ready time never counts; what comes back later counts
 *              as used when it went, and as given back when it was ended
 *     strict   what came back never counts, however late it came back
 *
 * Times run forward, nothing is refunded, forced or blocked.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "model.h"
#include "trace.h"

#ifdef RATION_SANITIZED
#define TRACES_DEFAULT 30000
#else
#define TRACES_DEFAULT 3000000
#endif

#define PLACES_MAX 24

enum reading { NET, STRICT };

/* One admission: a take, or a reservation until it is ended. */
struct place {
    struct ration_reservation reservation;
    uint64_t taken_at_ns;
    uint64_t ready_at_ns;
    uint64_t cost_tokens;
    uint64_t used_tokens;
    uint64_t ended_at_ns;
    bool is_open;
};

struct line {
    struct ration_limit limit;
    struct ration_bucket bucket;
    uint64_t now_ns;
    unsigned count;
    struct place places[PLACES_MAX];
    uint64_t decisions;
};

struct event {
    uint64_t at_ns;
    model_units tokens; /* below zero: given back */
};

static int by_time(const void *a, const void *b)
{
    const struct event *x = a;
    const struct event *y = b;

    return (x->at_ns > y->at_ns) - (x->at_ns < y->at_ns);
}

static unsigned events_of(const struct line *l, enum reading reading, struct event *out_events)
{
    unsigned count = 0;

    for (unsigned i = 0; i < l->count; i++) {
        const struct place *p = &l->places[i];
        uint64_t unused = p->cost_tokens - p->used_tokens;
        bool is_late = reading == NET && unused > 0 && p->ended_at_ns >= p->ready_at_ns;

        out_events[count++] = (struct event){
            p->ready_at_ns, (model_units)(is_late ? p->cost_tokens : p->used_tokens)};
        if (is_late)
            out_events[count++] = (struct event){p->ended_at_ns, -(model_units)unused};
    }
    qsort(out_events, count, sizeof out_events[0], by_time);
    return count;
}

/* Every closed interval between two events holds at most burst + tokens * t / period. */
static bool keeps_contract(const struct line *l, enum reading reading)
{
    struct event events[2 * PLACES_MAX];
    unsigned count = events_of(l, reading, events);
    model_units period = (model_units)l->limit.period_ns;

    for (unsigned first = 0; first < count; first++) {
        model_units sum = 0;

        if (first > 0 && events[first - 1].at_ns == events[first].at_ns)
            continue;
        for (unsigned last = first; last < count; last++) {
            uint64_t t = events[last].at_ns - events[first].at_ns;

            sum += events[last].tokens * period;
            if (last + 1 < count && events[last + 1].at_ns == events[last].at_ns)
                continue;
            if (sum > (model_units)l->limit.burst * period +
                          (model_units)l->limit.tokens * (model_units)t)
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
    p->is_open = true;
    l->count++;
}

static void end_place(struct line *l, struct trace_random *random)
{
    struct place *p = &l->places[trace_random_below(random, l->count)];

    if (!p->is_open)
        return;
    p->is_open = false;
    p->ended_at_ns = l->now_ns;
    p->used_tokens =
        trace_random_below(random, 2) ? 0 : trace_random_below(random, p->cost_tokens + 1);
    ration_bucket_settle(&l->bucket, &l->limit, &p->reservation, p->used_tokens, l->now_ns);
}

static struct ration_limit small_limit(struct trace_random *random)
{
    struct ration_limit limit;
    struct ration_limit_spec spec = {0};

    do {
        spec.tokens = 1 + trace_random_below(random, 5);
        spec.period_ns = 1 + trace_random_below(random, 30);
        spec.burst = 1 + trace_random_below(random, 5);
    } while (ration_limit_make(&spec, &limit, NULL) != RATION_OK);
    return limit;
}

static void run_line(struct line *l, uint64_t seed, unsigned steps)
{
    struct trace_random random = {seed};
    uint64_t decisions = l->decisions;

    memset(l, 0, sizeof *l);
    l->decisions = decisions;
    l->limit = small_limit(&random);
    if (trace_random_below(&random, 3) == 0) /* on whole nanoseconds */
        ration_limit_per(1, l->limit.period_ns, &l->limit);
    for (unsigned i = 0; i < steps; i++) {
        if (trace_random_below(&random, 2))
            l->now_ns += trace_random_below(&random, 2 * l->limit.rate.token.ns + 2);
        if (l->count == 0 || trace_random_below(&random, 3))
            take_place(l, &random);
        else
            end_place(l, &random);
    }
}

/* Traces of growing length, so that the first failure is a short one. */
static bool check_reading(enum reading reading, const char *name, uint64_t seed, uint64_t traces)
{
    struct trace_random seeds = {seed};
    static struct line line;

    for (uint64_t i = 0; i < traces; i++) {
        unsigned steps = 2 + (unsigned)(i * (PLACES_MAX - 2) / traces);
        uint64_t line_seed = trace_random_next(&seeds);

        run_line(&line, line_seed, steps);
        if (keeps_contract(&line, reading))
            continue;
        printf("R1 broken (%s): seed %" PRIu64 ", %u steps\n", name, line_seed, steps);
        print_line(&line);
        return false;
    }
    printf("%s: %" PRIu64 " histories keep R1\ndecisions: %" PRIu64 "\n", name, traces,
           line.decisions);
    return true;
}

int main(int argc, char **argv)
{
    uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 0) : 0;
    uint64_t traces = argc > 2 ? strtoull(argv[2], NULL, 0) : TRACES_DEFAULT;

    if (seed == 0)
        seed = (uint64_t)time(NULL);
    printf("seed %" PRIu64 "\n", seed);

    bool net = check_reading(NET, "net", seed, traces);
    bool strict = check_reading(STRICT, "strict", seed, traces);
    return net && strict ? 0 : 1;
}
