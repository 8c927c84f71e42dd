/*
 * Processes are killed at random while others continue (R1, R2, R11).
 *
 *     random_kill_test [KILLS [SECONDS [caught]]]
 *
 * "caught" is for a negative control: the test must find a failure.
 *
 * Two processes make random calls on the same tables, with a clock that does not advance, and record each call before it
 * and its verdict after it. A timer kills one of them. Then the other pauses, and every bucket must match the records:
 * all admitted calls, and either everything or nothing of the call in which the process died. Two hours later, when
 * all buckets are full again, another process starts. The tables are never created again, and have two descriptors.
 *
 * The expected values are computed here, not by another run of the library.
 */
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/random.h"
#include "ration/ration.h"
#include "support/threads.h"

#define KILLS        10000
#define SECONDS_MAX  10
#define RECORDS_MAX  500
#define HOT_KEYS     6
#define KEYS_MAX     1100 /* more than all hot and new keys of a round */
#define DESCRIPTORS  2
#define LIFE_NS_MAX  100000
#define PAUSE_NS_MAX UINT64_C(20000000000)
#define RULES_MAX    3
#define TABLES       3

/* Tables: the single limiter, then those of the stack. */
static const char *const rules[TABLES][RULES_MAX + 1] = {
    {"1000/h burst 400"},
    {"1000/h burst 500"},
    {"1000/h burst 400", "900/h burst 500", "5000/h burst 450"},
};

static const uint64_t bursts[TABLES][RULES_MAX] = {{400}, {500}, {400, 500, 450}};

enum call { CALL_PLAIN, CALL_ENTRY, CALL_STACK, CALL_STACK_REPORTED, CALL_TWO_KEYS, CALL_COUNT };
enum state { BEGUN = 1, ALLOWED, DENIED };

struct record {
    uint32_t call;
    uint32_t keys[2];
    uint32_t cost;
    uint32_t state;
};

/* The tables and keys from which a call takes. TABLES: none. */
static const struct charge {
    uint32_t table;
    uint32_t key_index;
} charges[CALL_COUNT][2] = {
    [CALL_PLAIN] = {{0, 0}, {TABLES, 0}}, [CALL_ENTRY] = {{2, 0}, {TABLES, 0}},
    [CALL_STACK] = {{1, 0}, {2, 0}},      [CALL_STACK_REPORTED] = {{1, 0}, {2, 0}},
    [CALL_TWO_KEYS] = {{1, 0}, {2, 1}},
};

struct worker {
    uint64_t random;
    uint32_t record_count;
    struct record records[RECORDS_MAX];
};

static struct shared {
    uint64_t now_ns;
    uint32_t round;
    uint32_t pause;           /* 0, or the survivor is to pause for the n-th time ... */
    uint32_t pausing;         /* ... and has begun to */
    struct worker workers[2]; /* 0 survives */
} * shared;

static ration_limiter *limiters[TABLES];
static ration_stack *stack;
static struct ration_manual_clock still;

static bool is_control;

static void fail(const char *what)
{
    printf("%s: %s\n", is_control ? "caught" : "FAILED", what);
    exit(is_control ? 0 : 1);
}

/* Calls. ------------------------------------------------------------------------------------ */

struct key {
    uint32_t words[2];
};

static struct key key_of(uint32_t number)
{
    return (struct key){{number, shared->round}};
}

static bool make_call(const struct record *record)
{
    struct key bytes[2] = {key_of(record->keys[0]), key_of(record->keys[1])};
    struct ration_key keys[2] = {{&bytes[0], sizeof(bytes[0])}, {&bytes[1], sizeof(bytes[1])}};
    struct ration_decision decision = {.verdict = RATION_DENY};
    struct ration_stack_request asks[2] = {{0, &keys[0], record->cost},
                                           {1, &keys[1], record->cost}};
    uint64_t now_ns = shared->now_ns;

    switch (record->call) {
    case CALL_PLAIN:
        return ration_limiter_allow_at(limiters[0], &keys[0], record->cost, now_ns);
    case CALL_ENTRY:
        return ration_limiter_allow_at(limiters[2], &keys[0], record->cost, now_ns);
    case CALL_STACK:
        return ration_stack_allow_at(stack, &keys[0], record->cost, now_ns);
    case CALL_STACK_REPORTED:
        ration_stack_take(stack, &keys[0], record->cost, now_ns, &decision, NULL);
        return decision.verdict == RATION_ALLOW;
    default:
        ration_stack_take_all(stack, asks, 2, now_ns, &decision);
        return decision.verdict == RATION_ALLOW;
    }
}

/* A key that all use, or a new key. */
static uint32_t random_key(struct worker *worker, uint32_t worker_index)
{
    if (ration_random_up_to(&worker->random, 3) != 0)
        return (uint32_t)ration_random_up_to(&worker->random, HOT_KEYS - 1);
    return HOT_KEYS + 2 * worker->record_count + worker_index;
}

static void work(struct worker *worker, uint32_t worker_index)
{
    struct record *record = &worker->records[worker->record_count];

    *record = (struct record){
        .call = (uint32_t)ration_random_up_to(&worker->random, CALL_COUNT - 1),
        .keys = {random_key(worker, worker_index), random_key(worker, worker_index)},
        .cost = 1 + (uint32_t)ration_random_up_to(&worker->random, 2),
        .state = BEGUN,
    };
    /* release: a reader of the count sees the record */
    __atomic_store_n(&worker->record_count, worker->record_count + 1, __ATOMIC_RELEASE);

    bool allowed = make_call(record);

    __atomic_store_n(&record->state, allowed ? ALLOWED : DENIED, __ATOMIC_RELEASE);
}

static void survive(void)
{
    struct worker *worker = &shared->workers[0];

    for (;;) {
        uint32_t pause = __atomic_load_n(&shared->pause, __ATOMIC_ACQUIRE);

        if (pause > 0)
            __atomic_store_n(&shared->pausing, pause, __ATOMIC_RELEASE);
        if (pause > 0 || worker->record_count == RECORDS_MAX)
            sched_yield();
        else
            work(worker, 0);
    }
}

/* The timer kills the process while it runs: no other process needs a CPU for that. */
static void live_and_die(void)
{
    struct worker *worker = &shared->workers[1];
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGKILL};
    uint64_t life_ns = 1 + ration_random_up_to(&worker->random, LIFE_NS_MAX);
    struct itimerspec life = {.it_value = {.tv_nsec = (long)life_ns}};
    timer_t timer;

    if (timer_create(CLOCK_MONOTONIC, &event, &timer) != 0)
        fail("timer_create");
    __atomic_store_n(&shared->pause, 0, __ATOMIC_RELEASE); /* both start at the same time */
    timer_settime(timer, 0, &life, NULL);
    for (;;)
        if (worker->record_count < RECORDS_MAX)
            work(worker, 1);
}

static pid_t give_birth(void (*live)(void))
{
    pid_t pid;

    fflush(stdout);
    pid = fork();
    if (pid < 0)
        fail("fork");
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        live();
    }
    return pid;
}

/* Checks. ----------------------------------------------------------------------------------- */

static uint64_t taken[TABLES][KEYS_MAX];
static bool is_touched[TABLES][KEYS_MAX];

static void add(const struct record *record, uint64_t tokens)
{
    for (size_t i = 0; i < 2; i++) {
        struct charge charge = charges[record->call][i];

        if (charge.table < TABLES) {
            taken[charge.table][record->keys[charge.key_index]] += tokens;
            is_touched[charge.table][record->keys[charge.key_index]] = true;
        }
    }
}

static bool is_reported(uint32_t table, uint32_t number)
{
    struct key bytes = key_of(number);
    struct ration_key key = {&bytes, sizeof(bytes)};
    struct ration_decision decision;
    struct ration_decision details[RATION_RULES_MAX];

    if (ration_limiter_peek(limiters[table], &key, 1, shared->now_ns, &decision, details) !=
        RATION_OK)
        return false;
    for (size_t i = 0; i < RULES_MAX && bursts[table][i] > 0; i++)
        if (details[i].remaining + taken[table][number] != bursts[table][i])
            return false;
    return true;
}

/* Whether every bucket that was used matches the records. */
static bool is_all_reported(void)
{
    for (uint32_t t = 0; t < TABLES; t++)
        for (uint32_t k = 0; k < KEYS_MAX; k++)
            if (is_touched[t][k] && !is_reported(t, k))
                return false;
    return true;
}

struct count {
    uint64_t kills;
    uint64_t calls;
    uint64_t inside; /* killed within a call ... */
    uint64_t done;   /* ... that had taken its tokens, or was finished by others */
};

static void explain(const struct record *record)
{
    printf("call %u, keys %u and %u, cost %u, state %u, round %u\n", record->call, record->keys[0],
           record->keys[1], record->cost, record->state, shared->round);
    for (uint32_t t = 0; t < TABLES; t++)
        for (uint32_t k = 0; k < KEYS_MAX; k++)
            if (is_touched[t][k] && !is_reported(t, k))
                printf("table %u key %u: not %" PRIu64 " taken\n", t, k, taken[t][k]);
}

static void check(struct count *count)
{
    struct worker *dead = &shared->workers[1];
    struct record none = {0};
    struct record *last = dead->record_count > 0 ? &dead->records[dead->record_count - 1] : &none;

    memset(taken, 0, sizeof(taken));
    memset(is_touched, 0, sizeof(is_touched));
    for (size_t w = 0; w < 2; w++)
        for (uint32_t r = 0; r < shared->workers[w].record_count; r++) {
            const struct record *record = &shared->workers[w].records[r];

            count->calls++;
            add(record, record->state == ALLOWED ? record->cost : 0);
        }
    if (last->state == BEGUN)
        count->inside++;
    if (is_all_reported())
        return;
    if (last->state == BEGUN) {
        add(last, last->cost);
        count->done++;
        if (is_all_reported())
            return;
    }
    explain(last);
    fail("a bucket does not match the records");
}

/* Rounds. ----------------------------------------------------------------------------------- */

static void wait_for_survivor(uint32_t pause)
{
    uint64_t end_ns = ration_clock_default_now() + PAUSE_NS_MAX;

    __atomic_store_n(&shared->pause, pause, __ATOMIC_RELEASE);
    while (__atomic_load_n(&shared->pausing, __ATOMIC_ACQUIRE) != pause) {
        if (ration_clock_default_now() > end_ns)
            fail("the survivor hangs");
        sched_yield();
    }
}

static void kill_one(uint64_t *random, struct count *count)
{
    pid_t pid;
    int status;

    shared->round++;
    shared->now_ns += 2 * RATION_NS_PER_HOUR;
    shared->workers[0].record_count = 0;
    shared->workers[1].record_count = 0;
    shared->workers[1].random = ration_random_next(random);
    pid = give_birth(live_and_die);
    if (waitpid(pid, &status, 0) != pid || !WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
        fail("a process was not killed by the timer");
    count->kills++;
    wait_for_survivor((uint32_t)count->kills);
    check(count);
}

static void create(void)
{
    static struct ration_rule parsed[TABLES][RULES_MAX];
    struct ration_limiter_options options[TABLES];
    struct ration_clock clock = ration_clock_manual(&still);

    for (size_t t = 0; t < TABLES; t++) {
        size_t count = 0;

        for (; rules[t][count] != NULL; count++)
            if (ration_limit_parse(rules[t][count], &parsed[t][count].limit, NULL) != RATION_OK)
                fail(rules[t][count]);
        options[t] = (struct ration_limiter_options){
            .struct_size = sizeof(options[t]),
            .rules = parsed[t],
            .rule_count = count,
            .keys_max = KEYS_MAX,
            .clock = &clock,
            .is_shared_by_forks = 1,
            .threads_max = DESCRIPTORS,
        };
    }

    struct ration_stack_options all = {
        .struct_size = sizeof(all),
        .limiters = &options[1],
        .limiter_count = TABLES - 1,
        .clock = &clock,
        .is_shared_by_forks = 1,
        .threads_max = DESCRIPTORS,
    };

    if (ration_limiter_create(&options[0], &limiters[0], NULL) != RATION_OK ||
        ration_stack_create(&all, &stack, NULL) != RATION_OK)
        fail("the table cannot be created");
    for (size_t t = 1; t < TABLES; t++)
        limiters[t] = ration_stack_limiter(stack, t - 1);
}

int main(int argc, char **argv)
{
    uint64_t kills = argc > 1 ? strtoull(argv[1], NULL, 0) : KILLS;
    uint64_t seconds = argc > 2 ? strtoull(argv[2], NULL, 0) : SECONDS_MAX;
    uint64_t random = threads_seed("random_kill_test");
    uint64_t began_ns = ration_clock_default_now();
    struct count count = {0};
    pid_t survivor;

    is_control = argc > 3;
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        fail("mmap");
    create();
    shared->workers[0].random = ration_random_next(&random);
    shared->pause = UINT32_MAX;
    survivor = give_birth(survive);
    while (count.kills < kills &&
           ration_clock_default_now() - began_ns < seconds * RATION_NS_PER_SECOND)
        kill_one(&random, &count);
    kill(survivor, SIGKILL);
    waitpid(survivor, NULL, 0);
    printf("%" PRIu64 " kills, %" PRIu64 " within a call, of which %" PRIu64
           " had taken effect; %" PRIu64 " calls; %.1f s\n",
           count.kills, count.inside, count.done, count.calls,
           (double)(ration_clock_default_now() - began_ns) / 1e9);
    return is_control;
}
