/*
 * Putting keys into a section that nobody uses yet: walk.h for memory. Zero bytes are version 0 of
 * everything, so what is put is written as that, by plain stores.
 */
#include "limiter/walk.h"
#include "store/memory.h"

/* The cells of one rule's bucket at now: with what is remembered, if it is full. */
static void write_rule(const struct ration_config_place *place, uint64_t stale_after_ns,
                       uint32_t mask, const struct ration_any *any, uint64_t kept_until_ns,
                       uint64_t epoch_ns, uint64_t now_ns, struct ration_time *out_cells)
{
    bool is_full = ration_any_full_after_ns(any, now_ns) == 0;
    struct ration_time kept =
        ration_time_from_ns(kept_until_ns > epoch_ns ? kept_until_ns - epoch_ns : 0);

    if (!is_full)
        ration_any_write(any, out_cells, epoch_ns);
    for (uint32_t k = 0; k < place->cell_count; k++) {
        if (!(mask >> (place->first_cell + k) & 1))
            continue;
        out_cells[k] =
            is_full ? kept : ration_time_add(out_cells[k], ration_time_from_ns(stale_after_ns));
    }
}

/* The tokens of a log that are out: the last ones of its ring, whose head is the first cell. */
static void write_log(const struct ration_any *any, struct ration_pair *ring, uint64_t epoch_ns,
                      uint64_t now_ns)
{
    uint64_t left = ration_any_full_after_ns(any, now_ns) == 0 ? any->limit->tokens
                                                               : ration_any_remaining(any, now_ns);

    for (uint64_t i = 0; i < any->limit->tokens; i++) {
        uint64_t ns = i < left ? 0 : any->reader.read(&any->reader, i);
        struct ration_slot slot = {.moment = {ns > epoch_ns ? ns - epoch_ns : 0, 0}};
        struct ration_pair value = ration_slot_pack(slot);

        if (!ration_pair_same(ring[i], value)) /* memory that is zero is not touched */
            ring[i] = value;
    }
}

/* An overflow bucket owes no more than its limits hold, whatever was saved. */
static void bound_overflow(const struct ration_section *section, uint64_t index, uint64_t since_ns,
                           struct ration_time *cells)
{
    uint64_t fill_ns = ration_section_overflow_fill_ns(section, index);
    struct ration_time latest = {since_ns + fill_ns, 0};

    for (uint32_t k = 0; ration_section_moment_mask(section) >> k != 0; k++)
        if (ration_section_moment_mask(section) >> k & 1 && ration_time_less(latest, cells[k]))
            cells[k] = latest;
}

static void write_place(const struct ration_section *section, uint64_t place_index,
                        const struct ration_configs *configs, const struct ration_walk_item *item,
                        uint64_t epoch_ns, uint64_t now_ns)
{
    const struct ration_config *config = ration_configs_current(configs);
    bool is_key = item->kind == RATION_WALK_KEY;
    bool is_plain = ration_section_is_plain(section);
    uint64_t place_count = (uint64_t)section->set_count * RATION_SET_PLACES;
    struct ration_pair *head = is_key
                                   ? ration_section_at(section, place_index)
                                   : ration_section_overflow_at(section, place_index - place_count);
    struct ration_slot slot = {.label = is_key ? item->tag : RATION_OVERFLOW_LABEL,
                               .mark = config->generation |
                                       (item->is_established ? RATION_MARK_ESTABLISHED : 0)};
    struct ration_time cells[RATION_SECTION_CELLS_MAX] = {{0, 0}};

    for (uint32_t i = 0; i < configs->rule_count; i++) {
        const struct ration_config_place *place = &configs->places[i];

        write_rule(place, config->terms.stale_after_ns, ration_section_moment_mask(section),
                   &item->anys[i], item->kept_until_ns[i], epoch_ns, now_ns,
                   &cells[place->first_cell]);
        if (place->has_ring)
            write_log(&item->anys[i], section->rings + place_index * section->shape.ring_cells,
                      epoch_ns, now_ns);
    }
    if (!is_key)
        bound_overflow(section, item->tag, now_ns - epoch_ns, cells);
    if (is_plain) {
        slot.moment = cells[0];
        *head = ration_slot_pack(slot);
        return;
    }
    for (uint32_t k = 0; k < section->shape.cell_count; k++)
        head[1 + k] = ration_slot_pack((struct ration_slot){.moment = cells[k]});
    head->words[0] = slot.label << RATION_FRAC_BITS;
    head->words[1] =
        ration_head_pack((struct ration_head){.mark = slot.mark, .state = RATION_HEAD_LIVE});
}

/*
 * A place of the item's set: the one that has its tag, or the first that is empty. (A key that was
 * forgotten and created again during a dump is in it twice; the later one is meant.)
 */
static bool find_place(const struct ration_section *section, const struct ration_walk_item *item,
                       uint64_t *out_index)
{
    for (uint32_t i = 0; i < RATION_SET_PLACES; i++) {
        uint64_t index = (uint64_t)item->set_index * RATION_SET_PLACES + i;
        uint64_t label = ration_pair_label(*ration_section_at(section, index));

        if (label == 0 || label == item->tag) {
            *out_index = index;
            return true;
        }
    }
    return false;
}

ration_status ration_memory_put(struct ration_store *store, const struct ration_configs *configs,
                                uint32_t section_index, const struct ration_walk_item *item,
                                uint64_t now_ns)
{
    const struct ration_memory *memory = (const struct ration_memory *)store;
    const struct ration_section *section = &memory->sections[section_index];
    uint64_t place_index = (uint64_t)section->set_count * RATION_SET_PLACES; /* the overflow's */

    if (item->set_index >= section->set_count ||
        (item->kind == RATION_WALK_OVERFLOW && item->tag >= section->overflow_count))
        return RATION_EINVAL;
    if (item->kind == RATION_WALK_OVERFLOW)
        place_index += item->tag;
    if (item->kind == RATION_WALK_MARK) {
        section->notes[item->set_index].overflow_ns = item->kept_until_ns[0] - store->epoch_ns;
        return RATION_OK;
    }
    if (item->kind == RATION_WALK_KEY && !find_place(section, item, &place_index))
        return RATION_EINVAL;
    write_place(section, place_index, configs, item, store->epoch_ns, now_ns);
    return RATION_OK;
}
