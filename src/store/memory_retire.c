/*
 * Buckets converted to the current config by the thread that changes it, as an op would that met them:
 * those of a config that is about to be forgotten, and the overflow bucket. Keys that are idle lose their
 * places instead: their cells would be read under the config that has the generation's number next.
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

static uint32_t mark_of(const struct ration_found *found)
{
    return ration_found_is_plain(found) ? ration_pair_mark(found->slot.value)
                                        : ration_head_unpack(found->view.value.words[1]).mark;
}

/* Makes an idle key's place empty. False if it has changed. */
static bool forget(const struct ration_section *section, const struct ration_found *found)
{
    bool is_plain = ration_found_is_plain(found);
    struct ration_entrance at = found->slot;
    struct ration_time moment = found->cells[0];

    if (!is_plain) {
        at = (struct ration_entrance){found->view.head, found->view.value, false};
        moment = ration_entry_moment(section, found->cells);
    }
    /* before the place is empty, as a key that takes it does */
    ration_section_raise_origin(section, ration_section_set_at(section, at.head), moment);
    return ration_create_withdraw(ration_found_kind(found), &at);
}

static void convert(const struct ration_run *run, const struct ration_op_part *part,
                    const struct ration_section *section, struct ration_pair *head, is_due *due,
                    uint32_t generation)
{
    for (;;) { /* each turn means that another thread changed it */
        struct ration_found found = {.section = section};
        struct ration_entry_next next;
        uint32_t its_generation;
        enum ration_found_at at = ration_found_read_at(run, part, head, &found, &its_generation);

        if (at == RATION_FOUND_NONE || !due(its_generation, generation) ||
            (at == RATION_FOUND_IDLE && ration_section_is_overflow(section, head)))
            return;
        if (at == RATION_FOUND_IDLE) {
            if (forget(section, &found))
                return;
            continue;
        }
        next = ration_found_next(run, part, &found);
        /* to convert a bucket is not to use it */
        next.mark |= mark_of(&found) & RATION_MARK_ESTABLISHED;
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

static void convert_overflow(const struct ration_run *run, const struct ration_op_part *part,
                             const struct ration_section *section, is_due *due, uint32_t generation)
{
    for (uint64_t i = 0; i < section->overflow_count; i++)
        convert(run, part, section, ration_section_overflow_at(section, i), due, generation);
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
    convert_overflow(&run, &part, section, is_of, generation);
}

void ration_memory_renew(struct ration_store *store, const struct ration_configs *configs,
                         uint32_t section_index, uint64_t now_ns)
{
    const struct ration_memory *memory = (const struct ration_memory *)store;
    const struct ration_section *section = &memory->sections[section_index];
    struct ration_op_part part;
    struct ration_run run;

    begin(memory, configs, now_ns, &run, &part);
    convert_overflow(&run, &part, section, is_not_of, part.to.config->generation);
}
