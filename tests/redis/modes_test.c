/*
 * Four nodes on one Redis, in each mode: compares their total admissions with the contract, with injected time. strict
 * and lease, also mixed: all admissions fit a token bucket that sees all of them (R1). local_first: within its stated
 * bound. Prints the admissions and the calls of Redis.
 *
 *     redis_modes_test SOCKET [MODE]     with a mode, this mode alone, which must be found to admit more than strict
 *                                        and lease may: local_first does, and lease with a wrong script
 */
#include <hiredis/hiredis.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chance.h"
#include "core/gcra.h"
#include "ration/ration.h"

#define NODE_COUNT 4
#define STEP_COUNT 20000
#define EPOCH_NS   (UINT64_C(1790000000) * RATION_NS_PER_SECOND)
#define RATE       1000 /* a second */

static uint64_t burst; /* of the limit */

static void fail(const char *what)
{
    fprintf(stderr, "%s\n", what);
    exit(1);
}

/* mixed: the first node uses strict, the others lease. two: leases of two limits. */
static const char *mode_of(const char *mode, int index)
{
    if (strcmp(mode, "mixed") == 0)
        return index == 0 ? "strict" : "lease";
    return strcmp(mode, "two") == 0 ? "lease" : mode;
}

static ration_engine *make_node(const char *socket, const char *mode, int index,
                                const struct ration_clock *clock)
{
    char url[300], text[400];
    struct ration_redis redis = {.url = url,
                                 .node_count = NODE_COUNT,
                                 .timeout_ns = 30 * RATION_NS_PER_SECOND,
                                 .connect_timeout_ns = 30 * RATION_NS_PER_SECOND};
    struct ration_engine_options options = {.struct_size = sizeof(options),
                                            .clock = clock,
                                            .redis = &redis,
                                            .sends_time = 1,
                                            .inline_keys_max = 1000};
    struct ration_error error;
    ration_policy *policy;
    ration_engine *engine;

    snprintf(url, sizeof(url), "unix:%s", socket);
    snprintf(text, sizeof(text),
             "limits: [{name: l, key: user, rate: %d/s, burst: %" PRIu64 ", redis_mode: %s}%s]",
             RATE, burst, mode_of(mode, index),
             strcmp(mode, "two") == 0 ? ", {name: all, rate: 100000/s, redis_mode: lease}" : "");
    if (ration_policy_parse(text, strlen(text), NULL, NULL, &policy) != RATION_OK)
        fail("the policy is wrong");
    if (ration_engine_create(&options, policy, &engine, &error) != RATION_OK)
        fail(error.message);
    return engine;
}

/* How many keys there are, and how the requests arrive. */
struct traffic {
    const char *name;
    size_t key_count;
    uint64_t gap_ns; /* between requests, on average */
    bool is_uneven;  /* one node gets most of it */
    uint64_t cost_max;
    uint64_t pause_ns; /* the longest pause without requests */
    bool is_rushing;
};

#define KEYS_MAX    64
#define PAUSE_EVERY 200 /* checks, on average */
#define RUSH_CHECKS 20

struct totals {
    struct ration_time tat; /* of a bucket that sees all admissions */
    uint64_t first_ns;
};

static uint64_t script_calls(redisContext *redis)
{
    redisReply *reply = redisCommand(redis, "INFO commandstats");
    uint64_t calls = 0;
    static const char *const names[] = {"cmdstat_eval:calls=", "cmdstat_evalsha:calls="};

    for (int i = 0; i < 2; i++) {
        const char *at = strstr(reply->str, names[i]);

        if (at != NULL)
            calls += strtoull(at + strlen(names[i]), NULL, 10);
    }
    freeReplyObject(reply);
    return calls;
}

static bool check(ration_engine *engine, const char *user, uint64_t cost)
{
    struct ration_attribute attribute = {{"user", 4}, {user, strlen(user)}};
    struct ration_check check = {
        .attributes = &attribute, .attribute_count = 1, .cost_tokens = cost};

    ration_engine_check(engine, &check, 1, ration_engine_now(engine));
    if (check.status != RATION_OK || check.is_degraded)
        fail("Redis did not decide");
    return check.decision.verdict == RATION_ALLOW;
}

/* The tokens by which a bucket that sees all admissions is overdrawn. */
static uint64_t overdrawn(const struct totals *totals, const struct ration_limit *limit,
                          uint64_t now_ns)
{
    struct ration_time room = ration_time_add(ration_time_from_ns(now_ns), limit->rate.capacity);

    if (!ration_time_less(room, totals->tat))
        return 0;
    return ration_time_ceil_ns(ration_time_sub(totals->tat, room)) / limit->rate.token.ns + 1;
}

/* The result of a run. */
struct outcome {
    uint64_t requested; /* tokens */
    uint64_t admitted;
    uint64_t due;       /* admitted by the contract */
    uint64_t most_over; /* the most tokens by which a bucket that sees all was overdrawn */
    uint64_t calls;
};

/* For rushes: one node at a time sends many requests, pauses, and sometimes all nodes take all tokens at once. */
static struct {
    int node;
    uint64_t left; /* of a rush of all */
} rush;

static int choose_node(const struct traffic *traffic)
{
    if (traffic->is_rushing && rush.left == 0)
        return rush.node;
    return traffic->is_uneven && random_below(10) > 0 ? 0 : (int)random_below(NODE_COUNT);
}

static uint64_t choose_gap(const struct traffic *traffic)
{
    if (!traffic->is_rushing)
        return random_below(traffic->pause_ns > 0 && random_below(PAUSE_EVERY) == 0
                                ? traffic->pause_ns
                                : 2 * traffic->gap_ns + 1);
    if (rush.left > 0) {
        rush.left--;
        return 0;
    }
    if (random_below(RUSH_CHECKS) > 0)
        return 0;
    rush.node = (int)random_below(NODE_COUNT);
    if (random_below(RUSH_CHECKS / 2) == 0)
        rush.left = burst * 3 / 2;
    return random_below(traffic->pause_ns);
}

static void step(ration_engine **nodes, const struct traffic *traffic, struct totals *all_totals,
                 const struct ration_limit *limit, struct outcome *outcome)
{
    size_t key = random_below(traffic->key_count);
    int node = choose_node(traffic);
    uint64_t cost = 1 + random_below(traffic->cost_max), now_ns = ration_engine_now(nodes[node]),
             over;
    struct totals *totals = &all_totals[key];
    char user[32];

    snprintf(user, sizeof(user), "u%zu", key);
    if (totals->first_ns == 0)
        totals->first_ns = now_ns;
    outcome->requested += cost;
    if (!check(nodes[node], user, cost))
        return;
    outcome->admitted += cost;
    totals->tat = ration_gcra_charge(totals->tat, &limit->rate, cost, now_ns);
    over = overdrawn(totals, limit, now_ns);
    if (over > outcome->most_over)
        outcome->most_over = over;
}

static struct outcome run(redisContext *redis, const char *socket, const char *mode,
                          const struct traffic *traffic)
{
    struct ration_manual_clock manual = {0};
    struct ration_clock clock = ration_clock_manual(&manual);
    static struct totals totals[KEYS_MAX];
    ration_engine *nodes[NODE_COUNT];
    /* fewer if each one is a call */
    int step_count =
        strcmp(mode, "strict") == 0 || strcmp(mode, "mixed") == 0 ? STEP_COUNT / 4 : STEP_COUNT;
    struct outcome outcome = {0};
    struct ration_limit limit;

    memset(totals, 0, sizeof(totals));
    (void)ration_limit_make(&(struct ration_limit_spec){.tokens = RATE,
                                                        .period_ns = RATION_NS_PER_SECOND,
                                                        .burst = burst},
                            &limit, NULL);
    ration_clock_manual_set(&manual, EPOCH_NS);
    freeReplyObject(redisCommand(redis, "FLUSHALL"));
    for (int i = 0; i < NODE_COUNT; i++)
        nodes[i] = make_node(socket, mode, i, &clock);
    outcome.calls = script_calls(redis);
    for (int i = 0; i < step_count; i++) {
        ration_clock_manual_advance(&manual, choose_gap(traffic));
        step(nodes, traffic, totals, &limit, &outcome);
    }
    outcome.calls = script_calls(redis) - outcome.calls;
    for (size_t key = 0; key < traffic->key_count; key++)
        outcome.due += totals[key].first_ns == 0
                           ? 0
                           : burst + (ration_clock_now(&clock) - totals[key].first_ns) * RATE /
                                         RATION_NS_PER_SECOND;
    for (int i = 0; i < NODE_COUNT; i++)
        ration_engine_free(nodes[i]);
    printf("burst %4" PRIu64 " %-12s %-10s admitted %6" PRIu64 " of %6" PRIu64
           " requested, contract %7" PRIu64 ", most over at once %4" PRIu64
           ", %5.1f calls per 1000 decisions\n",
           burst, mode, traffic->name, outcome.admitted, outcome.requested, outcome.due,
           outcome.most_over, (double)outcome.calls * 1000 / step_count);
    return outcome;
}

/* What leases may lose: the rate for the duration of a lease, the largest lease of each node, and a twentieth. */
static uint64_t lease_short(const struct traffic *traffic)
{
    uint64_t fill_ms = burst * 1000 / RATE, lease_ms = fill_ms / 4 < 500 ? fill_ms / 4 : 500;

    return RATE * lease_ms / 1000 + burst / 4 + burst / 20 + traffic->cost_max;
}

static void expect_contract(const char *mode, const struct traffic *traffic,
                            const struct outcome *outcome)
{
    bool is_single = traffic->key_count == 1 && traffic->cost_max == 1 && traffic->pause_ns == 0;

    if (strcmp(mode, "local_first") != 0 && outcome->most_over > 0)
        fail("more was admitted than the contract");
    /* each node: three quarters of the burst, and its share of the rate, without a call */
    if (outcome->most_over > (uint64_t)NODE_COUNT * burst * 3 / 4 + outcome->due - burst)
        fail("more was admitted than the bound");
    /* where the traffic allows leases that last */
    if (strcmp(mode_of(mode, 0), "lease") == 0 && burst >= 2 * RATE && is_single &&
        outcome->calls * 1000 / STEP_COUNT > (strcmp(mode, "two") == 0 ? 200 : 50))
        fail("leases do not save calls");
    if (traffic->pause_ns > 0 || traffic->key_count > 1 || outcome->due > outcome->requested)
        return;
    if (strcmp(mode, "lease") == 0 && outcome->admitted + lease_short(traffic) < outcome->due)
        fail("leases admitted less than the bound");
    if (outcome->admitted < outcome->due * 8 / 10)
        fail("much less was admitted than the contract");
}

/* A cost above the burst is never allowed, also while a cached denial is valid. */
static void test_never(redisContext *redis, const char *socket, const char *mode)
{
    struct ration_manual_clock manual = {0};
    struct ration_clock clock = ration_clock_manual(&manual);
    struct ration_attribute user = {RATION_KEY("user"), RATION_KEY("never")};
    struct ration_check requested = {
        .attributes = &user, .attribute_count = 1, .cost_tokens = UINT64_MAX};
    ration_engine *node;

    ration_clock_manual_set(&manual, EPOCH_NS);
    freeReplyObject(redisCommand(redis, "FLUSHALL"));
    node = make_node(socket, mode, 1, &clock);
    for (uint64_t i = 0; i < 2 * burst; i++)
        (void)check(node, "never", 1);
    for (int i = 0; i < 2; i++, requested.cost_tokens = burst + 1) {
        ration_engine_check(node, &requested, 1, EPOCH_NS);
        if (requested.status != RATION_OK || requested.decision.verdict != RATION_NEVER)
            fail("a cost above the burst did not get the verdict never");
    }
    ration_engine_free(node);
}

int main(int argument_count, char **arguments)
{
    static const uint64_t even_ns =
        RATION_NS_PER_SECOND / RATE; /* as fast as tokens are refilled */
    const struct traffic traffics[] = {
        {"hot key", 1, even_ns / 3, .cost_max = 1},
        {"one node", 1, even_ns / 3, .is_uneven = true, .cost_max = 1},
        {"uniform", KEYS_MAX, even_ns / KEYS_MAX / 2, .cost_max = 1},
        {"below", 1, even_ns * 2, .cost_max = 1},
        {"costs", 1, even_ns, .cost_max = 8},
        {"pauses", 3, even_ns / 6, true, 4, .pause_ns = RATION_NS_PER_SECOND / 4},
        {"rushes", 1, 0, .cost_max = 1, .is_rushing = true, .pause_ns = RATION_NS_PER_SECOND / 10},
    };
    static const char *const modes[] = {"strict", "local_first", "lease", "mixed", "two"};
    redisContext *redis = argument_count > 1 ? redisConnectUnix(arguments[1]) : NULL;
    const char *wrong = argument_count > 2 ? arguments[2] : NULL;
    uint64_t most_over = 0;

    if (redis == NULL || redis->err != 0)
        return 2;
    seed_chance();
    burst = RATE / 5;
    for (size_t m = 0; m < sizeof(modes) / sizeof(modes[0]); m++)
        test_never(redis, arguments[1], modes[m]);
    for (burst = RATE / 5; burst <= 2 * RATE; burst *= 10)
        for (size_t i = 0; i < sizeof(traffics) / sizeof(traffics[0]); i++)
            for (size_t m = 0; m < sizeof(modes) / sizeof(modes[0]); m++) {
                struct outcome outcome;

                if (wrong != NULL && strcmp(wrong, modes[m]) != 0)
                    continue;
                outcome = run(redis, arguments[1], modes[m], &traffics[i]);
                if (wrong == NULL)
                    expect_contract(modes[m], &traffics[i], &outcome);
                if (outcome.most_over > most_over)
                    most_over = outcome.most_over;
            }
    redisFree(redis);
    if (wrong != NULL && most_over == 0)
        fail("no mode exceeded its bound");
    return 0;
}
