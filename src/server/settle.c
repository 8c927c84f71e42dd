/*
 * settle: what a connection waits for next.
 *
 * Whatever happened to a connection - bytes came or went, the protocol spoke, a deadline passed -
 * only changes its fields. Here they are read, in one place, to decide whether it ends, which
 * deadline runs and what its socket is watched for.
 */
#include <sys/socket.h>

#include "server/loop_parts.h"

static bool is_at_rest(const struct ration_connection *connection)
{
    return connection->phase == RATION_PHASE_IDLE && connection->input.bytes == NULL &&
           !connection->held;
}

/*
 * The last answer is out. A socket closed now, with bytes unread, would reset the connection and
 * may take that answer from the client: so it is shut down, and the client heard out for a while.
 */
static void linger(struct ration_connection *connection)
{
    if (connection->client_ended || shutdown(connection->fd, SHUT_WR) != 0) {
        connection->ending = connection->ending_after;
        return;
    }
    connection->lingers = true;
    connection->stopped_early = false;
    ration_kept_done(connection, &connection->input);
}

/* With nothing left to send: whether that was all. */
static void conclude(struct ration_connection *connection)
{
    if (connection->ending_after != RATION_ENDING_NONE) {
        if (!connection->lingers || connection->client_ended)
            linger(connection);
    } else if (connection->client_ended && !connection->held && !connection->stopped_early) {
        connection->ending = RATION_ENDING_CLIENT;
    } else if (connection->loop->draining && is_at_rest(connection)) {
        connection->ending_after = RATION_ENDING_DRAIN;
        if (ration_connection_is_through(connection))
            connection->ending = RATION_ENDING_DRAIN; /* who rests need not be heard out */
        else
            linger(connection);
    }
}

static unsigned class_of(const struct ration_connection *connection)
{
    static const unsigned by_phase[] = {RATION_DEADLINE_IDLE, RATION_DEADLINE_HEAD,
                                        RATION_DEADLINE_BODY};

    if (connection->lingers)
        return RATION_DEADLINE_LINGER;
    if (connection->ending_after != RATION_ENDING_NONE)
        return RATION_DEADLINE_WRITE;
    if (connection->is_transaction)
        return RATION_DEADLINE_MULTI;
    if (ration_kept_size(&connection->output) > 0)
        return RATION_DEADLINE_WRITE;
    if (connection->held || connection->yields)
        return RATION_DEADLINE_NONE;
    if (connection->phase == RATION_PHASE_IDLE)
        return RATION_DEADLINE_IDLE + connection->listener->index;
    return by_phase[connection->phase];
}

/* Deadlines that no request starts again. */
static bool is_once(unsigned class_index)
{
    return class_index == RATION_DEADLINE_LINGER || class_index == RATION_DEADLINE_MULTI;
}

static void update_deadline(struct ration_connection *connection)
{
    struct ration_loop *loop = connection->loop;
    struct ration_deadline *deadline = &connection->deadline;
    unsigned class_index = class_of(connection);
    bool runs = deadline->before != NULL && deadline->class_index == class_index;
    bool begins = class_index == RATION_DEADLINE_WRITE
                      ? connection->write_begins
                      : connection->phase_begins && !is_once(class_index);

    connection->phase_begins = connection->write_begins = false;
    if (class_index == RATION_DEADLINE_NONE) {
        ration_deadlines_stop(deadline);
    } else if (begins || !runs) {
        ration_deadlines_start(&loop->deadlines, deadline, class_index,
                               ration_loop_coarse_ms(loop));
        if (deadline->before != NULL)
            ration_loop_deadline_started(loop, deadline->end_ms);
    }
}

/*
 * The second deadline: of a delay, or of a client that does not read where nothing more can be answered,
 * and that meets its end earlier.
 */
static void update_pause(struct ration_connection *connection)
{
    struct ration_loop *loop = connection->loop;
    bool stalls = connection->ending_after == RATION_ENDING_NONE &&
                  ration_connection_is_output_full(connection);
    unsigned class_index = connection->is_delayed ? RATION_DEADLINE_DELAY : RATION_DEADLINE_STALL;
    bool runs = connection->pause.before != NULL && connection->pause.class_index == class_index;

    if (!stalls && !connection->is_delayed) {
        ration_deadlines_stop(&connection->pause);
    } else if (connection->sent_some || !runs) {
        ration_deadlines_start(&loop->deadlines, &connection->pause, class_index,
                               ration_loop_coarse_ms(loop));
        ration_loop_deadline_started(loop, connection->pause.end_ms);
        connection->queued_bytes = stalls ? ration_connection_queued(connection) : 0;
    }
    connection->sent_some = false;
}

static void update_events(struct ration_connection *connection)
{
    uint32_t unsent = ration_kept_size(&connection->output);
    bool answers = connection->ending_after == RATION_ENDING_NONE &&
                   !ration_connection_is_output_full(connection) && !connection->held &&
                   !connection->yields && !connection->is_delayed;
    /* before the last reply is taken for as long as the write deadline allows */
    bool hears = connection->lingers ? connection->lingered_bytes <= RATION_LINGER_BYTES_MAX
                                     : connection->ending_after != RATION_ENDING_NONE;
    bool reads = !connection->client_ended && (answers || hears);
    bool writes = unsent > 0 && !connection->is_delayed;

    if (connection->yields)
        ration_loop_queue(connection->loop, &connection->job);
    ration_connection_watch(connection, (reads ? UV_READABLE : 0) | (writes ? UV_WRITABLE : 0));
}

void ration_connection_settle(struct ration_connection *connection)
{
    if (connection->ending == RATION_ENDING_NONE && ration_kept_size(&connection->output) == 0)
        conclude(connection);
    if (connection->ending != RATION_ENDING_NONE) {
        ration_connection_end(connection, connection->ending);
        return;
    }
    update_deadline(connection);
    if (__builtin_expect(connection->output.bytes != NULL || connection->is_delayed ||
                             connection->pause.before != NULL,
                         0))
        update_pause(connection);
    update_events(connection);
}
