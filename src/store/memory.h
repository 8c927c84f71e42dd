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
    bool is_prefaulted;               /* sections are touched when they are made */
    struct ration_section sections[]; /* as many as the block may have */
};

/*
 * A store over a block of its own. *out_memory is owned by the caller, released by its calls->free.
 * Returns RATION_EINVAL for a plan that no block can hold, RATION_ENOMEM.
 */
ration_status ration_memory_create(const struct ration_block_plan *plan,
                                   struct ration_mapping_wishes wishes,
                                   struct ration_memory **out_memory);

/*
 * Adds a section, whose index is *out_section_index. One caller at a time; others may use the store
 * meanwhile. Returns RATION_ENOMEM if the block has no room.
 */
ration_status ration_memory_add(struct ration_memory *memory,
                                const struct ration_section_shape *shape,
                                uint32_t *out_section_index);

/*
 * Replaces a section that nobody uses any more by an empty one of another shape, in the same place. Returns
 * RATION_EUNFIT if it does not fit there, with nothing changed, and RATION_ENOMEM if the system has no
 * memory for what is to be touched now; then it is there all the same.
 */
ration_status ration_memory_replace(struct ration_memory *memory, uint32_t section_index,
                                    const struct ration_section_shape *shape);

/* Where a target's key may stand in its section. */
struct ration_place ration_memory_place(const struct ration_memory *memory,
                                        const struct ration_target *target);

/* Keeps a place as the target's spot, where ration_memory_place() finds it. */
void ration_memory_locate(struct ration_target *target, const struct ration_place *place);

/* The moment (since the epoch) from which on a key with these cells, as they are stored, is idle. */
static inline struct ration_time ration_memory_moment(const struct ration_section *section,
                                                      const struct ration_time *cells)
{
    return ration_section_is_plain(section) ? cells[0] : ration_entry_moment(section, cells);
}

/* The same moment of the caller's clock. 0: it was never in use. */
static inline uint64_t ration_memory_idle_at_ns(const struct ration_section *section,
                                                const struct ration_time *cells, uint64_t epoch_ns)
{
    uint64_t since_ns = ration_time_ceil_ns(ration_memory_moment(section, cells));

    return since_ns > 0 ? since_ns + epoch_ns : 0;
}

/* Of store.h. */
ration_status ration_memory_begin(struct ration_store *store, struct ration_op *op);
uint64_t ration_memory_renew(struct ration_store *store, const struct ration_configs *configs,
                             uint32_t section_index, uint64_t now_ns);
uint64_t ration_memory_clear(struct ration_store *store, const struct ration_configs *configs,
                             uint32_t section_index, uint64_t now_ns);
uint64_t ration_memory_walk(struct ration_store *store, const struct ration_walk *walk,
                            uint64_t cursor);
void ration_memory_shape(const struct ration_store *store, uint32_t section_index,
                         struct ration_walk_shape *out_shape);
ration_status ration_memory_put(struct ration_store *store, const struct ration_configs *configs,
                                uint32_t section_index, const struct ration_walk_item *item,
                                uint64_t now_ns);

#endif
