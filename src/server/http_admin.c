/*
 * http_admin: what operators ask and do, in JSON.
 */
#include <stdio.h>
#include <string.h>

#include "proto/check_json.h"
#include "proto/query.h"
#include "server/http_desk.h"
#include "server/limit_list.h"
#include "server/limit_name.h"
#include "server/reload.h"
#include "server/top.h"

#define TOP_COUNT_DEFAULT  10
#define TOP_PARAMETERS_MAX 8

static void begin_json(struct ration_http_desk *desk, struct ration_http_answer *answer,
                       struct ration_json *json)
{
    ration_http_desk_begin(desk, answer, 200);
    ration_http_answer_body(answer, "application/json");
    ration_json_init(json, desk->output);
}

/* The name of a limit that there is, for as long as the visit; NULL: answered with a problem. */
static const char *find_limit(struct ration_http_desk *desk, const struct ration_visit *visit,
                              enum ration_limit_names among, const struct ration_key *name,
                              const char *pointer)
{
    char reason[RATION_LIMIT_NAME_TEXT_SIZE];
    const char *found = ration_limit_name_find(visit, among, name, reason);

    if (found == NULL) {
        ration_http_desk_problem(desk, 404, reason, pointer);
        ration_connection_yield(desk->connection); /* the guess is slow */
    }
    return found;
}

static ration_status edit_key(ration_limiter *throttle, const struct ration_asked *asked,
                              uint64_t now_ns)
{
    uint64_t until_ns;

    switch (asked->kind) {
    case RATION_CHECK_RESET:
        return ration_limiter_reset(throttle, &asked->key, now_ns);
    case RATION_CHECK_BLOCK:
        if (__builtin_add_overflow(now_ns, asked->block_ns, &until_ns))
            until_ns = UINT64_MAX;
        return ration_limiter_block_until(throttle, &asked->key, until_ns, now_ns);
    default:
        return ration_limiter_refund_as(throttle, &asked->key, &asked->limit, asked->tokens,
                                        now_ns);
    }
}

static ration_status edit(struct ration_http_desk *desk, const struct ration_visit *guard,
                          const struct ration_asked *asked, const char *limit_name,
                          uint64_t *out_steps, size_t *out_count)
{
    ration_gate *gate = desk->service->gate;
    uint64_t now_ns = ration_http_desk_now(desk);
    struct ration_edit edit = {.attributes = asked->attributes,
                               .attribute_count = asked->attribute_count,
                               .limit_name = limit_name,
                               .guard = guard,
                               .match_steps = out_steps};
    uint64_t until_ns;

    if (asked->has_key) {
        *out_count = 1;
        return edit_key(ration_gate_throttle(gate), asked, now_ns);
    }
    switch (asked->kind) {
    case RATION_CHECK_REFUND:
        return ration_gate_refund(gate, &edit, asked->tokens, now_ns, out_count);
    case RATION_CHECK_RESET:
        return ration_gate_reset(gate, &edit, now_ns, out_count);
    default:
        if (__builtin_add_overflow(now_ns, asked->block_ns, &until_ns))
            until_ns = UINT64_MAX;
        return ration_gate_block_until(gate, &edit, until_ns, now_ns, out_count);
    }
}

static const char *reason_of(ration_status status)
{
    switch (status) {
    case RATION_EUNFIT:
        return "None of the limits that apply can do this: shadow limits deny nobody.";
    case RATION_ERANGE:
        return RATION_BLOCK_TOO_LONG;
    case RATION_ESTORE:
        return "Redis cannot be asked; what was done is not known.";
    case RATION_ENOMEM:
        return "The key finds no place in the table, and is not blocked.";
    default:
        return "A request has at most 64 attributes, none of them twice, an ip that is an address, "
               "values of at most attribute-bytes-max, and at most 16 limits that apply.";
    }
}

static void write_edited(struct ration_http_desk *desk, ration_status status, size_t count)
{
    bool is_away = status == RATION_ENOMEM || status == RATION_ESTORE;
    struct ration_http_answer answer;
    struct ration_json json;

    if (status != RATION_OK) {
        ration_http_desk_problem(desk, is_away ? 503 : 400, reason_of(status), NULL);
        return;
    }
    begin_json(desk, &answer, &json);
    ration_admin_write_changed(&json, count);
    ration_http_answer_end(&answer);
}

static void on_edited(void *context, ration_status status, size_t count)
{
    struct ration_connection *connection = context;
    struct ration_http_session *session = ration_connection_state(connection);
    struct ration_http_desk *desk = ration_http_desk_resume(connection);

    session->editing = NULL;
    write_edited(desk, status, count);
    ration_http_desk_end_later(desk);
}

/* In Redis: answered when it is done. */
static void edit_later(struct ration_http_desk *desk, const struct ration_visit *guard,
                       const struct ration_asked *asked, const char *limit_name,
                       uint64_t *out_steps)
{
    static const enum ration_gate_edit_kind kinds[] = {
        [RATION_CHECK_REFUND] = RATION_EDIT_REFUND,
        [RATION_CHECK_RESET] = RATION_EDIT_RESET,
        [RATION_CHECK_BLOCK] = RATION_EDIT_BLOCK,
    };
    struct ration_http_session *session = ration_connection_state(desk->connection);
    struct ration_edit edit = {.attributes = asked->attributes,
                               .attribute_count = asked->attribute_count,
                               .limit_name = limit_name,
                               .guard = guard,
                               .match_steps = out_steps};
    struct ration_gate_task task = {
        .kind = kinds[asked->kind],
        .edit = asked->has_key ? NULL : &edit,
        .keys = &asked->key,
        .key_count = asked->has_key,
        .limit = asked->kind == RATION_CHECK_REFUND ? &asked->limit : NULL,
        .tokens = asked->tokens,
        .now_ns = ration_http_desk_now(desk),
    };

    if (__builtin_add_overflow(task.now_ns, asked->block_ns, &task.until_ns))
        task.until_ns = UINT64_MAX;
    ration_connection_hold(desk->connection); /* if it is done at once, this is over at once */
    session->editing = ration_gate_edit_begin(desk->part->link, &task, on_edited, desk->connection);
}

static void answer_clear(struct ration_connection *connection,
                         const struct ration_reload_result *result)
{
    struct ration_http_desk *desk = ration_http_desk_resume(connection);

    if (result->is_done)
        write_edited(desk, RATION_OK, 1);
    else
        ration_http_desk_problem(desk, 400, RATION_INLINE_IN_REDIS, "/inline");
    ration_http_desk_end_later(desk);
}

/* Has the reloader's thread do the task, and answer() write the response later. */
static void begin_task(struct ration_http_desk *desk, enum ration_reloader_task task,
                       ration_reload_answer *answer)
{
    struct ration_http_session *session = ration_connection_state(desk->connection);

    if (!ration_reloader_serve(desk->service->reloader, task, desk->connection, answer,
                               &session->reload))
        ration_http_desk_problem(desk, 503, "The server is short of memory.", NULL);
}

static void answer_edit(struct ration_http_desk *desk, const struct ration_visit *guard,
                        const struct ration_asked *asked, const char *limit_name)
{
    size_t count = 0;
    uint64_t steps = 0;
    ration_status status;

    if (asked->is_inline) {
        begin_task(desk, RATION_RELOADER_CLEAR_INLINE, answer_clear);
        return;
    }
    if (desk->part->link != NULL) {
        edit_later(desk, guard, asked, limit_name, &steps);
    } else {
        status = edit(desk, guard, asked, limit_name, &steps, &count);
        write_edited(desk, status, count);
    }
    ration_connection_charge(desk->connection, steps);
}

static void answer_admin(struct ration_http_desk *desk, ration_checks *checks)
{
    struct ration_http_check *item = &desk->checks[0];
    const struct ration_asked *asked = &item->asked;
    struct ration_visit visit;
    const char *name = NULL;

    ration_checks_get(checks, 0, &item->room, &item->asked);
    ration_gate_enter(desk->service->gate, &visit);
    if (asked->has_limit_name)
        name = find_limit(desk, &visit, RATION_LIMIT_NAMES_POLICY, &asked->limit_name, "/limit");
    if (!asked->has_limit_name || name != NULL)
        answer_edit(desk, &visit, asked, name);
    ration_gate_leave(&visit);
    ration_checks_free(checks);
}

void ration_http_post_refund(struct ration_http_desk *desk)
{
    ration_http_read_body(desk, RATION_CHECK_REFUND, answer_admin);
}

void ration_http_post_reset(struct ration_http_desk *desk)
{
    ration_http_read_body(desk, RATION_CHECK_RESET, answer_admin);
}

void ration_http_post_block(struct ration_http_desk *desk)
{
    ration_http_read_body(desk, RATION_CHECK_BLOCK, answer_admin);
}

struct top_query {
    enum ration_top by;
    size_t count;
    struct ration_key limit_name;
    bool has_limit;
};

static bool read_count(const struct ration_key *text, size_t *out_count)
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

/* False, with what is wrong. */
static bool read_top(struct ration_http_desk *desk, struct top_query *top, const char **reason)
{
    struct ration_attribute parameters[TOP_PARAMETERS_MAX];
    char *query = (char *)(uintptr_t)desk->request.query.bytes;
    size_t count = 0;

    *reason = "The query cannot be read: limit=NAME, by=denied or by=cost, count=1 to 100.";
    if (ration_query_read(query, desk->request.query.size, parameters, TOP_PARAMETERS_MAX, &count,
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
            if (!read_count(value, &top->count))
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
    if (item->has_left)
        ration_json_u64(json, item->left_tokens);
    else
        ration_json_null(json);
    ration_json_end(json);
}

static bool write_top(struct ration_walk *walk)
{
    struct ration_top_list *list = &((struct ration_top_walk *)walk)->list;
    struct ration_json json;

    ration_top_add_throttle(list, walk->service->gate);
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

static void start_top(struct ration_http_desk *desk, const struct top_query *top,
                      const char *limit_name)
{
    static const struct ration_walk_kind kind = {.size = sizeof(struct ration_top_walk),
                                                 .begin = ration_top_walk_begin,
                                                 .visit = ration_top_walk_visit,
                                                 .rest = write_top,
                                                 .head = ration_http_walk_head_json,
                                                 .end = ration_http_walk_end};
    struct ration_walk *walk = ration_http_desk_walk(desk, &kind);

    if (walk != NULL)
        ration_top_walk_start(walk, top->by, top->count, limit_name, ration_http_desk_now(desk));
}

void ration_http_get_top(struct ration_http_desk *desk)
{
    struct top_query top = {.by = RATION_TOP_DENIED, .count = TOP_COUNT_DEFAULT};
    struct ration_visit visit;
    const char *name = NULL;
    const char *reason;

    if (!read_top(desk, &top, &reason)) {
        ration_http_desk_problem(desk, 400, reason, NULL);
        return;
    }
    ration_gate_enter(desk->service->gate, &visit);
    if (top.has_limit)
        name = find_limit(desk, &visit, RATION_LIMIT_NAMES_ALL, &top.limit_name, NULL);
    if (!top.has_limit || name != NULL)
        start_top(desk, &top, name);
    ration_gate_leave(&visit);
}

/* GET /v1/limits, in steps. */
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

static void visit_limits(struct ration_walk *walk, const struct ration_visit *visit, size_t first,
                         size_t count)
{
    for (size_t i = first; i < first + count; i++) {
        struct ration_admin_limit limit;

        ration_limit_list_get(visit, i, &limit);
        ration_admin_write_limit(&((struct limits_walk *)walk)->json, &limit);
    }
}

static bool end_limits(struct ration_walk *walk)
{
    ration_admin_end_limits(&((struct limits_walk *)walk)->json);
    return true;
}

void ration_http_get_limits(struct ration_http_desk *desk)
{
    static const struct ration_walk_kind kind = {.size = sizeof(struct limits_walk),
                                                 .begin = begin_limits,
                                                 .visit = visit_limits,
                                                 .rest = end_limits,
                                                 .head = ration_http_walk_head_json,
                                                 .end = ration_http_walk_end};
    struct ration_walk *walk = ration_http_desk_walk(desk, &kind);

    if (walk != NULL)
        ration_walk_start(walk);
}

static void write_reloaded(struct ration_http_desk *desk, const char *text)
{
    struct ration_http_answer answer;
    struct ration_json json;
    struct ration_visit visit;

    ration_gate_enter(desk->service->gate, &visit);
    begin_json(desk, &answer, &json);
    ration_json_begin_object(&json);
    ration_json_name(&json, "generation");
    ration_json_u64(&json, ration_gate_generation(&visit));
    ration_json_name(&json, "limits");
    ration_json_u64(&json, ration_policy_limit_count(ration_gate_policy(&visit)));
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
    ration_gate_leave(&visit);
}

static void answer_reload(struct ration_connection *connection,
                          const struct ration_reload_result *result)
{
    struct ration_http_desk *desk = ration_http_desk_resume(connection);

    if (result->is_done)
        write_reloaded(desk, result->text);
    else
        ration_http_desk_problem(desk, 422, result->text, NULL);
    ration_http_desk_end_later(desk);
}

void ration_http_post_reload(struct ration_http_desk *desk)
{
    begin_task(desk, RATION_RELOADER_RELOAD, answer_reload);
}
