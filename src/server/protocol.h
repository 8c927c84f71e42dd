/*
 * protocol: what is plugged into the connections of the server.
 *
 * The layer below moves bytes and keeps bounds and deadlines; it knows no protocol. A protocol is
 * given all bytes that it has not consumed yet and appends answers to an output:
 *
 *     received      PING\r\nPING\r\nPI         receive() consumes 12, answers twice
 *     received      NG\r\n                     receive() is given PING\r\n and consumes 6
 *
 * Everything that a protocol is given or calls happens on the thread of the connection's loop.
 */
#ifndef RATION_SERVER_PROTOCOL_H
#define RATION_SERVER_PROTOCOL_H

#include <stdbool.h>
#include <stddef.h>

#include "server/ending.h"

struct ration_connection;

struct ration_protocol {
    const char *name;
    size_t state_size; /* bytes of state that each connection has, zeroed */

    /*
     * false: a request begins with the first byte that is left over and ends when bytes are
     * consumed, and that decides which deadline runs. true: the protocol says so by itself, with
     * ration_connection_phase(); one that consumes part of a request must.
     */
    bool tells_phases;

    /*
     * true: a client authenticates once, and until then the connection has auth_timeout_s in all. false:
     * each request carries its credential, and each request that an unauthenticated connection completes
     * gives it auth_timeout_s more.
     */
    bool authenticates_once;

    /* A connection is there; it may be greeted. May be NULL. */
    void (*open)(struct ration_connection *connection);

    /*
     * bytes are all that is unconsumed, contiguous, and may be written to; they are borrowed for
     * the call. Returns how many were consumed. It may stop between two requests when
     * ration_connection_is_full(), and is then called again as soon as there is room.
     */
    size_t (*receive)(struct ration_connection *connection, char *bytes, size_t size);

    /*
     * A last answer before the connection is closed for a reason that the client should know:
     * those with a yes in ending.h. open() may not have been called. May be NULL.
     */
    void (*refuse)(struct ration_connection *connection, enum ration_ending ending);

    /* The connection goes, for whatever reason; called once for each open(). May be NULL. */
    void (*close)(struct ration_connection *connection, enum ration_ending ending);
};

#endif
