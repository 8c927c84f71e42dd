/*
 * transfer: bytes in, through the protocol, and out.
 *
 * What arrives is received into the loop's buffer and given to the protocol there; its answers are
 * collected in the loop's output and written at once: one read, one write. Only what is left over
 * on either side is copied to the connection.
 */
#include <assert.h>
#include <errno.h>
#include <linux/sockios.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "server/loop_parts.h"

/* Out ---------------------------------------------------------------------------------------- */

void ration_connection_lost(struct ration_connection *connection)
{
    connection->ending = connection->lingers ? connection->ending_after : RATION_ENDING_RESET;
}

bool ration_connection_is_through(const struct ration_connection *connection)
{
    int unsent_bytes = 0, unread_bytes = 0;

    (void)ioctl(connection->fd, SIOCOUTQNSD, &unsent_bytes); /* Unix sockets have none */
    (void)ioctl(connection->fd, FIONREAD, &unread_bytes);
    return unsent_bytes == 0 && unread_bytes == 0;
}

/* How much of bytes the system took; what went wrong becomes the connection's ending. */
static size_t write_some(struct ration_connection *connection, const char *bytes, size_t size)
{
    ssize_t sent = send(connection->fd, bytes, size, MSG_NOSIGNAL);

    if (sent >= 0) {
        ration_count(&connection->loop->counters.sent_bytes, (uint64_t)sent);
        return (size_t)sent;
    }
    if (errno != EAGAIN && errno != EINTR)
        ration_connection_lost(connection);
    return 0;
}

/*
 * RATION_ENDING_NONE, or why there is no room for what was answered, which is then dropped. The rest of a
 * reply and the last one have room however many others wait.
 */
static enum ration_ending keep_output(struct ration_connection *connection, const char *bytes,
                                      size_t size)
{
    if (ration_connection_is_output_full(connection) && !connection->is_partial &&
        connection->ending_after == RATION_ENDING_NONE)
        return RATION_ENDING_OUTPUT_MAX;
    if (ration_kept_size(&connection->output) == 0) {
        connection->untaken_bytes = (uint32_t)size;
        connection->write_begins = true;
    }
    return ration_kept_append(connection, &connection->output, bytes, size);
}

/*
 * There is no room for bytes, of a request or of replies. If no reply is cut off in the middle, the
 * client is told, and so that it reads this, all that it still sends is dropped.
 */
static void end_for_room(struct ration_connection *connection, enum ration_ending ending,
                         bool is_cut_off)
{
    bool is_refused = connection->ending_after == ending; /* that is what found no room */

    if (is_cut_off || is_refused || ending == RATION_ENDING_MEMORY)
        connection->ending = (uint8_t)ending;
    else
        ration_connection_refuse(connection, ending);
}

/* Writes what the protocol appended, and gives the output back to the loop. */
void ration_connection_send(struct ration_connection *connection)
{
    struct ration_output *output = &connection->loop->output;
    /* Without memory nothing is replied: the request may have been carried out, and "503" would deny that. */
    enum ration_ending ending = !output->is_failed         ? RATION_ENDING_NONE
                                : output->is_out_of_memory ? RATION_ENDING_MEMORY
                                                           : RATION_ENDING_OUTPUT_MAX;
    size_t sent = 0;

    if (connection->loop->output_borrower != connection)
        return;
    connection->loop->output_borrower = NULL;
    if (connection->ending != RATION_ENDING_NONE) {
        ration_output_reset(output);
        return;
    }
    if (ending == RATION_ENDING_NONE && output->size > 0 && !connection->is_delayed &&
        ration_kept_size(&connection->output) == 0)
        sent = write_some(connection, output->bytes, output->size);
    if (ending == RATION_ENDING_NONE && connection->ending == RATION_ENDING_NONE &&
        sent < output->size)
        ending = keep_output(connection, output->bytes + sent, output->size - sent);
    ration_output_reset(output);
    if (ending != RATION_ENDING_NONE)
        end_for_room(connection, ending, sent > 0 || connection->is_partial);
}

void ration_connection_send_kept(struct ration_connection *connection)
{
    struct ration_kept *kept = &connection->output;
    size_t size = ration_kept_size(kept);
    size_t sent;

    if (size == 0)
        return;
    sent = write_some(connection, kept->bytes + kept->begin, size);
    ration_kept_drop(connection, kept, sent);
    connection->sent_some |= sent > 0;
    if (sent >= connection->untaken_bytes) {
        connection->untaken_bytes = ration_kept_size(kept);
        connection->write_begins = true;
    } else {
        connection->untaken_bytes -= (uint32_t)sent;
    }
}

/* In ----------------------------------------------------------------------------------------- */

/* Whether receive() must not be called for now, whatever is there. */
static bool is_blocked(const struct ration_connection *connection)
{
    return connection->held || connection->is_delayed || connection->ending != RATION_ENDING_NONE ||
           connection->ending_after != RATION_ENDING_NONE ||
           ration_connection_is_output_full(connection);
}

static size_t receive_once(struct ration_connection *connection, char *bytes, size_t size)
{
    size_t used;

    connection->need_bytes = 0;
    connection->inside = true;
    used = connection->listener->protocol->receive(connection, bytes, size);
    connection->inside = false;
    assert(used <= size);
    return used;
}

/* For a protocol that does not tell: a request is what is left over, and ends when consumed. */
static void guess_phase(struct ration_connection *connection, size_t used, size_t rest)
{
    enum ration_phase phase = rest > 0 ? RATION_PHASE_HEAD : RATION_PHASE_IDLE;

    if (used > 0 || phase != connection->phase)
        connection->phase_begins = true;
    connection->phase = (uint8_t)phase;
}

/* Bytes that the protocol has appended and that were not sent yet. */
static size_t appended_size(const struct ration_connection *connection)
{
    const struct ration_loop *loop = connection->loop;

    return loop->output_borrower == connection ? loop->output.size : 0;
}

/*
 * Has the protocol receive until it wants more bytes than are there, is blocked, or has answered as much
 * as fits into one turn. It is called again only when it stopped because its answers were many; they are
 * then sent first.
 * Returns how many bytes it consumed.
 */
static size_t serve(struct ration_connection *connection, char *bytes, size_t size)
{
    size_t used = 0, used_now = 1, answered = 0;
    bool again = true;

    while (again && used_now > 0 && used < size && size - used >= connection->need_bytes &&
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
    if (!connection->listener->protocol->tells_phases)
        guess_phase(connection, used, size - used);
    return used;
}

/* What is left over waits for more; too much of it ends the connection. */
static void check_rest(struct ration_connection *connection, size_t rest)
{
    const struct ration_server_limits *limits = &connection->loop->loops->limits;

    if (rest > limits->input_bytes_max && !connection->stopped_early)
        ration_connection_refuse(connection, RATION_ENDING_INPUT_MAX);
}

void ration_connection_serve_kept(struct ration_connection *connection)
{
    struct ration_kept *kept = &connection->input;
    size_t size = ration_kept_size(kept);
    size_t used = serve(connection, kept->bytes + kept->begin, size);

    check_rest(connection, size - used);
    ration_kept_drop(connection, kept, used);
}

/* False: there is no room for it. */
static bool keep_input(struct ration_connection *connection, const char *bytes, size_t size)
{
    enum ration_ending ending = ration_kept_append(connection, &connection->input, bytes, size);

    if (ending != RATION_ENDING_NONE)
        end_for_room(connection, ending, false);
    return ending == RATION_ENDING_NONE;
}

static void serve_new(struct ration_connection *connection, char *bytes, size_t size)
{
    size_t used = serve(connection, bytes, size);

    check_rest(connection, size - used);
    if (used < size && connection->ending_after == RATION_ENDING_NONE)
        keep_input(connection, bytes + used, size - used);
}

static void take_received(struct ration_connection *connection, char *bytes, size_t size)
{
    struct ration_loop *loop = connection->loop;
    bool is_secret = connection->input_is_secret;

    connection->input.is_secret |= is_secret;
    ration_count(&loop->counters.reads, 1);
    ration_count(&loop->counters.received_bytes, size);
    if (++loop->reads_since_now >= RATION_LOOP_READS_PER_NOW)
        loop->now_known = false;
    if (connection->lingers) {
        connection->lingered_bytes += (uint32_t)size;
    } else if (connection->ending_after != RATION_ENDING_NONE) {
        return; /* its last reply waits to be taken: what it still sends is dropped */
    } else if (connection->input.bytes == NULL) {
        serve_new(connection, bytes, size);
    } else if (keep_input(connection, bytes, size)) {
        ration_connection_serve_kept(connection);
    }
    if (is_secret)
        explicit_bzero(bytes, size);
}

void ration_connection_read(struct ration_connection *connection)
{
    char *bytes = connection->loop->input;
    ssize_t size = recv(connection->fd, bytes, RATION_LOOP_INPUT_SIZE, 0);

    if (size > 0)
        take_received(connection, bytes, (size_t)size);
    else if (size == 0)
        connection->client_ended = true;
    else if (errno != EAGAIN && errno != EINTR)
        ration_connection_lost(connection);
}

uint32_t ration_connection_queued(const struct ration_connection *connection)
{
    int bytes = 0;

    return ioctl(connection->fd, SIOCOUTQ, &bytes) == 0 && bytes > 0 ? (uint32_t)bytes : 0;
}
