/*
 * Readers of an object that a writer replaces, with more readers than shards, so that many readers share one shard:
 * no reader ever sees an object that was replaced before it entered and has been freed. With RATION_TESTS_CONTROL
 * the writer does not wait for the readers, and the test must catch that.
 */
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <time.h>

#include "engine/epoch.h"
#include "support/threads.h"
#include "support/unit.h"

#define THING_COUNT (2000 / THREADS_SHARE)

/* 0: not created yet. */
enum { THING_LIVE = 1, THING_FREED };

struct game {
    struct ration_epoch epoch;
    uint32_t things[THING_COUNT];
    uint32_t *current; /* one of them */
    unsigned thread_count;
    uint32_t reader_count; /* that have read at least once */
    uint32_t is_over;
    uint64_t freed_read_count; /* reads of things that were freed */
    uint64_t read_count;
    uint64_t too_long_count;
};

/* Begins once every reader has read. */
static void replace_all(struct game *game)
{
    while (__atomic_load_n(&game->reader_count, __ATOMIC_RELAXED) < game->thread_count - 1)
        sched_yield();
    for (size_t i = 1; i < THING_COUNT; i++) {
        uint32_t *old = game->current;

        __atomic_store_n(&game->things[i], THING_LIVE, __ATOMIC_RELAXED);
        __atomic_store_n(&game->current, &game->things[i], __ATOMIC_SEQ_CST);
        game->too_long_count += !ration_epoch_wait(&game->epoch);
        __atomic_store_n(old, THING_FREED, __ATOMIC_RELAXED);
        sched_yield();
    }
    __atomic_store_n(&game->is_over, 1, __ATOMIC_RELEASE);
}

static void read_current(struct game *game, bool enters_again)
{
    uint32_t phase = ration_epoch_enter(&game->epoch);
    const uint32_t *thing = __atomic_load_n(&game->current, __ATOMIC_SEQ_CST);

    sched_yield();
    if (enters_again) { /* like a check that Redis decides later: its guard outlives the first one */
        ration_epoch_enter_again(&game->epoch, phase);
        ration_epoch_leave(&game->epoch, phase);
        sched_yield();
    }
    if (__atomic_load_n(thing, __ATOMIC_RELAXED) != THING_LIVE)
        __atomic_fetch_add(&game->freed_read_count, 1, __ATOMIC_RELAXED);
    ration_epoch_add(&game->epoch, RATION_EPOCH_ERRORS);
    ration_epoch_leave(&game->epoch, phase);
}

static void play(void *context, unsigned thread_index)
{
    struct game *game = context;
    uint64_t read_count = 0;

    if (thread_index == 0) {
        replace_all(game);
        return;
    }
    do {
        read_current(game, read_count % 2 == 1);
        if (read_count++ == 0)
            __atomic_fetch_add(&game->reader_count, 1, __ATOMIC_RELAXED);
    } while (!__atomic_load_n(&game->is_over, __ATOMIC_ACQUIRE));
    __atomic_fetch_add(&game->read_count, read_count, __ATOMIC_RELAXED);
}

static struct game game;

static void run(void)
{
    unsigned thread_count;

    assert_int_equal(ration_epoch_init(&game.epoch), RATION_OK);
    thread_count = 2 * ration_shards_count(game.epoch.shards);
    if (thread_count > THREADS_COUNT_MAX)
        thread_count = THREADS_COUNT_MAX;
    assert_true(thread_count > ration_shards_count(game.epoch.shards));
    game.thread_count = thread_count;
    game.things[0] = THING_LIVE;
    game.current = &game.things[0];
    threads_run(thread_count, play, &game);
    print_message("  %u threads: %" PRIu64 " of %" PRIu64 " reads saw a freed thing\n",
                  thread_count, game.freed_read_count, game.read_count);
}

static void no_reader_sees_a_freed_object(void **state)
{
    (void)state;
    run();
#ifdef RATION_TESTS_CONTROL
    assert_true(game.freed_read_count > 10);
#else
    assert_int_equal(game.freed_read_count, 0);
    assert_int_equal(game.too_long_count, 0);
    assert_true(ration_epoch_wait(&game.epoch)); /* no reader is inside */
#endif
    /* and the shards' counters add up exactly */
    assert_int_equal(ration_epoch_read(&game.epoch, RATION_EPOCH_ERRORS), game.read_count);
    ration_epoch_done(&game.epoch);
}

#ifndef RATION_TESTS_CONTROL
/* The writer's thread: sets is_over when the wait is over. */
static void *wait_for_readers(void *context)
{
    struct game *writer = context;

    (void)ration_epoch_wait(&writer->epoch);
    __atomic_store_n(&writer->is_over, 1, __ATOMIC_RELEASE);
    return NULL;
}

static void wait_for_phase(const struct ration_epoch *epoch, uint32_t phase)
{
    while (__atomic_load_n(&epoch->phase, __ATOMIC_SEQ_CST) != phase)
        sched_yield();
}

/* A reader in the phase that the writer waits for last enters again: the writer waits for the second stay, too. */
static void the_writer_waits_for_a_reader_that_entered_again(void **state)
{
    struct game own = {.is_over = 0};
    pthread_t thread;
    uint32_t first, second;

    (void)state;
    assert_int_equal(ration_epoch_init(&own.epoch), RATION_OK);
    first = ration_epoch_enter(&own.epoch);
    assert_int_equal(pthread_create(&thread, NULL, wait_for_readers, &own), 0);
    wait_for_phase(&own.epoch, 1 - first);
    second = ration_epoch_enter(&own.epoch);
    assert_int_not_equal(second, first);
    ration_epoch_leave(&own.epoch, first);
    wait_for_phase(&own.epoch, first); /* now the writer waits for the second reader */
    ration_epoch_enter_again(&own.epoch, second);
    ration_epoch_leave(&own.epoch, second);
    for (int i = 0; i < 20; i++) /* the writer polls ten times as often */
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    assert_false(__atomic_load_n(&own.is_over, __ATOMIC_ACQUIRE));
    ration_epoch_leave(&own.epoch, second);
    pthread_join(thread, NULL);
    assert_true(own.is_over);
    ration_epoch_done(&own.epoch);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_reader_sees_a_freed_object),
#ifndef RATION_TESTS_CONTROL
        cmocka_unit_test(the_writer_waits_for_a_reader_that_entered_again),
#endif
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
