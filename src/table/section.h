/*
 * section: one process's view of a section, its offsets made into pointers.
 */
#ifndef RATION_TABLE_SECTION_H
#define RATION_TABLE_SECTION_H

#include "table/block.h"

struct ration_seat;

struct ration_section {
    struct ration_pair *sets;
    struct ration_set_note *notes;
    uint32_t set_count;
    uint32_t entry_slots;
    struct ration_section_shape shape;
    struct ration_pair *overflow; /* entries or slots, used by keys that find no place */
    uint32_t overflow_count;      /* 1, or RATION_OVERFLOW_CLASSES */
    struct ration_pair *rings;
    struct ration_block *block;
    struct ration_seat *seats;
    uint32_t seat_count;
    uint32_t index; /* in the block */
};

/* The view of the block's section. block is borrowed for as long as the view is used. */
struct ration_section ration_section_open(struct ration_block *block, uint32_t section_index);

static inline bool ration_section_is_plain(const struct ration_section *section)
{
    return section->shape.cell_count == 0;
}

/* Which of a key's cells are moments. */
static inline uint32_t ration_section_moment_mask(const struct ration_section *section)
{
    return ration_section_is_plain(section) ? 1 : section->shape.moment_mask;
}

/* The first slot of a place's entry. */
static inline struct ration_pair *ration_section_at(const struct ration_section *section,
                                                    uint64_t place_index)
{
    return section->sets + place_index * section->entry_slots;
}

/* An overflow bucket by its index. Zero bytes are a full one, of a plain section as it is; see below. */
static inline struct ration_pair *ration_section_overflow_at(const struct ration_section *section,
                                                             uint64_t index)
{
    return section->overflow + index * section->entry_slots;
}

static inline bool ration_section_is_overflow(const struct ration_section *section,
                                              const struct ration_pair *head)
{
    return head >= section->overflow; /* they lie behind the sets */
}

/* The index of what begins at head among all that may have a ring: the places, then overflow buckets. */
static inline uint64_t ration_section_index_of(const struct ration_section *section,
                                               const struct ration_pair *head)
{
    if (!ration_section_is_overflow(section, head))
        return (uint64_t)(head - section->sets) / section->entry_slots;
    return (uint64_t)section->set_count * RATION_SET_PLACES +
           (uint64_t)(head - section->overflow) / section->entry_slots;
}

/* The overflow bucket for a limit that fills in fill_ns: one for all, unless requests bring their own. */
struct ration_pair *ration_section_overflow_of(const struct ration_section *section,
                                               uint64_t fill_ns);

/* The longest fill time of the limits that use the overflow bucket of this index. */
uint64_t ration_section_overflow_fill_ns(const struct ration_section *section, uint64_t index);

/* The set of the place that begins at head. */
static inline uint32_t ration_section_set_at(const struct ration_section *section,
                                             const struct ration_pair *head)
{
    return (uint32_t)((uint64_t)(head - section->sets) / section->entry_slots / RATION_SET_PLACES);
}

/* Starts fetching where the key may stand. */
static inline void ration_section_prefetch(const struct ration_section *section,
                                           const struct ration_place *place)
{
    uint64_t first = ration_place_index(place, 0);

    __builtin_prefetch(ration_section_at(section, first), 1);
    __builtin_prefetch(ration_section_at(section, first ^ 4), 1);
    if (section->entry_slots > 1) { /* then four places are more than a line */
        __builtin_prefetch(ration_section_at(section, first ^ 2), 1);
        __builtin_prefetch(ration_section_at(section, first ^ 6), 1);
    }
}

/* Starts fetching where the key may stand besides the half of its first set that it looks at first. */
static inline void ration_section_prefetch_rest(const struct ration_section *section,
                                                const struct ration_place *place)
{
    uint64_t first = ration_place_index(place, 0);
    uint64_t second = ration_place_index(place, RATION_SET_PLACES);

    __builtin_prefetch(ration_section_at(section, first ^ 4), 1);
    __builtin_prefetch(ration_section_at(section, second), 1);
    __builtin_prefetch(ration_section_at(section, second ^ 4), 1);
}

/*
 * The moment from which an absent key of this place starts: what was reclaimed in its sets. Call
 * it after the look that did not find the key, or with the key's place claimed.
 */
uint64_t ration_section_origin_ns(const struct ration_section *section,
                                  const struct ration_place *place);

/* Raises the origin of a set before something with this moment is reclaimed from it. */
void ration_section_raise_origin(const struct ration_section *section, uint32_t set,
                                 struct ration_time moment);

/* Until when a key of this place may have debt in the overflow bucket. */
uint64_t ration_section_overflow_ns(const struct ration_section *section,
                                    const struct ration_place *place);

/* Notes that a key of this place charges the overflow bucket, which is then full at moment. */
void ration_section_note_overflow(const struct ration_section *section,
                                  const struct ration_place *place, struct ration_time moment);

/*
 * Tokens that were returned to the bucket of this place since the block was made, and to others
 * that are counted together with it: never fewer.
 */
struct ration_section_returns {
    uint64_t returned_tokens; /* by anything: so far others may have moved a reservation forward */
    uint64_t
        refunded_tokens; /* those of them that were not returned by another reservation, but by a
                                 refund or by a call that replaced the state: they may have been a
                                 reservation's own */
};

/*
 * What is returned is counted before the bucket changes. The counters of another block start
 * elsewhere, so that a reservation made there finds that much was returned.
 */
struct ration_section_returns ration_section_returned(const struct ration_section *section,
                                                      const struct ration_place *place);
void ration_section_count_returned(const struct ration_section *section,
                                   const struct ration_place *place,
                                   const struct ration_section_returns *returns);

#endif
