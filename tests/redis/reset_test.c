/*
 * Resets and stale times, with engines that use a real Redis: leased tokens stay charged after a reset under another
 * limit (R1), no lease is spent after its end by a stale now (R6), and a reset removes whatever Redis has under a
 * bucket's key; until then no request is charged if the decision is impossible (R2).
 *
 *     redis_reset_test SOCKET
 */
#include <hiredis/hiredis.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ration/ration.h"

#define EPOCH_NS    (UINT64_C(1790000000) * RATION_NS_PER_SECOND)
#define DEADLINE_NS (30 * RATION_NS_PER_SECOND)
#define BURST       1000

static const char *socket_path;
static redisContext *redis;
static struct ration_attribute user = {RATION_KEY("user"), RATION_KEY("u")};

static void fail(const char *what)
{
    fprintf(stderr, "%s\n", what);
    exit(1);
}

static ration_policy *read_policy(const char *text)
{
    ration_policy *policy;

    if (ration_policy_parse(text, strlen(text), NULL, NULL, &policy) != RATION_OK)
        fail(text);
    return policy;
}

static ration_engine *make_engine(const char *text, const struct ration_clock *clock,
                                  bool is_reported)
{
    char url[300];
    struct ration_redis options_redis = {
        .url = url, .node_count = 2, .timeout_ns = DEADLINE_NS, .connect_timeout_ns = DEADLINE_NS};
    struct ration_engine_options options = {.struct_size = sizeof(options),
                                            .clock = clock,
                                            .redis = &options_redis,
                                            .sends_time = is_reported};
    struct ration_error error;
    ration_engine *engine;

    snprintf(url, sizeof(url), "unix:%s", socket_path);
    freeReplyObject(redisCommand(redis, "FLUSHALL"));
    if (ration_engine_create(&options, read_policy(text), &engine, &error) != RATION_OK)
        fail(error.message);
    return engine;
}

static struct ration_check check(ration_engine *engine, uint64_t now_ns)
{
    struct ration_check check = {.attributes = &user, .attribute_count = 1, .cost_tokens = 1};

    ration_engine_check(engine, &check, 1, now_ns);
    return check;
}

static uint64_t count_allowed(ration_engine *engine, uint64_t count, uint64_t now_ns)
{
    uint64_t allowed = 0;

    for (uint64_t i = 0; i < count; i++) {
        struct ration_check one = check(engine, now_ns);

        if (one.status != RATION_OK || one.is_degraded)
            fail("Redis did not decide");
        allowed += one.decision.verdict == RATION_ALLOW;
    }
    return allowed;
}

static uint64_t in_memory_count(ration_engine *engine)
{
    struct ration_engine_stats stats;

    ration_engine_read_stats(engine, &stats);
    return stats.decided_locally;
}

/* One node acquires a lease; another already has a limit with one more token, and resets the bucket. */
static void test_R1_leases_stay_charged_after_a_reset(const char *kind)
{
    static const char old_text[] =
        "limits: [{name: l, key: user, rate: 100/s, burst: 1000, redis_mode: lease}]";
    static const char new_text[] =
        "limits: [{name: l, key: user, rate: 100/s, burst: 1001, redis_mode: strict}]";
    struct ration_manual_clock manual = {0};
    struct ration_clock clock = ration_clock_manual(&manual);
    struct ration_admin_op op = {.attributes = &user, .attribute_count = 1};
    ration_engine *lessee, *other;
    uint64_t spent, allowed;
    ration_status status;

    ration_clock_manual_set(&manual, EPOCH_NS);
    lessee = make_engine(old_text, &clock, true);
    other = make_engine(new_text, &clock, true);
    spent = count_allowed(lessee, BURST / 5, EPOCH_NS);
    status = strcmp(kind, "reset") == 0
                 ? ration_engine_reset(other, &op, EPOCH_NS, NULL)
                 : ration_engine_refund(other, &op, 2 * spent, EPOCH_NS, NULL);
    if (status != RATION_OK)
        fail("the bucket was not changed");
    allowed = count_allowed(other, 2 * BURST, EPOCH_NS);
    allowed += count_allowed(lessee, 2 * BURST, EPOCH_NS);
    printf("after a %s, with leased tokens: %" PRIu64 " of %d\n", kind, allowed, BURST + 1);
    if (allowed > BURST + 1 || allowed < BURST / 2)
        fail("more was admitted than the limit, or much less");
    ration_engine_free(other);
    ration_engine_free(lessee);
}

/* A lease has ended by the engine's clock, but not by the caller's now. */
static void test_R6_a_stale_now_spends_no_lease(void)
{
    static const char text[] =
        "limits: [{name: l, key: user, rate: 1000/s, burst: 1000, redis_mode: lease}]";
    struct ration_manual_clock manual = {0};
    struct ration_clock clock = ration_clock_manual(&manual);
    ration_engine *engine;
    uint64_t in_memory;

    ration_clock_manual_set(&manual, EPOCH_NS);
    engine = make_engine(text, &clock, false);
    (void)count_allowed(engine, BURST / 10, EPOCH_NS);
    in_memory = in_memory_count(engine);
    if (in_memory == 0)
        fail("no lease was spent");
    ration_clock_manual_advance(&manual, 10 * RATION_NS_PER_SECOND);
    (void)count_allowed(engine, 1, EPOCH_NS);
    if (in_memory_count(engine) != in_memory)
        fail("a stale now spent a lease that has ended");
    ration_engine_free(engine);
}

static char *stored(const char *name)
{
    redisReply *reply = redisCommand(redis, "GET ration:{u}:%s", name);
    char *text = reply->type == REDIS_REPLY_STRING ? strdup(reply->str) : NULL;

    freeReplyObject(reply);
    return text;
}

static void put(const char *command, const char *name, const char *text)
{
    freeReplyObject(redisCommand(redis, "DEL ration:{u}:%s", name));
    freeReplyObject(redisCommand(redis, "%s ration:{u}:%s %s", command, name, text));
}

/* The bucket of the second of two limits is unreadable: the first is not charged, and a reset repairs it. */
static void test_R2_unreadable_buckets_charge_nothing(void)
{
    static const char *const rates[] = {"100/s",
                                        "100/s fixed_window",
                                        "100/s sliding_window",
                                        "100/s refill interval",
                                        "50/s sliding_log",
                                        "9/s burst 4 reserve 1/s burst 9",
                                        "100/s start empty"};
    static const char *const shapes[] = {"t100/1e9", "f100/1e9",         "s100/1e9", "i100/1e9",
                                         "l50/1e9",  "r9/1e9/4+1/1e9/9", "t100/1e9"};
    static const char *const numbers[] = {"1000000000000000000000000000000 5 3 3 ",
                                          "1790000000 99999999999999999999 3 3 ",
                                          "1790000000 5 99999999999999999999 99999999999999999999 ",
                                          "-5 -5 -5 -5 ",
                                          "1790000000 ",
                                          ""};
    struct ration_admin_op op = {.attributes = &user, .attribute_count = 1};
    uint64_t readable = 0, wrong = 0;

    for (size_t i = 0; i < sizeof(rates) / sizeof(rates[0]); i++) {
        char text[300];
        ration_engine *engine;

        snprintf(text, sizeof(text),
                 "limits:\n  - {name: first, key: user, rate: 100/s, on_redis_error: deny}\n"
                 "  - {name: other, key: user, rate: %s, on_redis_error: deny}\n",
                 rates[i]);
        engine = make_engine(text, NULL, false);
        for (size_t k = 0; k <= sizeof(numbers) / sizeof(numbers[0]); k++) {
            bool is_list = k == sizeof(numbers) / sizeof(numbers[0]);
            char *before, *after;
            struct ration_check one;

            snprintf(text, sizeof(text), "%s%s", is_list ? "" : numbers[k], shapes[i]);
            put(is_list ? "RPUSH" : "SET", "other", text);
            before = stored("first");
            one = check(engine, ration_engine_now(engine));
            after = stored("first");
            if (one.status == RATION_OK && is_list)
                fail("a list was read as a bucket");
            if (one.status == RATION_OK)
                readable++; /* for example, a token bucket has two numbers, whatever follows them */
            else if ((before == NULL) != (after == NULL) ||
                     (before != NULL && strcmp(before, after) != 0))
                fail(text);
            else
                wrong++;
            free(before);
            free(after);
            if (ration_engine_reset(engine, &op, ration_engine_now(engine), NULL) != RATION_OK)
                fail("a reset does not remove an unreadable bucket");
            if (check(engine, ration_engine_now(engine)).status != RATION_OK)
                fail("after a reset Redis does not decide");
        }
        ration_engine_free(engine);
    }
    printf("%" PRIu64 " of %" PRIu64 " were unreadable, and charged nothing\n", wrong,
           wrong + readable);
    if (wrong < 30)
        fail("too many were readable");
}

int main(int argument_count, char **arguments)
{
    if (argument_count != 2)
        return 2;
    socket_path = arguments[1];
    redis = redisConnectUnix(socket_path);
    if (redis == NULL || redis->err != 0)
        return 2;
    test_R1_leases_stay_charged_after_a_reset("reset");
    test_R1_leases_stay_charged_after_a_reset("refund");
    test_R6_a_stale_now_spends_no_lease();
    test_R2_unreadable_buckets_charge_nothing();
    redisFree(redis);
    return 0;
}
