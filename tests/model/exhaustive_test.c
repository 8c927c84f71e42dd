/*
 * Every short sequence of requests over a small domain, against the model.
 *
 * Tokens 1 to 4, periods of a few ns, bursts 1 to 4; every sequence of costs 1 to 3 and steps in
 * time from -2 to 3 ns. At each of its points also cost 0, one token more than the burst, and the
 * largest cost, which must change nothing; and every denial is tried again at its reported moment.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "model.h"
#include "trace.h"

#ifdef RATION_TESTS_SHORT
#define DEPTH 3
#else
#define DEPTH 5
#endif

#define WORDS_MAX 6
#define START_NS  7

static const int steps_ns[] = {0, 1, 2, 3, -2};
static const uint64_t periods_ns[] = {1, 2, 3, 4, 5, 7, 12};

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

struct point {
    _Alignas(16) uint64_t state[WORDS_MAX];
    uint64_t now_ns;
    struct model *model;
};

static struct ration_limit limit;
static const struct subject *subject;
static size_t state_size;
static struct model models[DEPTH + 1];
static struct {
    uint64_t cost;
    uint64_t now_ns;
} path[DEPTH + 1];
static uint64_t decisions;
static uint64_t failures;

static void report(const char *what, unsigned depth, const struct ration_decision *want,
                   const struct ration_decision *got)
{
    char text[RATION_LIMIT_TEXT_SIZE];

    if (failures++ >= 10)
        return;
    ration_limit_print(&limit, text, sizeof text);
    printf("%s: limit %s\n", what, text);
    for (unsigned i = 0; i <= depth; i++)
        printf("  take %" PRIu64 " at %" PRIu64 "\n", path[i].cost, path[i].now_ns);
    trace_print_decision("expected", want);
    trace_print_decision("got", got);
}

static struct ration_decision take(uint64_t *state, uint64_t cost, uint64_t now_ns)
{
    decisions++;
    return subject->take(state, &limit, cost, now_ns);
}

static void check_retry(const struct point *p, unsigned depth, uint64_t cost,
                        const struct ration_decision *got)
{
    _Alignas(16) uint64_t copy[WORDS_MAX];
    uint64_t moment_ns = p->now_ns + got->retry_after_ns;

    memcpy(copy, p->state, sizeof copy);
    if (take(copy, cost, moment_ns - 1).verdict == RATION_ALLOW)
        report("R4: passes too early", depth, got, got);
    if (take(copy, cost, moment_ns).verdict != RATION_ALLOW)
        report("R4: denied at the reported moment", depth, got, got);
}

/* One take at a point, compared; p becomes the point after it. */
static void check_take(struct point *p, unsigned depth, uint64_t cost)
{
    _Alignas(16) uint64_t before[WORDS_MAX];

    path[depth].cost = cost;
    path[depth].now_ns = p->now_ns;
    memcpy(before, p->state, sizeof before);

    struct ration_decision got = take(p->state, cost, p->now_ns);
    struct ration_decision want = model_take(p->model, cost, p->now_ns);

    if (!trace_decisions_equal(&got, &want))
        report("model", depth, &want, &got);
    if ((got.verdict != RATION_ALLOW || cost == 0) && memcmp(before, p->state, state_size) != 0)
        report("R2, R6: bytes changed", depth, &want, &got);
    if (got.verdict == RATION_DENY)
        check_retry(p, depth, cost, &got);
}

static void walk(const struct point *from, unsigned depth)
{
    for (size_t i = 0; i < COUNT_OF(steps_ns); i++) {
        struct point p = *from;

        p.now_ns = from->now_ns + (uint64_t)(int64_t)steps_ns[i];
        if ((int64_t)p.now_ns < 0)
            continue;
        p.model = &models[depth];
        model_copy(p.model, from->model);
        check_take(&p, depth, 0);
        check_take(&p, depth, limit.burst + limit.reserve_burst + 1);
        check_take(&p, depth, UINT64_MAX);
        for (uint64_t cost = 1; cost <= 3 && cost <= limit.burst + limit.reserve_burst; cost++) {
            struct point next = p;

            model_copy(next.model, from->model);
            check_take(&next, depth, cost);
            if (depth + 1 < DEPTH)
                walk(&next, depth + 1);
        }
    }
}

static void walk_limit(const struct ration_limit_spec *spec)
{
    static struct model root;
    struct point p = {.now_ns = START_NS, .model = &root};

    if (ration_limit_make(spec, &limit, NULL) != RATION_OK)
        return;
    subject = subject_of(&limit);
    state_size = subject->size(&limit);
    model_init(&root, &limit);
    if (limit.start != RATION_START_FULL) {
        subject->start(p.state, &limit, START_NS);
        model_start(&root, START_NS);
    }
    walk(&p, 0);
}

/* All limits of one algorithm. Windows and logs have no burst of their own. */
static void walk_algorithm(enum ration_algorithm algorithm, enum ration_refill refill)
{
    bool has_burst = algorithm <= RATION_LEAKY_QUEUE;
    struct ration_limit_spec spec = {.algorithm = algorithm, .refill = refill};

    for (spec.tokens = 1; spec.tokens <= 4; spec.tokens++) {
        for (size_t i = 0; i < COUNT_OF(periods_ns); i++) {
            spec.period_ns = periods_ns[i];
            for (spec.burst = has_burst; spec.burst <= (has_burst ? 4 : 0); spec.burst++) {
                spec.start = spec.burst == 3 ? RATION_START_EMPTY : RATION_START_FULL;
                if (algorithm == RATION_BURST_RESERVE) {
                    spec.reserve_tokens = 1;
                    spec.reserve_period_ns = 2 * spec.period_ns / spec.tokens + 1;
                    spec.reserve_burst = 1 + spec.period_ns % 3;
                }
                walk_limit(&spec);
            }
        }
    }
}

int main(void)
{
    walk_algorithm(RATION_TOKEN_BUCKET, RATION_REFILL_CONTINUOUS);
    walk_algorithm(RATION_TOKEN_BUCKET, RATION_REFILL_INTERVAL);
    walk_algorithm(RATION_BURST_RESERVE, RATION_REFILL_CONTINUOUS);
    walk_algorithm(RATION_LEAKY_QUEUE, RATION_REFILL_CONTINUOUS);
    walk_algorithm(RATION_FIXED_WINDOW, RATION_REFILL_CONTINUOUS);
    walk_algorithm(RATION_SLIDING_WINDOW, RATION_REFILL_CONTINUOUS);
    walk_algorithm(RATION_SLIDING_LOG, RATION_REFILL_CONTINUOUS);
    printf("decisions: %" PRIu64 "\n", decisions);
    if (failures > 0)
        printf("failures: %" PRIu64 "\n", failures);
    return failures > 0;
}
