/*
 * Buckets converted to the current config by who changes it, as an op would that met them: those of a
 * config that is about to be forgotten, and the overflow bucket. Only if in debt: idle is idle under
 * any limit.
 */
#include "store/memory_find.h"

/* Whether a bucket of this generation is to be converted. */
typedef bool is_due(uint32_t its_generation, uint32_t generation);

static bool is_of(uint32_t its_generation, uint32_t generation)
{
    return its_generation == generation;
}

static bool is_not_of(uint32_t its_generation, uint32_t generation)
{
    return its_generation != generation;
}

static void convert(const struct ration_run *run, const struct ration_op_part *part,
                    const struct ration_section *section, struct ration_pair *head, is_due *due,
                    uint32_t generation)
{
    for (;;) { /* each turn means that another thread changed it */
        struct ration_found found = {.section = section};
        struct ration_entry_next next;
        uint32_t its_generation;

        if (!ration_found_read_at(run, part, head, &found, &its_generation) ||
            !due(its_generation, generation))
            return;
        next = ration_found_next(run, part, &found);
        if (ration_found_change(&found, &next))
            return;
    }
}

static void begin(const struct ration_memory *memory, const struct ration_configs *configs,
                  uint64_t now_ns, struct ration_run *out_run, struct ration_op_part *out_part)
{
    *out_part = (struct ration_op_part){.configs = configs};
    out_part->to.config = ration_configs_current(configs);
    out_run->memory = memory;
    out_run->since_ns = ration_block_now(memory->store.epoch_ns, now_ns);
    out_run->now_ns = out_run->since_ns + memory->store.epoch_ns;
}

void ration_memory_retire(struct ration_store *store, const struct ration_configs *configs,
                          uint32_t section_index, uint32_t generation, uint64_t now_ns)
{
    const struct ration_memory *memory = (const struct ration_memory *)store;
    const struct ration_section *section = &memory->sections[section_index];
    uint64_t count = (uint64_t)section->set_count * RATION_SET_PLACES;
    struct ration_op_part part;
    struct ration_run run;

    begin(memory, configs, now_ns, &run, &part);
    for (uint64_t i = 0; i < count; i++)
        convert(&run, &part, section, ration_section_at(section, i), is_of, generation);
    convert(&run, &part, section, section->overflow, is_of, generation);
}

void ration_memory_renew(struct ration_store *store, const struct ration_configs *configs,
                         uint32_t section_index, uint64_t now_ns)
{
    const struct ration_memory *memory = (const struct ration_memory *)store;
    const struct ration_section *section = &memory->sections[section_index];
    struct ration_op_part part;
    struct ration_run run;

    begin(memory, configs, now_ns, &run, &part);
    convert(&run, &part, section, section->overflow, is_not_of, part.to.config->generation);
}
