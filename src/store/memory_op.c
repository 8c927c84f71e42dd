/*
 * An op on memory: find the buckets, judge, publish what follows; start over if another thread was
 * faster.
 *
 * A key that is absent is judged as one that was just created. If it is then to be charged, its
 * place is claimed, and it is judged once more with the claim standing (what was reclaimed from
 * its sets until then is known only then). So with several keys: when all that are absent are
 * claimed and judged, claims and members change together.
 *
 * A key without a place is charged to the overflow bucket while somebody else, at a later now,
 * may find a place for it. One of the two must see the other:
 *
 *     who charges    reads the overflow bucket; notes it for the set; looks for a claim of the key
 *                    (then starts over); swaps the bucket
 *     who creates    claims; looks for the note; if there is one reads the bucket and touches it,
 *                    so that a swap by who has read it earlier fails
 */
#include <string.h>

#include "base/fence.h"
#include "base/yield.h"
#include "store/memory_find.h"

static uint64_t hold_ns(const struct ration_run *run, uint32_t part_index)
{
    return run->op->holds_ns != NULL ? run->op->holds_ns[part_index] : 0;
}

/* Whether no bucket limits this part: no place for it, and the rule is to let it pass. */
static bool is_unlimited(const struct ration_run *run, uint32_t part_index)
{
    return run->found[part_index].is_full &&
           run->op->parts[part_index].overflow == RATION_OVERFLOW_ALLOW;
}

/* The same, and nobody holds it. */
static bool is_waved_through(const struct ration_run *run, uint32_t part_index)
{
    return is_unlimited(run, part_index) && hold_ns(run, part_index) == 0;
}

/* How long until a moment of the table, at least a nanosecond. */
static uint64_t until_ns(const struct ration_run *run, uint64_t moment_ns)
{
    return moment_ns > run->since_ns ? moment_ns - run->since_ns : 1;
}

/* The earliest moment at which one of the key's places is free. */
static uint64_t free_at_ns(const struct ration_found *found)
{
    return ration_time_ceil_ns(ration_found_is_plain(found)
                                   ? ration_plain_free_at(found->section, &found->place)
                                   : ration_entry_free_at(found->section, &found->place));
}

/* For a key without a place: when it can have one, and what it would have there. */
static void tell_places(const struct ration_run *run, const struct ration_found *found,
                        const struct ration_op_part *part, struct ration_item *item)
{
    item->is_turned_away = found->is_full && part->overflow == RATION_OVERFLOW_DENY;
    item->free_after_ns = found->is_full ? until_ns(run, free_at_ns(found)) : 0;
    item->newborn.limit = NULL;
    if (!found->is_full || item->is_turned_away || item->is_unlimited)
        return;
    item->newborn = found->newborns[item->rule_index];
    if (item->before.limit->start != RATION_START_FULL)
        item->newborn.limit = NULL; /* it would be as new only then */
}

/* Whether two parts are about the same overflow bucket. */
static bool shares_bucket(const struct ration_run *run, uint32_t a, uint32_t b)
{
    return run->found[a].is_full && run->found[b].is_full &&
           run->found[a].overflow == run->found[b].overflow &&
           run->op->parts[a].overflow == RATION_OVERFLOW_SHARED;
}

/* The latest earlier item of the same rule of the same overflow bucket, or -1. */
static int shared_item(const struct ration_run *run, uint32_t part_index, uint32_t rule_index)
{
    for (int i = (int)run->c.item_count - 1; i >= 0; i--) {
        const struct ration_item *item = &run->c.items[i];

        if (item->part_index != part_index && item->rule_index == rule_index &&
            shares_bucket(run, item->part_index, part_index))
            return i;
    }
    return -1;
}

/* Whether somebody waits for a turn under a limit of the key other than the rule's. */
static bool is_waited(const struct ration_run *run, uint32_t part_index, uint32_t rule_index)
{
    uint32_t rule_count = run->op->parts[part_index].rule_count;

    for (uint32_t i = 0; i < rule_count; i++)
        if (i != rule_index && ration_any_is_waited(&run->found[part_index].anys[i], run->now_ns))
            return true;
    return false;
}

static void build_case(struct ration_run *run)
{
    struct ration_op *op = run->op;

    run->c.op = op;
    run->c.now_ns = run->now_ns;
    run->c.item_count = 0;
    for (uint32_t p = 0; p < op->part_count; p++) {
        const struct ration_op_part *part = &op->parts[p];

        for (uint32_t i = 0; i < part->rule_count && !is_waved_through(run, p); i++) {
            struct ration_item *item = &run->c.items[run->c.item_count];

            if (part->limits[i] == NULL)
                continue;
            item->cost_tokens = part->costs[i];
            item->mark = &part->marks[i];
            if (op->kind == RATION_OP_SETTLE)
                ration_run_since_reserved(&run->found[p], item);
            item->is_waited = op->kind == RATION_OP_SETTLE && is_waited(run, p, i);
            item->is_shadow = ration_part_is_shadow(part, i);
            item->has_own_cost = part->own_cost_mask >> i & 1;
            item->part_index = p;
            item->limiter_index = part->to.section_index;
            item->rule_index = i;
            item->before = run->found[p].anys[i];
            item->hold_ns = hold_ns(run, p);
            item->is_unlimited = is_unlimited(run, p);
            item->shares_with = shared_item(run, p, i);
            tell_places(run, &run->found[p], part, item);
            run->c.item_count++;
        }
    }
}

/*
 * What one key without a place has used beyond what was there is not owed by the others who share its
 * bucket: a forced charge leaves the bucket empty at most.
 */
static struct ration_any bound_forced(const struct ration_run *run, const struct ration_item *item)
{
    bool is_forced = run->op->kind == RATION_OP_FORCE || run->op->kind == RATION_OP_SETTLE;
    struct ration_any empty;

    if (!is_forced || !run->found[item->part_index].is_full ||
        item->before.limit->algorithm == RATION_SLIDING_LOG)
        return item->after;
    empty = ration_any_set(&item->before, 0, run->now_ns);
    if (ration_any_full_after_ns(&item->after, run->now_ns) <=
        ration_any_full_after_ns(&empty, run->now_ns))
        return item->after;
    /* unless it was further in use already, by turns that were reserved */
    return ration_any_full_after_ns(&item->before, run->now_ns) >
                   ration_any_full_after_ns(&empty, run->now_ns)
               ? item->before
               : empty;
}

static void adopt(struct ration_run *run)
{
    for (uint32_t i = 0; i < run->c.item_count; i++) {
        const struct ration_item *item = &run->c.items[i];

        run->found[item->part_index].anys[item->rule_index] = bound_forced(run, item);
    }
}

/* Whether the op is one from which a key is remembered whose limit does not start full. */
static bool is_first_touch(const struct ration_run *run, uint32_t part_index)
{
    const struct ration_op_part *part = &run->op->parts[part_index];

    if (run->op->kind == RATION_OP_LOOK || run->op->kind == RATION_OP_REFUND ||
        run->found[part_index].is_behind)
        return false;
    for (uint32_t i = 0; i < part->rule_count; i++)
        if (part->limits[i] != NULL && part->costs[i] > 0 &&
            part->limits[i]->start != RATION_START_FULL)
            return true;
    return false;
}

/* Whether the op may change buckets at all, and this one's states differ from what is there. */
static bool is_changed(const struct ration_run *run, uint32_t part_index)
{
    const struct ration_found *found = &run->found[part_index];

    if (found->is_unborn)
        return false;
    for (uint32_t i = 0; i < run->c.item_count; i++) {
        const struct ration_item *item = &run->c.items[i];

        if (item->part_index == part_index &&
            (memcmp(&item->before.state, &item->after.state, sizeof(item->after.state)) != 0 ||
             memcmp(&item->before.write, &item->after.write, sizeof(item->after.write)) != 0))
            return true;
    }
    return found->is_there && found->is_reborn && is_first_touch(run, part_index);
}

/*
 * A key whose limit does not start full is remembered from its first touch, denied or not; but not
 * by a now that runs back, which cannot say since when.
 */
static bool must_be_born(const struct ration_run *run, uint32_t part_index)
{
    const struct ration_found *found = &run->found[part_index];

    return !found->is_there && !found->is_full && !found->is_unborn &&
           is_first_touch(run, part_index);
}

/* A look, or a take of nothing, which is one. */
static bool is_look(const struct ration_run *run)
{
    bool takes = false;

    for (uint32_t i = 0; i < run->c.item_count; i++)
        takes |= run->c.items[i].cost_tokens > 0;
    return run->op->kind == RATION_OP_LOOK || (run->op->kind == RATION_OP_TAKE && !takes);
}

/* Whether a take like this look would charge the part: all pass, or a shadow does by itself. */
static bool look_would_charge(const struct ration_run *run, uint32_t part_index)
{
    for (uint32_t i = 0; i < run->c.item_count; i++) {
        const struct ration_item *item = &run->c.items[i];

        if (item->part_index == part_index && item->cost_tokens > 0 &&
            (item->is_shadow ? item->verdict : run->c.verdict) == RATION_ALLOW)
            return true;
    }
    return false;
}

/*
 * Whether the key of a part that is not to be charged now would find no place when it is: that
 * is what a look is to tell, and a denial whose wait is to be true.
 */
static bool finds_no_place(const struct ration_run *run, uint32_t part_index)
{
    const struct ration_found *found = &run->found[part_index];
    const struct ration_op_part *part = &run->op->parts[part_index];
    bool is_wanted = false;

    if (found->is_there || found->is_full || found->is_claimed || found->is_unborn ||
        run->op->kind > RATION_OP_RESERVE)
        return false;
    if (is_look(run)) {
        is_wanted = run->c.verdict != RATION_NEVER || look_would_charge(run, part_index);
    } else if (run->c.verdict == RATION_DENY) {
        for (uint32_t i = 0; i < part->rule_count; i++)
            is_wanted |= part->limits[i] != NULL && part->costs[i] > 0;
    }
    return is_wanted && !ration_found_has_room(run, part, found);
}

/*
 * Before the overflow bucket is charged for a key: whether it still has no place of its own, and is
 * not about to get one.
 */
static bool announce_overflow(struct ration_found *found, const struct ration_entry_next *next)
{
    ration_section_note_overflow(found->section, &found->place,
                                 ration_found_is_plain(found)
                                     ? next->cells[0]
                                     : ration_entry_moment(found->section, next->cells));
    ration_fence_full(); /* the note stands before the look: pairs with that in claim_room() */
    found->is_full =
        !ration_create_is_begun(ration_found_kind(found), found->section, &found->place) &&
        ration_section_origin_ns(found->section, &found->place) == found->origin_ns;
    return found->is_full;
}

/* The cells of a part after what was judged. A key that is there is established by being charged again. */
static void next_of(const struct ration_run *run, uint32_t part_index,
                    struct ration_entry_next *out_next)
{
    const struct ration_found *found = &run->found[part_index];

    ration_found_next(run, &run->op->parts[part_index], found, out_next);
    if (found->is_there && !found->is_full && run->op->kind != RATION_OP_RESET)
        out_next->mark |= RATION_MARK_ESTABLISHED;
}

static bool publish_there(struct ration_run *run, uint32_t part_index)
{
    struct ration_found *found = &run->found[part_index];
    struct ration_entry_next next;

    next_of(run, part_index, &next);
    if (found->is_full && !announce_overflow(found, &next))
        return false;
    return ration_found_change(found, &next);
}

static bool complete(const struct ration_run *run, uint32_t part_index)
{
    const struct ration_found *found = &run->found[part_index];
    struct ration_entry_next next;

    next_of(run, part_index, &next);
    if (!ration_found_is_plain(found))
        return ration_entry_complete(found->section, &found->slot, &next);
    return ration_plain_complete(&found->slot,
                                 (struct ration_slot){found->place.tag, next.mark, next.cells[0]});
}

/*
 * What is given back to a key without a place is not given to those who share a bucket; nor are they
 * blocked for it.
 */
static bool concerns_no_other(const struct ration_run *run)
{
    const struct ration_op *op = run->op;

    if (op->kind == RATION_OP_REFUND || op->kind == RATION_OP_RESET || op->kind == RATION_OP_BLOCK)
        return true;
    if (op->kind != RATION_OP_SETTLE)
        return false;
    for (uint32_t i = 0; i < run->c.item_count; i++)
        if (!run->c.items[i].has_own_cost && op->used_tokens > run->c.items[i].cost_tokens)
            return false; /* more was used than taken */
    return true;
}

/* What is told of what was judged. Before it is published: a log's ring is another's afterwards. */
static void describe(struct ration_run *run)
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

/* Claims a place for an absent key, if there is one. It is then found with its claim. */
static void claim_part(struct ration_run *run, uint32_t part_index)
{
    struct ration_found *found = &run->found[part_index];

    switch (ration_found_enter(run, &run->op->parts[part_index], found)) {
    case RATION_ENTER_CLAIMED:
        found->is_claimed = true;
        break;
    case RATION_ENTER_FULL:
        found->is_unborn =
            concerns_no_other(run) || (run->c.verdict == RATION_NEVER && !found->is_charged);
        found->is_full = !found->is_unborn;
        if (found
                ->is_full) /* another verdict may follow, for which others need a place after all */
            for (uint32_t p = 0; p < run->op->part_count; p++)
                run->found[p].is_unborn = false;
        break;
    default:
        break;
    }
}

/* Claims that led to nothing. Whoever sees one through meanwhile may keep it. */
static void withdraw_claims(const struct ration_run *run)
{
    for (uint32_t p = 0; p < run->op->part_count; p++)
        if (run->found[p].is_claimed)
            (void)ration_create_withdraw(ration_found_kind(&run->found[p]), &run->found[p].slot);
}

/* The claim has become a member. */
static void note_created(struct ration_run *run, uint32_t part_index)
{
    struct ration_found *found = &run->found[part_index];

    found->is_claimed = false;
    run->op->parts[part_index].has_created = 1;
    run->op->parts[part_index].has_reclaimed = found->slot.is_reclaimed;
}

/* Makes a claim a member with what was judged. */
static bool publish_claimed(struct ration_run *run, uint32_t part_index)
{
    if (!complete(run, part_index))
        return false;
    note_created(run, part_index);
    return true;
}

/* Of the changed parts that share an overflow bucket with this one the last, which has all that is taken. */
static uint32_t last_sharing(const struct ration_run *run, const bool *changes, uint32_t part_index)
{
    uint32_t last = part_index;

    for (uint32_t p = part_index + 1; p < run->op->part_count; p++)
        if (changes[p] && shares_bucket(run, part_index, p))
            last = p;
    return last;
}

/* Several parts, there or claimed: all change, or none. */
static bool publish_together(struct ration_run *run, const bool *changes)
{
    struct ration_entry_next nexts[RATION_SEAT_ENTRIES_MAX];
    struct ration_commit_part parts[RATION_SEAT_ENTRIES_MAX];
    uint32_t count = 0;

    for (uint32_t p = 0; p < run->op->part_count; p++)
        if (changes[p])
            next_of(run, p, &nexts[p]);
    for (uint32_t p = 0; p < run->op->part_count; p++) {
        struct ration_found *found = &run->found[p];
        uint32_t last = last_sharing(run, changes, p);

        if (!changes[p])
            continue;
        if (found->is_full && !announce_overflow(found, &nexts[last]))
            return false;
        if (last != p)
            continue;
        if (found->is_claimed) {
            found->view.head = found->slot.head;
            found->view.value = found->slot.value;
        }
        parts[count++] = (struct ration_commit_part){found->section, &found->view, &nexts[p]};
    }
    if (!ration_commit(parts, count))
        return false;
    for (uint32_t p = 0; p < run->op->part_count; p++)
        if (changes[p] && run->found[p].is_claimed)
            note_created(run, p);
    return true;
}

/*
 * What a decision rests on without changing it must not have changed while it was read: a log, or
 * several keys, of which an answer tells as of one moment.
 */
static bool views_stand(const struct ration_run *run)
{
    for (uint32_t p = 0; p < run->op->part_count; p++) {
        const struct ration_found *found = &run->found[p];

        if (found->is_claimed && !ration_found_claim_stands(found))
            return false;
        if (found->is_there && !ration_found_is_plain(found) &&
            (found->section->shape.ring_cells > 0 || run->op->part_count > 1) &&
            !ration_entry_is_unchanged(&found->view))
            return false;
    }
    return true;
}

static bool configs_stand(const struct ration_run *run)
{
    for (uint32_t p = 0; p < run->op->part_count; p++)
        if (run->found[p].is_ahead ||
            !ration_config_stands(run->op->parts[p].to.config, run->op->parts[p].to.config_number))
            return false;
    return true;
}

/* Publishes what was judged. False: start over. */
static bool publish(struct ration_run *run)
{
    bool changes[RATION_SEAT_ENTRIES_MAX];
    uint32_t change_count = 0;
    uint32_t last = 0;

    ration_yield_point();
    for (uint32_t p = 0; p < run->op->part_count; p++) {
        struct ration_found *found = &run->found[p];

        /* each of these starts over */
        if (finds_no_place(run, p)) {
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
        if (!found->is_there && !found->is_claimed) {
            claim_part(run, p);
            return false;
        }
        if (found->is_claimed && found->has_ring_write) { /* as it is when it is new */
            (void)publish_claimed(run, p);
            return false;
        }
    }
    ration_run_count_returned(run);
    if (change_count == 0)
        return views_stand(run);
    adopt(run);
    if (run->op->part_count > 1)
        return publish_together(run, changes);
    return run->found[last].is_claimed ? publish_claimed(run, last) : publish_there(run, last);
}

static void tell(struct ration_run *run)
{
    struct ration_op *op = run->op;

    op->decision.verdict = run->c.verdict;
    op->granted_tokens = run->c.granted_tokens;
    if (op->kind == RATION_OP_RESERVE)
        op->ready_at_ns = run->now_ns + run->c.wait_ns;
    for (uint32_t p = 0; op->kind == RATION_OP_SETTLE && p < op->part_count; p++)
        for (uint32_t i = 0; i < RATION_RULES_MAX; i++) /* also of rules that were not judged */
            op->parts[p].marks[i].state.log.newest_ns = 0;
    for (uint32_t i = 0; i < run->c.item_count; i++) {
        const struct ration_item *item = &run->c.items[i];
        struct ration_op_part *part = &op->parts[item->part_index];

        part->verdicts[item->rule_index] = item->verdict;
        part->costs[item->rule_index] = item->cost_tokens; /* UP_TO: what was granted */
        if (op->kind == RATION_OP_RESERVE)
            part->marks[item->rule_index] = (struct ration_op_mark){
                .before = item->before.state,
                .state = item->after.state,
                .returned_tokens = run->found[item->part_index].returns.returned_tokens,
                .refunded_tokens = run->found[item->part_index].returns.refunded_tokens,
                .part = item->part,
                .is_overflow = run->found[item->part_index].is_full};
        else if (op->kind == RATION_OP_SETTLE)
            part->marks[item->rule_index].state.log.newest_ns = item->left_ns;
    }
    for (uint32_t p = 0; p < op->part_count; p++) {
        op->parts[p].has_overflowed =
            run->found[p].is_full || (op->kind == RATION_OP_BLOCK && run->found[p].is_unborn);
        if (is_waved_through(run, p)) /* as if no rule applied */
            memset(op->parts[p].limits, 0, sizeof(op->parts[p].limits));
    }
}

/* Those with a claim first: they touch the overflow bucket, which would change under the others. */
static void find_all(struct ration_run *run)
{
    bool is_claimed[RATION_SEAT_ENTRIES_MAX];

    for (uint32_t p = 0; p < run->op->part_count; p++) {
        if (run->op->kind ==
            RATION_OP_RESERVE) /* before the bucket is read: see memory_returns.c */
            run->found[p].returns =
                ration_section_returned(run->found[p].section, &run->found[p].place);
        is_claimed[p] = run->found[p].is_claimed;
        if (is_claimed[p])
            ration_found_read(run, p, &run->found[p]);
    }
    for (uint32_t p = 0; p < run->op->part_count; p++)
        if (!is_claimed[p])
            ration_found_read(run, p, &run->found[p]);
}

/* Until it is decided. False: the op is outdated. */
static bool decide(struct ration_run *run)
{
    do { /* each turn means that another thread got on, or that a place was claimed */
        find_all(run);
        build_case(run);
        ration_judge(&run->c);
        if (!configs_stand(run))
            return false;
        describe(run);
    } while (!publish(run));
    tell(run);
    return true;
}

/* The overflow bucket of a part's key: where requests bring their own limits, that of the limit's fill time. */
static struct ration_pair *overflow_of(const struct ration_found *found,
                                       const struct ration_op_part *part)
{
    const struct ration_limit *limit = &part->own_limits[0];

    if (found->section->overflow_count == 1)
        return found->section->overflow;
    for (uint32_t i = part->rule_count; i-- > 0;)
        if (part->limits[i] != NULL && part->limits[i] != &part->own_limits[i])
            limit = part->limits[i];
    return ration_section_overflow_of(found->section, ration_limit_fill_ns(limit));
}

ration_status ration_memory_begin(struct ration_store *store, struct ration_op *op)
{
    struct ration_run run;

    run.memory = (const struct ration_memory *)store;
    run.op = op;
    run.since_ns = ration_block_now(store->epoch_ns, op->now_ns);
    run.now_ns = run.since_ns + store->epoch_ns;
    for (uint32_t p = 0; p < op->part_count; p++) {
        run.found[p].section = &run.memory->sections[op->parts[p].to.section_index];
        run.found[p].place = ration_memory_place(run.memory, &op->parts[p].to);
        ration_memory_locate(&op->parts[p].to, &run.found[p].place);
        run.found[p].overflow = overflow_of(&run.found[p], &op->parts[p]);
        run.found[p].is_unborn = false;
        run.found[p].is_claimed = false;
        run.found[p].is_there = false;
        /* a reservation that the overflow bucket gave is settled there */
        run.found[p].is_full = op->kind == RATION_OP_SETTLE && op->parts[p].marks[0].is_overflow;
    }
    op->is_outdated = !decide(&run);
    withdraw_claims(&run);
    return RATION_OK;
}
