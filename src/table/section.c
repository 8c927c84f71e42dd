#include "table/section.h"

#include "base/yield.h"

struct ration_section ration_section_open(struct ration_block *block, uint32_t section_index)
{
    const struct ration_section_header *header = &ration_block_sections(block)[section_index];
    char *base = (char *)block;

    return (struct ration_section){
        .sets = (struct ration_pair *)(void *)(base + header->sets_offset),
        .metas = (struct ration_set_meta *)(void *)(base + header->metas_offset),
        .set_count = header->set_count,
        .entry_slots = header->entry_slots,
        .shape = header->shape,
        .overflow = (struct ration_pair *)(void *)(base + header->overflow_offset),
        .overflow_count = header->overflow_count,
        .rings = (struct ration_pair *)(void *)(base + header->rings_offset),
        .block = block,
        .descriptors = (struct ration_descriptor *)(void *)(base + block->descriptors_offset),
        .descriptor_count = block->descriptor_count,
        .index = section_index,
    };
}

/* Four classes per octave, by the highest bit and the two bits after it. */
static uint32_t class_of(uint64_t fill_ns)
{
    uint32_t octave = 63 - (uint32_t)__builtin_clzll(fill_ns | 4);
    uint32_t class = octave * 4 + (uint32_t)(fill_ns >> (octave - 2) & 3);

    return class < RATION_OVERFLOW_CLASSES ? class : RATION_OVERFLOW_CLASSES - 1;
}

struct ration_pair *ration_section_overflow_of(const struct ration_section *section,
                                               uint64_t fill_ns)
{
    return ration_section_overflow_at(section, section->overflow_count > 1 ? class_of(fill_ns) : 0);
}

uint64_t ration_section_overflow_fill_ns(const struct ration_section *section, uint64_t index)
{
    uint64_t next = index + 1; /* class */

    if (section->overflow_count == 1 || next >= RATION_OVERFLOW_CLASSES)
        return RATION_SPAN_NS;
    return next < 8 ? 8 : ((4 | next % 4) << (next / 4 - 2)) - 1;
}

/* Makes *word at least ns. */
static void raise_watermark(uint64_t *word, uint64_t ns)
{
    uint64_t seen = __atomic_load_n(word, __ATOMIC_RELAXED);

    ration_yield_point();
    /* release: pairs with the acquire loads of the watermarks, which follow the load of the slot concerned */
    while (seen < ns &&
           !__atomic_compare_exchange_n(word, &seen, ns, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
        ;
}

uint64_t ration_section_reclaim_watermark_ns(const struct ration_section *section,
                                             const struct ration_location *location)
{
    uint64_t first =
        __atomic_load_n(&section->metas[location->sets[0]].reclaimed_ns, __ATOMIC_ACQUIRE);
    uint64_t second =
        __atomic_load_n(&section->metas[location->sets[1]].reclaimed_ns, __ATOMIC_ACQUIRE);

    return first > second ? first : second;
}

void ration_section_raise_reclaim_watermark(const struct ration_section *section, uint32_t set,
                                            struct ration_time expires_at)
{
    raise_watermark(&section->metas[set].reclaimed_ns, ration_time_ceil_ns(expires_at));
}

uint64_t ration_section_overflow_watermark_ns(const struct ration_section *section,
                                              const struct ration_location *location)
{
    return __atomic_load_n(&section->metas[location->sets[0]].overflow_ns, __ATOMIC_ACQUIRE);
}

void ration_section_raise_overflow_watermark(const struct ration_section *section,
                                             const struct ration_location *location,
                                             struct ration_time expires_at)
{
    raise_watermark(&section->metas[location->sets[0]].overflow_ns,
                    ration_time_ceil_ns(expires_at));
}

/* The index of a key's counter, which it shares with a few other keys of its limiter. */
static uint64_t counter_index(const struct ration_section *section,
                              const struct ration_location *location)
{
    uint64_t index =
        location->tag ^ ((uint64_t)section->index * UINT64_C(0x9e3779b97f4a7c15) >> 40);

    return index % RATION_RETURNED_COUNTERS;
}

struct ration_section_returns ration_section_returned(const struct ration_section *section,
                                                      const struct ration_location *location)
{
    const struct ration_block *block = section->block;
    uint64_t index = counter_index(section, location);

    /* acquire: pairs with the adds in ration_section_count_returned(), which precede the change of the bucket */
    return (struct ration_section_returns){
        block->returned_start + __atomic_load_n(&block->returned_tokens[index], __ATOMIC_ACQUIRE),
        block->returned_start + __atomic_load_n(&block->refunded_tokens[index], __ATOMIC_ACQUIRE),
    };
}

void ration_section_count_returned(const struct ration_section *section,
                                   const struct ration_location *location,
                                   const struct ration_section_returns *returns)
{
    struct ration_block *block = section->block;
    uint64_t index = counter_index(section, location);

    ration_yield_point();
    /* seq_cst: neither the load of the bucket before it nor the swap after it is reordered across it */
    if (returns->returned_tokens > 0)
        __atomic_fetch_add(&block->returned_tokens[index], returns->returned_tokens,
                           __ATOMIC_SEQ_CST);
    if (returns->refunded_tokens > 0)
        __atomic_fetch_add(&block->refunded_tokens[index], returns->refunded_tokens,
                           __ATOMIC_SEQ_CST);
}
