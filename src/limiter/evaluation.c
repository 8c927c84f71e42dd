#include "limiter/evaluation.h"

#include "base/time.h"
#include "base/u64.h"
#include "core/gcra.h"

static uint64_t max_u64(uint64_t a_ns, uint64_t b_ns)
{
    return a_ns > b_ns ? a_ns : b_ns;
}

static struct ration_bucket_state_step take_step(const struct ration_limit_eval *item,
                                                 uint64_t now_ns)
{
    return ration_bucket_state_take(&item->before, item->sum_tokens, 0, now_ns);
}

/*
 * Several keys without a slot may share one bucket. It is charged the sum, all or nothing. A shadow item is
 * charged by its own verdict, so it sees the bucket after the takes of the earlier items.
 */
static void add_shared_cost(const struct ration_evaluation *eval, struct ration_limit_eval *item)
{
    const struct ration_limit_eval *other;
    uint64_t room = UINT64_MAX - item->cost_tokens;

    item->sum_tokens = item->cost_tokens;
    if (item->shares_with < 0)
        return;
    other = &eval->items[item->shares_with];
    if (item->is_shadow)
        item->before = other->after;
    else
        item->sum_tokens += other->sum_tokens < room ? other->sum_tokens : room;
}

/*
 * Whether a cost exceeds the burst only because it is added to the costs of others: the item is then denied
 * until the key has a slot of its own.
 */
static bool is_too_much_together(const struct ration_limit_eval *item)
{
    return item->shares_with >= 0 &&
           item->cost_tokens <= ration_bucket_state_burst(item->before.limit);
}

/*
 * Whether a denied caller may wait for its start time. Windows do not support waiting, and a queue that denies
 * is full.
 */
static bool can_wait_in_line(const struct ration_limit *limit)
{
    return limit->algorithm == RATION_TOKEN_BUCKET || limit->algorithm == RATION_BURST_RESERVE;
}

static void update_verdict(struct ration_evaluation *eval, uint32_t index,
                           enum ration_verdict verdict, uint64_t wait_ns)
{
    bool is_worse = verdict > eval->verdict ||
                    (verdict == eval->verdict && (eval->binding < 0 || wait_ns > eval->wait_ns));

    if (is_worse) {
        eval->verdict = verdict;
        eval->wait_ns = wait_ns;
        eval->binding = (int)index;
    }
}

/*
 * Charges every enforced item as of the time at which the caller starts. That is the start time of the item
 * that waits longest, which is charged by its own queue; the others are charged as if that time were now.
 */
static void charge_at_start(struct ration_evaluation *eval, uint64_t delay_ns)
{
    for (uint32_t i = 0; i < eval->item_count; i++) {
        struct ration_limit_eval *item = &eval->items[i];
        bool is_latest =
            (item->verdict == RATION_ALLOW ? item->delay_ns : item->wait_ns) == delay_ns;
        struct ration_bucket_state_step step;

        if (item->is_shadow)
            continue;
        step = is_latest ? ration_bucket_state_take(&item->before, item->sum_tokens, delay_ns,
                                                    eval->now_ns)
                         : take_step(item, eval->now_ns + delay_ns);
        item->after = step.next;
        item->part = step.part;
    }
}

/* How long an item is denied whatever its bucket holds. An item that takes nothing is not denied. */
static uint64_t denied_for_ns(const struct ration_limit_eval *item)
{
    uint64_t no_slot_ns = item->is_turned_away ? item->free_after_ns : 0;

    if (__builtin_expect((item->blocked_ns | no_slot_ns) == 0, 1))
        return 0;
    return item->cost_tokens > 0 ? max_u64(item->blocked_ns, no_slot_ns) : 0;
}

/* Decides one item by itself. */
static void take_item(const struct ration_evaluation *eval, struct ration_limit_eval *item)
{
    struct ration_bucket_state_step step;

    add_shared_cost(eval, item);
    step = take_step(item, eval->now_ns);
    if (step.verdict == RATION_NEVER && is_too_much_together(item))
        step = (struct ration_bucket_state_step){
            .verdict = RATION_DENY, .wait_ns = item->free_after_ns, .next = item->before};
    if (item->is_unlimited)
        step = (struct ration_bucket_state_step){.verdict = RATION_ALLOW, .next = item->before};
    if (denied_for_ns(item) > 0 && step.verdict != RATION_NEVER) {
        uint64_t new_wait_ns = step.verdict == RATION_DENY ? step.wait_ns : 0;

        step =
            (struct ration_bucket_state_step){.verdict = RATION_DENY,
                                              .wait_ns = max_u64(denied_for_ns(item), new_wait_ns),
                                              .next = item->before};
    }

    bool allowed = step.verdict == RATION_ALLOW;

    item->verdict = step.verdict;
    item->wait_ns = allowed ? 0 : step.wait_ns;
    item->delay_ns = allowed ? step.wait_ns : 0;
    item->after = step.next;
    item->part = step.part;
}

/*
 * The shortest wait, at least after_ns, after which an item passes. An item whose key shares a bucket is
 * decided by the state in a slot of its own as soon as the key can have one.
 */
static uint64_t passes_after(const struct ration_evaluation *eval,
                             const struct ration_limit_eval *item, uint64_t after_ns)
{
    uint64_t wait_ns;
    struct ration_bucket_state_step step;

    after_ns = max_u64(after_ns, denied_for_ns(item));
    wait_ns = max_u64(after_ns, item->verdict == RATION_ALLOW ? 0 : item->wait_ns);
    if (item->fresh.limit == NULL || wait_ns < item->free_after_ns)
        return wait_ns;
    step = ration_bucket_state_take(&item->fresh, item->cost_tokens, 0, eval->now_ns);
    wait_ns = max_u64(after_ns, item->free_after_ns);
    return step.verdict == RATION_DENY ? max_u64(wait_ns, step.wait_ns) : wait_ns;
}

/* The shortest wait after which all items pass at the same time. */
static uint64_t all_pass_after(const struct ration_evaluation *eval)
{
    uint64_t wait_ns = 0, before_ns;

    do { /* each round moves an item to its own slot, or is the last */
        before_ns = wait_ns;
        for (uint32_t i = 0; i < eval->item_count; i++)
            if (!eval->items[i].is_shadow)
                wait_ns = passes_after(eval, &eval->items[i], wait_ns);
    } while (wait_ns != before_ns);
    return wait_ns;
}

static uint64_t remaining_of(const struct ration_evaluation *eval,
                             const struct ration_limit_eval *item)
{
    return item->is_turned_away || item->blocked_ns > 0
               ? 0
               : ration_bucket_state_remaining(&item->after, eval->now_ns);
}

static void undo_takes(struct ration_evaluation *eval)
{
    for (uint32_t i = 0; i < eval->item_count; i++)
        if (!eval->items[i].is_shadow)
            eval->items[i].after = eval->items[i].before;
}

/*
 * Whether the caller may wait for its start time where items are denied, and how long until then. A queue
 * admits a caller now that starts in the future, so there may be a wait without a denial.
 */
static bool may_wait(const struct ration_evaluation *eval, uint64_t max_wait_ns,
                     uint64_t *out_delay_ns)
{
    uint64_t delay_ns = 0;

    for (uint32_t i = 0; i < eval->item_count; i++) {
        const struct ration_limit_eval *item = &eval->items[i];
        uint64_t needed_ns = item->verdict == RATION_ALLOW ? item->delay_ns : item->wait_ns;

        if (item->is_shadow)
            continue;
        if (item->verdict != RATION_ALLOW &&
            (item->is_turned_away || !can_wait_in_line(item->before.limit) ||
             needed_ns > RATION_WAIT_NS_MAX))
            return false;
        if (needed_ns > delay_ns)
            delay_ns = needed_ns;
    }
    *out_delay_ns = delay_ns;
    return delay_ns <= (eval->op->part_count > 1 ? 0 : max_wait_ns);
}

/*
 * For a caller that cannot or will not wait in a queue: makes the queue's items report when a caller could
 * start at once.
 */
static void deny_waiting(struct ration_evaluation *eval)
{
    eval->verdict = RATION_ALLOW;
    eval->binding = -1;
    for (uint32_t i = 0; i < eval->item_count; i++) {
        struct ration_limit_eval *item = &eval->items[i];

        if (item->is_shadow)
            continue;
        if (item->before.limit->algorithm == RATION_LEAKY_QUEUE &&
            (item->verdict == RATION_DENY || item->delay_ns > eval->op->max_wait_ns)) {
            item->verdict = RATION_DENY;
            item->wait_ns = ration_bucket_state_full_after_ns(&item->before, eval->now_ns);
        }
        update_verdict(eval, i, item->verdict, passes_after(eval, item, 0));
    }
}

/* TAKE, PEEK, RESERVE: first decides each item by itself; the latest start time of all is that of the caller. */
static void take_all(struct ration_evaluation *eval)
{
    uint64_t delay_ns = 0;
    bool is_reserve = eval->op->kind == RATION_OP_RESERVE;

    for (uint32_t i = 0; i < eval->item_count; i++) {
        take_item(eval, &eval->items[i]);
        if (!eval->items[i].is_shadow)
            update_verdict(eval, i, eval->items[i].verdict, passes_after(eval, &eval->items[i], 0));
        if (eval->op->kind == RATION_OP_PEEK)
            eval->items[i].after = eval->items[i].before;
    }
    if (is_reserve && eval->verdict != RATION_NEVER) {
        if (may_wait(eval, eval->op->max_wait_ns, &delay_ns))
            eval->verdict = RATION_ALLOW;
        else
            deny_waiting(eval);
    } else if (eval->verdict == RATION_ALLOW && !may_wait(eval, UINT64_MAX, &delay_ns)) {
        deny_waiting(eval); /* the caller would have to wait, with several keys */
    }
    if (eval->verdict == RATION_DENY)
        eval->wait_ns = all_pass_after(eval);
    if (eval->verdict != RATION_ALLOW) {
        undo_takes(eval);
        return;
    }
    eval->wait_ns = delay_ns;
    if (delay_ns > 0 && eval->op->kind != RATION_OP_PEEK)
        charge_at_start(eval, delay_ns);
}

/* Takes as many tokens as all items hold. If none is available, the decision is that of a single token. */
static void take_up_to(struct ration_evaluation *eval)
{
    uint64_t granted = UINT64_MAX;
    bool is_wanted = false;

    for (uint32_t i = 0; i < eval->item_count; i++) {
        const struct ration_limit_eval *item = &eval->items[i];
        uint64_t left;

        if (item->is_shadow || item->has_own_cost)
            continue;
        is_wanted |= item->cost_tokens > 0;
        left = item->is_turned_away ? 0 : ration_bucket_state_max_take(&item->before, eval->now_ns);
        left = item->cost_tokens < left ? item->cost_tokens : left;
        granted = left < granted ? left : granted;
    }
    for (uint32_t i = 0; i < eval->item_count && granted < UINT64_MAX; i++)
        if (!eval->items[i].has_own_cost)
            eval->items[i].cost_tokens = granted > 0 ? granted : is_wanted;
    take_all(eval);
    eval->granted_tokens = eval->verdict == RATION_ALLOW ? granted : 0;
}

/* Tokens are not returned to a full bucket: a key that was forgotten must not be remembered again for that. */
static bool is_full(const struct ration_evaluation *eval, const struct ration_limit_eval *item)
{
    return ration_bucket_state_full_after_ns(&item->before, eval->now_ns) == 0;
}

static struct ration_bucket_state release_unused(const struct ration_evaluation *eval,
                                                 struct ration_limit_eval *item,
                                                 uint64_t unused_tokens)
{
    const struct ration_op_mark *mark = item->mark;
    struct ration_bucket_state_release release = {
        .before = mark->before,
        .mark = mark->state,
        .part = mark->part,
        /* tokens refunded since may be those of the reservation: they are returned only once */
        .cost_tokens = ration_u64_less(item->cost_tokens, item->refunded_tokens),
        .unused_tokens = ration_u64_less(unused_tokens, item->refunded_tokens),
        .turn_ns = eval->op->ready_at_ns,
        .returned_tokens = item->returned_tokens,
        .is_waited = item->is_waited,
    };
    struct ration_bucket_state next =
        ration_bucket_state_release(&item->before, &release, eval->now_ns);

    if (item->before.limit->algorithm == RATION_SLIDING_LOG)
        item->left_ns = release.mark.log.newest_ns;
    return next;
}

/* A reservation whose start time lies in the future keeps it, however much it will use. */
static struct ration_bucket_state settle_item(const struct ration_evaluation *eval,
                                              struct ration_limit_eval *item)
{
    /* A cost that the rule's function set, say one per request, was used if anything was. */
    uint64_t used =
        item->has_own_cost && eval->op->used_tokens > 0 ? item->cost_tokens : eval->op->used_tokens;
    bool is_promised = used > 0 && eval->now_ns < eval->op->ready_at_ns;

    item->left_ns = 0;
    if (used > item->cost_tokens)
        return ration_bucket_state_charge(&item->before, used - item->cost_tokens, eval->now_ns);
    /* Tokens from the shared overflow bucket are not returned: other keys would get them. */
    if (used < item->cost_tokens && !is_promised && !item->mark->is_overflow &&
        !item->mark->is_kept && !is_full(eval, item))
        return release_unused(eval, item, item->cost_tokens - used);
    return item->before;
}

/* A bucket that is already full is not changed: a key that was never seen remains so. */
static struct ration_bucket_state reset_bucket(const struct ration_bucket_state *bucket,
                                               uint64_t now_ns)
{
    if (bucket->limit->start == RATION_START_FULL &&
        ration_bucket_state_full_after_ns(bucket, now_ns) == 0)
        return *bucket;
    return ration_bucket_state_start(bucket, now_ns);
}

/*
 * A now beyond the range of a table counts as the last time in that range (R6). A block then ends as long after
 * that time as the caller requested, not at a time far from the table's now.
 */
static uint64_t block_until_ns(const struct ration_evaluation *eval)
{
    uint64_t beyond_ns = eval->op->now_ns > eval->now_ns ? eval->op->now_ns - eval->now_ns : 0;

    return eval->op->until_ns > beyond_ns ? eval->op->until_ns - beyond_ns : 0;
}

/* A block that is over and leaves the bucket full does not change the bucket: no key is remembered for it. */
static struct ration_bucket_state block_item(const struct ration_evaluation *eval,
                                             const struct ration_limit_eval *item)
{
    struct ration_bucket_state next = item->before;

    if (ration_bucket_state_can_block(item->before.limit))
        next = ration_bucket_state_block(&item->before, block_until_ns(eval));
    return ration_bucket_state_full_after_ns(&next, eval->now_ns) == 0 ? item->before : next;
}

static struct ration_bucket_state update_item(const struct ration_evaluation *eval,
                                              struct ration_limit_eval *item)
{
    bool is_amount = eval->op->kind == RATION_OP_REFUND || eval->op->kind == RATION_OP_CHARGE;

    if (item->is_turned_away)
        return item->before; /* the key has no bucket */
    /* otherwise windows would move to now, and a key would be remembered for nothing */
    if (is_amount && item->cost_tokens == 0)
        return item->before;
    switch (eval->op->kind) {
    case RATION_OP_REFUND:
        return is_full(eval, item)
                   ? item->before
                   : ration_bucket_state_refund(&item->before, item->cost_tokens, eval->now_ns);
    case RATION_OP_CHARGE:
        return ration_bucket_state_charge(&item->before, item->cost_tokens, eval->now_ns);
    case RATION_OP_RESET:
        return reset_bucket(&item->before, eval->now_ns);
    case RATION_OP_BLOCK:
        return block_item(eval, item);
    default:
        return settle_item(eval, item);
    }
}

void ration_evaluation_run(struct ration_evaluation *eval)
{
    eval->verdict = RATION_ALLOW;
    eval->wait_ns = 0;
    eval->granted_tokens = 0;
    eval->binding = -1;
    switch (eval->op->kind) {
    case RATION_OP_TAKE:
    case RATION_OP_PEEK:
    case RATION_OP_RESERVE:
        take_all(eval);
        break;
    case RATION_OP_UP_TO:
        take_up_to(eval);
        break;
    default:
        for (uint32_t i = 0; i < eval->item_count; i++) {
            if (eval->items[i].shares_with >= 0)
                eval->items[i].before = eval->items[eval->items[i].shares_with].after;
            eval->items[i].verdict = RATION_ALLOW;
            eval->items[i].wait_ns = 0;
            eval->items[i].after = update_item(eval, &eval->items[i]);
        }
    }
}

struct ration_decision ration_evaluation_describe(const struct ration_evaluation *eval,
                                                  const struct ration_limit_eval *item)
{
    bool allowed = item->verdict == RATION_ALLOW;
    uint64_t full_after_ns = item->is_turned_away
                                 ? item->free_after_ns
                                 : ration_bucket_state_full_after_ns(&item->after, eval->now_ns);

    return (struct ration_decision){
        .verdict = item->verdict,
        .limit_index = item->rule_index,
        .limiter_index = item->limiter_index,
        .limit = ration_bucket_state_burst(item->before.limit),
        .remaining = remaining_of(eval, item),
        .retry_after_ns = allowed ? 0 : passes_after(eval, item, 0),
        .reset_after_ns = max_u64(full_after_ns, item->blocked_ns),
        .delay_ns = allowed ? item->delay_ns : 0,
    };
}

struct ration_decision ration_evaluation_describe_all(struct ration_evaluation *eval)
{
    struct ration_decision decision = {.verdict = eval->verdict, .remaining = UINT64_MAX};

    if (eval->verdict == RATION_ALLOW) {
        uint64_t fewest_left = UINT64_MAX;

        eval->binding = -1;
        for (uint32_t i = 0; i < eval->item_count; i++) {
            uint64_t left = remaining_of(eval, &eval->items[i]);

            if (!eval->items[i].is_shadow && (eval->binding < 0 || left < fewest_left)) {
                fewest_left = left;
                eval->binding = (int)i;
            }
        }
    }
    if (eval->binding >= 0)
        decision = ration_evaluation_describe(eval, &eval->items[eval->binding]);
    decision.verdict = eval->verdict;
    decision.retry_after_ns = eval->verdict == RATION_ALLOW ? 0 : eval->wait_ns;
    decision.delay_ns = eval->verdict == RATION_ALLOW ? eval->wait_ns : 0;
    return decision;
}
