#include "table/entry.h"

#include "base/fence.h"
#include "base/yield.h"
#include "table/commit.h"

static uint64_t load_word(const struct ration_pair *head)
{
    return __atomic_load_n(&head->words[1], __ATOMIC_ACQUIRE);
}

static struct ration_pair *cells_of(struct ration_pair *head)
{
    return head + 1;
}

/* Whether a label was written before version, in numbers that wrap around. */
static bool is_older(uint64_t label, uint64_t version)
{
    uint64_t ahead = (label - version) & RATION_VERSION_MASK;

    return ahead > RATION_VERSION_MASK / 2;
}

static bool has_older_cell(const struct ration_section *section, struct ration_pair *head,
                           uint64_t version)
{
    for (uint32_t i = 0; i < section->shape.cell_count; i++)
        if (is_older(ration_pair_label(ration_atomic16_load(&cells_of(head)[i])), version))
            return true;
    return false;
}

/* Swaps a cell to a value of version (given without its label), unless that is done. */
static void copy_cell(struct ration_pair *cell, struct ration_pair value, uint64_t version)
{
    struct ration_pair seen = ration_atomic16_load(cell);

    value.words[0] |= version << RATION_FRAC_BITS;
    while (is_older(ration_pair_label(seen), version)) {
        ration_yield_point();
        /* release: pairs with the loads in read_cells() */
        if (ration_atomic16_swap(cell, &seen, value))
            return;
    }
}

static struct ration_pair *ring_of(const struct ration_section *section,
                                   const struct ration_pair *head)
{
    return section->rings + ration_section_index_of(section, head) * section->shape.ring_cells;
}

static void copy_ring(const struct ration_section *section, struct ration_pair *head,
                      struct ration_ring_write ring, uint64_t version)
{
    struct ration_pair *cells = ring_of(section, head);

    for (uint32_t i = 0; i < ring.older_count + ring.count; i++) {
        struct ration_time moment = {i < ring.older_count ? ring.older_ns : ring.moment_ns, 0};

        copy_cell(&cells[(ring.first_index + i) % ring.modulus],
                  ration_slot_pack((struct ration_slot){0, 0, moment}), version);
    }
}

/*
 * Cells of a ring keep the label of who wrote them, which may be long ago. Before it looks like one
 * that is to come, in numbers that wrap around, all get the label of the day.
 */
static void refresh_ring(const struct ration_section *section, struct ration_pair *head,
                         uint64_t version)
{
    struct ration_pair *cells = ring_of(section, head);

    for (uint32_t i = 0; i < section->shape.ring_cells; i++) {
        struct ration_pair seen = ration_atomic16_load(&cells[i]);

        while (is_older(ration_pair_label(seen), version)) {
            struct ration_slot slot = ration_slot_unpack(seen);

            slot.label = version;
            ration_yield_point();
            if (ration_atomic16_swap(&cells[i], &seen, ration_slot_pack(slot)))
                break;
        }
    }
}

static struct ration_ring_write read_ring(const struct ration_seat_entry *part)
{
    uint64_t counts = ration_seat_get(&part->ring_counts);

    return (struct ration_ring_write){
        .modulus = (uint32_t)ration_seat_get(&part->ring_modulus),
        .first_index = (uint32_t)ration_seat_get(&part->ring_first_index),
        .older_count = (uint32_t)(counts >> 32),
        .count = (uint32_t)counts,
        .older_ns = ration_seat_get(&part->ring_older_ns),
        .moment_ns = ration_seat_get(&part->ring_ns),
    };
}

void ration_entry_copy(const struct ration_section *section, struct ration_pair *head,
                       const struct ration_seat *seat, uint32_t part_index, uint64_t version)
{
    const struct ration_seat_entry *part = &seat->entries[part_index];
    uint64_t first = ration_seat_get(&part->cells_first);

    if (first + section->shape.cell_count > RATION_SEAT_CELLS_MAX)
        return; /* the seat has moved on, so this is done */
    if (section->shape.ring_cells > 0) {
        struct ration_ring_write ring = read_ring(part);

        /* acquire: what was read in the seat is meant if a cell is found to be older after it */
        ration_fence_acquire();
        if (has_older_cell(section, head, version)) {
            if (ring.modulus > 0)
                copy_ring(section, head, ring, version);
            if (version % RATION_RING_REFRESH == 0)
                refresh_ring(section, head, version);
        }
    }
    for (uint32_t i = 0; i < section->shape.cell_count; i++) {
        const struct ration_pair *source = &seat->cells[first + i];
        struct ration_pair value = {
            {ration_seat_get(&source->words[0]), ration_seat_get(&source->words[1])}};

        ration_yield_point();
        copy_cell(&cells_of(head)[i], value, version);
    }
}

/* The cells, if all are of version. */
static bool read_cells(const struct ration_section *section, struct ration_pair *head,
                       uint64_t version, struct ration_time *out_cells)
{
    for (uint32_t i = 0; i < section->shape.cell_count; i++) {
        struct ration_pair cell = ration_atomic16_load(&cells_of(head)[i]);

        ration_yield_point();
        if (ration_pair_label(cell) != version)
            return false;
        out_cells[i] = ration_pair_moment(cell);
    }
    return true;
}

/* Copies what a LIVE entry's cells are behind with from the seat that its head names. */
static void catch_up(const struct ration_section *section, struct ration_pair *head,
                     struct ration_head state)
{
    if (state.seat > 0 && state.seat <= section->seat_count)
        ration_entry_copy(section, head, &section->seats[state.seat - 1], 0, state.version);
}

bool ration_entry_read(const struct ration_section *section, struct ration_pair *head, uint64_t tag,
                       struct ration_entry_view *out_view)
{
    for (;;) { /* each turn means that something was finished, or that others went on */
        struct ration_pair value = ration_atomic16_load(head);
        struct ration_head state = ration_head_unpack(value.words[1]);

        ration_yield_point();
        if (ration_pair_label(value) != tag)
            return false;
        switch (state.state) {
        case RATION_HEAD_HELD:
            ration_commit_resolve(section, head, value.words[1]);
            break;
        case RATION_HEAD_LIVE:
            out_view->head = head;
            out_view->value = value;
            if (read_cells(section, head, state.version, out_view->cells))
                return true;
            catch_up(section, head, state);
            break;
        default:
            return false;
        }
    }
}

void ration_entry_open_overflow(struct ration_pair *head)
{
    struct ration_pair zero = {{0, 0}};
    struct ration_pair live = {{RATION_OVERFLOW_LABEL << RATION_FRAC_BITS,
                                ration_head_pack((struct ration_head){.state = RATION_HEAD_LIVE})}};

    if (ration_pair_is_empty(ration_atomic16_load(head))) {
        ration_yield_point();
        (void)ration_atomic16_swap(head, &zero, live);
    }
}

bool ration_entry_find(const struct ration_section *section, const struct ration_place *place,
                       struct ration_entry_view *out_view)
{
    for (uint32_t i = 0; i < RATION_KEY_PLACES; i++) {
        struct ration_pair *head = ration_section_at(section, ration_place_index(place, i));
        uint64_t word = __atomic_load_n(&head->words[0], __ATOMIC_RELAXED);

        ration_yield_point();
        if (word >> RATION_FRAC_BITS == place->tag &&
            ration_entry_read(section, head, place->tag, out_view))
            return true;
    }
    return false;
}

/* Writes one entry's part into a seat that holds nothing else. */
static void fill_seat(const struct ration_section *section, struct ration_seat *seat,
                      struct ration_pair *head, uint64_t expected_word,
                      const struct ration_entry_next *next)
{
    ration_seat_put(&seat->entry_count, 1);
    ration_commit_write_part(section, seat, 0, 0, head, expected_word, next);
}

/* The head's word that names the seat, one version on. */
static uint64_t changed_word(const struct ration_section *section, const struct ration_seat *seat,
                             uint64_t word, uint32_t mark)
{
    return ration_head_pack((struct ration_head){
        .version = ration_head_unpack(word).version + 1,
        .mark = mark,
        .state = RATION_HEAD_LIVE,
        .seat = ration_seat_number(section, seat),
        .turn = ration_seat_turn(seat),
    });
}

bool ration_entry_change(const struct ration_section *section, const struct ration_entry_view *view,
                         const struct ration_entry_next *next)
{
    struct ration_seat *seat = ration_seat_take(section);
    uint64_t expected = view->value.words[1];
    uint64_t desired = changed_word(section, seat, expected, next->mark);

    fill_seat(section, seat, view->head, expected, next);
    ration_yield_point();
    /* release: who sees the seat's name sees its contents; pairs with ration_entry_read() */
    bool changed = __atomic_compare_exchange_n(&view->head->words[1], &expected, desired, false,
                                               __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);

    if (changed)
        ration_entry_copy(section, view->head, seat, 0, ration_head_unpack(desired).version);
    ration_seat_leave(seat);
    return changed;
}

bool ration_entry_complete(const struct ration_section *section,
                           const struct ration_entrance *claim,
                           const struct ration_entry_next *next)
{
    struct ration_seat *seat = ration_seat_take(section);
    struct ration_pair expected = claim->value;
    struct ration_pair desired = {{ration_pair_label(expected) << RATION_FRAC_BITS,
                                   changed_word(section, seat, expected.words[1], next->mark)}};

    fill_seat(section, seat, claim->head, expected.words[1], next);
    ration_yield_point();
    bool completed = ration_atomic16_swap(claim->head, &expected, desired);

    if (completed)
        ration_entry_copy(section, claim->head, seat, 0,
                          ration_head_unpack(desired.words[1]).version);
    ration_seat_leave(seat);
    return completed;
}

struct ration_time ration_entry_ring_at(const struct ration_section *section,
                                        const struct ration_pair *head, uint32_t ring_index)
{
    return ration_pair_moment(ration_atomic16_load(&ring_of(section, head)[ring_index]));
}

bool ration_entry_is_unchanged(const struct ration_entry_view *view)
{
    ration_fence_acquire();
    return load_word(view->head) == view->value.words[1];
}

struct ration_time ration_entry_moment(const struct ration_section *section,
                                       const struct ration_time *cells)
{
    struct ration_time latest = {0, 0};

    for (uint32_t i = 0; i < section->shape.cell_count; i++)
        if (section->shape.moment_mask >> i & 1)
            latest = ration_time_max(latest, cells[i]);
    return latest;
}

/*
 * Claims carry the time of their making, in units of RATION_CLAIM_NS: its low bits beside the tag,
 * the others where a member names its seat.
 */
static uint64_t claim_time(struct ration_pair claim)
{
    return (uint64_t)ration_head_unpack(claim.words[1]).seat << RATION_FRAC_BITS |
           (claim.words[0] & RATION_FRAC_MASK);
}

static bool is_lapsed(struct ration_pair claim, uint64_t now_ns)
{
    return now_ns / RATION_CLAIM_NS >= claim_time(claim) + 2;
}

static enum ration_role role(struct ration_pair value)
{
    switch (ration_head_unpack(value.words[1]).state) {
    case RATION_HEAD_EMPTY:
        return RATION_ROLE_EMPTY;
    case RATION_HEAD_CLAIM:
        return RATION_ROLE_CLAIM;
    default:
        return RATION_ROLE_MEMBER;
    }
}

static bool is_free(const struct ration_section *section, struct ration_pair *head,
                    struct ration_pair value, const struct ration_newcomer *newcomer,
                    struct ration_time *out_moment)
{
    struct ration_head state = ration_head_unpack(value.words[1]);
    struct ration_time cells[RATION_SECTION_CELLS_MAX];

    *out_moment = (struct ration_time){0, 0};
    if (state.state == RATION_HEAD_EMPTY)
        return true;
    if (state.state == RATION_HEAD_CLAIM)
        return is_lapsed(value, newcomer->now_ns);
    if (state.state == RATION_HEAD_HELD) { /* nobody may ask for this key again: see it through */
        ration_commit_resolve(section, head, value.words[1]);
        return false;
    }
    if (!read_cells(section, head, state.version, cells)) {
        catch_up(section, head, state);
        if (!read_cells(section, head, state.version, cells))
            return false;
    }
    return ration_newcomer_may_take(newcomer, cells, section->shape.moment_mask, state.mark,
                                    out_moment);
}

/* The version goes on from whoever had the place, so that no claim's bytes come again. */
static struct ration_pair claim(const struct ration_section *section,
                                const struct ration_place *place, struct ration_pair victim,
                                uint64_t now_ns)
{
    struct ration_head head = {
        .version = ration_head_unpack(victim.words[1]).version + 1,
        .mark = RATION_MARK_CLAIM,
        .state = RATION_HEAD_CLAIM,
        .seat = (uint32_t)(now_ns / RATION_CLAIM_NS >> RATION_FRAC_BITS) & 1023,
    };

    (void)section;
    return (struct ration_pair){
        {place->tag << RATION_FRAC_BITS | ((now_ns / RATION_CLAIM_NS) & RATION_FRAC_MASK),
         ration_head_pack(head)}};
}

static struct ration_pair withdrawn(struct ration_pair value)
{
    struct ration_head head = {
        .version = ration_head_unpack(value.words[1]).version + 1,
        .state = RATION_HEAD_EMPTY,
    };

    return (struct ration_pair){{0, ration_head_pack(head)}};
}

const struct ration_head_kind ration_entry_kind = {
    .role = role,
    .is_free = is_free,
    .claim = claim,
    .withdrawn = withdrawn,
};

struct ration_time ration_entry_free_at(const struct ration_section *section,
                                        const struct ration_place *place)
{
    struct ration_free_times times = {.count = 0};

    for (uint32_t i = 0; i < RATION_KEY_PLACES; i++) {
        struct ration_pair *head = ration_section_at(section, ration_place_index(place, i));
        uint64_t label = ration_pair_label(ration_atomic16_load(head));
        struct ration_entry_view view;

        if (ration_entry_read(section, head, label, &view))
            ration_free_times_add(&times, ration_entry_moment(section, view.cells),
                                  ration_head_unpack(view.value.words[1]).mark);
    }
    return ration_free_times_first(&times);
}
