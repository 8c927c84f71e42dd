/*
 * http_later: checks that Redis decides, and their answers when it has.
 */
#include <stdlib.h>

#include "server/http_desk.h"

struct ration_http_later {
    ration_gate_batch *batch;
    uint64_t began_ns;
    bool is_get;
    unsigned deny_status;      /* GET */
    struct ration_asked asked; /* GET; its attributes are gone */
    ration_checks *checks;     /* POST; owned */
    size_t count;
    ration_status *statuses; /* of those that could not be asked; owned */
};

static void free_later(struct ration_http_later *later)
{
    ration_gate_batch_free(later->batch);
    if (later->checks != NULL)
        ration_checks_free(later->checks);
    free(later->statuses);
    free(later);
}

void ration_http_forget_later(struct ration_http_session *session)
{
    if (session->later != NULL)
        free_later(session->later);
    session->later = NULL;
}

/* Answering ------------------------------------------------------------------------------------ */

/* What the batch says of one check. */
static void adopt(const struct ration_check *check, struct ration_http_check *item)
{
    item->check = *check;
    item->decision = check->decision;
    item->status = check->status;
    for (uint32_t i = 0; i < check->part_count && !item->asked.has_key; i++)
        item->parts[i] = check->parts[i];
    item->check.parts = item->parts;
}

static void take_item(struct ration_http_desk *desk, struct ration_http_later *later, size_t index,
                      size_t *next)
{
    struct ration_http_check *item = &desk->checks[0];

    if (later->is_get)
        item->asked = later->asked;
    else
        ration_checks_get(later->checks, index, &item->room, &item->asked);
    if (later->statuses[index] == RATION_OK) {
        adopt(ration_gate_batch_check(later->batch, (*next)++), item);
        return;
    }
    item->status = item->check.status = later->statuses[index];
    item->check.reason = "the server is short of memory";
}

static void write_answer(struct ration_http_desk *desk, struct ration_http_later *later)
{
    bool is_batch = !later->is_get && ration_checks_is_batch(later->checks);
    struct ration_http_answer answer;
    struct ration_json json;
    size_t next = 0;

    ration_durations_end(&desk->part->durations, later->began_ns, later->count);
    if (!is_batch) {
        take_item(desk, later, 0, &next);
        if (later->is_get)
            ration_http_answer_get(desk, &desk->checks[0], later->deny_status, false);
        else
            ration_http_answer_one(desk, &desk->checks[0]);
        return;
    }
    ration_http_desk_begin(desk, &answer, 200);
    ration_http_answer_body(&answer, "application/json");
    ration_json_init(&json, desk->output);
    ration_check_answer_begin_batch(&json);
    for (size_t i = 0; i < later->count; i++) {
        take_item(desk, later, i, &next);
        ration_http_write_check(&json, &desk->checks[0]);
    }
    ration_check_answer_end_batch(&json);
    ration_http_answer_end(&answer);
}

static void on_decided(void *context)
{
    struct ration_connection *connection = context;
    struct ration_http_session *session = ration_connection_state(connection);
    struct ration_http_desk *desk = ration_http_desk_resume(connection);
    struct ration_http_later *later = session->later;
    size_t size_before = desk->output->size;

    session->later = NULL;
    ration_service_publish_link(desk->part);
    write_answer(desk, later);
    ration_http_desk_keep_room(desk, size_before);
    free_later(later);
    ration_http_desk_end_later(desk);
}

/* Asking --------------------------------------------------------------------------------------- */

static ration_status add(const struct ration_http_desk *desk, struct ration_http_later *later,
                         const struct ration_asked *asked)
{
    struct ration_check check = {
        .attributes = asked->attributes,
        .attribute_count = asked->attribute_count,
        .cost_tokens = asked->tokens,
        .is_peek = asked->kind == RATION_CHECK_PEEK,
    };
    ration_status status;

    if (!asked->has_key)
        return ration_gate_batch_add(later->batch, &check);
    status = ration_service_check_inline(desk->service, &asked->limit);
    if (status != RATION_OK)
        return status;
    return ration_gate_batch_add_throttle(later->batch, &asked->key, &asked->limit, asked->tokens,
                                          asked->kind == RATION_CHECK_PEEK);
}

/* NULL: no memory, which is answered. */
static struct ration_http_later *make_later(struct ration_http_desk *desk,
                                            const struct ration_visit *guard, size_t count)
{
    struct ration_http_later *later = calloc(1, sizeof(*later));

    if (later != NULL) {
        later->count = count;
        later->statuses = calloc(count, sizeof(later->statuses[0]));
        later->batch = ration_gate_batch_create(desk->part->link, guard, ration_http_desk_now(desk),
                                                on_decided, desk->connection);
        later->began_ns = ration_durations_begin(&desk->part->durations);
        if (later->statuses != NULL && later->batch != NULL)
            return later;
        free_later(later);
    }
    ration_http_desk_problem(desk, 503, "The server is short of memory.", NULL);
    return NULL;
}

static void send_later(struct ration_http_desk *desk, struct ration_http_later *later)
{
    struct ration_http_session *session = ration_connection_state(desk->connection);

    if (ration_gate_batch_send(later->batch)) {
        ration_service_publish_link(desk->part);
        write_answer(desk, later);
        free_later(later);
        return;
    }
    session->later = later;
    ration_connection_hold(desk->connection);
}

void ration_http_get_later(struct ration_http_desk *desk, const struct ration_visit *guard,
                           const struct ration_http_check *item, unsigned deny_status)
{
    struct ration_http_later *later = make_later(desk, guard, 1);

    if (later == NULL)
        return;
    later->is_get = true;
    later->deny_status = deny_status;
    later->statuses[0] = add(desk, later, &item->asked);
    later->asked = item->asked;
    send_later(desk, later);
}

void ration_http_post_later(struct ration_http_desk *desk, ration_checks *checks)
{
    struct ration_http_later *later = make_later(desk, NULL, ration_checks_count(checks));
    struct ration_http_check *item = &desk->checks[0];

    if (later == NULL) {
        ration_checks_free(checks);
        return;
    }
    later->checks = checks;
    for (size_t i = 0; i < later->count; i++) {
        ration_checks_get(checks, i, &item->room, &item->asked);
        later->statuses[i] = add(desk, later, &item->asked);
    }
    send_later(desk, later);
}
