/*
 * section: one process's view of a section, its offsets made into pointers.
 */
#ifndef RATION_TABLE_SECTION_H
#define RATION_TABLE_SECTION_H

#include "table/block.h"

struct ration_descriptor;

struct ration_section {
    struct ration_pair *sets;
    struct ration_set_meta *metas;
    uint32_t set_count;
    uint32_t entry_slots;
    struct ration_section_shape shape;
    /* entries or plain slots, shared by keys that get no slot of their own */
    struct ration_pair *overflow;
    uint32_t overflow_count; /* 1, or RATION_OVERFLOW_CLASSES */
    struct ration_pair *rings;
    struct ration_block *block;
    struct ration_descriptor *descriptors;
    uint32_t descriptor_count;
    uint32_t index; /* of the section in the block */
};

/* A view of the block's section. block is borrowed for as long as the view is used. */
struct ration_section ration_section_open(struct ration_block *block, uint32_t section_index);

static inline bool ration_section_is_plain(const struct ration_section *section)
{
    return section->shape.cell_count == 0;
}

/* Which of a key's cells are expiry times. */
static inline uint32_t ration_section_expiry_mask(const struct ration_section *section)
{
    return ration_section_is_plain(section) ? 1 : section->shape.expiry_mask;
}

/* The head of the slot. */
static inline struct ration_pair *ration_section_at(const struct ration_section *section,
                                                    uint64_t slot_index)
{
    return section->sets + slot_index * section->entry_slots;
}

/*
 * An overflow bucket by its index. In a plain section zero bytes are a full bucket. In others
 * ration_entry_open_overflow() makes them one.
 */
static inline struct ration_pair *ration_section_overflow_at(const struct ration_section *section,
                                                             uint64_t index)
{
    return section->overflow + index * section->entry_slots;
}

static inline bool ration_section_is_overflow(const struct ration_section *section,
                                              const struct ration_pair *head)
{
    return head >= section->overflow; /* overflow buckets come after the sets */
}

/* The index of a ring by the head of its entry: first the slots, then the overflow buckets. */
static inline uint64_t ration_section_index_of(const struct ration_section *section,
                                               const struct ration_pair *head)
{
    if (!ration_section_is_overflow(section, head))
        return (uint64_t)(head - section->sets) / section->entry_slots;
    return (uint64_t)section->set_count * RATION_SET_SLOTS +
           (uint64_t)(head - section->overflow) / section->entry_slots;
}

/* The overflow bucket for a limit that fills in fill_ns: the only one, except in a section for inline limits. */
struct ration_pair *ration_section_overflow_of(const struct ration_section *section,
                                               uint64_t fill_ns);

/* The longest fill time of the limits that use the overflow bucket of this index. */
uint64_t ration_section_overflow_fill_ns(const struct ration_section *section, uint64_t index);

/* The set of the slot that begins at head. */
static inline uint32_t ration_section_set_at(const struct ration_section *section,
                                             const struct ration_pair *head)
{
    return (uint32_t)((uint64_t)(head - section->sets) / section->entry_slots / RATION_SET_SLOTS);
}

/* Prefetches the key's first set. */
static inline void ration_section_prefetch(const struct ration_section *section,
                                           const struct ration_location *location)
{
    uint64_t first = ration_location_index(location, 0);

    __builtin_prefetch(ration_section_at(section, first), 1);
    __builtin_prefetch(ration_section_at(section, first ^ 4), 1);
    if (section->entry_slots > 1) { /* then half a set is more than a cache line */
        __builtin_prefetch(ration_section_at(section, first ^ 2), 1);
        __builtin_prefetch(ration_section_at(section, first ^ 6), 1);
    }
}

/* Prefetches the key's slots except the half of its first set that a lookup reads first. */
static inline void ration_section_prefetch_rest(const struct ration_section *section,
                                                const struct ration_location *location)
{
    uint64_t first = ration_location_index(location, 0);
    uint64_t second = ration_location_index(location, RATION_SET_SLOTS);

    __builtin_prefetch(ration_section_at(section, first ^ 4), 1);
    __builtin_prefetch(ration_section_at(section, second), 1);
    __builtin_prefetch(ration_section_at(section, second ^ 4), 1);
}

/*
 * The time from which an absent key of this location starts: the later reclaim watermark of its two sets. The caller
 * reads it after the lookup that did not find the key, or after it has claimed a slot.
 */
uint64_t ration_section_reclaim_watermark_ns(const struct ration_section *section,
                                             const struct ration_location *location);

/* Raises the reclaim watermark of a set. A reclaiming thread calls it before it takes a slot with this expiry time. */
void ration_section_raise_reclaim_watermark(const struct ration_section *section, uint32_t set,
                                            struct ration_time expires_at);

/* The overflow watermark: until when a key of this location may have tokens in use in the overflow bucket. */
uint64_t ration_section_overflow_watermark_ns(const struct ration_section *section,
                                              const struct ration_location *location);

/* Records that a key of this location charges the overflow bucket, which is full again at expires_at. */
void ration_section_raise_overflow_watermark(const struct ration_section *section,
                                             const struct ration_location *location,
                                             struct ration_time expires_at);

/*
 * Tokens that were returned to the bucket of this location since the block was made. The counters are shared with
 * other keys, so they may be too high, but never too low.
 */
struct ration_section_returns {
    /* by any op: others may have moved a reservation forward by this much */
    uint64_t returned_tokens;
    /* of these, by a refund or a call that replaced the state: maybe the reservation's own tokens */
    uint64_t refunded_tokens;
};

/*
 * The returning thread counts tokens before it changes the bucket. The counters of each block start at another
 * number, so a reservation made in one block and settled in another finds a large number of returned tokens.
 */
struct ration_section_returns ration_section_returned(const struct ration_section *section,
                                                      const struct ration_location *location);
void ration_section_count_returned(const struct ration_section *section,
                                   const struct ration_location *location,
                                   const struct ration_section_returns *returns);

#endif
