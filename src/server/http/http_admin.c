/*
 * http_admin: requests of operators, in JSON: refund, reset, block, top, limits, reload.
 */
#include <stdio.h>
#include <string.h>

#include "codec/http/check_json.h"
#include "codec/http/query.h"
#include "server/http/http_worker.h"
#include "server/ops/limit_name.h"
#include "server/ops/reloader.h"
#include "server/ops/top.h"

#define TOP_COUNT_DEFAULT  10
#define TOP_PARAMETERS_MAX 8

static void begin_json(struct ration_http_worker *worker, struct ration_http_answer *answer,
                       struct ration_json *json)
{
    ration_http_worker_begin(worker, answer, 200);
    ration_http_answer_body(answer, "application/json");
    ration_json_init(json, worker->output);
}

/* The name as the policy stores it, valid while the guard is held; NULL: no such limit, and the request is answered. */
static const char *find_limit_name(struct ration_http_worker *worker,
                                   const struct ration_engine_guard *guard,
                                   enum ration_limit_names among, const struct ration_key *name,
                                   const char *pointer)
{
    char reason[RATION_LIMIT_NAME_TEXT_SIZE];
    const char *found = ration_limit_name_find(guard, among, name, reason);

    if (found == NULL) {
        ration_http_worker_problem(worker, 404, reason, pointer);
        ration_connection_yield(worker->connection); /* finding a similar name is slow */
    }
    return found;
}

static ration_status apply_inline(ration_limiter *inline_limiter,
                                  const struct ration_check_request *request, uint64_t now_ns)
{
    uint64_t until_ns;

    switch (request->kind) {
    case RATION_CHECK_RESET:
        return ration_limiter_reset(inline_limiter, &request->key, now_ns);
    case RATION_CHECK_BLOCK:
        if (__builtin_add_overflow(now_ns, request->block_ns, &until_ns))
            until_ns = UINT64_MAX;
        return ration_limiter_block_until(inline_limiter, &request->key, until_ns, now_ns);
    default:
        return ration_limiter_refund_as(inline_limiter, &request->key, &request->limit,
                                        request->tokens, now_ns);
    }
}

static ration_status apply_admin_op(struct ration_http_worker *worker,
                                    const struct ration_engine_guard *guard,
                                    const struct ration_check_request *request,
                                    const char *limit_name, uint64_t *out_steps, size_t *out_count)
{
    ration_engine *engine = worker->service->engine;
    uint64_t now_ns = ration_http_worker_now(worker);
    struct ration_admin_op op = {.attributes = request->attributes,
                                 .attribute_count = request->attribute_count,
                                 .limit_name = limit_name,
                                 .guard = guard,
                                 .match_steps = out_steps};
    uint64_t until_ns;

    if (request->has_key) {
        *out_count = 1;
        return apply_inline(ration_engine_inline_limiter(engine), request, now_ns);
    }
    switch (request->kind) {
    case RATION_CHECK_REFUND:
        return ration_engine_refund(engine, &op, request->tokens, now_ns, out_count);
    case RATION_CHECK_RESET:
        return ration_engine_reset(engine, &op, now_ns, out_count);
    default:
        if (__builtin_add_overflow(now_ns, request->block_ns, &until_ns))
            until_ns = UINT64_MAX;
        return ration_engine_block_until(engine, &op, until_ns, now_ns, out_count);
    }
}

static const char *admin_error_text(ration_status status)
{
    switch (status) {
    case RATION_EUNSUPPORTED:
        return "None of the limits that apply can do this: shadow limits deny nobody.";
    case RATION_ERANGE:
        return RATION_BLOCK_TOO_LONG;
    case RATION_ESTORE:
        return "Redis is unavailable; whether the change was made is not known.";
    case RATION_ENOMEM:
        return "The table has no free slot for the key, and the key is not blocked.";
    default:
        return "A request has at most 64 attributes, none of them twice, an ip that is an address, "
               "values of at most max-attribute-size, and at most 16 limits that apply.";
    }
}

static void write_admin_result(struct ration_http_worker *worker, ration_status status,
                               size_t count)
{
    bool is_unavailable = status == RATION_ENOMEM || status == RATION_ESTORE;
    struct ration_http_answer answer;
    struct ration_json json;

    if (status != RATION_OK) {
        ration_http_worker_problem(worker, is_unavailable ? 503 : 400, admin_error_text(status),
                                   NULL);
        return;
    }
    begin_json(worker, &answer, &json);
    ration_admin_write_changed(&json, count);
    ration_http_answer_end(&answer);
}

static void on_admin_done(void *context, ration_status status, size_t count)
{
    struct ration_connection *connection = context;
    struct ration_http_session *session = ration_connection_state(connection);
    struct ration_http_worker *worker = ration_http_worker_resume(connection);

    session->admin_run = NULL;
    write_admin_result(worker, status, count);
    ration_http_worker_end_async(worker);
}

/* Executes the operation in Redis; on_admin_done() answers when it is done. */
static void start_admin_op(struct ration_http_worker *worker,
                           const struct ration_engine_guard *guard,
                           const struct ration_check_request *request, const char *limit_name,
                           uint64_t *out_steps)
{
    static const enum ration_admin_op_kind kinds[] = {
        [RATION_CHECK_REFUND] = RATION_ADMIN_REFUND,
        [RATION_CHECK_RESET] = RATION_ADMIN_RESET,
        [RATION_CHECK_BLOCK] = RATION_ADMIN_BLOCK,
    };
    struct ration_http_session *session = ration_connection_state(worker->connection);
    struct ration_admin_op op = {.attributes = request->attributes,
                                 .attribute_count = request->attribute_count,
                                 .limit_name = limit_name,
                                 .guard = guard,
                                 .match_steps = out_steps};
    struct ration_engine_admin_task task = {
        .kind = kinds[request->kind],
        .op = request->has_key ? NULL : &op,
        .keys = &request->key,
        .key_count = request->has_key,
        .limit = request->kind == RATION_CHECK_REFUND ? &request->limit : NULL,
        .tokens = request->tokens,
        .now_ns = ration_http_worker_now(worker),
    };

    if (__builtin_add_overflow(task.now_ns, request->block_ns, &task.until_ns))
        task.until_ns = UINT64_MAX;
    ration_connection_pause(
        worker->connection); /* on_admin_done() may resume it before begin returns */
    session->admin_run = ration_engine_admin_begin(worker->loop_worker->engine_connection, &task,
                                                   on_admin_done, worker->connection);
}

static void answer_clear_inline(struct ration_connection *connection,
                                const struct ration_reload_result *result)
{
    struct ration_http_worker *worker = ration_http_worker_resume(connection);

    if (result->is_done)
        write_admin_result(worker, RATION_OK, 1);
    else
        ration_http_worker_problem(worker, 400, RATION_INLINE_IN_REDIS, "/inline");
    ration_http_worker_end_async(worker);
}

/* Starts a task on the reloader's thread; answer() writes the response when the task is done. */
static void begin_task(struct ration_http_worker *worker, enum ration_reloader_task task,
                       ration_reload_answer *answer)
{
    struct ration_http_session *session = ration_connection_state(worker->connection);

    if (!ration_reloader_serve(worker->service->reloader, task, worker->connection, answer,
                               &session->reload))
        ration_http_worker_problem(worker, 503, "The server is short of memory.", NULL);
}

static void serve_admin_op(struct ration_http_worker *worker,
                           const struct ration_engine_guard *guard,
                           const struct ration_check_request *request, const char *limit_name)
{
    size_t count = 0;
    uint64_t steps = 0;
    ration_status status;

    if (request->is_inline) {
        begin_task(worker, RATION_RELOADER_CLEAR_INLINE, answer_clear_inline);
        return;
    }
    if (worker->loop_worker->engine_connection != NULL) {
        start_admin_op(worker, guard, request, limit_name, &steps);
    } else {
        status = apply_admin_op(worker, guard, request, limit_name, &steps, &count);
        write_admin_result(worker, status, count);
    }
    ration_connection_charge(worker->connection, steps);
}

static void serve_admin_request(struct ration_http_worker *worker, ration_checks *checks)
{
    struct ration_http_check *item = &worker->checks[0];
    const struct ration_check_request *request = &item->request;
    struct ration_engine_guard guard;
    const char *name = NULL;

    ration_check_json_get(checks, 0, &item->room, &item->request);
    ration_engine_lock(worker->service->engine, &guard);
    if (request->has_limit_name)
        name = find_limit_name(worker, &guard, RATION_LIMIT_NAMES_POLICY, &request->limit_name,
                               "/limit");
    if (!request->has_limit_name || name != NULL)
        serve_admin_op(worker, &guard, request, name);
    ration_engine_unlock(&guard);
    ration_check_json_free(checks);
}

void ration_http_post_refund(struct ration_http_worker *worker)
{
    ration_http_read_body(worker, RATION_CHECK_REFUND, serve_admin_request);
}

void ration_http_post_reset(struct ration_http_worker *worker)
{
    ration_http_read_body(worker, RATION_CHECK_RESET, serve_admin_request);
}

void ration_http_post_block(struct ration_http_worker *worker)
{
    ration_http_read_body(worker, RATION_CHECK_BLOCK, serve_admin_request);
}

struct top_query {
    enum ration_top by;
    size_t count;
    struct ration_key limit_name;
    bool has_limit;
};

static bool parse_count(const struct ration_key *text, size_t *out_count)
{
    const char *digits = text->bytes;
    size_t count = 0;

    for (size_t i = 0; i < text->size; i++) {
        if (digits[i] < '0' || digits[i] > '9' || count > RATION_TOP_MAX)
            return false;
        count = count * 10 + (size_t)(digits[i] - '0');
    }
    *out_count = count;
    return true;
}

/* False: *reason says what is wrong. */
static bool parse_top_query(struct ration_http_worker *worker, struct top_query *top,
                            const char **reason)
{
    struct ration_attribute parameters[TOP_PARAMETERS_MAX];
    char *query = (char *)(uintptr_t)worker->request.query.bytes;
    size_t count = 0;

    *reason = "The query cannot be read: limit=NAME, by=denied or by=cost, count=1 to 100.";
    if (ration_query_read(query, worker->request.query.size, parameters, TOP_PARAMETERS_MAX, &count,
                          NULL) != RATION_OK)
        return false;
    for (size_t i = 0; i < count; i++) {
        const struct ration_key *name = &parameters[i].name;
        const struct ration_key *value = &parameters[i].value;

        if (ration_http_is(name, "limit")) {
            top->limit_name = *value;
            top->has_limit = true;
        } else if (ration_http_is(name, "by") && ration_http_is(value, "cost")) {
            top->by = RATION_TOP_COST;
        } else if (ration_http_is(name, "count")) {
            if (!parse_count(value, &top->count))
                return false;
        } else if (!ration_http_is(name, "by") || !ration_http_is(value, "denied")) {
            return false;
        }
    }
    return top->count >= 1 && top->count <= RATION_TOP_MAX;
}

static void write_top_item(struct ration_json *json, const struct ration_top_item *item)
{
    size_t name_size = item->key.name_size < RATION_TOP_KEY_NAME_MAX ? (size_t)item->key.name_size
                                                                     : RATION_TOP_KEY_NAME_MAX;

    ration_json_begin_object(json);
    ration_json_name(json, "limit");
    ration_json_text(json, item->limit_name);
    ration_json_name(json, "key");
    ration_json_string(json, item->key.name, name_size);
    ration_json_name(json, "key_bytes");
    ration_json_u64(json, item->key.name_size);
    ration_json_name(json, "count");
    ration_json_u64(json, item->key.count);
    ration_json_name(json, "error");
    ration_json_u64(json, item->key.error);
    ration_json_name(json, "remaining");
    if (item->has_remaining)
        ration_json_u64(json, item->remaining_tokens);
    else
        ration_json_null(json);
    ration_json_end(json);
}

static bool write_top(struct ration_walk *walk)
{
    struct ration_top_list *list = &((struct ration_top_walk *)walk)->list;
    struct ration_json json;

    ration_top_add_inline(list, walk->service->engine);
    ration_json_init(&json, &walk->text);
    ration_json_begin_object(&json);
    ration_json_name(&json, "by");
    ration_json_text(&json, list->by == RATION_TOP_COST ? "cost" : "denied");
    ration_json_name(&json, "keys");
    ration_json_begin_array(&json);
    for (size_t i = 0; i < list->count; i++)
        write_top_item(&json, &list->items[i]);
    ration_json_end(&json);
    ration_json_end(&json);
    return true;
}

static void start_top(struct ration_http_worker *worker, const struct top_query *top,
                      const char *limit_name)
{
    static const struct ration_walk_kind kind = {.size = sizeof(struct ration_top_walk),
                                                 .begin = ration_top_walk_begin,
                                                 .visit = ration_top_walk_visit,
                                                 .finish = write_top,
                                                 .head = ration_http_walk_head_json,
                                                 .end = ration_http_walk_end};
    struct ration_walk *walk = ration_http_worker_walk(worker, &kind);

    if (walk != NULL)
        ration_top_walk_start(walk, top->by, top->count, limit_name,
                              ration_http_worker_now(worker));
}

void ration_http_get_top(struct ration_http_worker *worker)
{
    struct top_query top = {.by = RATION_TOP_DENIED, .count = TOP_COUNT_DEFAULT};
    struct ration_engine_guard guard;
    const char *name = NULL;
    const char *reason;

    if (!parse_top_query(worker, &top, &reason)) {
        ration_http_worker_problem(worker, 400, reason, NULL);
        return;
    }
    ration_engine_lock(worker->service->engine, &guard);
    if (top.has_limit)
        name = find_limit_name(worker, &guard, RATION_LIMIT_NAMES_ALL, &top.limit_name, NULL);
    if (!top.has_limit || name != NULL)
        start_top(worker, &top, name);
    ration_engine_unlock(&guard);
}

/* The response to GET /v1/limits, built in steps. */
struct limits_walk {
    struct ration_walk walk;
    struct ration_json json;
};

static void begin_limits(struct ration_walk *walk)
{
    struct ration_json *json = &((struct limits_walk *)walk)->json;

    ration_json_init(json, &walk->text);
    ration_admin_begin_limits(json);
}

static void visit_limits(struct ration_walk *walk, const struct ration_engine_guard *guard,
                         size_t first, size_t count)
{
    for (size_t i = first; i < first + count; i++) {
        struct ration_admin_limit limit;

        ration_limit_list_get(guard, i, &limit);
        ration_admin_write_limit(&((struct limits_walk *)walk)->json, &limit);
    }
}

static bool end_limits(struct ration_walk *walk)
{
    ration_admin_end_limits(&((struct limits_walk *)walk)->json);
    return true;
}

void ration_http_get_limits(struct ration_http_worker *worker)
{
    static const struct ration_walk_kind kind = {.size = sizeof(struct limits_walk),
                                                 .begin = begin_limits,
                                                 .visit = visit_limits,
                                                 .finish = end_limits,
                                                 .head = ration_http_walk_head_json,
                                                 .end = ration_http_walk_end};
    struct ration_walk *walk = ration_http_worker_walk(worker, &kind);

    if (walk != NULL)
        ration_walk_start(walk);
}

static void write_reloaded(struct ration_http_worker *worker, const char *text)
{
    struct ration_http_answer answer;
    struct ration_json json;
    struct ration_engine_guard guard;

    ration_engine_lock(worker->service->engine, &guard);
    begin_json(worker, &answer, &json);
    ration_json_begin_object(&json);
    ration_json_name(&json, "generation");
    ration_json_u64(&json, ration_engine_generation(&guard));
    ration_json_name(&json, "limits");
    ration_json_u64(&json, ration_policy_limit_count(ration_engine_policy(&guard)));
    ration_json_name(&json, "changes");
    ration_json_begin_array(&json);
    while (*text != '\0') {
        size_t size = strcspn(text, "\n");

        ration_json_string(&json, text, size);
        text += size + (text[size] != '\0');
    }
    ration_json_end(&json);
    ration_json_end(&json);
    ration_http_answer_end(&answer);
    ration_engine_unlock(&guard);
}

static void answer_reload(struct ration_connection *connection,
                          const struct ration_reload_result *result)
{
    struct ration_http_worker *worker = ration_http_worker_resume(connection);

    if (result->is_done)
        write_reloaded(worker, result->text);
    else
        ration_http_worker_problem(worker, 422, result->text, NULL);
    ration_http_worker_end_async(worker);
}

void ration_http_post_reload(struct ration_http_worker *worker)
{
    begin_task(worker, RATION_RELOADER_RELOAD, answer_reload);
}
