/*
 * batch: checks on their way to Redis and back.
 *
 * What a check needs is copied, keys too: it is needed again if Redis does not decide. The batch stays
 * inside the grace period, so that the policy it was prepared by is there when it is told.
 */
#include <stdlib.h>
#include <string.h>

#include "gate/link.h"
#include "gate/near.h"
#include "limiter/limiter.h"
#include "limiter/tally.h"
#include "redis/draw.h"

#define KEYS_INSIDE   192 /* bytes of keys that take no memory of their own */
#define ENTRIES_FIRST 4
#define LOOK_EVERY    32
#define THROTTLE_NAME "throttle"

/* One check, or one limit that came with a request. */
struct ration_gate_entry {
    struct ration_gate_batch *batch;
    struct ration_check check;
    struct ration_check_part parts[RATION_POLICY_MATCHES_MAX];
    struct ration_gate_prepared prepared;
    struct ration_limit limit; /* a throttle's */
    bool is_throttle;
    bool is_asked;                            /* Redis has not answered yet */
    uint64_t owed[RATION_POLICY_MATCHES_MAX]; /* what it is told of with the ask */
    struct ration_gate_entry
        *followers; /* of the same key, which wait for what this one's lease brings */
    struct ration_gate_entry *next; /* of those */
    uint64_t follower_count;
    struct ration_gate_entry *next_leader; /* of the link's */
    uint64_t wanted;                       /* of a lease */
    char *keys;                            /* inside, or owned */
    char inside[KEYS_INSIDE];
};

struct ration_gate_batch {
    ration_gate_link *link;
    const struct ration_gate_plan *plan;
    uint32_t phase;
    uint64_t now_ns;
    ration_gate_batch_done *done;
    void *context;
    size_t count;
    size_t room;
    size_t left; /* entries that Redis has not answered */
    bool is_sending;
    bool is_abandoned; /* released with some left: the last answer frees it */
    struct ration_gate_entry **entries;
};

ration_gate_batch *ration_gate_batch_create(ration_gate_link *link, uint64_t now_ns,
                                            ration_gate_batch_done *done, void *context)
{
    ration_gate_batch *batch = calloc(1, sizeof(*batch));

    if (batch == NULL)
        return NULL;
    batch->link = link;
    batch->now_ns = now_ns;
    batch->done = done;
    batch->context = context;
    batch->phase = ration_grace_enter(&link->gate->grace);
    batch->plan = ration_gate_plan(link->gate);
    return batch;
}

static void free_batch(ration_gate_batch *batch)
{
    for (size_t i = 0; i < batch->count; i++) {
        if (batch->entries[i]->keys != batch->entries[i]->inside)
            free(batch->entries[i]->keys);
        free(batch->entries[i]);
    }
    ration_grace_leave(&batch->link->gate->grace, batch->phase);
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
    entry->is_throttle = entry->is_asked = false;
    entry->followers = entry->next = NULL;
    entry->follower_count = entry->wanted = 0;
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
    strcpy(entry->limit.name, THROTTLE_NAME);
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

/* Leases --------------------------------------------------------------------------------------- */

/* One that was asked for. It outlives the batch, so all of it is copied. */
struct draw {
    ration_gate *gate;
    struct ration_policy_limit limit;
    struct ration_hash secret;
    struct ration_key key;
    uint64_t wanted;
    uint64_t asked_ns;
    char bytes[];
};

static void on_drawn(void *context, const struct ration_redis_told *told, uint64_t drawn_tokens)
{
    struct draw *draw = context;
    ration_gate *gate = draw->gate;
    struct ration_near_ask ask = {
        .limit = &draw->limit,
        .secret = &draw->secret,
        .key = &draw->key,
        .cost_tokens = 1,
        .node_count = gate->remote->options.node_count,
    };

    if (told != NULL)
        ration_near_fill(gate->remote->near, &ask,
                         &(struct ration_near_drawn){drawn_tokens, draw->wanted, draw->asked_ns},
                         ration_gate_now(gate));
    free(draw);
}

static void begin_draw(ration_gate_batch *batch, const struct ration_near_ask *ask, uint64_t tokens)
{
    ration_gate *gate = batch->link->gate;
    struct ration_redis_lease lease = {
        .limit = &ask->limit->limit,
        .key = *ask->key,
        .want_tokens = tokens,
        .length_ns = ration_near_lease_ns(ask->limit),
        .has_now = gate->remote->has_manual_clock,
        .now_ns = batch->now_ns,
    };
    struct draw *draw = malloc(sizeof(*draw) + ask->key->size);

    if (draw == NULL)
        return;
    *draw = (struct draw){.gate = gate,
                          .limit = *ask->limit,
                          .secret = *ask->secret,
                          .key = {draw->bytes, ask->key->size},
                          .wanted = tokens,
                          .asked_ns = batch->now_ns};
    if (ask->key->size > 0)
        memcpy(draw->bytes, ask->key->bytes, ask->key->size);
    lease.back_tokens = ration_near_leftover(gate->remote->near, ask, batch->now_ns);
    ration_redis_draw(batch->link->client, &lease, on_drawn, draw);
}

static struct ration_near_ask near_ask(const struct ration_gate_entry *entry, uint32_t part)
{
    const struct ration_gate_plan *plan = entry->batch->plan;
    uint32_t limit_index = entry->prepared.match.limits[part];

    return (struct ration_near_ask){
        .limit = ration_policy_limit(plan->policy, limit_index),
        .secret = &plan->hold_secrets[limit_index],
        .key = &entry->prepared.keys[part],
        .cost_tokens = entry->prepared.asks[part].cost_tokens,
        .node_count = entry->batch->link->gate->remote->options.node_count,
    };
}

/* Without Redis -------------------------------------------------------------------------------- */

/* The limits that decide locally; false: one says that nothing may be decided without Redis. */
static bool keep_local(const struct ration_gate_plan *plan, struct ration_gate_prepared *prepared)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < prepared->match.limit_count; i++) {
        const struct ration_policy_limit *limit =
            ration_policy_limit(plan->policy, prepared->match.limits[i]);

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

static void decide_without(struct ration_gate_entry *entry)
{
    ration_gate_batch *batch = entry->batch;
    ration_gate *gate = batch->link->gate;
    struct ration_check *check = &entry->check;

    __atomic_add_fetch(&gate->remote->degraded, 1, __ATOMIC_RELAXED);
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

/* What memory counts by itself. */
static void count(const struct ration_gate_entry *entry, const struct ration_redis_told *told)
{
    struct ration_op op = {.kind = RATION_OP_TAKE, .has_details = true, .decision = told->decision};

    for (uint32_t i = 0; i < entry->prepared.match.limit_count; i++) {
        const struct ration_call_ask *ask = &entry->prepared.asks[i];
        struct ration_op_part part = {
            .to = {.config = ration_configs_current(&ask->limiter->configs),
                   .key = entry->prepared.keys[i]},
            .limits = {&entry->limit},
            .costs = {ask->cost_tokens},
            .verdicts = {told->parts[i].verdict},
            .decisions = {told->parts[i]},
        };

        ration_tally_part(&ask->limiter->tally, &op, &part);
    }
}

static void tell(struct ration_gate_entry *entry, const struct ration_redis_told *told)
{
    struct ration_check *check = &entry->check;

    check->decision = told->decision;
    check->status = RATION_OK;
    if (!check->is_peek)
        count(entry, told);
    if (entry->is_throttle) {
        check->decision.limiter_index = 0;
        check->limit = NULL;
        return;
    }
    ration_gate_tell(entry->batch->plan, check, &entry->prepared, told->parts,
                     told->decision.limit > 0 ? (int)told->decision.limiter_index : -1);
}

/* What Redis said is kept for the next time. */
static void learn(struct ration_gate_entry *entry, const struct ration_redis_told *told,
                  uint64_t drawn_tokens)
{
    struct ration_gate_remote *remote = entry->batch->link->gate->remote;
    struct ration_near_drawn drawn = {drawn_tokens, entry->wanted, entry->batch->now_ns};

    for (uint32_t i = 0; i < entry->prepared.match.limit_count && !entry->is_throttle; i++) {
        struct ration_near_ask ask = near_ask(entry, i);

        if (ask.limit->mode == RATION_POLICY_STRICT || entry->check.is_peek || ask.cost_tokens == 0)
            continue;
        ration_near_learn(remote->near, &ask, &told->parts[i], &drawn,
                          ration_gate_now(entry->batch->link->gate));
    }
}

/* What Redis was to be told of, and perhaps was not: it will be told again, if need be. */
static void owe_again(struct ration_gate_entry *entry)
{
    struct ration_gate_remote *remote = entry->batch->link->gate->remote;

    for (uint32_t i = 0; i < entry->prepared.match.limit_count && !entry->is_throttle; i++) {
        struct ration_near_ask ask = near_ask(entry, i);

        ration_near_owe(remote->near, &ask, entry->owed[i], entry->batch->now_ns);
    }
}

static bool decide_near(struct ration_gate_entry *entry);
static void ask_with_lease(struct ration_gate_entry *entry);

/* One of a batch was answered: perhaps it was the last. */
static void complete(ration_gate_batch *batch)
{
    if (batch->left > 0 || batch->is_sending)
        return;
    if (batch->is_abandoned)
        free_batch(batch);
    else
        batch->done(batch->context);
}

/* Where those who ask for the key of an entry are listed. */
static struct ration_gate_entry **leaders_of(const struct ration_gate_entry *entry)
{
    const struct ration_key *key = &entry->prepared.keys[0];
    const unsigned char *bytes = key->bytes;
    unsigned mixed = key->size == 0 ? 0 : bytes[key->size - 1] * 31u + bytes[key->size / 2];

    return &entry->batch->link->leaders[mixed % RATION_GATE_LEADER_LISTS];
}

static void stop_leading(struct ration_gate_entry *entry)
{
    for (struct ration_gate_entry **at = leaders_of(entry); *at != NULL; at = &(*at)->next_leader)
        if (*at == entry) {
            *at = entry->next_leader;
            return;
        }
}

/*
 * Those who waited for the same key: by what the lease brought; or by asking, the first for the others; or
 * without Redis, which has just not answered.
 */
static void serve_followers(struct ration_gate_entry *leader, bool is_answered)
{
    struct ration_gate_entry *entry = leader->followers;
    uint64_t count = leader->follower_count;

    leader->followers = NULL;
    while (entry != NULL) {
        struct ration_gate_entry *next = entry->next;
        ration_gate_batch *batch = entry->batch;

        batch->left--;
        count--;
        entry->is_asked = false;
        entry->next = NULL;
        if (!batch->is_abandoned && !is_answered) {
            decide_without(entry);
        } else if (!batch->is_abandoned && !decide_near(entry)) {
            entry->followers = next;
            entry->follower_count = count;
            ask_with_lease(entry);
            return;
        }
        complete(batch);
        entry = next;
    }
}

static void on_answer(struct ration_gate_entry *entry, const struct ration_redis_told *told,
                      uint64_t drawn_tokens)
{
    ration_gate_batch *batch = entry->batch;

    if (told != NULL)
        learn(entry, told, drawn_tokens);
    else
        owe_again(entry);
    if (!batch->is_abandoned && told != NULL)
        tell(entry, told);
    else if (!batch->is_abandoned)
        decide_without(entry);
    serve_followers(entry, told != NULL);
    entry->is_asked = false;
    batch->left--; /* only now: those who follow may be the batch's last */
    complete(batch);
}

static void on_decided(void *context, const struct ration_redis_told *told, const char *trouble)
{
    (void)trouble;
    on_answer(context, told, 0);
}

static void on_leased(void *context, const struct ration_redis_told *told, uint64_t drawn_tokens)
{
    stop_leading(context);
    on_answer(context, told, drawn_tokens);
}

/* A single limit with leases: its cost, and what it and others may need next, in one call. */
static void ask_with_lease(struct ration_gate_entry *entry)
{
    ration_gate_batch *batch = entry->batch;
    struct ration_gate_remote *remote = batch->link->gate->remote;
    struct ration_near_ask near = near_ask(entry, 0);
    uint64_t want = ration_near_want(remote->near, &near, entry->follower_count, batch->now_ns);
    struct ration_redis_lease lease = {
        .limit = &near.limit->limit,
        .key = *near.key,
        .cost_tokens = near.cost_tokens,
        .want_tokens = want,
        .back_tokens = ration_near_leftover(remote->near, &near, batch->now_ns),
        .length_ns = ration_near_lease_ns(near.limit),
        .has_now = remote->has_manual_clock,
        .now_ns = batch->now_ns,
    };

    entry->owed[0] = 0;
    entry->wanted = want;
    entry->is_asked = true;
    entry->next_leader = *leaders_of(entry);
    *leaders_of(entry) = entry;
    batch->left++;
    ration_redis_draw(batch->link->client, &lease, on_leased, entry);
}

static void ask(struct ration_gate_entry *entry)
{
    ration_gate_batch *batch = entry->batch;
    const struct ration_gate_prepared *prepared = &entry->prepared;
    struct ration_redis_ask asked = {
        .is_look = entry->check.is_peek,
        .has_now = batch->link->gate->remote->has_manual_clock,
        .now_ns = batch->now_ns,
        .part_count = prepared->match.limit_count,
    };

    for (uint32_t i = 0; i < asked.part_count; i++) {
        const struct ration_policy_limit *limit =
            entry->is_throttle
                ? NULL
                : ration_policy_limit(batch->plan->policy, prepared->match.limits[i]);

        asked.parts[i] = (struct ration_redis_part){
            .limit = limit != NULL ? &limit->limit : &entry->limit,
            .key = prepared->keys[i],
            .cost_tokens = prepared->asks[i].cost_tokens,
            .stale_after_ns = limit != NULL && limit->stale_after_ns > 0 ? limit->stale_after_ns
                                                                         : RATION_NS_PER_DAY,
            .is_shadow = limit != NULL && limit->is_shadow,
        };
        entry->owed[i] = 0;
        if (limit != NULL && limit->mode == RATION_POLICY_LOCAL_FIRST && !asked.is_look &&
            asked.parts[i].cost_tokens > 0) {
            struct ration_near_ask near = near_ask(entry, i);

            entry->owed[i] =
                ration_near_collect(batch->link->gate->remote->near, &near, batch->now_ns);
            asked.parts[i].owed_tokens = entry->owed[i];
        }
    }
    entry->is_asked = true;
    batch->left++;
    ration_redis_client_take(batch->link->client, &asked, on_decided, entry);
}

/* Near ----------------------------------------------------------------------------------------- */

/* Whether all limits of a check may be decided here. */
static bool is_near(const struct ration_gate_entry *entry)
{
    if (entry->is_throttle || entry->check.is_peek)
        return false;
    for (uint32_t i = 0; i < entry->prepared.match.limit_count; i++) {
        const struct ration_policy_limit *limit =
            ration_policy_limit(entry->batch->plan->policy, entry->prepared.match.limits[i]);

        if (limit->mode == RATION_POLICY_STRICT || limit->is_shadow ||
            entry->prepared.asks[i].cost_tokens == 0)
            return false;
    }
    return true;
}

/* The one that decided: it has the least left, or it denies. */
static void tell_near(struct ration_gate_entry *entry, struct ration_redis_told *told,
                      const struct ration_near_result *results, int denied)
{
    uint32_t binding = denied >= 0 ? (uint32_t)denied : 0;

    for (uint32_t i = 0; i < entry->prepared.match.limit_count; i++) {
        told->parts[i] = results[i].decision;
        if (denied < 0 && told->parts[i].remaining < told->parts[binding].remaining)
            binding = i;
    }
    told->decision = told->parts[binding];
    told->decision.limiter_index = binding;
    tell(entry, told);
}

/* Decides a check without Redis, if all of its limits can be. */
static bool decide_near(struct ration_gate_entry *entry)
{
    ration_gate_batch *batch = entry->batch;
    struct ration_gate_remote *remote = batch->link->gate->remote;
    struct ration_near_result results[RATION_POLICY_MATCHES_MAX];
    enum ration_near_answer answer = RATION_NEAR_TAKEN;
    struct ration_redis_told told = {.now_ns = batch->now_ns};
    uint32_t count = 0;

    for (; count < entry->prepared.match.limit_count && answer == RATION_NEAR_TAKEN; count++) {
        struct ration_near_ask ask = near_ask(entry, count);

        answer = ration_near_take(remote->near, &ask, batch->now_ns, &results[count]);
    }
    for (uint32_t i = 0; answer != RATION_NEAR_TAKEN && i + 1 < count; i++) {
        struct ration_near_ask ask = near_ask(entry, i);

        ration_near_put_back(remote->near, &ask, &results[i], batch->now_ns);
    }
    if (answer == RATION_NEAR_LACKS)
        return false;
    for (uint32_t i = 0; answer == RATION_NEAR_TAKEN && i < count; i++) {
        struct ration_near_ask ask = near_ask(entry, i);

        if (results[i].lease_tokens > 0)
            begin_draw(batch, &ask, results[i].lease_tokens);
    }
    for (uint32_t i = count; i < entry->prepared.match.limit_count; i++) /* not asked */
        results[i].decision = (struct ration_decision){
            .verdict = RATION_ALLOW, .limit = near_ask(entry, i).limit->limit.burst};
    __atomic_add_fetch(&remote->near_count, 1, __ATOMIC_RELAXED);
    tell_near(entry, &told, results, answer == RATION_NEAR_DENIED ? (int)count - 1 : -1);
    return true;
}

/* Whether its one limit has leases, and the cost can be had at all. */
static bool has_one_lease(const struct ration_gate_entry *entry)
{
    const struct ration_policy_limit *limit =
        ration_policy_limit(entry->batch->plan->policy, entry->prepared.match.limits[0]);

    return entry->prepared.match.limit_count == 1 && limit->mode == RATION_POLICY_LEASE &&
           entry->prepared.asks[0].cost_tokens <= limit->limit.burst;
}

static bool is_same_key(const struct ration_gate_entry *a, const struct ration_gate_entry *b)
{
    const struct ration_key *key = &a->prepared.keys[0], *other = &b->prepared.keys[0];

    return a->batch->plan == b->batch->plan &&
           a->prepared.match.limits[0] == b->prepared.match.limits[0] && key->size == other->size &&
           memcmp(key->bytes, other->bytes, key->size) == 0;
}

static void follow(struct ration_gate_entry *leader, struct ration_gate_entry *entry)
{
    entry->next = leader->followers;
    leader->followers = entry;
    leader->follower_count++;
    entry->is_asked = true;
    entry->batch->left++;
}

/* Behind the one that asks for the same key, of this batch or of an earlier one; or as one that will ask. */
static void join_leader(struct ration_gate_entry *entry, struct ration_gate_entry **leaders)
{
    struct ration_gate_entry *leader = *leaders_of(entry);

    while (leader != NULL && !is_same_key(leader, entry))
        leader = leader->next_leader;
    if (leader == NULL) {
        leader = *leaders;
        while (leader != NULL && !is_same_key(leader, entry))
            leader = leader->next;
    }
    if (leader != NULL) {
        follow(leader, entry);
    } else {
        entry->next = *leaders;
        *leaders = entry;
    }
}

bool ration_gate_batch_send(ration_gate_batch *batch)
{
    struct ration_gate_entry *leaders = NULL;

    batch->is_sending = true;
    for (size_t i = 0; i < batch->count; i++) {
        struct ration_gate_entry *entry = batch->entries[i];

        /* who waits lets Redis begin with the first while the others are written */
        if (batch->link->poll_loop != NULL && i % LOOK_EVERY == LOOK_EVERY - 1)
            ration_poll_loop_look(batch->link->poll_loop);

        if (entry->check.status == RATION_OK && entry->prepared.match.limit_count > 0 &&
            is_near(entry)) {
            if (decide_near(entry))
                continue;
            if (has_one_lease(entry)) {
                join_leader(entry, &leaders);
                continue;
            }
        }
        if (entry->is_throttle ||
            (entry->check.status == RATION_OK && entry->prepared.match.limit_count > 0))
            ask(entry);
        else if (entry->check.status == RATION_OK)
            ration_gate_answer_plainly(batch->link->gate, &entry->check);
    }
    while (leaders != NULL) {
        struct ration_gate_entry *leader = leaders;

        leaders = leader->next;
        leader->next = NULL;
        ask_with_lease(leader);
    }
    batch->is_sending = false;
    return batch->left == 0;
}
