/*
 * threads: threads that use one bucket at the same time, in many rounds.
 *
 * A race lasts for a few nanoseconds, so a million calls per thread may never hit it: the threads drift apart. Here they
 * play many short rounds instead. All wait at a spin barrier, make a few calls, and wait again while one of them checks
 * the result. A barrier that sleeps would wake its threads one after the other, microseconds apart; one that spins
 * releases them within the time of a cache miss.
 *
 *     prepare -> barrier -> play, all at once -> barrier -> holds? -> prepare -> ...
 *
 * Nothing here needs a test library: the benchmark of two threads uses it too.
 */
#ifndef RATION_TESTS_SUPPORT_THREADS_H
#define RATION_TESTS_SUPPORT_THREADS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/atomic16.h"
#include "base/yield.h"
#include "core/algorithm.h"
#include "ration/bucket.h"

#define THREADS_COUNT_MAX 128

/* The distance between memory that two threads write, so that they do not share a cache line. */
#define THREADS_LINE_BYTES 64

/* Under sanitizers, or unoptimised, a call takes many times as long. */
#ifdef RATION_TESTS_SHORT
#define THREADS_SHARE 20
#else
#define THREADS_SHARE 1
#endif

/* The seed of this run: RATION_TEST_SEED if set, else a new one. Printed, to run it again. */
uint64_t threads_seed(const char *test_name);

/* CPUs that this process may use. */
unsigned threads_cpu_count(void);

struct spin_barrier {
    _Alignas(THREADS_LINE_BYTES) unsigned arrived_count;
    _Alignas(THREADS_LINE_BYTES) unsigned generation;
    unsigned thread_count;
    unsigned spins_max; /* then it gives up its CPU, for which the others may be waiting */
};

void spin_barrier_init(struct spin_barrier *barrier, unsigned thread_count);

/* Returns when all threads have called it. Their earlier writes are visible afterwards. */
void spin_barrier_wait(struct spin_barrier *barrier);

typedef void threads_function(void *context, unsigned thread_index);

/*
 * Calls function on thread_count threads and returns when all have ended. Each is pinned to a
 * CPU of its own if there are that many; else none is pinned.
 */
void threads_run(unsigned thread_count, threads_function *function, void *context);

struct rounds {
    unsigned thread_count;
    uint64_t round_count;
    void *context;                                          /* borrowed for the call */
    void (*prepare)(void *context);                         /* alone, before each round */
    uint64_t (*play)(void *context, unsigned thread_index); /* all at once */
    bool (*holds)(void *context, uint64_t total); /* alone; the sum of the results of play */
};

/* How many rounds were played, and how many of them failed. */
struct totals {
    uint64_t round_count;
    uint64_t bad_count;
};

/* If other processes use the same CPUs a round may take milliseconds: then fewer rounds are played. */
#define ROUNDS_TIME_NS_MAX UINT64_C(8000000000)

/* Plays the rounds, as many as ROUNDS_TIME_NS_MAX allows. */
struct totals rounds_run(const struct rounds *rounds);

/* ration_bucket_allow_at(), or a wrong replacement. */
typedef bool allow_function(struct ration_bucket *bucket, const struct ration_limit *limit,
                            uint64_t cost_tokens, uint64_t now_ns);

/* A full bucket, a clock that does not advance, and every thread trying to take the whole burst. */
struct contest {
    _Alignas(THREADS_LINE_BYTES) struct ration_bucket bucket;
    _Alignas(THREADS_LINE_BYTES) struct ration_limit limit;
    allow_function *allow;
    uint64_t now_ns; /* differs in each round */
    uint64_t random;
};

struct contest contest_make(const char *limit_text, allow_function *allow, uint64_t seed);

/* Plays up to round_count rounds; a round fails if not exactly the burst was admitted. */
struct totals contest_run(struct contest *contest, unsigned thread_count, uint64_t round_count);

/* Fills the bucket and moves the clock: the contest's prepare, for other rounds to share. */
void contest_prepare(void *contest);

/*
 * The negative control: a likely mistake in ration_bucket_allow_at(). It checks, then acts, each atomically, but
 * overwrites changes made in between. It swaps until a swap succeeds, so that the thread sanitizer does not report it.
 */
static inline bool racy_allow_at(struct ration_bucket *bucket, const struct ration_limit *limit,
                                 uint64_t cost_tokens, uint64_t now_ns)
{
    struct ration_pair *pair = (struct ration_pair *)(void *)bucket;
    struct ration_pair seen = ration_atomic16_load(pair);
    union ration_state state = {.words = {seen.words[0], seen.words[1]}};
    struct ration_step step = ration_algorithm_take(limit, state, cost_tokens, 0, now_ns);
    struct ration_pair next = {{step.next.words[0], step.next.words[1]}};

    if (step.verdict != RATION_ALLOW)
        return false;
    ration_yield_point();
    while (!ration_atomic16_swap(pair, &seen, next)) {
    }
    return true;
}

#endif
