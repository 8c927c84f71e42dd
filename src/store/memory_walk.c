/*
 * Walking through a section, and putting keys into a new one: walk.h for memory.
 */
#include <string.h>

#include "limiter/walk.h"
#include "store/memory.h"

/*
 * A log's ring, as it was when the entry was read at a version. Others may write to it while it is
 * read. What they take they label with a later version: those tokens count as out until what was
 * written, or at least until the newest moment of before. So never more is told to be left than
 * there was.
 */
struct ring_view {
    struct ration_pair *cells;
    uint64_t version;
    uint64_t newest_ns;
};

struct step {
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

static struct ration_pair *ring_at(const struct ration_section *section, uint64_t place_index)
{
    return section->rings + place_index * section->shape.ring_cells;
}

static uint64_t read_ring(const struct ration_log_reader *reader, uint64_t index)
{
    const struct ring_view *ring = reader->context;
    struct ration_pair cell = ration_atomic16_load(&ring->cells[index]);
    uint64_t ahead = (ration_pair_label(cell) - ring->version) & RATION_VERSION_MASK;
    uint64_t since_ns = ration_pair_moment(cell).ns;
    uint64_t ns = since_ns == 0 ? 0 : since_ns + reader->epoch_ns;

    if (ahead != 0 && ahead <= RATION_VERSION_MASK / 2 && ns < ring->newest_ns)
        return ring->newest_ns;
    return ns;
}

/* The cells of what stands at head, with its tag, if that is a member. */
static bool read_place(struct step *step, struct ration_pair *head)
{
    struct ration_pair value = ration_atomic16_load(head);
    struct ration_entry_view view;

    step->item.tag = ration_pair_label(value);
    if (ration_section_is_plain(step->section)) {
        step->cells[0] = ration_pair_moment(value);
        step->generation = ration_pair_generation(value);
        step->item.is_established = ration_pair_mark(value) & RATION_MARK_ESTABLISHED;
        return !ration_pair_is_empty(value) && ration_pair_mark(value) != RATION_MARK_CLAIM;
    }
    /* If another key takes the place just now, that one is not in debt all the while. */
    if (!ration_entry_read(step->section, head, step->item.tag, &view))
        return false;
    memcpy(step->cells, view.cells, sizeof(step->cells));
    step->generation = ration_head_generation(view.value.words[1]);
    step->item.is_established =
        ration_head_unpack(view.value.words[1]).mark & RATION_MARK_ESTABLISHED;
    step->ring.version = ration_head_unpack(view.value.words[1]).version;
    return true;
}

/* The latest moment of a rule's cells. */
static struct ration_time latest(const struct ration_config_place *place, uint32_t mask,
                                 const struct ration_time *cells)
{
    struct ration_time moment = {0, 0};

    for (uint32_t k = place->first_cell; k < place->first_cell + place->cell_count; k++)
        if (mask >> k & 1)
            moment = ration_time_max(moment, cells[k]);
    return moment;
}

static bool is_idle(const struct step *step)
{
    return !ration_time_less(ration_time_from_ns(step->since_ns),
                             ration_memory_moment(step->section, step->cells));
}

/*
 * Until when a rule's bucket is remembered. Its moment has the writer's stale_after in it. A bucket that another limit made
 * full sooner (any) is not remembered for longer than from then on.
 */
static uint64_t kept_until_ns(const struct step *step, const struct ration_config *config,
                              const struct ration_config *writer, uint32_t rule_index,
                              const struct ration_any *any)
{
    uint64_t stale_after_ns = config->terms.stale_after_ns;
    struct ration_time moment = latest(&step->walk->configs->places[rule_index],
                                       ration_section_moment_mask(step->section), step->cells);
    uint64_t most_ns = step->now_ns + ration_any_full_after_ns(any, step->now_ns) + stale_after_ns;
    uint64_t until_ns;

    if (stale_after_ns == 0 || moment.ns == 0)
        return 0;
    if (stale_after_ns != writer->terms.stale_after_ns)
        moment = ration_time_add(
            ration_time_sub_or_zero(moment, ration_time_from_ns(writer->terms.stale_after_ns)),
            ration_time_from_ns(stale_after_ns));
    until_ns = ration_time_ceil_ns(moment) + step->epoch_ns;
    return until_ns < most_ns ? until_ns : most_ns;
}

/* The moments without the time for which they are remembered. */
static void unshift(const struct step *step, const struct ration_config_place *place,
                    uint64_t stale_after_ns, struct ration_time *out_cells)
{
    for (uint32_t k = 0; k < place->cell_count; k++) {
        out_cells[k] = step->cells[place->first_cell + k];
        if (ration_section_moment_mask(step->section) >> (place->first_cell + k) & 1)
            out_cells[k] =
                ration_time_sub_or_zero(out_cells[k], ration_time_from_ns(stale_after_ns));
    }
}

/* One rule's bucket, under the current config. Nothing is written back. */
static struct ration_any read_rule(struct step *step, uint32_t rule_index)
{
    const struct ration_configs *configs = step->walk->configs;
    const struct ration_config *config = ration_configs_current(configs);
    const struct ration_config *writer = ration_configs_of(configs, step->generation);
    const struct ration_config_place *place = &configs->places[rule_index];
    struct ration_any any = {.limit = &writer->rules[rule_index].limit};
    struct ration_time cells[2] = {{0, 0}, {0, 0}};

    unshift(step, place, writer->terms.stale_after_ns, cells);
    ration_any_read(&any, cells, step->epoch_ns);
    if (place->has_ring) {
        step->ring.newest_ns = any.state.log.newest_ns;
        any.reader = (struct ration_log_reader){
            .read = read_ring, .context = &step->ring, .epoch_ns = step->epoch_ns};
    }
    if (step->generation == config->generation)
        return any;
    return ration_configs_convert(
        configs, config, step->generation, rule_index, &any, &config->rules[rule_index].limit,
        ration_memory_idle_at_ns(step->section, step->cells, step->epoch_ns), step->now_ns);
}

/* Tells what stands at a place, unless it is idle. False: stop. */
static bool visit_place(struct step *step, uint64_t place_index, enum ration_walk_kind kind)
{
    const struct ration_config *config = ration_configs_current(step->walk->configs);
    uint64_t place_count = (uint64_t)step->section->set_count * RATION_SET_PLACES;
    bool is_key = kind == RATION_WALK_KEY;

    if (!read_place(
            step, is_key ? ration_section_at(step->section, place_index)
                         : ration_section_overflow_at(step->section, place_index - place_count)) ||
        is_idle(step))
        return true;
    if (!is_key)
        step->item.tag = place_index - place_count;
    step->item.kind = kind;
    step->item.set_index = is_key ? (uint32_t)(place_index / RATION_SET_PLACES) : 0;
    step->ring.cells = ring_at(step->section, place_index);
    for (uint32_t i = 0; i < step->walk->configs->rule_count; i++) {
        const struct ration_config *writer =
            ration_configs_of(step->walk->configs, step->generation);

        step->item.anys[i] = read_rule(step, i);
        step->item.kept_until_ns[i] =
            is_key ? kept_until_ns(step, config, writer, i, &step->item.anys[i]) : 0;
    }
    return step->walk->visit(step->walk->context, &step->item);
}

static bool visit_mark(struct step *step, uint32_t set_index)
{
    /* acquire: pairs with the release in ration_section_note_overflow() */
    uint64_t until_ns =
        __atomic_load_n(&step->section->notes[set_index].overflow_ns, __ATOMIC_ACQUIRE);

    if (until_ns <= step->since_ns)
        return true;
    step->item.kind = RATION_WALK_MARK;
    step->item.set_index = set_index;
    step->item.kept_until_ns[0] = until_ns + step->epoch_ns;
    return step->walk->visit(step->walk->context, &step->item);
}

uint64_t ration_memory_walk(struct ration_store *store, const struct ration_walk *walk,
                            uint64_t cursor)
{
    const struct ration_memory *memory = (const struct ration_memory *)store;
    struct step step = {.walk = walk,
                        .section = &memory->sections[walk->section_index],
                        .epoch_ns = store->epoch_ns,
                        .since_ns = ration_block_now(store->epoch_ns, walk->now_ns)};
    uint64_t count = (uint64_t)step.section->set_count * RATION_SET_PLACES;
    uint64_t left = count > cursor ? count - cursor : 0;
    uint64_t end = cursor + left;

    if (left / RATION_SET_PLACES >= walk->sets_max)
        end = cursor + walk->sets_max * RATION_SET_PLACES;
    step.now_ns = step.since_ns + store->epoch_ns;
    for (uint64_t i = cursor; i < end; i++) {
        if (walk->is_whole && i % RATION_SET_PLACES == 0 &&
            !visit_mark(&step, (uint32_t)(i / RATION_SET_PLACES)))
            return i;
        if (!visit_place(&step, i, RATION_WALK_KEY))
            return i;
    }
    if (end < count)
        return end;
    for (uint64_t i = 0; walk->is_whole && i < step.section->overflow_count; i++)
        if (!visit_place(&step, count + i, RATION_WALK_OVERFLOW))
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
