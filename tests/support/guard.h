/*
 * guard: memory that ends at an inaccessible page. A read beyond text that is placed right before `guard`
 * crashes at once. guard_map() and guard_unmap() are a group's setup and teardown.
 */
#ifndef RATION_TESTS_GUARD_H
#define RATION_TESTS_GUARD_H

#include <stddef.h>
#include <sys/mman.h>
#include <unistd.h>

static char *guard; /* the first inaccessible byte */

static int guard_map(void **state)
{
    (void)state;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED || mprotect(pages + page, page, PROT_NONE) != 0)
        return -1;
    guard = pages + page;
    return 0;
}

static int guard_unmap(void **state)
{
    (void)state;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return munmap(guard - page, 2 * page);
}

#endif
