#include "table/block.h"

#include <string.h>

#include "table/entry.h"
#include "table/seat.h"

/* Offsets that grow, part by part; 0 once they no longer fit. */
struct room {
    uint64_t end;
    bool is_over;
};

#define BLOCK_BYTES_MAX (UINT64_C(1) << 46)

static uint64_t take(struct room *room, uint64_t count, uint64_t each_bytes)
{
    uint64_t start =
        (room->end + RATION_BLOCK_ALIGNMENT - 1) / RATION_BLOCK_ALIGNMENT * RATION_BLOCK_ALIGNMENT;

    if (room->is_over || count > BLOCK_BYTES_MAX / each_bytes ||
        start + count * each_bytes > BLOCK_BYTES_MAX) {
        room->is_over = true;
        return 0;
    }
    room->end = start + count * each_bytes;
    return start;
}

/* The head and the cells, in a power of two of slots, so that entries share no more lines than needed. */
static uint32_t entry_slots(uint32_t cell_count)
{
    uint32_t slots = 1;

    while (cell_count > 0 && slots < cell_count + 1)
        slots *= 2;
    return slots;
}

static struct ration_section_header lay_out(struct ration_section_shape shape, struct room *room)
{
    struct ration_section_header header = {.shape = shape,
                                           .entry_slots = entry_slots(shape.cell_count)};
    uint64_t sets = (shape.keys_max * 100 + RATION_SET_KEYS_X100 - 1) / RATION_SET_KEYS_X100;

    header.set_count = shape.set_count > 0 ? shape.set_count : (uint32_t)(sets < 2 ? 2 : sets);

    uint64_t slots = (uint64_t)RATION_SET_PLACES * header.entry_slots;

    header.overflow_count = shape.is_mixed ? RATION_OVERFLOW_CLASSES : 1;

    header.sets_offset = take(room, header.set_count, slots * sizeof(struct ration_pair));
    header.notes_offset = take(room, header.set_count, sizeof(struct ration_set_note));
    header.overflow_offset = take(room, (uint64_t)header.overflow_count * header.entry_slots,
                                  sizeof(struct ration_pair));
    /* rings of the places, then those of the overflow entries */
    if (shape.ring_cells > 0)
        header.rings_offset =
            take(room, (uint64_t)header.set_count * RATION_SET_PLACES + header.overflow_count,
                 (uint64_t)shape.ring_cells * sizeof(struct ration_pair));
    header.end_offset = header.limit_offset = room->end;
    return header;
}

/*
 * In a block that grows, sections have addresses up to a round size, less than a quarter more than they
 * need: another one that replaces them may be a little larger. Addresses that are not used take no memory.
 */
static uint64_t round_size(uint64_t size_bytes)
{
    uint64_t step = RATION_BLOCK_ALIGNMENT;

    while (step <= size_bytes / 8)
        step *= 2;
    return (size_bytes + step - 1) / step * step;
}

static struct ration_section_header lay_out_rounded(struct ration_section_shape shape,
                                                    struct room *room)
{
    struct ration_section_header header = lay_out(shape, room);

    room->end = header.sets_offset;
    (void)take(room, round_size(header.end_offset - header.sets_offset), 1);
    header.limit_offset = room->end;
    return header;
}

static struct ration_section_header lay_out_in(struct ration_section_shape shape, bool is_growing,
                                               struct room *room)
{
    return is_growing ? lay_out_rounded(shape, room) : lay_out(shape, room);
}

static bool is_shape_possible(const struct ration_section_shape *shape, uint32_t seat_count)
{
    return shape->keys_max > 0 && shape->keys_max <= RATION_SECTION_KEYS_MAX &&
           shape->set_count != 1 && /* a key has two */
           shape->cell_count <= RATION_SECTION_CELLS_MAX &&
           (shape->cell_count == 0 || seat_count > 0);
}

static size_t section_max(const struct ration_block_plan *plan)
{
    return plan->section_max > plan->shape_count ? plan->section_max : plan->shape_count;
}

static bool is_possible(const struct ration_block_plan *plan)
{
    if (plan->shape_count == 0 || section_max(plan) > RATION_BLOCK_SECTIONS_MAX ||
        plan->seat_count > RATION_SEATS_MAX || (plan->seat_count & (plan->seat_count - 1)) != 0)
        return false;
    for (size_t i = 0; i < plan->shape_count; i++)
        if (!is_shape_possible(&plan->shapes[i], plan->seat_count))
            return false;
    return true;
}

/* Where things are. */
struct outline {
    uint64_t sections_offset;
    uint64_t seats_offset;
    struct room room; /* up to the first section */
};

static struct outline outline(size_t sections, uint32_t seat_count)
{
    struct outline lines = {.room = {sizeof(struct ration_block), false}};

    lines.sections_offset = take(&lines.room, sections, sizeof(struct ration_section_header));
    lines.seats_offset = take(&lines.room, seat_count, sizeof(struct ration_seat));
    return lines;
}

size_t ration_block_size(const struct ration_block_plan *plan)
{
    struct room room;

    if (!is_possible(plan))
        return 0;
    room = outline(section_max(plan), plan->seat_count).room;
    for (size_t i = 0; i < plan->shape_count; i++)
        (void)lay_out_in(plan->shapes[i], section_max(plan) > plan->shape_count, &room);
    if (plan->spare_bytes > 0)
        (void)take(&room, plan->spare_bytes, 1);
    return room.is_over ? 0 : (size_t)room.end;
}

uint64_t ration_block_keys_in(struct ration_section_shape shape, uint32_t seat_count,
                              size_t size_bytes)
{
    uint64_t fits = 0;
    uint64_t too_many = RATION_SECTION_KEYS_MAX;
    struct ration_block_plan plan = {.shapes = &shape, .shape_count = 1, .seat_count = seat_count};

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
    struct room room = {block->end_offset, false};
    struct ration_section_header header;

    if (section_count == block->section_max || !is_shape_possible(shape, block->seat_count))
        return false;
    header = lay_out_in(*shape, block->is_growing, &room);
    if (room.is_over || room.end > block->size_bytes)
        return false;
    ration_block_sections(block)[section_count] = header;
    /* relaxed: a number for those who ask how much memory is used */
    __atomic_store_n(&block->end_offset, header.limit_offset, __ATOMIC_RELAXED);
    /* release: pairs with the acquire in ration_block_section_count(); it is whole */
    __atomic_store_n(&block->section_count, section_count + 1, __ATOMIC_RELEASE);
    return true;
}

static struct ration_section_header lay_out_again(const struct ration_block *block,
                                                  uint32_t section_index,
                                                  const struct ration_section_shape *shape)
{
    const struct ration_section_header *before = &ration_block_sections(block)[section_index];
    struct room room = {before->sets_offset, false};
    struct ration_section_header header = lay_out(*shape, &room);

    if (room.is_over)
        header.end_offset = UINT64_MAX;
    header.limit_offset = before->limit_offset;
    return header;
}

bool ration_block_can_replace(const struct ration_block *block, uint32_t section_index,
                              const struct ration_section_shape *shape)
{
    struct ration_section_header header = lay_out_again(block, section_index, shape);

    return is_shape_possible(shape, block->seat_count) && header.end_offset <= header.limit_offset;
}

bool ration_block_is_same_size(const struct ration_block *block, uint32_t section_index,
                               const struct ration_section_shape *shape)
{
    const struct ration_section_header *before = &ration_block_sections(block)[section_index];
    struct room room = {before->sets_offset, false}, room_before = room;

    return lay_out_rounded(*shape, &room).limit_offset ==
               lay_out_rounded(before->shape, &room_before).limit_offset &&
           !room.is_over;
}

void ration_block_replace(struct ration_block *block, uint32_t section_index,
                          const struct ration_section_shape *shape)
{
    ration_block_sections(block)[section_index] = lay_out_again(block, section_index, shape);
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
    struct outline lines = outline(section_max(plan), plan->seat_count);

    block->size_bytes = ration_block_size(plan);
    block->end_offset = lines.room.end;
    block->sections_offset = lines.sections_offset;
    block->seats_offset = lines.seats_offset;
    block->version = RATION_BLOCK_VERSION;
    block->clock_kind = plan->clock_kind;
    block->epoch_ns = plan->epoch_ns;
    block->section_max = (uint32_t)section_max(plan);
    block->seat_count = plan->seat_count;
    block->is_growing = section_max(plan) > plan->shape_count;
    block->is_shared = plan->is_shared;
    memcpy(block->seed, plan->seed, sizeof(block->seed));
    if (plan->hash == 0)
        ration_hash_secret_init(&block->secret, plan->seed);
    else
        ration_hash_secret_init_kind(&block->secret, plan->seed, plan->hash);
    for (size_t i = 0; i < plan->shape_count; i++)
        (void)ration_block_add(block, &plan->shapes[i]); /* the plan has room for it */
    /* release: pairs with the acquire in ration_block_check(); what has the magic is whole */
    __atomic_store_n(&block->magic, RATION_BLOCK_MAGIC, __ATOMIC_RELEASE);
}

/* Whether the sections lie where they would be laid. */
static bool is_laid_out(const struct ration_block *block)
{
    struct outline lines = outline(block->section_max, block->seat_count);
    uint32_t section_count = ration_block_section_count(block);

    if (block->section_max > RATION_BLOCK_SECTIONS_MAX || section_count > block->section_max ||
        block->sections_offset != lines.sections_offset ||
        block->seats_offset != lines.seats_offset || lines.room.end > block->size_bytes)
        return false;
    for (uint32_t i = 0; i < section_count; i++) {
        const struct ration_section_header *header = &ration_block_sections(block)[i];
        struct ration_section_header expected = lay_out(header->shape, &lines.room);

        expected.limit_offset = header->limit_offset;
        if (!is_shape_possible(&header->shape, block->seat_count) ||
            memcmp(&expected, header, sizeof(expected)) != 0 ||
            header->limit_offset < header->end_offset)
            return false;
        lines.room.end = header->limit_offset;
    }
    return !lines.room.is_over && lines.room.end <= block->end_offset &&
           block->end_offset <= block->size_bytes;
}

ration_status ration_block_check(const struct ration_block *block, size_t size_bytes,
                                 const char **out_reason)
{
    *out_reason = "it is smaller than a table's header";
    if (size_bytes < sizeof(*block))
        return RATION_EINVAL;
    *out_reason = "it does not begin as a table does";
    if (__atomic_load_n(&block->magic, __ATOMIC_ACQUIRE) != RATION_BLOCK_MAGIC)
        return RATION_EINVAL;
    *out_reason = "it was made by another version";
    if (block->version != RATION_BLOCK_VERSION)
        return RATION_EINVAL;
    *out_reason = "it is cut off";
    if (block->size_bytes > size_bytes)
        return RATION_EINVAL;
    *out_reason = "its sections are not where they must be";
    if (!is_laid_out(block))
        return RATION_EINVAL;
    *out_reason = "this machine cannot compute its hash";
    return ration_hash_kind_usable(block->secret.kind) ? RATION_OK : RATION_EINVAL;
}
