/*
 * connection: from accept to close, and what protocols call.
 */
#include "server/connection.h"

#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "server/loop_parts.h"

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

    return connection->yields || connection->held || connection->is_delayed ||
           lent >= RATION_OUTPUT_FULL_SIZE || ration_connection_is_output_full(connection);
}

void ration_connection_yield(struct ration_connection *connection)
{
    connection->yields = true;
}

uint64_t ration_connection_match_steps_left(const struct ration_connection *connection)
{
    const struct ration_loop *loop = connection->loop;
    uint64_t used = loop->charged == connection ? loop->connection_match_steps : 0;
    uint64_t own = used < RATION_CONNECTION_MATCH_STEPS ? RATION_CONNECTION_MATCH_STEPS - used : 0;
    uint64_t all = loop->match_steps < RATION_TURN_MATCH_STEPS
                       ? RATION_TURN_MATCH_STEPS - loop->match_steps
                       : 0;

    return own > all ? own : all;
}

void ration_connection_charge(struct ration_connection *connection, uint64_t match_steps)
{
    struct ration_loop *loop = connection->loop;

    if (loop->charged != connection)
        loop->connection_match_steps = 0;
    loop->charged = connection;
    loop->connection_match_steps += match_steps;
    loop->match_steps += match_steps;
    if (!connection->held && ration_connection_match_steps_left(connection) == 0)
        connection->yields = true;
}

bool ration_connection_is_draining(const struct ration_connection *connection)
{
    return connection->loop->draining;
}

void ration_connection_need(struct ration_connection *connection, size_t size)
{
    size_t most = connection->loop->loops->limits.input_bytes_max;

    connection->need_bytes = (uint32_t)(size < most ? size : most);
}

void ration_connection_hide_input(struct ration_connection *connection, bool is_secret)
{
    connection->input_is_secret = is_secret;
}

void ration_connection_phase(struct ration_connection *connection, enum ration_phase phase)
{
    if (phase == RATION_PHASE_IDLE || phase != connection->phase)
        connection->phase_begins = true;
    if (phase == RATION_PHASE_IDLE)
        connection->has_request = true;
    connection->phase = (uint8_t)phase;
}

bool ration_connection_is_held(const struct ration_connection *connection)
{
    return connection->held;
}

void ration_connection_hold(struct ration_connection *connection)
{
    connection->held = true;
}

/* Its queue is also the order in which connections are closed to make room. */
static void start_auth_deadline(struct ration_connection *connection)
{
    struct ration_loop *loop = connection->loop;

    connection->has_request = false;
    ration_deadlines_start(&loop->deadlines, &connection->auth, RATION_DEADLINE_AUTH,
                           ration_loop_coarse_ms(loop));
    ration_loop_deadline_started(loop, connection->auth.end_ms);
}

void ration_connection_set_authenticated(struct ration_connection *connection,
                                         bool is_authenticated)
{
    struct ration_loops *loops = connection->loop->loops;

    if (connection->is_unauthenticated == !is_authenticated)
        return;
    connection->is_unauthenticated = !is_authenticated;
    if (is_authenticated) {
        ration_deadlines_stop(&connection->auth);
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
        connection->ending = RATION_ENDING_AUTH_FAILURES;
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

/* Inside a callback the one who called it will send and settle. */
void ration_connection_flush(struct ration_connection *connection)
{
    if (connection->inside)
        return;
    ration_connection_send(connection);
    ration_connection_settle(connection);
}

static void serve_more(struct ration_connection *connection)
{
    connection->yields = false;
    if (connection->stopped_early && connection->ending == RATION_ENDING_NONE)
        ration_connection_serve_kept(connection);
}

unsigned ration_connection_continue(struct ration_job *job)
{
    struct ration_connection *connection =
        (struct ration_connection *)((char *)job - offsetof(struct ration_connection, job));

    serve_more(connection);
    ration_connection_settle(connection);
    return RATION_TURN_UNITS_MAX; /* what is left may cost as much as what it yielded after */
}

void ration_connection_resume(struct ration_connection *connection)
{
    connection->held = false;
    if (connection->inside)
        return;
    ration_connection_send(connection);
    serve_more(connection);
    ration_connection_settle(connection);
}

void ration_connection_run(struct ration_connection *connection,
                           void (*function)(struct ration_connection *connection))
{
    connection->held = false;
    connection->inside = true;
    function(connection);
    connection->inside = false;
    ration_connection_send(connection);
    if (!connection->held)
        serve_more(connection);
    ration_connection_settle(connection);
}

void ration_connection_close(struct ration_connection *connection)
{
    if (connection->ending_after == RATION_ENDING_NONE)
        connection->ending_after = RATION_ENDING_PROTOCOL;
    connection->held = false;
    ration_connection_flush(connection);
}

void ration_connection_abort(struct ration_connection *connection)
{
    if (connection->ending == RATION_ENDING_NONE)
        connection->ending = RATION_ENDING_PROTOCOL;
    if (!connection->inside)
        ration_connection_settle(connection);
}

/* Coming ------------------------------------------------------------------------------------- */

/*
 * Closes the oldest unauthenticated connection of this loop, unless it is this one, whatever its protocol and
 * whatever it does: if connections within a request were spared, they could fill the server. So a newcomer
 * is the last in the queue, and has the time in which as many others as there are places connect. What has
 * arrived is served before: it may authenticate. False: there is no other.
 */
static bool evict(struct ration_loop *loop, const struct ration_connection *newcomer)
{
    struct ration_deadline *first;

    while ((first = ration_deadlines_first(&loop->deadlines, RATION_DEADLINE_AUTH)) != NULL) {
        struct ration_connection *oldest =
            (struct ration_connection *)((char *)first - offsetof(struct ration_connection, auth));

        if (oldest == newcomer)
            return false;
        ration_connection_drain(oldest); /* if it has ended, its memory stays for this turn */
        if (oldest->ending != RATION_ENDING_NONE)
            return true;
        if (oldest->is_unauthenticated) {
            ration_connection_end(oldest, RATION_ENDING_EVICTED);
            return true;
        }
    }
    return false;
}

/* As many as other loops have asked for meanwhile. From the exchange on the message may be posted again. */
static void evict_some(struct ration_loop *loop, void *unused)
{
    uint32_t count = __atomic_exchange_n(&loop->evict_requests, 0, __ATOMIC_ACQ_REL);

    (void)unused;
    while (count > 0 && evict(loop, NULL))
        count--;
}

static void request_eviction(struct ration_loop *loop)
{
    if (__atomic_fetch_add(&loop->evict_requests, 1, __ATOMIC_ACQ_REL) > 0)
        return; /* the message is on its way */
    loop->evict_message.function = evict_some;
    (void)ration_loop_post(loop,
                           &loop->evict_message); /* a loop that has ended has none to close */
}

/*
 * Makes room in a full server: on the newcomer's loop now or, if that has none to close, on the others
 * soon, so that a client which tries again is let in.
 */
static bool make_room(const struct ration_connection *newcomer)
{
    struct ration_loops *loops = newcomer->loop->loops;

    if (evict(newcomer->loop, newcomer))
        return true;
    for (unsigned i = 0; i < loops->loop_count; i++)
        if (loops->loops[i] != newcomer->loop &&
            __atomic_load_n(&loops->unauthenticated_count, __ATOMIC_RELAXED) > 0)
            request_eviction(loops->loops[i]);
    return false;
}

/* Checks the limits, then counts: RATION_ENDING_NONE if there is room for one more. */
static enum ration_ending enter(struct ration_connection *connection)
{
    struct ration_loops *loops = connection->loop->loops;
    /* relaxed: nothing but the count itself depends on it */
    uint32_t open_count = __atomic_add_fetch(&loops->open_count, 1, __ATOMIC_RELAXED);

    if (open_count > loops->limits.connections_max && !make_room(connection)) {
        __atomic_sub_fetch(&loops->open_count, 1, __ATOMIC_RELAXED);
        return RATION_ENDING_CONNECTIONS_MAX;
    }
    if (loops->peers == NULL || connection->peer.family == 0)
        return RATION_ENDING_NONE;
    if (!ration_peers_enter(loops->peers, &connection->peer)) {
        __atomic_sub_fetch(&loops->open_count, 1, __ATOMIC_RELAXED);
        return RATION_ENDING_PEER_MAX;
    }
    connection->is_counted = true;
    return RATION_ENDING_NONE;
}

static void leave(struct ration_connection *connection)
{
    struct ration_loops *loops = connection->loop->loops;

    if (connection->is_counted)
        ration_peers_leave(loops->peers, &connection->peer);
    ration_connection_set_authenticated(connection, true);
    end_delay(connection);
    __atomic_sub_fetch(&loops->open_count, 1, __ATOMIC_RELAXED);
}

/* Has the protocol say a last word, after which the connection ends. */
void ration_connection_refuse(struct ration_connection *connection, enum ration_ending ending)
{
    const struct ration_protocol *protocol = connection->listener->protocol;

    if (protocol->refuse == NULL) {
        connection->ending = (uint8_t)ending;
        return;
    }
    connection->ending_after = (uint8_t)ending;
    connection->held = false;
    end_delay(connection);
    connection->inside = true;
    protocol->refuse(connection, ending);
    connection->inside = false;
    ration_connection_send(connection);
}

/*
 * One that is not let in: told so if the system takes the answer at once, and gone. Bytes that it
 * already sent are received, since closing with bytes unread may take the answer back.
 */
static void turn_away(struct ration_connection *connection, enum ration_ending ending)
{
    struct ration_loop *loop = connection->loop;

    ration_connection_refuse(connection, ending);
    recv(connection->fd, loop->input, RATION_LOOP_INPUT_SIZE, MSG_DONTWAIT);
    close(connection->fd);
    ration_kept_done(connection, &connection->output);
    ration_count(&loop->counters.ended[ending], 1);
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
        ration_connection_send_kept(connection);
        if (!connection->yields) /* its turn comes */
            serve_more(connection);
    }
    if ((events & UV_READABLE) && connection->ending == RATION_ENDING_NONE &&
        (!connection->stopped_early || connection->ending_after != RATION_ENDING_NONE))
        ration_connection_read(connection);
    ration_connection_settle(connection);
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
    connection->job.step = ration_connection_continue;
    join_list(loop, connection);
    ration_count(&loop->counters.accepted, 1);
    ration_count(&loop->counters.open, 1);
    connection->phase_begins = true;
    if (protocol->open != NULL) {
        connection->inside = true;
        protocol->open(connection);
        connection->inside = false;
        ration_connection_send(connection);
    }
    ration_connection_settle(connection);
}

/* Whether unauthenticated connections are more than those that authenticated ones leave them. */
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
    enum ration_ending ending;

    if (connection == NULL) {
        close(fd);
        ration_count(&loop->counters.ended[RATION_ENDING_MEMORY], 1);
        return;
    }
    connection->loop = loop;
    connection->listener = listener;
    connection->fd = fd;
    connection->peer = ration_address_of_socket(peer);
    ending = enter(connection);
    if (ending != RATION_ENDING_NONE) {
        turn_away(connection, ending);
        return;
    }
    if (uv_poll_init(&loop->uv, &connection->poll, fd) != 0) {
        leave(connection);
        turn_away(connection, RATION_ENDING_MEMORY);
        return;
    }
    open_connection(connection);
    if (is_share_exceeded(loop->loops))
        (void)make_room(connection); /* if it has ended, its memory stays for this turn */
}

/* Going -------------------------------------------------------------------------------------- */

static void on_closed(uv_handle_t *poll)
{
    free(poll->data);
}

void ration_connection_end(struct ration_connection *connection, enum ration_ending ending)
{
    struct ration_loop *loop = connection->loop;
    const struct ration_protocol *protocol = connection->listener->protocol;

    assert(!connection->inside);
    connection->inside = true; /* for good: what the protocol may still call has no effect */
    connection->ending = (uint8_t)ending;
    if (protocol->close != NULL)
        protocol->close(connection, ending);
    if (loop->output_borrower == connection) {
        loop->output_borrower = NULL;
        ration_output_reset(&loop->output);
    }
    ration_deadlines_stop(&connection->deadline);
    ration_deadlines_stop(&connection->pause);
    ration_deadlines_stop(&connection->auth);
    ration_job_cancel(&connection->job);
    leave_list(loop, connection);
    uv_close((uv_handle_t *)&connection->poll, on_closed);
    close(connection->fd);
    ration_kept_done(connection, &connection->input);
    ration_kept_done(connection, &connection->output);
    (void)ration_connection_account(connection, &(size_t){connection->memory_bytes}, 0);
    leave(connection);
    ration_count(&loop->counters.ended[ending], 1);
    ration_count(&loop->counters.open, UINT64_MAX); /* one less */
    ration_loop_end_if_empty(loop);
}

/*
 * A client that authenticates with each request may use what needs no secret for as long as it likes; one that
 * completes no request in the same time is closed. A last reply has deadlines of its own.
 */
static void auth_deadline_passed(struct ration_connection *connection)
{
    bool authenticates_once = connection->listener->protocol->authenticates_once;

    if (connection->ending_after != RATION_ENDING_NONE ||
        (connection->has_request && !authenticates_once))
        start_auth_deadline(connection);
    else if (authenticates_once || connection->phase != RATION_PHASE_IDLE)
        ration_connection_refuse(connection, RATION_ENDING_AUTH_TIMEOUT);
    else
        connection->ending = RATION_ENDING_AUTH_TIMEOUT; /* between requests there is no reply */
}

void ration_connection_deadline_passed(struct ration_connection *connection,
                                       unsigned deadline_class)
{
    switch (deadline_class) {
    case RATION_DEADLINE_HEAD:
        ration_connection_refuse(connection, RATION_ENDING_HEAD_DEADLINE);
        break;
    case RATION_DEADLINE_BODY:
        ration_connection_refuse(connection, RATION_ENDING_BODY_DEADLINE);
        break;
    case RATION_DEADLINE_WRITE:
        connection->ending = RATION_ENDING_WRITE_DEADLINE;
        break;
    case RATION_DEADLINE_LINGER:
        connection->ending = connection->ending_after;
        break;
    case RATION_DEADLINE_AUTH:
        auth_deadline_passed(connection);
        break;
    case RATION_DEADLINE_MULTI:
        ration_connection_refuse(connection, RATION_ENDING_MULTI_TIMEOUT);
        break;
    case RATION_DEADLINE_DELAY:
        end_delay(connection);
        ration_connection_send_kept(connection);
        serve_more(connection);
        break;
    case RATION_DEADLINE_STALL:
        /* A socket takes more only when much of its queue is gone: the client may be reading all the while. */
        if (ration_connection_queued(connection) < connection->queued_bytes)
            connection->sent_some = true;
        else
            ration_connection_refuse(connection, RATION_ENDING_OUTPUT_MAX);
        break;
    default:
        connection->ending = RATION_ENDING_IDLE_DEADLINE;
    }
    ration_connection_settle(connection);
}

/* A request that has arrived but was not received yet is still answered. */
void ration_connection_drain(struct ration_connection *connection)
{
    if (connection->events & UV_READABLE)
        ration_connection_read(connection);
    ration_connection_settle(connection);
}
