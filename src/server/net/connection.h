/*
 * connection: the functions that a protocol calls on a connection.
 *
 * Only the connection's loop thread may call them. A connection is valid from open() until close()
 * returns (protocol.h), or during refuse().
 *
 * Cost. An idle connection owns no buffer: the loop thread receives into one buffer of its loop and
 * sends replies from another. A connection buffers only an incomplete request, and replies that the
 * kernel did not accept.
 */
#ifndef RATION_SERVER_NET_CONNECTION_H
#define RATION_SERVER_NET_CONNECTION_H

#include <stdbool.h>
#include <stddef.h>

#include "base/address.h"
#include "base/output.h"
#include "server/net/protocol.h"

struct ration_loop;

/* Where in a request the connection is; this selects the deadline that runs. */
enum ration_phase {
    RATION_PHASE_IDLE, /* between requests */
    RATION_PHASE_HEAD, /* a request has begun, its headers are not complete */
    RATION_PHASE_BODY, /* its headers are complete, its body is not */
};

/* The protocol's own state: state_size bytes, zeroed before open(), aligned for any type. */
void *ration_connection_state(struct ration_connection *connection);

/* The pointer given to ration_loops_listen() together with the protocol. */
void *ration_connection_context(const struct ration_connection *connection);

struct ration_loop *ration_connection_loop(const struct ration_connection *connection);

/* The client's address, IPv4-mapped IPv6 addresses as IPv4; family 0 on a Unix socket. */
const struct ration_address *ration_connection_peer(const struct ration_connection *connection);

/*
 * The output that the protocol appends replies to, borrowed from the loop. Replies appended inside open(),
 * receive() and refuse() are sent when those return. Elsewhere (an asynchronous reply) the caller must call
 * ration_connection_flush() or ration_connection_resume() before it touches any other connection.
 */
struct ration_output *ration_connection_output(struct ration_connection *connection);

/*
 * Whether the protocol will append more of the reply that it is writing. Such a reply is buffered even if the
 * output is full: its request was accepted while there was room.
 */
void ration_connection_set_partial(struct ration_connection *connection, bool is_partial);

/* Sends replies that were appended outside of the protocol's callbacks. May close the connection. */
void ration_connection_flush(struct ration_connection *connection);

/* Whether receive() should stop between two requests: output full, yielded, paused or delayed. */
bool ration_connection_is_full(const struct ration_connection *connection);

/*
 * The protocol calls this after an expensive request: the loop thread serves other connections before the next
 * request of this one. The connection is full until then.
 */
void ration_connection_yield(struct ration_connection *connection);

/*
 * match_steps_left: how many match steps the next requests of this connection may use in this turn (loop.h).
 * charge: adds the steps that requests have used; if none are left, the connection yields, unless it is paused.
 */
uint64_t ration_connection_match_steps_left(const struct ration_connection *connection);
void ration_connection_charge(struct ration_connection *connection, uint64_t match_steps);

/* Closes the connection once all replies are sent. No more requests are received. */
void ration_connection_close(struct ration_connection *connection);

/* Closes the connection now (inside a callback: when the callback returns). Nothing more is sent. */
void ration_connection_abort(struct ration_connection *connection);

/*
 * Whether received bytes may contain a secret: they are then wiped from all buffers once they are served. Applies
 * to bytes received after this call; bytes received earlier keep the value that was set then.
 */
void ration_connection_hide_input(struct ration_connection *connection, bool is_secret);

/*
 * receive() cannot use fewer than size bytes: it is not called before so many are buffered. Applies to the next
 * call only; a size above input_bytes_max counts as input_bytes_max.
 */
void ration_connection_need(struct ration_connection *connection, size_t size);

/*
 * A protocol with reports_phases reports here where in a request the connection is. A deadline starts when its
 * phase begins, and each IDLE starts it again: if one request ends and another begins in one receive(), the
 * protocol reports IDLE, then HEAD.
 */
void ration_connection_phase(struct ration_connection *connection, enum ration_phase phase);

/*
 * pause() stops receiving, and every deadline except those for writing, MULTI and authentication, until
 * resume(): the reply will come asynchronously. resume() sends appended replies and serves the requests that
 * have arrived meanwhile. It may be called inside the connection's own callbacks; called from elsewhere, it may
 * close the connection. The protocol's close() is called for paused connections too: the caller must then not
 * resume.
 */
void ration_connection_pause(struct ration_connection *connection);
void ration_connection_resume(struct ration_connection *connection);

/*
 * Resumes a paused connection and calls function, which may do what receive() may, pause() included. Then sends
 * its replies and, unless it paused again, serves the requests that have arrived. May close the connection.
 */
void ration_connection_run(struct ration_connection *connection,
                           void (*function)(struct ration_connection *connection));

/*
 * Whether the client has presented the credential that its listener requires. A connection counts as
 * authenticated unless the protocol sets this to false, in open() or afterwards. Unauthenticated connections
 * have auth_timeout_s and little memory, and are evicted when the server is full.
 */
void ration_connection_set_authenticated(struct ration_connection *connection,
                                         bool is_authenticated);

/*
 * For RATION_DELAY_MS, buffers the replies to this connection and receives nothing from it. If
 * RATION_DELAYED_MAX connections are delayed already, closes this one without a reply.
 */
#define RATION_DELAY_MS    1000
#define RATION_DELAYED_MAX 1024
void ration_connection_delay(struct ration_connection *connection);

/* Whether the client is between MULTI and EXEC, for which it has multi_timeout_s. */
void ration_connection_set_transaction(struct ration_connection *connection, bool is_transaction);

/*
 * Accounts memory that the protocol has allocated for this connection: *accounted_bytes, 0 at first, becomes
 * bytes. False: that is more than connection_memory_max leaves for this connection, nothing changed, and
 * the caller releases the memory. The protocol need not undo this when the connection closes.
 */
bool ration_buffer_account(struct ration_connection *connection, size_t *accounted_bytes,
                           size_t bytes);

/* Whether the connection waits for ration_connection_resume() or _run(). */
bool ration_connection_is_paused(const struct ration_connection *connection);

/* Whether the server is shutting down: the protocol may then mark this reply as the last one. */
bool ration_connection_is_draining(const struct ration_connection *connection);

#endif
