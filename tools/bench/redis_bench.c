/*
 * redis_bench: decisions of a node whose limits live in Redis, by the library.
 *
 *     redis_bench PORT MODE KEYS SECONDS        MODE: strict, local_first or lease
 *                                               KEYS: one, uniform:N or zipf:N
 *
 * Prints decisions a second, and calls of scripts per thousand of them. Checks go in batches of 1024, as the
 * requests of one turn of a server's loop.
 */
#include <hiredis/hiredis.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ration/ration.h"

#define BATCH     1024
#define NAME_SIZE 32

static uint64_t random_state = 88172645463325252u;

static uint64_t random_number(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

static void fail_with(const char *what)
{
    fprintf(stderr, "redis_bench: %s\n", what);
    exit(2);
}

static uint64_t now_ns(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * RATION_NS_PER_SECOND + (uint64_t)time.tv_nsec;
}

static uint64_t script_calls(redisContext *redis)
{
    static const char *const names[] = {"cmdstat_eval:calls=", "cmdstat_evalsha:calls="};
    redisReply *reply = redisCommand(redis, "INFO commandstats");
    uint64_t calls = 0;

    for (int i = 0; i < 2 && reply != NULL; i++) {
        const char *at = strstr(reply->str, names[i]);

        if (at != NULL)
            calls += strtoull(at + strlen(names[i]), NULL, 10);
    }
    freeReplyObject(reply);
    return calls;
}

static ration_engine *make_engine(unsigned port, const char *mode)
{
    char url[64], text[200];
    struct ration_redis redis = {.url = url, .timeout_ns = RATION_NS_PER_SECOND};
    struct ration_engine_options options = {.struct_size = sizeof(options), .redis = &redis};
    struct ration_error error;
    ration_policy *policy;
    ration_engine *engine;

    snprintf(url, sizeof(url), "redis://127.0.0.1:%u", port);
    snprintf(text, sizeof(text),
             "limits: [{name: bench, key: user, rate: 100000/s, redis_mode: %s}]", mode);
    if (ration_policy_parse(text, strlen(text), NULL, NULL, &policy) != RATION_OK)
        fail_with("MODE is strict, local_first or lease");
    if (ration_engine_create(&options, policy, &engine, &error) != RATION_OK)
        fail_with(error.message);
    return engine;
}

/* Which key comes next: a number below count, all alike or some far more often than others. */
static uint64_t next_key(const char *keys, uint64_t count)
{
    double part = (double)(random_number() >> 11) / 9007199254740992.0;

    if (strncmp(keys, "zipf", 4) != 0)
        return (uint64_t)(part * (double)count);
    return (uint64_t)(exp(part * log((double)count))) % count; /* an exponent of 1 */
}

int main(int argument_count, char **arguments)
{
    static struct ration_attribute attributes[BATCH];
    static struct ration_check checks[BATCH];
    unsigned port = argument_count == 5 ? (unsigned)atoi(arguments[1]) : 0;
    redisContext *redis = port > 0 ? redisConnect("127.0.0.1", (int)port) : NULL;
    const char *colon = port > 0 ? strchr(arguments[3], ':') : NULL;
    uint64_t count = colon != NULL ? strtoull(colon + 1, NULL, 10) : 1;
    uint64_t begun_ns, end_ns, calls, decided = 0;
    char(*names)[NAME_SIZE] =
        calloc(count > 0 ? count : 1, NAME_SIZE); /* written before, not meanwhile */
    ration_engine *engine;

    if (redis == NULL || redis->err != 0 || count == 0 || names == NULL)
        fail_with("usage: redis_bench PORT MODE KEYS SECONDS, with a redis-server at PORT");
    for (uint64_t i = 0; i < count; i++)
        snprintf(names[i], NAME_SIZE, "key:%012" PRIu64, i);
    engine = make_engine(port, arguments[2]);
    calls = script_calls(redis);
    begun_ns = now_ns();
    end_ns = begun_ns + (uint64_t)(atof(arguments[4]) * 1e9);
    while (now_ns() < end_ns) {
        for (int i = 0; i < BATCH; i++) {
            const char *name = names[next_key(arguments[3], count)];

            attributes[i] = (struct ration_attribute){{"user", 4}, {name, strlen(name)}};
            checks[i] = (struct ration_check){
                .attributes = &attributes[i], .attribute_count = 1, .cost_tokens = 1};
        }
        ration_engine_check(engine, checks, BATCH, ration_engine_now(engine));
        for (int i = 0; i < BATCH; i++)
            if (checks[i].status != RATION_OK || checks[i].is_degraded)
                fail_with("Redis did not decide");
        decided += BATCH;
    }
    printf("%.0f %.2f\n", (double)decided * 1e9 / (double)(now_ns() - begun_ns),
           (double)(script_calls(redis) - calls) * 1000 / (double)decided);
    ration_engine_free(engine);
    redisFree(redis);
    free(names);
    return 0;
}
