#include "store/memory.h"

#include "base/os.h"

#include <stdlib.h>

struct ration_location ration_memory_place(const struct ration_memory *memory,
                                           const struct ration_target *target)
{
    if (target->is_located)
        return (struct ration_location){
            .tag = target->location.words[0],
            .sets = {(uint32_t)target->location.words[1],
                     (uint32_t)(target->location.words[1] >> 32)},
            .start = (uint32_t)target->location.words[2],
        };
    return ration_location_of(
        ration_hash_key(&memory->block->secret, target->key.bytes, target->key.size),
        memory->sections[target->section_index].set_count);
}

void ration_memory_locate(struct ration_target *target, const struct ration_location *location)
{
    target->location.words[0] = location->tag;
    target->location.words[1] = (uint64_t)location->sets[1] << 32 | location->sets[0];
    target->location.words[2] = location->start;
    target->location.words[3] = 0;
    target->is_located = 1;
}

static const struct ration_section *section_view(struct ration_store *store, uint32_t section_index)
{
    return &((const struct ration_memory *)store)->sections[section_index];
}

static void prefetch_slots(const struct ration_store *store, const struct ration_target *target)
{
    const struct ration_memory *memory = (const struct ration_memory *)store;
    struct ration_location location = ration_memory_place(memory, target);

    ration_section_prefetch(&memory->sections[target->section_index], &location);
}

static size_t used_bytes(const struct ration_store *store)
{
    const struct ration_memory *memory = (const struct ration_memory *)store;

    return sizeof(*memory) + memory->block->section_max * sizeof(memory->sections[0]) +
           memory->mapping.size_bytes -
           (memory->block->size_bytes -
            __atomic_load_n(&memory->block->end_offset, __ATOMIC_RELAXED));
}

static void free_memory(struct ration_store *store)
{
    struct ration_memory *memory = (struct ration_memory *)store;

    ration_mapping_done(&memory->mapping);
    free(memory);
}

static const struct ration_store_calls memory_calls = {
    .begin = ration_memory_begin,
    .fetch = prefetch_slots,
    .section = section_view,
    .renew = ration_memory_renew,
    .clear = ration_memory_clear,
    .walk = ration_memory_walk,
    .shape = ration_memory_shape,
    .put = ration_memory_put,
    .size_bytes = used_bytes,
    .free = free_memory,
};

/* Touches the memory of all sections, but not unused addresses between them. */
static ration_status touch_sections(const struct ration_memory *memory)
{
    const struct ration_section_header *headers = ration_block_sections(memory->block);
    ration_status status = ration_mapping_touch(
        &memory->mapping, 0,
        memory->block->is_growing ? headers[0].sets_offset : memory->block->end_offset);

    if (!memory->block->is_growing)
        return status;
    for (uint32_t i = 0; i < memory->block->section_count && status == RATION_OK; i++)
        status = ration_mapping_touch(&memory->mapping, headers[i].sets_offset,
                                      headers[i].end_offset - headers[i].sets_offset);
    return status;
}

ration_status ration_memory_create(const struct ration_block_plan *plan,
                                   struct ration_mapping_options options,
                                   struct ration_memory **out_memory)
{
    size_t block_bytes = ration_block_size(plan);
    size_t sections;
    struct ration_memory *memory;
    ration_status status;

    if (block_bytes == 0)
        return RATION_EINVAL;
    sections = plan->section_max > plan->shape_count ? plan->section_max : plan->shape_count;
    memory = calloc(1, sizeof(*memory) + sections * sizeof(memory->sections[0]));
    if (memory == NULL)
        return RATION_ENOMEM;
    status = ration_mapping_init(block_bytes, options, &memory->mapping);
    if (status != RATION_OK) {
        free(memory);
        return status;
    }
    memory->store = (struct ration_store){&memory_calls, plan->epoch_ns};
    memory->block = memory->mapping.memory;
    ration_block_init(memory->block, plan);
    for (uint32_t i = 0; i < plan->shape_count; i++)
        memory->sections[i] = ration_section_open(memory->block, i);
    memory->is_prefaulted = plan->is_prefaulted;
    if (!ration_os_random(&memory->block->returned_start, sizeof(memory->block->returned_start)))
        status = RATION_ENOMEM;
    else if (plan->is_prefaulted)
        status = touch_sections(memory);
    if (status != RATION_OK) {
        free_memory(&memory->store);
        return status;
    }
    *out_memory = memory;
    return RATION_OK;
}

ration_status ration_memory_add(struct ration_memory *memory,
                                const struct ration_section_shape *shape,
                                uint32_t *out_section_index)
{
    uint32_t section_index = memory->block->section_count;
    uint64_t end_before = memory->block->end_offset;

    if (!ration_block_add(memory->block, shape))
        return RATION_ENOMEM;
    if (memory->is_prefaulted &&
        ration_mapping_touch(&memory->mapping, end_before,
                             ration_block_sections(memory->block)[section_index].end_offset -
                                 end_before) != RATION_OK) {
        ration_block_drop(memory->block);
        return RATION_ENOMEM;
    }
    memory->sections[section_index] = ration_section_open(memory->block, section_index);
    *out_section_index = section_index;
    return RATION_OK;
}

ration_status ration_memory_replace(struct ration_memory *memory, uint32_t section_index,
                                    const struct ration_section_shape *shape)
{
    const struct ration_section_header *header =
        &ration_block_sections(memory->block)[section_index];

    if (!ration_block_can_replace(memory->block, section_index, shape))
        return RATION_EUNSUPPORTED;
    ration_mapping_clear(&memory->mapping, header->sets_offset,
                         header->end_offset - header->sets_offset);
    ration_block_replace(memory->block, section_index, shape);
    memory->sections[section_index] = ration_section_open(memory->block, section_index);
    if (!memory->is_prefaulted)
        return RATION_OK;
    return ration_mapping_touch(&memory->mapping, header->sets_offset,
                                header->end_offset - header->sets_offset);
}
