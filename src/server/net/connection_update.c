/*
 * connection_update: decides what a connection waits for next.
 *
 * Every event of a connection (bytes received or sent, a call of the protocol, an expired deadline) only changes
 * its fields. ration_connection_update() is the one place that reads them to decide whether the connection
 * closes, which deadlines run and which events its socket is watched for.
 */
#include <sys/socket.h>

#include "server/net/loop_parts.h"

static bool is_idle(const struct ration_connection *connection)
{
    return connection->phase == RATION_PHASE_IDLE && connection->input.bytes == NULL &&
           !connection->paused;
}

/*
 * The last reply is sent. Closing the socket now, with bytes unread, would reset the connection, and the client
 * may lose the reply. So our side is shut down, and input is received and discarded for linger_timeout_ms.
 */
static void start_lingering(struct ration_connection *connection)
{
    if (connection->received_eof || shutdown(connection->fd, SHUT_WR) != 0) {
        connection->close_reason = connection->close_after;
        return;
    }
    connection->is_lingering = true;
    connection->stopped_early = false;
    ration_buffer_done(connection, &connection->input);
}

/* The buffered output is empty: closes or lingers if there is nothing more to do. */
static void close_if_finished(struct ration_connection *connection)
{
    if (connection->close_after != RATION_CLOSE_REASON_NONE) {
        if (!connection->is_lingering || connection->received_eof)
            start_lingering(connection);
    } else if (connection->received_eof && !connection->paused && !connection->stopped_early) {
        connection->close_reason = RATION_CLOSE_REASON_CLIENT;
    } else if (connection->loop->draining && is_idle(connection)) {
        connection->close_after = RATION_CLOSE_REASON_SHUTDOWN;
        if (ration_connection_is_flushed(connection))
            connection->close_reason = RATION_CLOSE_REASON_SHUTDOWN; /* nothing to linger for */
        else
            start_lingering(connection);
    }
}

static unsigned deadline_class_of(const struct ration_connection *connection)
{
    static const unsigned by_phase[] = {RATION_DEADLINE_IDLE, RATION_DEADLINE_HEADERS,
                                        RATION_DEADLINE_BODY};

    if (connection->is_lingering)
        return RATION_DEADLINE_LINGER;
    if (connection->close_after != RATION_CLOSE_REASON_NONE)
        return RATION_DEADLINE_WRITE;
    if (connection->is_transaction)
        return RATION_DEADLINE_MULTI;
    if (ration_loop_buffer_size(&connection->output) > 0)
        return RATION_DEADLINE_WRITE;
    if (connection->paused || connection->yields)
        return RATION_DEADLINE_NONE;
    if (connection->phase == RATION_PHASE_IDLE)
        return RATION_DEADLINE_IDLE + connection->listener->index;
    return by_phase[connection->phase];
}

/* Deadlines that a new request does not restart. */
static bool never_restarts(unsigned class_index)
{
    return class_index == RATION_DEADLINE_LINGER || class_index == RATION_DEADLINE_MULTI;
}

static void update_deadline(struct ration_connection *connection)
{
    struct ration_loop *loop = connection->loop;
    struct ration_deadline *deadline = &connection->deadline;
    unsigned class_index = deadline_class_of(connection);
    bool is_running = deadline->before != NULL && deadline->class_index == class_index;
    bool restarts = class_index == RATION_DEADLINE_WRITE
                        ? connection->write_restarted
                        : connection->phase_began && !never_restarts(class_index);

    connection->phase_began = connection->write_restarted = false;
    if (class_index == RATION_DEADLINE_NONE) {
        ration_deadlines_stop(deadline);
    } else if (restarts || !is_running) {
        ration_deadlines_start(&loop->deadlines, deadline, class_index,
                               ration_loop_coarse_ms(loop));
        if (deadline->before != NULL)
            ration_loop_deadline_started(loop, deadline->end_ms);
    }
}

/*
 * The second deadline ends a delay (RATION_DEADLINE_DELAY), or closes a client that does not read although its
 * output is full, earlier than the write deadline would (RATION_DEADLINE_STALL).
 */
static void update_second_deadline(struct ration_connection *connection)
{
    struct ration_loop *loop = connection->loop;
    bool stalls = connection->close_after == RATION_CLOSE_REASON_NONE &&
                  ration_loop_is_output_full(connection);
    unsigned class_index = connection->is_delayed ? RATION_DEADLINE_DELAY : RATION_DEADLINE_STALL;
    bool is_running = connection->second_deadline.before != NULL &&
                      connection->second_deadline.class_index == class_index;

    if (!stalls && !connection->is_delayed) {
        ration_deadlines_stop(&connection->second_deadline);
    } else if (connection->sent_some || !is_running) {
        ration_deadlines_start(&loop->deadlines, &connection->second_deadline, class_index,
                               ration_loop_coarse_ms(loop));
        ration_loop_deadline_started(loop, connection->second_deadline.end_ms);
        connection->stall_queued_bytes = stalls ? ration_connection_queued(connection) : 0;
    }
    connection->sent_some = false;
}

static void update_events(struct ration_connection *connection)
{
    uint32_t unsent = ration_loop_buffer_size(&connection->output);
    bool serves = connection->close_after == RATION_CLOSE_REASON_NONE &&
                  !ration_loop_is_output_full(connection) && !connection->paused &&
                  !connection->yields && !connection->is_delayed;
    /* until the last reply is sent, the write deadline bounds this */
    bool discards = connection->is_lingering ? connection->lingered_bytes <= RATION_LINGER_BYTES_MAX
                                             : connection->close_after != RATION_CLOSE_REASON_NONE;
    bool reads = !connection->received_eof && (serves || discards);
    bool writes = unsent > 0 && !connection->is_delayed;

    if (connection->yields)
        ration_loop_queue(connection->loop, &connection->job);
    ration_connection_watch(connection, (reads ? UV_READABLE : 0) | (writes ? UV_WRITABLE : 0));
}

void ration_connection_update(struct ration_connection *connection)
{
    if (connection->close_reason == RATION_CLOSE_REASON_NONE &&
        ration_loop_buffer_size(&connection->output) == 0)
        close_if_finished(connection);
    if (connection->close_reason != RATION_CLOSE_REASON_NONE) {
        ration_connection_end(connection, connection->close_reason);
        return;
    }
    update_deadline(connection);
    if (__builtin_expect(connection->output.bytes != NULL || connection->is_delayed ||
                             connection->second_deadline.before != NULL,
                         0))
        update_second_deadline(connection);
    update_events(connection);
}
