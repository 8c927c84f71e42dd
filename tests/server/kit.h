/*
 * kit: a server on loopback in a thread of this process, and blocking clients for it.
 *
 * Nothing here waits for time to pass. Timeouts use a clock that the test sets; to wait for an event on
 * the server's thread, the kit polls its counters. A read that should get data gives up after
 * KIT_PATIENCE_S, which only a failing test reaches.
 */
#ifndef RATION_TESTS_SERVER_KIT_H
#define RATION_TESTS_SERVER_KIT_H

#include <pthread.h>
#include <stdbool.h>

#include "server/net/connection.h"
#include "server/net/loops.h"
#include "support/unit.h"

#define KIT_PATIENCE_S 20

struct kit {
    struct ration_loops *loops;
    pthread_t thread;
    uint64_t coarse_ms; /* atomic */
    bool runs;
};

/* Options for most tests: one loop, and a clock that the test sets. */
struct ration_loops_options kit_options(struct kit *kit);

/* Starts a server for the protocol on address; NULL is a free port of 127.0.0.1. */
void kit_start(struct kit *kit, const struct ration_loops_options *options,
               const struct ration_protocol *protocol, const char *address);

/* The same in two steps, for tests with several listeners. */
void kit_create(struct kit *kit, const struct ration_loops_options *options);
void kit_listen(struct kit *kit, const struct ration_protocol *protocol, const char *address,
                uint32_t idle_timeout_ms);
void kit_run(struct kit *kit);

/* Closes all connections, waits until the server has stopped, and frees it. */
void kit_stop(struct kit *kit);

/* Waits until a draining server has stopped, and frees it. */
void kit_join(struct kit *kit);

/* Runs function on each loop and waits until all have run it. */
void kit_on_loops(struct kit *kit, ration_loop_function *function, void *argument);

/* Advances the clock, and expires timeouts. */
void kit_pass(struct kit *kit, uint64_t ms);

/* The counters after the loops have finished their current work. */
struct ration_loop_counters kit_counters(struct kit *kit);

/* Wait until a counter has reached the value; fail the test if that takes too long. */
void kit_await_received(struct kit *kit, uint64_t bytes);
void kit_await_accepted(struct kit *kit, uint64_t count);
void kit_await_open(struct kit *kit, uint64_t count);
void kit_await_accept_pauses(struct kit *kit, uint64_t count);
void kit_await_ended(struct kit *kit, enum ration_close_reason close_reason, uint64_t count);

/* Clients, as blocking sockets. client_open_from() connects from the given address in 127/8. */
int client_open(struct kit *kit);
int client_open_from(struct kit *kit, const char *address);
int client_socket(struct kit *kit); /* not connected yet */
bool client_connect(struct kit *kit, int fd);
void client_send(int fd, const void *bytes, size_t size);
void client_say(int fd, const char *text);
void client_expect(int fd, const char *text);
void client_expect_bytes(int fd, size_t size);
void client_expect_end(int fd); /* the server has closed, with FIN or RST */
void client_shut(int fd);       /* stops sending */

/*
 * Protocols. echo sends back what it receives. lines answers each line with the line, except:
 *
 *     big N     an answer of N bytes x        hold      kit_resume() sends the answer
 *     need N    needs N more bytes            close     answers bye and closes
 *     abort     closes at once
 */
extern const struct ration_protocol kit_echo;
extern const struct ration_protocol kit_lines;

/* Like lines, with refuse(), which answers with the name of the close reason; and with phases: the line
 * "body" begins a body, which ends with the next line. */
extern const struct ration_protocol kit_polite;
extern const struct ration_protocol kit_phases;

/* Resumes the connection that was paused last, with an answer. */
void kit_resume(struct kit *kit);

/* Sends size bytes to the connection that was paused last, if it is open; it stays paused. */
void kit_push(struct kit *kit, size_t size);

/* How often close() was called, and receive(), since the start of the process. */
unsigned kit_closes(void);
unsigned kit_receives(void);

#endif
