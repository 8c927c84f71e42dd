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

/* Whether tag is an older version than version, in numbers that wrap around. */
static bool is_older(uint64_t tag, uint64_t version)
{
    uint64_t ahead = (tag - version) & RATION_VERSION_MASK;

    return ahead > RATION_VERSION_MASK / 2;
}

static bool has_older_cell(const struct ration_section *section, struct ration_pair *head,
                           uint64_t version)
{
    for (uint32_t i = 0; i < section->shape.cell_count; i++)
        if (is_older(ration_slot_tag(ration_atomic16_load(&cells_of(head)[i])), version))
            return true;
    return false;
}

/* Swaps a cell to a value (given without its tag) of version, unless another thread has done so. */
static void copy_cell(struct ration_pair *cell, struct ration_pair value, uint64_t version)
{
    struct ration_pair seen = ration_atomic16_load(cell);

    value.words[0] |= version << RATION_FRAC_BITS;
    while (is_older(ration_slot_tag(seen), version)) {
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
        struct ration_time expires_at = {i < ring.older_count ? ring.older_ns : ring.newer_ns, 0};

        copy_cell(&cells[(ring.first_index + i) % ring.modulus],
                  ration_slot_pack((struct ration_slot){0, 0, expires_at}), version);
    }
}

/*
 * Cells of a ring keep the version of the change that wrote them, maybe long ago. Before that version looks like a
 * future one, in numbers that wrap around, all cells get the current version.
 */
static void refresh_ring(const struct ration_section *section, struct ration_pair *head,
                         uint64_t version)
{
    struct ration_pair *cells = ring_of(section, head);

    for (uint32_t i = 0; i < section->shape.ring_cells; i++) {
        struct ration_pair seen = ration_atomic16_load(&cells[i]);

        while (is_older(ration_slot_tag(seen), version)) {
            struct ration_slot slot = ration_slot_unpack(seen);

            slot.tag = version;
            ration_yield_point();
            if (ration_atomic16_swap(&cells[i], &seen, ration_slot_pack(slot)))
                break;
        }
    }
}

static struct ration_ring_write read_ring(const struct ration_descriptor_entry *part)
{
    uint64_t counts = ration_descriptor_get(&part->ring_counts);

    return (struct ration_ring_write){
        .modulus = (uint32_t)ration_descriptor_get(&part->ring_modulus),
        .first_index = (uint32_t)ration_descriptor_get(&part->ring_first_index),
        .older_count = (uint32_t)(counts >> 32),
        .count = (uint32_t)counts,
        .older_ns = ration_descriptor_get(&part->ring_older_ns),
        .newer_ns = ration_descriptor_get(&part->ring_newer_ns),
    };
}

void ration_entry_copy(const struct ration_section *section, struct ration_pair *head,
                       const struct ration_descriptor *descriptor, uint32_t part_index,
                       uint64_t version)
{
    const struct ration_descriptor_entry *part = &descriptor->entries[part_index];
    uint64_t first = ration_descriptor_get(&part->cells_first);

    if (first + section->shape.cell_count > RATION_DESCRIPTOR_CELLS_MAX)
        return; /* the descriptor has a later sequence, so this change is copied already */
    if (section->shape.ring_cells > 0) {
        struct ration_ring_write ring = read_ring(part);

        /*
         * acquire: the ring that was read from the descriptor belongs to this change if a cell is found to be older
         * afterwards
         */
        ration_fence_acquire();
        if (has_older_cell(section, head, version)) {
            if (ring.modulus > 0)
                copy_ring(section, head, ring, version);
            if (version % RATION_RING_REFRESH == 0)
                refresh_ring(section, head, version);
        }
    }
    for (uint32_t i = 0; i < section->shape.cell_count; i++) {
        const struct ration_pair *source = &descriptor->cells[first + i];
        struct ration_pair value = {
            {ration_descriptor_get(&source->words[0]), ration_descriptor_get(&source->words[1])}};

        ration_yield_point();
        copy_cell(&cells_of(head)[i], value, version);
    }
}

/* Reads the cells. False unless all have this version. */
static bool read_cells(const struct ration_section *section, struct ration_pair *head,
                       uint64_t version, struct ration_time *out_cells)
{
    for (uint32_t i = 0; i < section->shape.cell_count; i++) {
        struct ration_pair cell = ration_atomic16_load(&cells_of(head)[i]);

        ration_yield_point();
        if (ration_slot_tag(cell) != version)
            return false;
        out_cells[i] = ration_slot_expires_at(cell);
    }
    return true;
}

/* Copies the cells of a LIVE entry that are behind its head, from the descriptor that the head names. */
static void copy_missing_cells(const struct ration_section *section, struct ration_pair *head,
                               struct ration_head state)
{
    if (state.descriptor > 0 && state.descriptor <= section->descriptor_count)
        ration_entry_copy(section, head, &section->descriptors[state.descriptor - 1], 0,
                          state.version);
}

bool ration_entry_read(const struct ration_section *section, struct ration_pair *head, uint64_t tag,
                       struct ration_entry_view *out_view)
{
    for (;;) { /* each pass means that a change was finished, or that another thread made one */
        struct ration_pair value = ration_atomic16_load(head);
        struct ration_head state = ration_entry_head_unpack(value.words[1]);

        ration_yield_point();
        if (ration_slot_tag(value) != tag)
            return false;
        switch (state.state) {
        case RATION_HEAD_PREPARED:
            ration_commit_resolve(section, head, value.words[1]);
            break;
        case RATION_HEAD_LIVE:
            out_view->head = head;
            out_view->value = value;
            if (read_cells(section, head, state.version, out_view->cells))
                return true;
            copy_missing_cells(section, head, state);
            break;
        default:
            return false;
        }
    }
}

void ration_entry_open_overflow(struct ration_pair *head)
{
    struct ration_pair zero = {{0, 0}};
    struct ration_pair live = {
        {RATION_OVERFLOW_TAG << RATION_FRAC_BITS,
         ration_entry_head_pack((struct ration_head){.state = RATION_HEAD_LIVE})}};

    if (ration_slot_is_empty(ration_atomic16_load(head))) {
        ration_yield_point();
        (void)ration_atomic16_swap(head, &zero, live);
    }
}

bool ration_entry_find(const struct ration_section *section, const struct ration_location *location,
                       struct ration_entry_view *out_view)
{
    for (uint32_t i = 0; i < RATION_KEY_SLOTS; i++) {
        struct ration_pair *head = ration_section_at(section, ration_location_index(location, i));
        uint64_t word = __atomic_load_n(&head->words[0], __ATOMIC_RELAXED);

        ration_yield_point();
        if (word >> RATION_FRAC_BITS == location->tag &&
            ration_entry_read(section, head, location->tag, out_view))
            return true;
    }
    return false;
}

/* Writes one entry's part into a descriptor that contains no other. */
static void fill_descriptor(const struct ration_section *section,
                            struct ration_descriptor *descriptor, struct ration_pair *head,
                            uint64_t expected_word, const struct ration_entry_next *next)
{
    ration_descriptor_put(&descriptor->entry_count, 1);
    ration_commit_write_part(section, descriptor, 0, 0, head, expected_word, next);
}

/* The head's word that names the descriptor, with the next version. */
static uint64_t next_word(const struct ration_section *section,
                          const struct ration_descriptor *descriptor, uint64_t word, uint32_t flags)
{
    return ration_entry_head_pack((struct ration_head){
        .version = ration_entry_head_unpack(word).version + 1,
        .flags = flags,
        .state = RATION_HEAD_LIVE,
        .descriptor = ration_descriptor_number(section, descriptor),
        .sequence = ration_descriptor_sequence(descriptor),
    });
}

bool ration_entry_change(const struct ration_section *section, const struct ration_entry_view *view,
                         const struct ration_entry_next *next)
{
    struct ration_descriptor *descriptor = ration_descriptor_take(section);
    uint64_t expected = view->value.words[1];
    uint64_t desired = next_word(section, descriptor, expected, next->flags);

    fill_descriptor(section, descriptor, view->head, expected, next);
    ration_yield_point();
    /* release: a thread that sees the descriptor's number sees its contents; pairs with ration_entry_read() */
    bool changed = __atomic_compare_exchange_n(&view->head->words[1], &expected, desired, false,
                                               __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);

    if (changed)
        ration_entry_copy(section, view->head, descriptor, 0,
                          ration_entry_head_unpack(desired).version);
    ration_descriptor_leave(descriptor);
    return changed;
}

bool ration_entry_complete(const struct ration_section *section, const struct ration_claim *claim,
                           const struct ration_entry_next *next)
{
    struct ration_descriptor *descriptor = ration_descriptor_take(section);
    struct ration_pair expected = claim->value;
    struct ration_pair desired = {{ration_slot_tag(expected) << RATION_FRAC_BITS,
                                   next_word(section, descriptor, expected.words[1], next->flags)}};

    fill_descriptor(section, descriptor, claim->head, expected.words[1], next);
    ration_yield_point();
    bool completed = ration_atomic16_swap(claim->head, &expected, desired);

    if (completed)
        ration_entry_copy(section, claim->head, descriptor, 0,
                          ration_entry_head_unpack(desired.words[1]).version);
    ration_descriptor_leave(descriptor);
    return completed;
}

struct ration_time ration_entry_ring_at(const struct ration_section *section,
                                        const struct ration_pair *head, uint32_t ring_index)
{
    return ration_slot_expires_at(ration_atomic16_load(&ring_of(section, head)[ring_index]));
}

bool ration_entry_is_unchanged(const struct ration_entry_view *view)
{
    ration_fence_acquire();
    return load_word(view->head) == view->value.words[1];
}

struct ration_time ration_entry_expires_at(const struct ration_section *section,
                                           const struct ration_time *cells)
{
    struct ration_time latest = {0, 0};

    for (uint32_t i = 0; i < section->shape.cell_count; i++)
        if (section->shape.expiry_mask >> i & 1)
            latest = ration_time_max(latest, cells[i]);
    return latest;
}

/*
 * A claim contains the time at which it was made, in units of RATION_CLAIM_NS: the low bits beside the tag, the
 * others where a member names its descriptor.
 */
static uint64_t claim_time(struct ration_pair claim)
{
    return (uint64_t)ration_entry_head_unpack(claim.words[1]).descriptor << RATION_FRAC_BITS |
           (claim.words[0] & RATION_FRAC_MASK);
}

static bool is_lapsed(struct ration_pair claim, uint64_t now_ns)
{
    return now_ns / RATION_CLAIM_NS >= claim_time(claim) + 2;
}

static enum ration_claim_role role_of(struct ration_pair value)
{
    switch (ration_entry_head_unpack(value.words[1]).state) {
    case RATION_HEAD_EMPTY:
        return RATION_CLAIM_ROLE_EMPTY;
    case RATION_HEAD_CLAIM:
        return RATION_CLAIM_ROLE_CLAIM;
    default:
        return RATION_CLAIM_ROLE_MEMBER;
    }
}

static bool is_free(const struct ration_section *section, struct ration_pair *head,
                    struct ration_pair value, const struct ration_claim_request *request,
                    struct ration_time *out_expires_at)
{
    struct ration_head state = ration_entry_head_unpack(value.words[1]);
    struct ration_time cells[RATION_SECTION_CELLS_MAX];

    *out_expires_at = (struct ration_time){0, 0};
    if (state.state == RATION_HEAD_EMPTY)
        return true;
    if (state.state == RATION_HEAD_CLAIM)
        return is_lapsed(value, request->now_ns);
    if (state.state == RATION_HEAD_PREPARED) {
        /* complete the commit: maybe no thread looks up this key again */
        ration_commit_resolve(section, head, value.words[1]);
        return false;
    }
    if (!read_cells(section, head, state.version, cells)) {
        copy_missing_cells(section, head, state);
        if (!read_cells(section, head, state.version, cells))
            return false;
    }
    return ration_claim_may_reclaim(request, cells, section->shape.expiry_mask, state.flags,
                                    out_expires_at);
}

/* The version continues that of the previous key, so that the bytes of a claim never occur again. */
static struct ration_pair make_claim(const struct ration_section *section,
                                     const struct ration_location *location,
                                     struct ration_pair victim, uint64_t now_ns)
{
    struct ration_head head = {
        .version = ration_entry_head_unpack(victim.words[1]).version + 1,
        .flags = RATION_FLAG_CLAIM,
        .state = RATION_HEAD_CLAIM,
        .descriptor = (uint32_t)(now_ns / RATION_CLAIM_NS >> RATION_FRAC_BITS) & 1023,
    };

    (void)section;
    return (struct ration_pair){
        {location->tag << RATION_FRAC_BITS | ((now_ns / RATION_CLAIM_NS) & RATION_FRAC_MASK),
         ration_entry_head_pack(head)}};
}

bool ration_entry_is_first_claim(struct ration_pair claim)
{
    return ration_entry_head_unpack(claim.words[1]).version == 1;
}

static struct ration_pair make_empty(struct ration_pair value)
{
    struct ration_head head = {
        .version = ration_entry_head_unpack(value.words[1]).version + 1,
        .state = RATION_HEAD_EMPTY,
    };

    return (struct ration_pair){{0, ration_entry_head_pack(head)}};
}

const struct ration_head_kind ration_entry_kind = {
    .role = role_of,
    .is_free = is_free,
    .claim = make_claim,
    .make_empty = make_empty,
};

struct ration_time ration_entry_free_at(const struct ration_section *section,
                                        const struct ration_location *location)
{
    struct ration_claim_free_times times = {.count = 0};

    for (uint32_t i = 0; i < RATION_KEY_SLOTS; i++) {
        struct ration_pair *head = ration_section_at(section, ration_location_index(location, i));
        uint64_t tag = ration_slot_tag(ration_atomic16_load(head));
        struct ration_entry_view view;

        if (ration_entry_read(section, head, tag, &view))
            ration_claim_free_times_add(&times, ration_entry_expires_at(section, view.cells),
                                        ration_entry_head_unpack(view.value.words[1]).flags);
    }
    return ration_claim_free_times_first(&times);
}
