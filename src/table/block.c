#include "table/block.h"

#include <string.h>

#include "table/descriptor.h"
#include "table/entry.h"

/* The end offset of a layout that grows part by part; is_over once it no longer fits. */
struct extent {
    uint64_t end;
    bool is_over;
};

#define BLOCK_BYTES_MAX (UINT64_C(1) << 46)

static uint64_t append_bytes(struct extent *extent, uint64_t count, uint64_t each_bytes)
{
    uint64_t start = (extent->end + RATION_BLOCK_ALIGNMENT - 1) / RATION_BLOCK_ALIGNMENT *
                     RATION_BLOCK_ALIGNMENT;

    if (extent->is_over || count > BLOCK_BYTES_MAX / each_bytes ||
        start + count * each_bytes > BLOCK_BYTES_MAX) {
        extent->is_over = true;
        return 0;
    }
    extent->end = start + count * each_bytes;
    return start;
}

/* Head and cells take a power of two of 16-byte units, so that entries share as few cache lines as possible. */
static uint32_t entry_slots(uint32_t cell_count)
{
    uint32_t slots = 1;

    while (cell_count > 0 && slots < cell_count + 1)
        slots *= 2;
    return slots;
}

static struct ration_section_header lay_out_exact(struct ration_section_shape shape,
                                                  struct extent *extent)
{
    struct ration_section_header header = {.shape = shape,
                                           .entry_slots = entry_slots(shape.cell_count)};
    uint64_t sets = (shape.keys_max * 100 + RATION_SET_KEYS_X100 - 1) / RATION_SET_KEYS_X100;

    header.set_count = shape.set_count > 0 ? shape.set_count : (uint32_t)(sets < 2 ? 2 : sets);

    uint64_t slots = (uint64_t)RATION_SET_SLOTS * header.entry_slots;

    header.overflow_count = shape.is_mixed ? RATION_OVERFLOW_CLASSES : 1;

    header.sets_offset = append_bytes(extent, header.set_count, slots * sizeof(struct ration_pair));
    header.metas_offset = append_bytes(extent, header.set_count, sizeof(struct ration_set_meta));
    header.overflow_offset = append_bytes(
        extent, (uint64_t)header.overflow_count * header.entry_slots, sizeof(struct ration_pair));
    /* the rings of the slots, then those of the overflow entries */
    if (shape.ring_cells > 0)
        header.rings_offset = append_bytes(
            extent, (uint64_t)header.set_count * RATION_SET_SLOTS + header.overflow_count,
            (uint64_t)shape.ring_cells * sizeof(struct ration_pair));
    header.end_offset = header.limit_offset = extent->end;
    return header;
}

/*
 * In a block that grows, each section reserves addresses up to a rounded size, less than a quarter more than it
 * needs, so that a replacement may be a little larger. Addresses that are not used take no memory.
 */
static uint64_t round_up_size(uint64_t size_bytes)
{
    uint64_t unit = RATION_BLOCK_ALIGNMENT;

    while (unit <= size_bytes / 8)
        unit *= 2;
    return (size_bytes + unit - 1) / unit * unit;
}

static struct ration_section_header lay_out_rounded(struct ration_section_shape shape,
                                                    struct extent *extent)
{
    struct ration_section_header header = lay_out_exact(shape, extent);

    extent->end = header.sets_offset;
    (void)append_bytes(extent, round_up_size(header.end_offset - header.sets_offset), 1);
    header.limit_offset = extent->end;
    return header;
}

static struct ration_section_header lay_out_section(struct ration_section_shape shape,
                                                    bool is_growing, struct extent *extent)
{
    return is_growing ? lay_out_rounded(shape, extent) : lay_out_exact(shape, extent);
}

static bool is_shape_valid(const struct ration_section_shape *shape, uint32_t descriptor_count)
{
    return shape->keys_max > 0 && shape->keys_max <= RATION_SECTION_KEYS_MAX &&
           shape->set_count != 1 && /* a key needs two sets */
           shape->cell_count <= RATION_SECTION_CELLS_MAX &&
           (shape->cell_count == 0 || descriptor_count > 0);
}

static size_t section_max(const struct ration_block_plan *plan)
{
    return plan->section_max > plan->shape_count ? plan->section_max : plan->shape_count;
}

static bool is_plan_valid(const struct ration_block_plan *plan)
{
    if (plan->shape_count == 0 || section_max(plan) > RATION_BLOCK_SECTIONS_MAX ||
        plan->descriptor_count > RATION_DESCRIPTORS_MAX ||
        (plan->descriptor_count & (plan->descriptor_count - 1)) != 0)
        return false;
    for (size_t i = 0; i < plan->shape_count; i++)
        if (!is_shape_valid(&plan->shapes[i], plan->descriptor_count))
            return false;
    return true;
}

/* Offsets of the parts before the first section. */
struct outline {
    uint64_t sections_offset;
    uint64_t descriptors_offset;
    struct extent extent; /* ends where the first section begins */
};

static struct outline outline_of(size_t sections, uint32_t descriptor_count)
{
    struct outline offsets = {.extent = {sizeof(struct ration_block), false}};

    offsets.sections_offset =
        append_bytes(&offsets.extent, sections, sizeof(struct ration_section_header));
    offsets.descriptors_offset =
        append_bytes(&offsets.extent, descriptor_count, sizeof(struct ration_descriptor));
    return offsets;
}

size_t ration_block_size(const struct ration_block_plan *plan)
{
    struct extent extent;

    if (!is_plan_valid(plan))
        return 0;
    extent = outline_of(section_max(plan), plan->descriptor_count).extent;
    for (size_t i = 0; i < plan->shape_count; i++)
        (void)lay_out_section(plan->shapes[i], section_max(plan) > plan->shape_count, &extent);
    if (plan->spare_bytes > 0)
        (void)append_bytes(&extent, plan->spare_bytes, 1);
    return extent.is_over ? 0 : (size_t)extent.end;
}

uint64_t ration_block_keys_in(struct ration_section_shape shape, uint32_t descriptor_count,
                              size_t size_bytes)
{
    uint64_t fits = 0;
    uint64_t too_many = RATION_SECTION_KEYS_MAX;
    struct ration_block_plan plan = {
        .shapes = &shape, .shape_count = 1, .descriptor_count = descriptor_count};

    while (too_many - fits > 1) {
        size_t needed;

        shape.keys_max = fits + (too_many - fits) / 2;
        needed = ration_block_size(&plan);
        if (needed > 0 && needed <= size_bytes)
            fits = shape.keys_max;
        else
            too_many = shape.keys_max;
    }
    return fits;
}

bool ration_block_add(struct ration_block *block, const struct ration_section_shape *shape)
{
    uint32_t section_count = ration_block_section_count(block);
    struct extent extent = {block->end_offset, false};
    struct ration_section_header header;

    if (section_count == block->section_max || !is_shape_valid(shape, block->descriptor_count))
        return false;
    header = lay_out_section(*shape, block->is_growing, &extent);
    if (extent.is_over || extent.end > block->size_bytes)
        return false;
    ration_block_sections(block)[section_count] = header;
    /* relaxed: only read to report how much memory is used */
    __atomic_store_n(&block->end_offset, header.limit_offset, __ATOMIC_RELAXED);
    /* release: pairs with the acquire in ration_block_section_count(); the section is complete */
    __atomic_store_n(&block->section_count, section_count + 1, __ATOMIC_RELEASE);
    return true;
}

static struct ration_section_header lay_out_replacement(const struct ration_block *block,
                                                        uint32_t section_index,
                                                        const struct ration_section_shape *shape)
{
    const struct ration_section_header *before = &ration_block_sections(block)[section_index];
    struct extent extent = {before->sets_offset, false};
    struct ration_section_header header = lay_out_exact(*shape, &extent);

    if (extent.is_over)
        header.end_offset = UINT64_MAX;
    header.limit_offset = before->limit_offset;
    return header;
}

bool ration_block_can_replace(const struct ration_block *block, uint32_t section_index,
                              const struct ration_section_shape *shape)
{
    struct ration_section_header header = lay_out_replacement(block, section_index, shape);

    return is_shape_valid(shape, block->descriptor_count) &&
           header.end_offset <= header.limit_offset;
}

bool ration_block_is_same_size(const struct ration_block *block, uint32_t section_index,
                               const struct ration_section_shape *shape)
{
    const struct ration_section_header *before = &ration_block_sections(block)[section_index];
    struct extent extent = {before->sets_offset, false}, extent_before = extent;

    return lay_out_rounded(*shape, &extent).limit_offset ==
               lay_out_rounded(before->shape, &extent_before).limit_offset &&
           !extent.is_over;
}

void ration_block_replace(struct ration_block *block, uint32_t section_index,
                          const struct ration_section_shape *shape)
{
    ration_block_sections(block)[section_index] = lay_out_replacement(block, section_index, shape);
}

void ration_block_drop(struct ration_block *block)
{
    uint32_t last = block->section_count - 1;

    __atomic_store_n(&block->end_offset, ration_block_sections(block)[last].sets_offset,
                     __ATOMIC_RELAXED);
    __atomic_store_n(&block->section_count, last, __ATOMIC_RELEASE);
}

void ration_block_init(struct ration_block *block, const struct ration_block_plan *plan)
{
    struct outline offsets = outline_of(section_max(plan), plan->descriptor_count);

    block->size_bytes = ration_block_size(plan);
    block->end_offset = offsets.extent.end;
    block->sections_offset = offsets.sections_offset;
    block->descriptors_offset = offsets.descriptors_offset;
    block->version = RATION_BLOCK_VERSION;
    block->clock_kind = plan->clock_kind;
    block->epoch_ns = plan->epoch_ns;
    block->section_max = (uint32_t)section_max(plan);
    block->descriptor_count = plan->descriptor_count;
    block->is_growing = section_max(plan) > plan->shape_count;
    block->is_shared = plan->is_shared;
    memcpy(block->seed, plan->seed, sizeof(block->seed));
    if (plan->hash == 0)
        ration_hash_secret_init(&block->secret, plan->seed);
    else
        ration_hash_secret_init_kind(&block->secret, plan->seed, plan->hash);
    for (size_t i = 0; i < plan->shape_count; i++)
        (void)ration_block_add(block, &plan->shapes[i]); /* the plan has room for it */
    /* release: a block with the magic is complete */
    __atomic_store_n(&block->magic, RATION_BLOCK_MAGIC, __ATOMIC_RELEASE);
}
