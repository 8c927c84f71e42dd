/*
 * thread_index: a small number for each live thread of this process.
 *
 * A thread gets the lowest number that no live thread has: 0, 1, 2, ... A thread that exits
 * releases its number, and everything that it wrote before is visible to the next thread that gets
 * it. So a number below RATION_THREADS_MAX belongs to one thread at a time, and memory selected by
 * it needs no lock:
 *
 *     index < RATION_THREADS_MAX     this thread's own, until it exits
 *     otherwise                      shared; memory selected by it must support several threads
 *
 * Shared numbers are given to threads beyond the first RATION_THREADS_MAX, to a thread whose
 * destructors already released its own, and to all new threads if the system has no thread-specific
 * key left. They range from RATION_THREADS_MAX to 2 * RATION_THREADS_MAX - 1.
 *
 * fork(): the child's only thread keeps its number, and those of the parent's other threads are
 * free again. Two processes use the same numbers, so in memory that they share no number belongs to
 * one thread. The same holds for two copies of the library in one process.
 *
 * dlclose(): unloading the library deletes its key, so that threads which outlive it exit without
 * calling unloaded code. A thread that exits during dlclose() races with it, as with every library
 * that has thread-specific data.
 */
#ifndef RATION_BASE_THREAD_INDEX_H
#define RATION_BASE_THREAD_INDEX_H

#include <features.h>
#include <stdint.h>

#define RATION_THREADS_MAX 1024u

/*
 * In a shared library the compiler would call a function to find a thread-local variable. glibc
 * reserves space for libraries that place theirs at a fixed offset instead, whether loaded at start
 * or later.
 */
#ifdef __GLIBC__
#define RATION_THREAD_LOCAL __attribute__((tls_model("initial-exec"))) _Thread_local
#else
#define RATION_THREAD_LOCAL _Thread_local
#endif

/* The calling thread's number plus one; 0 before the first call. For ration_thread_index(). */
extern RATION_THREAD_LOCAL uint32_t ration_thread_index_known;

/*
 * Claims a number: the first call in a thread. Lock-free except for the first call in the process.
 */
uint32_t ration_thread_index_claim(void);

/*
 * Returns the calling thread's number. Cannot fail, preserves errno, and may be called in a signal
 * handler.
 */
static inline uint32_t ration_thread_index(void)
{
    uint32_t known = ration_thread_index_known;

    return __builtin_expect(known != 0, 1) ? known - 1 : ration_thread_index_claim();
}

#endif
