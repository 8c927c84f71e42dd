/*
 * The thread that changes the config converts buckets to the new config, in the same way as a call that meets them:
 * all buckets of an older config that are in use, and the overflow buckets.
 *
 * It must not leave any of them to the calls that meet them: a slot contains its expiry time, and under the new limit
 * the bucket may be in use for longer. A creating thread would then give the slot to another key, and the tokens in
 * use would be lost (R7).
 *
 * A key that is idle under one limit is idle under any, so an idle key keeps its slot unchanged. But before the
 * number of its generation is used again it loses the slot, because its cells would be read under another config.
 */
#include "store/lookup.h"

static uint32_t flags_of(const struct ration_lookup *lookup)
{
    return ration_lookup_is_plain(lookup)
               ? ration_slot_flags(lookup->slot.value)
               : ration_entry_head_unpack(lookup->view.value.words[1]).flags;
}

/* Empties a key's slot, whose expiry time is lost. False if another thread has changed the slot. */
static bool remove_key(const struct ration_section *section, const struct ration_lookup *lookup,
                       struct ration_time expires_at)
{
    struct ration_claim slot = lookup->slot;

    if (!ration_lookup_is_plain(lookup))
        slot = (struct ration_claim){lookup->view.head, lookup->view.value, false};
    /* before the slot is empty, like a thread that reclaims it */
    ration_section_raise_reclaim_watermark(section, ration_section_set_at(section, slot.head),
                                           expires_at);
    return ration_claim_abort(ration_lookup_kind(lookup), &slot);
}

/* Whether this is the generation whose number the next config gets. */
static bool has_next_generation(const struct ration_config *config, uint32_t generation)
{
    return generation == (config->generation + 1) % RATION_CONFIG_COUNT;
}

/* Converts the bucket at head to the current config. True: head was an idle key, which has lost its slot. */
static bool convert_bucket(const struct ration_memory_run *run, const struct ration_key_part *part,
                           const struct ration_section *section, struct ration_pair *head)
{
    for (;;) { /* each pass means that another thread changed the bucket */
        struct ration_lookup lookup = {.section = section};
        struct ration_entry_next next;
        uint32_t written_generation;
        enum ration_lookup_slot condition =
            ration_lookup_read_at(run, part, head, &lookup, &written_generation);

        if (condition == RATION_LOOKUP_EMPTY || written_generation == part->to.config->generation)
            return false;
        if (condition == RATION_LOOKUP_IDLE) {
            if (ration_section_is_overflow(section, head) ||
                !has_next_generation(part->to.config, written_generation))
                return false;
            if (remove_key(section, &lookup, ration_memory_expires_at(section, lookup.cells)))
                return true;
            continue;
        }
        ration_lookup_next(run, part, &lookup, &next);
        /* converting a bucket does not make its key established; a key whose bucket starts over is new */
        if (!ration_config_table_is_reset(part->configs, part->to.config, written_generation))
            next.flags |= flags_of(&lookup) & RATION_FLAG_ESTABLISHED;
        if (ration_lookup_change(&lookup, &next))
            return false;
    }
}

/* One pass over all slots of a section. */
struct sweep {
    const struct ration_section *section;
    uint64_t slot_count;
    struct ration_limit own_limits[RATION_RULES_MAX];
    struct ration_key_part part;
    struct ration_memory_run run;
};

static void sweep_begin(const struct ration_store *store, const struct ration_config_table *configs,
                        uint32_t section_index, uint64_t now_ns, struct sweep *out_sweep)
{
    const struct ration_memory *memory = (const struct ration_memory *)store;

    out_sweep->section = &memory->sections[section_index];
    out_sweep->slot_count = (uint64_t)out_sweep->section->set_count * RATION_SET_SLOTS;
    out_sweep->part = (struct ration_key_part){.own_limits = out_sweep->own_limits};
    ration_op_read_config(&out_sweep->part, configs);
    out_sweep->run.memory = memory;
    out_sweep->run.since_ns = ration_block_now(store->epoch_ns, now_ns);
    out_sweep->run.now_ns = out_sweep->run.since_ns + store->epoch_ns;
}

static void convert_overflow(const struct sweep *sweep)
{
    for (uint64_t i = 0; i < sweep->section->overflow_count; i++)
        (void)convert_bucket(&sweep->run, &sweep->part, sweep->section,
                             ration_section_overflow_at(sweep->section, i));
}

uint64_t ration_memory_renew(struct ration_store *store, const struct ration_config_table *configs,
                             uint32_t section_index, uint64_t now_ns)
{
    struct sweep sweep;
    uint64_t removed_count = 0;

    sweep_begin(store, configs, section_index, now_ns, &sweep);
    for (uint64_t i = 0; i < sweep.slot_count; i++) {
        struct ration_pair *head = ration_section_at(sweep.section, i);

        if (!ration_slot_is_empty(ration_atomic16_load(head))) /* most slots are empty */
            removed_count += convert_bucket(&sweep.run, &sweep.part, sweep.section, head);
    }
    convert_overflow(&sweep);
    return removed_count;
}

/* Removes the bucket at head if it has the number of the next generation. True: it did. */
static bool remove_next_generation(const struct ration_memory_run *run,
                                   const struct ration_key_part *part,
                                   const struct ration_section *section, struct ration_pair *head)
{
    struct ration_pair value = ration_atomic16_load(head);
    struct ration_lookup lookup = {.section = section};
    uint32_t generation = ration_section_is_plain(section)
                              ? ration_slot_generation(value)
                              : ration_entry_head_generation(value.words[1]);

    /* each pass means that another thread changed the bucket */
    while (has_next_generation(part->to.config, generation) &&
           ration_lookup_read_at(run, part, head, &lookup, &generation) != RATION_LOOKUP_EMPTY &&
           has_next_generation(part->to.config, generation))
        if (remove_key(section, &lookup, (struct ration_time){0, 0}))
            return true;
    return false;
}

uint64_t ration_memory_clear(struct ration_store *store, const struct ration_config_table *configs,
                             uint32_t section_index, uint64_t now_ns)
{
    struct sweep sweep;
    uint64_t removed_count = 0;

    sweep_begin(store, configs, section_index, now_ns, &sweep);
    convert_overflow(&sweep);
    if (sweep.part.to.config->number + 1 < RATION_CONFIG_COUNT)
        return 0; /* no bucket has the next generation's number yet */
    for (uint64_t i = 0; i < sweep.slot_count; i++)
        removed_count += remove_next_generation(&sweep.run, &sweep.part, sweep.section,
                                                ration_section_at(sweep.section, i));
    return removed_count;
}
