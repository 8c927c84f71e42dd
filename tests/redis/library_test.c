/*
 * A program without an event loop uses a Redis, a cluster or the master that sentinels name, with threads that wait for
 * their replies. Each user has a burst of five and no token is refilled, so of eight checks five are allowed; Redis
 * decides all of them, from the first on.
 *
 *     redis_library_test URL|SOCKET
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ration/ration.h"

#define THREADS 3
#define USERS   200 /* of each thread */
#define CHECKS  8
#define BURST   5
#define POLICY  "limits: [{name: library, key: user, rate: 5/365d}]\n"

static ration_engine *engine;

static void fail(const char *what)
{
    fprintf(stderr, "%s\n", what);
    exit(1);
}

/* One batch for many users, which is split among the nodes. */
static void *ask(void *argument)
{
    static const char name[] = "user";
    unsigned thread = (unsigned)(uintptr_t)argument;
    struct ration_check checks[USERS];
    struct ration_attribute attributes[USERS];
    char users[USERS][32];

    for (int round = 0; round < CHECKS; round++) {
        for (unsigned i = 0; i < USERS; i++) {
            int size = snprintf(users[i], sizeof(users[i]), "library-%u-%u", thread, i);

            attributes[i] =
                (struct ration_attribute){{name, sizeof(name) - 1}, {users[i], (size_t)size}};
            checks[i] = (struct ration_check){
                .attributes = &attributes[i], .attribute_count = 1, .cost_tokens = 1};
        }
        ration_engine_check(engine, checks, USERS, ration_engine_now(engine));
        for (unsigned i = 0; i < USERS; i++) {
            if (checks[i].status != RATION_OK || checks[i].is_degraded)
                fail("Redis did not decide");
            if ((checks[i].decision.verdict == RATION_ALLOW) != (round < BURST))
                fail("a user was not admitted exactly five times");
        }
    }
    return NULL;
}

int main(int argument_count, char **arguments)
{
    char url[400];
    struct ration_redis redis = {.url = url,
                                 .timeout_ns = 30 * RATION_NS_PER_SECOND,
                                 .connect_timeout_ns = 30 * RATION_NS_PER_SECOND};
    struct ration_engine_options options = {.struct_size = sizeof(options), .redis = &redis};
    struct ration_error error;
    pthread_t threads[THREADS];
    ration_policy *policy;

    if (argument_count != 2)
        return 2;
    snprintf(url, sizeof(url), "%s%s", arguments[1][0] == '/' ? "unix:" : "", arguments[1]);
    if (ration_policy_parse(POLICY, strlen(POLICY), NULL, NULL, &policy) != RATION_OK)
        fail("the policy is wrong");
    if (ration_engine_create(&options, policy, &engine, &error) != RATION_OK)
        fail(error.message);
    for (unsigned i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, ask, (void *)(uintptr_t)i) != 0)
            fail("no thread");
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    ration_engine_free(engine);
    return 0;
}
