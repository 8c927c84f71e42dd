/*
 * memory: buckets in this process's memory, or in a block that several processes share.
 */
#ifndef RATION_STORE_MEMORY_H
#define RATION_STORE_MEMORY_H

#include "base/mapping.h"
#include "limiter/store.h"
#include "table/commit.h"
#include "table/plain.h"

struct ration_memory {
    struct ration_store store;
    struct ration_mapping mapping;
    struct ration_block *block;
    uint32_t section_count;
    struct ration_section sections[RATION_BLOCK_SECTIONS_MAX];
};

/*
 * A store over a block of its own. *out_memory is owned by the caller, released by its calls->free.
 * Returns RATION_EINVAL for a plan that no block can hold, RATION_ENOMEM.
 */
ration_status ration_memory_create(const struct ration_block_plan *plan,
                                   struct ration_mapping_wishes wishes,
                                   struct ration_memory **out_memory);

/* Where a target's key may stand in its section. */
struct ration_place ration_memory_place(const struct ration_memory *memory,
                                        const struct ration_target *target);

/* Of store.h. */
int ration_memory_take_simple(struct ration_store *store, const struct ration_target *target,
                              uint64_t cost_tokens, uint64_t now_ns, uint32_t *out_denied_mask);
ration_status ration_memory_begin(struct ration_store *store, struct ration_op *op);

#endif
