/*
 * remote: what a gate with Redis is made of, and how those wait who have no loop.
 */
#include "gate/remote.h"

#include <stdlib.h>

#include "base/refuse.h"
#include "gate/batch.h"

ration_status ration_gate_remote_create(const struct ration_gate_options *options,
                                        const struct ration_clock *clock,
                                        struct ration_gate_remote **out_remote,
                                        struct ration_error *error)
{
    struct ration_gate_remote *remote = calloc(1, sizeof(*remote));
    ration_status status;

    if (remote == NULL)
        return ration_refuse(error, RATION_ENOMEM, "no memory for the gate");
    status =
        ration_mapping_init(sizeof(*remote->options),
                            (struct ration_mapping_wishes){.is_secret = true}, &remote->secret);
    remote->options = remote->secret.memory;
    if (status == RATION_OK)
        status = ration_redis_options_read(options->redis, remote->options, error);
    else
        (void)ration_refuse(error, status, "no memory for the gate");
    if (status == RATION_OK)
        status = ration_near_create(clock, options->threads_max, &remote->near, error);
    if (status != RATION_OK) {
        ration_mapping_done(&remote->secret);
        free(remote);
        return status;
    }
    remote->has_manual_clock = options->tells_redis_time != 0;
    ration_gate_pool_init(&remote->pool);
    *out_remote = remote;
    return RATION_OK;
}

void ration_gate_remote_free(struct ration_gate_remote *remote)
{
    if (remote == NULL)
        return;
    ration_gate_pool_done(&remote->pool);
    ration_near_free(remote->near);
    ration_mapping_done(&remote->secret);
    free(remote);
}

/* A cluster decides a request on one node. */
static ration_status fit_cluster(const ration_gate *gate, const ration_policy *policy,
                                 struct ration_error *error)
{
    struct ration_redis_options *options = gate->remote->options;
    bool is_one_slot = ration_policy_is_one_slot(policy);
    size_t limit_index, other_index;

    if (!is_one_slot && ration_policy_find_two_keys(policy, &limit_index, &other_index)) {
        const struct ration_policy_limit *limit = ration_policy_limit_at(policy, limit_index);
        const struct ration_policy_limit *other = ration_policy_limit_at(policy, other_index);

        return ration_refuse(error, RATION_EUNFIT,
                             "limits %s, line %u, and %s, line %u, may apply to one request and "
                             "have different keys, which a cluster may keep on different nodes: "
                             "give both the same key, or write cluster: one-slot",
                             limit->limit.name, (unsigned)limit->line, other->limit.name,
                             (unsigned)other->line);
    }
    if (gate->plan == NULL)
        options->is_one_slot = is_one_slot;
    else if (options->is_one_slot != is_one_slot)
        return ration_refuse(error, RATION_EUNFIT,
                             "cluster: one-slot is not changed by a reload, since all buckets "
                             "would have other names: restart all nodes together");
    return RATION_OK;
}

ration_status ration_gate_remote_fits(const ration_gate *gate, const ration_policy *policy,
                                      struct ration_error *error)
{
    for (size_t i = 0; i < ration_policy_limit_count(policy); i++) {
        const struct ration_policy_limit *limit = ration_policy_limit_at(policy, i);
        struct ration_error reason;

        if (ration_redis_fits(&limit->limit, &reason) != RATION_OK)
            return ration_refuse(error, RATION_EUNFIT, "limit %s, line %u: %s", limit->limit.name,
                                 (unsigned)limit->line, reason.message);
        if (limit->mode == RATION_POLICY_LOCAL_FIRST &&
            limit->limit.rate.capacity.ns >
                RATION_NEAR_FILL_NS_MAX / gate->remote->options->node_count)
            return ration_refuse(error, RATION_EUNFIT,
                                 "limit %s, line %u: local-first keeps a bucket of this burst with "
                                 "one part of %u of the rate, which takes more than 16 years to "
                                 "fill: write mode: strict or lease",
                                 limit->limit.name, (unsigned)limit->line,
                                 (unsigned)gate->remote->options->node_count);
    }
    if (gate->remote->options->url.kind == RATION_REDIS_CLUSTER)
        return fit_cluster(gate, policy, error);
    return RATION_OK;
}

/* The limit itself if no share of it can be kept. */
struct ration_limit ration_gate_share(const struct ration_gate_remote *remote,
                                      const struct ration_limit *limit)
{
    uint64_t nodes = remote->options->node_count;
    struct ration_limit_spec spec = {
        .tokens = limit->tokens,
        .period_ns = limit->period_ns,
        .burst = limit->burst,
        .algorithm = limit->algorithm,
        .refill = limit->refill,
        .start = limit->start,
        .start_tokens = limit->start == RATION_START_TOKENS ? limit->start_tokens / nodes : 0,
        .reserve_tokens = limit->reserve_tokens,
        .reserve_period_ns = limit->reserve_period_ns * nodes,
        .reserve_burst = (limit->reserve_burst + nodes - 1) / nodes,
        .name = limit->name,
    };
    bool counts_windows = limit->algorithm == RATION_FIXED_WINDOW ||
                          limit->algorithm == RATION_SLIDING_WINDOW ||
                          limit->algorithm == RATION_SLIDING_LOG;
    struct ration_limit share;

    if (nodes == 1)
        return *limit;
    /* Rounded down, but not to nothing. */
    spec.burst = limit->burst / nodes > 0 ? limit->burst / nodes : 1;
    if (counts_windows)
        spec.tokens = spec.burst;
    else
        spec.period_ns = limit->period_ns * nodes;
    return ration_limit_make(&spec, &share, NULL) == RATION_OK ? share : *limit;
}

bool ration_gate_is_remote(const ration_gate *gate)
{
    return gate->remote != NULL;
}

/* Waiting -------------------------------------------------------------------------------------- */

static void note_done(void *context)
{
    *(bool *)context = true;
}

/* A check's answer, with its parts where the caller has room for them. */
static void copy_answer(const struct ration_check *answer, struct ration_check *check)
{
    struct ration_check_part *parts = check->parts;
    struct ration_check copy = *answer;

    for (uint32_t i = 0; parts != NULL && i < copy.part_count; i++)
        parts[i] = answer->parts[i];
    copy.parts = parts;
    copy.attributes = check->attributes;
    copy.attribute_count = check->attribute_count;
    *check = copy;
}

/* Decides as many as fit one batch; false: no memory for any. */
static bool check_batch(struct ration_gate_link *link, const struct ration_visit *guard,
                        struct ration_check *checks, size_t count, uint64_t now_ns,
                        uint64_t deadline_ns)
{
    bool is_done = false;
    ration_gate_batch *batch = ration_gate_batch_create(link, guard, now_ns, note_done, &is_done);
    bool has_all = batch != NULL;

    if (has_all)
        batch->deadline_ns = deadline_ns;
    for (size_t i = 0; i < count && has_all; i++)
        has_all = ration_gate_batch_add(batch, &checks[i]) == RATION_OK;
    if (has_all) {
        is_done = ration_gate_batch_send(batch);
        while (!is_done)
            ration_poll_loop_run(link->poll_loop);
        for (size_t i = 0; i < count; i++)
            copy_answer(ration_gate_batch_check(batch, i), &checks[i]);
    }
    ration_gate_batch_free(batch);
    return has_all;
}

/* Leases that a check calls for: they are sent, and whoever comes next finds them. */
static void draw_ahead(const struct ration_gate_case *c, const struct ration_gate_draws *draws)
{
    uint64_t deadline_ns;
    struct ration_gate_link *link = ration_gate_pool_take(c->gate, &deadline_ns);

    if (link == NULL)
        return;
    ration_gate_link_draw(link, c, draws);
    ration_poll_loop_look(link->poll_loop);
    ration_gate_pool_give_back(c->gate, link);
}

/*
 * By what is known here, with neither a lock nor memory. False: Redis has to be asked, or a lease may have come
 * from it.
 */
static bool check_near(const struct ration_visit *guard, struct ration_check *check,
                       uint64_t now_ns)
{
    ration_gate *gate = guard->gate;
    char room[RATION_CHECK_KEYS_ROOM];
    struct ration_gate_prepared prepared;
    struct ration_gate_draws draws = {.count = 0};
    struct ration_gate_desk desk = {
        .gate = gate, .plan = guard->plan, .room = room, .room_size = sizeof(room)};
    struct ration_gate_case c = {
        .gate = gate, .plan = guard->plan, .check = check, .prepared = &prepared, .now_ns = now_ns};
    bool is_decided;

    if (ration_gate_pool_has_draws(gate))
        return false;
    (void)ration_gate_prepare(&desk, check, &prepared); /* the room is enough, or never */
    is_decided = check->status != RATION_OK || prepared.match.limit_count == 0 ||
                 (ration_gate_case_is_near(&c) && ration_gate_case_decide_near(&c, &draws));
    if (is_decided && check->status == RATION_OK && prepared.match.limit_count == 0)
        ration_gate_answer_plainly(gate, check);
    if (draws.count > 0)
        draw_ahead(&c, &draws);
    return is_decided;
}

/* Asks Redis. */
static void check_far(const struct ration_visit *guard, struct ration_check *checks,
                      size_t check_count, uint64_t now_ns)
{
    ration_gate *gate = guard->gate;
    uint64_t deadline_ns = 0;
    struct ration_gate_link *link = ration_gate_pool_take(gate, &deadline_ns);
    size_t done = 0;

    while (done < check_count) {
        size_t some =
            check_count - done < RATION_GATE_BATCH_MAX ? check_count - done : RATION_GATE_BATCH_MAX;

        if (link == NULL || !check_batch(link, guard, checks + done, some, now_ns, deadline_ns))
            for (size_t i = 0; i < some; i++)
                ration_gate_refuse(gate, &checks[done + i], RATION_ENOMEM,
                                   "no memory to ask Redis");
        done += some;
        deadline_ns = 0; /* of those behind, from when they are asked */
    }
    if (link != NULL)
        ration_gate_pool_give_back(gate, link);
}

void ration_gate_check_remote(const struct ration_visit *guard, struct ration_check *checks,
                              size_t check_count, uint64_t now_ns)
{
    size_t done = 0;

    now_ns = ration_gate_remote_now(guard->gate, now_ns);
    while (done < check_count && check_near(guard, &checks[done], now_ns))
        done++;
    if (done < check_count)
        check_far(guard, checks + done, check_count - done, now_ns);
}

/* What came of an edit. */
struct edited {
    bool is_done;
    ration_status status;
    size_t count;
};

static void note_edited(void *context, ration_status status, size_t count)
{
    *(struct edited *)context = (struct edited){true, status, count};
}

ration_status ration_gate_edit_remote(ration_gate *gate, const struct ration_gate_task *task,
                                      size_t *out_count)
{
    uint64_t deadline_ns;
    struct ration_gate_link *link = ration_gate_pool_take(gate, &deadline_ns);
    struct edited edited = {.status = RATION_ENOMEM};

    if (link == NULL)
        return RATION_ENOMEM;
    (void)ration_gate_edit_begin(link, task, note_edited, &edited);
    while (!edited.is_done)
        ration_poll_loop_run(link->poll_loop);
    ration_gate_pool_give_back(gate, link);
    if (edited.status == RATION_OK && out_count != NULL)
        *out_count = edited.count;
    return edited.status;
}
