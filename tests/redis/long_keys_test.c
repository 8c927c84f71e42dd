/*
 * Keys of any length that a client may choose, with engines that use a real Redis: each key has one bucket for all nodes,
 * in every mode and for every admin operation (R9), and the size of commands and stored names has a maximum (R10).
 *
 *     redis_long_keys_test SOCKET
 */
#include <hiredis/hiredis.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ration/ration.h"

#define KEY_SIZE       60000
#define NAME_SIZE_MAX  200  /* of a key in Redis, with this prefix and these limits */
#define CALL_BYTES_MAX 1000 /* of the commands for one check */
#define CHECK_COUNT    500
#define BURST          5

static const char policy_text[] =
    "limits:\n"
    "  - {name: bucket, match: {path: /bucket}, key: user, rate: 5/365d}\n"
    "  - {name: window, match: {path: /window}, key: user, rate: 5/365d fixed_window}\n"
    "  - {name: log, match: {path: /log}, key: user, rate: 5/365d sliding_log, max_keys: 100}\n"
    "  - {name: interval, match: {path: /interval}, key: user, rate: 5/365d refill interval}\n"
    "  - {name: lease, match: {path: /lease}, key: user, rate: 1/365d, burst: 15, redis_mode: "
    "lease}\n"
    "  - {name: local, match: {path: /local}, key: user, rate: 2/365d, burst: 15,"
    " redis_mode: local_first, threshold: 99}\n";

static const char *socket_path;
static redisContext *redis;
static char key[KEY_SIZE];

static void fail(const char *what)
{
    fprintf(stderr, "%s\n", what);
    exit(1);
}

static void report_error(void *unused, const struct ration_policy_error *error)
{
    (void)unused;
    fprintf(stderr, "policy:%" PRIu32 ":%" PRIu32 ": %s\n", error->line, error->column,
            error->message);
}

static ration_engine *make_engine(const char *secret)
{
    char url[300];
    struct ration_redis options_redis = {.url = url,
                                         .node_count = 2,
                                         .timeout_ns = 30 * RATION_NS_PER_SECOND,
                                         .connect_timeout_ns = 30 * RATION_NS_PER_SECOND,
                                         .key_secret = secret};
    struct ration_engine_options options = {
        .struct_size = sizeof(options), .redis = &options_redis, .attribute_bytes_max = KEY_SIZE};
    struct ration_error error;
    ration_policy *policy;
    ration_engine *engine;

    snprintf(url, sizeof(url), "unix:%s", socket_path);
    if (ration_policy_parse(policy_text, strlen(policy_text), report_error, NULL, &policy) !=
        RATION_OK)
        fail("the policy is wrong");
    if (ration_engine_create(&options, policy, &engine, &error) != RATION_OK)
        fail(error.message);
    return engine;
}

struct request {
    struct ration_attribute attributes[2];
    struct ration_admin_op op;
};

static struct request *request_of(const char *path)
{
    static struct request request;

    request.attributes[0] = (struct ration_attribute){RATION_KEY("path"), {path, strlen(path)}};
    request.attributes[1] = (struct ration_attribute){RATION_KEY("user"), {key, sizeof(key)}};
    request.op = (struct ration_admin_op){.attributes = request.attributes, .attribute_count = 2};
    return &request;
}

static enum ration_verdict check(ration_engine *engine, const char *path)
{
    struct ration_check check = {
        .attributes = request_of(path)->attributes, .attribute_count = 2, .cost_tokens = 1};

    ration_engine_check(engine, &check, 1, ration_engine_now(engine));
    if (check.status != RATION_OK || check.is_degraded)
        fail(check.reason != NULL ? check.reason : "Redis did not decide");
    return check.decision.verdict;
}

static void expect(bool blocks, const char *path, const char *what)
{
    if (blocks)
        return;
    fprintf(stderr, "%s: %s\n", path, what);
    exit(1);
}

/* Takes and admin operations of one node affect the other. */
static void check_shared(ration_engine *const nodes[2], const char *path)
{
    struct ration_admin_op *op = &request_of(path)->op;
    uint64_t now_ns = ration_engine_now(nodes[0]);
    size_t count = 0;

    for (int i = 0; i < BURST; i++)
        expect(check(nodes[i % 2], path) == RATION_ALLOW, path, "a key must have five tokens");
    expect(check(nodes[0], path) == RATION_DENY, path, "the nodes do not share the bucket");
    expect(check(nodes[1], path) == RATION_DENY, path, "the nodes do not share the bucket");
    key[KEY_SIZE - 1] ^= 1;
    expect(check(nodes[0], path) == RATION_ALLOW, path, "the last byte of a key is ignored");
    key[KEY_SIZE - 1] ^= 1;
    expect(ration_engine_refund(nodes[1], op, 1, now_ns, &count) == RATION_OK && count == 1, path,
           "a refund fails");
    expect(check(nodes[0], path) == RATION_ALLOW, path, "a refund is for another bucket");
    expect(ration_engine_reset(nodes[0], op, now_ns, &count) == RATION_OK && count == 1, path,
           "a reset fails");
    expect(ration_engine_block_until(nodes[1], op, now_ns + RATION_NS_PER_HOUR, now_ns, &count) ==
                   RATION_OK &&
               count == 1,
           path, "a block fails");
    expect(check(nodes[0], path) == RATION_DENY, path, "a block is for another bucket");
    expect(ration_engine_reset(nodes[0], op, now_ns, &count) == RATION_OK && count == 1, path,
           "a reset fails");
    expect(check(nodes[1], path) == RATION_ALLOW, path, "a reset is for another bucket");
}

/* Leases and local buckets: together at most the burst and one token per node, and at least half the burst. */
static void check_in_memory(ration_engine *const nodes[2], const char *path)
{
    int allowed = 0;

    for (int i = 0; i < 60; i++)
        allowed += check(nodes[i % 2], path) == RATION_ALLOW;
    expect(allowed >= 8 && allowed <= 17, path, "the nodes do not share the bucket");
}

static uint64_t bytes_received(void)
{
    redisReply *reply = redisCommand(redis, "INFO stats");
    const char *field = strstr(reply->str, "total_net_input_bytes:");
    uint64_t bytes = strtoull(strchr(field, ':') + 1, NULL, 10);

    freeReplyObject(reply);
    return bytes;
}

static void check_names(void)
{
    redisReply *reply = redisCommand(redis, "KEYS *");

    if (reply->elements == 0)
        fail("Redis has no key");
    for (size_t i = 0; i < reply->elements; i++)
        if (reply->element[i]->len > NAME_SIZE_MAX)
            fail("a key in Redis is too long");
    printf("%zu names in Redis, each of at most %d bytes\n", reply->elements, NAME_SIZE_MAX);
    freeReplyObject(reply);
}

/* It was once 66 KB per check. */
static void check_sent(ration_engine *engine)
{
    uint64_t before, bytes;

    check(engine, "/bucket");
    before = bytes_received();
    for (int i = 0; i < CHECK_COUNT; i++) {
        memcpy(key, &i, sizeof(i));
        check(engine, "/bucket");
    }
    bytes = (bytes_received() - before) / CHECK_COUNT;
    printf("%" PRIu64 " bytes are sent for a check with a key of %d bytes\n", bytes, KEY_SIZE);
    if (bytes > CALL_BYTES_MAX)
        fail("the commands of a check are too long");
}

int main(int argument_count, char **arguments)
{
    static const char *const secrets[] = {NULL, "a secret that all nodes have"};
    static const char *const paths[] = {"/bucket", "/window", "/log", "/interval"};

    if (argument_count != 2)
        return 2;
    socket_path = arguments[1];
    redis = redisConnectUnix(socket_path);
    memset(key, 'k', sizeof(key));
    for (size_t i = 0; i < 2; i++) {
        ration_engine *const nodes[] = {make_engine(secrets[i]), make_engine(secrets[i])};

        for (size_t k = 0; k < sizeof(paths) / sizeof(paths[0]); k++)
            check_shared(nodes, paths[k]);
        check_in_memory(nodes, "/lease");
        check_in_memory(nodes, "/local");
        check_names();
        check_sent(nodes[0]);
        memset(key, 'k', sizeof(key));
        ration_engine_free(nodes[0]);
        ration_engine_free(nodes[1]);
    }
    redisFree(redis);
    return 0;
}
