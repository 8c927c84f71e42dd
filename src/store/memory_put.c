/*
 * Puts keys into a section that no thread uses yet: implements put() of limiter/store.h. Zero bytes are version 0 of every
 * head and cell, so buckets are written with version 0, by plain stores.
 */
#include "limiter/store.h"
#include "store/memory.h"

/* Writes the cells of one rule's bucket at now. For a full bucket they only contain how long the key is remembered. */
static void write_rule(const struct ration_config_place *location, uint64_t stale_after_ns,
                       uint32_t mask, const struct ration_bucket_state *bucket,
                       uint64_t remembered_until_ns, uint64_t epoch_ns, uint64_t now_ns,
                       struct ration_time *out_cells)
{
    bool is_full = ration_bucket_state_full_after_ns(bucket, now_ns) == 0;
    struct ration_time remembered_until =
        ration_time_from_ns(remembered_until_ns > epoch_ns ? remembered_until_ns - epoch_ns : 0);

    if (!is_full)
        ration_bucket_state_write(bucket, out_cells, epoch_ns);
    for (uint32_t k = 0; k < location->cell_count; k++) {
        if (!(mask >> (location->first_cell + k) & 1))
            continue;
        out_cells[k] = is_full ? remembered_until
                               : ration_time_add(out_cells[k], ration_time_from_ns(stale_after_ns));
    }
}

/* Writes the ring of a log: the tokens in use are its last ones, and its head is the first cell. */
static void write_log(const struct ration_bucket_state *bucket, struct ration_pair *ring,
                      uint64_t epoch_ns, uint64_t now_ns)
{
    uint64_t remaining_tokens = ration_bucket_state_full_after_ns(bucket, now_ns) == 0
                                    ? bucket->limit->tokens
                                    : ration_bucket_state_remaining(bucket, now_ns);

    for (uint64_t i = 0; i < bucket->limit->tokens; i++) {
        uint64_t ns = i < remaining_tokens ? 0 : bucket->reader.read(&bucket->reader, i);
        struct ration_slot slot = {.expires_at = {ns > epoch_ns ? ns - epoch_ns : 0, 0}};
        struct ration_pair value = ration_slot_pack(slot);

        if (!ration_slot_same(ring[i], value)) /* zero memory stays untouched */
            ring[i] = value;
    }
}

/* Limits the tokens in use of an overflow bucket to what its limits hold, whatever was saved. */
static void bound_overflow(const struct ration_section *section, uint64_t index, uint64_t since_ns,
                           struct ration_time *cells)
{
    uint64_t fill_ns = ration_section_overflow_fill_ns(section, index);
    struct ration_time latest = {since_ns + fill_ns, 0};

    for (uint32_t k = 0; ration_section_expiry_mask(section) >> k != 0; k++)
        if (ration_section_expiry_mask(section) >> k & 1 && ration_time_less(latest, cells[k]))
            cells[k] = latest;
}

static void write_slot(const struct ration_section *section, uint64_t slot_index,
                       const struct ration_config_table *configs,
                       const struct ration_walk_item *item, uint64_t epoch_ns, uint64_t now_ns)
{
    const struct ration_config *config = ration_config_table_current(configs);
    bool is_key = item->kind == RATION_WALK_KEY;
    bool is_plain = ration_section_is_plain(section);
    uint64_t slot_count = (uint64_t)section->set_count * RATION_SET_SLOTS;
    struct ration_pair *head = is_key
                                   ? ration_section_at(section, slot_index)
                                   : ration_section_overflow_at(section, slot_index - slot_count);
    struct ration_slot slot = {.tag = is_key ? item->tag : RATION_OVERFLOW_TAG,
                               .flags = config->generation |
                                        (item->is_established ? RATION_FLAG_ESTABLISHED : 0)};
    struct ration_time cells[RATION_SECTION_CELLS_MAX] = {{0, 0}};

    for (uint32_t i = 0; i < configs->rule_count; i++) {
        const struct ration_config_place *location = &configs->places[i];

        write_rule(location, config->terms.stale_after_ns, ration_section_expiry_mask(section),
                   &item->buckets[i], item->kept_until_ns[i], epoch_ns, now_ns,
                   &cells[location->first_cell]);
        if (location->has_ring)
            write_log(&item->buckets[i], section->rings + slot_index * section->shape.ring_cells,
                      epoch_ns, now_ns);
    }
    if (!is_key)
        bound_overflow(section, item->tag, now_ns - epoch_ns, cells);
    if (is_plain) {
        slot.expires_at = cells[0];
        *head = ration_slot_pack(slot);
        return;
    }
    for (uint32_t k = 0; k < section->shape.cell_count; k++)
        head[1 + k] = ration_slot_pack((struct ration_slot){.expires_at = cells[k]});
    head->words[0] = slot.tag << RATION_FRAC_BITS;
    head->words[1] = ration_entry_head_pack(
        (struct ration_head){.flags = slot.flags, .state = RATION_HEAD_LIVE});
}

/*
 * Finds a slot in the item's set: the one that has its tag, or the first empty one. (A key that was forgotten and
 * created again during a dump is in the dump twice; the later one counts.)
 */
static bool find_slot(const struct ration_section *section, const struct ration_walk_item *item,
                      uint64_t *out_index)
{
    for (uint32_t i = 0; i < RATION_SET_SLOTS; i++) {
        uint64_t index = (uint64_t)item->set_index * RATION_SET_SLOTS + i;
        uint64_t tag = ration_slot_tag(*ration_section_at(section, index));

        if (tag == 0 || tag == item->tag) {
            *out_index = index;
            return true;
        }
    }
    return false;
}

ration_status ration_memory_put(struct ration_store *store,
                                const struct ration_config_table *configs, uint32_t section_index,
                                const struct ration_walk_item *item, uint64_t now_ns)
{
    const struct ration_memory *memory = (const struct ration_memory *)store;
    const struct ration_section *section = &memory->sections[section_index];
    uint64_t slot_index =
        (uint64_t)section->set_count * RATION_SET_SLOTS; /* of the first overflow bucket */

    if (item->set_index >= section->set_count ||
        (item->kind == RATION_WALK_OVERFLOW && item->tag >= section->overflow_count))
        return RATION_EINVAL;
    if (item->kind == RATION_WALK_OVERFLOW)
        slot_index += item->tag;
    if (item->kind == RATION_WALK_MARK) {
        section->metas[item->set_index].overflow_ns = item->kept_until_ns[0] - store->epoch_ns;
        return RATION_OK;
    }
    if (item->kind == RATION_WALK_KEY && !find_slot(section, item, &slot_index))
        return RATION_EINVAL;
    write_slot(section, slot_index, configs, item, store->epoch_ns, now_ns);
    return RATION_OK;
}
