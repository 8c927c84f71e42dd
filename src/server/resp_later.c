/*
 * resp_later: batches that Redis decides.
 *
 * What waits at the desk goes out as one batch, and the connection is held until it comes back. Its
 * requests are consumed; of what they were only the kind of each answer is kept.
 */
#include <stdlib.h>

#include "server/resp_session.h"

enum kind { KIND_CHECK, KIND_THROTTLE };

struct ration_resp_later {
    ration_gate_batch *batch;
    uint64_t began_ns;
    bool is_silent; /* CLIENT REPLY was not ON */
    size_t count;
    uint8_t kinds[];
};

static void free_later(struct ration_resp_later *later)
{
    ration_gate_batch_free(later->batch);
    free(later);
}

void ration_session_forget_later(struct ration_session *session)
{
    if (session->later != NULL)
        free_later(session->later);
    session->later = NULL;
}

static void write_answers(struct ration_resp_desk *desk, const struct ration_resp_later *later)
{
    size_t size_before = desk->output->size;

    for (size_t i = 0; i < later->count; i++) {
        const struct ration_check *check = ration_gate_batch_check(later->batch, i);

        if (later->kinds[i] == KIND_CHECK)
            ration_desk_write_check(desk, check);
        else
            ration_desk_write_throttle(desk, check->status, &check->decision);
    }
    ration_durations_end(&desk->part->durations, later->began_ns, later->count);
    if (later->is_silent)
        ration_output_rewind(desk->output, size_before);
}

static void on_decided(void *context)
{
    struct ration_connection *connection = context;
    struct ration_resp_desk *desk = ration_resp_desk_take(connection);
    struct ration_resp_later *later = desk->session->later;

    desk->session->later = NULL;
    ration_service_publish_link(desk->part);
    write_answers(desk, later);
    free_later(later);
    ration_connection_resume(connection);
}

/* Adds what waits, checks as far as this turn has time for them. False: no memory, or a key is too long. */
static bool add_some(struct ration_resp_desk *desk, struct ration_resp_later *later)
{
    uint64_t steps_left = ration_connection_match_steps_left(desk->connection);
    uint64_t steps = 0;

    for (size_t i = 0; i < desk->throttle_count; i++) {
        const struct ration_batch_item *item = &desk->items[i];

        if (ration_gate_batch_add_throttle(later->batch, item->request, item->limit,
                                           item->cost_tokens, item->is_peek) != RATION_OK)
            return false;
        later->kinds[later->count++] = KIND_THROTTLE;
    }
    for (size_t i = 0; i < desk->check_count && (i == 0 || steps < steps_left); i++) {
        if (ration_gate_batch_add(later->batch, &desk->checks[i]) != RATION_OK)
            return false;
        steps += ration_gate_batch_check(later->batch, later->count)->match_steps;
        later->kinds[later->count++] = KIND_CHECK;
    }
    ration_connection_charge(desk->connection, steps);
    return true;
}

static struct ration_resp_later *make_later(struct ration_resp_desk *desk)
{
    size_t count = desk->throttle_count + desk->check_count;
    struct ration_resp_later *later = malloc(sizeof(*later) + count);

    if (later == NULL)
        return NULL;
    later->count = 0;
    later->is_silent = desk->session->reply_mode != RATION_REPLY_ON;
    later->began_ns = ration_durations_begin(&desk->part->durations);
    later->batch = ration_gate_batch_create(desk->part->link, NULL, ration_desk_now(desk),
                                            on_decided, desk->connection);
    if (later->batch != NULL && add_some(desk, later))
        return later;
    free_later(later);
    return NULL;
}

bool ration_desk_flush_later(struct ration_resp_desk *desk)
{
    size_t count = desk->throttle_count + desk->check_count;
    struct ration_resp_later *later;
    bool is_all;

    if (count == 0)
        return true;
    later = make_later(desk);
    is_all = ration_desk_postpone(desk, later == NULL ? desk->check_count
                                                      : later->count - desk->throttle_count);
    desk->throttle_count = 0;
    desk->batch_number++;
    if (later == NULL) {
        for (size_t i = 0; i < count; i++)
            ration_desk_error(desk, "ERR a key is too long, or the server is short of memory");
        return true;
    }
    if (ration_gate_batch_send(later->batch)) {
        ration_service_publish_link(desk->part);
        write_answers(desk, later);
        free_later(later);
        return is_all;
    }
    desk->session->later = later;
    desk->is_waiting = true;
    ration_connection_hold(desk->connection);
    return false;
}
