/*
 * editing: buckets in Redis changed by hand, one after the other.
 *
 * Token buckets are changed by a script. Any other bucket is asked about, its next state is computed here by the same
 * functions as in memory, and it is replaced if it is still what it was; if not, all that again, until the deadline.
 */
#include <stdlib.h>
#include <string.h>

#include "gate/link.h"
#include "gate/near.h"
#include "limiter/limiter.h"
#include "limiter/state.h"
#include "redis/edit.h"

#define KEEP_EXTRA_MS 3600000 /* where Redis' time is not the gate's */

struct target {
    const struct ration_limit *limit;
    const struct ration_policy_limit *rule; /* NULL: the limit came with a request */
    const struct ration_hash *secret;       /* the rule's */
    struct ration_key key;
    uint64_t tokens;
    uint64_t keep_ms;
    uint64_t changed_ago_ns; /* for how long the limit has been what it is */
};

struct ration_gate_editing {
    ration_gate_link *link;
    struct ration_visit guard;
    enum ration_gate_edit_kind kind;
    uint64_t until_ns;
    uint64_t now_ns;
    ration_gate_edited *done; /* NULL: nobody wants to know */
    void *context;
    bool is_beginning;
    bool is_over;

    size_t index;         /* of the target that it is about */
    uint64_t deadline_ns; /* of all calls about it */
    ration_status status;
    size_t edited_count;
    size_t unfit_count;
    size_t target_count;
    struct target *targets;
    char *keys;
    struct ration_limit throttle;
};

static void step(struct ration_gate_editing *editing);
static void look(struct ration_gate_editing *editing);

static void free_editing(struct ration_gate_editing *editing)
{
    ration_gate_leave(&editing->guard);
    free(editing->targets);
    free(editing->keys);
    free(editing);
}

static void finish(struct ration_gate_editing *editing)
{
    ration_status status = editing->status;

    if (status == RATION_OK && editing->edited_count == 0 && editing->unfit_count > 0)
        status = RATION_EUNFIT;
    if (editing->done != NULL)
        editing->done(editing->context, status, editing->edited_count);
    editing->is_over = true;
    if (!editing->is_beginning)
        free_editing(editing);
}

/* One target ------------------------------------------------------------------------------------ */

static const struct target *target_of(const struct ration_gate_editing *editing)
{
    return &editing->targets[editing->index];
}

static struct ration_redis_bucket bucket_of(const struct ration_gate_editing *editing)
{
    const struct target *target = target_of(editing);

    return (struct ration_redis_bucket){target->limit, target->key,
                                        target->limit == &editing->throttle};
}

/* What this node knows of the bucket is old. */
static void tell_near(const struct ration_gate_editing *editing)
{
    const struct ration_gate_remote *remote = editing->link->gate->remote;
    const struct target *target = target_of(editing);
    struct ration_near_ask ask = {
        .limit = target->rule,
        .secret = target->secret,
        .key = &target->key,
        .cost_tokens = 1,
        .node_count = remote->options->node_count,
    };

    if (target->rule != NULL)
        ration_near_edited(remote->near, &ask, editing->kind, editing->now_ns);
}

static void go_on(struct ration_gate_editing *editing)
{
    tell_near(editing);
    editing->index++;
    step(editing);
}

static void give_up(struct ration_gate_editing *editing)
{
    tell_near(editing); /* it may have been done */
    editing->status = RATION_ESTORE;
    finish(editing);
}

static void on_removed(void *context, uint64_t count, bool is_known)
{
    struct ration_gate_editing *editing = context;

    if (!is_known) {
        give_up(editing);
        return;
    }
    /* of the policy's limits those concerned are counted, of others those that were there */
    editing->edited_count += target_of(editing)->limit == &editing->throttle ? count : 1;
    go_on(editing);
}

/* Whatever it holds. */
static void remove_bucket(struct ration_gate_editing *editing)
{
    struct ration_redis_bucket bucket = bucket_of(editing);

    ration_redis_remove(editing->link->client, &bucket, editing->deadline_ns, on_removed, editing);
}

static void on_swapped(void *context, uint64_t count, bool is_known)
{
    struct ration_gate_editing *editing = context;

    if (!is_known) {
        give_up(editing);
    } else if (count == 0) {
        look(editing);
    } else {
        editing->edited_count++;
        go_on(editing);
    }
}

/* A key that nobody has asked about stays one, unless there is something to be remembered of it. */
static bool is_nothing(const struct ration_redis_told *told, const struct ration_redis_next *next)
{
    return told->texts[0].bytes == NULL && next->hold_ns == 0 &&
           memcmp(&next->any.state, &told->befores[0].state, sizeof(next->any.state)) == 0;
}

static void on_looked(void *context, const struct ration_redis_told *told,
                      enum ration_redis_undecided why)
{
    struct ration_gate_editing *editing = context;
    const struct target *target = target_of(editing);
    struct ration_redis_bucket bucket = bucket_of(editing);
    struct ration_redis_next next = {.keep_ms = target->keep_ms};
    uint64_t until_ns; /* told by the gate's clock: so long from now on */

    if (told == NULL) {
        if (editing->kind == RATION_EDIT_RESET && why == RATION_REDIS_NOT_DONE)
            remove_bucket(editing);
        else
            give_up(editing);
        return;
    }
    if (editing->kind == RATION_EDIT_RESET && told->texts[0].bytes == NULL) {
        on_swapped(editing, 1, true); /* it begins when it is asked about */
        return;
    }
    until_ns = told->now_ns +
               (editing->until_ns > editing->now_ns ? editing->until_ns - editing->now_ns : 0);
    next.any = told->befores[0];
    next.hold_ns = told->holds_ns[0];
    if (editing->kind == RATION_EDIT_RESET) {
        next.any = ration_any_start(&next.any, told->now_ns);
        next.hold_ns = 0;
    } else if (editing->kind == RATION_EDIT_REFUND) {
        next.any = ration_any_refund(&next.any, target->tokens, told->now_ns);
    } else if (ration_any_can_block(target->limit)) {
        next.any = ration_any_block(&next.any, until_ns);
    } else if (next.hold_ns < until_ns) {
        next.hold_ns = until_ns;
    }
    if (is_nothing(told, &next))
        on_swapped(editing, 1, true);
    else
        ration_redis_swap(editing->link->client, &bucket, told, &next, editing->deadline_ns,
                          on_swapped, editing);
}

static void look(struct ration_gate_editing *editing)
{
    struct ration_redis_bucket bucket = bucket_of(editing);
    struct ration_redis_ask ask = {
        .is_look = true,
        .has_now = editing->link->gate->remote->has_manual_clock,
        .now_ns = editing->now_ns,
        .deadline_ns = editing->deadline_ns,
        .part_count = 1,
        .parts = {{.limit = bucket.limit,
                   .key = bucket.key,
                   .changed_ago_ns = target_of(editing)->changed_ago_ns,
                   .is_given = bucket.is_given}},
    };

    ration_redis_client_take(editing->link->client, &ask, on_looked, editing);
}

static void on_edited(void *context, enum ration_redis_edited edited)
{
    struct ration_gate_editing *editing = context;

    if (edited == RATION_REDIS_EDITED_NOT_SO)
        look(editing);
    else if (edited == RATION_REDIS_EDITED_WRONG && editing->kind == RATION_EDIT_RESET)
        remove_bucket(editing);
    else if (edited == RATION_REDIS_EDITED_WRONG)
        give_up(editing);
    else if (editing->kind == RATION_EDIT_RESET)
        on_removed(editing, edited == RATION_REDIS_EDITED, edited != RATION_REDIS_EDITED_PERHAPS);
    else
        on_swapped(editing, 1, edited != RATION_REDIS_EDITED_PERHAPS);
}

static void edit_bucket(struct ration_gate_editing *editing)
{
    static const enum ration_redis_edit_kind kinds[] = {
        [RATION_EDIT_REFUND] = RATION_REDIS_REFUND,
        [RATION_EDIT_RESET] = RATION_REDIS_FILL,
        [RATION_EDIT_BLOCK] = RATION_REDIS_BLOCK,
    };
    struct ration_redis_edit edit = {
        .bucket = bucket_of(editing),
        .kind = kinds[editing->kind],
        .tokens = target_of(editing)->tokens,
        .block_ns = editing->until_ns > editing->now_ns ? editing->until_ns - editing->now_ns : 0,
        .has_now = editing->link->gate->remote->has_manual_clock,
        .now_ns = editing->now_ns,
    };

    ration_redis_edit(editing->link->client, &edit, editing->deadline_ns, on_edited, editing);
}

static void step(struct ration_gate_editing *editing)
{
    struct ration_redis_bucket bucket;

    if (editing->index == editing->target_count) {
        finish(editing);
        return;
    }
    bucket = bucket_of(editing);
    editing->deadline_ns = ration_redis_client_deadline(editing->link->client);
    /* One that begins full is as good as none; another begins now. */
    if (ration_redis_edit_fits(bucket.limit))
        edit_bucket(editing);
    else if (editing->kind == RATION_EDIT_RESET && bucket.limit->start == RATION_START_FULL)
        remove_bucket(editing);
    else
        look(editing);
}

/* All of them ------------------------------------------------------------------------------------ */

static uint64_t keep_ms_of(const struct ration_gate *gate, const struct ration_policy_limit *limit)
{
    uint64_t stale_ns = limit == NULL || limit->limit.start == RATION_START_FULL ? 0
                        : limit->stale_after_ns > 0 ? limit->stale_after_ns
                                                    : RATION_NS_PER_DAY;

    return stale_ns / RATION_NS_PER_MS + (gate->remote->has_manual_clock ? KEEP_EXTRA_MS : 0);
}

/* Copies a key to where the others are. */
static void add_target(struct ration_gate_editing *editing, const struct target *target,
                       size_t *keys_used)
{
    struct target *copy = &editing->targets[editing->target_count++];

    *copy = *target;
    if (target->key.size > 0)
        memcpy(editing->keys + *keys_used, target->key.bytes, target->key.size);
    copy->key.bytes = editing->keys + *keys_used;
    *keys_used += target->key.size;
}

/* The limits of a request, with their keys. */
static ration_status find_limits(struct ration_gate_editing *editing,
                                 const struct ration_gate_task *task)
{
    const struct ration_gate *gate = editing->link->gate;
    const struct ration_gate_plan *plan = editing->guard.plan;
    const ration_policy *policy = plan->policy;
    const struct ration_edit *edit = task->edit;
    struct ration_policy_match match;
    size_t keys_used = 0;

    editing->targets = calloc(RATION_POLICY_MATCHES_MAX, sizeof(editing->targets[0]));
    editing->keys = malloc((size_t)RATION_POLICY_MATCHES_MAX * (RATION_KEY_SIZE_MAX + 1));
    if (editing->targets == NULL || editing->keys == NULL)
        return RATION_ENOMEM;
    if (ration_gate_match_edit(gate, policy, edit, &match) != RATION_OK)
        return RATION_EINVAL;
    for (uint32_t i = 0; i < match.limit_count; i++) {
        const struct ration_policy_limit *limit = ration_policy_limit_at(policy, match.limits[i]);
        struct target target = {
            .limit = &limit->limit,
            .rule = limit,
            .secret = &plan->hold_secrets[match.limits[i]],
            .keep_ms = keep_ms_of(gate, limit),
            .changed_ago_ns = ration_gate_changed_ago_ns(plan, match.limits[i], task->now_ns)};
        char room[RATION_CHECK_KEYS_ROOM];

        if (!ration_gate_is_meant(limit, edit, task->kind))
            continue;
        if (ration_policy_key(policy, match.limits[i], edit->attributes, edit->attribute_count,
                              room, sizeof(room), &target.key) != RATION_OK ||
            ration_policy_cost(policy, match.limits[i], edit->attributes, edit->attribute_count,
                               task->tokens, &target.tokens) != RATION_OK)
            return RATION_EINVAL;
        if (task->kind == RATION_EDIT_BLOCK && limit->is_shadow)
            editing->unfit_count++;
        else
            add_target(editing, &target, &keys_used);
    }
    return RATION_OK;
}

/* Keys of limits that came with requests. */
static ration_status find_keys(struct ration_gate_editing *editing,
                               const struct ration_gate_task *task)
{
    size_t size = 1, keys_used = 0;

    if (task->limit != NULL)
        editing->throttle = *task->limit;
    else
        (void)ration_limit_per_second(1,
                                      &editing->throttle); /* any: a block and a reset are alike */
    strcpy(editing->throttle.name, RATION_POLICY_THROTTLE);
    for (size_t i = 0; i < task->key_count; i++)
        size += task->keys[i].size;
    editing->targets = calloc(task->key_count + 1, sizeof(editing->targets[0]));
    editing->keys = malloc(size);
    if (editing->targets == NULL || editing->keys == NULL)
        return RATION_ENOMEM;
    for (size_t i = 0; i < task->key_count; i++) {
        struct target target = {.limit = &editing->throttle,
                                .key = task->keys[i],
                                .tokens = task->tokens,
                                .keep_ms = keep_ms_of(editing->link->gate, NULL)};

        add_target(editing, &target, &keys_used);
    }
    return RATION_OK;
}

static ration_status find_targets(struct ration_gate_editing *editing,
                                  const struct ration_gate_task *task)
{
    if (task->kind == RATION_EDIT_BLOCK && !ration_limiter_block_fits(task->until_ns, task->now_ns))
        return RATION_ERANGE;
    return task->edit != NULL ? find_limits(editing, task) : find_keys(editing, task);
}

ration_gate_editing *ration_gate_edit_begin(ration_gate_link *link,
                                            const struct ration_gate_task *task,
                                            ration_gate_edited *done, void *context)
{
    struct ration_gate_editing *editing;

    if ((unsigned)task->kind > RATION_EDIT_BLOCK) {
        done(context, RATION_EINVAL, 0);
        return NULL;
    }
    editing = calloc(1, sizeof(*editing));
    if (editing == NULL) {
        done(context, RATION_ENOMEM, 0);
        return NULL;
    }
    editing->link = link;
    ration_gate_hold_plan(link->gate, task->edit != NULL ? task->edit->guard : NULL,
                          &editing->guard);
    editing->kind = task->kind;
    editing->until_ns = task->until_ns;
    editing->now_ns = task->now_ns;
    editing->done = done;
    editing->context = context;
    editing->is_beginning = true;
    editing->status = find_targets(editing, task);
    if (editing->status == RATION_OK)
        step(editing);
    else
        finish(editing);
    editing->is_beginning = false;
    if (!editing->is_over)
        return editing;
    free_editing(editing);
    return NULL;
}

void ration_gate_editing_forget(ration_gate_editing *editing)
{
    if (editing != NULL)
        editing->done = NULL;
}
