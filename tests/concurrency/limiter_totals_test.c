/*
 * Many threads, keys and limits while the clock does not advance: the number admitted is exact to the token, denials
 * leave no trace, and the counters equal what the callers saw. Then many threads on one key with the real clock.
 */
#include <inttypes.h>
#include <sched.h>
#include <string.h>

#include "base/random.h"
#include "support/limiter_arena.h"
#include "support/unit.h"

#define THREAD_COUNT 8
#define KEY_COUNT    64
#define TRIES        (400 / THREADS_SHARE * KEY_COUNT) /* of each thread */
#define RUNS         10
#define NOW_NS       UINT64_C(1000000000000)

static uint64_t seed;

/* The results of one thread. */
struct account {
    _Alignas(THREADS_LINE_BYTES) uint64_t tokens[KEY_COUNT]; /* admitted */
    uint64_t allowed_count;
    uint64_t denied_counts[RATION_CALL_RULES_MAX];
    uint64_t never_counts[RATION_CALL_RULES_MAX];
};

struct crowd {
    const char *rules[ARENA_LIMITERS_MAX][ARENA_RULES_MAX];
    uint64_t bursts[ARENA_LIMITERS_MAX][ARENA_RULES_MAX]; /* of the rules; 0: no rule */
    uint64_t cost_max;
    bool is_stack;
    struct arena arena;
    struct spin_barrier barrier;
    struct account accounts[THREAD_COUNT];
    uint64_t allowed_count; /* of all runs */
};

static ration_status take(struct crowd *crowd, uint64_t number, uint64_t cost_tokens,
                          struct ration_decision *decision, struct ration_decision *details)
{
    struct ration_key key = {&number, sizeof(number)};

    if (crowd->is_stack)
        return ration_stack_take(crowd->arena.stack, &key, cost_tokens, NOW_NS, decision, details);
    return ration_limiter_take(crowd->arena.limiters[0], &key, cost_tokens, NOW_NS, decision,
                               details);
}

static unsigned rule_count(const struct crowd *crowd)
{
    unsigned count = 0;

    for (unsigned i = 0; i < ARENA_LIMITERS_MAX * ARENA_RULES_MAX; i++)
        count += crowd->rules[i / ARENA_RULES_MAX][i % ARENA_RULES_MAX] != NULL;
    return count;
}

/* A denied take is counted for each limit that denied it, NEVER or not. */
static void record_denied(struct account *account, const struct ration_decision *details,
                          unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        account->denied_counts[i] += details[i].verdict == RATION_DENY;
        account->never_counts[i] += details[i].verdict == RATION_NEVER;
    }
}

/* Takes random keys and costs, by the call that reports everything. */
static void take_often(void *context, unsigned thread_index)
{
    struct crowd *crowd = context;
    struct account *account = &crowd->accounts[thread_index];
    uint64_t random = seed + thread_index;
    unsigned count = rule_count(crowd);

    spin_barrier_wait(&crowd->barrier);
    for (unsigned i = 0; i < TRIES; i++) {
        uint64_t number = ration_random_up_to(&random, KEY_COUNT - 1);
        uint64_t cost = 1 + ration_random_up_to(&random, crowd->cost_max - 1);
        struct ration_decision decision;
        struct ration_decision details[RATION_CALL_RULES_MAX];

        if (take(crowd, number, cost, &decision, details) != RATION_OK)
            continue; /* the totals show it */
        if (decision.verdict == RATION_ALLOW) {
            account->tokens[number] += cost;
            account->allowed_count++;
        } else {
            record_denied(account, details, count);
        }
        if (i % 64 == 0)
            sched_yield(); /* otherwise each would finish within one time slice */
    }
    /* then takes single tokens as long as there are any */
    for (uint64_t number = 0; number < KEY_COUNT; number++) {
        struct ration_decision decision;
        struct ration_decision details[RATION_CALL_RULES_MAX];

        do {
            assert_int_equal(take(crowd, number, 1, &decision, details), RATION_OK);
            if (decision.verdict == RATION_ALLOW) {
                account->tokens[number]++;
                account->allowed_count++;
            } else {
                record_denied(account, details, count);
            }
        } while (decision.verdict == RATION_ALLOW);
    }
}

static uint64_t min_burst(const struct crowd *crowd)
{
    uint64_t burst_min = UINT64_MAX;

    for (unsigned i = 0; i < ARENA_LIMITERS_MAX * ARENA_RULES_MAX; i++) {
        uint64_t burst = crowd->bursts[i / ARENA_RULES_MAX][i % ARENA_RULES_MAX];

        if (burst > 0 && burst < burst_min)
            burst_min = burst;
    }
    return burst_min;
}

static struct account sum_accounts(const struct crowd *crowd)
{
    struct account sum = {.allowed_count = 0};

    for (unsigned t = 0; t < THREAD_COUNT; t++) {
        const struct account *account = &crowd->accounts[t];

        for (unsigned k = 0; k < KEY_COUNT; k++)
            sum.tokens[k] += account->tokens[k];
        sum.allowed_count += account->allowed_count;
        for (unsigned i = 0; i < RATION_CALL_RULES_MAX; i++) {
            sum.denied_counts[i] += account->denied_counts[i];
            sum.never_counts[i] += account->never_counts[i];
        }
    }
    return sum;
}

/* Every limit of every key has exactly its burst minus the tokens that the key was admitted. */
static void check_buckets(struct crowd *crowd, const struct account *sum)
{
    for (uint64_t number = 0; number < KEY_COUNT; number++) {
        assert_int_equal(sum->tokens[number], min_burst(crowd));
        crowd->arena.keys[0] = (struct ration_key){&number, sizeof(number)};
        for (unsigned l = 0; l < crowd->arena.limiter_count; l++)
            for (unsigned r = 0; r < ARENA_RULES_MAX && crowd->bursts[l][r] > 0; r++)
                assert_int_equal(arena_remaining(&crowd->arena, l, r, 0),
                                 crowd->bursts[l][r] - sum->tokens[number]);
    }
}

static void check_counts(const struct crowd *crowd, const struct account *sum)
{
    unsigned index = 0;

    for (unsigned l = 0; l < crowd->arena.limiter_count; l++) {
        struct ration_limiter_report report;

        ration_limiter_read_report(crowd->arena.limiters[l], &report);
        /* a stack creates its keys full, so that another may reclaim one before it is charged */
        assert_int_equal(report.limiter.created - report.limiter.reclaimed, KEY_COUNT);
        assert_true(crowd->is_stack || report.limiter.reclaimed == 0);
        assert_int_equal(report.limiter.overflow_shared, 0);
        for (size_t r = 0; r < report.rule_count; r++, index++) {
            assert_int_equal(report.rules[r].allowed, sum->allowed_count);
            assert_int_equal(report.rules[r].allowed_tokens, KEY_COUNT * min_burst(crowd));
            assert_int_equal(report.rules[r].denied, sum->denied_counts[index]);
            assert_int_equal(report.rules[r].never, sum->never_counts[index]);
            assert_int_equal(report.rules[r].errors, 0);
        }
    }
}

static void run_once(struct crowd *crowd)
{
    struct arena_plan plan = {.is_stack = crowd->is_stack, .ground = GROUND_ROOMY, .seed = seed};
    struct account sum;

    memcpy(plan.rules, crowd->rules, sizeof(plan.rules));
    memset(crowd->accounts, 0, sizeof(crowd->accounts));
    arena_init(&crowd->arena, &plan);
    crowd->arena.now_ns = NOW_NS;
    spin_barrier_init(&crowd->barrier, THREAD_COUNT);
    threads_run(THREAD_COUNT, take_often, crowd);
    sum = sum_accounts(crowd);
    check_buckets(crowd, &sum);
    check_counts(crowd, &sum);
    arena_done(&crowd->arena);
    crowd->allowed_count += sum.allowed_count;
}

static void run(struct crowd *crowd, const char *name)
{
    for (unsigned i = 0; i < RUNS; i++, seed++)
        run_once(crowd);
    print_message("  %s: %d runs, %" PRIu64 " takes admitted\n", name, RUNS, crowd->allowed_count);
}

static void r1_r3_each_key_gets_exactly_its_burst(void **state)
{
    struct crowd crowd = {.rules = {{"3/h burst 200"}}, .bursts = {{200}}, .cost_max = 1};

    (void)state;
    run(&crowd, "one limit");
}

static void r2_denials_of_any_cost_leave_no_trace(void **state)
{
    struct crowd crowd = {.rules = {{"3/h burst 200"}}, .bursts = {{200}}, .cost_max = 250};

    (void)state;
    run(&crowd, "one limit, costs up to 250");
}

static void r2_of_several_limits_each_key_gets_exactly_the_smallest_burst(void **state)
{
    struct crowd crowd = {
        .rules = {{"3/h burst 200", "7/h burst 150"}}, .bursts = {{200, 150}}, .cost_max = 180};

    (void)state;
    run(&crowd, "two limits, costs up to 180");
}

static void r2_of_a_stack_each_key_gets_exactly_the_smallest_burst(void **state)
{
    struct crowd crowd = {.rules = {{"3/h burst 200", "7/h burst 170"}, {"11/h burst 150"}},
                          .bursts = {{200, 170}, {150}},
                          .cost_max = 180,
                          .is_stack = true};

    (void)state;
    run(&crowd, "two limiters, costs up to 180");
}

/* The real clock ------------------------------------------------------------------------- */

#define MANY_COUNT      100
#define MANY_CALL_COUNT (10000 / THREADS_SHARE)

struct many {
    ration_limiter *limiter;
    struct spin_barrier barrier;
    uint64_t admitted;
};

static void call_often(void *context, unsigned thread_index)
{
    struct many *many = context;
    uint64_t admitted = 0;

    (void)thread_index;
    spin_barrier_wait(&many->barrier);
    for (unsigned i = 0; i < MANY_CALL_COUNT; i++) {
        admitted += ration_limiter_allow(many->limiter, &RATION_KEY("all"));
        if (i % 64 == 0)
            sched_yield();
    }
    __atomic_fetch_add(&many->admitted, admitted, __ATOMIC_RELAXED);
}

static void r1_many_stay_within_burst_plus_rate_times_time(void **state)
{
    struct ration_rule rule = {.is_shadow = 0};
    struct ration_limiter_report report;
    struct many many = {.admitted = 0};

    (void)state;
    assert_int_equal(ration_limit_parse("100000/s burst 500", &rule.limit, NULL), RATION_OK);

    struct ration_limiter_options options = {
        .struct_size = sizeof(options), .rules = &rule, .rule_count = 1, .keys_max = 100};

    assert_int_equal(ration_limiter_create(&options, &many.limiter, NULL), RATION_OK);
    spin_barrier_init(&many.barrier, MANY_COUNT);

    uint64_t start_ns = ration_limiter_now(many.limiter);
    threads_run(MANY_COUNT, call_often, &many);
    uint64_t spent_ns = ration_limiter_now(many.limiter) - start_ns;
    uint64_t most = rule.limit.burst + spent_ns / (rule.limit.period_ns / rule.limit.tokens);

    print_message("  %d threads x %d calls in %" PRIu64 " us: %" PRIu64 " admitted of %" PRIu64
                  " at most\n",
                  MANY_COUNT, MANY_CALL_COUNT, spent_ns / 1000, many.admitted, most);
    ration_limiter_read_report(many.limiter, &report);
    assert_true(many.admitted >= rule.limit.burst);
    assert_true(many.admitted <= most);
    assert_int_equal(report.rules[0].allowed, many.admitted);
    assert_int_equal(report.rules[0].allowed + report.rules[0].denied,
                     MANY_COUNT * MANY_CALL_COUNT);
    ration_limiter_free(many.limiter);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(r1_r3_each_key_gets_exactly_its_burst),
        cmocka_unit_test(r2_denials_of_any_cost_leave_no_trace),
        cmocka_unit_test(r2_of_several_limits_each_key_gets_exactly_the_smallest_burst),
        cmocka_unit_test(r2_of_a_stack_each_key_gets_exactly_the_smallest_burst),
        cmocka_unit_test(r1_many_stay_within_burst_plus_rate_times_time),
    };

    seed = threads_seed("limiter_totals_test");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
