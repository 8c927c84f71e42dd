/*
 * Each allocation of an engine with Redis fails in turn: the creation succeeds or fails, checks are decided with or
 * without Redis or fail with RATION_ENOMEM, and nothing leaks. Decisions without a call to Redis need neither memory
 * nor a lock (R8).
 *
 *     redis_memory_test SOCKET
 */
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "ration/ration.h"
#include "unit/limiter/limiter_allocations.h"

#define CHECKS 12

static const char *const policy_texts[] = {
    "limits:\n"
    "  - {name: strict, match: {path: /strict}, key: user, rate: 100/s, max_keys: 100}\n"
    "  - {name: more, match: {path: /strict}, key: user, rate: 5/min sliding_window, max_keys: "
    "100}\n"
    "  - {name: lease, match: {path: /lease}, key: user, rate: 1000/s, redis_mode: lease, "
    "max_keys: 100}\n"
    "  - {name: near, match: {path: /near}, key: user, rate: 10/s, redis_mode: local_first, "
    "max_keys: 100}\n",

    "limits:\n"
    "  - {name: strict, match: {path: /strict}, key: user, rate: 90/s, max_keys: 100}\n"
    "  - {name: more, match: {path: /strict}, key: user, rate: 6/min sliding_window, max_keys: "
    "100}\n"
    "  - {name: lease, match: {path: /lease}, key: user, rate: 900/s, redis_mode: lease, max_keys: "
    "100}\n"
    "  - {name: near, match: {path: /near}, key: user, rate: 9/s, redis_mode: local_first, "
    "max_keys: 100}\n",
};

static char long_user[1000]; /* longer than the key buffer in a batch's entry */

static void fail(const char *what, uint64_t failed_index)
{
    fprintf(stderr, "%s, with allocation %" PRIu64 " failed\n", what, failed_index);
    exit(1);
}

static ration_policy *read_policy(size_t index)
{
    ration_policy *policy = NULL;

    (void)ration_policy_parse(policy_texts[index], strlen(policy_texts[index]), NULL, NULL,
                              &policy);
    return policy;
}

static void fill_request(struct ration_attribute *attributes, size_t number)
{
    static const char *const paths[] = {"/strict", "/lease", "/near"};
    static const char *const users[] = {"alice", long_user};
    const char *path = paths[number % 3], *user = users[number / 3 % 2];

    attributes[0] = (struct ration_attribute){{"path", 4}, {path, strlen(path)}};
    attributes[1] = (struct ration_attribute){{"user", 4}, {user, strlen(user)}};
}

static void check_all(ration_engine *engine, uint64_t failed_index)
{
    struct ration_attribute attributes[CHECKS][2];
    struct ration_check checks[CHECKS];

    for (size_t i = 0; i < CHECKS; i++) {
        fill_request(attributes[i], i);
        checks[i] = (struct ration_check){
            .attributes = attributes[i], .attribute_count = 2, .cost_tokens = 1};
    }
    ration_engine_check(engine, checks, CHECKS, ration_engine_now(engine));
    for (size_t i = 0; i < CHECKS; i++)
        if (checks[i].status != RATION_OK && checks[i].status != RATION_ENOMEM)
            fail("a check has another status", failed_index);
}

static void admin_all(ration_engine *engine, uint64_t failed_index)
{
    uint64_t now_ns = ration_engine_now(engine);
    struct ration_attribute attributes[2];
    struct ration_admin_op op = {.attributes = attributes, .attribute_count = 2};

    for (size_t i = 0; i < 3; i++) {
        ration_status statuses[3];

        fill_request(attributes, i);
        statuses[0] = ration_engine_refund(engine, &op, 1, now_ns, NULL);
        statuses[1] = ration_engine_block_until(engine, &op, now_ns + 1000, now_ns, NULL);
        statuses[2] = ration_engine_reset(engine, &op, now_ns, NULL);
        for (size_t k = 0; k < 3; k++)
            if (statuses[k] != RATION_OK && statuses[k] != RATION_ENOMEM &&
                statuses[k] != RATION_ESTORE)
                fail("an admin operation has another status", failed_index);
    }
}

static void use(ration_engine *engine, uint64_t failed_index)
{
    ration_policy *other;

    for (int i = 0; i < 3; i++)
        check_all(engine, failed_index);
    admin_all(engine, failed_index);
    other = read_policy(1);
    if (other != NULL && ration_engine_reload(engine, other, NULL, NULL, NULL) != RATION_OK)
        ration_policy_free(other);
    check_all(engine, failed_index);
    admin_all(engine, failed_index);
}

static void run(const struct ration_redis *redis, uint64_t failed_index)
{
    struct ration_engine_options options = {
        .struct_size = sizeof(options), .redis = redis, .inline_keys_max = 100};
    ration_policy *policy;
    ration_engine *engine;

    allocations.call_count = 0;
    allocations.fails_at = failed_index;
    policy = read_policy(0);
    if (policy != NULL) {
        ration_status status = ration_engine_create(&options, policy, &engine, NULL);

        if (status == RATION_OK) {
            use(engine, failed_index);
            ration_engine_free(engine);
        } else {
            ration_policy_free(policy);
            if (status != RATION_ENOMEM)
                fail("an engine failed for another reason", failed_index);
        }
    }
    allocations.fails_at = 0;
}

static uint64_t lock_count, poll_count;

int __real_pthread_mutex_lock(pthread_mutex_t *lock);
int __wrap_pthread_mutex_lock(pthread_mutex_t *lock);

int __wrap_pthread_mutex_lock(pthread_mutex_t *lock)
{
    lock_count++;
    return __real_pthread_mutex_lock(lock);
}

int __real_poll(struct pollfd *files, nfds_t count, int wait_ms);
int __wrap_poll(struct pollfd *files, nfds_t count, int wait_ms);

int __wrap_poll(struct pollfd *files, nfds_t count, int wait_ms)
{
    poll_count++;
    return __real_poll(files, count, wait_ms);
}

/* poll() with _FORTIFY_SOURCE. */
int __wrap___poll_chk(struct pollfd *files, nfds_t count, int wait_ms, size_t files_size);

int __wrap___poll_chk(struct pollfd *files, nfds_t count, int wait_ms, size_t files_size)
{
    (void)files_size;
    return __wrap_poll(files, count, wait_ms);
}

struct costs {
    uint64_t called; /* called Redis, or polled for its reply */
    uint64_t free;   /* took neither memory nor a lock */
    uint64_t heavy;
};

/* Classifies the checks of a path; a check that called Redis counts only as that. */
static struct costs measure(ration_engine *engine, const char *path, uint64_t check_count)
{
    struct ration_attribute attributes[2] = {{{"path", 4}, {path, strlen(path)}},
                                             {{"user", 4}, {"bob", 3}}};
    struct costs costs = {0};

    for (uint64_t i = 0; i < check_count; i++) {
        struct ration_check check = {
            .attributes = attributes, .attribute_count = 2, .cost_tokens = 1};
        uint64_t before = allocations.call_count + lock_count, polls_before = poll_count;

        ration_engine_check(engine, &check, 1, ration_engine_now(engine));
        if (check.status != RATION_OK || check.decision.verdict != RATION_ALLOW)
            fail("a check was not allowed", 0);
        if (poll_count != polls_before)
            costs.called++;
        else if (allocations.call_count + lock_count != before)
            costs.heavy++;
        else
            costs.free++;
    }
    return costs;
}

static void test_R8_local_decisions_take_no_memory_and_no_lock(const struct ration_redis *redis)
{
    static const char text[] =
        "limits:\n"
        "  - {name: strict, match: {path: /strict}, key: user, rate: 100000/s}\n"
        "  - {name: lease, match: {path: /lease}, key: user, rate: 100000/s, redis_mode: lease}\n"
        "  - {name: near, match: {path: /near}, key: user, rate: 100000/s, redis_mode: "
        "local_first}\n";
    struct ration_engine_options options = {.struct_size = sizeof(options), .redis = redis};
    struct costs in_memory, lease, strict;
    ration_policy *policy;
    ration_engine *engine = NULL;

    if (ration_policy_parse(text, strlen(text), NULL, NULL, &policy) != RATION_OK ||
        ration_engine_create(&options, policy, &engine, NULL) != RATION_OK)
        fail("no engine", 0);
    in_memory = measure(engine, "/near", 2000);
    lease = measure(engine, "/lease", 10000);
    strict = measure(engine, "/strict", 100);
    printf("free, heavy and called Redis: local-first %" PRIu64 " %" PRIu64 " %" PRIu64
           ", by leases %" PRIu64 " %" PRIu64 " %" PRIu64 ", strict %" PRIu64 " %" PRIu64
           " %" PRIu64 "\n",
           in_memory.free, in_memory.heavy, in_memory.called, lease.free, lease.heavy, lease.called,
           strict.free, strict.heavy, strict.called);
    /* How many ask for leases depends on how soon Redis answers; none is heavy without asking. */
    if (in_memory.free != 2000 || lease.heavy > 0 || lease.free < 1000 || strict.called != 100)
        fail("a decision is not free", 0);
    ration_engine_free(engine);
}

int main(int argument_count, char **arguments)
{
    char url[300];
    struct ration_redis redis = {.url = url};
    uint64_t failed_index = 0;

    if (argument_count != 2)
        return 2;
    snprintf(url, sizeof(url), "unix:%s", arguments[1]);
    memset(long_user, 'u', sizeof(long_user) - 1);
    test_R8_local_decisions_take_no_memory_and_no_lock(&redis);
    do {
        int64_t live_count = allocations.live_count;

        run(&redis, ++failed_index);
        if (allocations.live_count != live_count)
            fail("memory leaked", failed_index);
    } while (allocations.call_count >= failed_index);
    printf("%" PRIu64 " allocations failed in turn\n", failed_index - 1);
    return failed_index > 100 ? 0 : 1;
}
