/*
 * loop_parts: the insides of loops and connections, for the files that implement them. The one
 * header here that knows libuv.
 *
 * Sockets are watched with uv_poll_t and read and written by ourselves: TCP and Unix sockets are
 * the same, what could not be sent stays in a buffer of ours whose bound is kept, and a request
 * costs one read, one write and its share of an epoll_wait.
 */
#ifndef RATION_SERVER_LOOP_PARTS_H
#define RATION_SERVER_LOOP_PARTS_H

#include <pthread.h>
#include <stdalign.h>
#include <uv.h>

#include "server/connection.h"
#include "server/deadlines.h"
#include "server/endpoint.h"
#include "server/loops.h"
#include "server/peers.h"

#define RATION_SIGNALS_MAX 8

/* How much a loop receives at once, and the answers after which it writes before it goes on. */
#define RATION_LOOP_INPUT_SIZE  65536
#define RATION_OUTPUT_FULL_SIZE 49152 /* with an answer more, what an output keeps at rest */

/* While more than this waits to be sent nothing is received from an unauthenticated client. */
#define RATION_OUTPUT_LOW_SIZE 16384

/*
 * After so many bytes of replies to one connection the loop serves other connections first; after
 * RATION_OUTPUT_LOW_SIZE if the connection is unauthenticated.
 */
#define RATION_TURN_OUTPUT_SIZE (256 << 10)

/*
 * A client whose unsent replies have reached output_bytes_max and who takes none of them for so long
 * does not read before it has written everything: waiting longer would not help it.
 */
#define RATION_STALL_MS 2000

/* What a client may still send, to no use, after its connection's last answer; then it is not heard. */
#define RATION_LINGER_BYTES_MAX (4 << 20)

#define RATION_ACCEPTS_PER_TURN 64
#define RATION_ACCEPT_PAUSE_MS  100

/* One connection in so many is kept free of unauthenticated clients. */
#define RATION_RESERVED_ONE_IN 8

/*
 * All unauthenticated connections together may have one part in so many of connection_memory_max, and
 * each of them one part in so many of what is free of that.
 */
#define RATION_UNAUTHENTICATED_ONE_IN 4

/* So much memory a connection may have while there is any. */
#define RATION_CONNECTION_MEMORY_LOW 16384

/* Classes of deadlines; each listener has one for idle connections behind these. */
enum ration_deadline_class {
    RATION_DEADLINE_HEAD,
    RATION_DEADLINE_BODY,
    RATION_DEADLINE_WRITE,
    RATION_DEADLINE_LINGER,
    RATION_DEADLINE_AUTH, /* of connection->auth, beside the one that runs */
    RATION_DEADLINE_MULTI,
    RATION_DEADLINE_STALL, /* of connection->pause, beside the one that runs */
    RATION_DEADLINE_DELAY, /* the same */
    RATION_DEADLINE_IDLE,
    RATION_DEADLINE_NONE = RATION_DEADLINE_IDLE + RATION_LISTENERS_MAX
};
_Static_assert(RATION_DEADLINE_NONE <= RATION_DEADLINE_CLASSES_MAX, "one queue for each class");

/* Bytes kept by a connection; none while it is at rest. Those before begin are done with. */
struct ration_kept {
    char *bytes;
    uint32_t begin;
    uint32_t end;
    uint32_t capacity;
    bool is_secret; /* wiped before it is released */
};

struct ration_connection {
    uv_poll_t poll;
    struct ration_loop *loop;
    const struct ration_listener *listener;
    struct ration_connection *before; /* in the list of the loop's connections */
    struct ration_connection *behind;
    struct ration_deadline deadline;
    struct ration_deadline pause; /* a second one: RATION_DEADLINE_STALL, _DELAY */
    struct ration_deadline auth;  /* a third one: runs while the connection is unauthenticated */
    struct ration_job job;        /* serves what is left after a yield */
    struct ration_kept input;     /* received, not consumed */
    struct ration_kept output;    /* answered, not sent */
    size_t memory_bytes;          /* accounted: of these two, and what the protocol holds */
    uint32_t need_bytes;
    uint32_t lingered_bytes;
    uint32_t untaken_bytes; /* of the unsent ones, those that the write deadline is for */
    int fd;
    struct ration_address peer;
    uint8_t phase;         /* enum ration_phase */
    uint8_t events;        /* of uv_poll_start() */
    uint8_t ending;        /* enum ration_ending, once it is certain */
    uint8_t ending_after;  /* the same, once it only waits for the last answer to be sent */
    uint32_t queued_bytes; /* that the kernel still had to pass on when a stall began */
    bool phase_begins : 1;
    bool held : 1;
    bool stopped_early : 1; /* receive() may have requests left: no room, hold() or yield() */
    bool yields : 1;        /* what is left waits for the next turn */
    bool client_ended : 1;  /* nothing more will come */
    bool lingers : 1;       /* our side is shut down */
    bool is_counted : 1;    /* among the peers */
    bool inside : 1;        /* a callback of the protocol runs */
    bool write_begins : 1;  /* all that the write deadline was for is taken, and more waits */
    bool is_unauthenticated : 1;
    bool has_request : 1;     /* one was completed since the auth deadline began */
    bool is_delayed : 1;      /* nothing is sent or received for a while */
    bool is_transaction : 1;  /* between MULTI and EXEC */
    bool is_partial : 1;      /* more of the last reply will come */
    bool sent_some : 1;       /* since its deadlines were last looked at */
    bool input_is_secret : 1; /* it is wiped when it has been served */
    alignas(max_align_t) char state[];
};

/* What all loops listen on together. */
struct ration_listener {
    struct ration_endpoint endpoint;
    char address[RATION_ENDPOINT_TEXT_SIZE];
    const struct ration_protocol *protocol;
    void *context;
    unsigned index;
    uint32_t idle_deadline_ms;
};

/* One loop's socket of a listener. */
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

    uv_prepare_t turn; /* forgets now before each wait */
    bool now_known;
    uint32_t reads_since_now;
    uint64_t now_ns;

    uint64_t match_steps;                    /* of requests, in this turn */
    uint64_t connection_match_steps;         /* of these, in a row by the one below */
    const struct ration_connection *charged; /* last; not to be used, it may be gone */

    bool jobs_wait;         /* for the next turn */
    uv_idle_t jobs_turn;    /* runs while jobs wait */
    struct ration_job jobs; /* a ring; this is no entry */

    uv_timer_t timer; /* for the deadline that ends next, at timer_ms */
    uint64_t timer_ms;
    struct ration_deadlines deadlines;

    struct ration_connection *connections; /* the first of a list */
    struct ration_output output;
    struct ration_connection *output_borrower;
    char *input; /* RATION_LOOP_INPUT_SIZE bytes */

    struct ration_acceptor acceptors[RATION_LISTENERS_MAX];
    unsigned acceptor_count;
    bool has_started; /* to accept */
    int spare_fd;     /* given up for a moment when there are no files left */
    uv_timer_t accept_pause;
    uv_poll_t highest; /* file number: only to have libuv reserve its table */

    uv_async_t wake;
    void (*on_end)(struct ration_loop *loop); /* NULL: nothing to do */
    pthread_mutex_t messages_lock;
    struct ration_loop_message *messages_first;
    struct ration_loop_message **messages_last;
    bool messages_closed;
    struct ration_loop_message evict_message;
    uint32_t evict_requests; /* atomic: of the message; 0: it is not posted */
    struct ration_loop_message drain_message;
    uint64_t drain_request_ms; /* of the message; RATION_DEADLINE_NEVER_MS: it is not posted */

    bool draining;
    uint64_t drain_end_ms;
    bool ended; /* its handles are closed or closing */
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

    uint64_t files_max;             /* that the server may have open */
    uint32_t open_count;            /* atomic: connections on all loops */
    uint32_t unauthenticated_count; /* atomic: of these, so many */
    uint32_t delayed_count;         /* atomic: connections whose replies are delayed */
    uint64_t memory_bytes;          /* atomic: accounted for all connections */
    uint64_t unauthenticated_bytes; /* atomic: of these, for unauthenticated ones */
    struct ration_peers *peers;     /* NULL if addresses have no bound */

    pthread_mutex_t accept_lock; /* files that one loop gives up are not for another */
    pthread_mutex_t drain_lock;
    bool drains;
    ration_loop_function *drained; /* with its argument, written before any loop drains */
    void *drained_argument;
    unsigned ended_count; /* atomic: loops that have ended */

    unsigned loop_count;
    struct ration_loop *loops[RATION_LOOPS_MAX];
};

/* One writer, which need not add atomically; readers see whole words. */
static inline void ration_count(uint64_t *counter, uint64_t more)
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
/* Has the loop drain within deadline_ms, or sooner if it was asked to before; or look whether it is to end. */
void ration_loop_request_drain(struct ration_loop *loop, uint32_t deadline_ms);
void ration_loop_request_look(struct ration_loop *loop);
void ration_loop_end_if_empty(struct ration_loop *loop);

/* loops.c */
void ration_loops_close_signals(struct ration_loops *loops);
void ration_loops_one_ended(struct ration_loop *loop);
bool ration_loops_others_ended(const struct ration_loops *loops); /* all but loop 0 */

/* acceptor.c */
int ration_acceptors_open_spare(void);
ration_status ration_acceptor_add(struct ration_loop *loop, const struct ration_listener *listener,
                                  int fd, struct ration_error *error);
void ration_acceptors_start(struct ration_loop *loop);
void ration_acceptors_stop(struct ration_loop *loop);

/* connection.c; the first makes a connection of an accepted socket, or refuses it; owns fd from here on. */
void ration_connection_accept(struct ration_loop *loop, const struct ration_listener *listener,
                              int fd, const struct sockaddr_storage *peer);
/* Ends it now; the memory goes when libuv is done with it. */
void ration_connection_end(struct ration_connection *connection, enum ration_ending ending);
void ration_connection_deadline_passed(struct ration_connection *connection,
                                       unsigned deadline_class);
/* Serves what a yield or hold left over; in the loop's queue of jobs. */
unsigned ration_connection_continue(struct ration_job *job);
void ration_connection_watch(struct ration_connection *connection, int events);
void ration_connection_refuse(struct ration_connection *connection, enum ration_ending ending);
void ration_connection_drain(struct ration_connection *connection);

/* settle.c: after anything happened to a connection, what it waits for next. It may be gone after. */
void ration_connection_settle(struct ration_connection *connection);

/* Bytes that were sent and that the client has not taken from the kernel yet. */
uint32_t ration_connection_queued(const struct ration_connection *connection);

/* transfer.c: bytes in, bytes out. To be followed by settle(). */
void ration_connection_read(struct ration_connection *connection);
void ration_connection_lost(struct ration_connection *connection);
/* Whether closing now takes nothing back: all is on its way, and nothing waits that would reset it. */
bool ration_connection_is_through(const struct ration_connection *connection);
void ration_connection_send(struct ration_connection *connection);
void ration_connection_send_kept(struct ration_connection *connection);
void ration_connection_serve_kept(struct ration_connection *connection);

/* kept.c; append: RATION_ENDING_NONE, or why it cannot be kept. */
enum ration_ending ration_kept_append(struct ration_connection *connection,
                                      struct ration_kept *kept, const char *bytes, size_t size);
void ration_kept_drop(struct ration_connection *connection, struct ration_kept *kept, size_t size);
void ration_kept_done(struct ration_connection *connection, struct ration_kept *kept);

static inline uint32_t ration_kept_size(const struct ration_kept *kept)
{
    return kept->end - kept->begin;
}

/* Whether so much waits to be sent that nothing more is answered before the client takes some. */
static inline bool ration_connection_is_output_full(const struct ration_connection *connection)
{
    uint32_t size = ration_kept_size(&connection->output);
    uint32_t max, room;

    if (__builtin_expect(size <= RATION_OUTPUT_FULL_SIZE / 32, 1)) /* and so under any maximum */
        return false;
    max = connection->loop->loops->limits.output_bytes_max;
    room = RATION_OUTPUT_FULL_SIZE < max / 2 ? RATION_OUTPUT_FULL_SIZE : max / 2;
    if (connection->is_unauthenticated)
        return size > RATION_OUTPUT_LOW_SIZE;
    return size > max - room;
}

#endif
