/*
 * Four nodes on one Redis, in each mode: what they admit together is held against the contract, with the
 * time injected. strict and lease: every admission fits a token bucket that sees them all (R1). local-first:
 * within its stated bound. Prints what was admitted and how often Redis was asked.
 *
 *     redis_modes_test SOCKET [expect-over]     with expect-over, local-first alone, which must be seen to
 *                                               admit more than strict and lease may
 */
#include <hiredis/hiredis.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/gcra.h"
#include "ration/ration.h"

#define NODE_COUNT 4
#ifdef RATION_TESTS_SHORT
#define STEP_COUNT 4000
#else
#define STEP_COUNT 20000
#endif
#define EPOCH_NS (UINT64_C(1790000000) * RATION_NS_PER_SECOND)
#define RATE     1000 /* a second */

static uint64_t burst; /* of the limit */

static uint64_t random_state = 88172645463325252u;

static uint64_t draw(uint64_t below)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state % below;
}

static void fail(const char *what)
{
    fprintf(stderr, "%s\n", what);
    exit(1);
}

static ration_gate *make_node(const char *socket, const char *mode,
                              const struct ration_clock *clock)
{
    char url[300], text[400];
    struct ration_redis redis = {
        .url = url, .node_count = NODE_COUNT, .deadline_ns = RATION_NS_PER_SECOND};
    struct ration_gate_options options = {.struct_size = sizeof(options),
                                          .clock = clock,
                                          .redis = &redis,
                                          .tells_redis_time = 1,
                                          .throttle_keys_max = 1000};
    struct ration_error error;
    ration_policy *policy;
    ration_gate *gate;

    snprintf(url, sizeof(url), "unix:%s", socket);
    snprintf(text, sizeof(text),
             "limits: [{name: %s, key: user, rate: %d/s, burst: %" PRIu64 ", mode: %s}]", mode,
             RATE, burst, mode);
    if (ration_policy_parse(text, strlen(text), NULL, NULL, &policy) != RATION_OK)
        fail("the policy is wrong");
    if (ration_gate_create(&options, policy, &gate, &error) != RATION_OK)
        fail(error.message);
    return gate;
}

/* How many keys a distribution has, and which comes next. */
struct traffic {
    const char *name;
    size_t key_count;
    uint64_t gap_ns; /* between requests, on average */
    bool is_uneven;  /* one node gets most of it */
};

#define KEYS_MAX 64

struct tally {
    struct ration_time tat; /* of a bucket that sees all */
    uint64_t first_ns;
    uint64_t admitted;
    uint64_t over; /* admitted, where that bucket was empty */
    uint64_t most_over;
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

static bool check(ration_gate *gate, const char *user)
{
    struct ration_attribute attribute = {{"user", 4}, {user, strlen(user)}};
    struct ration_check check = {.attributes = &attribute, .attribute_count = 1, .cost_tokens = 1};

    ration_gate_check(gate, &check, 1, ration_gate_now(gate));
    if (check.status != RATION_OK || check.is_degraded)
        fail("Redis did not decide");
    return check.decision.verdict == RATION_ALLOW;
}

/* The tokens by which a bucket that sees all is overdrawn. */
static uint64_t overdrawn(const struct tally *tally, const struct ration_limit *limit,
                          uint64_t now_ns)
{
    struct ration_time room = ration_time_add(ration_time_from_ns(now_ns), limit->rate.capacity);

    if (!ration_time_less(room, tally->tat))
        return 0;
    return ration_time_ceil_ns(ration_time_sub(tally->tat, room)) / limit->rate.token.ns + 1;
}

static void run(redisContext *redis, const char *socket, const char *mode,
                const struct traffic *traffic, bool expects_over)
{
    struct ration_manual_clock manual = {0};
    struct ration_clock clock = ration_clock_manual(&manual);
    static struct tally tallies[KEYS_MAX];
    ration_gate *nodes[NODE_COUNT];
    struct ration_limit limit;
    uint64_t admitted = 0, over = 0, most_over = 0, due = 0, calls;

    memset(tallies, 0, sizeof(tallies));
    (void)ration_limit_make(&(struct ration_limit_spec){.tokens = RATE,
                                                        .period_ns = RATION_NS_PER_SECOND,
                                                        .burst = burst},
                            &limit, NULL);
    ration_manual_clock_set(&manual, EPOCH_NS);
    freeReplyObject(redisCommand(redis, "FLUSHALL"));
    for (int i = 0; i < NODE_COUNT; i++)
        nodes[i] = make_node(socket, mode, &clock);
    calls = script_calls(redis);
    for (int step = 0; step < STEP_COUNT; step++) {
        size_t key = draw(traffic->key_count);
        int node = traffic->is_uneven && draw(10) > 0 ? 0 : (int)draw(NODE_COUNT);
        struct tally *tally = &tallies[key];
        uint64_t now_ns;
        char user[32];

        ration_manual_clock_advance(&manual, draw(2 * traffic->gap_ns + 1));
        now_ns = ration_clock_now(&clock);
        snprintf(user, sizeof(user), "u%zu", key);
        if (tally->first_ns == 0)
            tally->first_ns = now_ns;
        if (!check(nodes[node], user))
            continue;
        tally->admitted++;
        admitted++;
        tally->tat = ration_gcra_force(tally->tat, &limit.rate, 1, now_ns);
        if (overdrawn(tally, &limit, now_ns) > 0)
            over++;
        if (overdrawn(tally, &limit, now_ns) > most_over)
            most_over = overdrawn(tally, &limit, now_ns);
    }
    for (size_t key = 0; key < traffic->key_count; key++)
        due += tallies[key].first_ns == 0
                   ? 0
                   : burst + (ration_clock_now(&clock) - tallies[key].first_ns) * RATE /
                                 RATION_NS_PER_SECOND;
    calls = script_calls(redis) - calls;
    printf("burst %4" PRIu64 " %-12s %-10s admitted %6" PRIu64 " of %d asked, contract %7" PRIu64
           ", most over at once %4" PRIu64 ", %5.1f calls per 1000 decisions\n",
           burst, mode, traffic->name, admitted, STEP_COUNT, due, most_over,
           (double)calls * 1000 / STEP_COUNT);
    for (int i = 0; i < NODE_COUNT; i++)
        ration_gate_free(nodes[i]);
    if (strcmp(mode, "local-first") != 0 && over > 0 && !expects_over)
        fail("more was admitted than the contract");
    /* each node: three quarters of the burst, and its share of the rate, without asking */
    if (most_over > (uint64_t)NODE_COUNT * burst * 3 / 4 + due - burst)
        fail("more was admitted than the bound");
    if (expects_over && over == 0)
        fail("nothing was over");
    /* with room for leases that last */
    if (strcmp(mode, "lease") == 0 && burst >= 2 * RATE && traffic->key_count == 1 &&
        STEP_COUNT >= 20000 && calls * 1000 / STEP_COUNT > 50)
        fail("leases do not spare calls");
    if (traffic->key_count == 1 && admitted < due * 7 / 10 && due < STEP_COUNT)
        fail("much less was admitted than the contract");
}

int main(int argument_count, char **arguments)
{
    static const struct traffic traffics[] = {
        {"hot key", 1, RATION_NS_PER_SECOND / RATE / 3, false},
        {"one node", 1, RATION_NS_PER_SECOND / RATE / 3, true},
        {"uniform", KEYS_MAX, RATION_NS_PER_SECOND / RATE / KEYS_MAX / 2, false},
        {"below", 1, RATION_NS_PER_SECOND / RATE * 2, false},
    };
    redisContext *redis = argument_count > 1 ? redisConnectUnix(arguments[1]) : NULL;

    if (redis == NULL || redis->err != 0)
        return 2;
    if (argument_count > 2) { /* local-first must be seen to be over by the check for lease */
        burst = RATE / 5;
        run(redis, arguments[1], "local-first", &traffics[0], true);
        return 0;
    }
    for (burst = RATE / 5; burst <= 2 * RATE; burst *= 10)
        for (size_t i = 0; i < sizeof(traffics) / sizeof(traffics[0]); i++) {
            run(redis, arguments[1], "strict", &traffics[i], false);
            run(redis, arguments[1], "local-first", &traffics[i], false);
            run(redis, arguments[1], "lease", &traffics[i], false);
        }
    redisFree(redis);
    return 0;
}
