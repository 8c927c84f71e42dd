#include "store/memory_find.h"

#include <string.h>

#include "base/fence.h"
#include "base/yield.h"
#include "limiter/log.h"

static uint64_t read_ring(const struct ration_log_reader *reader, uint64_t index)
{
    if (reader->head == NULL)
        return 0; /* of a key that is absent and has no place yet: all long past */

    struct ration_time moment =
        ration_entry_ring_at(reader->context, reader->head, (uint32_t)index);

    return moment.ns == 0 ? 0 : moment.ns + reader->epoch_ns;
}

/* Keys that are remembered beyond being full have that time added to all their moments. */
static void shift(uint64_t stale_after_ns, uint32_t moments, struct ration_time *cells,
                  bool is_written)
{
    struct ration_time stale = ration_time_from_ns(stale_after_ns);

    for (uint32_t i = 0; stale.ns > 0 && moments >> i != 0; i++)
        if (moments >> i & 1)
            cells[i] = is_written ? ration_time_add(cells[i], stale)
                                  : ration_time_sub_or_zero(cells[i], stale);
}

/* The log's ring of what was found; of a key that is absent, that of its claim. */
static struct ration_log_reader reader_of(const struct ration_run *run,
                                          const struct ration_found *found)
{
    return (struct ration_log_reader){
        .read = read_ring,
        .context = found->section,
        .head = found->is_there ? found->view.head : found->slot.head,
        .epoch_ns = run->memory->store.epoch_ns,
    };
}

/* The limit of a rule, whether it applies or not. */
static const struct ration_limit *limit_of(const struct ration_op_part *part, uint32_t rule_index)
{
    return part->limits[rule_index] != NULL ? part->limits[rule_index]
                                            : &part->own_limits[rule_index];
}

/* Reads cells that a config of some generation wrote, as states under the current one. */
static void read_states(const struct ration_run *run, const struct ration_op_part *part,
                        struct ration_found *found, struct ration_time *cells, uint32_t generation)
{
    const struct ration_config *config = part->to.config;
    const struct ration_config *writer = ration_configs_of(part->configs, generation);
    uint64_t writer_number = __atomic_load_n(&writer->number, __ATOMIC_ACQUIRE);
    bool is_older = generation != config->generation;
    uint64_t epoch_ns = run->memory->store.epoch_ns;
    uint64_t idle_at_ns = is_older ? ration_memory_idle_at_ns(found->section, cells, epoch_ns) : 0;

    shift(is_older ? RATION_CONFIG_READ(writer->terms.stale_after_ns) : part->stale_after_ns,
          ration_section_moment_mask(found->section), cells, false);
    for (uint32_t i = 0; i < part->rule_count; i++) {
        const struct ration_config_place *place = &part->configs->places[i];
        const struct ration_limit *limit = limit_of(part, i);
        struct ration_any any = {.limit = limit};
        struct ration_limit old_limit;

        if (is_older) {
            ration_config_read_limit(&writer->rules[i].limit, &old_limit);
            any.limit = &old_limit;
        }
        if (place->has_ring)
            any.reader = reader_of(run, found);
        ration_any_read(&any, &cells[place->first_cell], epoch_ns);
        if (is_older)
            any = ration_configs_convert(part->configs, config, generation, i, &any, limit,
                                         idle_at_ns, run->now_ns);
        found->anys[i] = any;
        found->has_ring_write |= !ration_log_may_go_on(&any);
    }
    /* Converted back to limits that were replaced meanwhile, full would stay full, and mint. */
    found->is_ahead |= is_older && (ration_configs_current(part->configs) != config ||
                                    !ration_config_stands(writer, writer_number));
}

static uint64_t since_epoch_ns(const struct ration_run *run, uint64_t ns)
{
    return ns > run->memory->store.epoch_ns ? ns - run->memory->store.epoch_ns : 0;
}

void ration_found_next(const struct ration_run *run, const struct ration_op_part *part,
                       const struct ration_found *found, struct ration_entry_next *out_next)
{
    out_next->mark = part->to.config->generation;
    out_next->ring = (struct ration_ring_write){0};
    for (uint32_t i = 0; i < part->rule_count; i++) {
        const struct ration_any *any = &found->anys[i];
        uint64_t written = any->write.older_count + any->write.count;

        struct ration_time *cells = &out_next->cells[part->configs->places[i].first_cell];

        ration_any_write(any, cells, run->memory->store.epoch_ns);
        if (part->stale_after_ns > 0 && ration_any_full_after_ns(any, run->now_ns) == 0)
            ration_any_remember(any, cells, run->since_ns, run->memory->store.epoch_ns);
        if (written > 0)
            out_next->ring = (struct ration_ring_write){
                .modulus = (uint32_t)any->limit->tokens,
                .first_index = (uint32_t)any->write.first_index,
                .older_count = (uint32_t)any->write.older_count,
                .count = (uint32_t)any->write.count,
                .older_ns = since_epoch_ns(run, any->write.older_ns),
                .moment_ns = since_epoch_ns(run, any->write.moment_ns),
            };
    }
    shift(part->stale_after_ns, ration_section_moment_mask(found->section), out_next->cells, true);
}

/* Reads the bucket at hand: the key's own, or the overflow bucket. */
static bool read_there(struct ration_found *found, bool is_overflow)
{
    const struct ration_section *section = found->section;

    if (!ration_found_is_plain(found)) {
        if (is_overflow) {
            ration_entry_open_overflow(found->overflow);
            return ration_entry_read(section, found->overflow, RATION_OVERFLOW_LABEL, &found->view);
        }
        return ration_entry_find(section, &found->place, &found->view);
    }
    if (is_overflow)
        found->slot =
            (struct ration_entrance){found->overflow, ration_atomic16_load(found->overflow), false};
    else
        found->slot.head = ration_plain_find(section, &found->place, &found->slot.value);
    return found->slot.head != NULL;
}

static uint32_t take_cells(const struct ration_found *found, struct ration_time *out_cells)
{
    if (ration_found_is_plain(found)) {
        out_cells[0] = ration_pair_moment(found->slot.value);
        return ration_pair_generation(found->slot.value);
    }
    memcpy(out_cells, found->view.cells, sizeof(found->view.cells));
    return ration_head_generation(found->view.value.words[1]);
}

/* What either of the two owes, of each rule. */
static void join(const struct ration_run *run, const struct ration_op_part *part,
                 struct ration_found *found, const struct ration_found *other)
{
    for (uint32_t i = 0; i < part->rule_count; i++)
        found->anys[i] = ration_any_join(&found->anys[i], &other->anys[i], run->now_ns);
}

/* Makes charges of the overflow bucket fail that were judged by what it holds now. */
static bool touch_overflow(const struct ration_found *shared)
{
    struct ration_entry_next next;

    if (ration_found_is_plain(shared))
        return ration_plain_touch_overflow(shared->overflow, shared->slot.value);
    next.mark = ration_head_unpack(shared->view.value.words[1]).mark;
    next.ring.modulus = 0;
    memcpy(next.cells, shared->view.cells, sizeof(next.cells));
    return ration_entry_change(shared->section, &shared->view, &next);
}

/*
 * What a key may owe in a shared bucket is paid at the moment that was noted, whatever others have
 * taken since: not more than being empty until then.
 */
static void cut_off(const struct ration_run *run, const struct ration_op_part *part,
                    struct ration_found *shared, uint64_t noted_ns)
{
    uint64_t epoch_ns = run->memory->store.epoch_ns;

    for (uint32_t i = 0; i < part->rule_count; i++) {
        struct ration_any *any = &shared->anys[i];
        struct ration_time cells[2];

        if (ration_any_full_after_ns(any, run->now_ns) <= noted_ns - run->since_ns)
            continue;
        ration_any_origin(any->limit, cells, noted_ns, epoch_ns);
        ration_any_read(any, cells, epoch_ns);
    }
}

/* A new key starts with the debt of the overflow bucket, if it may have had a share in it. */
static void inherit_overflow(const struct ration_run *run, const struct ration_op_part *part,
                             struct ration_found *found)
{
    struct ration_found shared = {.section = found->section,
                                  .place = found->place,
                                  .overflow = found->overflow,
                                  .is_there = true};
    struct ration_time cells[RATION_SECTION_CELLS_MAX];
    uint32_t generation;

    uint64_t noted_ns = ration_section_overflow_ns(found->section, &found->place);

    if (noted_ns <= run->since_ns)
        return;
    do {
        if (!read_there(&shared, true))
            return;
        ration_yield_point();
    } while (found->is_claimed && !touch_overflow(&shared));
    generation = take_cells(&shared, cells);
    read_states(run, part, &shared, cells, generation);
    cut_off(run, part, &shared, noted_ns);
    join(run, part, found, &shared);
    found->is_ahead |= shared.is_ahead;
}

/* The states of a key that is created now. */
static void read_newborn(const struct ration_run *run, const struct ration_op_part *part,
                         struct ration_found *found)
{
    uint64_t epoch_ns = run->memory->store.epoch_ns;
    uint64_t origin_ns = ration_section_origin_ns(found->section, &found->place);

    ration_yield_point();
    found->is_behind = origin_ns > run->since_ns;
    for (uint32_t i = 0; i < part->rule_count; i++) {
        const struct ration_limit *limit = limit_of(part, i);
        bool has_ring = part->configs->places[i].has_ring;
        struct ration_time cells[2];
        struct ration_any any = {.limit = limit};

        if (has_ring)
            any.reader = reader_of(run, found);
        ration_any_origin(limit, cells, origin_ns, epoch_ns);
        ration_any_read(&any, cells, epoch_ns);
        /* the ring is still that of whoever had the place: other moments, in another order */
        if (has_ring && origin_ns > 0)
            any = ration_log_empty_until(&any, origin_ns + epoch_ns);
        /* what was reclaimed later may have been no more than a key that was new then */
        if (limit->start != RATION_START_FULL)
            any = ration_any_start(&any, found->is_behind ? origin_ns + epoch_ns : run->now_ns);
        found->anys[i] = any;
    }
    inherit_overflow(run, part, found);
    for (uint32_t i = 0; i < part->rule_count; i++)
        found->has_ring_write |= !ration_log_may_go_on(&found->anys[i]);
}

/*
 * Whether the key, whose place nobody has taken yet, counts as one that is new: it was full, and
 * not asked for, as long as its rules remember.
 */
static bool is_forgotten(const struct ration_run *run, const struct ration_op_part *part,
                         const struct ration_found *found)
{
    struct ration_time moment = ration_memory_moment(found->section, found->cells);

    return part->stale_after_ns > 0 && !found->is_full &&
           !ration_time_less(ration_time_from_ns(run->since_ns), moment);
}

/*
 * A key that is forgotten in its own place starts anew, but for a now that runs back it holds no
 * more than it did then. A log that starts full is what it was: its ring is still there.
 */
static void read_reborn(const struct ration_run *run, const struct ration_op_part *part,
                        struct ration_found *found, uint32_t generation)
{
    struct ration_found old = *found;

    read_states(run, part, &old, old.cells, generation);
    found->is_ahead |= old.is_ahead;
    read_newborn(run, part, found);
    for (uint32_t i = 0; i < part->rule_count; i++) {
        bool is_kept = part->configs->places[i].has_ring &&
                       found->anys[i].write.older_count + found->anys[i].write.count == 0;

        if (is_kept)
            found->anys[i] = old.anys[i];
        else
            found->anys[i] = ration_any_join(&found->anys[i], &old.anys[i], run->now_ns);
    }
}

/* For a now that runs back the overflow bucket holds no more than what was reclaimed might have. */
static void keep_origin(const struct ration_run *run, const struct ration_op_part *part,
                        struct ration_found *found)
{
    struct ration_found newborn = {
        .section = found->section, .place = found->place, .overflow = found->overflow};

    read_newborn(run, part, &newborn);
    found->is_ahead |= newborn.is_ahead;
    memcpy(found->newborns, newborn.anys, sizeof(found->newborns));
    if (newborn.is_behind)
        join(run, part, found, &newborn);
}

static struct ration_newcomer newcomer_of(const struct ration_run *run,
                                          const struct ration_op_part *part)
{
    const struct ration_config *config = part->to.config;
    struct ration_newcomer newcomer = {.current = (const void *const *)&part->configs->current,
                                       .config = &config->number,
                                       .config_number = part->to.config_number,
                                       .now_ns = run->since_ns,
                                       .generation = config->generation,
                                       .kept_ns = part->stale_after_ns};

    for (uint32_t g = 0; g < RATION_GENERATION_COUNT; g++)
        if (g != config->generation && ration_configs_is_reset(part->configs, config, g))
            newcomer.reset_mask |= 1u << g;
    return newcomer;
}

/*
 * Whether a newcomer may also take places of keys that hold no less than it starts with. Then its
 * bounds are what it would have. Not where a rule starts full, which is what the first look is for.
 */
static bool make_scarce(const struct ration_run *run, const struct ration_op_part *part,
                        struct ration_newcomer *newcomer)
{
    for (uint32_t i = 0; i < part->rule_count; i++) {
        const struct ration_limit *limit = &part->own_limits[i];
        struct ration_any any = {.limit = limit};
        struct ration_time *bounds = &newcomer->bounds[part->configs->places[i].first_cell];

        if (!ration_any_is_ordered(limit) || limit->start == RATION_START_FULL ||
            part->limits[i] != limit)
            return false;
        any = ration_any_start(&any, run->now_ns);
        ration_any_write(&any, bounds, run->memory->store.epoch_ns);
    }
    shift(part->stale_after_ns, UINT32_MAX >> (32 - part->configs->cell_count), newcomer->bounds,
          true);
    newcomer->is_scarce = true;
    return true;
}

enum ration_enter ration_found_enter(const struct ration_run *run,
                                     const struct ration_op_part *part, struct ration_found *found)
{
    struct ration_newcomer newcomer = newcomer_of(run, part);
    enum ration_enter entered;

    do
        entered = ration_create_enter(ration_found_kind(found), found->section, &found->place,
                                      &newcomer, &found->slot);
    while (entered == RATION_ENTER_FULL && !newcomer.is_scarce &&
           make_scarce(run, part, &newcomer));
    return entered;
}

bool ration_found_has_room(const struct ration_run *run, const struct ration_op_part *part,
                           const struct ration_found *found)
{
    struct ration_newcomer newcomer = newcomer_of(run, part);
    bool has_room;

    do
        has_room = ration_create_has_room(ration_found_kind(found), found->section, &found->place,
                                          &newcomer);
    while (!has_room && !newcomer.is_scarce && make_scarce(run, part, &newcomer));
    return has_room;
}

/*
 * Whether an absent key that may have a share in the overflow bucket still has no place. Judged as a
 * new one, with that debt, it could be denied what the bucket has.
 */
static bool is_left_over(const struct ration_run *run, const struct ration_op_part *part,
                         const struct ration_found *found)
{
    bool is_wanted = false;

    if (found->is_claimed || found->is_unborn || run->op->kind > RATION_OP_RESERVE ||
        ration_section_overflow_ns(found->section, &found->place) <= run->since_ns)
        return false;
    for (uint32_t i = 0; i < part->rule_count; i++)
        is_wanted |= part->limits[i] != NULL && part->costs[i] > 0;
    return is_wanted && !ration_found_has_room(run, part, found);
}

void ration_found_read(const struct ration_run *run, uint32_t part_index,
                       struct ration_found *found)
{
    const struct ration_op_part *part = &run->op->parts[part_index];
    uint32_t generation;

    found->is_ahead = false;
    found->is_reborn = false;
    found->is_behind = false;
    found->has_ring_write = false;
    found->is_claimed = found->is_claimed && ration_found_claim_stands(found);
    if (!found->is_claimed) {
        found->slot.head = NULL;
        found->is_there = read_there(found, false);
        if (found->is_there)
            found->is_full = false;
    }
    found->origin_ns = ration_section_origin_ns(found->section, &found->place);
    if (!found->is_there && part->overflow == RATION_OVERFLOW_SHARED) {
        found->is_full = found->is_full || is_left_over(run, part, found);
        if (found->is_full)
            found->is_there = read_there(found, true);
    }
    if (!found->is_there) {
        read_newborn(run, part, found);
        /*
         * A change that resets lets others take the key's place. Under the limits before it the key must
         * not be created again. acquire: who took the place has seen the change.
         */
        ration_fence_acquire();
        found->is_ahead |= ration_configs_current(part->configs) != part->to.config;
        return;
    }
    generation = take_cells(found, found->cells);
    found->is_reborn = is_forgotten(run, part, found);
    if (found->is_reborn)
        read_reborn(run, part, found, generation);
    else
        read_states(run, part, found, found->cells, generation);
    if (found->is_full)
        keep_origin(run, part, found);
}

enum ration_found_at ration_found_read_at(const struct ration_run *run,
                                          const struct ration_op_part *part,
                                          struct ration_pair *head, struct ration_found *found,
                                          uint32_t *out_generation)
{
    struct ration_pair value = ration_atomic16_load(head);
    bool is_overflow = ration_section_is_overflow(found->section, head);
    struct ration_time moment;

    found->is_there = true;
    if (ration_found_is_plain(found)) {
        found->slot = (struct ration_entrance){head, value, false};
        if (!is_overflow && ration_plain_kind.role(value) != RATION_ROLE_MEMBER)
            return RATION_FOUND_NONE;
    } else if (!ration_entry_read(found->section, head, ration_pair_label(value), &found->view)) {
        return RATION_FOUND_NONE;
    }
    *out_generation = take_cells(found, found->cells);
    moment = ration_memory_moment(found->section, found->cells);
    if (!ration_time_less(ration_time_from_ns(run->since_ns), moment))
        return RATION_FOUND_IDLE;
    read_states(run, part, found, found->cells, *out_generation);
    return RATION_FOUND_IN_USE;
}

bool ration_found_change(const struct ration_found *found, const struct ration_entry_next *next)
{
    if (!ration_found_is_plain(found))
        return ration_entry_change(found->section, &found->view, next);

    struct ration_pair expected = found->slot.value;
    struct ration_slot slot = {ration_pair_label(expected), next->mark, next->cells[0]};

    ration_yield_point();
    return ration_atomic16_swap(found->slot.head, &expected, ration_slot_pack(slot));
}
