/*
 * limiter_allocations: support/allocations.h, and likewise whole pages and random bytes: mmap, munmap, madvise and
 * getrandom are wrapped, too.
 */
#ifndef RATION_TESTS_LIMITER_ALLOCATIONS_H
#define RATION_TESTS_LIMITER_ALLOCATIONS_H

#include <sys/mman.h>
#include <sys/random.h>

#include "support/allocations.h"

static struct {
    void *last;               /* the last piece of whole pages, ... */
    size_t last_bytes;        /* ... and its size */
    bool is_populate_unknown; /* MADV_POPULATE_WRITE is not known to the system */
} mappings;

void *__real_mmap(void *address, size_t size, int protection, int flags, int file, off_t offset);
void *__wrap_mmap(void *address, size_t size, int protection, int flags, int file, off_t offset);
int __real_munmap(void *address, size_t size);
int __wrap_munmap(void *address, size_t size);
int __real_madvise(void *address, size_t size, int advice);
int __wrap_madvise(void *address, size_t size, int advice);
ssize_t __real_getrandom(void *bytes, size_t size, unsigned flags);
ssize_t __wrap_getrandom(void *bytes, size_t size, unsigned flags);

void *__wrap_mmap(void *address, size_t size, int protection, int flags, int file, off_t offset)
{
    if (allocations_fail())
        return MAP_FAILED;
    mappings.last = __real_mmap(address, size, protection, flags, file, offset);
    mappings.last_bytes = size;
    allocations_add_live(mappings.last != MAP_FAILED);
    return mappings.last;
}

int __wrap_munmap(void *address, size_t size)
{
    allocations_add_live(-1);
    return __real_munmap(address, size);
}

int __wrap_madvise(void *address, size_t size, int advice)
{
    if (allocations_fail())
        return -1;
    if (mappings.is_populate_unknown) {
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
