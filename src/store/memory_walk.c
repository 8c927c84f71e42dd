/*
 * Walks through the buckets of a section: implements walk() of limiter/store.h.
 */
#include <string.h>

#include "limiter/store.h"
#include "store/memory.h"

/*
 * A log's ring, as it was when the entry was read at a version. Other threads may write to the ring while the walking
 * thread reads it. Cells that they write have a later version: those tokens count as in use until the time written
 * there, or at least until the newest time of the version that was read. So a walk never reports more tokens than
 * there were.
 */
struct ring_view {
    struct ration_pair *cells;
    uint64_t version;
    uint64_t newest_ns;
};

struct visit {
    const struct ration_walk *walk;
    const struct ration_section *section;
    uint64_t epoch_ns;
    uint64_t since_ns;
    uint64_t now_ns;
    struct ration_time cells[RATION_SECTION_CELLS_MAX];
    uint32_t generation;
    struct ring_view ring;
    struct ration_walk_item item;
};

static struct ration_pair *ring_at(const struct ration_section *section, uint64_t slot_index)
{
    return section->rings + slot_index * section->shape.ring_cells;
}

static uint64_t read_ring(const struct ration_log_ring_reader *reader, uint64_t index)
{
    const struct ring_view *ring = reader->context;
    struct ration_pair cell = ration_atomic16_load(&ring->cells[index]);
    uint64_t ahead = (ration_slot_tag(cell) - ring->version) & RATION_VERSION_MASK;
    uint64_t since_ns = ration_slot_expires_at(cell).ns;
    uint64_t ns = since_ns == 0 ? 0 : since_ns + reader->epoch_ns;

    if (ahead != 0 && ahead <= RATION_VERSION_MASK / 2 && ns < ring->newest_ns)
        return ring->newest_ns;
    return ns;
}

/* Reads the cells and the tag of the slot at head. False unless it is a member. */
static bool read_slot(struct visit *visit, struct ration_pair *head)
{
    struct ration_pair value = ration_atomic16_load(head);
    struct ration_entry_view view;

    visit->item.tag = ration_slot_tag(value);
    if (ration_section_is_plain(visit->section)) {
        visit->cells[0] = ration_slot_expires_at(value);
        visit->generation = ration_slot_generation(value);
        visit->item.is_established = ration_slot_flags(value) & RATION_FLAG_ESTABLISHED;
        return !ration_slot_is_empty(value) && ration_slot_flags(value) != RATION_FLAG_CLAIM;
    }
    /* If another key takes the slot just now, that key was not in use during the whole walk. */
    if (!ration_entry_read(visit->section, head, visit->item.tag, &view))
        return false;
    memcpy(visit->cells, view.cells, sizeof(visit->cells));
    visit->generation = ration_entry_head_generation(view.value.words[1]);
    visit->item.is_established =
        ration_entry_head_unpack(view.value.words[1]).flags & RATION_FLAG_ESTABLISHED;
    visit->ring.version = ration_entry_head_unpack(view.value.words[1]).version;
    return true;
}

/* The latest expiry time of a rule's cells. */
static struct ration_time latest_expiry(const struct ration_config_place *location, uint32_t mask,
                                        const struct ration_time *cells)
{
    struct ration_time expires_at = {0, 0};

    for (uint32_t k = location->first_cell; k < location->first_cell + location->cell_count; k++)
        if (mask >> k & 1)
            expires_at = ration_time_max(expires_at, cells[k]);
    return expires_at;
}

static bool is_idle(const struct visit *visit)
{
    return !ration_time_less(ration_time_from_ns(visit->since_ns),
                             ration_memory_expires_at(visit->section, visit->cells));
}

/*
 * Until when a rule's bucket is remembered. Its expiry time contains the writer's stale_after_ns. If the current
 * limit makes the bucket full earlier, the bucket is not remembered for longer than stale_after_ns from then on.
 */
static uint64_t remembered_until_ns(const struct visit *visit, const struct ration_config *config,
                                    const struct ration_config *writer, uint32_t rule_index,
                                    const struct ration_bucket_state *bucket)
{
    uint64_t stale_after_ns = config->terms.stale_after_ns;
    struct ration_time expires_at =
        latest_expiry(&visit->walk->configs->places[rule_index],
                      ration_section_expiry_mask(visit->section), visit->cells);
    uint64_t until_max_ns =
        visit->now_ns + ration_bucket_state_full_after_ns(bucket, visit->now_ns) + stale_after_ns;
    uint64_t until_ns;

    if (stale_after_ns == 0 || expires_at.ns == 0)
        return 0;
    if (stale_after_ns != writer->terms.stale_after_ns)
        expires_at = ration_time_add(
            ration_time_sub_or_zero(expires_at, ration_time_from_ns(writer->terms.stale_after_ns)),
            ration_time_from_ns(stale_after_ns));
    until_ns = ration_time_ceil_ns(expires_at) + visit->epoch_ns;
    return until_ns < until_max_ns ? until_ns : until_max_ns;
}

/* Copies a rule's cells, with stale_after_ns subtracted from the expiry times. */
static void subtract_stale_after(const struct visit *visit,
                                 const struct ration_config_place *location,
                                 uint64_t stale_after_ns, struct ration_time *out_cells)
{
    for (uint32_t k = 0; k < location->cell_count; k++) {
        out_cells[k] = visit->cells[location->first_cell + k];
        if (ration_section_expiry_mask(visit->section) >> (location->first_cell + k) & 1)
            out_cells[k] =
                ration_time_sub_or_zero(out_cells[k], ration_time_from_ns(stale_after_ns));
    }
}

/* One rule's bucket under the current config. The walk writes nothing back. */
static struct ration_bucket_state read_rule(struct visit *visit, uint32_t rule_index)
{
    const struct ration_config_table *configs = visit->walk->configs;
    const struct ration_config *config = ration_config_table_current(configs);
    const struct ration_config *writer = ration_config_table_of(configs, visit->generation);
    const struct ration_config_place *location = &configs->places[rule_index];
    struct ration_bucket_state bucket = {.limit = &writer->rules[rule_index].limit};
    struct ration_time cells[2] = {{0, 0}, {0, 0}};

    subtract_stale_after(visit, location, writer->terms.stale_after_ns, cells);
    ration_bucket_state_read(&bucket, cells, visit->epoch_ns);
    if (location->has_ring) {
        visit->ring.newest_ns = bucket.state.log.newest_ns;
        bucket.reader = (struct ration_log_ring_reader){
            .read = read_ring, .context = &visit->ring, .epoch_ns = visit->epoch_ns};
    }
    if (visit->generation == config->generation)
        return bucket;
    return ration_config_table_convert(
        configs, config, visit->generation, rule_index, &bucket, &config->rules[rule_index].limit,
        ration_memory_idle_at_ns(visit->section, visit->cells, visit->epoch_ns), visit->now_ns);
}

/* Passes the bucket in a slot to the visitor, unless it is idle. False: stop. */
static bool visit_slot(struct visit *visit, uint64_t slot_index, enum ration_walk_kind kind)
{
    const struct ration_config *config = ration_config_table_current(visit->walk->configs);
    uint64_t slot_count = (uint64_t)visit->section->set_count * RATION_SET_SLOTS;
    bool is_key = kind == RATION_WALK_KEY;

    if (!read_slot(visit,
                   is_key ? ration_section_at(visit->section, slot_index)
                          : ration_section_overflow_at(visit->section, slot_index - slot_count)) ||
        is_idle(visit))
        return true;
    if (!is_key)
        visit->item.tag = slot_index - slot_count;
    visit->item.kind = kind;
    visit->item.set_index = is_key ? (uint32_t)(slot_index / RATION_SET_SLOTS) : 0;
    visit->ring.cells = ring_at(visit->section, slot_index);
    for (uint32_t i = 0; i < visit->walk->configs->rule_count; i++) {
        const struct ration_config *writer =
            ration_config_table_of(visit->walk->configs, visit->generation);

        visit->item.buckets[i] = read_rule(visit, i);
        visit->item.kept_until_ns[i] =
            is_key ? remembered_until_ns(visit, config, writer, i, &visit->item.buckets[i]) : 0;
    }
    return visit->walk->visit(visit->walk->context, &visit->item);
}

static bool visit_watermark(struct visit *visit, uint32_t set_index)
{
    /* acquire: pairs with the release in ration_section_raise_overflow_watermark() */
    uint64_t until_ns =
        __atomic_load_n(&visit->section->metas[set_index].overflow_ns, __ATOMIC_ACQUIRE);

    if (until_ns <= visit->since_ns)
        return true;
    visit->item.kind = RATION_WALK_MARK;
    visit->item.set_index = set_index;
    visit->item.kept_until_ns[0] = until_ns + visit->epoch_ns;
    return visit->walk->visit(visit->walk->context, &visit->item);
}

uint64_t ration_memory_walk(struct ration_store *store, const struct ration_walk *walk,
                            uint64_t cursor)
{
    const struct ration_memory *memory = (const struct ration_memory *)store;
    struct visit visit = {.walk = walk,
                          .section = &memory->sections[walk->section_index],
                          .epoch_ns = store->epoch_ns,
                          .since_ns = ration_block_now(store->epoch_ns, walk->now_ns)};
    uint64_t count = (uint64_t)visit.section->set_count * RATION_SET_SLOTS;
    uint64_t left = count > cursor ? count - cursor : 0;
    uint64_t end = cursor + left;

    if (left / RATION_SET_SLOTS >= walk->sets_max)
        end = cursor + walk->sets_max * RATION_SET_SLOTS;
    visit.now_ns = visit.since_ns + store->epoch_ns;
    for (uint64_t i = cursor; i < end; i++) {
        if (walk->is_whole && i % RATION_SET_SLOTS == 0 &&
            !visit_watermark(&visit, (uint32_t)(i / RATION_SET_SLOTS)))
            return i;
        if (!visit_slot(&visit, i, RATION_WALK_KEY))
            return i;
    }
    if (end < count)
        return end;
    for (uint64_t i = 0; walk->is_whole && i < visit.section->overflow_count; i++)
        if (!visit_slot(&visit, count + i, RATION_WALK_OVERFLOW))
            break;
    return 0;
}

void ration_memory_shape(const struct ration_store *store, uint32_t section_index,
                         struct ration_walk_shape *out_shape)
{
    const struct ration_memory *memory = (const struct ration_memory *)store;
    const struct ration_section *section = &memory->sections[section_index];

    *out_shape = (struct ration_walk_shape){
        .keys_max = section->shape.keys_max,
        .set_count = section->set_count,
        .hash_kind = (uint32_t)memory->block->secret.kind,
    };
    memcpy(out_shape->seed, memory->block->seed, sizeof(out_shape->seed));
}
