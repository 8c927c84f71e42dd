/*
 * R8: a check takes no memory and no lock, and makes no system call. Also the effect of fork() on an engine.
 */
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/random.h"
#include "unit/engine/engine_kit.h"
#include "unit/limiter/limiter_allocations.h"

/* Locks that were taken, and sleeps. The linker sends the library's calls here. */
static uint64_t wait_count;

int __real_pthread_mutex_lock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex);
int __real_pthread_mutex_trylock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_trylock(pthread_mutex_t *mutex);
int __wrap_nanosleep(const struct timespec *wanted, struct timespec *left);

int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex)
{
    wait_count++;
    return __real_pthread_mutex_lock(mutex);
}

int __wrap_pthread_mutex_trylock(pthread_mutex_t *mutex)
{
    wait_count++;
    return __real_pthread_mutex_trylock(mutex);
}

int __wrap_nanosleep(const struct timespec *wanted, struct timespec *left)
{
    (void)wanted, (void)left;
    wait_count++;
    return 0; /* time passes quickly here */
}

/* Requests that meet several limits, none, one that is a queue, and both lists. */
static const char text[] =
    "limits:\n"
    "  - {name: a, match: {path: {prefix: /a}}, key: ip, rate: 10/h, max_keys: 20}\n"
    "  - {name: b, match: {path: /ab}, key: [user, ip], rate: 5/h, algorithm: sliding_window}\n"
    "  - {name: c, match: {path: /ab}, rate: 500/h, algorithm: sliding_log, shadow: true}\n"
    "  - {name: d, match: {path: /ab}, key: user, rate: 7/h, start: empty, cost: tokens}\n"
    "  - {name: q, match: {path: /q}, key: ip, rate: 1/s, burst: 3, algorithm: leaky_queue}\n"
    "exempt: [{user: root}]\n"
    "banned: [{user: mallory}]\n";

static const char *const requests[] = {
    "path=/a ip=192.0.2.%d user=u",
    "path=/ab ip=2001:db8:0:%d::1 user=u",
    "path=/ab ip=192.0.2.%d tokens=3",
    "path=/ab ip=192.0.2.%d tokens=nonsense",
    "path=/q ip=192.0.2.%d",
    "path=/z ip=192.0.2.%d",
    "path=/ab ip=192.0.2.%d user=root",
    "path=/ab ip=192.0.2.%d user=mallory",
    "path=/ab ip=nonsense%d",
};

#define REQUEST_COUNT KIT_COUNT_OF(requests)
#define BATCH         40

static struct engine_kit_request built[BATCH];

/* Many checks at once, with and without parts, and every admin operation. */
static void call_everything(struct engine_kit *kit, uint64_t *random)
{
    struct ration_check_part parts[RATION_POLICY_MATCHES_MAX];
    struct ration_check checks[BATCH];
    struct ration_engine_stats stats;
    struct ration_engine_guard guard;
    size_t count;

    for (size_t i = 0; i < BATCH; i++)
        checks[i] = (struct ration_check){.attributes = built[i].attributes,
                                          .attribute_count = built[i].count,
                                          .cost_tokens = ration_random_up_to(random, 2),
                                          .is_peek = ration_random_up_to(random, 9) == 0,
                                          .parts = i % 2 == 0 ? parts : NULL};
    ration_engine_lock(kit->engine, &guard);
    ration_engine_check_guarded(&guard, checks, BATCH, kit->manual.ns);
    ration_engine_check(kit->engine, checks, 1, kit->manual.ns);
    for (size_t i = 0; i < BATCH; i += 7) {
        struct ration_admin_op op = {.attributes = built[i].attributes,
                                     .attribute_count = built[i].count};

        ration_engine_refund(kit->engine, &op, 1, kit->manual.ns, &count);
        ration_engine_block_until(kit->engine, &op, kit->manual.ns + 9, kit->manual.ns, &count);
        ration_engine_reset(kit->engine, &op, kit->manual.ns, &count);
    }
    ration_engine_read_stats(kit->engine, &stats);
    (void)ration_engine_limiter(&guard, 0);
    ration_engine_unlock(&guard);
}

static void build_requests(uint64_t *random)
{
    for (size_t i = 0; i < BATCH; i++) {
        char room[128];

        snprintf(room, sizeof(room), requests[ration_random_up_to(random, REQUEST_COUNT - 1)],
                 (int)ration_random_up_to(random, 99));
        engine_kit_request(&built[i], room);
    }
}

static void r8_no_check_takes_memory_or_a_lock(void **state)
{
    uint64_t random = 1, call_count, waits;
    struct engine_kit kit;

    (void)state;
    engine_kit_open(&kit, text);
    assert_true(allocations.call_count > 0);
    for (int i = 0; i < 2000 / KIT_SHARE; i++) {
        build_requests(&random);
        kit.manual.ns += ration_random_up_to(&random, 50 * MS);
        call_count = allocations.call_count;
        waits = wait_count;
        call_everything(&kit, &random);
        assert_int_equal(allocations.call_count, call_count);
        assert_int_equal(wait_count, waits);
        if (i % 100 == 0)
            engine_kit_reload(&kit, text);
    }
    assert_true(wait_count > 0); /* a reload's lock: what counts them works */
    engine_kit_close(&kit);
    assert_int_equal(allocations.live_count, 0);
}

/* Runs checks where any system call but this exit is death. Returns what the child died of, or 0. */
static int check_without_system_calls(struct engine_kit *kit, bool makes_one)
{
    int status;
    pid_t child = fork();

    assert_true(child >= 0);
    if (child == 0) {
        uint64_t random = 7;

        setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
        if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) != 0)
            _exit(77);
        for (int i = 0; i < 200; i++)
            call_everything(kit, &random);
        if (makes_one)
            (void)getppid();
        syscall(SYS_exit, 0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFSIGNALED(status))
        return WTERMSIG(status);
    return WEXITSTATUS(status);
}

static void r8_no_check_makes_a_system_call(void **state)
{
    uint64_t random = 3;
    struct engine_kit kit;
    int died_of;

    (void)state;
#ifdef __SANITIZE_THREAD__
    skip(); /* it makes some */
#endif
    engine_kit_open(&kit, text);
    build_requests(&random);
    died_of = check_without_system_calls(&kit, true);
    if (died_of == 77) {
        engine_kit_close(&kit);
        skip(); /* the system does not offer it */
    }
    assert_int_equal(died_of, SIGKILL);
    assert_int_equal(check_without_system_calls(&kit, false), 0);
    engine_kit_close(&kit);
}

/* Forks while a thread holds the lock on the policy: in the child no thread owns it. */
static ration_status fork_and_reload(void *context, const void *bytes, size_t size)
{
    struct engine_kit *kit = context;
    int status;
    pid_t child = fork();

    (void)bytes, (void)size;
    if (child == 0) {
        alarm(20);
        _exit(ration_engine_reload(kit->engine, engine_kit_policy(text), NULL, NULL, NULL) ==
                      RATION_OK
                  ? 0
                  : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    return RATION_ECLOSED; /* once is enough */
}

static void a_child_does_not_wait_for_a_thread_it_has_not(void **state)
{
    struct engine_kit kit;

    (void)state;
    engine_kit_open(&kit, text);
    assert_int_equal(ration_engine_save(kit.engine, KIT_NOW_NS, fork_and_reload, &kit),
                     RATION_ECLOSED);
    engine_kit_close(&kit);
}

/* A guard is held for longer than a reload waits: the policy stays, and is freed after the guard is unlocked. */
static void a_policy_in_use_is_released_later(void **state)
{
    const struct ration_policy_limit *seen[3];
    struct ration_engine_guard guards[3];
    struct engine_kit kit;
    int64_t live_count;

    (void)state;
    engine_kit_open(&kit, text);
    engine_kit_reload(&kit, text);
    live_count = allocations.live_count;
    for (int i = 0; i < 3; i++) { /* guards that lie in each other, and in reloads */
        ration_engine_lock(kit.engine, &guards[i]);
        seen[i] = ration_policy_limit_at(ration_engine_policy(&guards[i]), 1);
        engine_kit_reload(&kit, text);
    }
    for (int i = 0; i < 3; i++) {
        assert_string_equal(seen[i]->limit.name, "b");
        assert_string_equal(seen[i]->key_names[0], "user");
    }
    assert_true(allocations.live_count > live_count);
    for (int i = 0; i < 3; i++)
        ration_engine_unlock(&guards[i]);
    engine_kit_reload(&kit, text);
    assert_int_equal(allocations.live_count, live_count);
    /* or with the engine */
    ration_engine_lock(kit.engine, &guards[0]);
    engine_kit_reload(&kit, text);
    ration_engine_unlock(&guards[0]);
    engine_kit_close(&kit);
    assert_int_equal(allocations.live_count, 0);
}

/* While a guard protects a policy, no new limit replaces one of its limits. */
static void limits_that_a_guard_holds_are_not_replaced(void **state)
{
    struct engine_kit_request request;
    struct ration_engine_guard guard;
    struct ration_check check;
    struct engine_kit kit;

    (void)state;
    engine_kit_open(&kit, "limits: [{name: a, key: ip, rate: 10/h, max_keys: 100}]");
    engine_kit_ask(&kit, "ip=192.0.2.1", 9, 0);
    ration_engine_lock(kit.engine, &guard);
    for (unsigned i = 0; i < 30; i++) {
        char other[96];

        snprintf(other, sizeof(other), "limits: [{name: o%u, key: ip, rate: 99/h, max_keys: 100}]",
                 i);
        engine_kit_reload(&kit, other);
    }
    engine_kit_request(&request, "ip=192.0.2.1");
    check = (struct ration_check){
        .attributes = request.attributes, .attribute_count = request.count, .cost_tokens = 1};
    ration_engine_check_guarded(&guard, &check, 1, KIT_NOW_NS);
    assert_string_equal(check.limit->limit.name, "a");
    assert_int_equal(check.decision.limit, 10);
    assert_int_equal(check.decision.remaining, 0);
    assert_string_equal(ration_limiter_name(ration_engine_limiter(&guard, 0)), "a");
    ration_engine_unlock(&guard);
    engine_kit_close(&kit);
}

static void a_child_decides_for_itself(void **state)
{
    struct engine_kit kit;
    int status;
    pid_t child;

    (void)state;
    engine_kit_open(&kit, "limits: [{name: a, key: ip, rate: 10/h}]");
    engine_kit_ask(&kit, "ip=192.0.2.1", 3, 0);
    child = fork();
    if (child == 0)
        _exit((int)engine_kit_ask(&kit, "ip=192.0.2.1", 5, 0).decision.remaining);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(WEXITSTATUS(status), 2);
    assert_int_equal(engine_kit_left(&kit, "ip=192.0.2.1"), 7);
    engine_kit_close(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(r8_no_check_takes_memory_or_a_lock),
        cmocka_unit_test(r8_no_check_makes_a_system_call),
        cmocka_unit_test(a_child_does_not_wait_for_a_thread_it_has_not),
        cmocka_unit_test(a_policy_in_use_is_released_later),
        cmocka_unit_test(limits_that_a_guard_holds_are_not_replaced),
        cmocka_unit_test(a_child_decides_for_itself),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
