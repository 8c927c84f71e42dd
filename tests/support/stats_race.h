/*
 * stats_race: threads that write, and one more that reads repeatedly until they have finished.
 */
#ifndef RATION_TESTS_STATS_RACE_H
#define RATION_TESTS_STATS_RACE_H

#include <stdbool.h>

#include "support/threads.h"

#define WRITER_COUNT 8u

/* Attempts of a control, which other load on the machine may keep from failing. */
#define CONTROL_TRIES_MAX 5

typedef void race_write(void *context, unsigned thread_index);
typedef void race_read(void *context);

struct race {
    race_write *write;
    race_read *read;
    void *context;
    struct spin_barrier barrier;
    unsigned running_count;
};

static inline void race_part(void *context, unsigned thread_index)
{
    struct race *race = context;

    spin_barrier_wait(&race->barrier);
    if (thread_index < WRITER_COUNT) {
        race->write(race->context, thread_index);
        __atomic_sub_fetch(&race->running_count, 1, __ATOMIC_RELEASE);
        return;
    }
    while (__atomic_load_n(&race->running_count, __ATOMIC_ACQUIRE) > 0)
        race->read(race->context);
}

static inline void race_run(race_write *write, race_read *read, void *context)
{
    struct race race = {.write = write, .read = read, .context = context};

    race.running_count = WRITER_COUNT;
    spin_barrier_init(&race.barrier, WRITER_COUNT + 1);
    threads_run(WRITER_COUNT + 1, race_part, &race);
}

/* Whether a control must fail, not only run. */
static inline bool is_control_sure(void)
{
#ifdef __SANITIZE_THREAD__
    return false;
#else
    return threads_cpu_count() > 1;
#endif
}

#endif
