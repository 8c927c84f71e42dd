/*
 * http_check: may this caller do this now? Asked by a proxy in a GET, or in JSON.
 */
#include <stdlib.h>
#include <string.h>

#include "proto/check_json.h"
#include "server/http_desk.h"

/* Takes ?deny_status=403 out of the attributes. False: it is none that can be answered. */
static bool take_deny_status(const struct ration_http_desk *desk, struct ration_asked *asked,
                             struct ration_check_room *room, unsigned *out_status)
{
    *out_status = desk->service->settings->deny_status;
    for (size_t i = 0; i < asked->attribute_count; i++) {
        const struct ration_key *value = &asked->attributes[i].value;
        char text[4] = "";

        if (!ration_http_is(&asked->attributes[i].name, "deny_status"))
            continue;
        if (value->size != 3)
            return false;
        memcpy(text, value->bytes, 3);
        *out_status = (unsigned)strtoul(text, NULL, 10);
        room->attributes[i] = room->attributes[--asked->attribute_count];
        return *out_status >= 400 && ration_http_status_text(*out_status) != NULL;
    }
    return true;
}

/* The policy's limits as header fields. False: no memory. */
static bool prepare_fields(struct ration_http_desk *desk, const struct ration_visit *visit)
{
    const ration_policy *policy = ration_gate_policy(visit);
    uint64_t generation = ration_gate_generation(visit);
    size_t count = ration_policy_limit_count(policy);
    struct ration_fields_limit *fields;

    if (desk->fields_generation == generation)
        return true;
    fields = realloc(desk->fields, count * sizeof(*fields));
    if (fields == NULL)
        return false;
    for (size_t i = 0; i < count; i++) {
        const struct ration_limit *limit = &ration_policy_limit_at(policy, i)->limit;

        ration_fields_limit_init(&fields[i], limit->name, limit);
    }
    desk->fields = fields;
    desk->fields_generation = generation;
    return true;
}

static void write_x(struct ration_http_desk *desk, const struct ration_decision *decision)
{
    enum ration_x_ratelimit kind = desk->service->settings->x_ratelimit;

    if (kind != RATION_X_NONE && decision->limit > 0)
        ration_fields_write_x(desk->output, decision,
                              kind == RATION_X_EPOCH ? RATION_FIELDS_RESET_EPOCH
                                                     : RATION_FIELDS_RESET_DELTA,
                              desk->date_second);
}

/* What is told of each limit; those in the shadow are not told in headers. */
static size_t list_fields(const struct ration_check *check,
                          const struct ration_fields_limit *const *fields,
                          struct ration_fields_item *items)
{
    size_t count = 0;

    for (uint32_t i = 0; i < check->part_count; i++)
        if (!check->parts[i].limit->is_shadow)
            items[count++] = (struct ration_fields_item){fields[i], check->parts[i].decision};
    return count;
}

static void write_quota(struct ration_http_desk *desk, const struct ration_check *check,
                        unsigned deny_status, uint64_t retry_seconds)
{
    struct ration_problem_quota quotas[RATION_POLICY_MATCHES_MAX];
    struct ration_json json;
    size_t count = 0;

    for (int turn = 0; turn < 2; turn++) /* the one that decided first */
        for (uint32_t i = 0; i < check->part_count; i++) {
            const struct ration_check_part *part = &check->parts[i];

            if (part->limit->is_shadow || part->decision.verdict == RATION_ALLOW ||
                (part->limit == check->limit) != (turn == 0))
                continue;
            quotas[count++] = (struct ration_problem_quota){
                .name = part->limit->limit.name,
                .burst = part->decision.limit,
                .window_seconds = ration_fields_window_seconds(&part->limit->limit),
                .retry_seconds = retry_seconds,
            };
        }
    ration_json_init(&json, desk->output);
    ration_problem_write_quota(&json, deny_status, check->is_degraded != 0, quotas, count);
}

/* As in the header fields of the same answer. */
static const char *name_of(const struct ration_policy_limit *limit)
{
    return limit->limit.name[0] != '\0' ? limit->limit.name : RATION_FIELDS_NAME_DEFAULT;
}

static void describe(const struct ration_check *check, struct ration_check_limit *limits,
                     struct ration_check_answer *out_answer)
{
    for (uint32_t i = 0; limits != NULL && i < check->part_count; i++)
        limits[i] =
            (struct ration_check_limit){name_of(check->parts[i].limit), check->parts[i].decision,
                                        check->parts[i].limit->is_shadow != 0};
    *out_answer = (struct ration_check_answer){
        .decision = check->decision,
        .limit_name = check->limit != NULL ? name_of(check->limit) : NULL,
        .is_banned = check->policy_verdict == RATION_POLICY_BANNED,
        .is_degraded = check->is_degraded != 0,
        .limits = limits,
        .limit_count = check->part_count,
    };
}

static void answer_get(struct ration_http_desk *desk, const struct ration_check *check,
                       const struct ration_fields_limit *const *fields, unsigned deny_status)
{
    struct ration_fields_item items[RATION_POLICY_MATCHES_MAX];
    size_t item_count = list_fields(check, fields, items);
    bool is_allowed = check->decision.verdict == RATION_ALLOW;
    uint64_t retry_seconds = ration_fields_retry_seconds(
        &check->decision, &desk->service->settings->retry, ration_http_desk_random(desk));
    struct ration_check_answer told;
    struct ration_http_answer answer;

    ration_http_desk_begin(desk, &answer, is_allowed ? 200 : deny_status);
    ration_fields_write_policy(desk->output, items, item_count);
    ration_fields_write_state(desk->output, items, item_count, retry_seconds);
    ration_fields_write_retry_after(desk->output, retry_seconds);
    write_x(desk, &check->decision);
    if (!is_allowed) {
        ration_http_answer_body(&answer, RATION_PROBLEM_CONTENT_TYPE);
        write_quota(desk, check, deny_status, retry_seconds);
    } else {
        ration_http_answer_body(&answer, "application/json");
        describe(check, NULL, &told);
        ration_check_answer_write_alone(desk->output, &told);
    }
    ration_http_answer_end(&answer);
}

size_t ration_http_decide(struct ration_http_desk *desk, const struct ration_visit *guard,
                          struct ration_http_check *items, size_t count)
{
    struct ration_check checks[RATION_HTTP_CHUNK_CHECKS];
    size_t check_indexes[RATION_HTTP_CHUNK_CHECKS];
    uint64_t began_ns = ration_durations_begin(&desk->part->durations);
    uint64_t now_ns = ration_http_desk_now(desk);
    size_t check_count = 0, decided_count;
    uint64_t steps = 0;

    for (size_t i = 0; i < count; i++) {
        struct ration_http_check *item = &items[i];
        struct ration_asked *asked = &item->asked;

        item->check = (struct ration_check){
            .attributes = asked->attributes,
            .attribute_count = asked->attribute_count,
            .cost_tokens = asked->tokens,
            .is_peek = asked->kind == RATION_CHECK_PEEK,
            .parts = item->parts,
        };
        if (!asked->has_key) {
            check_indexes[check_count] = i;
            checks[check_count++] = item->check;
        }
    }
    decided_count = ration_gate_check_some(
        guard, checks, check_count, ration_connection_match_steps_left(desk->connection), now_ns);
    for (size_t i = 0; i < decided_count; i++) {
        items[check_indexes[i]].check = checks[i];
        steps += checks[i].match_steps;
    }
    ration_connection_charge(desk->connection, steps);
    if (decided_count < check_count)
        count = check_indexes[decided_count];
    for (size_t i = 0; i < count; i++) {
        struct ration_http_check *item = &items[i];
        ration_limiter *throttle = ration_gate_throttle(desk->service->gate);
        struct ration_batch_item taken = {
            .request = &item->asked.key,
            .cost_tokens = item->asked.tokens,
            .limit = &item->asked.limit,
            .decision = &item->decision,
            .is_peek = item->asked.kind == RATION_CHECK_PEEK,
        };

        if (!item->asked.has_key)
            continue;
        item->status = ration_service_check_inline(desk->service, &item->asked.limit);
        if (item->status != RATION_OK)
            continue;
        ration_limiter_take_batch(throttle, &taken, 1, now_ns);
        item->status = taken.status;
    }
    ration_durations_end(&desk->part->durations, began_ns, count);
    return count;
}

/* Why a check could not be decided. */
static const char *reason_of(const struct ration_http_check *item)
{
    if (!item->asked.has_key)
        return item->check.reason;
    if (item->status == RATION_ERANGE)
        return RATION_INLINE_FILL_REASON;
    return item->status == RATION_EUNFIT
               ? "a limit in a request is a token bucket that refills continuously and starts "
                 "full; others need a policy"
               : "the key is too long: at most 65535 bytes";
}

/* Not decided: because of what was asked, or since the store is away, which is no denial. */
static void answer_undecided(struct ration_http_desk *desk, const struct ration_http_check *item)
{
    ration_status status = item->asked.has_key ? item->status : item->check.status;
    struct ration_http_answer answer;
    struct ration_json json;

    if (status != RATION_ESTORE) {
        ration_http_desk_problem(desk, status == RATION_ENOMEM ? 503 : 400, reason_of(item), NULL);
        return;
    }
    ration_service_add(desk->part, RATION_SERVICE_HTTP_ERRORS, 1);
    ration_http_desk_begin(desk, &answer, 503);
    ration_http_answer_body(&answer, RATION_PROBLEM_CONTENT_TYPE);
    ration_json_init(&json, desk->output);
    ration_problem_write_reduced(&json, reason_of(item));
    ration_http_answer_end(&answer);
}

static bool is_decided(const struct ration_http_check *item)
{
    return (item->asked.has_key ? item->status : item->check.status) == RATION_OK;
}

/* A limit that came with the request, told as if it were the policy's. */
static void adopt_key(struct ration_http_check *item, struct ration_policy_limit *limit,
                      struct ration_fields_limit *fields)
{
    *limit = (struct ration_policy_limit){.limit = item->asked.limit};
    ration_fields_limit_init(fields, item->asked.limit.name, &item->asked.limit);
    item->parts[0] = (struct ration_check_part){limit, item->asked.tokens, item->decision};
    item->check.decision = item->decision;
    item->check.limit = limit;
    item->check.part_count = 1;
    item->check.policy_verdict = RATION_POLICY_LIMITS;
}

/* The limits of a check as header fields: those made ahead, or made now. */
static void find_fields(const struct ration_http_desk *desk, const struct ration_check *check,
                        bool are_made, struct ration_fields_limit *room,
                        const struct ration_fields_limit **fields)
{
    for (uint32_t i = 0; i < check->part_count; i++) {
        const struct ration_limit *limit = &check->parts[i].limit->limit;

        if (are_made) {
            fields[i] = &desk->fields[check->parts[i].decision.limit_index];
        } else {
            ration_fields_limit_init(&room[i], limit->name, limit);
            fields[i] = &room[i];
        }
    }
}

void ration_http_answer_get(struct ration_http_desk *desk, struct ration_http_check *item,
                            unsigned deny_status, bool has_fields)
{
    struct ration_fields_limit room[RATION_POLICY_MATCHES_MAX];
    const struct ration_fields_limit *fields[RATION_POLICY_MATCHES_MAX];
    struct ration_policy_limit own_limit;

    if (!is_decided(item)) {
        answer_undecided(desk, item);
        return;
    }
    if (item->asked.has_key)
        adopt_key(item, &own_limit, &room[0]);
    find_fields(desk, &item->check, has_fields && !item->asked.has_key, room, fields);
    if (item->check.policy_verdict == RATION_POLICY_BANNED)
        ration_http_desk_ban(desk, "The policy bans this caller.");
    else
        answer_get(desk, &item->check, fields, deny_status);
}

void ration_http_get_check(struct ration_http_desk *desk)
{
    struct ration_http_check *item = &desk->checks[0];
    char *query = (char *)(uintptr_t)desk->request.query.bytes;
    struct ration_check_error error;
    struct ration_visit visit;
    unsigned deny_status;
    const char *reason;
    bool brings_cost;

    if (!ration_check_read_query(query, desk->request.query.size, &item->room, &item->asked,
                                 &error)) {
        ration_http_desk_problem(desk, 400, error.message, NULL);
        return;
    }
    if (!take_deny_status(desk, &item->asked, &item->room, &deny_status)) {
        ration_http_desk_problem(desk, 400,
                                 "deny_status must be a status that is answered here, "
                                 "such as 403 or 429.",
                                 NULL);
        return;
    }
    if ((item->asked.has_key || item->asked.tokens > 1) && !ration_http_permit_inline(desk))
        return;
    ration_gate_enter(desk->service->gate, &visit);
    brings_cost = !desk->has_secret && ration_http_brings_cost(desk, &visit, &item->asked);
    reason = item->asked.has_key || brings_cost
                 ? NULL
                 : ration_http_add_attributes(desk, ration_gate_policy(&visit), &item->asked,
                                              &item->room);
    if (brings_cost)
        (void)ration_http_permit_inline(desk);
    else if (reason != NULL)
        ration_http_desk_problem(desk, 400, reason, NULL);
    else if (desk->part->link != NULL)
        ration_http_get_later(desk, &visit, item, deny_status);
    else if (prepare_fields(desk, &visit)) {
        (void)ration_http_decide(desk, &visit, item, 1);
        ration_http_answer_get(desk, item, deny_status, true);
    } else
        ration_http_desk_problem(desk, 503, "The server is short of memory.", NULL);
    ration_gate_leave(&visit);
}

/* One of a batch, or one alone. In a batch each check has its own fate. */
void ration_http_write_check(struct ration_json *json, struct ration_http_check *item)
{
    struct ration_check_limit limits[RATION_POLICY_MATCHES_MAX];
    struct ration_check_answer answer;
    struct ration_policy_limit own_limit;
    struct ration_fields_limit own_fields;

    if (!is_decided(item)) {
        ration_json_begin_object(json);
        ration_json_name(json, "error");
        ration_json_text(json, reason_of(item));
        ration_json_end(json);
        return;
    }
    if (item->asked.has_key)
        adopt_key(item, &own_limit, &own_fields);
    describe(&item->check, limits, &answer);
    ration_check_answer_write(json, &answer);
}

void ration_http_answer_one(struct ration_http_desk *desk, struct ration_http_check *item)
{
    struct ration_http_answer answer;
    struct ration_json json;

    if (!is_decided(item)) {
        answer_undecided(desk, item);
        return;
    }
    ration_http_desk_begin(desk, &answer, 200);
    ration_http_answer_body(&answer, "application/json");
    ration_json_init(&json, desk->output);
    ration_http_write_check(&json, item);
    ration_http_answer_end(&answer);
}
