/*
 * Buckets of a config that is about to be forgotten, converted to the current one: as an op would
 * that met them. Only those in debt: idle is idle under any limit.
 */
#include "store/memory_find.h"

static void retire_place(const struct ration_run *run, const struct ration_op_part *part,
                         const struct ration_section *section, struct ration_pair *head,
                         uint32_t generation)
{
    for (;;) { /* each turn means that another thread changed it */
        struct ration_found found = {.section = section};
        struct ration_entry_next next;
        uint32_t its_generation;

        if (!ration_found_read_at(run, part, head, &found, &its_generation) ||
            its_generation != generation)
            return;
        next = ration_found_next(run, part, &found);
        if (ration_found_change(&found, &next))
            return;
    }
}

void ration_memory_retire(struct ration_store *store, const struct ration_configs *configs,
                          uint32_t section_index, uint32_t generation, uint64_t now_ns)
{
    const struct ration_memory *memory = (const struct ration_memory *)store;
    const struct ration_section *section = &memory->sections[section_index];
    uint64_t count = (uint64_t)section->set_count * RATION_SET_PLACES;
    struct ration_op_part part = {.configs = configs};
    struct ration_run run;

    part.to.config = ration_configs_current(configs);
    run.memory = memory;
    run.since_ns = ration_block_now(store->epoch_ns, now_ns);
    run.now_ns = run.since_ns + store->epoch_ns;
    for (uint64_t i = 0; i < count; i++)
        retire_place(&run, &part, section, ration_section_at(section, i), generation);
    retire_place(&run, &part, section, section->overflow, generation);
}
