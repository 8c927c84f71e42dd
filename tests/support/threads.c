#include "support/threads.h"

#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/random.h"
#include "ration/clock.h"

/* Long compared with a round (about 100 us), short compared with the time slice of another process. */
#define SPINS_MAX 2000

static void stop(const char *what)
{
    fprintf(stderr, "threads: %s\n", what);
    abort();
}

uint64_t threads_seed(const char *test_name)
{
    const char *given = getenv("RATION_TEST_SEED");
    uint64_t seed = 1;

    if (given != NULL)
        seed = strtoull(given, NULL, 0);
    else if (getrandom(&seed, sizeof(seed), 0) != (ssize_t)sizeof(seed))
        seed = 1;
    printf("%s: RATION_TEST_SEED=%" PRIu64 "\n", test_name, seed);
    fflush(stdout);
    return seed;
}

/* Barrier -------------------------------------------------------------------------------- */

static void relax(void)
{
#ifdef __x86_64__
    __builtin_ia32_pause();
#endif
}

void spin_barrier_init(struct spin_barrier *barrier, unsigned thread_count)
{
    *barrier = (struct spin_barrier){
        .thread_count = thread_count,
        .spins_max = thread_count > threads_cpu_count() ? 0 : SPINS_MAX,
    };
}

void spin_barrier_wait(struct spin_barrier *barrier)
{
    unsigned generation = __atomic_load_n(&barrier->generation, __ATOMIC_RELAXED);
    unsigned spins = 0;

    /* acquire and release: the last to arrive has seen what the others wrote */
    if (__atomic_add_fetch(&barrier->arrived_count, 1, __ATOMIC_ACQ_REL) == barrier->thread_count) {
        __atomic_store_n(&barrier->arrived_count, 0, __ATOMIC_RELAXED);
        /* release: pairs with the acquire below */
        __atomic_store_n(&barrier->generation, generation + 1, __ATOMIC_RELEASE);
        return;
    }
    while (__atomic_load_n(&barrier->generation, __ATOMIC_ACQUIRE) == generation) {
        if (spins++ < barrier->spins_max)
            relax();
        else
            sched_yield();
    }
}

/* Threads -------------------------------------------------------------------------------- */

unsigned threads_cpu_count(void)
{
    cpu_set_t cpus;

    if (sched_getaffinity(0, sizeof(cpus), &cpus) != 0)
        return 1;
    return (unsigned)CPU_COUNT(&cpus);
}

/* Pins the calling thread to the index-th of the CPUs it may use. */
static void pin(unsigned index)
{
    cpu_set_t cpus;
    cpu_set_t one;

    if (sched_getaffinity(0, sizeof(cpus), &cpus) != 0)
        stop("sched_getaffinity failed");
    CPU_ZERO(&one);
    for (unsigned cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (CPU_ISSET(cpu, &cpus) && index-- == 0) {
            CPU_SET(cpu, &one);
            break;
        }
    }
    if (sched_setaffinity(0, sizeof(one), &one) != 0)
        stop("sched_setaffinity failed");
}

struct starter {
    threads_function *function;
    void *context;
    unsigned index;
    bool is_pinned;
};

static void *start(void *context)
{
    const struct starter *starter = context;

    if (starter->is_pinned)
        pin(starter->index);
    starter->function(starter->context, starter->index);
    return NULL;
}

void threads_run(unsigned thread_count, threads_function *function, void *context)
{
    pthread_t threads[THREADS_COUNT_MAX];
    struct starter starters[THREADS_COUNT_MAX];
    bool is_pinned = thread_count <= threads_cpu_count();

    if (thread_count > THREADS_COUNT_MAX)
        stop("too many threads");
    for (unsigned i = 0; i < thread_count; i++) {
        starters[i] = (struct starter){function, context, i, is_pinned};
        if (pthread_create(&threads[i], NULL, start, &starters[i]) != 0)
            stop("pthread_create failed");
    }
    for (unsigned i = 0; i < thread_count; i++)
        pthread_join(threads[i], NULL);
}

/* Rounds --------------------------------------------------------------------------------- */

struct score {
    _Alignas(THREADS_LINE_BYTES) uint64_t count;
};

struct table {
    const struct rounds *rounds;
    struct spin_barrier barrier;
    struct score scores[THREADS_COUNT_MAX];
    struct totals totals;
    uint64_t end_ns;
    bool is_over;
};

static uint64_t monotonic_ns(void)
{
    struct ration_clock clock = ration_clock_monotonic();

    return ration_clock_now(&clock);
}

static void judge(struct table *table)
{
    const struct rounds *rounds = table->rounds;
    uint64_t total = 0;

    for (unsigned i = 0; i < rounds->thread_count; i++)
        total += table->scores[i].count;
    table->totals.round_count++;
    table->totals.bad_count += !rounds->holds(rounds->context, total);
}

static void open_round(struct table *table)
{
    table->is_over =
        table->totals.round_count == table->rounds->round_count || monotonic_ns() >= table->end_ns;
    if (!table->is_over)
        table->rounds->prepare(table->rounds->context);
}

static void play_all(void *context, unsigned thread_index)
{
    struct table *table = context;
    const struct rounds *rounds = table->rounds;

    for (;;) {
        if (thread_index == 0)
            open_round(table);
        spin_barrier_wait(&table->barrier);
        if (table->is_over)
            return;
        table->scores[thread_index].count = rounds->play(rounds->context, thread_index);
        spin_barrier_wait(&table->barrier);
        if (thread_index == 0)
            judge(table);
    }
}

struct totals rounds_run(const struct rounds *rounds)
{
    struct table table = {.rounds = rounds, .end_ns = monotonic_ns() + ROUNDS_TIME_NS_MAX};

    spin_barrier_init(&table.barrier, rounds->thread_count);
    threads_run(rounds->thread_count, play_all, &table);
    return table.totals;
}

/* Contest -------------------------------------------------------------------------------- */

struct contest contest_make(const char *limit_text, allow_function *allow, uint64_t seed)
{
    struct contest contest = {.allow = allow, .random = seed};

    if (ration_limit_parse(limit_text, &contest.limit, NULL) != RATION_OK)
        stop(limit_text);
    return contest;
}

void contest_prepare(void *context)
{
    struct contest *contest = context;

    /* any time of 146 years, so that states of one round are nonsense in the next */
    contest->now_ns = ration_random_next(&contest->random) >> 2;
    memset(&contest->bucket, 0, sizeof(contest->bucket));
}

static uint64_t try_burst(void *context, unsigned thread_index)
{
    struct contest *contest = context;
    uint64_t admitted = 0;

    (void)thread_index;
    for (uint64_t i = 0; i < contest->limit.burst; i++)
        admitted += contest->allow(&contest->bucket, &contest->limit, 1, contest->now_ns);
    return admitted;
}

static bool is_burst(void *context, uint64_t total)
{
    const struct contest *contest = context;

    return total == contest->limit.burst;
}

struct totals contest_run(struct contest *contest, unsigned thread_count, uint64_t round_count)
{
    return rounds_run(&(struct rounds){
        .thread_count = thread_count,
        .round_count = round_count,
        .context = contest,
        .prepare = contest_prepare,
        .play = try_burst,
        .holds = is_burst,
    });
}
