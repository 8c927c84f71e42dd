/*
 * loops: the server's event loops, one per thread, and their listeners.
 *
 *     create -> listen, listen, ... -> run (returns when drained or stopped) -> free
 *
  * Each loop binds its own socket to a TCP address with SO_REUSEPORT, so the kernel distributes connections and
 * loops do not contend. A Unix socket is bound once and all loops accept from it. A connection stays on the
 * loop that accepted it; loops share the counts of open connections, of accounted memory and of peers.
 */
#ifndef RATION_SERVER_NET_LOOPS_H
#define RATION_SERVER_NET_LOOPS_H

#include <stddef.h>

#include "ration/clock.h"
#include "ration/status.h"
#include "server/net/limits.h"
#include "server/net/loop.h"
#include "server/net/protocol.h"

#define RATION_LOOPS_MAX     64
#define RATION_LISTENERS_MAX 16

struct ration_loops;

struct ration_loops_options {
    unsigned loop_count;                /* 1 to RATION_LOOPS_MAX; 0 means 1 */
    struct ration_server_limits limits; /* 0 means the default */
    struct ration_clock
        clock; /* read by ration_loop_now(); zero bytes: ration_clock_default_now() */

    /*
     * For tests: the clock of the deadlines, in milliseconds. If it is set there is no timer: ration_loop_tick()
     * handles expired deadlines, so a test sets the time, posts a tick, and never waits.
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
    const char *address; /* see server/net/endpoint.h: 127.0.0.1:8429, [::1]:0, unix:/run/x.sock */
    const struct ration_protocol *protocol; /* borrowed until the loops are freed */
    void *context;                          /* returned by ration_connection_context() */
    unsigned unix_mode;                     /* permissions of a Unix socket's file; 0 means 0660 */

    /* Idle timeout of this listener's connections; 0: limits.idle_timeout_ms. */
    uint32_t idle_timeout_ms;
};

/*
 * Adds a listener, before the loops run. Listeners are numbered from 0; ration_loops_address() returns the bound
 * address, with the port that the kernel chose for port 0.
 * Returns RATION_EINVAL with the reason in error (may be NULL).
 */
ration_status ration_loops_listen(struct ration_loops *loops,
                                  const struct ration_listen_options *options,
                                  struct ration_error *error);

/* The address of a listener: "127.0.0.1:8429" or "unix:/run/x.sock". Borrowed. */
const char *ration_loops_address(const struct ration_loops *loops, unsigned listener_index);

/* Sets the function that loop 0 calls on a signal. Before the loops run. */
ration_status ration_loops_on_signal(struct ration_loops *loops, int signal_number,
                                     ration_loop_function *function, void *argument,
                                     struct ration_error *error);

/*
 * Runs loop 0 on the calling thread and each other loop on its own thread, until all have shut down.
 * Returns RATION_ENOMEM if a thread cannot be started.
 */
ration_status ration_loops_run(struct ration_loops *loops, struct ration_error *error);

/*
 * Starts to shut down: the loops stop accepting, close idle connections now and the others when their request is
 * answered, and after deadline_ms close the rest. Each loop shuts down when it has no connections, loop 0 last;
 * loop 0 then calls function (may be NULL) on its thread. Any thread; a second call can only shorten the
 * deadline. 0 closes all connections at once. Allocates no memory.
 */
void ration_loops_drain(struct ration_loops *loops, uint32_t deadline_ms,
                        ration_loop_function *function, void *argument);

unsigned ration_loops_count(const struct ration_loops *loops);
struct ration_loop *ration_loops_at(struct ration_loops *loops, unsigned index);

/* The counters of all loops, added up. Any thread. */
void ration_loops_counters(const struct ration_loops *loops,
                           struct ration_loop_counters *out_counters);

/* Closes the remaining connections and frees the loops; not while they run. NULL is accepted. */
void ration_loops_free(struct ration_loops *loops);

#endif
