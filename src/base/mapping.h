/*
 * mapping: zeroed memory from the kernel. All system calls that create a table are here, except the one for random
 * bytes (os.h).
 */
#ifndef RATION_BASE_MAPPING_H
#define RATION_BASE_MAPPING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ration/status.h"

struct ration_mapping_options {
    bool is_shared; /* shared with fork() children; otherwise they get a copy */
    bool is_huge;   /* huge pages where the kernel has them */
    bool is_secret; /* excluded from core dumps, and wiped on release */
};

struct ration_mapping {
    void *memory;
    size_t size_bytes;
    bool is_secret;
    bool is_shared;
};

/* Returns the largest size to request so that the memory really mapped fits in a budget. */
size_t ration_mapping_fit(size_t budget_bytes, struct ration_mapping_options options);

/*
 * Touches pages of a mapping now. Returns RATION_ENOMEM if the kernel does not have enough memory.
 */
ration_status ration_mapping_touch(const struct ration_mapping *mapping, size_t offset,
                                   size_t size_bytes);

/*
 * Zeroes unused bytes of a mapping, and returns their pages to the kernel unless other processes
 * share them.
 */
void ration_mapping_clear(const struct ration_mapping *mapping, size_t offset, size_t size_bytes);

/*
 * Maps memory. Returns RATION_ENOMEM, with *out_mapping untouched. Release with
 * ration_mapping_done().
 */
ration_status ration_mapping_init(size_t size_bytes, struct ration_mapping_options options,
                                  struct ration_mapping *out_mapping);
void ration_mapping_done(struct ration_mapping *mapping);

#endif
