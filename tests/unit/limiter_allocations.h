/*
 * limiter_allocations: every piece of memory that the library asks for, counted, and refused when
 * its turn has come. A program that includes this is linked with --wrap for each of them
 * (CMakeLists.txt), so that the library's calls arrive here.
 */
#ifndef RATION_TESTS_LIMITER_ALLOCATIONS_H
#define RATION_TESTS_LIMITER_ALLOCATIONS_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/random.h>

static struct {
    uint64_t call_count;  /* of all that may fail */
    uint64_t fails_at;    /* the call that does, counted from 1; 0: none */
    int64_t live_count;   /* pieces that were given and not given back */
    void *mapped;         /* the last piece of whole pages, ... */
    size_t mapped_bytes;  /* ... and its size */
    bool is_wish_unknown; /* MADV_POPULATE_WRITE is not known to the system */
} allocations;

static inline bool allocations_fail(void)
{
    allocations.call_count++;
    if (allocations.call_count != allocations.fails_at)
        return false;
    errno = ENOMEM;
    return true;
}

static inline void *allocations_given(void *piece)
{
    allocations.live_count += piece != NULL && piece != MAP_FAILED;
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
void *__real_mmap(void *address, size_t size, int protection, int flags, int file, off_t offset);
void *__wrap_mmap(void *address, size_t size, int protection, int flags, int file, off_t offset);
int __real_munmap(void *address, size_t size);
int __wrap_munmap(void *address, size_t size);
int __real_madvise(void *address, size_t size, int advice);
int __wrap_madvise(void *address, size_t size, int advice);
ssize_t __real_getrandom(void *bytes, size_t size, unsigned flags);
ssize_t __wrap_getrandom(void *bytes, size_t size, unsigned flags);

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
    allocations.live_count -= piece != NULL;
    __real_free(piece);
}

void *__wrap_mmap(void *address, size_t size, int protection, int flags, int file, off_t offset)
{
    if (allocations_fail())
        return MAP_FAILED;
    allocations.mapped = __real_mmap(address, size, protection, flags, file, offset);
    allocations.mapped_bytes = size;
    return allocations_given(allocations.mapped);
}

int __wrap_munmap(void *address, size_t size)
{
    allocations.live_count--;
    return __real_munmap(address, size);
}

int __wrap_madvise(void *address, size_t size, int advice)
{
    if (allocations_fail())
        return -1;
    if (allocations.is_wish_unknown) {
        errno = EINVAL;
        return -1;
    }
    return __real_madvise(address, size, advice);
}

ssize_t __wrap_getrandom(void *bytes, size_t size, unsigned flags)
{
    return allocations_fail() ? -1 : __real_getrandom(bytes, size, flags);
}

#endif
