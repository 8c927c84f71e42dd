/*
 * kit: a server on loopback in a thread of this process, and blocking clients for it.
 *
 * Nothing here waits for time to pass. Deadlines go by a clock that the test sets; what must have
 * happened on the server's thread is waited for by asking its counters. A read that should get
 * something gives up after KIT_PATIENCE_S, which only a failing test reaches.
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

/* Options that most tests want: one loop, and a time of the test's own. */
struct ration_loops_options kit_options(struct kit *kit);

/* Starts a server for the protocol on address; NULL is a free port of 127.0.0.1. */
void kit_start(struct kit *kit, const struct ration_loops_options *options,
               const struct ration_protocol *protocol, const char *address);

/* The same in two steps, for tests that listen on more. */
void kit_create(struct kit *kit, const struct ration_loops_options *options);
void kit_listen(struct kit *kit, const struct ration_protocol *protocol, const char *address,
                uint32_t idle_timeout_ms);
void kit_run(struct kit *kit);

/* Closes whatever is open, waits for the server's end and frees it. */
void kit_stop(struct kit *kit);

/* Waits for a server that was told to drain, and frees it. */
void kit_join(struct kit *kit);

/* Runs function on each loop and waits until all are done. */
void kit_on_loops(struct kit *kit, ration_loop_function *function, void *argument);

/* Lets time pass, and deadlines with it. */
void kit_pass(struct kit *kit, uint64_t ms);

/* The counters when the loops are done with what they are at. */
struct ration_loop_counters kit_counters(struct kit *kit);

/* Wait until a counter is at least so much; they fail the test if that takes too long. */
void kit_await_received(struct kit *kit, uint64_t bytes);
void kit_await_accepted(struct kit *kit, uint64_t count);
void kit_await_open(struct kit *kit, uint64_t count);
void kit_await_accept_pauses(struct kit *kit, uint64_t count);
void kit_await_ended(struct kit *kit, enum ration_close_reason close_reason, uint64_t count);

/* Clients, as blocking sockets. The second comes from an address of its own in 127/8. */
int client_open(struct kit *kit);
int client_open_from(struct kit *kit, const char *address);
int client_socket(struct kit *kit); /* not connected yet */
bool client_connect(struct kit *kit, int fd);
void client_send(int fd, const void *bytes, size_t size);
void client_say(int fd, const char *text);
void client_expect(int fd, const char *text);
void client_expect_bytes(int fd, size_t size);
void client_expect_end(int fd); /* the server closed, one way or another */
void client_shut(int fd);       /* nothing more will be sent */

/*
 * Protocols. echo gives back what it gets. lines answers each line with itself, and knows:
 *
 *     big N     an answer of N bytes x        hold      the answer comes with kit_resume()
 *     need N    wants N bytes more            close     answers bye and closes
 *     abort     closes at once
 */
extern const struct ration_protocol kit_echo;
extern const struct ration_protocol kit_lines;

/* The same as lines with refuse(), which answers the word of the ending; and with phases: the line
 * "body" begins a body, which ends with the next line. */
extern const struct ration_protocol kit_polite;
extern const struct ration_protocol kit_phases;

/* Resumes the connection that was held last, with an answer. */
void kit_resume(struct kit *kit);

/* Sends size bytes to the connection that was held last, if it is there; it stays held. */
void kit_push(struct kit *kit, size_t size);

/* How often close() was called, and receive(), since the start of the process. */
unsigned kit_closes(void);
unsigned kit_receives(void);

#endif
