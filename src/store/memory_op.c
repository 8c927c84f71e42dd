/*
 * An op on memory: find the buckets, judge, publish what follows; start over if another thread was
 * faster.
 *
 * A key that is absent is judged as one that was just created. If it is then to be charged, its
 * place is claimed, and it is judged once more with the claim standing (what was reclaimed from
 * its sets until then is known only then). Several keys are first created, then changed together.
 */
#include <string.h>

#include "base/yield.h"
#include "limiter/judge.h"
#include "limiter/log.h"
#include "store/memory.h"

/* Where a part's bucket was found, and what it holds. */
struct found {
    const struct ration_section *section;
    struct ration_place place;
    bool is_there;
    bool is_full;                  /* no place for it: what follows is about the overflow bucket */
    bool is_behind;                /* absent, and what was reclaimed here lies after now */
    bool is_charged;               /* what was judged changes it */
    bool is_unborn;                /* no place, and none needed for the answer */
    struct ration_entrance slot;   /* plain: what is there. claimed: the claim */
    struct ration_entry_view view; /* entries: what is there */
    struct ration_time cells[RATION_SECTION_CELLS_MAX];
    struct ration_any anys[RATION_RULES_MAX]; /* under the current config */
    bool is_converted;                        /* from an older generation: publish it anyway */
    bool is_reborn;      /* forgotten while its place was still its own: likewise */
    bool has_ring_write; /* that must be published before anything else happens to the ring */
};

struct run {
    const struct ration_memory *memory;
    struct ration_op *op;
    uint64_t since_ns; /* now, from the epoch */
    uint64_t now_ns;   /* the same of the caller's clock */
    struct found found[RATION_SEAT_ENTRIES_MAX];
    struct ration_case c;
};

static bool is_plain(const struct found *found)
{
    return found->section->shape.cell_count == 0;
}

static uint64_t read_ring(const struct ration_log_reader *reader, uint64_t index)
{
    if (reader->head == NULL)
        return 0; /* of a key that is absent and has no place yet: all long past */

    struct ration_time moment =
        ration_entry_ring_at(reader->context, reader->head, (uint32_t)index);

    return moment.ns == 0 ? 0 : moment.ns + reader->epoch_ns;
}

/* Keys that are remembered beyond being full have that time added to all their moments. */
static void shift(const struct ration_config *config, uint32_t moments, struct ration_time *cells,
                  bool is_written)
{
    struct ration_time stale = ration_time_from_ns(config->stale_after_ns);

    for (uint32_t i = 0; stale.ns > 0 && moments >> i != 0; i++)
        if (moments >> i & 1)
            cells[i] = is_written ? ration_time_add(cells[i], stale)
                                  : ration_time_sub_or_zero(cells[i], stale);
}

static uint32_t moment_mask(const struct found *found)
{
    return is_plain(found) ? 1 : found->section->shape.moment_mask;
}

/* The log's ring of what was found; of a key that is absent, that of its claim. */
static struct ration_log_reader reader_of(const struct run *run, const struct found *found)
{
    return (struct ration_log_reader){
        .read = read_ring,
        .context = found->section,
        .head = found->is_there ? found->view.head : found->slot.head,
        .epoch_ns = run->memory->store.epoch_ns,
    };
}

/* Reads cells that a config of some generation wrote, as states under the current one. */
static void read_states(const struct run *run, const struct ration_op_part *part,
                        struct found *found, struct ration_time *cells, uint32_t generation)
{
    const struct ration_config *config = part->to.config;
    const struct ration_config *writer = ration_configs_of(part->configs, generation);
    bool is_older = generation != config->generation;
    bool is_reset = is_older && ration_configs_is_reset(part->configs, config, generation);

    shift(writer, moment_mask(found), cells, false);
    for (uint32_t i = 0; i < config->rule_count; i++) {
        const struct ration_config_rule *rule = &writer->rules[i];
        const struct ration_limit *limit = is_older ? &rule->limit : part->limits[i];
        struct ration_any any = {.limit = limit != NULL ? limit : &rule->limit};

        if (rule->has_ring)
            any.reader = reader_of(run, found);
        ration_any_read(&any, &cells[rule->first_cell], run->memory->store.epoch_ns);
        if (is_older) {
            const struct ration_limit *next =
                part->limits[i] != NULL ? part->limits[i] : &config->rules[i].limit;

            if (is_reset) {
                any.limit = next;
                any = ration_any_start(&any, run->now_ns);
            } else {
                any = ration_any_change(&any, next, run->now_ns);
            }
        }
        found->anys[i] = any;
        found->has_ring_write |= any.write.zero_count + any.write.count > 0;
    }
    found->is_converted |= is_older;
}

/* The cells that the anys stand for. */
static struct ration_entry_next write_states(const struct run *run,
                                             const struct ration_op_part *part,
                                             const struct found *found)
{
    struct ration_entry_next next = {.generation = part->to.config->generation};

    for (uint32_t i = 0; i < part->to.config->rule_count; i++) {
        const struct ration_any *any = &found->anys[i];
        uint64_t written = any->write.zero_count + any->write.count;

        ration_any_write(any, &next.cells[part->to.config->rules[i].first_cell],
                         run->memory->store.epoch_ns);
        if (written > 0)
            next.ring = (struct ration_ring_write){
                .modulus = (uint32_t)any->limit->tokens,
                .first_index = (uint32_t)any->write.first_index,
                .zero_count = (uint32_t)any->write.zero_count,
                .count = (uint32_t)any->write.count,
                .moment = ration_time_sub_or_zero(ration_time_from_ns(any->write.moment_ns),
                                                  ration_time_from_ns(run->memory->store.epoch_ns)),
            };
    }
    shift(part->to.config, moment_mask(found), next.cells, true);
    return next;
}

/* Reads the bucket at hand: the key's own, or the overflow bucket. */
static bool read_there(struct found *found, bool is_overflow)
{
    const struct ration_section *section = found->section;

    if (!is_plain(found)) {
        if (is_overflow)
            return ration_entry_read(section, section->overflow, RATION_OVERFLOW_LABEL,
                                     &found->view);
        return ration_entry_find(section, &found->place, &found->view);
    }
    if (is_overflow)
        found->slot = (struct ration_entrance){section->overflow,
                                               ration_atomic16_load(section->overflow), false};
    else
        found->slot.head = ration_plain_find(section, &found->place, &found->slot.value);
    return found->slot.head != NULL;
}

static uint32_t take_cells(const struct found *found, struct ration_time *out_cells)
{
    if (is_plain(found)) {
        out_cells[0] = ration_pair_moment(found->slot.value);
        return ration_pair_mark(found->slot.value);
    }
    memcpy(out_cells, found->view.cells, sizeof(found->view.cells));
    return ration_head_unpack(found->view.value.words[1]).generation;
}

/* Of each rule's state the one that is full later. */
static void take_later(const struct run *run, const struct ration_op_part *part,
                       struct found *found, const struct found *other)
{
    for (uint32_t i = 0; i < part->to.config->rule_count; i++) {
        uint64_t other_ns = ration_any_full_after_ns(&other->anys[i], run->now_ns);

        if (other_ns <= ration_any_full_after_ns(&found->anys[i], run->now_ns))
            continue;
        if (part->to.config->rules[i].has_ring)
            found->anys[i] = ration_log_empty_until(&found->anys[i], run->now_ns + other_ns);
        else
            found->anys[i].state = other->anys[i].state;
    }
}

/* A new key starts with the debt of the overflow bucket, if it may have had a share in it. */
static void inherit_overflow(const struct run *run, const struct ration_op_part *part,
                             struct found *found)
{
    struct found shared = {.section = found->section, .place = found->place, .is_there = true};
    struct ration_time cells[RATION_SECTION_CELLS_MAX];
    uint32_t generation;

    if (ration_section_overflow_ns(found->section, &found->place) <= run->since_ns ||
        !read_there(&shared, true))
        return;
    ration_yield_point();
    generation = take_cells(&shared, cells);
    read_states(run, part, &shared, cells, generation);
    take_later(run, part, found, &shared);
}

/* The states of a key that is created now. */
static void read_newborn(const struct run *run, const struct ration_op_part *part,
                         struct found *found)
{
    const struct ration_config *config = part->to.config;
    uint64_t epoch_ns = run->memory->store.epoch_ns;
    uint64_t origin_ns = ration_section_origin_ns(found->section, &found->place);

    ration_yield_point();
    found->is_behind = origin_ns > run->since_ns;
    for (uint32_t i = 0; i < config->rule_count; i++) {
        const struct ration_limit *limit =
            part->limits[i] != NULL ? part->limits[i] : &config->rules[i].limit;
        struct ration_time cells[2];
        struct ration_any any = {.limit = limit};

        if (config->rules[i].has_ring)
            any.reader = reader_of(run, found);
        ration_any_origin(limit, cells, origin_ns, epoch_ns);
        ration_any_read(&any, cells, epoch_ns);
        /* the ring is still that of whoever had the place: other moments, in another order */
        if (config->rules[i].has_ring && origin_ns > 0)
            any = ration_log_empty_until(&any, origin_ns + epoch_ns);
        if (limit->start != RATION_START_FULL && !found->is_behind)
            any = ration_any_start(&any, run->now_ns);
        found->anys[i] = any;
    }
    inherit_overflow(run, part, found);
    for (uint32_t i = 0; i < config->rule_count; i++)
        found->has_ring_write |= found->anys[i].write.zero_count + found->anys[i].write.count > 0;
}

/*
 * Whether the key, whose place nobody has taken yet, counts as one that is new: it was full, and
 * not asked for, as long as its rules remember.
 */
static bool is_forgotten(const struct run *run, const struct ration_op_part *part,
                         const struct found *found)
{
    struct ration_time moment =
        is_plain(found) ? found->cells[0] : ration_entry_moment(found->section, found->cells);

    return part->to.config->stale_after_ns > 0 && !found->is_full &&
           !ration_time_less(ration_time_from_ns(run->since_ns), moment);
}

/* For a now that runs back the overflow bucket holds no more than what was reclaimed might have. */
static void keep_origin(const struct run *run, const struct ration_op_part *part,
                        struct found *found)
{
    struct found newborn = {.section = found->section, .place = found->place};

    read_newborn(run, part, &newborn);
    if (newborn.is_behind)
        take_later(run, part, found, &newborn);
}

static void find_part(const struct run *run, uint32_t part_index, struct found *found)
{
    const struct ration_op_part *part = &run->op->parts[part_index];
    uint32_t generation;

    found->is_converted = false;
    found->is_reborn = false;
    found->is_behind = false;
    found->has_ring_write = false;
    found->slot.head = NULL;
    found->is_there = read_there(found, false);
    if (found->is_there)
        found->is_full = false;
    else if (found->is_full && part->overflow == RATION_OVERFLOW_SHARED)
        found->is_there = read_there(found, true);
    if (!found->is_there) {
        read_newborn(run, part, found);
        return;
    }
    generation = take_cells(found, found->cells);
    found->is_reborn = is_forgotten(run, part, found);
    if (found->is_reborn)
        read_newborn(run, part, found);
    else
        read_states(run, part, found, found->cells, generation);
    if (found->is_full)
        keep_origin(run, part, found);
}

/* Whether nothing of this part is limited: no place for it, and the rule is to let it pass. */
static bool is_waved_through(const struct run *run, uint32_t part_index)
{
    return run->found[part_index].is_full &&
           run->op->parts[part_index].overflow == RATION_OVERFLOW_ALLOW;
}

static void build_case(struct run *run)
{
    struct ration_op *op = run->op;

    run->c.op = op;
    run->c.now_ns = run->now_ns;
    run->c.item_count = 0;
    for (uint32_t p = 0; p < op->part_count; p++) {
        const struct ration_op_part *part = &op->parts[p];

        for (uint32_t i = 0; i < part->to.config->rule_count && !is_waved_through(run, p); i++) {
            struct ration_item *item = &run->c.items[run->c.item_count];

            if (part->limits[i] == NULL)
                continue;
            item->cost_tokens = part->costs[i];
            item->mark = &part->marks[i];
            item->is_shadow = part->to.config->rules[i].is_shadow;
            item->has_own_cost = part->own_cost_mask >> i & 1;
            item->part_index = p;
            item->limiter_index = part->to.section_index;
            item->rule_index = i;
            item->before = run->found[p].anys[i];
            run->c.item_count++;
        }
    }
}

static void adopt(struct run *run)
{
    for (uint32_t i = 0; i < run->c.item_count; i++) {
        const struct ration_item *item = &run->c.items[i];

        run->found[item->part_index].anys[item->rule_index] = item->after;
    }
}

/* Whether the op may change buckets at all, and this one's states differ from what is there. */
static bool is_changed(const struct run *run, uint32_t part_index)
{
    const struct found *found = &run->found[part_index];

    if (found->is_unborn)
        return false;
    for (uint32_t i = 0; i < run->c.item_count; i++) {
        const struct ration_item *item = &run->c.items[i];

        if (item->part_index == part_index &&
            (memcmp(&item->before.state, &item->after.state, sizeof(item->after.state)) != 0 ||
             memcmp(&item->before.write, &item->after.write, sizeof(item->after.write)) != 0))
            return true;
    }
    return found->is_there && (found->is_converted || found->is_reborn) &&
           run->op->kind != RATION_OP_LOOK;
}

/*
 * A key whose limit does not start full is remembered from its first touch, denied or not; but not
 * by a now that runs back, which cannot say since when.
 */
static bool must_be_born(const struct run *run, uint32_t part_index)
{
    const struct ration_op_part *part = &run->op->parts[part_index];

    if (run->found[part_index].is_there || run->found[part_index].is_full ||
        run->found[part_index].is_unborn || run->found[part_index].is_behind)
        return false;
    if (run->op->kind == RATION_OP_LOOK || run->op->kind == RATION_OP_REFUND)
        return false;
    for (uint32_t i = 0; i < part->to.config->rule_count; i++)
        if (part->limits[i] != NULL && part->costs[i] > 0 &&
            part->limits[i]->start != RATION_START_FULL)
            return true;
    return false;
}

static const struct ration_head_kind *kind_of(const struct found *found)
{
    return is_plain(found) ? &ration_plain_kind : &ration_entry_kind;
}

/* Whether a take like this look would find no place for its key. */
static bool look_finds_no_place(const struct run *run, uint32_t part_index)
{
    const struct found *found = &run->found[part_index];
    const struct ration_op_part *part = &run->op->parts[part_index];
    bool is_wanted = false;

    if (run->op->kind != RATION_OP_LOOK || found->is_there || found->is_full ||
        run->c.verdict == RATION_NEVER)
        return false;
    for (uint32_t i = 0; i < part->to.config->rule_count; i++)
        is_wanted |= part->limits[i] != NULL && part->costs[i] > 0 &&
                     (run->c.verdict == RATION_ALLOW ||
                      (part->limits[i]->start != RATION_START_FULL && !found->is_behind));
    return is_wanted &&
           !ration_create_has_room(kind_of(found), found->section, &found->place, run->since_ns);
}

static bool publish_there(const struct run *run, uint32_t part_index)
{
    const struct found *found = &run->found[part_index];
    const struct ration_op_part *part = &run->op->parts[part_index];
    struct ration_entry_next next = write_states(run, part, found);

    if (found->is_full)
        ration_section_note_overflow(
            found->section, &found->place,
            is_plain(found) ? next.cells[0] : ration_entry_moment(found->section, next.cells));
    if (!is_plain(found))
        return ration_entry_change(found->section, &found->view, &next);

    struct ration_pair expected = found->slot.value;
    struct ration_slot slot = {ration_pair_label(expected), next.generation, next.cells[0]};

    ration_yield_point();
    return ration_atomic16_swap(found->slot.head, &expected, ration_slot_pack(slot));
}

static bool complete(const struct run *run, uint32_t part_index)
{
    const struct found *found = &run->found[part_index];
    struct ration_entry_next next = write_states(run, &run->op->parts[part_index], found);

    if (!is_plain(found))
        return ration_entry_complete(found->section, &found->slot, &next);
    return ration_plain_complete(
        &found->slot, (struct ration_slot){found->place.tag, next.generation, next.cells[0]});
}

/* What is given back to a key without a place is not given to those who share a bucket. */
static bool gives_back(const struct run *run)
{
    const struct ration_op *op = run->op;

    if (op->kind == RATION_OP_REFUND || op->kind == RATION_OP_RESET)
        return true;
    if (op->kind != RATION_OP_SETTLE)
        return false;
    for (uint32_t i = 0; i < run->c.item_count; i++)
        if (!run->c.items[i].has_own_cost && op->used_tokens > run->c.items[i].cost_tokens)
            return false; /* more was used than taken */
    return true;
}

/* What is told of what was judged. Before it is published: a log's ring is another's afterwards. */
static void describe(struct run *run)
{
    struct ration_op *op = run->op;

    if (op->has_decision)
        op->decision = ration_judge_describe_all(&run->c);
    for (uint32_t i = 0; i < run->c.item_count && op->has_details; i++) {
        const struct ration_item *item = &run->c.items[i];

        op->parts[item->part_index].decisions[item->rule_index] =
            ration_judge_describe(&run->c, item);
    }
}

/* Claims a place for an absent key. Its states are then read anew. False: start over. */
static bool claim_part(struct run *run, uint32_t part_index)
{
    struct found *found = &run->found[part_index];
    const struct ration_op_part *part = &run->op->parts[part_index];
    const struct ration_head_kind *kind = kind_of(found);

    switch (ration_create_enter(kind, found->section, &found->place, run->since_ns, &found->slot)) {
    case RATION_ENTER_CLAIMED:
        found->has_ring_write = false;
        read_newborn(run, part, found);
        return true;
    case RATION_ENTER_FULL:
        found->is_unborn =
            gives_back(run) || (run->c.verdict == RATION_NEVER && !found->is_charged);
        found->is_full = !found->is_unborn;
        return false;
    default:
        return false;
    }
}

static void note_created(const struct run *run, uint32_t part_index)
{
    run->op->parts[part_index].has_created = 1;
    run->op->parts[part_index].has_reclaimed = run->found[part_index].slot.is_reclaimed;
}

/* Creates a key as it is when it is new. */
static void give_birth(struct run *run, uint32_t part_index)
{
    if (claim_part(run, part_index) && complete(run, part_index))
        note_created(run, part_index);
}

/* One part whose key is absent: claim, judge again, and complete or withdraw. */
static bool publish_newborn(struct run *run)
{
    const struct found *found = &run->found[0];

    if (run->found[0].has_ring_write || run->op->part_count > 1) {
        give_birth(run, 0);
        return false;
    }
    if (!claim_part(run, 0))
        return false;
    build_case(run);
    ration_judge(&run->c);
    describe(run);
    if (!is_changed(run, 0) && !must_be_born(run, 0))
        return ration_create_withdraw(kind_of(found), &found->slot);
    adopt(run);
    if (!complete(run, 0))
        return false;
    note_created(run, 0);
    return true;
}

/* Several parts, all there: all change, or none. */
static bool publish_together(struct run *run, const bool *changes)
{
    struct ration_entry_next nexts[RATION_SEAT_ENTRIES_MAX];
    struct ration_commit_part parts[RATION_SEAT_ENTRIES_MAX];
    uint32_t count = 0;

    for (uint32_t p = 0; p < run->op->part_count; p++) {
        const struct found *found = &run->found[p];

        if (!changes[p])
            continue;
        nexts[p] = write_states(run, &run->op->parts[p], found);
        if (found->is_full)
            ration_section_note_overflow(found->section, &found->place,
                                         ration_entry_moment(found->section, nexts[p].cells));
        parts[count++] = (struct ration_commit_part){found->section, &found->view, &nexts[p]};
    }
    return ration_commit(parts, count);
}

/* What a decision rests on without changing it must not have changed while it was read. */
static bool logs_stand(const struct run *run)
{
    for (uint32_t p = 0; p < run->op->part_count; p++) {
        const struct found *found = &run->found[p];

        if (found->is_there && found->section->shape.ring_cells > 0 &&
            !ration_entry_is_unchanged(&found->view))
            return false;
    }
    return true;
}

static bool configs_stand(const struct run *run)
{
    for (uint32_t p = 0; p < run->op->part_count; p++)
        if (!ration_config_stands(run->op->parts[p].to.config, run->op->parts[p].to.config_number))
            return false;
    return true;
}

/* Publishes what was judged. False: start over. */
static bool publish(struct run *run)
{
    bool changes[RATION_SEAT_ENTRIES_MAX];
    uint32_t change_count = 0;
    uint32_t last = 0;

    ration_yield_point();
    for (uint32_t p = 0; p < run->op->part_count; p++) {
        struct found *found = &run->found[p];

        if (look_finds_no_place(run, p)) {
            found->is_full = true;
            return false;
        }
        found->is_charged = is_changed(run, p);
        changes[p] = found->is_charged || must_be_born(run, p);
        if (!changes[p])
            continue;
        change_count++;
        last = p;
        if (found->is_there && found->has_ring_write) { /* the conversion by itself first */
            publish_there(run, p);
            return false;
        }
        if (!found->is_there && run->op->part_count > 1) {
            give_birth(run, p);
            return false;
        }
    }
    if (change_count == 0)
        return logs_stand(run);
    if (!run->found[last].is_there)
        return publish_newborn(run);
    adopt(run);
    return change_count == 1 && run->op->part_count == 1 ? publish_there(run, last)
                                                         : publish_together(run, changes);
}

/* The rule is to deny who finds no place: until one of its places is free. */
static bool is_turned_away(const struct run *run, uint64_t *out_wait_ns)
{
    uint64_t wait_ns = 0;

    for (uint32_t p = 0; p < run->op->part_count; p++) {
        const struct found *found = &run->found[p];
        struct ration_time free_at;
        uint64_t free_ns;

        if (!found->is_full || run->op->parts[p].overflow != RATION_OVERFLOW_DENY)
            continue;
        free_at = is_plain(found) ? ration_plain_free_at(found->section, &found->place)
                                  : ration_entry_free_at(found->section, &found->place);
        free_ns = ration_time_ceil_ns(free_at);
        if (free_ns <= run->since_ns)
            free_ns = run->since_ns + 1;
        if (free_ns - run->since_ns > wait_ns)
            wait_ns = free_ns - run->since_ns;
    }
    *out_wait_ns = wait_ns;
    return wait_ns > 0;
}

static void tell(struct run *run)
{
    struct ration_op *op = run->op;

    op->decision.verdict = run->c.verdict;
    op->granted_tokens = run->c.granted_tokens;
    if (op->kind == RATION_OP_RESERVE)
        op->ready_at_ns = run->now_ns + run->c.wait_ns;
    for (uint32_t i = 0; i < run->c.item_count; i++) {
        const struct ration_item *item = &run->c.items[i];
        struct ration_op_part *part = &op->parts[item->part_index];

        part->verdicts[item->rule_index] = item->verdict;
        part->costs[item->rule_index] = item->cost_tokens; /* UP_TO: what was granted */
        if (op->kind == RATION_OP_RESERVE)
            part->marks[item->rule_index] = (struct ration_op_mark){
                item->after.state, item->part, run->found[item->part_index].is_full};
    }
    for (uint32_t p = 0; p < op->part_count; p++) {
        op->parts[p].has_overflowed = run->found[p].is_full;
        if (is_waved_through(run, p)) /* as if no rule applied */
            memset(op->parts[p].limits, 0, sizeof(op->parts[p].limits));
    }
}

static void turn_away(struct run *run, uint64_t wait_ns)
{
    struct ration_decision *decision = &run->op->decision;

    *decision = (struct ration_decision){
        .verdict = RATION_DENY, .retry_after_ns = wait_ns, .reset_after_ns = wait_ns};
    run->op->granted_tokens = 0;
    for (uint32_t p = run->op->part_count; p-- > 0;) {
        struct ration_op_part *part = &run->op->parts[p];

        part->has_overflowed = run->found[p].is_full;
        for (uint32_t i = part->to.config->rule_count; i-- > 0;) {
            struct ration_decision own = {.limit_index = i,
                                          .limiter_index = part->to.section_index};

            if (part->limits[i] == NULL)
                continue;
            own.limit = ration_any_burst(part->limits[i]);
            own.remaining = ration_any_remaining(&run->found[p].anys[i], run->now_ns);
            own.reset_after_ns = ration_any_full_after_ns(&run->found[p].anys[i], run->now_ns);
            if (part->has_overflowed) {
                own = (struct ration_decision){.verdict = RATION_DENY,
                                               .limit_index = i,
                                               .limiter_index = part->to.section_index,
                                               .limit = own.limit,
                                               .retry_after_ns = wait_ns,
                                               .reset_after_ns = wait_ns};
                *decision = own;
            }
            part->verdicts[i] = own.verdict;
            part->decisions[i] = own;
        }
    }
}

ration_status ration_memory_begin(struct ration_store *store, struct ration_op *op)
{
    struct run run;
    uint64_t wait_ns;

    run.memory = (const struct ration_memory *)store;
    run.op = op;
    run.since_ns = ration_block_now(store->epoch_ns, op->now_ns);
    run.now_ns = run.since_ns + store->epoch_ns;
    for (uint32_t p = 0; p < op->part_count; p++) {
        run.found[p].section = &run.memory->sections[op->parts[p].to.section_index];
        run.found[p].place = ration_memory_place(run.memory, &op->parts[p].to);
        ration_memory_locate(&op->parts[p].to, &run.found[p].place);
        run.found[p].is_unborn = false;
        /* a reservation that the overflow bucket gave is settled there */
        run.found[p].is_full = op->kind == RATION_OP_SETTLE && op->parts[p].marks[0].is_overflow;
    }
    for (;;) { /* each turn means that another thread got on */
        for (uint32_t p = 0; p < op->part_count; p++)
            find_part(&run, p, &run.found[p]);
        if (is_turned_away(&run, &wait_ns)) {
            turn_away(&run, wait_ns);
            return RATION_OK;
        }
        build_case(&run);
        ration_judge(&run.c);
        op->is_outdated = !configs_stand(&run);
        if (op->is_outdated)
            return RATION_OK;
        describe(&run);
        if (publish(&run))
            break;
    }
    tell(&run);
    return RATION_OK;
}
