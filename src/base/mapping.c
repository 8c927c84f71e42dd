#include "base/mapping.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#define HUGE_PAGE_BYTES ((size_t)2 << 20)
#define PAGE_BYTES      ((size_t)4096)

size_t ration_mapping_fit(size_t budget_bytes, struct ration_mapping_options options)
{
    if (!options.is_huge || budget_bytes < HUGE_PAGE_BYTES)
        return budget_bytes;
    return budget_bytes / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES;
}

ration_status ration_mapping_init(size_t size_bytes, struct ration_mapping_options options,
                                  struct ration_mapping *out_mapping)
{
    int flags = MAP_ANONYMOUS | MAP_NORESERVE | (options.is_shared ? MAP_SHARED : MAP_PRIVATE);
    bool is_huge = options.is_huge && size_bytes >= HUGE_PAGE_BYTES;
    void *memory;

    if (is_huge)
        size_bytes = (size_bytes + HUGE_PAGE_BYTES - 1) / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES;
    memory = mmap(NULL, size_bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (memory == MAP_FAILED)
        return RATION_ENOMEM;
    if (is_huge)
        (void)madvise(memory, size_bytes, MADV_HUGEPAGE); /* optional: small pages work as well */
    if (options.is_secret)
        (void)madvise(memory, size_bytes, MADV_DONTDUMP);
    *out_mapping =
        (struct ration_mapping){memory, size_bytes, options.is_secret, options.is_shared};
    return RATION_OK;
}

ration_status ration_mapping_touch(const struct ration_mapping *mapping, size_t offset,
                                   size_t size_bytes)
{
    size_t first = offset / PAGE_BYTES * PAGE_BYTES; /* pages before it may be in use and are not
                                                        changed */
    char *start = (char *)mapping->memory + first;

    size_bytes += offset - first;
    if (madvise(start, size_bytes, MADV_POPULATE_WRITE) == 0)
        return RATION_OK;
    if (errno != EINVAL)
        return RATION_ENOMEM;
    for (size_t i = 0; i < size_bytes; i += PAGE_BYTES) /* Linux before 5.14: touch each page */
        __atomic_fetch_or(start + i, 0, __ATOMIC_RELAXED);
    return RATION_OK;
}

void ration_mapping_clear(const struct ration_mapping *mapping, size_t offset, size_t size_bytes)
{
    char *start = (char *)mapping->memory + offset;
    size_t first = (offset + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES; /* only whole pages */
    size_t last = (offset + size_bytes) / PAGE_BYTES * PAGE_BYTES;

    /* a private page is zero when next used; a shared one keeps its content */
    if (mapping->is_shared || first >= last ||
        madvise((char *)mapping->memory + first, last - first, MADV_DONTNEED) != 0) {
        memset(start, 0, size_bytes);
        return;
    }
    memset(start, 0, first - offset);
    memset((char *)mapping->memory + last, 0, offset + size_bytes - last);
}

void ration_mapping_done(struct ration_mapping *mapping)
{
    if (mapping->is_secret)
        explicit_bzero(mapping->memory, mapping->size_bytes);
    if (mapping->memory != NULL)
        (void)munmap(mapping->memory, mapping->size_bytes);
    *mapping = (struct ration_mapping){.memory = NULL};
}
