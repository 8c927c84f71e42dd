/*
 * http_later: checks that Redis decides, and their answers when it has.
 */
#include <stdlib.h>

#include "server/http_desk.h"

struct ration_http_later {
    struct ration_job job; /* POST: adds the checks that one turn had no time for */
    struct ration_connection *connection;
    ration_gate_batch *batch;
    uint64_t began_ns;
    bool is_get;
    unsigned deny_status;      /* GET */
    struct ration_asked asked; /* GET; its attributes are gone */
    ration_checks *checks;     /* POST; owned */
    size_t count;
    size_t added_count;
    ration_status *statuses; /* of those that could not be asked; owned */
};

static void free_later(struct ration_http_later *later)
{
    ration_job_cancel(&later->job);
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

static ration_status add_asked(const struct ration_http_desk *desk, struct ration_http_later *later,
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

/* Adds the next one. Charges what that cost. */
static void add(const struct ration_http_desk *desk, struct ration_http_later *later,
                const struct ration_asked *asked)
{
    ration_status status = add_asked(desk, later, asked);

    later->statuses[later->added_count++] = status;
    if (status == RATION_OK && !asked->has_key)
        ration_connection_charge(
            later->connection,
            ration_gate_batch_check(later->batch, ration_gate_batch_count(later->batch) - 1)
                ->match_steps);
}

/* NULL: no memory, which is answered. */
static struct ration_http_later *make_later(struct ration_http_desk *desk,
                                            const struct ration_visit *guard, size_t count)
{
    struct ration_http_later *later = calloc(1, sizeof(*later));

    if (later != NULL) {
        later->count = count;
        later->connection = desk->connection;
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
    add(desk, later, &item->asked);
    later->asked = item->asked;
    send_later(desk, later);
}

/* As many as this turn has time for. True: that was all. */
static bool add_some(struct ration_http_desk *desk, struct ration_http_later *later)
{
    struct ration_http_check *item = &desk->checks[0];

    do {
        ration_checks_get(later->checks, later->added_count, &item->room, &item->asked);
        add(desk, later, &item->asked);
    } while (later->added_count < later->count &&
             ration_connection_match_steps_left(later->connection) > 0);
    return later->added_count == later->count;
}

static unsigned add_more(struct ration_job *job)
{
    struct ration_http_later *later = (struct ration_http_later *)job;
    struct ration_connection *connection = later->connection;
    struct ration_loop *loop = ration_connection_loop(connection);
    struct ration_loop_part *part = ration_loop_user(loop);

    if (!add_some(part->http, later))
        ration_loop_queue(loop, job);
    else if (ration_gate_batch_send(later->batch))
        on_decided(connection);
    return RATION_STEP_UNITS_MAX;
}

void ration_http_post_later(struct ration_http_desk *desk, ration_checks *checks)
{
    struct ration_http_session *session = ration_connection_state(desk->connection);
    struct ration_http_later *later = make_later(desk, NULL, ration_checks_count(checks));

    if (later == NULL) {
        ration_checks_free(checks);
        return;
    }
    later->checks = checks;
    if (later->count == 0 || add_some(desk, later)) {
        send_later(desk, later);
        return;
    }
    later->job.step = add_more;
    session->later = later;
    ration_connection_hold(desk->connection);
    ration_loop_queue(ration_connection_loop(desk->connection), &later->job);
}
