/*
 * batch: checks on their way to Redis and back.
 *
 * What a check needs is copied, keys too: it is needed again if Redis does not decide. The batch stays
 * inside the grace period, so that the policy it was prepared by is there when it is told.
 */
#include <stdlib.h>
#include <string.h>

#include "gate/batch.h"
#include "limiter/limiter.h"

#define ENTRIES_FIRST 4
#define LOOK_EVERY    128

ration_gate_batch *ration_gate_batch_create(ration_gate_link *link,
                                            const struct ration_visit *guard, uint64_t now_ns,
                                            ration_gate_batch_done *done, void *context)
{
    ration_gate_batch *batch = calloc(1, sizeof(*batch));

    if (batch == NULL)
        return NULL;
    batch->link = link;
    batch->now_ns = now_ns;
    batch->done = done;
    batch->context = context;
    ration_gate_hold_plan(link->gate, guard, &batch->guard);
    batch->plan = batch->guard.plan;
    return batch;
}

static void free_batch(ration_gate_batch *batch)
{
    for (size_t i = 0; i < batch->count; i++) {
        if (batch->entries[i]->keys != batch->entries[i]->inside)
            free(batch->entries[i]->keys);
        free(batch->entries[i]);
    }
    ration_gate_leave(&batch->guard);
    free(batch->entries);
    free(batch);
}

void ration_gate_batch_free(ration_gate_batch *batch)
{
    if (batch == NULL)
        return;
    if (batch->left > 0)
        batch->is_abandoned = true;
    else
        free_batch(batch);
}

size_t ration_gate_batch_count(const ration_gate_batch *batch)
{
    return batch->count;
}

const struct ration_check *ration_gate_batch_check(const ration_gate_batch *batch, size_t index)
{
    return &batch->entries[index]->check;
}

/* Adding --------------------------------------------------------------------------------------- */

static struct ration_gate_entry *add_entry(ration_gate_batch *batch)
{
    struct ration_gate_entry *entry;

    if (batch->count == batch->room) {
        size_t room = batch->room > 0 ? 2 * batch->room : ENTRIES_FIRST;
        struct ration_gate_entry **entries = realloc(batch->entries, room * sizeof(entries[0]));

        if (entries == NULL)
            return NULL;
        batch->entries = entries;
        batch->room = room;
    }
    entry = malloc(sizeof(*entry));
    if (entry == NULL)
        return NULL;
    entry->batch = batch;
    entry->is_throttle = false;
    entry->followers = entry->next = NULL;
    entry->followers_end = &entry->followers;
    entry->follower_count = entry->wanted = entry->deadline_ns = 0;
    entry->keys = entry->inside;
    entry->check.parts = entry->parts;
    batch->entries[batch->count++] = entry;
    return entry;
}

/* Keys outlive the request. False: no memory. */
static bool keep_keys(struct ration_gate_entry *entry)
{
    struct ration_gate_prepared *prepared = &entry->prepared;
    size_t size = 0, used = 0;

    for (uint32_t i = 0; i < prepared->match.limit_count; i++)
        size += prepared->keys[i].size;
    if (size > sizeof(entry->inside)) {
        char *keys = malloc(size);

        if (keys == NULL)
            return false;
        entry->keys = keys;
    }
    for (uint32_t i = 0; i < prepared->match.limit_count; i++) {
        struct ration_key *key = &prepared->keys[i];

        if (key->size > 0)
            memcpy(entry->keys + used, key->bytes, key->size);
        key->bytes = entry->keys + used;
        used += key->size;
        prepared->asks[i].request = key;
    }
    return true;
}

ration_status ration_gate_batch_add(ration_gate_batch *batch, const struct ration_check *check)
{
    char room[RATION_CHECK_KEYS_ROOM];
    struct ration_gate_desk desk = {
        .gate = batch->link->gate, .plan = batch->plan, .room = room, .room_size = sizeof(room)};
    struct ration_gate_entry *entry = add_entry(batch);

    if (entry == NULL)
        return RATION_ENOMEM;
    entry->check = *check;
    entry->check.parts = entry->parts;
    (void)ration_gate_prepare(&desk, &entry->check,
                              &entry->prepared); /* the room is enough, or never */
    if (entry->check.status == RATION_OK && !keep_keys(entry)) {
        ration_gate_refuse(batch->link->gate, &entry->check, RATION_ENOMEM,
                           ration_status_text(RATION_ENOMEM));
        entry->prepared.match.limit_count = 0;
    }
    entry->check.attributes = NULL;
    entry->check.attribute_count = 0;
    return RATION_OK;
}

ration_status ration_gate_batch_add_throttle(ration_gate_batch *batch, const struct ration_key *key,
                                             const struct ration_limit *limit, uint64_t cost_tokens,
                                             bool is_peek)
{
    ration_limiter *throttle = batch->link->gate->throttle;
    struct ration_gate_entry *entry;

    if (!ration_algorithm_is_gcra(limit) || limit->start != RATION_START_FULL)
        return RATION_EUNFIT;
    if (key->size > RATION_KEY_SIZE_MAX)
        return RATION_EINVAL;
    entry = add_entry(batch);
    if (entry == NULL)
        return RATION_ENOMEM;
    entry->is_throttle = true;
    entry->limit = *limit;
    strcpy(entry->limit.name, RATION_POLICY_THROTTLE);
    entry->check = (struct ration_check){
        .cost_tokens = cost_tokens, .is_peek = is_peek, .parts = entry->parts};
    entry->prepared.match = (struct ration_policy_match){.limit_count = 1};
    entry->prepared.keys[0] = *key;
    entry->prepared.asks[0] = (struct ration_call_ask){throttle, key, cost_tokens, &entry->limit};
    if (!keep_keys(entry)) {
        free(entry);
        batch->count--;
        return RATION_ENOMEM;
    }
    return RATION_OK;
}

struct ration_gate_case ration_gate_entry_case(struct ration_gate_entry *entry)
{
    return (struct ration_gate_case){
        .gate = entry->batch->link->gate,
        .plan = entry->batch->plan,
        .check = &entry->check,
        .prepared = &entry->prepared,
        .given = entry->is_throttle ? &entry->limit : NULL,
        .now_ns = entry->batch->now_ns,
    };
}

/* Without Redis -------------------------------------------------------------------------------- */

/* The limits that decide locally; false: one says that nothing may be decided without Redis. */
static bool keep_local(const struct ration_gate_plan *plan, struct ration_gate_prepared *prepared)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < prepared->match.limit_count; i++) {
        const struct ration_policy_limit *limit =
            ration_policy_limit_at(plan->policy, prepared->match.limits[i]);

        if (limit->on_backend_error == RATION_POLICY_FALLBACK_DENY && !limit->is_shadow)
            return false;
        if (limit->on_backend_error != RATION_POLICY_FALLBACK_LOCAL)
            continue;
        prepared->match.limits[count] = prepared->match.limits[i];
        prepared->keys[count] = prepared->keys[i];
        prepared->asks[count] = prepared->asks[i];
        prepared->asks[count].request = &prepared->keys[count];
        count++;
    }
    prepared->match.limit_count = count;
    return true;
}

/* A limit that came with a request, by this node's share of it. */
static void decide_throttle_locally(struct ration_gate_entry *entry)
{
    ration_gate *gate = entry->batch->link->gate;
    struct ration_limit share = ration_gate_share(gate->remote, &entry->limit);
    struct ration_batch_item item = {
        .request = &entry->prepared.keys[0],
        .cost_tokens = entry->check.cost_tokens,
        .limit = &share,
        .decision = &entry->check.decision,
        .is_peek = entry->check.is_peek,
    };

    ration_limiter_take_batch(gate->throttle, &item, 1, entry->batch->now_ns);
    entry->check.status = item.status;
}

void ration_gate_entry_decide_without(struct ration_gate_entry *entry)
{
    ration_gate_batch *batch = entry->batch;
    ration_gate *gate = batch->link->gate;
    struct ration_check *check = &entry->check;

    ration_grace_add(&gate->grace, RATION_GRACE_DEGRADED);
    if (entry->is_throttle) {
        decide_throttle_locally(entry);
    } else if (!keep_local(batch->plan, &entry->prepared)) {
        ration_gate_refuse(gate, check, RATION_ESTORE,
                           "Redis cannot be asked, and the policy lets nobody pass without it");
    } else {
        check->part_count = entry->prepared.match.limit_count;
        ration_gate_decide(gate, batch->plan, check, &entry->prepared, batch->now_ns);
    }
    check->is_degraded = 1;
}

/* Answers -------------------------------------------------------------------------------------- */

void ration_gate_batch_complete(ration_gate_batch *batch)
{
    if (batch->left > 0 || batch->is_sending)
        return;
    if (batch->is_abandoned)
        free_batch(batch);
    else
        batch->done(batch->context);
}

void ration_gate_entry_answer(struct ration_gate_entry *entry, const struct ration_redis_told *told,
                              struct ration_redis_portion portion)
{
    ration_gate_batch *batch = entry->batch;
    struct ration_gate_case c = ration_gate_entry_case(entry);

    if (told != NULL)
        ration_gate_entry_learn(entry, told, portion);
    else
        ration_gate_entry_owe_again(entry);
    if (told != NULL && told->decision.verdict == RATION_ALLOW)
        ration_gate_entry_draw_parts(entry);
    if (!batch->is_abandoned && told != NULL)
        ration_gate_case_tell(&c, told);
    else if (!batch->is_abandoned)
        ration_gate_entry_decide_without(entry);
    ration_gate_followers_serve(entry, told != NULL);
    batch->left--; /* only now: those who follow may be the batch's last */
    ration_gate_batch_complete(batch);
}

static void on_decided(void *context, const struct ration_redis_told *told,
                       enum ration_redis_undecided why)
{
    struct ration_gate_entry *entry = context;

    if (told == NULL && why == RATION_REDIS_UNKNOWN) /* it may have been told */
        memset(entry->owed, 0, sizeof(entry->owed));
    ration_gate_entry_answer(entry, told, (struct ration_redis_portion){0, 0});
}

void ration_gate_entry_ask(struct ration_gate_entry *entry)
{
    ration_gate_batch *batch = entry->batch;
    const struct ration_gate_prepared *prepared = &entry->prepared;
    struct ration_redis_ask asked = {
        .is_look = entry->check.is_peek,
        .has_now = batch->link->gate->remote->has_manual_clock,
        .now_ns = batch->now_ns,
        .deadline_ns = entry->deadline_ns > 0 ? entry->deadline_ns : batch->deadline_ns,
        .part_count = prepared->match.limit_count,
    };

    for (uint32_t i = 0; i < asked.part_count; i++) {
        const struct ration_policy_limit *limit =
            entry->is_throttle
                ? NULL
                : ration_policy_limit_at(batch->plan->policy, prepared->match.limits[i]);

        asked.parts[i] = (struct ration_redis_part){
            .limit = limit != NULL ? &limit->limit : &entry->limit,
            .key = prepared->keys[i],
            .cost_tokens = prepared->asks[i].cost_tokens,
            .stale_after_ns = limit != NULL && limit->stale_after_ns > 0 ? limit->stale_after_ns
                                                                         : RATION_NS_PER_DAY,
            .changed_ago_ns =
                limit != NULL ? ration_gate_changed_ago_ns(batch->plan, prepared->match.limits[i],
                                                           batch->now_ns)
                              : 0,
            .is_shadow = limit != NULL && limit->is_shadow,
            .is_given = limit == NULL,
        };
        entry->owed[i] = limit == NULL ? 0 : ration_gate_entry_collect(entry, i);
        asked.parts[i].owed_tokens = entry->owed[i];
    }
    batch->left++;
    ration_redis_client_take(batch->link->client, &asked, on_decided, entry);
}

void ration_gate_batch_look(ration_gate_batch *batch, size_t index)
{
    if (batch->link->poll_loop != NULL && index % LOOK_EVERY == LOOK_EVERY - 1)
        ration_poll_loop_look(batch->link->poll_loop);
}

bool ration_gate_batch_send(ration_gate_batch *batch)
{
    struct ration_gate_entry *leaders = NULL;

    batch->is_sending = true;
    /* a connection may have been waited for, and adding may have taken several turns of a loop */
    batch->now_ns = ration_gate_remote_now(batch->link->gate, batch->now_ns);
    for (size_t i = 0; i < batch->count; i++) {
        struct ration_gate_entry *entry = batch->entries[i];
        struct ration_gate_case c = ration_gate_entry_case(entry);

        ration_gate_batch_look(batch, i);
        if (entry->check.status != RATION_OK)
            continue;
        if (entry->prepared.match.limit_count == 0)
            ration_gate_answer_plainly(batch->link->gate, &entry->check);
        else if (!ration_gate_case_is_near(&c))
            ration_gate_entry_ask(entry);
        else if (ration_gate_entry_decide_near(entry))
            continue;
        else if (ration_gate_entry_has_lease(entry))
            ration_gate_entry_join(entry, &leaders);
        else
            ration_gate_entry_ask(entry);
    }
    ration_gate_leaders_ask(leaders);
    batch->is_sending = false;
    return batch->left == 0;
}
