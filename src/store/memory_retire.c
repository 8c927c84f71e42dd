/*
 * Buckets converted to the current config by the thread that changes it, as a call would that met them: all
 * of an older config that are in debt, and the overflow bucket. Idle is idle under any limit.
 *
 * None may be left for the calls that meet it: a slot says until when it carries information, and under the
 * new limit that may be later than what the slot still says. It would be given to another key, and its debt
 * forgotten (R7).
 */
#include "store/memory_find.h"

static void convert(const struct ration_run *run, const struct ration_op_part *part,
                    const struct ration_section *section, struct ration_pair *head)
{
    for (;;) { /* each turn means that another thread changed it */
        struct ration_found found = {.section = section};
        struct ration_entry_next next;
        uint32_t its_generation;

        if (!ration_found_read_at(run, part, head, &found, &its_generation) ||
            its_generation == part->to.config->generation)
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

void ration_memory_renew(struct ration_store *store, const struct ration_configs *configs,
                         uint32_t section_index, uint64_t now_ns)
{
    const struct ration_memory *memory = (const struct ration_memory *)store;
    const struct ration_section *section = &memory->sections[section_index];
    uint64_t count = (uint64_t)section->set_count * RATION_SET_PLACES;
    struct ration_op_part part;
    struct ration_run run;

    begin(memory, configs, now_ns, &run, &part);
    for (uint64_t i = 0; i < count; i++) {
        struct ration_pair *head = ration_section_at(section, i);

        if (!ration_pair_is_empty(ration_atomic16_load(head))) /* most of a table is */
            convert(&run, &part, section, head);
    }
    convert(&run, &part, section, section->overflow);
}
