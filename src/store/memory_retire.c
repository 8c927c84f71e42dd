/*
 * Buckets converted to the current config by the thread that changes it, as a call would that met them: all
 * of an older config that are in debt, and the overflow buckets.
 *
 * None may be left for the calls that meet it: a slot says until when it carries information, and under the
 * new limit that may be later than what the slot still says. It would be given to another key, and its debt
 * forgotten (R7).
 *
 * Idle is idle under any limit, so a key that is idle keeps its place as it is. But before the number of
 * its generation is used again it loses the place: its cells would be read under another config.
 */
#include "store/memory_find.h"

static uint32_t mark_of(const struct ration_found *found)
{
    return ration_found_is_plain(found) ? ration_pair_mark(found->slot.value)
                                        : ration_head_unpack(found->view.value.words[1]).mark;
}

/* Makes a key's place empty, of which moment is lost. False if it has changed. */
static bool forget(const struct ration_section *section, const struct ration_found *found,
                   struct ration_time moment)
{
    struct ration_entrance at = found->slot;

    if (!ration_found_is_plain(found))
        at = (struct ration_entrance){found->view.head, found->view.value, false};
    /* before the place is empty, as a key that takes it does */
    ration_section_raise_origin(section, ration_section_set_at(section, at.head), moment);
    return ration_create_withdraw(ration_found_kind(found), &at);
}

/* Whether an idle key of this generation is in the way of the next change. */
static bool is_next(const struct ration_config *config, uint32_t generation)
{
    return generation == (config->generation + 1) % RATION_CONFIG_COUNT;
}

/* True: what stood at head was a key, which has lost its slot. */
static bool convert(const struct ration_run *run, const struct ration_op_part *part,
                    const struct ration_section *section, struct ration_pair *head)
{
    for (;;) { /* each turn means that another thread changed it */
        struct ration_found found = {.section = section};
        struct ration_entry_next next;
        uint32_t its_generation;
        enum ration_found_at at = ration_found_read_at(run, part, head, &found, &its_generation);

        if (at == RATION_FOUND_NONE || its_generation == part->to.config->generation)
            return false;
        if (at == RATION_FOUND_IDLE) {
            if (ration_section_is_overflow(section, head) ||
                !is_next(part->to.config, its_generation))
                return false;
            if (forget(section, &found, ration_memory_moment(section, found.cells)))
                return true;
            continue;
        }
        ration_found_next(run, part, &found, &next);
        /* to convert a bucket is not to use it; one that starts over is as new */
        if (!ration_configs_is_reset(part->configs, part->to.config, its_generation))
            next.mark |= mark_of(&found) & RATION_MARK_ESTABLISHED;
        if (ration_found_change(&found, &next))
            return false;
    }
}

/* One walk through all slots of a section. */
struct sweep {
    const struct ration_section *section;
    uint64_t slot_count;
    struct ration_limit own_limits[RATION_RULES_MAX];
    struct ration_op_part part;
    struct ration_run run;
};

static void sweep_begin(const struct ration_store *store, const struct ration_configs *configs,
                        uint32_t section_index, uint64_t now_ns, struct sweep *out_sweep)
{
    const struct ration_memory *memory = (const struct ration_memory *)store;

    out_sweep->section = &memory->sections[section_index];
    out_sweep->slot_count = (uint64_t)out_sweep->section->set_count * RATION_SET_PLACES;
    out_sweep->part = (struct ration_op_part){.own_limits = out_sweep->own_limits};
    ration_part_read_config(&out_sweep->part, configs);
    out_sweep->run.memory = memory;
    out_sweep->run.since_ns = ration_block_now(store->epoch_ns, now_ns);
    out_sweep->run.now_ns = out_sweep->run.since_ns + store->epoch_ns;
}

static void convert_overflow(const struct sweep *sweep)
{
    for (uint64_t i = 0; i < sweep->section->overflow_count; i++)
        (void)convert(&sweep->run, &sweep->part, sweep->section,
                      ration_section_overflow_at(sweep->section, i));
}

uint64_t ration_memory_renew(struct ration_store *store, const struct ration_configs *configs,
                             uint32_t section_index, uint64_t now_ns)
{
    struct sweep sweep;
    uint64_t removed_count = 0;

    sweep_begin(store, configs, section_index, now_ns, &sweep);
    for (uint64_t i = 0; i < sweep.slot_count; i++) {
        struct ration_pair *head = ration_section_at(sweep.section, i);

        if (!ration_pair_is_empty(ration_atomic16_load(head))) /* most of a table is */
            removed_count += convert(&sweep.run, &sweep.part, sweep.section, head);
    }
    convert_overflow(&sweep);
    return removed_count;
}

/* Removes what stands at head if it has the number of the next generation. True: it did. */
static bool forget_next(const struct ration_run *run, const struct ration_op_part *part,
                        const struct ration_section *section, struct ration_pair *head)
{
    struct ration_pair value = ration_atomic16_load(head);
    struct ration_found found = {.section = section};
    uint32_t generation = ration_section_is_plain(section) ? ration_pair_generation(value)
                                                           : ration_head_generation(value.words[1]);

    /* each turn means that another thread changed it */
    while (is_next(part->to.config, generation) &&
           ration_found_read_at(run, part, head, &found, &generation) != RATION_FOUND_NONE &&
           is_next(part->to.config, generation))
        if (forget(section, &found, (struct ration_time){0, 0}))
            return true;
    return false;
}

uint64_t ration_memory_clear(struct ration_store *store, const struct ration_configs *configs,
                             uint32_t section_index, uint64_t now_ns)
{
    struct sweep sweep;
    uint64_t removed_count = 0;

    sweep_begin(store, configs, section_index, now_ns, &sweep);
    convert_overflow(&sweep);
    if (sweep.part.to.config->number + 1 < RATION_CONFIG_COUNT)
        return 0; /* no bucket has the next generation's number yet */
    for (uint64_t i = 0; i < sweep.slot_count; i++)
        removed_count += forget_next(&sweep.run, &sweep.part, sweep.section,
                                     ration_section_at(sweep.section, i));
    return removed_count;
}
