/*
 * http_check: decides checks, from a proxy's GET or from JSON, and writes their responses.
 */
#include <stdlib.h>
#include <string.h>

#include "codec/http/check_json.h"
#include "server/http/http_worker.h"

/* Removes ?deny_status=403 from the attributes. False: the server cannot answer with this status. */
static bool take_deny_status(const struct ration_http_worker *worker,
                             struct ration_check_request *request, struct ration_check_room *room,
                             unsigned *out_status)
{
    *out_status = worker->service->settings->deny_status;
    for (size_t i = 0; i < request->attribute_count; i++) {
        const struct ration_key *value = &request->attributes[i].value;
        char text[4] = "";

        if (!ration_http_is(&request->attributes[i].name, "deny_status"))
            continue;
        if (value->size != 3)
            return false;
        memcpy(text, value->bytes, 3);
        *out_status = (unsigned)strtoul(text, NULL, 10);
        room->attributes[i] = room->attributes[--request->attribute_count];
        return *out_status >= 400 && ration_http_status_text(*out_status) != NULL;
    }
    return true;
}

/* Builds the header fields of the policy's limits, once per policy generation. False: no memory. */
static bool prepare_policy_fields(struct ration_http_worker *worker,
                                  const struct ration_engine_guard *guard)
{
    const ration_policy *policy = ration_engine_policy(guard);
    uint64_t generation = ration_engine_generation(guard);
    size_t count = ration_policy_limit_count(policy);
    struct ration_fields_limit *fields;

    if (worker->fields_generation == generation)
        return true;
    fields = realloc(worker->fields, count * sizeof(*fields));
    if (fields == NULL)
        return false;
    for (size_t i = 0; i < count; i++) {
        const struct ration_limit *limit = &ration_policy_limit_at(policy, i)->limit;

        ration_fields_limit_init(&fields[i], limit->name, limit);
    }
    worker->fields = fields;
    worker->fields_generation = generation;
    return true;
}

static void write_x_ratelimit(struct ration_http_worker *worker,
                              const struct ration_decision *decision)
{
    enum ration_legacy_headers kind = worker->service->settings->legacy_headers;

    if (kind != RATION_LEGACY_HEADERS_OFF && decision->limit > 0)
        ration_fields_write_x(worker->output, decision,
                              kind == RATION_LEGACY_HEADERS_UNIX ? RATION_FIELDS_RESET_EPOCH
                                                                 : RATION_FIELDS_RESET_DELTA,
                              worker->date_second);
}

/* Lists the header fields of each limit that applies; shadow limits do not appear in headers. */
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

static void write_quota(struct ration_http_worker *worker, const struct ration_check *check,
                        unsigned deny_status, uint64_t retry_seconds)
{
    struct ration_problem_quota quotas[RATION_POLICY_MATCHES_MAX];
    struct ration_json json;
    size_t count = 0;

    for (int pass = 0; pass < 2; pass++) /* the limit that decided comes first */
        for (uint32_t i = 0; i < check->part_count; i++) {
            const struct ration_check_part *part = &check->parts[i];

            if (part->limit->is_shadow || part->decision.verdict == RATION_ALLOW ||
                (part->limit == check->limit) != (pass == 0))
                continue;
            quotas[count++] = (struct ration_problem_quota){
                .name = part->limit->limit.name,
                .burst = part->decision.limit,
                .window_seconds = ration_fields_window_seconds(&part->limit->limit),
                .retry_seconds = retry_seconds,
            };
        }
    ration_json_init(&json, worker->output);
    ration_problem_write_quota(&json, deny_status, check->is_degraded != 0, quotas, count);
}

/* The same name as in the header fields of the response. */
static const char *limit_display_name(const struct ration_policy_limit *limit)
{
    return limit->limit.name[0] != '\0' ? limit->limit.name : RATION_FIELDS_NAME_DEFAULT;
}

static void describe_check(const struct ration_check *check, struct ration_check_limit *limits,
                           struct ration_check_answer *out_answer)
{
    for (uint32_t i = 0; limits != NULL && i < check->part_count; i++)
        limits[i] = (struct ration_check_limit){limit_display_name(check->parts[i].limit),
                                                check->parts[i].decision,
                                                check->parts[i].limit->is_shadow != 0};
    *out_answer = (struct ration_check_answer){
        .decision = check->decision,
        .limit_name = check->limit != NULL ? limit_display_name(check->limit) : NULL,
        .is_banned = check->policy_verdict == RATION_POLICY_BANNED,
        .is_degraded = check->is_degraded != 0,
        .limits = limits,
        .limit_count = check->part_count,
    };
}

static void write_get_response(struct ration_http_worker *worker, const struct ration_check *check,
                               const struct ration_fields_limit *const *fields,
                               unsigned deny_status)
{
    struct ration_fields_item items[RATION_POLICY_MATCHES_MAX];
    size_t item_count = list_fields(check, fields, items);
    bool is_allowed = check->decision.verdict == RATION_ALLOW;
    uint64_t retry_seconds = ration_fields_retry_seconds(
        &check->decision, &worker->service->settings->retry, ration_http_worker_random(worker));
    struct ration_check_answer description;
    struct ration_http_answer answer;

    ration_http_worker_begin(worker, &answer, is_allowed ? 200 : deny_status);
    ration_fields_write_policy(worker->output, items, item_count);
    ration_fields_write_state(worker->output, items, item_count, retry_seconds);
    ration_fields_write_retry_after(worker->output, retry_seconds);
    write_x_ratelimit(worker, &check->decision);
    if (!is_allowed) {
        ration_http_answer_body(&answer, RATION_PROBLEM_CONTENT_TYPE);
        write_quota(worker, check, deny_status, retry_seconds);
    } else {
        ration_http_answer_body(&answer, "application/json");
        describe_check(check, NULL, &description);
        ration_check_answer_write_alone(worker->output, &description);
    }
    ration_http_answer_end(&answer);
}

size_t ration_http_decide(struct ration_http_worker *worker,
                          const struct ration_engine_guard *guard, struct ration_http_check *items,
                          size_t count)
{
    struct ration_check checks[RATION_HTTP_CHUNK_CHECKS];
    size_t check_indexes[RATION_HTTP_CHUNK_CHECKS];
    uint64_t began_ns = ration_service_durations_begin(&worker->loop_worker->durations);
    uint64_t now_ns = ration_http_worker_now(worker);
    size_t check_count = 0, decided_count;
    uint64_t steps = 0;

    for (size_t i = 0; i < count; i++) {
        struct ration_http_check *item = &items[i];
        struct ration_check_request *request = &item->request;

        item->check = (struct ration_check){
            .attributes = request->attributes,
            .attribute_count = request->attribute_count,
            .cost_tokens = request->tokens,
            .is_peek = request->kind == RATION_CHECK_PEEK,
            .parts = item->parts,
        };
        if (!request->has_key) {
            check_indexes[check_count] = i;
            checks[check_count++] = item->check;
        }
    }
    decided_count = ration_engine_check_some(
        guard, checks, check_count, ration_connection_match_steps_left(worker->connection), now_ns);
    for (size_t i = 0; i < check_count && i < decided_count; i++) {
        items[check_indexes[i]].check = checks[i];
        steps += checks[i].match_steps;
    }
    ration_connection_charge(worker->connection, steps);
    if (decided_count < check_count)
        count = check_indexes[decided_count];
    for (size_t i = 0; i < count; i++) {
        struct ration_http_check *item = &items[i];
        ration_limiter *inline_limiter = ration_engine_inline_limiter(worker->service->engine);
        struct ration_batch_item batch_item = {
            .request = &item->request.key,
            .cost_tokens = item->request.tokens,
            .limit = &item->request.limit,
            .decision = &item->decision,
            .is_peek = item->request.kind == RATION_CHECK_PEEK,
        };

        if (!item->request.has_key)
            continue;
        item->status = ration_service_check_inline(worker->service, &item->request.limit);
        if (item->status != RATION_OK)
            continue;
        ration_limiter_take_batch(inline_limiter, &batch_item, 1, now_ns);
        item->status = batch_item.status;
    }
    ration_service_durations_end(&worker->loop_worker->durations, began_ns, count);
    return count;
}

/* Why a check could not be decided. */
static const char *reason_of(const struct ration_http_check *item)
{
    if (!item->request.has_key)
        return item->check.reason;
    if (item->status == RATION_ERANGE)
        return RATION_INLINE_FILL_REASON;
    return item->status == RATION_EUNSUPPORTED
               ? "a limit in a request is a token bucket that refills continuously and starts "
                 "full; others need a policy"
               : "the key is too long: at most 65535 bytes";
}

/* Answers a check that was not decided: the request was wrong, or the store is unavailable. Neither is a denial. */
static void answer_undecided(struct ration_http_worker *worker,
                             const struct ration_http_check *item)
{
    ration_status status = item->request.has_key ? item->status : item->check.status;
    struct ration_http_answer answer;
    struct ration_json json;

    if (status != RATION_ESTORE) {
        ration_http_worker_problem(worker, status == RATION_ENOMEM ? 503 : 400, reason_of(item),
                                   NULL);
        return;
    }
    ration_service_add(worker->loop_worker, RATION_SERVICE_HTTP_ERRORS, 1);
    ration_http_worker_begin(worker, &answer, 503);
    ration_http_answer_body(&answer, RATION_PROBLEM_CONTENT_TYPE);
    ration_json_init(&json, worker->output);
    ration_problem_write_reduced(&json, reason_of(item));
    ration_http_answer_end(&answer);
}

static bool is_decided(const struct ration_http_check *item)
{
    return (item->request.has_key ? item->status : item->check.status) == RATION_OK;
}

/* Presents an inline limit as if it were a limit of the policy, so that one code path describes both. */
static void adopt_inline_limit(struct ration_http_check *item, struct ration_policy_limit *limit,
                               struct ration_fields_limit *fields)
{
    *limit = (struct ration_policy_limit){.limit = item->request.limit};
    ration_fields_limit_init(fields, item->request.limit.name, &item->request.limit);
    item->parts[0] = (struct ration_check_part){limit, item->request.tokens, item->decision};
    item->check.decision = item->decision;
    item->check.limit = limit;
    item->check.part_count = 1;
    item->check.policy_verdict = RATION_POLICY_LIMITS;
}

/* The header fields of a check's limits: the prepared ones, or built here in room. */
static void collect_fields(const struct ration_http_worker *worker,
                           const struct ration_check *check, bool are_prepared,
                           struct ration_fields_limit *room,
                           const struct ration_fields_limit **fields)
{
    for (uint32_t i = 0; i < check->part_count; i++) {
        const struct ration_limit *limit = &check->parts[i].limit->limit;

        if (are_prepared) {
            fields[i] = &worker->fields[check->parts[i].decision.limit_index];
        } else {
            ration_fields_limit_init(&room[i], limit->name, limit);
            fields[i] = &room[i];
        }
    }
}

void ration_http_answer_get(struct ration_http_worker *worker, struct ration_http_check *item,
                            unsigned deny_status, bool has_fields)
{
    struct ration_fields_limit room[RATION_POLICY_MATCHES_MAX];
    const struct ration_fields_limit *fields[RATION_POLICY_MATCHES_MAX];
    struct ration_policy_limit own_limit;

    if (!is_decided(item)) {
        answer_undecided(worker, item);
        return;
    }
    if (item->request.has_key)
        adopt_inline_limit(item, &own_limit, &room[0]);
    collect_fields(worker, &item->check, has_fields && !item->request.has_key, room, fields);
    if (item->check.policy_verdict == RATION_POLICY_BANNED)
        ration_http_worker_ban(worker, "The policy bans this caller.");
    else
        write_get_response(worker, &item->check, fields, deny_status);
}

void ration_http_get_check(struct ration_http_worker *worker)
{
    struct ration_http_check *item = &worker->checks[0];
    char *query = (char *)(uintptr_t)worker->request.query.bytes;
    struct ration_check_error error;
    struct ration_engine_guard guard;
    unsigned deny_status;
    const char *reason;
    bool brings_cost;

    if (!ration_check_read_query(query, worker->request.query.size, &item->room, &item->request,
                                 &error)) {
        ration_http_worker_problem(worker, 400, error.message, NULL);
        return;
    }
    if (!take_deny_status(worker, &item->request, &item->room, &deny_status)) {
        ration_http_worker_problem(worker, 400,
                                   "deny_status must be a status that the server can send, "
                                   "such as 403 or 429.",
                                   NULL);
        return;
    }
    if ((item->request.has_key || item->request.tokens > 1) && !ration_http_permit_inline(worker))
        return;
    ration_engine_lock(worker->service->engine, &guard);
    brings_cost = !worker->has_secret && ration_http_brings_cost(worker, &guard, &item->request);
    reason = item->request.has_key || brings_cost
                 ? NULL
                 : ration_http_add_attributes(worker, ration_engine_policy(&guard), &item->request,
                                              &item->room);
    if (brings_cost)
        (void)ration_http_permit_inline(worker);
    else if (reason != NULL)
        ration_http_worker_problem(worker, 400, reason, NULL);
    else if (worker->loop_worker->engine_connection != NULL)
        ration_http_get_async(worker, &guard, item, deny_status);
    else if (prepare_policy_fields(worker, &guard)) {
        (void)ration_http_decide(worker, &guard, item, 1);
        ration_http_answer_get(worker, item, deny_status, true);
    } else
        ration_http_worker_problem(worker, 503, "The server is short of memory.", NULL);
    ration_engine_unlock(&guard);
}

/* One check of a batch, or a single one. In a batch each check may fail separately. */
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
    if (item->request.has_key)
        adopt_inline_limit(item, &own_limit, &own_fields);
    describe_check(&item->check, limits, &answer);
    ration_check_answer_write(json, &answer);
}

void ration_http_answer_one(struct ration_http_worker *worker, struct ration_http_check *item)
{
    struct ration_http_answer answer;
    struct ration_json json;

    if (!is_decided(item)) {
        answer_undecided(worker, item);
        return;
    }
    ration_http_worker_begin(worker, &answer, 200);
    ration_http_answer_body(&answer, "application/json");
    ration_json_init(&json, worker->output);
    ration_http_write_check(&json, item);
    ration_http_answer_end(&answer);
}
