/*
 * loops: the event loops of the server, one per thread, and what they listen on.
 *
 *     create -> listen, listen, ... -> run (returns when drained or stopped) -> free
 *
 * A TCP address is bound once per loop with SO_REUSEPORT, so the system spreads connections and no
 * loop waits for another. A Unix socket is bound once and each loop accepts from it. A connection
 * stays with the loop that accepted it; loops share nothing but the counts of open connections.
 */
#ifndef RATION_SERVER_LOOPS_H
#define RATION_SERVER_LOOPS_H

#include <stddef.h>

#include "ration/clock.h"
#include "ration/status.h"
#include "server/limits.h"
#include "server/loop.h"
#include "server/protocol.h"

#define RATION_LOOPS_MAX     64
#define RATION_LISTENERS_MAX 16

struct ration_loops;

struct ration_loops_options {
    unsigned loop_count;                /* 1 to RATION_LOOPS_MAX; 0 means 1 */
    struct ration_server_limits limits; /* 0 means the default */
    struct ration_clock clock;          /* what ration_loop_now() reads; zero bytes: ration_now() */

    /*
     * For tests: the time by which deadlines are kept. If given there is no timer: they are looked
     * at when ration_loop_tick() runs, so a test sets the time, posts a tick, and never waits.
     */
    uint64_t (*coarse_ms)(void *context);
    void *coarse_context;
};

/*
 * Raises RLIMIT_NOFILE to its hard maximum, lowers connections_max to what that leaves, and
 * ignores SIGPIPE. *out_loops is owned by the caller: ration_loops_free().
 * Returns RATION_EINVAL, RATION_ENOMEM; error (may be NULL) says why.
 */
ration_status ration_loops_create(const struct ration_loops_options *options,
                                  struct ration_loops **out_loops, struct ration_error *error);

struct ration_listen_options {
    const char *address; /* see server/endpoint.h: 127.0.0.1:8429, [::1]:0, unix:/run/x.sock */
    const struct ration_protocol *protocol; /* borrowed until the loops are freed */
    void *context;                          /* for ration_connection_context() */
    unsigned unix_mode;                     /* of a Unix socket's file; 0 means 0660 */

    /* Not 0: the deadline between requests on this listener, in place of the general one. */
    uint32_t idle_deadline_ms;
};

/*
 * Listens, before the loops run. The address as it really is, with the port that the system chose
 * for port 0, is what ration_loops_address() returns for this listener: they count from 0.
 * Returns RATION_EINVAL with the reason in error (may be NULL).
 */
ration_status ration_loops_listen(struct ration_loops *loops,
                                  const struct ration_listen_options *options,
                                  struct ration_error *error);

/* "127.0.0.1:8429" or "unix:/run/x.sock": of the listener with this index. */
const char *ration_loops_address(const struct ration_loops *loops, unsigned listener_index);

/* Calls function for a signal, on loop 0. Before the loops run. */
ration_status ration_loops_on_signal(struct ration_loops *loops, int signal_number,
                                     ration_loop_function *function, void *argument,
                                     struct ration_error *error);

/*
 * Runs loop 0 on the calling thread and the others on threads of their own, until all have ended.
 * Returns RATION_ENOMEM if a thread cannot be started.
 */
ration_status ration_loops_run(struct ration_loops *loops, struct ration_error *error);

/*
 * Begins to stop: nothing new is accepted, connections at rest are closed, the others when their
 * request is answered, and what is left after deadline_ms is closed as it is. Each loop ends when
 * it is empty, loop 0 last; that one calls function (may be NULL) on its thread. Any thread; a second call
 * only shortens the deadline. 0 closes everything at once. It needs no memory.
 */
void ration_loops_drain(struct ration_loops *loops, uint32_t deadline_ms,
                        ration_loop_function *function, void *argument);

unsigned ration_loops_count(const struct ration_loops *loops);
struct ration_loop *ration_loops_at(struct ration_loops *loops, unsigned index);

/* The limits in force: defaults filled in, connections_max as lowered. */
const struct ration_server_limits *ration_loops_limits(const struct ration_loops *loops);

/* The sum over all loops. Any thread. */
void ration_loops_counters(const struct ration_loops *loops,
                           struct ration_loop_counters *out_counters);

/* Closes what is left; not while the loops run. NULL is accepted. */
void ration_loops_free(struct ration_loops *loops);

#endif
