/* memory: a store of buckets in the memory of this process, or in a block that several processes share. */
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
    bool is_prefaulted;               /* touch the memory of a section when it is made */
    struct ration_section sections[]; /* block->section_max of them */
};

/*
 * Creates a store with a new block. *out_memory is owned by the caller, who releases it with its calls->free. Returns
 * RATION_EINVAL for a plan that no block can hold, RATION_ENOMEM.
 */
ration_status ration_memory_create(const struct ration_block_plan *plan,
                                   struct ration_mapping_options options,
                                   struct ration_memory **out_memory);

/*
 * Adds a section; *out_section_index is its index. One caller at a time; other threads may use the store meanwhile.
 * Returns RATION_ENOMEM if the block has no room.
 */
ration_status ration_memory_add(struct ration_memory *memory,
                                const struct ration_section_shape *shape,
                                uint32_t *out_section_index);

/*
 * Replaces a section that no thread uses any more by an empty one of another shape, in the same memory. Returns
 * RATION_EUNSUPPORTED, with nothing changed, if it does not fit there. Returns RATION_ENOMEM if the system has no
 * memory for pages that are to be touched now; the section is replaced all the same.
 */
ration_status ration_memory_replace(struct ration_memory *memory, uint32_t section_index,
                                    const struct ration_section_shape *shape);

/* The location of a target's key in its section. */
struct ration_location ration_memory_place(const struct ration_memory *memory,
                                           const struct ration_target *target);

/* Saves a location in the target, where ration_memory_place() finds it. */
void ration_memory_locate(struct ration_target *target, const struct ration_location *location);

/* The time, since the epoch, from which a key with these stored cells is idle. */
static inline struct ration_time ration_memory_expires_at(const struct ration_section *section,
                                                          const struct ration_time *cells)
{
    return ration_section_is_plain(section) ? cells[0] : ration_entry_expires_at(section, cells);
}

/* The same time on the caller's clock. 0: the key was never in use. */
static inline uint64_t ration_memory_idle_at_ns(const struct ration_section *section,
                                                const struct ration_time *cells, uint64_t epoch_ns)
{
    uint64_t since_ns = ration_time_ceil_ns(ration_memory_expires_at(section, cells));

    return since_ns > 0 ? since_ns + epoch_ns : 0;
}

/* Implement store.h. */
ration_status ration_memory_begin(struct ration_store *store, struct ration_op *op);
uint64_t ration_memory_renew(struct ration_store *store, const struct ration_config_table *configs,
                             uint32_t section_index, uint64_t now_ns);
uint64_t ration_memory_clear(struct ration_store *store, const struct ration_config_table *configs,
                             uint32_t section_index, uint64_t now_ns);
uint64_t ration_memory_walk(struct ration_store *store, const struct ration_walk *walk,
                            uint64_t cursor);
void ration_memory_shape(const struct ration_store *store, uint32_t section_index,
                         struct ration_walk_shape *out_shape);
ration_status ration_memory_put(struct ration_store *store,
                                const struct ration_config_table *configs, uint32_t section_index,
                                const struct ration_walk_item *item, uint64_t now_ns);

#endif
