#include "limiter/judge.h"

#include "base/time.h"
#include "base/u64.h"
#include "core/gcra.h"

static uint64_t later_of(uint64_t a_ns, uint64_t b_ns)
{
    return a_ns > b_ns ? a_ns : b_ns;
}

static struct ration_any_step step_of(const struct ration_item *item, uint64_t now_ns)
{
    return ration_any_take(&item->before, item->sum_tokens, 0, now_ns);
}

/*
 * Several keys without a place may be about one bucket. It is charged the sum, all or nothing. A shadow
 * is charged by its own verdict, so it comes after what the earlier ones have taken.
 */
static void follow_shared(const struct ration_case *c, struct ration_item *item)
{
    const struct ration_item *other;
    uint64_t room = UINT64_MAX - item->cost_tokens;

    item->sum_tokens = item->cost_tokens;
    if (item->shares_with < 0)
        return;
    other = &c->items[item->shares_with];
    if (item->is_shadow)
        item->before = other->after;
    else
        item->sum_tokens += other->sum_tokens < room ? other->sum_tokens : room;
}

/* More than the bucket ever holds, together with others': until the key has one of its own. */
static bool is_too_much_together(const struct ration_item *item)
{
    return item->shares_with >= 0 && item->cost_tokens <= ration_any_burst(item->before.limit);
}

/* Whether who is denied may wait in line. Windows have none, and a queue that is full has not. */
static bool has_line(const struct ration_limit *limit)
{
    return limit->algorithm == RATION_TOKEN_BUCKET || limit->algorithm == RATION_BURST_RESERVE;
}

static void weigh(struct ration_case *c, uint32_t index, enum ration_verdict verdict,
                  uint64_t wait_ns)
{
    bool is_worse =
        verdict > c->verdict || (verdict == c->verdict && (c->binding < 0 || wait_ns > c->wait_ns));

    if (is_worse) {
        c->verdict = verdict;
        c->wait_ns = wait_ns;
        c->binding = (int)index;
    }
}

/*
 * Charges every enforced item for the moment at which the caller goes. That is the turn of the one
 * that waits longest, in its own line; the others are charged as if it were now then.
 */
static void charge_at(struct ration_case *c, uint64_t delay_ns)
{
    for (uint32_t i = 0; i < c->item_count; i++) {
        struct ration_item *item = &c->items[i];
        bool is_last = (item->verdict == RATION_ALLOW ? item->delay_ns : item->wait_ns) == delay_ns;
        struct ration_any_step step;

        if (item->is_shadow)
            continue;
        step = is_last ? ration_any_take(&item->before, item->sum_tokens, delay_ns, c->now_ns)
                       : step_of(item, c->now_ns + delay_ns);
        item->after = step.next;
        item->part = step.part;
    }
}

/* So long an item is denied whatever its bucket holds. One that takes nothing never is. */
static uint64_t closed_ns(const struct ration_item *item)
{
    uint64_t away_ns = item->is_turned_away ? item->free_after_ns : 0;

    if (__builtin_expect((item->hold_ns | away_ns) == 0, 1))
        return 0;
    return item->cost_tokens > 0 ? later_of(item->hold_ns, away_ns) : 0;
}

/* Each by itself. */
static void take_item(const struct ration_case *c, struct ration_item *item)
{
    struct ration_any_step step;

    follow_shared(c, item);
    step = step_of(item, c->now_ns);
    if (step.verdict == RATION_NEVER && is_too_much_together(item))
        step = (struct ration_any_step){
            .verdict = RATION_DENY, .wait_ns = item->free_after_ns, .next = item->before};
    if (item->is_unlimited)
        step = (struct ration_any_step){.verdict = RATION_ALLOW, .next = item->before};
    if (closed_ns(item) > 0 && step.verdict != RATION_NEVER) {
        uint64_t new_wait_ns = step.verdict == RATION_DENY ? step.wait_ns : 0;

        step = (struct ration_any_step){.verdict = RATION_DENY,
                                        .wait_ns = later_of(closed_ns(item), new_wait_ns),
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
 * The earliest wait, not below after_ns, after which an item passes. One whose key shares a bucket goes
 * by what it has in a place of its own as soon as it can have one.
 */
static uint64_t passes_after(const struct ration_case *c, const struct ration_item *item,
                             uint64_t after_ns)
{
    uint64_t wait_ns;
    struct ration_any_step step;

    after_ns = later_of(after_ns, closed_ns(item));
    wait_ns = later_of(after_ns, item->verdict == RATION_ALLOW ? 0 : item->wait_ns);
    if (item->newborn.limit == NULL || wait_ns < item->free_after_ns)
        return wait_ns;
    step = ration_any_take(&item->newborn, item->cost_tokens, 0, c->now_ns);
    wait_ns = later_of(after_ns, item->free_after_ns);
    return step.verdict == RATION_DENY ? later_of(wait_ns, step.wait_ns) : wait_ns;
}

/* The earliest wait after which all pass at once. */
static uint64_t all_pass_after(const struct ration_case *c)
{
    uint64_t wait_ns = 0, before_ns;

    do { /* each turn moves an item to its own place, or ends it */
        before_ns = wait_ns;
        for (uint32_t i = 0; i < c->item_count; i++)
            if (!c->items[i].is_shadow)
                wait_ns = passes_after(c, &c->items[i], wait_ns);
    } while (wait_ns != before_ns);
    return wait_ns;
}

static uint64_t remaining_of(const struct ration_case *c, const struct ration_item *item)
{
    return item->is_turned_away || item->hold_ns > 0
               ? 0
               : ration_any_remaining(&item->after, c->now_ns);
}

static void nothing_taken(struct ration_case *c)
{
    for (uint32_t i = 0; i < c->item_count; i++)
        if (!c->items[i].is_shadow)
            c->items[i].after = c->items[i].before;
}

/*
 * Whether those who are denied may wait for their turn, and how long until then. A queue lets in
 * now who goes later, so there may be a turn to wait for without a denial.
 */
static bool may_wait(const struct ration_case *c, uint64_t max_wait_ns, uint64_t *out_delay_ns)
{
    uint64_t delay_ns = 0;

    for (uint32_t i = 0; i < c->item_count; i++) {
        const struct ration_item *item = &c->items[i];
        uint64_t needed_ns = item->verdict == RATION_ALLOW ? item->delay_ns : item->wait_ns;

        if (item->is_shadow)
            continue;
        if (item->verdict != RATION_ALLOW &&
            (item->is_turned_away || !has_line(item->before.limit) ||
             needed_ns > RATION_WAIT_NS_MAX))
            return false;
        if (needed_ns > delay_ns)
            delay_ns = needed_ns;
    }
    *out_delay_ns = delay_ns;
    return delay_ns <= (c->op->part_count > 1 ? 0 : max_wait_ns);
}

/* A queue tells who cannot or will not wait in it when one could go at once. */
static void tell_when_at_once(struct ration_case *c)
{
    c->verdict = RATION_ALLOW;
    c->binding = -1;
    for (uint32_t i = 0; i < c->item_count; i++) {
        struct ration_item *item = &c->items[i];

        if (item->is_shadow)
            continue;
        if (item->before.limit->algorithm == RATION_LEAKY_QUEUE &&
            (item->verdict == RATION_DENY || item->delay_ns > c->op->max_wait_ns)) {
            item->verdict = RATION_DENY;
            item->wait_ns = ration_any_full_after_ns(&item->before, c->now_ns);
        }
        weigh(c, i, item->verdict, passes_after(c, item, 0));
    }
}

/* TAKE, LOOK, RESERVE. First each by itself; the one that passes last says when the caller goes. */
static void take(struct ration_case *c)
{
    uint64_t delay_ns = 0;
    bool is_reserve = c->op->kind == RATION_OP_RESERVE;

    for (uint32_t i = 0; i < c->item_count; i++) {
        take_item(c, &c->items[i]);
        if (!c->items[i].is_shadow)
            weigh(c, i, c->items[i].verdict, passes_after(c, &c->items[i], 0));
        if (c->op->kind == RATION_OP_LOOK)
            c->items[i].after = c->items[i].before;
    }
    if (is_reserve && c->verdict != RATION_NEVER) {
        if (may_wait(c, c->op->max_wait_ns, &delay_ns))
            c->verdict = RATION_ALLOW;
        else
            tell_when_at_once(c);
    } else if (c->verdict == RATION_ALLOW && !may_wait(c, UINT64_MAX, &delay_ns)) {
        tell_when_at_once(c); /* a turn to wait for, and several keys */
    }
    if (c->verdict == RATION_DENY)
        c->wait_ns = all_pass_after(c);
    if (c->verdict != RATION_ALLOW) {
        nothing_taken(c);
        return;
    }
    c->wait_ns = delay_ns;
    if (delay_ns > 0 && c->op->kind != RATION_OP_LOOK)
        charge_at(c, delay_ns);
}

/* As many as all have. With nothing there, the answer is that of a single token. */
static void take_up_to(struct ration_case *c)
{
    uint64_t granted = UINT64_MAX;
    bool is_wanted = false;

    for (uint32_t i = 0; i < c->item_count; i++) {
        const struct ration_item *item = &c->items[i];
        uint64_t left;

        if (item->is_shadow || item->has_own_cost)
            continue;
        is_wanted |= item->cost_tokens > 0;
        left = item->is_turned_away ? 0 : ration_any_most(&item->before, c->now_ns);
        left = item->cost_tokens < left ? item->cost_tokens : left;
        granted = left < granted ? left : granted;
    }
    for (uint32_t i = 0; i < c->item_count && granted < UINT64_MAX; i++)
        if (!c->items[i].has_own_cost)
            c->items[i].cost_tokens = granted > 0 ? granted : is_wanted;
    take(c);
    c->granted_tokens = c->verdict == RATION_ALLOW ? granted : 0;
}

/* What is full takes nothing back: a key that was forgotten is not remembered for that. */
static bool is_full(const struct ration_case *c, const struct ration_item *item)
{
    return ration_any_full_after_ns(&item->before, c->now_ns) == 0;
}

static struct ration_any release(const struct ration_case *c, struct ration_item *item,
                                 uint64_t unused_tokens)
{
    const struct ration_op_mark *mark = item->mark;
    struct ration_any_release release = {
        .before = mark->before,
        .mark = mark->state,
        .part = mark->part,
        /* what was refunded since may have been its own: it comes back only once */
        .cost_tokens = ration_u64_less(item->cost_tokens, item->refunded_tokens),
        .unused_tokens = ration_u64_less(unused_tokens, item->refunded_tokens),
        .turn_ns = c->op->ready_at_ns,
        .returned_tokens = item->returned_tokens,
        .is_waited = item->is_waited,
    };
    struct ration_any next = ration_any_release(&item->before, &release, c->now_ns);

    if (item->before.limit->algorithm == RATION_SLIDING_LOG)
        item->left_ns = release.mark.log.newest_ns;
    return next;
}

/* One whose turn is yet to come is still promised it, with whatever it will use. */
static struct ration_any settle(const struct ration_case *c, struct ration_item *item)
{
    /* A cost that is not the caller's, say one per request, was used if anything was. */
    uint64_t used =
        item->has_own_cost && c->op->used_tokens > 0 ? item->cost_tokens : c->op->used_tokens;
    bool is_promised = used > 0 && c->now_ns < c->op->ready_at_ns;

    item->left_ns = 0;
    if (used > item->cost_tokens)
        return ration_any_force(&item->before, used - item->cost_tokens, c->now_ns);
    /* What the shared overflow bucket gave does not come back: others would get it. */
    if (used < item->cost_tokens && !is_promised && !item->mark->is_overflow &&
        !item->mark->is_kept && !is_full(c, item))
        return release(c, item, item->cost_tokens - used);
    return item->before;
}

/* A bucket that is full already is left as it is: a key never seen stays one. */
static struct ration_any start_anew(const struct ration_any *any, uint64_t now_ns)
{
    if (any->limit->start == RATION_START_FULL && ration_any_full_after_ns(any, now_ns) == 0)
        return *any;
    return ration_any_start(any, now_ns);
}

/*
 * A now beyond what a table can count is the last one that it can (R6). Then a block ends as long after
 * that one as was asked, not at a moment that the table's now is far from.
 */
static uint64_t until_of(const struct ration_case *c)
{
    uint64_t beyond_ns = c->op->now_ns > c->now_ns ? c->op->now_ns - c->now_ns : 0;

    return c->op->until_ns > beyond_ns ? c->op->until_ns - beyond_ns : 0;
}

/* A block that is over, and of which nothing is to be seen, is none: no key is remembered for it. */
static struct ration_any block(const struct ration_case *c, const struct ration_item *item)
{
    struct ration_any next = item->before;

    if (ration_any_can_block(item->before.limit))
        next = ration_any_block(&item->before, until_of(c));
    return ration_any_full_after_ns(&next, c->now_ns) == 0 ? item->before : next;
}

static struct ration_any edit(const struct ration_case *c, struct ration_item *item)
{
    bool is_amount = c->op->kind == RATION_OP_REFUND || c->op->kind == RATION_OP_FORCE;

    if (item->is_turned_away)
        return item->before; /* there is nothing to be changed */
    if (is_amount && item->cost_tokens == 0)
        return item->before; /* windows would be moved to now, and a key remembered for nothing */
    switch (c->op->kind) {
    case RATION_OP_REFUND:
        return is_full(c, item) ? item->before
                                : ration_any_refund(&item->before, item->cost_tokens, c->now_ns);
    case RATION_OP_FORCE:
        return ration_any_force(&item->before, item->cost_tokens, c->now_ns);
    case RATION_OP_RESET:
        return start_anew(&item->before, c->now_ns);
    case RATION_OP_BLOCK:
        return block(c, item);
    default:
        return settle(c, item);
    }
}

void ration_judge(struct ration_case *c)
{
    c->verdict = RATION_ALLOW;
    c->wait_ns = 0;
    c->granted_tokens = 0;
    c->binding = -1;
    switch (c->op->kind) {
    case RATION_OP_TAKE:
    case RATION_OP_LOOK:
    case RATION_OP_RESERVE:
        take(c);
        break;
    case RATION_OP_UP_TO:
        take_up_to(c);
        break;
    default:
        for (uint32_t i = 0; i < c->item_count; i++) {
            if (c->items[i].shares_with >= 0)
                c->items[i].before = c->items[c->items[i].shares_with].after;
            c->items[i].verdict = RATION_ALLOW;
            c->items[i].wait_ns = 0;
            c->items[i].after = edit(c, &c->items[i]);
        }
    }
}

struct ration_decision ration_judge_describe(const struct ration_case *c,
                                             const struct ration_item *item)
{
    bool allowed = item->verdict == RATION_ALLOW;
    uint64_t full_after_ns = item->is_turned_away
                                 ? item->free_after_ns
                                 : ration_any_full_after_ns(&item->after, c->now_ns);

    return (struct ration_decision){
        .verdict = item->verdict,
        .limit_index = item->rule_index,
        .limiter_index = item->limiter_index,
        .limit = ration_any_burst(item->before.limit),
        .remaining = remaining_of(c, item),
        .retry_after_ns = allowed ? 0 : passes_after(c, item, 0),
        .reset_after_ns = later_of(full_after_ns, item->hold_ns),
        .delay_ns = allowed ? item->delay_ns : 0,
    };
}

struct ration_decision ration_judge_describe_all(struct ration_case *c)
{
    struct ration_decision decision = {.verdict = c->verdict, .remaining = UINT64_MAX};

    if (c->verdict == RATION_ALLOW) {
        uint64_t least = UINT64_MAX;

        c->binding = -1;
        for (uint32_t i = 0; i < c->item_count; i++) {
            uint64_t left = remaining_of(c, &c->items[i]);

            if (!c->items[i].is_shadow && (c->binding < 0 || left < least)) {
                least = left;
                c->binding = (int)i;
            }
        }
    }
    if (c->binding >= 0)
        decision = ration_judge_describe(c, &c->items[c->binding]);
    decision.verdict = c->verdict;
    decision.retry_after_ns = c->verdict == RATION_ALLOW ? 0 : c->wait_ns;
    decision.delay_ns = c->verdict == RATION_ALLOW ? c->wait_ns : 0;
    return decision;
}
