/*
 * loop_parts: the private structures of loops and connections, for the files that implement them.
 * The only header of the server that includes libuv.
 *
 * libuv only watches the sockets (uv_poll_t); the loop thread calls recv() and send() itself. So TCP
 * and Unix sockets are handled alike, bytes that the kernel does not accept stay in a buffer that we
 * bound, and a request costs one read, one write and its share of an epoll_wait.
 */
#ifndef RATION_SERVER_NET_LOOP_PARTS_H
#define RATION_SERVER_NET_LOOP_PARTS_H

#include <pthread.h>
#include <stdalign.h>
#include <uv.h>

#include "server/net/connection.h"
#include "server/net/deadlines.h"
#include "server/net/endpoint.h"
#include "server/net/loops.h"
#include "server/net/peers.h"

#define RATION_SIGNALS_MAX 8

/* A loop thread receives at most this many bytes at once, and sends its replies when they reach the second size. */
#define RATION_LOOP_INPUT_SIZE  65536
#define RATION_OUTPUT_FULL_SIZE 49152 /* plus one reply: an empty output's memory */

/* While more than this is buffered for an unauthenticated client, the loop thread receives nothing from it. */
#define RATION_OUTPUT_LOW_SIZE 16384

/*
 * After this many bytes of replies to one connection the loop thread serves other connections first; to an
 * unauthenticated connection, after RATION_OUTPUT_LOW_SIZE.
 */
#define RATION_TURN_OUTPUT_SIZE (256 << 10)

/*
 * If a client's buffered output has reached output_bytes_max and the client reads none of it for this long,
 * then it is a client that writes all its requests before it reads: waiting longer would not help it.
 */
#define RATION_STALL_MS 2000

/* After the last reply the loop thread receives and discards at most this many bytes from the client. */
#define RATION_LINGER_BYTES_MAX (4 << 20)

#define RATION_ACCEPTS_PER_TURN 64
#define RATION_ACCEPT_PAUSE_MS  100

/* One in this many of connections_max is reserved for authenticated clients. */
#define RATION_RESERVED_ONE_IN 8

/*
 * All unauthenticated connections together may use 1/N of connection_memory_max, and each of them 1/N of
 * what is free of that share.
 */
#define RATION_UNAUTHENTICATED_ONE_IN 4

/* A connection may use this many bytes until connection_memory_max, or the share of its kind, is used up. */
#define RATION_CONNECTION_MEMORY_LOW 16384

/* Classes of deadlines. RATION_DEADLINE_IDLE + i is the idle timeout of listener i. */
enum ration_deadline_class {
    RATION_DEADLINE_HEADERS,
    RATION_DEADLINE_BODY,
    RATION_DEADLINE_WRITE,
    RATION_DEADLINE_LINGER,
    RATION_DEADLINE_AUTH, /* used by connection->auth_deadline only */
    RATION_DEADLINE_MULTI,
    RATION_DEADLINE_STALL, /* used by connection->second_deadline only */
    RATION_DEADLINE_DELAY, /* used by connection->second_deadline only */
    RATION_DEADLINE_IDLE,
    RATION_DEADLINE_NONE = RATION_DEADLINE_IDLE + RATION_LISTENERS_MAX
};
_Static_assert(RATION_DEADLINE_NONE <= RATION_DEADLINE_CLASSES_MAX, "one queue for each class");

/* Bytes that a connection buffers, from begin to end. An idle connection has no memory here (bytes is NULL). */
struct ration_buffer {
    char *bytes;
    uint32_t begin;
    uint32_t end;
    uint32_t capacity;
    bool is_secret; /* the memory is wiped before it is released */
};

struct ration_connection {
    uv_poll_t poll;
    struct ration_loop *loop;
    const struct ration_listener *listener;
    struct ration_connection *before; /* in the loop's list of connections */
    struct ration_connection *behind;
    struct ration_deadline deadline;
    struct ration_deadline second_deadline; /* RATION_DEADLINE_STALL or _DELAY */
    struct ration_deadline auth_deadline;   /* runs while the connection is unauthenticated */
    struct ration_job job;                  /* serves the requests left after a yield */
    struct ration_buffer input;             /* received, not consumed by the protocol */
    struct ration_buffer output;            /* replies that are not sent yet */
    size_t memory_bytes;           /* accounted: both buffers, and the protocol's own memory */
    uint32_t input_min_bytes;      /* receive() is not called with fewer */
    uint32_t lingered_bytes;       /* received and discarded while is_lingering */
    uint32_t write_deadline_bytes; /* of output: covered by the write deadline */
    int fd;
    struct ration_address peer;
    uint8_t phase;        /* enum ration_phase */
    uint8_t events;       /* passed to uv_poll_start(); 0: not watched */
    uint8_t close_reason; /* enum ration_close_reason; once set, update() closes the connection */
    uint8_t close_after;  /* the same, to be used when the buffered output is sent */
    uint32_t stall_queued_bytes; /* in the kernel's send queue when the stall deadline started */
    bool phase_began : 1;        /* since the last update(): restarts the phase's deadline */
    bool paused : 1;             /* by ration_connection_pause() */
    bool stopped_early : 1;      /* input may have unserved requests: it was blocked or yielded */
    bool yields : 1;             /* the rest of the input is served in the next turn */
    bool received_eof : 1;       /* the client will send nothing more */
    bool is_lingering : 1;       /* our side is shut down (SHUT_WR) */
    bool is_counted : 1;         /* in loops->peers */
    bool in_callback : 1;        /* a callback of the protocol is running */
    bool write_restarted : 1;    /* since the last update(): write_deadline_bytes was set again */
    bool is_unauthenticated : 1;
    bool has_request : 1;     /* a request was completed since auth_deadline started */
    bool is_delayed : 1;      /* nothing is sent or received for RATION_DELAY_MS */
    bool is_transaction : 1;  /* between MULTI and EXEC */
    bool is_partial : 1;      /* the protocol will append more of its last reply */
    bool sent_some : 1;       /* since the last update() */
    bool input_is_secret : 1; /* received bytes are wiped once they are served */
    alignas(max_align_t) char state[];
};

/* An address that all loops listen on. */
struct ration_listener {
    struct ration_endpoint endpoint;
    char address[RATION_ENDPOINT_TEXT_SIZE];
    const struct ration_protocol *protocol;
    void *context;
    unsigned index;
    uint32_t idle_timeout_ms;
};

/* One loop's listening socket for a listener. */
struct ration_acceptor {
    uv_poll_t poll;
    struct ration_loop *loop;
    const struct ration_listener *listener;
    int fd;
};

struct ration_loop {
    uv_loop_t uv;
    struct ration_loops *loops;
    unsigned index;
    void *user;

    uv_prepare_t turn; /* runs before each wait: a new turn begins */
    bool is_now_cached;
    uint32_t reads_since_now;
    uint64_t now_ns;

    uint64_t match_steps;                         /* used by requests in this turn */
    uint64_t connection_match_steps;              /* of these, by last_charged in a row */
    const struct ration_connection *last_charged; /* only compared: it may be freed */

    bool are_jobs_deferred; /* to the next turn */
    uv_idle_t jobs_idle;    /* active while jobs are queued */
    struct ration_job jobs; /* head of a ring; not itself a job */

    uv_timer_t timer; /* fires at timer_ms, for the deadline that expires first */
    uint64_t timer_ms;
    struct ration_deadlines deadlines;

    struct ration_connection *connections; /* head of a list */
    struct ration_output output;
    struct ration_connection *output_borrower; /* whose replies output holds; NULL: none */
    char *input;                               /* RATION_LOOP_INPUT_SIZE bytes */

    struct ration_acceptor acceptors[RATION_LISTENERS_MAX];
    unsigned acceptor_count;
    bool has_started; /* has begun to accept */
    int spare_fd; /* closed and reopened to accept when no file descriptors are left; -1: none */
    uv_timer_t accept_pause;
    uv_poll_t highest_fd_poll; /* used once, to make libuv allocate its table of watchers */

    uv_async_t wake;
    void (*on_stop)(struct ration_loop *loop); /* may be NULL */
    pthread_mutex_t messages_lock;
    struct ration_loop_message *messages_first;
    struct ration_loop_message **messages_last;
    bool messages_closed;
    struct ration_loop_message evict_message;
    uint32_t evict_requests; /* atomic: connections to evict; 0: evict_message is not posted */
    struct ration_loop_message drain_message;
    uint64_t drain_request_ms; /* RATION_DEADLINE_NEVER_MS: drain_message is not posted */

    bool draining;
    uint64_t drain_end_ms;
    bool is_stopped; /* shut down: its handles are closed or closing */
    pthread_t thread;

    struct ration_loop_counters counters;
};

struct ration_signal {
    uv_signal_t uv;
    struct ration_loop *loop;
    ration_loop_function *function;
    void *argument;
};

struct ration_loops {
    struct ration_server_limits limits;
    struct ration_clock clock;
    uint64_t (*coarse_ms)(void *context);
    void *coarse_context;

    struct ration_listener listeners[RATION_LISTENERS_MAX];
    unsigned listener_count;
    struct ration_signal signals[RATION_SIGNALS_MAX];
    unsigned signal_count;

    uint64_t files_max;             /* file descriptors that the server may have open */
    uint32_t open_count;            /* atomic: connections on all loops */
    uint32_t unauthenticated_count; /* atomic: of these, unauthenticated ones */
    uint32_t delayed_count;         /* atomic: connections whose replies are delayed */
    uint64_t memory_bytes;          /* atomic: accounted for all connections */
    uint64_t unauthenticated_bytes; /* atomic: of these, for unauthenticated ones */
    struct ration_peers *peers;     /* NULL: connections per address are not limited */

    pthread_mutex_t accept_lock; /* no other loop may take the descriptor that one loop has freed */
    pthread_mutex_t drain_lock;
    bool is_draining;
    ration_loop_function *on_drained; /* written, with its argument, before any loop drains */
    void *on_drained_argument;
    unsigned stopped_count; /* atomic: loops that have shut down */

    unsigned loop_count;
    struct ration_loop *loops[RATION_LOOPS_MAX];
};

/* The loop thread is the only writer, so a plain add is enough; other threads read whole words. */
static inline void ration_loop_count(uint64_t *counter, uint64_t more)
{
    __atomic_store_n(counter, *counter + more, __ATOMIC_RELAXED);
}

static inline uint64_t ration_loop_coarse_ms(const struct ration_loop *loop)
{
    const struct ration_loops *loops = loop->loops;

    return loops->coarse_ms != NULL ? loops->coarse_ms(loops->coarse_context) : uv_now(&loop->uv);
}

/* loop.c */
ration_status ration_loop_create(struct ration_loops *loops, unsigned index,
                                 struct ration_loop **out_loop, struct ration_error *error);
void ration_loop_free(struct ration_loop *loop);
void ration_loop_deadline_started(struct ration_loop *loop, uint64_t end_ms);
/* Any thread: makes the loop drain within deadline_ms, or within an earlier request's time if that is shorter. */
void ration_loop_request_drain(struct ration_loop *loop, uint32_t deadline_ms);
/* Any thread: makes the loop thread call ration_loop_stop_if_empty(). */
void ration_loop_wake(struct ration_loop *loop);
/* Shuts a draining loop down if it has no connections left. */
void ration_loop_stop_if_empty(struct ration_loop *loop);

/* loops.c */
void ration_loops_close_signals(struct ration_loops *loops);
void ration_loops_add_stopped(struct ration_loop *loop);
bool ration_loops_others_stopped(const struct ration_loops *loops); /* all but loop 0 */

/* acceptor.c */
int ration_acceptor_open_spare(void);
ration_status ration_acceptor_add(struct ration_loop *loop, const struct ration_listener *listener,
                                  int fd, struct ration_error *error);
void ration_acceptor_start_all(struct ration_loop *loop);
void ration_acceptor_stop_all(struct ration_loop *loop);

/* connection.c */
/* Makes a connection of an accepted socket, or refuses the client. Takes ownership of fd. */
void ration_connection_accept(struct ration_loop *loop, const struct ration_listener *listener,
                              int fd, const struct sockaddr_storage *peer);
/* Closes it now; its memory is freed when libuv has closed the handle, not before the end of this turn. */
void ration_connection_end(struct ration_connection *connection,
                           enum ration_close_reason close_reason);
void ration_connection_deadline_passed(struct ration_connection *connection,
                                       unsigned deadline_class);
void ration_connection_watch(struct ration_connection *connection, int events);
void ration_connection_reject(struct ration_connection *connection,
                              enum ration_close_reason close_reason);
void ration_connection_drain(struct ration_connection *connection);

/*
 * connection_update.c: called after every event of a connection. Closes the connection, or sets its deadlines
 * and the events to watch for. The caller must not use the connection afterwards: it may be closed.
 */
void ration_connection_update(struct ration_connection *connection);

/* Bytes in the kernel's send queue: sent by us, not yet acknowledged (TCP) or read (Unix socket) by the client. */
uint32_t ration_connection_queued(const struct ration_connection *connection);

/* connection_io.c. The caller calls ration_connection_update() afterwards. */
void ration_connection_read(struct ration_connection *connection);
void ration_connection_lost(struct ration_connection *connection);
/* Whether close() loses no reply: the kernel has sent everything, and no unread input makes it reset the connection. */
bool ration_connection_is_flushed(const struct ration_connection *connection);
void ration_connection_send(struct ration_connection *connection);
void ration_connection_send_buffered(struct ration_connection *connection);
void ration_connection_serve_buffered(struct ration_connection *connection);

/* buffer.c. append: RATION_CLOSE_REASON_NONE, or why there is no room for the bytes. */
enum ration_close_reason ration_buffer_append(struct ration_connection *connection,
                                              struct ration_buffer *buffer, const char *bytes,
                                              size_t size);
void ration_buffer_drop(struct ration_connection *connection, struct ration_buffer *buffer,
                        size_t size);
void ration_buffer_done(struct ration_connection *connection, struct ration_buffer *buffer);

static inline uint32_t ration_loop_buffer_size(const struct ration_buffer *buffer)
{
    return buffer->end - buffer->begin;
}

/* Whether so much output is buffered that no request is served before the client reads some of it. */
static inline bool ration_loop_is_output_full(const struct ration_connection *connection)
{
    uint32_t size = ration_loop_buffer_size(&connection->output);
    uint32_t max, room;

    if (__builtin_expect(size <= RATION_OUTPUT_FULL_SIZE / 32, 1)) /* below any maximum */
        return false;
    max = connection->loop->loops->limits.output_bytes_max;
    room = RATION_OUTPUT_FULL_SIZE < max / 2 ? RATION_OUTPUT_FULL_SIZE : max / 2;
    if (connection->is_unauthenticated)
        return size > RATION_OUTPUT_LOW_SIZE;
    return size > max - room;
}

#endif
