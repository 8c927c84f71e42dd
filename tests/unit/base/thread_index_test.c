/* Numbers of threads: dense, one thread each, back when it ends, and right after fork(). */
#include "base/thread_index.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/unit.h"

#define CROWD_COUNT 32
#define MANY_COUNT  (RATION_THREADS_MAX + 40)
#define STACK_BYTES (128 * 1024)

/* A thread that reports its number, and runs until the test lets it end. */
struct guest {
    pthread_t thread;
    uint32_t index;
    uint32_t again;
};

static pthread_barrier_t all_numbered;
static pthread_barrier_t all_checked;

static void *stay(void *context)
{
    struct guest *guest = context;

    guest->index = ration_thread_index();
    pthread_barrier_wait(&all_numbered);
    pthread_barrier_wait(&all_checked);
    guest->again = ration_thread_index();
    return NULL;
}

static void guests_come(struct guest *guests, unsigned count)
{
    pthread_attr_t attributes;

    pthread_barrier_init(&all_numbered, NULL, count + 1);
    pthread_barrier_init(&all_checked, NULL, count + 1);
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    for (unsigned i = 0; i < count; i++)
        assert_int_equal(pthread_create(&guests[i].thread, &attributes, stay, &guests[i]), 0);
    pthread_attr_destroy(&attributes);
    pthread_barrier_wait(&all_numbered);
}

static void guests_go(struct guest *guests, unsigned count)
{
    pthread_barrier_wait(&all_checked);
    for (unsigned i = 0; i < count; i++) {
        pthread_join(guests[i].thread, NULL);
        assert_int_equal(guests[i].index, guests[i].again);
    }
    pthread_barrier_destroy(&all_numbered);
    pthread_barrier_destroy(&all_checked);
}

/* Guests without the main thread, whose number is 0: each of 1 to own_count once. */
static void expect_dense(const struct guest *guests, unsigned count, unsigned own_count)
{
    static bool is_seen[RATION_THREADS_MAX];
    unsigned shared_count = 0;

    for (unsigned i = 0; i < RATION_THREADS_MAX; i++)
        is_seen[i] = i == 0;
    for (unsigned i = 0; i < count; i++) {
        uint32_t index = guests[i].index;

        if (index >= RATION_THREADS_MAX) {
            assert_true(index < 2 * RATION_THREADS_MAX);
            shared_count++;
            continue;
        }
        assert_true(index <= own_count);
        assert_false(is_seen[index]);
        is_seen[index] = true;
    }
    assert_int_equal(shared_count, count - own_count);
}

static void live_threads_have_numbers_of_their_own_without_gaps(void **state)
{
    struct guest guests[CROWD_COUNT];

    (void)state;
    assert_int_equal(ration_thread_index(), 0);
    for (unsigned round = 0; round < 3; round++) {
        guests_come(guests, CROWD_COUNT);
        expect_dense(guests, CROWD_COUNT, CROWD_COUNT);
        guests_go(guests, CROWD_COUNT);
    }
    assert_int_equal(ration_thread_index(), 0);
}

static void *say(void *context)
{
    *(uint32_t *)context = ration_thread_index();
    return NULL;
}

static uint32_t number_of_new_thread(void)
{
    pthread_t thread;
    uint32_t index = UINT32_MAX;

    if (pthread_create(&thread, NULL, say, &index) != 0)
        return UINT32_MAX;
    pthread_join(thread, NULL);
    return index;
}

static void a_number_comes_back_when_its_thread_ends(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 2 * RATION_THREADS_MAX; i++)
        assert_int_equal(number_of_new_thread(), 1);
}

static void threads_beyond_the_maximum_share(void **state)
{
    static struct guest guests[MANY_COUNT];

    (void)state;
    guests_come(guests, MANY_COUNT);
    expect_dense(guests, MANY_COUNT, RATION_THREADS_MAX - 1);
    guests_go(guests, MANY_COUNT);
    assert_int_equal(number_of_new_thread(), 1);
}

/* When thread-specific memory runs out -------------------------------------------------- */

static bool is_out_of_memory;

/* In place of the system's, which the library calls through this one. */
int pthread_setspecific(pthread_key_t wanted, const void *value)
{
    int (*real)(pthread_key_t, const void *);

    if (is_out_of_memory) {
        errno = ENOMEM;
        return ENOMEM;
    }
    *(void **)&real = dlsym(RTLD_NEXT, "pthread_setspecific");
    return real(wanted, value);
}

static void *say_without_memory(void *context)
{
    is_out_of_memory = true;
    errno = ENOTTY;
    say(context);
    is_out_of_memory = false;
    return errno == ENOTTY ? context : NULL;
}

static void without_memory_a_thread_shares_and_errno_stays(void **state)
{
    pthread_t thread;
    uint32_t index = 0;
    void *kept_errno = NULL;

    (void)state;
    assert_int_equal(pthread_create(&thread, NULL, say_without_memory, &index), 0);
    pthread_join(thread, &kept_errno);
    assert_true(index >= RATION_THREADS_MAX);
    assert_non_null(kept_errno);
    assert_int_equal(number_of_new_thread(), 1);
}

/* Destructors --------------------------------------------------------------------------- */

static pthread_key_t late_key;
static uint32_t late_index;

static void ask_late(void *value)
{
    (void)value;
    late_index = ration_thread_index();
}

static void *leave_a_destructor(void *context)
{
    pthread_setspecific(late_key, &late_key);
    return say(context);
}

static void a_destructor_that_runs_late_shares(void **state)
{
    pthread_t thread;
    uint32_t index = UINT32_MAX;

    (void)state;
    /* made after that of the numbers, so destroyed after it */
    assert_int_equal(pthread_key_create(&late_key, ask_late), 0);
    assert_int_equal(pthread_create(&thread, NULL, leave_a_destructor, &index), 0);
    pthread_join(thread, NULL);
    assert_true(index < RATION_THREADS_MAX);
    assert_true(late_index >= RATION_THREADS_MAX);
    pthread_key_delete(late_key);
}

/* fork ---------------------------------------------------------------------------------- */

/* In the child: the own number stays, and those of threads that are not there are free. */
static int child_check(void)
{
    if (ration_thread_index() != 0)
        return 1;
#ifndef __SANITIZE_THREAD__ /* it starts no threads after a fork from many */
    for (unsigned i = 0; i < 3; i++)
        if (number_of_new_thread() != 1)
            return 2;
#endif
    return 0;
}

static int fork_and_check(void)
{
    int status = -1;
    pid_t child = fork();

    if (child == 0)
        _exit(child_check());
    waitpid(child, &status, 0);
    return status;
}

static void a_child_keeps_its_number_and_frees_the_others(void **state)
{
    struct guest guests[CROWD_COUNT];

    (void)state;
    guests_come(guests, CROWD_COUNT);
    assert_int_equal(fork_and_check(), 0);
    guests_go(guests, CROWD_COUNT);
    assert_int_equal(fork_and_check(), 0);
}

/* dlclose ------------------------------------------------------------------------------- */

static pthread_barrier_t loaded;
static pthread_barrier_t unloaded;
static uint32_t (*plugin_index)(void);

static void *outlive(void *context)
{
    *(uint32_t *)context = plugin_index();
    pthread_barrier_wait(&loaded);
    pthread_barrier_wait(&unloaded);
    return NULL;
}

static void a_thread_may_outlive_the_library(void **state)
{
    (void)state;
    for (unsigned round = 0; round < 3; round++) {
        void *plugin = dlopen(RATION_PLUGIN, RTLD_NOW | RTLD_LOCAL);
        uint32_t index = UINT32_MAX;
        pthread_t thread;

        assert_non_null(plugin);
        *(void **)&plugin_index = dlsym(plugin, "plugin_thread_index");
        assert_non_null(*(void **)&plugin_index);
        pthread_barrier_init(&loaded, NULL, 2);
        pthread_barrier_init(&unloaded, NULL, 2);
        assert_int_equal(pthread_create(&thread, NULL, outlive, &index), 0);
        pthread_barrier_wait(&loaded);
        assert_int_equal(dlclose(plugin), 0);
        assert_null(dlopen(RATION_PLUGIN, RTLD_NOW | RTLD_NOLOAD)); /* it is gone */
        pthread_barrier_wait(&unloaded);
        pthread_join(thread, NULL);
        assert_int_equal(index, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(live_threads_have_numbers_of_their_own_without_gaps),
        cmocka_unit_test(a_number_comes_back_when_its_thread_ends),
        cmocka_unit_test(threads_beyond_the_maximum_share),
        cmocka_unit_test(without_memory_a_thread_shares_and_errno_stays),
        cmocka_unit_test(a_destructor_that_runs_late_shares),
        cmocka_unit_test(a_child_keeps_its_number_and_frees_the_others),
        cmocka_unit_test(a_thread_may_outlive_the_library),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
