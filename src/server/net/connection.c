/*
  * connection: admission, closing, and the functions that protocols call.
 */
#include "server/net/connection.h"

#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "server/net/loop_parts.h"
#include "server/net/protocol.h"

/* What protocols call ------------------------------------------------------------------------ */

void *ration_connection_state(struct ration_connection *connection)
{
    return connection->state;
}

void *ration_connection_context(const struct ration_connection *connection)
{
    return connection->listener->context;
}

struct ration_loop *ration_connection_loop(const struct ration_connection *connection)
{
    return connection->loop;
}

const struct ration_address *ration_connection_peer(const struct ration_connection *connection)
{
    return &connection->peer;
}

struct ration_output *ration_connection_output(struct ration_connection *connection)
{
    struct ration_loop *loop = connection->loop;

    assert(loop->output_borrower == NULL || loop->output_borrower == connection);
    loop->output_borrower = connection;
    return &loop->output;
}

bool ration_connection_is_full(const struct ration_connection *connection)
{
    const struct ration_loop *loop = connection->loop;
    size_t lent = loop->output_borrower == connection ? loop->output.size : 0;

    return connection->yields || connection->paused || connection->is_delayed ||
           lent >= RATION_OUTPUT_FULL_SIZE || ration_loop_is_output_full(connection);
}

void ration_connection_yield(struct ration_connection *connection)
{
    connection->yields = true;
}

uint64_t ration_connection_match_steps_left(const struct ration_connection *connection)
{
    const struct ration_loop *loop = connection->loop;
    uint64_t used = loop->last_charged == connection ? loop->connection_match_steps : 0;
    uint64_t own = used < RATION_CONNECTION_MATCH_STEPS ? RATION_CONNECTION_MATCH_STEPS - used : 0;
    uint64_t all = loop->match_steps < RATION_TURN_MATCH_STEPS
                       ? RATION_TURN_MATCH_STEPS - loop->match_steps
                       : 0;

    return own > all ? own : all;
}

void ration_connection_charge(struct ration_connection *connection, uint64_t match_steps)
{
    struct ration_loop *loop = connection->loop;

    if (loop->last_charged != connection)
        loop->connection_match_steps = 0;
    loop->last_charged = connection;
    loop->connection_match_steps += match_steps;
    loop->match_steps += match_steps;
    if (!connection->paused && ration_connection_match_steps_left(connection) == 0)
        connection->yields = true;
}

bool ration_connection_is_draining(const struct ration_connection *connection)
{
    return connection->loop->draining;
}

void ration_connection_need(struct ration_connection *connection, size_t size)
{
    size_t max = connection->loop->loops->limits.input_bytes_max;

    connection->input_min_bytes = (uint32_t)(size < max ? size : max);
}

void ration_connection_hide_input(struct ration_connection *connection, bool is_secret)
{
    connection->input_is_secret = is_secret;
}

void ration_connection_phase(struct ration_connection *connection, enum ration_phase phase)
{
    if (phase == RATION_PHASE_IDLE || phase != connection->phase)
        connection->phase_began = true;
    if (phase == RATION_PHASE_IDLE)
        connection->has_request = true;
    connection->phase = (uint8_t)phase;
}

bool ration_connection_is_paused(const struct ration_connection *connection)
{
    return connection->paused;
}

void ration_connection_pause(struct ration_connection *connection)
{
    connection->paused = true;
}

/* The queue of auth deadlines is also the order in which connections are evicted. */
static void start_auth_deadline(struct ration_connection *connection)
{
    struct ration_loop *loop = connection->loop;

    connection->has_request = false;
    ration_deadlines_start(&loop->deadlines, &connection->auth_deadline, RATION_DEADLINE_AUTH,
                           ration_loop_coarse_ms(loop));
    ration_loop_deadline_started(loop, connection->auth_deadline.end_ms);
}

void ration_connection_set_authenticated(struct ration_connection *connection,
                                         bool is_authenticated)
{
    struct ration_loops *loops = connection->loop->loops;

    if (connection->is_unauthenticated == !is_authenticated)
        return;
    connection->is_unauthenticated = !is_authenticated;
    if (is_authenticated) {
        ration_deadlines_stop(&connection->auth_deadline);
        __atomic_sub_fetch(&loops->unauthenticated_count, 1, __ATOMIC_RELAXED);
        __atomic_sub_fetch(&loops->unauthenticated_bytes, connection->memory_bytes,
                           __ATOMIC_RELAXED);
    } else {
        start_auth_deadline(connection);
        __atomic_add_fetch(&loops->unauthenticated_count, 1, __ATOMIC_RELAXED);
        __atomic_add_fetch(&loops->unauthenticated_bytes, connection->memory_bytes,
                           __ATOMIC_RELAXED);
    }
}

void ration_connection_delay(struct ration_connection *connection)
{
    uint32_t *count = &connection->loop->loops->delayed_count;

    if (connection->is_delayed)
        return;
    connection->is_delayed = true;
    if (__atomic_add_fetch(count, 1, __ATOMIC_RELAXED) > RATION_DELAYED_MAX)
        connection->close_reason = RATION_CLOSE_REASON_AUTH_FAILURES;
}

static void end_delay(struct ration_connection *connection)
{
    if (connection->is_delayed)
        __atomic_sub_fetch(&connection->loop->loops->delayed_count, 1, __ATOMIC_RELAXED);
    connection->is_delayed = false;
}

void ration_connection_set_transaction(struct ration_connection *connection, bool is_transaction)
{
    connection->is_transaction = is_transaction;
}

void ration_connection_set_partial(struct ration_connection *connection, bool is_partial)
{
    connection->is_partial = is_partial;
}

/* Inside a callback there is nothing to do: its caller sends and updates. */
void ration_connection_flush(struct ration_connection *connection)
{
    if (connection->in_callback)
        return;
    ration_connection_send(connection);
    ration_connection_update(connection);
}

static void serve_more(struct ration_connection *connection)
{
    connection->yields = false;
    if (connection->stopped_early && connection->close_reason == RATION_CLOSE_REASON_NONE)
        ration_connection_serve_buffered(connection);
}

/* The step of connection->job: serves the input that is left after a yield. */
static unsigned serve_after_yield(struct ration_job *job)
{
    struct ration_connection *connection =
        (struct ration_connection *)((char *)job - offsetof(struct ration_connection, job));

    serve_more(connection);
    ration_connection_update(connection);
    return RATION_TURN_UNITS_MAX; /* the rest may cost as much as the part that made it yield */
}

void ration_connection_resume(struct ration_connection *connection)
{
    connection->paused = false;
    if (connection->in_callback)
        return;
    ration_connection_send(connection);
    serve_more(connection);
    ration_connection_update(connection);
}

void ration_connection_run(struct ration_connection *connection,
                           void (*function)(struct ration_connection *connection))
{
    connection->paused = false;
    connection->in_callback = true;
    function(connection);
    connection->in_callback = false;
    ration_connection_send(connection);
    if (!connection->paused)
        serve_more(connection);
    ration_connection_update(connection);
}

void ration_connection_close(struct ration_connection *connection)
{
    if (connection->close_after == RATION_CLOSE_REASON_NONE)
        connection->close_after = RATION_CLOSE_REASON_PROTOCOL;
    connection->paused = false;
    ration_connection_flush(connection);
}

void ration_connection_abort(struct ration_connection *connection)
{
    if (connection->close_reason == RATION_CLOSE_REASON_NONE)
        connection->close_reason = RATION_CLOSE_REASON_PROTOCOL;
    if (!connection->in_callback)
        ration_connection_update(connection);
}

/* Admission ---------------------------------------------------------------------------------- */

/*
 * Closes the oldest unauthenticated connection of this loop, unless that is new_connection. Its protocol and
 * phase do not matter: if connections within a request were spared, they could fill the server. A new connection
 * is the last in the queue, so it is evicted only after as many others have connected as there are
 * unauthenticated ones. Input that has arrived is served first: it may authenticate the client.
 * False: there is no other unauthenticated connection.
 */
static bool evict_oldest(struct ration_loop *loop, const struct ration_connection *new_connection)
{
    struct ration_deadline *first;

    while ((first = ration_deadlines_first(&loop->deadlines, RATION_DEADLINE_AUTH)) != NULL) {
        struct ration_connection *oldest =
            (struct ration_connection *)((char *)first -
                                         offsetof(struct ration_connection, auth_deadline));

        if (oldest == new_connection)
            return false;
        ration_connection_drain(oldest); /* its memory stays valid for this turn */
        if (oldest->close_reason != RATION_CLOSE_REASON_NONE)
            return true;
        if (oldest->is_unauthenticated) {
            ration_connection_end(oldest, RATION_CLOSE_REASON_EVICTED);
            return true;
        }
    }
    return false;
}

/* Evicts as many as other loops have requested. From the exchange on, evict_message may be posted again. */
static void run_evict_requests(struct ration_loop *loop, void *unused)
{
    uint32_t count = __atomic_exchange_n(&loop->evict_requests, 0, __ATOMIC_ACQ_REL);

    (void)unused;
    while (count > 0 && evict_oldest(loop, NULL))
        count--;
}

static void request_eviction(struct ration_loop *loop)
{
    if (__atomic_fetch_add(&loop->evict_requests, 1, __ATOMIC_ACQ_REL) > 0)
        return; /* evict_message is posted already */
    loop->evict_message.function = run_evict_requests;
    /* It fails only for a loop that has shut down, which has no connections. */
    (void)ration_loop_post(loop, &loop->evict_message);
}

/*
 * Makes room in a full server: evicts a connection of new_connection's loop now; if there is none, requests
 * evictions from the other loops and returns false, so that a client that retries is admitted.
 */
static bool make_room(const struct ration_connection *new_connection)
{
    struct ration_loops *loops = new_connection->loop->loops;

    if (evict_oldest(new_connection->loop, new_connection))
        return true;
    for (unsigned i = 0; i < loops->loop_count; i++)
        if (loops->loops[i] != new_connection->loop &&
            __atomic_load_n(&loops->unauthenticated_count, __ATOMIC_RELAXED) > 0)
            request_eviction(loops->loops[i]);
    return false;
}

/* Counts the connection if the limits allow one more: RATION_CLOSE_REASON_NONE, or the limit that does not. */
static enum ration_close_reason admit_connection(struct ration_connection *connection)
{
    struct ration_loops *loops = connection->loop->loops;
    /* relaxed: no other data is published with the count */
    uint32_t open_count = __atomic_add_fetch(&loops->open_count, 1, __ATOMIC_RELAXED);

    if (open_count > loops->limits.connections_max && !make_room(connection)) {
        __atomic_sub_fetch(&loops->open_count, 1, __ATOMIC_RELAXED);
        return RATION_CLOSE_REASON_MAX_CONNECTIONS;
    }
    if (loops->peers == NULL || connection->peer.family == 0)
        return RATION_CLOSE_REASON_NONE;
    if (!ration_peers_enter(loops->peers, &connection->peer)) {
        __atomic_sub_fetch(&loops->open_count, 1, __ATOMIC_RELAXED);
        return RATION_CLOSE_REASON_MAX_CONNECTIONS_PER_PEER;
    }
    connection->is_counted = true;
    return RATION_CLOSE_REASON_NONE;
}

static void release_admission(struct ration_connection *connection)
{
    struct ration_loops *loops = connection->loop->loops;

    if (connection->is_counted)
        ration_peers_leave(loops->peers, &connection->peer);
    ration_connection_set_authenticated(connection, true);
    end_delay(connection);
    __atomic_sub_fetch(&loops->open_count, 1, __ATOMIC_RELAXED);
}

/* Sends the protocol's last reply, if it has refuse(); the connection closes when that is sent. */
void ration_connection_reject(struct ration_connection *connection,
                              enum ration_close_reason close_reason)
{
    const struct ration_protocol *protocol = connection->listener->protocol;

    if (protocol->refuse == NULL) {
        connection->close_reason = (uint8_t)close_reason;
        return;
    }
    connection->close_after = (uint8_t)close_reason;
    connection->paused = false;
    end_delay(connection);
    connection->in_callback = true;
    protocol->refuse(connection, close_reason);
    connection->in_callback = false;
    ration_connection_send(connection);
}

/*
 * Refuses a client that is not admitted: sends the refusal if the kernel accepts it at once, then closes. Bytes
 * that the client has already sent are received first: closing a socket with unread bytes resets the connection,
 * and the client may lose the reply.
 */
static void refuse_and_free(struct ration_connection *connection,
                            enum ration_close_reason close_reason)
{
    struct ration_loop *loop = connection->loop;

    ration_connection_reject(connection, close_reason);
    recv(connection->fd, loop->input, RATION_LOOP_INPUT_SIZE, MSG_DONTWAIT);
    close(connection->fd);
    ration_buffer_done(connection, &connection->output);
    ration_loop_count(&loop->counters.ended[close_reason], 1);
    free(connection);
}

static void on_event(uv_poll_t *poll, int status, int events)
{
    struct ration_connection *connection = poll->data;

    if (status < 0) {
        connection->events = 0; /* libuv has stopped watching */
        ration_connection_lost(connection);
    }
    if (events & UV_WRITABLE) {
        ration_connection_send_buffered(connection);
        if (!connection->yields) /* else its job serves the rest */
            serve_more(connection);
    }
    if ((events & UV_READABLE) && connection->close_reason == RATION_CLOSE_REASON_NONE &&
        (!connection->stopped_early || connection->close_after != RATION_CLOSE_REASON_NONE))
        ration_connection_read(connection);
    ration_connection_update(connection);
}

void ration_connection_watch(struct ration_connection *connection, int events)
{
    if (events == connection->events)
        return;
    connection->events = (uint8_t)events;
    if (events == 0)
        uv_poll_stop(&connection->poll);
    else
        uv_poll_start(&connection->poll, events, on_event);
}

static void join_list(struct ration_loop *loop, struct ration_connection *connection)
{
    connection->behind = loop->connections;
    if (connection->behind != NULL)
        connection->behind->before = connection;
    loop->connections = connection;
}

static void leave_list(struct ration_loop *loop, struct ration_connection *connection)
{
    if (connection->before != NULL)
        connection->before->behind = connection->behind;
    else
        loop->connections = connection->behind;
    if (connection->behind != NULL)
        connection->behind->before = connection->before;
}

static void open_connection(struct ration_connection *connection)
{
    const struct ration_protocol *protocol = connection->listener->protocol;
    struct ration_loop *loop = connection->loop;

    connection->poll.data = connection;
    connection->job.step = serve_after_yield;
    join_list(loop, connection);
    ration_loop_count(&loop->counters.accepted, 1);
    ration_loop_count(&loop->counters.open, 1);
    connection->phase_began = true;
    if (protocol->open != NULL) {
        connection->in_callback = true;
        protocol->open(connection);
        connection->in_callback = false;
        ration_connection_send(connection);
    }
    ration_connection_update(connection);
}

/* Whether unauthenticated connections use slots that are reserved for authenticated ones. */
static bool is_share_exceeded(const struct ration_loops *loops)
{
    uint32_t max = loops->limits.connections_max;

    return __atomic_load_n(&loops->unauthenticated_count, __ATOMIC_RELAXED) >
           max - max / RATION_RESERVED_ONE_IN;
}

void ration_connection_accept(struct ration_loop *loop, const struct ration_listener *listener,
                              int fd, const struct sockaddr_storage *peer)
{
    struct ration_connection *connection =
        calloc(1, sizeof(*connection) + listener->protocol->state_size);
    enum ration_close_reason close_reason;

    if (connection == NULL) {
        close(fd);
        ration_loop_count(&loop->counters.ended[RATION_CLOSE_REASON_MEMORY], 1);
        return;
    }
    connection->loop = loop;
    connection->listener = listener;
    connection->fd = fd;
    connection->peer = ration_address_of_socket(peer);
    close_reason = admit_connection(connection);
    if (close_reason != RATION_CLOSE_REASON_NONE) {
        refuse_and_free(connection, close_reason);
        return;
    }
    if (uv_poll_init(&loop->uv, &connection->poll, fd) != 0) {
        release_admission(connection);
        refuse_and_free(connection, RATION_CLOSE_REASON_MEMORY);
        return;
    }
    open_connection(connection);
    if (is_share_exceeded(loop->loops))
        (void)make_room(connection); /* if open() closed it, its memory is still valid */
}

/* Closing ------------------------------------------------------------------------------------ */

static void on_closed(uv_handle_t *poll)
{
    free(poll->data);
}

void ration_connection_end(struct ration_connection *connection,
                           enum ration_close_reason close_reason)
{
    struct ration_loop *loop = connection->loop;
    const struct ration_protocol *protocol = connection->listener->protocol;

    assert(!connection->in_callback);
    connection->in_callback = true; /* from now on: calls of the protocol have no effect */
    connection->close_reason = (uint8_t)close_reason;
    if (protocol->close != NULL)
        protocol->close(connection, close_reason);
    if (loop->output_borrower == connection) {
        loop->output_borrower = NULL;
        ration_output_reset(&loop->output);
    }
    ration_deadlines_stop(&connection->deadline);
    ration_deadlines_stop(&connection->second_deadline);
    ration_deadlines_stop(&connection->auth_deadline);
    ration_loop_cancel_job(&connection->job);
    leave_list(loop, connection);
    uv_close((uv_handle_t *)&connection->poll, on_closed);
    close(connection->fd);
    ration_buffer_done(connection, &connection->input);
    ration_buffer_done(connection, &connection->output);
    (void)ration_buffer_account(connection, &(size_t){connection->memory_bytes}, 0);
    release_admission(connection);
    ration_loop_count(&loop->counters.ended[close_reason], 1);
    ration_loop_count(&loop->counters.open, UINT64_MAX); /* one less */
    ration_loop_stop_if_empty(loop);
}

/*
 * A client that authenticates with each request may use operations that need no secret for any length of time,
 * but is closed if it completes no request within auth_timeout_s. A last reply has its own deadlines.
 */
static void auth_deadline_passed(struct ration_connection *connection)
{
    bool authenticates_once = connection->listener->protocol->authenticates_once;

    if (connection->close_after != RATION_CLOSE_REASON_NONE ||
        (connection->has_request && !authenticates_once))
        start_auth_deadline(connection);
    else if (authenticates_once || connection->phase != RATION_PHASE_IDLE)
        ration_connection_reject(connection, RATION_CLOSE_REASON_AUTH_TIMEOUT);
    else
        connection->close_reason = RATION_CLOSE_REASON_AUTH_TIMEOUT; /* idle: no reply */
}

void ration_connection_deadline_passed(struct ration_connection *connection,
                                       unsigned deadline_class)
{
    switch (deadline_class) {
    case RATION_DEADLINE_HEADERS:
        ration_connection_reject(connection, RATION_CLOSE_REASON_HEADER_TIMEOUT);
        break;
    case RATION_DEADLINE_BODY:
        ration_connection_reject(connection, RATION_CLOSE_REASON_BODY_TIMEOUT);
        break;
    case RATION_DEADLINE_WRITE:
        connection->close_reason = RATION_CLOSE_REASON_WRITE_TIMEOUT;
        break;
    case RATION_DEADLINE_LINGER:
        connection->close_reason = connection->close_after;
        break;
    case RATION_DEADLINE_AUTH:
        auth_deadline_passed(connection);
        break;
    case RATION_DEADLINE_MULTI:
        ration_connection_reject(connection, RATION_CLOSE_REASON_MULTI_TIMEOUT);
        break;
    case RATION_DEADLINE_DELAY:
        end_delay(connection);
        ration_connection_send_buffered(connection);
        serve_more(connection);
        break;
    case RATION_DEADLINE_STALL:
        /* A socket becomes writable only when much of its send queue is free: a slow client may be reading. */
        if (ration_connection_queued(connection) < connection->stall_queued_bytes)
            connection->sent_some = true;
        else
            ration_connection_reject(connection, RATION_CLOSE_REASON_MAX_OUTPUT);
        break;
    default:
        connection->close_reason = RATION_CLOSE_REASON_IDLE_TIMEOUT;
    }
    ration_connection_update(connection);
}

/* Serves a request that is in the kernel's buffer already, before the connection may be closed. */
void ration_connection_drain(struct ration_connection *connection)
{
    if (connection->events & UV_READABLE)
        ration_connection_read(connection);
    ration_connection_update(connection);
}
