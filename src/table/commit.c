#include "table/commit.h"

#include "base/fence.h"
#include "base/yield.h"

static bool swap_word(struct ration_pair *head, uint64_t expected, uint64_t desired)
{
    ration_yield_point();
    return __atomic_compare_exchange_n(&head->words[1], &expected, desired, false, __ATOMIC_SEQ_CST,
                                       __ATOMIC_RELAXED);
}

void ration_commit_write_part(const struct ration_section *section,
                              struct ration_descriptor *descriptor, uint32_t part_index,
                              uint32_t cells_first, struct ration_pair *head,
                              uint64_t expected_word, const struct ration_entry_next *next)
{
    struct ration_descriptor_entry *part = &descriptor->entries[part_index];

    ration_descriptor_put(&part->section_index, section->index);
    ration_descriptor_put(&part->head_offset, (uint64_t)((char *)head - (char *)section->block));
    ration_descriptor_put(&part->expected_word, expected_word);
    ration_descriptor_put(&part->flags, next->flags);
    ration_descriptor_put(&part->cells_first, cells_first);
    ration_descriptor_put(&part->ring_modulus, next->ring.modulus);
    if (next->ring.modulus > 0) {
        ration_descriptor_put(&part->ring_first_index, next->ring.first_index);
        ration_descriptor_put(&part->ring_counts,
                              (uint64_t)next->ring.older_count << 32 | next->ring.count);
        ration_descriptor_put(&part->ring_older_ns, next->ring.older_ns);
        ration_descriptor_put(&part->ring_newer_ns, next->ring.newer_ns);
    }
    for (uint32_t i = 0; i < section->shape.cell_count; i++) {
        struct ration_pair value = ration_slot_pack((struct ration_slot){0, 0, next->cells[i]});

        ration_descriptor_put(&descriptor->cells[cells_first + i].words[0], value.words[0]);
        ration_descriptor_put(&descriptor->cells[cells_first + i].words[1], value.words[1]);
    }
}

/* A consistent copy of a commit's descriptor. */
struct plan {
    struct ration_descriptor *descriptor;
    uint64_t sequence;
    uint32_t part_count;
    struct part {
        struct ration_section section;
        struct ration_pair *head;
        uint64_t expected_word;
        uint64_t prepared_word;
        uint32_t flags;
    } parts[RATION_DESCRIPTOR_ENTRIES_MAX];
};

static enum ration_descriptor_state outcome_of(const struct plan *plan)
{
    uint64_t word = __atomic_load_n(&plan->descriptor->sequence, __ATOMIC_ACQUIRE);

    return word / 4 == plan->sequence ? (enum ration_descriptor_state)(word % 4)
                                      : RATION_DESCRIPTOR_IDLE;
}

static struct part read_part(const struct ration_section *section, const struct plan *plan,
                             uint32_t part_index)
{
    const struct ration_descriptor_entry *source = &plan->descriptor->entries[part_index];
    uint64_t section_index = ration_descriptor_get(&source->section_index);
    struct part part = {
        .head = (struct ration_pair *)(void *)((char *)section->block +
                                               ration_descriptor_get(&source->head_offset)),
        .expected_word = ration_descriptor_get(&source->expected_word),
        .flags = (uint32_t)ration_descriptor_get(&source->flags),
    };
    struct ration_head prepared = ration_entry_head_unpack(part.expected_word);

    prepared.version++;
    prepared.state = RATION_HEAD_PREPARED;
    prepared.descriptor = ration_descriptor_number(section, plan->descriptor);
    prepared.sequence = (uint32_t)plan->sequence & ((1u << RATION_SEQUENCE_BITS) - 1);
    part.prepared_word = ration_entry_head_pack(prepared);
    part.section = ration_section_open(
        section->block, (uint32_t)section_index % ration_block_section_count(section->block));
    return part;
}

/* Copies the descriptor's contents of its current sequence. False if that is not, or no longer, a commit. */
static bool read_plan(const struct ration_section *section, struct ration_descriptor *descriptor,
                      struct plan *out_plan)
{
    uint64_t word = __atomic_load_n(&descriptor->sequence, __ATOMIC_ACQUIRE);
    uint64_t part_count = ration_descriptor_get(&descriptor->entry_count);

    ration_yield_point();
    out_plan->descriptor = descriptor;
    out_plan->sequence = word / 4;
    if (word % 4 == RATION_DESCRIPTOR_IDLE || part_count > RATION_DESCRIPTOR_ENTRIES_MAX)
        return false;
    out_plan->part_count = (uint32_t)part_count;
    for (uint32_t i = 0; i < out_plan->part_count; i++)
        out_plan->parts[i] = read_part(section, out_plan, i);
    /* acquire: pairs with the fence in begin_sequence(); words of a later sequence come with its number */
    ration_fence_acquire();
    return ration_descriptor_get(&descriptor->sequence) / 4 == out_plan->sequence;
}

static void decide_outcome(const struct plan *plan, enum ration_descriptor_state state)
{
    uint64_t expected = plan->sequence * 4 + RATION_DESCRIPTOR_OPEN;

    ration_yield_point();
    __atomic_compare_exchange_n(&plan->descriptor->sequence, &expected, plan->sequence * 4 + state,
                                false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);
}

/* Prepares one entry for the commit. False if the entry has changed, so that the commit must abort. */
static bool prepare_entry(const struct plan *plan, const struct part *part)
{
    struct ration_head expected = ration_entry_head_unpack(part->expected_word);

    while (outcome_of(plan) == RATION_DESCRIPTOR_OPEN) {
        uint64_t word = __atomic_load_n(&part->head->words[1], __ATOMIC_ACQUIRE);
        struct ration_head head = ration_entry_head_unpack(word);

        ration_yield_point();
        if (word == part->prepared_word)
            return true;
        if (head.state == expected.state && head.version == expected.version) {
            if (swap_word(part->head, word, part->prepared_word))
                return true;
        } else if (head.state == RATION_HEAD_PREPARED) {
            /* by another commit; or by a later sequence of this descriptor, if this plan was decided meanwhile */
            if (outcome_of(plan) == RATION_DESCRIPTOR_OPEN)
                ration_commit_resolve(&part->section, part->head, word);
        } else {
            return false;
        }
    }
    return true; /* another thread has decided */
}

/*
 * Swaps a prepared head back to its value before. (A claim thereby loses the upper bits of its time, so it may lapse
 * earlier.)
 */
static void roll_back(struct ration_pair *head, uint64_t prepared_word)
{
    struct ration_head before = ration_entry_head_unpack(prepared_word);

    before.version--;
    before.state = before.flags == RATION_FLAG_CLAIM ? RATION_HEAD_CLAIM : RATION_HEAD_LIVE;
    before.descriptor = 0;
    before.sequence = 0;
    swap_word(head, prepared_word, ration_entry_head_pack(before));
}

static void apply_part(const struct plan *plan, uint32_t part_index)
{
    const struct part *part = &plan->parts[part_index];
    struct ration_head live = ration_entry_head_unpack(part->prepared_word);

    ration_entry_copy(&part->section, part->head, plan->descriptor, part_index, live.version);
    live.flags = part->flags;
    live.state = RATION_HEAD_LIVE;
    live.descriptor = 0;
    live.sequence = 0;
    swap_word(part->head, part->prepared_word, ration_entry_head_pack(live));
}

static void complete_plan(const struct plan *plan)
{
    bool all_prepared = true;

    for (uint32_t i = 0; i < plan->part_count && all_prepared; i++)
        all_prepared = prepare_entry(plan, &plan->parts[i]);
    decide_outcome(plan, all_prepared ? RATION_DESCRIPTOR_COMMITTED : RATION_DESCRIPTOR_ABORTED);

    enum ration_descriptor_state state = outcome_of(plan);

    ration_yield_point();
    for (uint32_t i = 0; i < plan->part_count; i++) {
        if (state == RATION_DESCRIPTOR_COMMITTED)
            apply_part(plan, i);
        else if (state == RATION_DESCRIPTOR_ABORTED)
            roll_back(plan->parts[i].head, plan->parts[i].prepared_word);
    }
}

void ration_commit_resolve(const struct ration_section *section, struct ration_pair *head,
                           uint64_t word)
{
    struct ration_head prepared = ration_entry_head_unpack(word);
    struct plan plan;

    if (prepared.descriptor == 0 || prepared.descriptor > section->descriptor_count) {
        roll_back(head, word);
        return;
    }
    if (read_plan(section, &section->descriptors[prepared.descriptor - 1], &plan))
        for (uint32_t i = 0; i < plan.part_count; i++)
            if (plan.parts[i].head == head && plan.parts[i].prepared_word == word) {
                complete_plan(&plan);
                return;
            }
    roll_back(head, word);
}

void ration_commit_finish(const struct ration_section *section,
                          struct ration_descriptor *descriptor)
{
    struct plan plan;

    if (read_plan(section, descriptor, &plan)) {
        complete_plan(&plan);
        return;
    }
    if (plan.sequence == 0 || ration_descriptor_get(&descriptor->entry_count) != 1)
        return;

    /* A change of one entry: if it took effect, the head names this descriptor and sequence. */
    struct part part = read_part(section, &plan, 0);
    uint64_t word = __atomic_load_n(&part.head->words[1], __ATOMIC_ACQUIRE);
    struct ration_head head = ration_entry_head_unpack(word);

    if (head.state == RATION_HEAD_LIVE &&
        head.descriptor == ration_descriptor_number(section, descriptor) &&
        head.sequence == ration_descriptor_sequence(descriptor))
        ration_entry_copy(&part.section, part.head, descriptor, 0, head.version);
}

/* By address. Few parts, and mostly sorted already. */
static void sort_by_address(struct ration_commit_part *parts, uint32_t part_count)
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
    struct ration_descriptor *descriptor = ration_descriptor_take(section);
    uint32_t cells_first = 0;
    struct plan plan;

    sort_by_address(parts, part_count);
    ration_descriptor_put(&descriptor->entry_count, part_count);
    for (uint32_t i = 0; i < part_count; i++) {
        ration_commit_write_part(parts[i].section, descriptor, i, cells_first, parts[i].view->head,
                                 parts[i].view->value.words[1], parts[i].next);
        cells_first += parts[i].section->shape.cell_count;
    }
    ration_yield_point();
    /* release: a thread that sees the descriptor open sees its parts; pairs with the acquire in read_plan() */
    __atomic_store_n(&descriptor->sequence,
                     ration_descriptor_get(&descriptor->sequence) + RATION_DESCRIPTOR_OPEN,
                     __ATOMIC_RELEASE);
    if (read_plan(section, descriptor,
                  &plan)) /* always: only this thread can end its own sequence */
        complete_plan(&plan);

    bool committed = outcome_of(&plan) == RATION_DESCRIPTOR_COMMITTED;

    ration_descriptor_leave(descriptor);
    return committed;
}
