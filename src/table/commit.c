#include "table/commit.h"

#include "base/fence.h"
#include "base/yield.h"

static bool swap_word(struct ration_pair *head, uint64_t expected, uint64_t desired)
{
    ration_yield_point();
    return __atomic_compare_exchange_n(&head->words[1], &expected, desired, false, __ATOMIC_SEQ_CST,
                                       __ATOMIC_RELAXED);
}

void ration_commit_write_part(const struct ration_section *section, struct ration_seat *seat,
                              uint32_t part_index, uint32_t cells_first, struct ration_pair *head,
                              uint64_t expected_word, const struct ration_entry_next *next)
{
    struct ration_seat_entry *part = &seat->entries[part_index];

    ration_seat_put(&part->section_index, section->index);
    ration_seat_put(&part->head_offset, (uint64_t)((char *)head - (char *)section->block));
    ration_seat_put(&part->expected_word, expected_word);
    ration_seat_put(&part->mark, next->mark);
    ration_seat_put(&part->cells_first, cells_first);
    ration_seat_put(&part->ring_modulus, next->ring.modulus);
    if (next->ring.modulus > 0) {
        ration_seat_put(&part->ring_first_index, next->ring.first_index);
        ration_seat_put(&part->ring_counts,
                        (uint64_t)next->ring.older_count << 32 | next->ring.count);
        ration_seat_put(&part->ring_older_ns, next->ring.older_ns);
        ration_seat_put(&part->ring_ns, next->ring.moment_ns);
    }
    for (uint32_t i = 0; i < section->shape.cell_count; i++) {
        struct ration_pair value = ration_slot_pack((struct ration_slot){0, 0, next->cells[i]});

        ration_seat_put(&seat->cells[cells_first + i].words[0], value.words[0]);
        ration_seat_put(&seat->cells[cells_first + i].words[1], value.words[1]);
    }
}

/* A commit as its seat tells it, read in one piece. */
struct plan {
    struct ration_seat *seat;
    uint64_t turn; /* number of the turn */
    uint32_t part_count;
    struct part {
        struct ration_section section;
        struct ration_pair *head;
        uint64_t expected_word;
        uint64_t held_word;
        uint32_t mark;
    } parts[RATION_SEAT_ENTRIES_MAX];
};

static enum ration_seat_state state_of(const struct plan *plan)
{
    uint64_t word = __atomic_load_n(&plan->seat->turn, __ATOMIC_ACQUIRE);

    return word / 4 == plan->turn ? (enum ration_seat_state)(word % 4) : RATION_SEAT_IDLE;
}

static struct part read_part(const struct ration_section *section, const struct plan *plan,
                             uint32_t part_index)
{
    const struct ration_seat_entry *source = &plan->seat->entries[part_index];
    uint64_t section_index = ration_seat_get(&source->section_index);
    struct part part = {
        .head = (struct ration_pair *)(void *)((char *)section->block +
                                               ration_seat_get(&source->head_offset)),
        .expected_word = ration_seat_get(&source->expected_word),
        .mark = (uint32_t)ration_seat_get(&source->mark),
    };
    struct ration_head held = ration_head_unpack(part.expected_word);

    held.version++;
    held.state = RATION_HEAD_HELD;
    held.seat = ration_seat_number(section, plan->seat);
    held.turn = (uint32_t)plan->turn & ((1u << RATION_TURN_BITS) - 1);
    part.held_word = ration_head_pack(held);
    part.section = ration_section_open(
        section->block, (uint32_t)section_index % ration_block_section_count(section->block));
    return part;
}

/* Reads what the seat holds in its present turn. False if that is not (any more) a commit. */
static bool read_plan(const struct ration_section *section, struct ration_seat *seat,
                      struct plan *out_plan)
{
    uint64_t word = __atomic_load_n(&seat->turn, __ATOMIC_ACQUIRE);
    uint64_t part_count = ration_seat_get(&seat->entry_count);

    ration_yield_point();
    out_plan->seat = seat;
    out_plan->turn = word / 4;
    if (word % 4 == RATION_SEAT_IDLE || part_count > RATION_SEAT_ENTRIES_MAX)
        return false;
    out_plan->part_count = (uint32_t)part_count;
    for (uint32_t i = 0; i < out_plan->part_count; i++)
        out_plan->parts[i] = read_part(section, out_plan, i);
    /* acquire: pairs with the fence in begin_turn(); a later turn's words show its number */
    ration_fence_acquire();
    return ration_seat_get(&seat->turn) / 4 == out_plan->turn;
}

static void decide(const struct plan *plan, enum ration_seat_state state)
{
    uint64_t expected = plan->turn * 4 + RATION_SEAT_OPEN;

    ration_yield_point();
    __atomic_compare_exchange_n(&plan->seat->turn, &expected, plan->turn * 4 + state, false,
                                __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);
}

/* Holds one entry for the commit. False if it has changed, so that the commit must abort. */
static bool hold(const struct plan *plan, const struct part *part)
{
    struct ration_head expected = ration_head_unpack(part->expected_word);

    while (state_of(plan) == RATION_SEAT_OPEN) {
        uint64_t word = __atomic_load_n(&part->head->words[1], __ATOMIC_ACQUIRE);
        struct ration_head head = ration_head_unpack(word);

        ration_yield_point();
        if (word == part->held_word)
            return true;
        if (head.state == expected.state && head.version == expected.version) {
            if (swap_word(part->head, word, part->held_word))
                return true;
        } else if (head.state == RATION_HEAD_HELD) {
            /* by another; or by a later turn of this seat, if this plan was decided meanwhile */
            if (state_of(plan) == RATION_SEAT_OPEN)
                ration_commit_resolve(&part->section, part->head, word);
        } else {
            return false;
        }
    }
    return true; /* decided already */
}

/*
 * An entry held in vain goes back to where it was. (Of a claim a part of its time is forgotten: that
 * it stands no longer than its half that lies beside the tag says.)
 */
static void let_go(struct ration_pair *head, uint64_t held_word)
{
    struct ration_head before = ration_head_unpack(held_word);

    before.version--;
    before.state = before.mark == RATION_MARK_CLAIM ? RATION_HEAD_CLAIM : RATION_HEAD_LIVE;
    before.seat = 0;
    before.turn = 0;
    swap_word(head, held_word, ration_head_pack(before));
}

static void put_through(const struct plan *plan, uint32_t part_index)
{
    const struct part *part = &plan->parts[part_index];
    struct ration_head live = ration_head_unpack(part->held_word);

    ration_entry_copy(&part->section, part->head, plan->seat, part_index, live.version);
    live.mark = part->mark;
    live.state = RATION_HEAD_LIVE;
    live.seat = 0;
    live.turn = 0;
    swap_word(part->head, part->held_word, ration_head_pack(live));
}

static void see_through(const struct plan *plan)
{
    bool all_held = true;

    for (uint32_t i = 0; i < plan->part_count && all_held; i++)
        all_held = hold(plan, &plan->parts[i]);
    decide(plan, all_held ? RATION_SEAT_COMMITTED : RATION_SEAT_ABORTED);

    enum ration_seat_state state = state_of(plan);

    ration_yield_point();
    for (uint32_t i = 0; i < plan->part_count; i++) {
        if (state == RATION_SEAT_COMMITTED)
            put_through(plan, i);
        else if (state == RATION_SEAT_ABORTED)
            let_go(plan->parts[i].head, plan->parts[i].held_word);
    }
}

void ration_commit_resolve(const struct ration_section *section, struct ration_pair *head,
                           uint64_t word)
{
    struct ration_head held = ration_head_unpack(word);
    struct plan plan;

    if (held.seat == 0 || held.seat > section->seat_count) {
        let_go(head, word);
        return;
    }
    if (read_plan(section, &section->seats[held.seat - 1], &plan))
        for (uint32_t i = 0; i < plan.part_count; i++)
            if (plan.parts[i].head == head && plan.parts[i].held_word == word) {
                see_through(&plan);
                return;
            }
    let_go(head, word);
}

void ration_commit_finish(const struct ration_section *section, struct ration_seat *seat)
{
    struct plan plan;

    if (read_plan(section, seat, &plan)) {
        see_through(&plan);
        return;
    }
    if (plan.turn == 0 || ration_seat_get(&seat->entry_count) != 1)
        return;

    /* A change of one entry: its head names this seat and turn if it took place. */
    struct part part = read_part(section, &plan, 0);
    uint64_t word = __atomic_load_n(&part.head->words[1], __ATOMIC_ACQUIRE);
    struct ration_head head = ration_head_unpack(word);

    if (head.state == RATION_HEAD_LIVE && head.seat == ration_seat_number(section, seat) &&
        head.turn == ration_seat_turn(seat))
        ration_entry_copy(&part.section, part.head, seat, 0, head.version);
}

/* In the order of their addresses. Few, and mostly in order already. */
static void sort(struct ration_commit_part *parts, uint32_t part_count)
{
    for (uint32_t i = 1; i < part_count; i++)
        for (uint32_t k = i; k > 0 && parts[k].view->head < parts[k - 1].view->head; k--) {
            struct ration_commit_part part = parts[k];

            parts[k] = parts[k - 1];
            parts[k - 1] = part;
        }
}

bool ration_commit(struct ration_commit_part *parts, uint32_t part_count)
{
    const struct ration_section *section = parts[0].section;
    struct ration_seat *seat = ration_seat_take(section);
    uint32_t cells_first = 0;
    struct plan plan;

    sort(parts, part_count);
    ration_seat_put(&seat->entry_count, part_count);
    for (uint32_t i = 0; i < part_count; i++) {
        ration_commit_write_part(parts[i].section, seat, i, cells_first, parts[i].view->head,
                                 parts[i].view->value.words[1], parts[i].next);
        cells_first += parts[i].section->shape.cell_count;
    }
    ration_yield_point();
    /* release: who sees the seat open sees its parts */
    __atomic_store_n(&seat->turn, ration_seat_get(&seat->turn) + RATION_SEAT_OPEN,
                     __ATOMIC_RELEASE);
    read_plan(section, seat, &plan);
    see_through(&plan);

    bool committed = state_of(&plan) == RATION_SEAT_COMMITTED;

    ration_seat_leave(seat);
    return committed;
}
