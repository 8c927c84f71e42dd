#include "base/thread_index.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>

#define WORD_BITS  64u
#define WORD_COUNT (RATION_THREADS_MAX / WORD_BITS)

_Static_assert(RATION_THREADS_MAX % WORD_BITS == 0, "numbers fill whole words");

RATION_THREAD_LOCAL uint32_t ration_thread_index_known;

static uint64_t used_bits[WORD_COUNT]; /* one bit per number in use */
static uint32_t sharer_count;
static pthread_key_t key; /* set in each thread that has its own number */
static bool has_key;

static uint64_t bit_of(uint32_t index)
{
    return UINT64_C(1) << (index % WORD_BITS);
}

/* Takes the lowest free number; returns RATION_THREADS_MAX if there is none. */
static uint32_t take_lowest(void)
{
    for (uint32_t word = 0; word < WORD_COUNT; word++) {
        uint64_t seen = __atomic_load_n(&used_bits[word], __ATOMIC_RELAXED);

        while (seen != UINT64_MAX) {
            uint32_t index = word * WORD_BITS + (uint32_t)__builtin_ctzll(~seen);

            /* acquire: pairs with the release in release_number() */
            if (__atomic_compare_exchange_n(&used_bits[word], &seen, seen | bit_of(index), true,
                                            __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
                return index;
        }
    }
    return RATION_THREADS_MAX;
}

static void release_number(uint32_t index)
{
    /* release: the next owner sees the writes of this one; pairs with take_lowest() */
    __atomic_fetch_and(&used_bits[index / WORD_BITS], ~bit_of(index), __ATOMIC_RELEASE);
}

static uint32_t shared_number(void)
{
    uint32_t count = __atomic_fetch_add(&sharer_count, 1, __ATOMIC_RELAXED);

    return RATION_THREADS_MAX + count % RATION_THREADS_MAX;
}

/*
 * The key's destructor. Destructors of other keys may run after it and make decisions; they must no
 * longer use a number that a new thread may have by then.
 */
static void on_thread_exit(void *value)
{
    uint32_t index = ration_thread_index_known - 1;

    (void)value;
    ration_thread_index_known = shared_number() + 1;
    release_number(index);
}

/* In a child of fork(): the parent's other threads do not exist to release theirs. */
static void keep_own_number(void)
{
    uint32_t own = ration_thread_index_known - 1; /* UINT32_MAX if it has none yet */

    for (uint32_t word = 0; word < WORD_COUNT; word++)
        __atomic_store_n(&used_bits[word], own / WORD_BITS == word ? bit_of(own) : 0,
                         __ATOMIC_RELAXED);
}

static void init_once(void)
{
    /*
     * If this fails for lack of memory, a child of fork() loses the numbers of threads it does not
     * have.
     */
    pthread_atfork(NULL, NULL, keep_own_number);
    __atomic_store_n(&has_key, pthread_key_create(&key, on_thread_exit) == 0, __ATOMIC_RELAXED);
}

/* Runs when the library is unloaded or the process exits. */
__attribute__((destructor)) static void delete_key(void)
{
    /* first: a starting thread must not set a key that may belong to another library by then */
    if (__atomic_exchange_n(&has_key, false, __ATOMIC_RELAXED))
        pthread_key_delete(key);
}

/*
 * Takes an own number and sets the key that releases it; returns RATION_THREADS_MAX if there is
 * none.
 */
static uint32_t own_number(void)
{
    if (!__atomic_load_n(&has_key, __ATOMIC_RELAXED))
        return RATION_THREADS_MAX;

    uint32_t index = take_lowest();

    if (index < RATION_THREADS_MAX && pthread_setspecific(key, used_bits) != 0) {
        release_number(index);
        return RATION_THREADS_MAX;
    }
    return index;
}

uint32_t ration_thread_index_claim(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    int saved_errno = errno;

    /* first: a signal handler that interrupts this call must not claim another number */
    ration_thread_index_known = shared_number() + 1;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    pthread_once(&once, init_once);

    uint32_t own = own_number();

    if (own < RATION_THREADS_MAX)
        ration_thread_index_known = own + 1;
    errno = saved_errno;
    return ration_thread_index_known - 1;
}
