/*
 * thread_index: a small number for each live thread of this process.
 *
 * Threads get the lowest number that no live thread has: 0, 1, 2, ... A thread that ends gives its
 * number back, and all that it wrote before is seen by the thread that gets it next. So a number
 * below RATION_THREADS_MAX has one thread at a time, and memory picked by it needs no lock:
 *
 *     index < RATION_THREADS_MAX     this thread's own, until it ends
 *     otherwise                      shared with others; what it picks must bear several threads
 *
 * Shared numbers go to threads beyond the first RATION_THREADS_MAX, to a thread whose destructors
 * already gave its own back, and to all new threads where the system has no thread-specific key
 * left. They are spread over RATION_THREADS_MAX to 2 * RATION_THREADS_MAX - 1.
 *
 * fork(): the child's one thread keeps its number, and those of the threads that it does not have
 * are free again. Two processes use the same numbers, so in memory that they share a number is
 * nobody's own. The same holds for two copies of the library in one process.
 *
 * dlclose(): unloading the library deletes its key, so that threads which outlive it end without
 * calling code that is gone. A thread that ends in the very moment of dlclose() races with it, as
 * it does with every library that has thread-specific data.
 */
#ifndef RATION_BASE_THREAD_INDEX_H
#define RATION_BASE_THREAD_INDEX_H

#include <features.h>
#include <stdint.h>

#define RATION_THREADS_MAX 1024u

/*
 * In a shared library the compiler would call a function to find a thread-local variable. glibc
 * keeps room for libraries that want to have theirs at a fixed place instead, loaded late or not.
 */
#ifdef __GLIBC__
#define RATION_THREAD_LOCAL __attribute__((tls_model("initial-exec"))) _Thread_local
#else
#define RATION_THREAD_LOCAL _Thread_local
#endif

/* The calling thread's number plus one; 0 before the first call. For ration_thread_index(). */
extern RATION_THREAD_LOCAL uint32_t ration_thread_known;

/* The first call in a thread: claims a number. Lock-free but for the first in the process. */
uint32_t ration_thread_index_claim(void);

/* The calling thread's number. Cannot fail; leaves errno alone; callable in a signal handler. */
static inline uint32_t ration_thread_index(void)
{
    uint32_t known = ration_thread_known;

    return __builtin_expect(known != 0, 1) ? known - 1 : ration_thread_index_claim();
}

#endif
