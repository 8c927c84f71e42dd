/*
 * fence: ordering between atomics that are themselves relaxed.
 *
 * The thread sanitizer does not support fences, and its compiler rejects them; there, an atomic
 * addition of 0 to a word that all threads share gives an even stronger order.
 */
#ifndef RATION_BASE_FENCE_H
#define RATION_BASE_FENCE_H

#include "base/atomic16.h"

#ifdef RATION_UNDER_TSAN
#define RATION_FENCE(order)                                          \
    do {                                                             \
        static char ration_fence_word;                               \
        __atomic_fetch_add(&ration_fence_word, 0, __ATOMIC_SEQ_CST); \
    } while (0)
#else
#define RATION_FENCE(order) __atomic_thread_fence(order)
#endif

static inline void ration_fence_acquire(void)
{
    RATION_FENCE(__ATOMIC_ACQUIRE);
}

static inline void ration_fence_release(void)
{
    RATION_FENCE(__ATOMIC_RELEASE);
}

static inline void ration_fence_full(void)
{
    RATION_FENCE(__ATOMIC_SEQ_CST);
}

#endif
