/*
 * A program without an event loop uses Redis for a long time: Redis closes connections while the program is idle, and
 * children of fork() neither spend each other's leases nor read each other's replies.
 *
 *     redis_fork_test SOCKET
 */
#include <hiredis/hiredis.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ration/ration.h"

#define CHILDREN 6
#define BURST    10000

static const char *socket_path;
static redisContext *redis;

static void fail(const char *what)
{
    fprintf(stderr, "%s\n", what);
    exit(1);
}

static ration_engine *make_engine(const char *mode, const char *name)
{
    char url[300], text[300];
    struct ration_redis options_redis = {.url = url,
                                         .timeout_ns = 30 * RATION_NS_PER_SECOND,
                                         .connect_timeout_ns = 30 * RATION_NS_PER_SECOND};
    struct ration_engine_options options = {
        .struct_size = sizeof(options), .redis = &options_redis, .inline_keys_max = 100};
    struct ration_error error;
    ration_policy *policy;
    ration_engine *engine;

    snprintf(url, sizeof(url), "unix:%s", socket_path);
    snprintf(text, sizeof(text),
             "limits: [{name: %s, key: user, rate: 1000/365d, burst: %d, redis_mode: %s, "
             "on_redis_error: deny%s}]",
             name, BURST, mode, strcmp(mode, "lease") == 0 ? ", lease: 60s" : "");
    if (ration_policy_parse(text, strlen(text), NULL, NULL, &policy) != RATION_OK)
        fail("the policy is wrong");
    if (ration_engine_create(&options, policy, &engine, &error) != RATION_OK)
        fail(error.message);
    return engine;
}

static struct ration_check check(ration_engine *engine)
{
    struct ration_attribute user = {RATION_KEY("user"), RATION_KEY("u")};
    struct ration_check asked = {.attributes = &user, .attribute_count = 1, .cost_tokens = 1};

    ration_engine_check(engine, &asked, 1, ration_engine_now(engine));
    return asked;
}

static void close_connections(void)
{
    redisReply *reply = redisCommand(redis, "CLIENT KILL TYPE normal SKIPME yes");

    if (reply == NULL)
        fail("Redis does not answer");
    freeReplyObject(reply);
}

/* Redis decides each check although the check finds its connection closed. */
static void test_closed_connections(void)
{
    ration_engine *engine = make_engine("strict", "closed");

    for (int i = 0; i < 8; i++) {
        if (check(engine).is_degraded)
            fail("a check on a closed connection was degraded");
        close_connections();
    }
    ration_engine_free(engine);
}

static void run_child(ration_engine *engine, const char *mode, uint64_t *admitted)
{
    for (int i = 0; i < 3 * BURST / CHILDREN; i++) {
        struct ration_check checked = check(engine);

        if (checked.status != RATION_OK || checked.is_degraded) {
            fprintf(stderr, "%s: a child's check was not decided by Redis\n", mode);
            _exit(1);
        }
        __atomic_add_fetch(admitted, checked.decision.verdict == RATION_ALLOW, __ATOMIC_RELAXED);
    }
    _exit(0);
}

/* R1: parent and children together. */
static void test_children(const char *mode)
{
    uint64_t *admitted =
        mmap(NULL, sizeof(*admitted), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ration_engine *engine = make_engine(mode, mode);
    pid_t children[CHILDREN];

    for (int i = 0; i < BURST / 4; i++)
        *admitted += check(engine).decision.verdict == RATION_ALLOW;
    for (int i = 0; i < CHILDREN; i++) {
        children[i] = fork();
        if (children[i] == 0)
            run_child(engine, mode, admitted);
    }
    for (int i = 0; i < CHILDREN; i++) {
        int status;

        if (waitpid(children[i], &status, 0) != children[i] || status != 0)
            fail("a child failed");
    }
    if (check(engine).is_degraded)
        fail("the parent's connection does not work");
    printf("%s: %" PRIu64 " of %d admitted, by a parent and %d children\n", mode, *admitted, BURST,
           CHILDREN);
    if (*admitted > BURST || (strcmp(mode, "strict") == 0 && *admitted != BURST))
        fail("the number admitted is not the burst");
    ration_engine_free(engine);
    munmap(admitted, sizeof(*admitted));
}

int main(int argument_count, char **arguments)
{
    if (argument_count != 2)
        return 2;
    socket_path = arguments[1];
    redis = redisConnectUnix(socket_path);
    if (redis == NULL || redis->err != 0)
        return 2;
    test_closed_connections();
    test_children("strict");
    test_children("lease");
    redisFree(redis);
    return 0;
}
