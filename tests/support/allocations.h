/*
 * allocations: counts every allocation of the project's code, and lets a chosen one fail.
 * A program that includes this is linked with --wrap for malloc, calloc, realloc, aligned_alloc, strdup and free
 * (CMakeLists.txt), so that these calls arrive here. Any thread may call; the counters are atomic.
 */
#ifndef RATION_TESTS_ALLOCATIONS_H
#define RATION_TESTS_ALLOCATIONS_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

static struct {
    uint64_t call_count; /* allocations so far */
    uint64_t fails_at;   /* the call that fails, counted from 1; 0: none */
    int64_t live_count;  /* allocations that were not freed */
} allocations;

static inline bool allocations_fail(void)
{
    uint64_t number = __atomic_add_fetch(&allocations.call_count, 1, __ATOMIC_RELAXED);

    if (number != __atomic_load_n(&allocations.fails_at, __ATOMIC_RELAXED))
        return false;
    errno = ENOMEM;
    return true;
}

static inline void allocations_add_live(int64_t count)
{
    __atomic_add_fetch(&allocations.live_count, count, __ATOMIC_RELAXED);
}

static inline void *allocations_given(void *piece)
{
    allocations_add_live(piece != NULL);
    return piece;
}

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__real_realloc(void *piece, size_t size);
void *__wrap_realloc(void *piece, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
char *__real_strdup(const char *text);
char *__wrap_strdup(const char *text);
void __real_free(void *piece);
void __wrap_free(void *piece);

void *__wrap_malloc(size_t size)
{
    return allocations_fail() ? NULL : allocations_given(__real_malloc(size));
}

void *__wrap_calloc(size_t count, size_t size)
{
    return allocations_fail() ? NULL : allocations_given(__real_calloc(count, size));
}

void *__wrap_realloc(void *piece, size_t size)
{
    if (allocations_fail())
        return NULL;
    return piece == NULL ? allocations_given(__real_realloc(NULL, size))
                         : __real_realloc(piece, size);
}

void *__wrap_aligned_alloc(size_t alignment, size_t size)
{
    return allocations_fail() ? NULL : allocations_given(__real_aligned_alloc(alignment, size));
}

char *__wrap_strdup(const char *text)
{
    return allocations_fail() ? NULL : allocations_given(__real_strdup(text));
}

void __wrap_free(void *piece)
{
    allocations_add_live(-(piece != NULL));
    __real_free(piece);
}

#endif
