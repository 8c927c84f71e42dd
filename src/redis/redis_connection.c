#include "redis/redis_connection.h"

#include <hiredis/async.h>
#include <hiredis/hiredis.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "redis/auth.h"
#include "redis/backoff.h"
#include "redis/reply_guard.h"
#include "redis/resolver.h"
#include "redis/scripts.h"

#define LAST_ERROR_SIZE  160
#define WINDOW_PROBE     1  /* commands in flight, on a connection that has recovered */
#define WINDOW_TIMEOUT   16 /* the same, after a timeout */
#define WINDOW_HEALTHY   16 /* with this window the connection counts as healthy again */
#define WINDOW_MAX       (1u << 20)
#define TIMEOUTS_MAX     3 /* consecutive timeouts after which the connection is dropped */
#define RESOLVER_POLL_NS (3 * RATION_NS_PER_MS) /* interval between checks of the resolver */
#define NEVER_NS         UINT64_MAX

enum state { STATE_DOWN, STATE_RESOLVING, STATE_CONNECTING, STATE_HANDSHAKE, STATE_UP };

/* A command in flight. The list is in the order of deadlines, which is nearly the order of sending. */
struct call {
    struct call *next;
    struct call *previous;
    uint64_t deadline_ns;
    ration_redis_done *done; /* NULL: already completed */
    void *context;
    bool is_listed;
};

struct ration_redis_connection {
    struct ration_redis_endpoint endpoint;
    struct ration_redis_times times;
    struct ration_redis_loop loop;
    struct redisAsyncContext *redis; /* NULL: not connected */
    enum state state;
    unsigned handshake_replies;             /* replies to wait for before the next step */
    bool are_scripts_sent;                  /* in STATE_HANDSHAKE */
    struct ration_redis_resolver *resolver; /* of the host name; NULL: no lookup is under way */
    unsigned attempt_count;
    bool has_connected;
    bool is_recovering; /* it has reconnected, and has not yet proved that it answers */

    uint64_t retry_at_ns; /* in STATE_DOWN */
    struct ration_redis_backoff backoff;
    uint64_t connect_by_ns; /* in STATE_RESOLVING, STATE_CONNECTING and STATE_HANDSHAKE */
    unsigned timeout_count;
    uint64_t drop_at_ns; /* when it is dropped, unless Redis answers */
    uint32_t window;     /* commands that may be in flight */
    uint32_t in_flight;
    uint32_t answered_in_window;

    struct call *first; /* the earliest deadline */
    struct call *last;
    void *timer;
    void (*changed)(void *context);
    void *changed_context;
    char last_error[LAST_ERROR_SIZE];
    struct ration_redis_stats stats;
};

static uint64_t now_of(const struct ration_redis_connection *connection)
{
    return connection->loop.now_ns(connection->loop.context);
}

/* Calls in flight ------------------------------------------------------------------------------ */

static void complete_call(struct call *call, enum ration_redis_outcome outcome,
                          const redisReply *reply)
{
    ration_redis_done *done = call->done;

    call->done = NULL;
    if (done != NULL)
        done(call->context, outcome, reply);
}

/* A command redirected from another node has less time left than those already waiting here. */
static void insert_call(struct ration_redis_connection *connection, struct call *call)
{
    struct call *before = connection->last;

    while (before != NULL && before->deadline_ns > call->deadline_ns)
        before = before->previous;
    call->previous = before;
    call->next = before != NULL ? before->next : connection->first;
    *(before != NULL ? &before->next : &connection->first) = call;
    *(call->next != NULL ? &call->next->previous : &connection->last) = call;
    call->is_listed = true;
}

static void remove_call(struct ration_redis_connection *connection, struct call *call)
{
    if (!call->is_listed)
        return;
    *(call->previous != NULL ? &call->previous->next : &connection->first) = call->next;
    *(call->next != NULL ? &call->next->previous : &connection->last) = call->previous;
    call->is_listed = false;
}

static struct call *pop_first_call(struct ration_redis_connection *connection)
{
    struct call *call = connection->first;

    remove_call(connection, call);
    return call;
}

static void notify_changed(struct ration_redis_connection *connection)
{
    if (connection->changed != NULL)
        connection->changed(connection->changed_context);
}

static void set_last_error(struct ration_redis_connection *connection, const char *last_error)
{
    snprintf(connection->last_error, sizeof(connection->last_error), "%s", last_error);
}

/* A command timed out, and Redis has not answered all commands yet. */
static bool is_stalled(const struct ration_redis_connection *connection)
{
    return connection->state == STATE_UP && connection->timeout_count > 0 &&
           connection->in_flight > 0;
}

/* Time ----------------------------------------------------------------------------------------- */

static void on_wake(void *argument);

static void set_timer(struct ration_redis_connection *connection)
{
    uint64_t wake_at_ns = NEVER_NS;

    if (connection->state == STATE_DOWN)
        wake_at_ns = connection->retry_at_ns;
    else if (connection->state == STATE_RESOLVING)
        wake_at_ns = now_of(connection) + RESOLVER_POLL_NS;
    else if (connection->state != STATE_UP)
        wake_at_ns = connection->connect_by_ns;
    else if (is_stalled(connection))
        wake_at_ns = connection->drop_at_ns;
    if (connection->first != NULL && connection->first->deadline_ns < wake_at_ns)
        wake_at_ns = connection->first->deadline_ns;
    if (wake_at_ns != NEVER_NS)
        connection->loop.wake_at(connection->loop.context, &connection->timer, wake_at_ns, on_wake,
                                 connection);
}

/* Enters STATE_DOWN after a connection ended, for whatever reason, and schedules the next attempt. */
static void schedule_retry(struct ration_redis_connection *connection)
{
    bool had_answered = !connection->is_recovering || connection->window > WINDOW_PROBE;
    bool was_idle = connection->state == STATE_UP && connection->in_flight == 0 && had_answered;

    if (connection->state == STATE_UP)
        connection->stats.losses++;
    connection->state = STATE_DOWN;
    connection->has_connected = true;
    connection->timeout_count = 0;
    connection->in_flight = 0;
    connection->retry_at_ns =
        was_idle ? ration_redis_backoff_retry_soon(&connection->backoff, now_of(connection))
                 : ration_redis_backoff_next(&connection->backoff, now_of(connection));
    set_timer(connection);
    notify_changed(connection);
}

/* Ends the connection now. Commands in flight complete as lost. */
static void drop_connection(struct ration_redis_connection *connection, const char *last_error)
{
    struct redisAsyncContext *redis = connection->redis;

    set_last_error(connection, last_error);
    connection->redis = NULL;
    schedule_retry(connection); /* first: a callback below may send again, and must be refused */
    while (connection->first != NULL) {
        struct call *call = pop_first_call(connection);

        connection->stats.lost++;
        complete_call(call, RATION_REDIS_LOST, NULL);
    }
    if (redis != NULL) {
        redis->data = NULL; /* late callbacks find no connection, and only free their calls */
        redisAsyncFree(redis);
    }
}

/* Replies -------------------------------------------------------------------------------------- */

/* Doubles the window once a full window of commands was answered in time. */
static void widen_window(struct ration_redis_connection *connection)
{
    if (connection->window >= WINDOW_MAX || ++connection->answered_in_window < connection->window)
        return;
    connection->window *= 2;
    connection->answered_in_window = 0;
    if (connection->is_recovering && connection->window >= WINDOW_HEALTHY) {
        connection->is_recovering = false;
        ration_redis_backoff_reset(&connection->backoff);
    }
}

static void on_reply(struct redisAsyncContext *redis, void *raw_reply, void *raw_call)
{
    struct ration_redis_connection *connection = redis->data;
    struct call *call = raw_call;
    const redisReply *reply = raw_reply;

    if (connection != NULL && reply != NULL && ration_redis_reply_guard_has_more(redis)) {
        drop_connection(
            connection,
            "it sent a reply that no command requested"); /* completes all calls, this one too */
    } else if (connection != NULL && reply != NULL) {
        connection->in_flight--;
        if (call->done != NULL) {
            remove_call(connection, call);
            connection->timeout_count = 0;
            connection->stats.answered++;
            widen_window(connection);
            complete_call(call, RATION_REDIS_ANSWERED, reply);
        }
    } else if (connection != NULL && call->done != NULL) { /* the connection is about to close */
        remove_call(connection, call);
        connection->stats.lost++;
        complete_call(call, RATION_REDIS_LOST, NULL);
    }
    free(call);
}

/* Connecting ----------------------------------------------------------------------------------- */

static void enter_up_state(struct ration_redis_connection *connection)
{
    connection->state = STATE_UP;
    connection->has_connected = true;
    connection->is_recovering = connection->stats.connects > 0;
    connection->window = connection->is_recovering ? WINDOW_PROBE : WINDOW_MAX;
    connection->answered_in_window = 0;
    connection->in_flight = 0;
    connection->stats.connects++;
    connection->last_error[0] = '\0';
    set_timer(connection);
    notify_changed(connection);
}

static void end_handshake_step(struct ration_redis_connection *connection);

/* An earlier reply of the handshake was an error: hiredis passes on the replies that it has read before it closes. */
static bool is_closing(const struct redisAsyncContext *redis)
{
    return (redis->c.flags & (REDIS_DISCONNECTING | REDIS_FREEING)) != 0;
}

/* The reply to ROLE begins with the role. An error says nothing: the user may lack the permission. */
static bool is_replica(const redisReply *reply)
{
    return reply->type == REDIS_REPLY_ARRAY && reply->elements > 0 &&
           reply->element[0]->type == REDIS_REPLY_STRING &&
           strcmp(reply->element[0]->str, "master") != 0;
}

static void on_role(struct redisAsyncContext *redis, void *raw_reply, void *unused)
{
    struct ration_redis_connection *connection = redis->data;
    const redisReply *reply = raw_reply;

    (void)unused;
    if (connection == NULL || reply == NULL || is_closing(redis))
        return;
    if (is_replica(reply)) {
        set_last_error(connection, "it is a replica and rejects writes");
        redisAsyncDisconnect(redis);
        return;
    }
    end_handshake_step(connection);
}

static void on_handshake_reply(struct redisAsyncContext *redis, void *raw_reply, void *unused)
{
    struct ration_redis_connection *connection = redis->data;
    const redisReply *reply = raw_reply;

    (void)unused;
    if (connection == NULL || reply == NULL || is_closing(redis))
        return;
    if (reply->type == REDIS_REPLY_ERROR) {
        char last_error[LAST_ERROR_SIZE];

        snprintf(last_error, sizeof(last_error), "it replied: %s", reply->str);
        set_last_error(connection, last_error);
        redisAsyncDisconnect(redis); /* drop_connection() would free what hiredis works on */
        return;
    }
    end_handshake_step(connection);
}

static void send_scripts(struct ration_redis_connection *connection)
{
    connection->are_scripts_sent = true;
    for (unsigned i = 0; i < RATION_REDIS_SCRIPT_COUNT; i++) {
        struct ration_redis_script_text text =
            ration_redis_script_text((enum ration_redis_script)i);

        connection->handshake_replies +=
            redisAsyncCommand(connection->redis, on_handshake_reply, NULL, "SCRIPT LOAD %b",
                              text.bytes, text.size) == REDIS_OK;
    }
}

/* A reply has arrived. After the last one the scripts are sent; after theirs, the connection is up. */
static void end_handshake_step(struct ration_redis_connection *connection)
{
    if (--connection->handshake_replies > 0)
        return;
    if (connection->endpoint.has_scripts && !connection->are_scripts_sent)
        send_scripts(connection);
    if (connection->handshake_replies == 0)
        enter_up_state(connection);
}

/*
 * The scripts follow only after a reply: Redis closes a connection that sends such long arguments before it has
 * authenticated, and then its reply, which says why, may be lost.
 */
static void start_handshake(struct ration_redis_connection *connection)
{
    const struct ration_redis_endpoint *endpoint = &connection->endpoint;
    struct redisAsyncContext *redis = connection->redis;

    connection->state = STATE_HANDSHAKE;
    connection->are_scripts_sent = false;
    connection->handshake_replies = ration_redis_auth_send(redis, endpoint, on_handshake_reply);
    if (endpoint->database != 0)
        connection->handshake_replies +=
            redisAsyncCommand(redis, on_handshake_reply, NULL, "SELECT %u", endpoint->database) ==
            REDIS_OK;
    if (endpoint->is_master)
        connection->handshake_replies +=
            redisAsyncCommand(redis, on_role, NULL, "ROLE") == REDIS_OK;
    /* At least one reply is needed. A user who may run the scripts may ask for the time. */
    if (connection->handshake_replies == 0)
        connection->handshake_replies +=
            redisAsyncCommand(redis, on_handshake_reply, NULL,
                              endpoint->has_scripts ? "TIME" : "PING") == REDIS_OK;
}

static void on_connect(const struct redisAsyncContext *redis, int status)
{
    struct ration_redis_connection *connection = redis->data;
    int one = 1;

    if (connection == NULL)
        return;
    if (status == REDIS_OK) {
        (void)setsockopt(redis->c.fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
        start_handshake(connection);
        return;
    }
    set_last_error(connection, redis->errstr != NULL ? redis->errstr : "it cannot be reached");
    connection->redis = NULL; /* hiredis frees it */
    schedule_retry(connection);
}

static void on_disconnect(const struct redisAsyncContext *redis, int status)
{
    struct ration_redis_connection *connection = redis->data;

    if (connection == NULL)
        return;
    if (status != REDIS_OK)
        set_last_error(connection,
                       redis->errstr != NULL ? redis->errstr : "the connection was lost");
    connection->redis = NULL; /* hiredis frees it; it has run the callbacks */
    schedule_retry(connection);
}

static void connect_to(struct ration_redis_connection *connection, const char *address)
{
    const struct ration_redis_endpoint *endpoint = &connection->endpoint;
    struct redisAsyncContext *redis = endpoint->unix_path != NULL
                                          ? redisAsyncConnectUnix(endpoint->unix_path)
                                          : redisAsyncConnect(address, (int)endpoint->port);

    if (redis == NULL || redis->err != 0) {
        set_last_error(connection, redis != NULL ? redis->errstr : "no memory for a connection");
        if (redis != NULL)
            redisAsyncFree(redis);
        schedule_retry(connection);
        return;
    }
    ration_redis_reply_guard(redis);
    redis->data = connection;
    connection->redis = redis;
    connection->state = STATE_CONNECTING;
    if (!connection->loop.attach(connection->loop.context, redis) ||
        redisAsyncSetConnectCallback(redis, on_connect) != REDIS_OK ||
        redisAsyncSetDisconnectCallback(redis, on_disconnect) != REDIS_OK) {
        drop_connection(connection, "the event loop cannot watch the connection");
        return;
    }
    set_timer(connection);
}

/*
 * Connects if the host name has been resolved by now. A lookup that takes longer is used by the next attempt.
 */
static void check_resolver(struct ration_redis_connection *connection, uint64_t now_ns)
{
    const char *text = "";
    char address[RATION_REDIS_ADDRESS_SIZE];
    enum ration_redis_resolved resolved =
        ration_redis_resolver_resolve(connection->resolver, connection->attempt_count, &text);

    if (resolved == RATION_REDIS_LOOKING) {
        if (connection->connect_by_ns <= now_ns)
            drop_connection(connection, "its name was not resolved in time");
        else
            set_timer(connection);
        return;
    }
    snprintf(address, sizeof(address), "%s", text);
    ration_redis_resolver_free(connection->resolver);
    connection->resolver = NULL;
    if (resolved == RATION_REDIS_FOUND)
        connect_to(connection, address);
    else
        drop_connection(connection, address);
}

static void start_attempt(struct ration_redis_connection *connection)
{
    const struct ration_redis_endpoint *endpoint = &connection->endpoint;

    connection->attempt_count++;
    connection->connect_by_ns = now_of(connection) + connection->times.connect_timeout_ns;
    if (endpoint->unix_path != NULL || ration_redis_is_address(endpoint->host)) {
        connect_to(connection, endpoint->host);
        return;
    }
    connection->state = STATE_RESOLVING;
    if (connection->resolver == NULL)
        connection->resolver = ration_redis_resolver_create(endpoint->host);
    if (connection->resolver == NULL)
        drop_connection(connection, "cannot start a thread to resolve its name");
    else
        set_timer(connection);
}

static void record_timeout(struct ration_redis_connection *connection, uint64_t now_ns)
{
    connection->window = connection->window < WINDOW_TIMEOUT ? connection->window : WINDOW_TIMEOUT;
    connection->answered_in_window = 0;
    if (connection->timeout_count++ == 0)
        connection->drop_at_ns = now_ns + (TIMEOUTS_MAX - 1) * connection->times.timeout_ns;
}

/*
 * Completes commands whose deadline has passed. The timeout is recorded first, since a callback may send
 * again.
 */
static void complete_expired_calls(struct ration_redis_connection *connection, uint64_t now_ns)
{
    if (connection->first != NULL && connection->first->deadline_ns <= now_ns)
        record_timeout(connection, now_ns);
    while (connection->first != NULL && connection->first->deadline_ns <= now_ns) {
        struct call *call = pop_first_call(connection);

        connection->stats.late++;
        complete_call(call, RATION_REDIS_LATE, NULL);
    }
}

static void on_wake(void *argument)
{
    struct ration_redis_connection *connection = argument;
    uint64_t now_ns = now_of(connection);

    connection->timer = NULL;
    complete_expired_calls(connection, now_ns);
    if ((connection->state == STATE_UP &&
         connection->timeout_count >= (connection->is_recovering ? 1 : TIMEOUTS_MAX)) ||
        (is_stalled(connection) && connection->drop_at_ns <= now_ns))
        drop_connection(connection, "it did not answer in time");
    else if ((connection->state == STATE_CONNECTING || connection->state == STATE_HANDSHAKE) &&
             connection->connect_by_ns <= now_ns)
        drop_connection(connection, "it could not be reached in time");
    else if (connection->state == STATE_DOWN && connection->retry_at_ns <= now_ns)
        start_attempt(connection);
    else if (connection->state == STATE_RESOLVING)
        check_resolver(connection, now_ns);
    else
        set_timer(connection);
}

ration_status ration_redis_connection_create(const struct ration_redis_endpoint *endpoint,
                                             const struct ration_redis_times *times,
                                             const struct ration_redis_loop *loop,
                                             struct ration_redis_connection **out_connection)
{
    struct ration_redis_connection *connection = calloc(1, sizeof(*connection));

    if (connection == NULL)
        return RATION_ENOMEM;
    connection->endpoint = *endpoint;
    connection->times = *times;
    connection->loop = *loop;
    ration_redis_backoff_init(&connection->backoff, times->retry_min_ns, times->retry_max_ns,
                              (uint64_t)(uintptr_t)connection ^ now_of(connection));
    set_last_error(connection, "it is not connected yet");
    *out_connection = connection;
    start_attempt(connection);
    return RATION_OK;
}

void ration_redis_connection_free(struct ration_redis_connection *connection)
{
    if (connection == NULL)
        return;
    connection->changed = NULL;
    drop_connection(connection, "the connection was released");
    ration_redis_resolver_free(connection->resolver);
    if (connection->timer != NULL)
        connection->loop.forget(connection->loop.context, connection->timer);
    free(connection);
}

/* Sending -------------------------------------------------------------------------------------- */

static bool submit_command(struct ration_redis_connection *connection,
                           const struct ration_redis_argv *argv, bool is_asking, struct call *call)
{
    const char *pointers[RATION_REDIS_ARGV_MAX];
    size_t sizes[RATION_REDIS_ARGV_MAX];

    for (size_t i = 0; i < argv->count; i++) {
        pointers[i] = ration_redis_argv_at(argv, i);
        sizes[i] = ration_redis_argv_size(argv, i);
    }
    if (is_asking && redisAsyncCommand(connection->redis, NULL, NULL, "ASKING") != REDIS_OK)
        return false;
    if (redisAsyncCommandArgv(connection->redis, on_reply, call, (int)argv->count, pointers,
                              sizes) == REDIS_OK)
        return true;
    if (is_asking) /* ASKING would apply to the next command */
        ration_redis_connection_renew(connection, "no memory for a command");
    return false;
}

void ration_redis_connection_send(struct ration_redis_connection *connection,
                                  const struct ration_redis_argv *argv,
                                  const struct ration_redis_send_options *send_options,
                                  ration_redis_done *done, void *context)
{
    static const struct ration_redis_send_options default_options = {0};
    uint64_t now_ns = now_of(connection), deadline_ns;
    struct call *call = NULL;

    if (send_options == NULL)
        send_options = &default_options;
    deadline_ns = send_options->deadline_ns > 0 ? send_options->deadline_ns
                                                : now_ns + connection->times.timeout_ns;
    if (connection->state == STATE_UP && connection->in_flight < connection->window &&
        !is_stalled(connection) && !argv->text.is_failed && now_ns < deadline_ns)
        call = malloc(sizeof(*call));
    if (call != NULL) {
        *call = (struct call){.deadline_ns = deadline_ns, .done = done, .context = context};
        if (!submit_command(connection, argv, send_options->is_asking, call)) {
            free(call);
            call = NULL;
        }
    }
    if (call == NULL) {
        connection->stats.refused++;
        done(context, RATION_REDIS_REFUSED, NULL);
        return;
    }
    connection->in_flight++;
    connection->stats.sent++;
    insert_call(connection, call);
    if (connection->first == call)
        set_timer(connection);
}

/* State and counters --------------------------------------------------------------------------- */

bool ration_redis_connection_is_connected(const struct ration_redis_connection *connection)
{
    return connection->state == STATE_UP;
}

bool ration_redis_connection_has_connected(const struct ration_redis_connection *connection)
{
    return connection->has_connected;
}

bool ration_redis_connection_is_trying(const struct ration_redis_connection *connection)
{
    return connection->state == STATE_RESOLVING || connection->state == STATE_CONNECTING ||
           connection->state == STATE_HANDSHAKE;
}

const char *ration_redis_connection_last_error(const struct ration_redis_connection *connection)
{
    return connection->state == STATE_UP ? "" : connection->last_error;
}

void ration_redis_connection_renew(struct ration_redis_connection *connection,
                                   const char *last_error)
{
    set_last_error(connection, last_error);
    if (connection->redis != NULL && connection->state == STATE_UP) {
        connection->state =
            STATE_HANDSHAKE; /* nothing more is sent; commands in flight may still be answered */
        connection->connect_by_ns = now_of(connection) + connection->times.timeout_ns;
        redisAsyncDisconnect(connection->redis);
        set_timer(connection);
    }
}

void ration_redis_connection_watch(struct ration_redis_connection *connection,
                                   void (*changed)(void *context), void *context)
{
    connection->changed = changed;
    connection->changed_context = context;
}

void ration_redis_connection_count(const struct ration_redis_connection *connection,
                                   struct ration_redis_stats *stats)
{
    stats->sent += connection->stats.sent;
    stats->answered += connection->stats.answered;
    stats->late += connection->stats.late;
    stats->lost += connection->stats.lost;
    stats->refused += connection->stats.refused;
    stats->connects += connection->stats.connects;
    stats->losses += connection->stats.losses;
}
