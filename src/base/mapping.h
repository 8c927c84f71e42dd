/*
 * mapping: a piece of zeroed memory from the system, and the random bytes that go with it. Every
 * system call of a table's creation passes here.
 */
#ifndef RATION_BASE_MAPPING_H
#define RATION_BASE_MAPPING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ration/status.h"

struct ration_mapping_wishes {
    bool is_shared; /* with children of fork(); else they get a copy */
    bool is_huge;   /* large pages where the system has them */
    bool is_secret; /* left out of core dumps, and wiped at the end */
};

struct ration_mapping {
    void *memory;
    size_t size_bytes;
    bool is_secret;
    bool is_shared;
};

/* The most that may be asked for if what is then taken is to fit a budget. */
size_t ration_mapping_fit(size_t budget_bytes, struct ration_mapping_wishes wishes);

/*
 * Touches pages of a mapping now. Returns RATION_ENOMEM if the system has not so many.
 */
ration_status ration_mapping_touch(const struct ration_mapping *mapping, size_t offset,
                                   size_t size_bytes);

/*
 * Makes bytes of a mapping zero that nobody uses, and gives their pages back to the system, if others
 * do not have them too.
 */
void ration_mapping_clear(const struct ration_mapping *mapping, size_t offset, size_t size_bytes);

/* Returns RATION_ENOMEM, with *out_mapping untouched. Release: ration_mapping_done(). */
ration_status ration_mapping_init(size_t size_bytes, struct ration_mapping_wishes wishes,
                                  struct ration_mapping *out_mapping);
void ration_mapping_done(struct ration_mapping *mapping);

/* Fills bytes that nobody can guess. False if the system has none to give. */
bool ration_random_secret(void *bytes, size_t size);

#endif
