/*
 * One thread replaces the policy again and again while others check one key: exactly the burst of each round's key is
 * admitted, whatever policy decides, and what a guard has returned of a policy stays valid.
 *
 * The engine frees policies through this test. It overwrites the names of their limits and does not free them until the
 * end, so that a reader of a freed policy is noticed; with the address sanitizer it frees them at once, and the sanitizer
 * notices. In the control (RATION_TESTS_CONTROL) the writer does not wait for the readers; the test must catch that.
 *
 * Everything read through a guard is of one policy: its limits, its generation, and the results of checks. A second
 * control has guards that read the current policy each time (RATION_TESTS_CONTROL_GUARD).
 */
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ration/ration.h"
#include "support/threads.h"
#include "support/unit.h"

#define NOW_NS       (1000 * RATION_NS_PER_SECOND)
#define THREAD_COUNT 4 /* the first one reloads */
#ifdef RATION_TESTS_CONTROL_GUARD
#define ROUND_COUNT 100 /* the control is caught within the first */
#else
#define ROUND_COUNT (1500 / THREADS_SHARE)
#endif
#define RELOAD_COUNT 4 /* in a round */
#define BURST        4
#define TRIES_MIN    (2 * BURST)
#define KEPT_MAX     (ROUND_COUNT * RELOAD_COUNT + 1)

/* The same two limits in different orders, and others that are added, removed and changed. */
static const char *const texts[] = {
    "limits: [{name: one, key: ip, rate: 1/y, burst: 4}, "
    "{name: two, key: [user, ip], rate: 1/y, burst: 5}]",
    "limits: [{name: three, rate: 100M/s}, "
    "{name: two, key: [user, ip], rate: 1/y, burst: 5, overflow: deny}, "
    "{name: one, key: ip, rate: 1/y, burst: 4}]",
    "limits: [{name: two, key: [user, ip], rate: 1/y, burst: 5}, "
    "{name: three, key: user, rate: 200M/s, max_keys: 10}, {name: one, key: ip, rate: 1/y, burst: "
    "4}, "
    "{name: four, match: {user: nobody}, rate: 1/s}]",
};

#define TEXT_COUNT (sizeof(texts) / sizeof(texts[0]))

static const char overwritten = '!';

static ration_policy *kept[KEPT_MAX];
static size_t kept_count;

void __real_ration_policy_free(ration_policy *policy);
void __wrap_ration_policy_free(ration_policy *policy);

static void overwrite_names(const ration_policy *policy)
{
    for (size_t i = 0; i < ration_policy_limit_count(policy); i++) {
        char *name = (char *)(uintptr_t)ration_policy_limit_at(policy, i)->limit.name;

        __atomic_store_n(name, overwritten, __ATOMIC_RELAXED);
    }
}

void __wrap_ration_policy_free(ration_policy *policy)
{
    if (policy == NULL || kept_count == KEPT_MAX)
        abort();
    overwrite_names(policy);
#ifdef __SANITIZE_ADDRESS__
    __real_ration_policy_free(policy);
#else
    kept[kept_count++] = policy;
#endif
}

struct game {
    ration_engine *engine;
    uint64_t round_index;
    uint64_t reload_index;
    uint32_t is_over; /* this round's reloads are done */
    uint64_t stale_count;
    uint64_t mixed_count; /* guards that returned two policies */
    char ip[32];
    struct ration_attribute attributes[2];
};

/* Adds a limit with a new name: after some reloads it reuses the place of an older one. */
static ration_policy *parse(size_t index)
{
    const char *start = texts[index % TEXT_COUNT];
    ration_policy *policy = NULL;
    char text[512];

    snprintf(
        text, sizeof(text),
        "%.*s, {name: new-%zu, match: {user: u}, key: [ip, user], rate: 100M/s, max_keys: 100}]",
        (int)strlen(start) - 1, start, index);
    if (ration_policy_parse(text, strlen(text), NULL, NULL, &policy) != RATION_OK)
        abort();
    return policy;
}

static void prepare(void *context)
{
    struct game *game = context;
    uint64_t i = game->round_index++;

    snprintf(game->ip, sizeof(game->ip), "10.%u.%u.%u", (unsigned)(i >> 16 & 255),
             (unsigned)(i >> 8 & 255), (unsigned)(i & 255));
    game->attributes[0] = (struct ration_attribute){RATION_KEY("ip"), {game->ip, strlen(game->ip)}};
    game->attributes[1] = (struct ration_attribute){RATION_KEY("user"), RATION_KEY("u")};
    __atomic_store_n(&game->is_over, 0, __ATOMIC_RELAXED);
}

static uint64_t reload(struct game *game)
{
    for (int i = 0; i < RELOAD_COUNT; i++)
        if (ration_engine_reload(game->engine, parse(++game->reload_index), NULL, NULL, NULL) !=
            RATION_OK)
            abort();
    __atomic_store_n(&game->is_over, 1, __ATOMIC_RELEASE);
    return 0;
}

/* Whether the names that were returned have been overwritten after a while. */
static bool is_stale(const struct ration_check *check)
{
    bool is_any = false;

    for (uint32_t i = 0; i < check->part_count; i++)
        is_any |=
            __atomic_load_n(check->parts[i].limit->limit.name, __ATOMIC_RELAXED) == overwritten;
    return is_any;
}

/* Whether everything read through a guard is of the policy that it returned first. */
static bool is_of_one_policy(const struct ration_engine_guard *guard, const ration_policy *policy,
                             uint64_t generation, const struct ration_check *check)
{
    bool is_one =
        ration_engine_policy(guard) == policy && ration_engine_generation(guard) == generation;

    for (size_t i = 0; i < ration_policy_limit_count(policy); i++)
        is_one &= ration_engine_limiter(guard, i) != NULL;
    is_one &= ration_engine_limiter(guard, ration_policy_limit_count(policy)) == NULL;
    for (uint32_t i = 0; i < check->part_count && is_one; i++)
        is_one = check->parts[i].limit ==
                 ration_policy_limit_at(policy, check->parts[i].decision.limit_index);
    return is_one;
}

/* Calls that need no guard, while limiters are replaced. For the sanitizers. */
static void read_unguarded(const struct game *game)
{
    struct ration_engine_stats stats;

    ration_engine_read_stats(game->engine, &stats);
    if (ration_engine_bytes(game->engine) == 0)
        abort();
}

/* One check, by a thread that holds a guard and yields. */
static bool guard(struct game *game)
{
    struct ration_check_part parts[RATION_POLICY_MATCHES_MAX];
    struct ration_check check = {
        .attributes = game->attributes, .attribute_count = 2, .cost_tokens = 1, .parts = parts};
    struct ration_engine_guard guard;
    const ration_policy *policy;
    uint64_t generation;
    const char *name;

    read_unguarded(game);
    ration_engine_lock(game->engine, &guard);
    policy = ration_engine_policy(&guard);
    generation = ration_engine_generation(&guard);
    name = ration_policy_limit_at(policy, 0)->limit.name;
    ration_engine_check_guarded(&guard, &check, 1, NOW_NS);
    sched_yield();
    if (is_stale(&check) || __atomic_load_n(name, __ATOMIC_RELAXED) == overwritten)
        __atomic_fetch_add(&game->stale_count, 1, __ATOMIC_RELAXED);
    if (!is_of_one_policy(&guard, policy, generation, &check))
        __atomic_fetch_add(&game->mixed_count, 1, __ATOMIC_RELAXED);
    ration_engine_unlock(&guard);
    return check.status == RATION_OK && check.decision.verdict == RATION_ALLOW;
}

static uint64_t play(void *context, unsigned thread_index)
{
    struct game *game = context;
    uint64_t allowed_count = 0;

    if (thread_index == 0)
        return reload(game);
    for (int i = 0; i < TRIES_MIN || !__atomic_load_n(&game->is_over, __ATOMIC_ACQUIRE); i++)
        allowed_count += guard(game);
    return allowed_count;
}

static bool holds(void *context, uint64_t total)
{
    (void)context;
    return total == BURST;
}

static struct totals run(uint64_t *out_stale_count, uint64_t *out_mixed_count)
{
    struct ration_manual_clock manual = {NOW_NS};
    struct ration_clock clock = ration_clock_manual(&manual);
    struct ration_engine_options options = {.struct_size = sizeof(options),
                                            .clock = &clock,
                                            .inline_keys_max = 10,
                                            .spare_bytes = (size_t)1 << 30};
    struct game game = {.round_index = 0};
    struct rounds rounds = {.thread_count = THREAD_COUNT,
                            .round_count = ROUND_COUNT,
                            .context = &game,
                            .prepare = prepare,
                            .play = play,
                            .holds = holds};
    struct totals totals;

    assert_int_equal(ration_engine_create(&options, parse(0), &game.engine, NULL), RATION_OK);
    totals = rounds_run(&rounds);
    ration_engine_free(game.engine);
    while (kept_count > 0)
        __real_ration_policy_free(kept[--kept_count]);
    *out_stale_count = game.stale_count;
    *out_mixed_count = game.mixed_count;
    print_message("  %" PRIu64 " of %" PRIu64 " rounds wrong, %" PRIu64
                  " guards that returned a freed policy, %" PRIu64
                  " guards that returned two policies\n",
                  totals.bad_count, totals.round_count, game.stale_count, game.mixed_count);
    return totals;
}

#ifdef RATION_TESTS_CONTROL_GUARD
static void a_guard_that_does_not_protect_its_policy_is_caught(void **state)
{
    uint64_t stale_count, mixed_count;

    (void)state;
    (void)run(&stale_count, &mixed_count);
    assert_true(mixed_count > 10);
}
#elif defined(RATION_TESTS_CONTROL)
/* In a child, because a thread that reads freed memory may crash. */
static void a_writer_that_does_not_wait_is_caught(void **state)
{
    int status;
    pid_t child = fork();

    (void)state;
    assert_true(child >= 0);
    if (child == 0) {
        uint64_t stale_count, mixed_count;

        signal(SIGSEGV, SIG_DFL); /* cmocka has handlers of its own */
        signal(SIGBUS, SIG_DFL);
        (void)run(&stale_count, &mixed_count);
        _exit(stale_count > 10 ? 1 : 0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) || WEXITSTATUS(status) == 1);
}
#else
static void r1_r3_exactly_the_burst_whatever_policy_decides(void **state)
{
    uint64_t stale_count, mixed_count;
    struct totals totals;

    (void)state;
    totals = run(&stale_count, &mixed_count);
    assert_true(totals.round_count > 0);
    assert_int_equal(totals.bad_count, 0);
    assert_int_equal(stale_count, 0);
    assert_int_equal(mixed_count, 0);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
#ifdef RATION_TESTS_CONTROL_GUARD
        cmocka_unit_test(a_guard_that_does_not_protect_its_policy_is_caught),
#elif defined(RATION_TESTS_CONTROL)
        cmocka_unit_test(a_writer_that_does_not_wait_is_caught),
#else
        cmocka_unit_test(r1_r3_exactly_the_burst_whatever_policy_decides),
#endif
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
