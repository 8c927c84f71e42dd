/*
 * batch_near: checks decided here, by what is known of buckets in Redis; and leases.
 *
 * A lease is asked for together with the cost of the check that lacks it, or ahead of need by nobody who
 * waits. Checks of the same key that come meanwhile, of whatever batch of the loop, wait for what it brings.
 */
#include <stdlib.h>
#include <string.h>

#include "gate/batch.h"
#include "redis/draw.h"

/* Leases drawn ahead --------------------------------------------------------------------------------------- */

/* One that was asked for. It outlives the batch, so all of it is copied. */
struct draw {
    struct ration_gate_link *link;
    struct ration_policy_limit limit;
    struct ration_hash secret;
    struct ration_key key;
    uint64_t wanted;
    uint64_t asked_ns;
    char bytes[];
};

/* Of those who have no loop: whoever comes next looks whether it is there. */
static void count_draw(struct ration_gate_link *link, int change)
{
    if (link->poll_loop == NULL)
        return;
    link->draw_count += (uint32_t)change;
    __atomic_add_fetch(&link->gate->remote->pool.draw_count, (uint32_t)change, __ATOMIC_RELAXED);
}

static void on_drawn(void *context, const struct ration_redis_told *told,
                     struct ration_redis_portion portion)
{
    struct draw *draw = context;
    ration_gate *gate = draw->link->gate;
    struct ration_near_ask ask = {
        .limit = &draw->limit,
        .secret = &draw->secret,
        .key = &draw->key,
        .cost_tokens = 1,
        .node_count = gate->remote->options->node_count,
    };

    if (told != NULL)
        ration_near_fill(gate->remote->near, &ask,
                         &(struct ration_near_drawn){portion, draw->wanted, draw->asked_ns},
                         ration_gate_now(gate));
    count_draw(draw->link, -1);
    free(draw);
}

static void begin_draw(struct ration_gate_link *link, const struct ration_near_ask *ask,
                       uint64_t tokens, uint64_t now_ns)
{
    struct ration_gate_remote *remote = link->gate->remote;
    struct ration_near_back back;
    struct ration_redis_lease lease = {
        .limit = &ask->limit->limit,
        .key = *ask->key,
        .want_tokens = tokens,
        .length_ns = ration_near_lease_ns(ask->limit),
        .has_now = remote->has_manual_clock,
        .now_ns = now_ns,
    };
    struct draw *draw = malloc(sizeof(*draw) + ask->key->size);

    if (draw == NULL)
        return;
    *draw = (struct draw){.link = link,
                          .limit = *ask->limit,
                          .secret = *ask->secret,
                          .key = {draw->bytes, ask->key->size},
                          .wanted = tokens,
                          .asked_ns = now_ns};
    if (ask->key->size > 0)
        memcpy(draw->bytes, ask->key->bytes, ask->key->size);
    back = ration_near_leftover(remote->near, ask, now_ns);
    lease.back_tokens = back.tokens;
    lease.back_number = back.number;
    lease.back_age_ns = back.age_ns;
    count_draw(link, 1);
    ration_redis_draw(link->client, &lease, on_drawn, draw);
}

void ration_gate_link_draw(struct ration_gate_link *link, const struct ration_gate_case *c,
                           const struct ration_gate_draws *draws)
{
    for (uint32_t i = 0; i < draws->count; i++) {
        struct ration_near_ask ask = ration_gate_case_ask(c, draws->parts[i]);

        begin_draw(link, &ask, draws->tokens[i], c->now_ns);
    }
}

static struct ration_near_ask near_ask(struct ration_gate_entry *entry, uint32_t part)
{
    struct ration_gate_case c = ration_gate_entry_case(entry);

    return ration_gate_case_ask(&c, part);
}

/* What is told Redis, and learned from it ------------------------------------------------------- */

void ration_gate_entry_learn(struct ration_gate_entry *entry, const struct ration_redis_told *told,
                             struct ration_redis_portion portion)
{
    struct ration_gate_remote *remote = entry->batch->link->gate->remote;
    struct ration_near_drawn drawn = {portion, entry->wanted, entry->batch->now_ns};

    for (uint32_t i = 0; i < entry->prepared.match.limit_count && !entry->is_throttle; i++) {
        struct ration_near_ask ask = near_ask(entry, i);

        if (ask.limit->mode == RATION_POLICY_STRICT || entry->check.is_peek || ask.cost_tokens == 0)
            continue;
        ration_near_learn(remote->near, &ask, &told->parts[i], &drawn,
                          ration_gate_now(entry->batch->link->gate));
    }
}

/* Of several limits each has its own lease, asked for when Redis has decided about all of them. */
void ration_gate_entry_draw_parts(struct ration_gate_entry *entry)
{
    struct ration_gate_case c = ration_gate_entry_case(entry);
    struct ration_gate_remote *remote = c.gate->remote;
    struct ration_gate_draws draws = {.count = 0};

    if (entry->prepared.match.limit_count < 2 || !ration_gate_case_is_near(&c))
        return;
    for (uint32_t i = 0; i < entry->prepared.match.limit_count; i++) {
        struct ration_near_ask ask = ration_gate_case_ask(&c, i);
        uint64_t tokens = ration_near_want_apart(remote->near, &ask,
                                                 remote->options->times.deadline_ns, c.now_ns);

        if (tokens > 0) {
            draws.parts[draws.count] = i;
            draws.tokens[draws.count++] = tokens;
        }
    }
    ration_gate_link_draw(entry->batch->link, &c, &draws);
}

uint64_t ration_gate_entry_collect(struct ration_gate_entry *entry, uint32_t part)
{
    struct ration_near_ask ask = near_ask(entry, part);

    if (entry->check.is_peek || ask.cost_tokens == 0)
        return 0;
    return ration_near_collect(entry->batch->link->gate->remote->near, &ask, entry->batch->now_ns);
}

void ration_gate_entry_owe_again(struct ration_gate_entry *entry)
{
    struct ration_gate_remote *remote = entry->batch->link->gate->remote;

    for (uint32_t i = 0; i < entry->prepared.match.limit_count && !entry->is_throttle; i++) {
        struct ration_near_ask ask = near_ask(entry, i);

        ration_near_owe(remote->near, &ask, entry->owed[i], entry->batch->now_ns);
    }
}

/* Who asks, and who waits ------------------------------------------------------------------------ */

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
 * By what the lease brought; whoever finds nothing left of it asks for itself; and without Redis if that has
 * just not answered.
 */
void ration_gate_followers_serve(struct ration_gate_entry *leader, bool is_answered)
{
    struct ration_gate_entry *entry = leader->followers;

    leader->followers = NULL;
    while (entry != NULL) {
        struct ration_gate_entry *next = entry->next;
        ration_gate_batch *batch = entry->batch;

        if (!batch->is_abandoned && !is_answered)
            ration_gate_entry_decide_without(entry);
        else if (!batch->is_abandoned && !ration_gate_entry_decide_near(entry))
            ration_gate_entry_ask(entry);
        batch->left--;
        ration_gate_batch_complete(batch);
        entry = next;
    }
}

static void on_leased(void *context, const struct ration_redis_told *told,
                      struct ration_redis_portion portion)
{
    stop_leading(context);
    ration_gate_entry_answer(context, told, portion);
}

/*
 * A single limit with leases: its cost, and what it and others may need next, in one call. A key of which nothing is
 * known needs nothing more: most of these are not seen again.
 */
static void ask_with_lease(struct ration_gate_entry *entry)
{
    ration_gate_batch *batch = entry->batch;
    struct ration_gate_remote *remote = batch->link->gate->remote;
    struct ration_near_ask near = near_ask(entry, 0);
    uint64_t want = ration_near_want(remote->near, &near, entry->follower_count, batch->now_ns);
    struct ration_near_back back = ration_near_leftover(remote->near, &near, batch->now_ns);
    struct ration_redis_lease lease = {
        .limit = &near.limit->limit,
        .key = *near.key,
        .cost_tokens = near.cost_tokens,
        .want_tokens = want,
        .back_tokens = back.tokens,
        .back_number = back.number,
        .back_age_ns = back.age_ns,
        .length_ns = ration_near_lease_ns(near.limit),
        .changed_ago_ns =
            ration_gate_changed_ago_ns(batch->plan, entry->prepared.match.limits[0], batch->now_ns),
        .has_now = remote->has_manual_clock,
        .now_ns = batch->now_ns,
        .deadline_ns = batch->deadline_ns,
    };

    if (want == 0 && back.tokens == 0) {
        ration_gate_entry_ask(entry);
        return;
    }
    entry->owed[0] = 0;
    entry->wanted = want;
    entry->next_leader = *leaders_of(entry);
    *leaders_of(entry) = entry;
    batch->left++;
    ration_redis_draw(batch->link->client, &lease, on_leased, entry);
}

/* Near ----------------------------------------------------------------------------------------- */

bool ration_gate_entry_decide_near(struct ration_gate_entry *entry)
{
    struct ration_gate_case c = ration_gate_entry_case(entry);
    struct ration_gate_draws draws;

    if (!ration_gate_case_decide_near(&c, &draws))
        return false;
    ration_gate_link_draw(entry->batch->link, &c, &draws);
    return true;
}

bool ration_gate_entry_has_lease(struct ration_gate_entry *entry)
{
    const struct ration_policy_limit *limit =
        ration_policy_limit_at(entry->batch->plan->policy, entry->prepared.match.limits[0]);

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
    entry->next = NULL;
    entry->deadline_ns = ration_redis_client_deadline(entry->batch->link->client);
    *leader->followers_end = entry;
    leader->followers_end = &entry->next;
    leader->follower_count++;
    entry->batch->left++;
}

void ration_gate_entry_join(struct ration_gate_entry *entry, struct ration_gate_entry **leaders)
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

void ration_gate_leaders_ask(struct ration_gate_entry *leaders)
{
    for (size_t i = 0; leaders != NULL; i++) {
        struct ration_gate_entry *leader = leaders;

        leaders = leader->next;
        leader->next = NULL;
        ration_gate_batch_look(leader->batch, i);
        ask_with_lease(leader);
    }
}
