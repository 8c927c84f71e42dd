/*
 * connection_io: receives bytes, passes them to the protocol and sends its replies.
 *
 * The loop thread receives into the loop's buffer and passes that to the protocol; it collects the replies in
 * the loop's output and sends them together: one read, one write. Only bytes that the protocol did not consume or
 * the kernel did not accept are copied to the connection.
 */
#include <assert.h>
#include <errno.h>
#include <linux/sockios.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "server/net/loop_parts.h"

/* Sending ------------------------------------------------------------------------------------ */

void ration_connection_lost(struct ration_connection *connection)
{
    connection->close_reason =
        connection->is_lingering ? connection->close_after : RATION_CLOSE_REASON_RESET;
}

bool ration_connection_is_flushed(const struct ration_connection *connection)
{
    int unsent_bytes = 0, unread_bytes = 0;

    (void)ioctl(connection->fd, SIOCOUTQNSD, &unsent_bytes); /* fails for Unix sockets */
    (void)ioctl(connection->fd, FIONREAD, &unread_bytes);
    return unsent_bytes == 0 && unread_bytes == 0;
}

/* Returns how many bytes the kernel accepted; an error sets close_reason. */
static size_t send_some(struct ration_connection *connection, const char *bytes, size_t size)
{
    ssize_t sent = send(connection->fd, bytes, size, MSG_NOSIGNAL);

    if (sent >= 0) {
        ration_loop_count(&connection->loop->counters.sent_bytes, (uint64_t)sent);
        return (size_t)sent;
    }
    if (errno != EAGAIN && errno != EINTR)
        ration_connection_lost(connection);
    return 0;
}

/*
 * Buffers replies. Returns RATION_CLOSE_REASON_NONE, or why there is no room; the replies are then dropped. The
 * remainder of a partial reply and the last reply are buffered even if the output is full.
 */
static enum ration_close_reason buffer_output(struct ration_connection *connection,
                                              const char *bytes, size_t size)
{
    if (ration_loop_is_output_full(connection) && !connection->is_partial &&
        connection->close_after == RATION_CLOSE_REASON_NONE)
        return RATION_CLOSE_REASON_MAX_OUTPUT;
    if (ration_loop_buffer_size(&connection->output) == 0) {
        connection->write_deadline_bytes = (uint32_t)size;
        connection->write_restarted = true;
    }
    return ration_buffer_append(connection, &connection->output, bytes, size);
}

/*
 * Closes a connection that has no room for a request or for replies. Unless a reply was cut off in the middle,
 * the client gets a last reply; so that it can read that, further input is received and discarded.
 */
static void close_without_room(struct ration_connection *connection,
                               enum ration_close_reason close_reason, bool is_cut_off)
{
    bool is_refused = connection->close_after == close_reason; /* the last reply did not fit */

    if (is_cut_off || is_refused || close_reason == RATION_CLOSE_REASON_MEMORY)
        connection->close_reason = (uint8_t)close_reason;
    else
        ration_connection_reject(connection, close_reason);
}

/* Sends or buffers the replies that the protocol appended, and returns the output to the loop. */
void ration_connection_send(struct ration_connection *connection)
{
    struct ration_output *output = &connection->loop->output;
    /* Out of memory: no reply. The request may have been executed, and "503" would say that it was not. */
    enum ration_close_reason close_reason = !output->is_failed ? RATION_CLOSE_REASON_NONE
                                            : output->is_out_of_memory
                                                ? RATION_CLOSE_REASON_MEMORY
                                                : RATION_CLOSE_REASON_MAX_OUTPUT;
    size_t sent = 0;

    if (connection->loop->output_borrower != connection)
        return;
    connection->loop->output_borrower = NULL;
    if (connection->close_reason != RATION_CLOSE_REASON_NONE) {
        ration_output_reset(output);
        return;
    }
    if (close_reason == RATION_CLOSE_REASON_NONE && output->size > 0 && !connection->is_delayed &&
        ration_loop_buffer_size(&connection->output) == 0)
        sent = send_some(connection, output->bytes, output->size);
    if (close_reason == RATION_CLOSE_REASON_NONE &&
        connection->close_reason == RATION_CLOSE_REASON_NONE && sent < output->size)
        close_reason = buffer_output(connection, output->bytes + sent, output->size - sent);
    ration_output_reset(output);
    if (close_reason != RATION_CLOSE_REASON_NONE)
        close_without_room(connection, close_reason, sent > 0 || connection->is_partial);
}

void ration_connection_send_buffered(struct ration_connection *connection)
{
    struct ration_buffer *buffer = &connection->output;
    size_t size = ration_loop_buffer_size(buffer);
    size_t sent;

    if (size == 0)
        return;
    sent = send_some(connection, buffer->bytes + buffer->begin, size);
    ration_buffer_drop(connection, buffer, sent);
    connection->sent_some |= sent > 0;
    if (sent >= connection->write_deadline_bytes) {
        connection->write_deadline_bytes = ration_loop_buffer_size(buffer);
        connection->write_restarted = true;
    } else {
        connection->write_deadline_bytes -= (uint32_t)sent;
    }
}

/* Receiving ---------------------------------------------------------------------------------- */

/* Whether receive() must not be called now, even if input is available. */
static bool is_blocked(const struct ration_connection *connection)
{
    return connection->paused || connection->is_delayed ||
           connection->close_reason != RATION_CLOSE_REASON_NONE ||
           connection->close_after != RATION_CLOSE_REASON_NONE ||
           ration_loop_is_output_full(connection);
}

static size_t receive_once(struct ration_connection *connection, char *bytes, size_t size)
{
    size_t used;

    connection->input_min_bytes = 0;
    connection->in_callback = true;
    used = connection->listener->protocol->receive(connection, bytes, size);
    connection->in_callback = false;
    assert(used <= size);
    return used;
}

/* For a protocol without reports_phases: unconsumed bytes are a request, which ends when they are consumed. */
static void derive_phase(struct ration_connection *connection, size_t used, size_t unconsumed)
{
    enum ration_phase phase = unconsumed > 0 ? RATION_PHASE_HEAD : RATION_PHASE_IDLE;

    if (used > 0 || phase != connection->phase)
        connection->phase_began = true;
    connection->phase = (uint8_t)phase;
}

/* Bytes that the protocol has appended to the loop's output. */
static size_t appended_size(const struct ration_connection *connection)
{
    const struct ration_loop *loop = connection->loop;

    return loop->output_borrower == connection ? loop->output.size : 0;
}

/*
 * Calls receive() until the protocol needs more bytes, is blocked, or has replied as much as one turn allows.
 * receive() is called again only if it stopped because the output was full; the replies are sent first.
 * Returns how many bytes were consumed.
 */
static size_t serve_input(struct ration_connection *connection, char *bytes, size_t size)
{
    size_t used = 0, used_now = 1, answered = 0;
    bool again = true;

    while (again && used_now > 0 && used < size && size - used >= connection->input_min_bytes &&
           !is_blocked(connection)) {
        used_now = receive_once(connection, bytes + used, size - used);
        used += used_now;
        again = ration_connection_is_full(connection) && !connection->yields;
        answered += appended_size(connection);
        ration_connection_send(connection);
        if (again && answered >= (connection->is_unauthenticated ? RATION_OUTPUT_LOW_SIZE
                                                                 : RATION_TURN_OUTPUT_SIZE)) {
            connection->yields = true;
            again = false;
        }
    }
    connection->stopped_early = used < size && (is_blocked(connection) || connection->yields);
    connection->yields &= connection->stopped_early;
    if (!connection->listener->protocol->reports_phases)
        derive_phase(connection, used, size - used);
    return used;
}

/* Unconsumed bytes are an incomplete request; one above input_bytes_max closes the connection. */
static void check_unconsumed(struct ration_connection *connection, size_t unconsumed)
{
    const struct ration_server_limits *limits = &connection->loop->loops->limits;

    if (unconsumed > limits->input_bytes_max && !connection->stopped_early)
        ration_connection_reject(connection, RATION_CLOSE_REASON_MAX_INPUT);
}

void ration_connection_serve_buffered(struct ration_connection *connection)
{
    struct ration_buffer *buffer = &connection->input;
    size_t size = ration_loop_buffer_size(buffer);
    size_t used = serve_input(connection, buffer->bytes + buffer->begin, size);

    check_unconsumed(connection, size - used);
    ration_buffer_drop(connection, buffer, used);
}

/* False: there is no room, and the connection is being closed. */
static bool buffer_input(struct ration_connection *connection, const char *bytes, size_t size)
{
    enum ration_close_reason close_reason =
        ration_buffer_append(connection, &connection->input, bytes, size);

    if (close_reason != RATION_CLOSE_REASON_NONE)
        close_without_room(connection, close_reason, false);
    return close_reason == RATION_CLOSE_REASON_NONE;
}

static void serve_unbuffered(struct ration_connection *connection, char *bytes, size_t size)
{
    size_t used = serve_input(connection, bytes, size);

    check_unconsumed(connection, size - used);
    if (used < size && connection->close_after == RATION_CLOSE_REASON_NONE)
        buffer_input(connection, bytes + used, size - used);
}

static void handle_received(struct ration_connection *connection, char *bytes, size_t size)
{
    struct ration_loop *loop = connection->loop;
    bool is_secret = connection->input_is_secret;

    connection->input.is_secret |= is_secret;
    ration_loop_count(&loop->counters.reads, 1);
    ration_loop_count(&loop->counters.received_bytes, size);
    if (++loop->reads_since_now >= RATION_LOOP_READS_PER_NOW)
        loop->is_now_cached = false;
    if (connection->is_lingering) {
        connection->lingered_bytes += (uint32_t)size;
    } else if (connection->close_after != RATION_CLOSE_REASON_NONE) {
        return; /* the last reply is not sent yet: further input is discarded */
    } else if (connection->input.bytes == NULL) {
        serve_unbuffered(connection, bytes, size);
    } else if (buffer_input(connection, bytes, size)) {
        ration_connection_serve_buffered(connection);
    }
    if (is_secret)
        explicit_bzero(bytes, size);
}

void ration_connection_read(struct ration_connection *connection)
{
    char *bytes = connection->loop->input;
    ssize_t size = recv(connection->fd, bytes, RATION_LOOP_INPUT_SIZE, 0);

    if (size > 0)
        handle_received(connection, bytes, (size_t)size);
    else if (size == 0)
        connection->received_eof = true;
    else if (errno != EAGAIN && errno != EINTR)
        ration_connection_lost(connection);
}

uint32_t ration_connection_queued(const struct ration_connection *connection)
{
    int bytes = 0;

    return ioctl(connection->fd, SIOCOUTQ, &bytes) == 0 && bytes > 0 ? (uint32_t)bytes : 0;
}
