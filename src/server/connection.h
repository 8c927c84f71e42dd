/*
 * connection: what a protocol may ask of a connection.
 *
 * All calls belong to the thread of the connection's loop. A connection is valid from open() until
 * close() returns (protocol.h), or during refuse().
 *
 * Cost. A connection at rest owns no buffer: bytes are received into one that its loop owns, and
 * answers are written from another. Only the part of a request that is not yet complete, and what
 * the client's system does not take, is kept by the connection itself.
 */
#ifndef RATION_SERVER_CONNECTION_H
#define RATION_SERVER_CONNECTION_H

#include <stdbool.h>
#include <stddef.h>

#include "base/address.h"
#include "base/output.h"
#include "server/protocol.h"

struct ration_loop;

/* Which deadline runs. */
enum ration_phase {
    RATION_PHASE_IDLE, /* between requests */
    RATION_PHASE_HEAD, /* a request has begun */
    RATION_PHASE_BODY, /* its head is there, its body is not */
};

/* The protocol's own bytes: state_size of them, zeroed at the start, aligned for any type. */
void *ration_connection_state(struct ration_connection *connection);

/* The pointer given to ration_loops_listen() together with the protocol. */
void *ration_connection_context(const struct ration_connection *connection);

struct ration_loop *ration_connection_loop(const struct ration_connection *connection);

/* The client's address, IPv4-mapped ones folded; family 0 if it came by a Unix socket. */
const struct ration_address *ration_connection_peer(const struct ration_connection *connection);

/*
 * What to append answers to. It is lent by the loop: inside open(), receive() and refuse() it is
 * sent when they return; elsewhere (an answer that comes later) ration_connection_flush() or
 * ration_connection_resume() must follow before any other connection is touched.
 */
struct ration_output *ration_connection_output(struct ration_connection *connection);

/*
 * Whether what is appended is a part of a reply of which more will come. Such a reply has room however
 * many others wait: it was asked for while there was some.
 */
void ration_connection_set_partial(struct ration_connection *connection, bool is_partial);

/* Sends what was appended outside of the protocol's callbacks. The connection may be gone after. */
void ration_connection_flush(struct ration_connection *connection);

/* Whether receive() should stop between two requests: much waits to be sent, it yielded or is held. */
bool ration_connection_is_full(const struct ration_connection *connection);

/*
 * What was just answered cost much: the loop serves others before the next request of this connection.
 * It is full until then.
 */
void ration_connection_yield(struct ration_connection *connection);

/*
 * left: how much the next requests of this connection may cost in this turn (loop.h). charge: what they did cost;
 * if nothing is left then, the connection yields, unless it is held.
 */
uint64_t ration_connection_match_steps_left(const struct ration_connection *connection);
void ration_connection_charge(struct ration_connection *connection, uint64_t match_steps);

/* Closes when all that was answered is sent. Nothing is received any more. */
void ration_connection_close(struct ration_connection *connection);

/* Closes now (inside a callback: when it returns). Nothing more is sent. */
void ration_connection_abort(struct ration_connection *connection);

/*
 * Whether what is received may hold a secret: then it is wiped from all buffers once it is served. From the next
 * receive() on; what was received before is treated as it was announced.
 */
void ration_connection_hide_input(struct ration_connection *connection, bool is_secret);

/*
 * receive() has no use for less than size bytes: it is not called before they are there. Holds
 * once, and for no more than input_bytes_max.
 */
void ration_connection_need(struct ration_connection *connection, size_t size);

/*
 * Says where in a request the connection is, for a protocol that tells_phases. A deadline starts
 * when its phase begins, and each IDLE begins it anew: a request that ends and another that begins
 * in one receive() are IDLE, then HEAD.
 */
void ration_connection_phase(struct ration_connection *connection, enum ration_phase phase);

/*
 * hold() stops receiving, and any deadline but the one for writing, until resume(): an answer will
 * come later. Requests that have arrived are then received. resume() also sends what was appended.
 * It may be called inside the connection's own callbacks; after a call from elsewhere the
 * connection may be gone. close() is called for held connections too, which ends the wait.
 */
void ration_connection_hold(struct ration_connection *connection);
void ration_connection_resume(struct ration_connection *connection);

/*
 * Ends a hold by a call: function may do what receive() may, hold() again included. Then what it answered
 * is sent and requests that have arrived are received; the connection may be gone after.
 */
void ration_connection_run(struct ration_connection *connection,
                           void (*function)(struct ration_connection *connection));

/*
 * Whether the client has shown the credential that its listener asks for. Connections count as
 * authenticated unless the protocol says otherwise, in open() or later. Unauthenticated ones have
 * auth_timeout_s, little memory, and make room for others when the server is full.
 */
void ration_connection_set_authenticated(struct ration_connection *connection,
                                         bool is_authenticated);

/*
 * Holds back what is answered from now on, and whatever the client sends, for RATION_DELAY_MS. Where
 * RATION_DELAYED_MAX replies are delayed already, closes the connection without one.
 */
#define RATION_DELAY_MS    1000
#define RATION_DELAYED_MAX 1024
void ration_connection_delay(struct ration_connection *connection);

/* Whether the client is between MULTI and EXEC, for which it has multi_timeout_s. */
void ration_connection_set_transaction(struct ration_connection *connection, bool is_transaction);

/*
 * Counts memory that the protocol holds for this connection: *accounted_bytes, 0 at first, becomes
 * bytes. False: that is more than connection_memory_max leaves for this connection, nothing changed, and
 * the caller releases the memory. What is accounted when the connection goes need not be taken back.
 */
bool ration_connection_account(struct ration_connection *connection, size_t *accounted_bytes,
                               size_t bytes);

/* Whether an answer is still to come. */
bool ration_connection_is_held(const struct ration_connection *connection);

/* Whether the server is about to stop: this answer may say that it is the last. */
bool ration_connection_is_draining(const struct ration_connection *connection);

#endif
