/*
 * An op on memory: the calling thread reads the buckets, evaluates the limits and publishes the results. If another
 * thread has changed a bucket meanwhile, it starts over.
 *
 * An absent key is evaluated as one that was just created. If it is to be charged, the creating thread claims a slot
 * and evaluates the key once more with the claim in the table, because only then it knows the final reclaim watermark
 * of the key's sets. So with several keys: when all absent keys are claimed and evaluated, claims and members change
 * together.
 *
 * A charging thread may charge the overflow bucket for a key without a slot, while another thread, at a later now,
 * finds a slot for the key. One of the two must see the other:
 *
 *     charging thread    reads the overflow bucket; raises the overflow watermark of the set; scans for a claim or a
 *                        member of the key (if it finds one, it starts over); swaps the overflow bucket
 *     creating thread    claims a slot; reads the overflow watermark; if that is later than now, reads the overflow
 *                        bucket and touches it, so that the swap of a thread that has read the bucket before fails
 */
#include <string.h>

#include "base/fence.h"
#include "base/yield.h"
#include "store/lookup.h"

static uint64_t blocked_ns(const struct ration_memory_run *run, uint32_t part_index)
{
    return run->op->blocks_ns != NULL ? run->op->blocks_ns[part_index] : 0;
}

/* Whether no bucket limits this part: no slot is free, and the overflow rule allows such keys. */
static bool is_unlimited(const struct ration_memory_run *run, uint32_t part_index)
{
    return run->lookup[part_index].is_full &&
           run->op->parts[part_index].overflow == RATION_OVERFLOW_ALLOW;
}

/* The same, and the key is not blocked. */
static bool passes_unlimited(const struct ration_memory_run *run, uint32_t part_index)
{
    return is_unlimited(run, part_index) && blocked_ns(run, part_index) == 0;
}

/* Nanoseconds until a time of the table, at least 1. */
static uint64_t until_ns(const struct ration_memory_run *run, uint64_t time_ns)
{
    return time_ns > run->since_ns ? time_ns - run->since_ns : 1;
}

/* The earliest time at which one of the key's slots is free. */
static uint64_t free_at_ns(const struct ration_lookup *lookup)
{
    return ration_time_ceil_ns(ration_lookup_is_plain(lookup)
                                   ? ration_plain_free_at(lookup->section, &lookup->location)
                                   : ration_entry_free_at(lookup->section, &lookup->location));
}

/* For a key without a slot: when it can get one, and the state it would have there. */
static void describe_slot(const struct ration_memory_run *run, const struct ration_lookup *lookup,
                          const struct ration_key_part *part, struct ration_limit_eval *item)
{
    item->is_turned_away = lookup->is_full && part->overflow == RATION_OVERFLOW_DENY;
    item->free_after_ns = lookup->is_full ? until_ns(run, free_at_ns(lookup)) : 0;
    item->fresh.limit = NULL;
    if (!lookup->is_full || item->is_turned_away || item->is_unlimited)
        return;
    item->fresh = lookup->fresh_buckets[item->rule_index];
    if (item->before.limit->start != RATION_START_FULL)
        item->fresh.limit = NULL; /* the key would count as new only then */
}

/* Whether two parts use the same overflow bucket. */
static bool shares_bucket(const struct ration_memory_run *run, uint32_t a, uint32_t b)
{
    return run->lookup[a].is_full && run->lookup[b].is_full &&
           run->lookup[a].overflow == run->lookup[b].overflow &&
           run->op->parts[a].overflow == RATION_OVERFLOW_SHARED;
}

/* The last item before this one with the same rule and the same overflow bucket, or -1. */
static int shared_item(const struct ration_memory_run *run, uint32_t part_index,
                       uint32_t rule_index)
{
    for (int i = (int)run->evaluation.item_count - 1; i >= 0; i--) {
        const struct ration_limit_eval *item = &run->evaluation.items[i];

        if (item->part_index != part_index && item->rule_index == rule_index &&
            shares_bucket(run, item->part_index, part_index))
            return i;
    }
    return -1;
}

/* Whether a reservation waits under a limit of the key other than this rule's. */
static bool is_waited(const struct ration_memory_run *run, uint32_t part_index, uint32_t rule_index)
{
    uint32_t rule_count = run->op->parts[part_index].rule_count;

    for (uint32_t i = 0; i < rule_count; i++)
        if (i != rule_index &&
            ration_bucket_state_is_waited(&run->lookup[part_index].buckets[i], run->now_ns))
            return true;
    return false;
}

static void build_evaluation(struct ration_memory_run *run)
{
    struct ration_op *op = run->op;

    run->evaluation.op = op;
    run->evaluation.now_ns = run->now_ns;
    run->evaluation.item_count = 0;
    for (uint32_t p = 0; p < op->part_count; p++) {
        const struct ration_key_part *part = &op->parts[p];

        for (uint32_t i = 0; i < part->rule_count && !passes_unlimited(run, p); i++) {
            struct ration_limit_eval *item = &run->evaluation.items[run->evaluation.item_count];

            if (part->limits[i] == NULL)
                continue;
            item->cost_tokens = part->costs[i];
            item->mark = &part->marks[i];
            if (op->kind == RATION_OP_SETTLE)
                ration_memory_run_since_reserved(&run->lookup[p], item);
            item->is_waited = op->kind == RATION_OP_SETTLE && is_waited(run, p, i);
            item->is_shadow = ration_op_part_is_shadow(part, i);
            item->has_own_cost = part->own_cost_mask >> i & 1;
            item->part_index = p;
            item->limiter_index = part->to.section_index;
            item->rule_index = i;
            item->before = run->lookup[p].buckets[i];
            item->blocked_ns = blocked_ns(run, p);
            item->is_unlimited = is_unlimited(run, p);
            item->shares_with = shared_item(run, p, i);
            describe_slot(run, &run->lookup[p], part, item);
            run->evaluation.item_count++;
        }
    }
}

/*
 * Tokens that one key without a slot has used beyond those available are not charged to the other keys that share the
 * overflow bucket: a charge leaves that bucket empty at most.
 */
static struct ration_bucket_state bound_overflow_charge(const struct ration_memory_run *run,
                                                        const struct ration_limit_eval *item)
{
    bool is_unconditional = run->op->kind == RATION_OP_CHARGE || run->op->kind == RATION_OP_SETTLE;
    struct ration_bucket_state empty;

    if (!is_unconditional || !run->lookup[item->part_index].is_full ||
        item->before.limit->algorithm == RATION_SLIDING_LOG)
        return item->after;
    empty = ration_bucket_state_set(&item->before, 0, run->now_ns);
    if (ration_bucket_state_full_after_ns(&item->after, run->now_ns) <=
        ration_bucket_state_full_after_ns(&empty, run->now_ns))
        return item->after;
    /* unless reservations had the bucket below empty already */
    return ration_bucket_state_full_after_ns(&item->before, run->now_ns) >
                   ration_bucket_state_full_after_ns(&empty, run->now_ns)
               ? item->before
               : empty;
}

static void adopt_results(struct ration_memory_run *run)
{
    for (uint32_t i = 0; i < run->evaluation.item_count; i++) {
        const struct ration_limit_eval *item = &run->evaluation.items[i];

        run->lookup[item->part_index].buckets[item->rule_index] = bound_overflow_charge(run, item);
    }
}

/* Whether the op makes the table remember a key whose limit does not start full. */
static bool is_first_touch(const struct ration_memory_run *run, uint32_t part_index)
{
    const struct ration_key_part *part = &run->op->parts[part_index];

    if (run->op->kind == RATION_OP_PEEK || run->op->kind == RATION_OP_REFUND ||
        run->lookup[part_index].is_before_watermark)
        return false;
    for (uint32_t i = 0; i < part->rule_count; i++)
        if (part->limits[i] != NULL && part->costs[i] > 0 &&
            part->limits[i]->start != RATION_START_FULL)
            return true;
    return false;
}

/* Whether the op changes this part's bucket. */
static bool is_changed(const struct ration_memory_run *run, uint32_t part_index)
{
    const struct ration_lookup *lookup = &run->lookup[part_index];

    if (lookup->needs_no_slot)
        return false;
    for (uint32_t i = 0; i < run->evaluation.item_count; i++) {
        const struct ration_limit_eval *item = &run->evaluation.items[i];

        if (item->part_index == part_index &&
            (memcmp(&item->before.state, &item->after.state, sizeof(item->after.state)) != 0 ||
             memcmp(&item->before.write, &item->after.write, sizeof(item->after.write)) != 0))
            return true;
    }
    return lookup->is_present && lookup->is_expired && is_first_touch(run, part_index);
}

/*
 * A key whose limit does not start full is remembered from its first op with a cost, allowed or denied; but not if
 * now runs backwards, because such a now does not say since when.
 */
static bool must_create(const struct ration_memory_run *run, uint32_t part_index)
{
    const struct ration_lookup *lookup = &run->lookup[part_index];

    return !lookup->is_present && !lookup->is_full && !lookup->needs_no_slot &&
           is_first_touch(run, part_index);
}

/* A peek, or a take of 0 tokens, which is one. */
static bool is_peek(const struct ration_memory_run *run)
{
    bool takes = false;

    for (uint32_t i = 0; i < run->evaluation.item_count; i++)
        takes |= run->evaluation.items[i].cost_tokens > 0;
    return run->op->kind == RATION_OP_PEEK || (run->op->kind == RATION_OP_TAKE && !takes);
}

/* Whether a take like this peek would charge the part: all limits allow it, or the shadow limit itself does. */
static bool peek_would_charge(const struct ration_memory_run *run, uint32_t part_index)
{
    for (uint32_t i = 0; i < run->evaluation.item_count; i++) {
        const struct ration_limit_eval *item = &run->evaluation.items[i];

        if (item->part_index == part_index && item->cost_tokens > 0 &&
            (item->is_shadow ? item->verdict : run->evaluation.verdict) == RATION_ALLOW)
            return true;
    }
    return false;
}

/*
 * Whether the key of a part that is not charged now would get no slot if it were charged: a peek must report that,
 * and so must a denial, so that its retry time is right.
 */
static bool finds_no_slot(const struct ration_memory_run *run, uint32_t part_index)
{
    const struct ration_lookup *lookup = &run->lookup[part_index];
    const struct ration_key_part *part = &run->op->parts[part_index];
    bool needs_slot = false;

    if (lookup->is_present || lookup->is_full || lookup->is_claimed || lookup->needs_no_slot ||
        run->op->kind > RATION_OP_RESERVE)
        return false;
    if (is_peek(run)) {
        needs_slot = run->evaluation.verdict != RATION_NEVER || peek_would_charge(run, part_index);
    } else if (run->evaluation.verdict == RATION_DENY) {
        for (uint32_t i = 0; i < part->rule_count; i++)
            needs_slot |= part->limits[i] != NULL && part->costs[i] > 0;
    }
    return needs_slot && !ration_lookup_has_room(run, part, lookup);
}

/*
 * Raises the overflow watermark before a charge of the overflow bucket. True: the key still has no slot, and no
 * thread is creating it.
 */
static bool record_overflow(struct ration_lookup *lookup, const struct ration_entry_next *next)
{
    ration_section_raise_overflow_watermark(
        lookup->section, &lookup->location,
        ration_lookup_is_plain(lookup) ? next->cells[0]
                                       : ration_entry_expires_at(lookup->section, next->cells));
    ration_fence_full(); /* the watermark is raised before the scan for claims; pairs with the fence in claim_slot() */
    lookup->is_full =
        !ration_claim_exists(ration_lookup_kind(lookup), lookup->section, &lookup->location) &&
        ration_section_reclaim_watermark_ns(lookup->section, &lookup->location) ==
            lookup->watermark_ns;
    return lookup->is_full;
}

/* The cells of a part after the evaluation. An existing key becomes established by being charged again. */
static void next_state_of(const struct ration_memory_run *run, uint32_t part_index,
                          struct ration_entry_next *out_next)
{
    const struct ration_lookup *lookup = &run->lookup[part_index];

    ration_lookup_next(run, &run->op->parts[part_index], lookup, out_next);
    if (lookup->is_present && !lookup->is_full && run->op->kind != RATION_OP_RESET)
        out_next->flags |= RATION_FLAG_ESTABLISHED;
}

static bool publish_present(struct ration_memory_run *run, uint32_t part_index)
{
    struct ration_lookup *lookup = &run->lookup[part_index];
    struct ration_entry_next next;

    next_state_of(run, part_index, &next);
    if (lookup->is_full && !record_overflow(lookup, &next))
        return false;
    return ration_lookup_change(lookup, &next);
}

static bool complete_claim(const struct ration_memory_run *run, uint32_t part_index)
{
    const struct ration_lookup *lookup = &run->lookup[part_index];
    struct ration_entry_next next;

    next_state_of(run, part_index, &next);
    if (!ration_lookup_is_plain(lookup))
        return ration_entry_complete(lookup->section, &lookup->slot, &next);
    return ration_plain_complete(
        &lookup->slot, (struct ration_slot){lookup->location.tag, next.flags, next.cells[0]});
}

/*
 * Whether the op must not change the overflow bucket: tokens returned to a key without a slot are not given to the
 * keys that share the overflow bucket, and a block does not block them.
 */
static bool changes_own_slot_only(const struct ration_memory_run *run)
{
    const struct ration_op *op = run->op;

    if (op->kind == RATION_OP_REFUND || op->kind == RATION_OP_RESET || op->kind == RATION_OP_BLOCK)
        return true;
    if (op->kind != RATION_OP_SETTLE)
        return false;
    for (uint32_t i = 0; i < run->evaluation.item_count; i++)
        if (!run->evaluation.items[i].has_own_cost &&
            op->used_tokens > run->evaluation.items[i].cost_tokens)
            return false; /* more tokens were used than taken */
    return true;
}

/* Describes the results of the evaluation. Called before they are published: afterwards a log's ring may change. */
static void describe_decisions(struct ration_memory_run *run)
{
    struct ration_op *op = run->op;

    if (op->has_decision)
        op->decision = ration_evaluation_describe_all(&run->evaluation);
    for (uint32_t i = 0; i < run->evaluation.item_count && op->has_details; i++) {
        const struct ration_limit_eval *item = &run->evaluation.items[i];

        op->parts[item->part_index].decisions[item->rule_index] =
            ration_evaluation_describe(&run->evaluation, item);
    }
}

/* Claims a slot for an absent key, if one is free. The next read finds the key with its claim. */
static void claim_part(struct ration_memory_run *run, uint32_t part_index)
{
    struct ration_lookup *lookup = &run->lookup[part_index];

    switch (ration_lookup_claim(run, &run->op->parts[part_index], lookup)) {
    case RATION_CLAIM_BEGUN:
        lookup->is_claimed = true;
        break;
    case RATION_CLAIM_FULL:
        lookup->needs_no_slot = changes_own_slot_only(run) ||
                                (run->evaluation.verdict == RATION_NEVER && !lookup->is_charged);
        lookup->is_full = !lookup->needs_no_slot;
        if (lookup->is_full) /* the verdict may change, so that other parts need a slot after all */
            for (uint32_t p = 0; p < run->op->part_count; p++)
                run->lookup[p].needs_no_slot = false;
        break;
    default:
        break;
    }
}

/* Aborts the claims that were not completed. A helper that has completed one keeps it. */
static void abort_claims(const struct ration_memory_run *run)
{
    for (uint32_t p = 0; p < run->op->part_count; p++)
        if (run->lookup[p].is_claimed)
            (void)ration_claim_abort(ration_lookup_kind(&run->lookup[p]), &run->lookup[p].slot);
}

/* Records that the claim has become a member. */
static void record_created(struct ration_memory_run *run, uint32_t part_index)
{
    struct ration_lookup *lookup = &run->lookup[part_index];

    lookup->is_claimed = false;
    run->op->parts[part_index].has_created = 1;
    run->op->parts[part_index].has_reclaimed = lookup->slot.is_reclaimed;
}

/* Turns a claim into a member with the evaluated state. */
static bool publish_claimed(struct ration_memory_run *run, uint32_t part_index)
{
    if (!complete_claim(run, part_index))
        return false;
    record_created(run, part_index);
    return true;
}

/* The last of the changed parts that share an overflow bucket with this one: its state contains all charges. */
static uint32_t last_sharing(const struct ration_memory_run *run, const bool *changes,
                             uint32_t part_index)
{
    uint32_t last = part_index;

    for (uint32_t p = part_index + 1; p < run->op->part_count; p++)
        if (changes[p] && shares_bucket(run, part_index, p))
            last = p;
    return last;
}

/* Publishes several parts, present or claimed: all change, or none. */
static bool publish_together(struct ration_memory_run *run, const bool *changes)
{
    struct ration_entry_next nexts[RATION_DESCRIPTOR_ENTRIES_MAX];
    struct ration_commit_part parts[RATION_DESCRIPTOR_ENTRIES_MAX];
    uint32_t count = 0;

    for (uint32_t p = 0; p < run->op->part_count; p++)
        if (changes[p])
            next_state_of(run, p, &nexts[p]);
    for (uint32_t p = 0; p < run->op->part_count; p++) {
        struct ration_lookup *lookup = &run->lookup[p];
        uint32_t last = last_sharing(run, changes, p);

        if (!changes[p])
            continue;
        if (lookup->is_full && !record_overflow(lookup, &nexts[last]))
            return false;
        if (last != p)
            continue;
        if (lookup->is_claimed) {
            lookup->view.head = lookup->slot.head;
            lookup->view.value = lookup->slot.value;
        }
        parts[count++] = (struct ration_commit_part){lookup->section, &lookup->view, &nexts[p]};
    }
    if (!ration_commit(parts, count))
        return false;
    for (uint32_t p = 0; p < run->op->part_count; p++)
        if (changes[p] && run->lookup[p].is_claimed)
            record_created(run, p);
    return true;
}

/*
 * Whether the buckets that a decision depends on without changing them are unchanged since they were read: a log, or
 * several keys, which the result describes as of one point in time.
 */
static bool views_are_current(const struct ration_memory_run *run)
{
    for (uint32_t p = 0; p < run->op->part_count; p++) {
        const struct ration_lookup *lookup = &run->lookup[p];

        if (lookup->is_claimed && !ration_lookup_claim_is_current(lookup))
            return false;
        if (lookup->is_present && !ration_lookup_is_plain(lookup) &&
            (lookup->section->shape.ring_cells > 0 || run->op->part_count > 1) &&
            !ration_entry_is_unchanged(&lookup->view))
            return false;
    }
    return true;
}

static bool configs_are_current(const struct ration_memory_run *run)
{
    for (uint32_t p = 0; p < run->op->part_count; p++)
        if (run->lookup[p].is_stale ||
            !ration_config_is_current(run->op->parts[p].to.config,
                                      run->op->parts[p].to.config_number))
            return false;
    return true;
}

/* Publishes the evaluation. False: start over. */
static bool publish_evaluation(struct ration_memory_run *run)
{
    bool changes[RATION_DESCRIPTOR_ENTRIES_MAX] = {false};
    uint32_t change_count = 0;
    uint32_t last = 0;

    ration_yield_point();
    for (uint32_t p = 0; p < run->op->part_count; p++) {
        struct ration_lookup *lookup = &run->lookup[p];

        /* each return of false below starts over */
        if (finds_no_slot(run, p)) {
            lookup->is_full = true;
            return false;
        }
        lookup->is_charged = is_changed(run, p);
        changes[p] = lookup->is_charged || must_create(run, p);
        if (!changes[p])
            continue;
        change_count++;
        last = p;
        if (lookup->is_present &&
            lookup->has_ring_write) { /* publish the conversion by itself first */
            publish_present(run, p);
            return false;
        }
        if (!lookup->is_present && !lookup->is_claimed) {
            claim_part(run, p);
            return false;
        }
        if (lookup->is_claimed &&
            lookup->has_ring_write) { /* publish the new key without the charge first */
            (void)publish_claimed(run, p);
            return false;
        }
    }
    ration_memory_run_count_returned(run);
    if (change_count == 0)
        return views_are_current(run);
    adopt_results(run);
    if (run->op->part_count > 1)
        return publish_together(run, changes);
    return run->lookup[last].is_claimed ? publish_claimed(run, last) : publish_present(run, last);
}

static void write_result(struct ration_memory_run *run)
{
    struct ration_op *op = run->op;

    op->decision.verdict = run->evaluation.verdict;
    op->granted_tokens = run->evaluation.granted_tokens;
    if (op->kind == RATION_OP_RESERVE)
        op->ready_at_ns = run->now_ns + run->evaluation.wait_ns;
    for (uint32_t p = 0; op->kind == RATION_OP_SETTLE && p < op->part_count; p++)
        for (uint32_t i = 0; i < RATION_RULES_MAX; i++) /* also for rules that were not evaluated */
            op->parts[p].marks[i].state.log.newest_ns = 0;
    for (uint32_t i = 0; i < run->evaluation.item_count; i++) {
        const struct ration_limit_eval *item = &run->evaluation.items[i];
        struct ration_key_part *part = &op->parts[item->part_index];

        part->verdicts[item->rule_index] = item->verdict;
        part->costs[item->rule_index] = item->cost_tokens; /* UP_TO: the tokens granted */
        if (op->kind == RATION_OP_RESERVE)
            part->marks[item->rule_index] = (struct ration_op_mark){
                .before = item->before.state,
                .state = item->after.state,
                .returned_tokens = run->lookup[item->part_index].returns.returned_tokens,
                .refunded_tokens = run->lookup[item->part_index].returns.refunded_tokens,
                .part = item->part,
                .is_overflow = run->lookup[item->part_index].is_full};
        else if (op->kind == RATION_OP_SETTLE)
            part->marks[item->rule_index].state.log.newest_ns = item->left_ns;
    }
    for (uint32_t p = 0; p < op->part_count; p++) {
        op->parts[p].has_overflowed =
            run->lookup[p].is_full || (op->kind == RATION_OP_BLOCK && run->lookup[p].needs_no_slot);
        if (passes_unlimited(run, p)) /* as if no rule applied */
            memset(op->parts[p].limits, 0, sizeof(op->parts[p].limits));
    }
}

/* Reads claimed parts first: they touch the overflow bucket, which would change after other parts have read it. */
static void read_all(struct ration_memory_run *run)
{
    bool is_claimed[RATION_DESCRIPTOR_ENTRIES_MAX] = {false};

    for (uint32_t p = 0; p < run->op->part_count; p++) {
        if (run->op->kind ==
            RATION_OP_RESERVE) /* before the bucket is read: see memory_returns.c */
            run->lookup[p].returns =
                ration_section_returned(run->lookup[p].section, &run->lookup[p].location);
        is_claimed[p] = run->lookup[p].is_claimed;
        if (is_claimed[p])
            ration_lookup_read(run, p, &run->lookup[p]);
    }
    for (uint32_t p = 0; p < run->op->part_count; p++)
        if (!is_claimed[p])
            ration_lookup_read(run, p, &run->lookup[p]);
}

/* Repeats until the op is decided. False: the op is outdated. */
static bool decide_op(struct ration_memory_run *run)
{
    do { /* each pass means that another thread made progress, or that a slot was claimed */
        read_all(run);
        build_evaluation(run);
        ration_evaluation_run(&run->evaluation);
        if (!configs_are_current(run))
            return false;
        describe_decisions(run);
    } while (!publish_evaluation(run));
    write_result(run);
    return true;
}

/* The overflow bucket of a part's key: for inline limits, the one of the limit's fill time. */
static struct ration_pair *overflow_of(const struct ration_lookup *lookup,
                                       const struct ration_key_part *part)
{
    const struct ration_limit *limit = &part->own_limits[0];

    if (lookup->section->overflow_count == 1)
        return lookup->section->overflow;
    for (uint32_t i = part->rule_count; i-- > 0;)
        if (part->limits[i] != NULL && part->limits[i] != &part->own_limits[i])
            limit = part->limits[i];
    return ration_section_overflow_of(lookup->section, ration_limit_fill_ns(limit));
}

ration_status ration_memory_begin(struct ration_store *store, struct ration_op *op)
{
    struct ration_memory_run run;

    run.memory = (const struct ration_memory *)store;
    run.op = op;
    run.since_ns = ration_block_now(store->epoch_ns, op->now_ns);
    run.now_ns = run.since_ns + store->epoch_ns;
    for (uint32_t p = 0; p < op->part_count; p++) {
        run.lookup[p].section = &run.memory->sections[op->parts[p].to.section_index];
        run.lookup[p].location = ration_memory_place(run.memory, &op->parts[p].to);
        ration_memory_locate(&op->parts[p].to, &run.lookup[p].location);
        run.lookup[p].overflow = overflow_of(&run.lookup[p], &op->parts[p]);
        run.lookup[p].needs_no_slot = false;
        run.lookup[p].is_claimed = false;
        run.lookup[p].is_present = false;
        /* a reservation that was taken from the overflow bucket is settled there */
        run.lookup[p].is_full = op->kind == RATION_OP_SETTLE && op->parts[p].marks[0].is_overflow;
    }
    op->is_outdated = !decide_op(&run);
    abort_claims(&run);
    return RATION_OK;
}
