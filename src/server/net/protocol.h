/*
 * protocol: the callbacks that implement a protocol on the server's connections.
 *
 * The layer below moves bytes and enforces limits and deadlines; it knows no protocol. It passes a
 * protocol all bytes that the protocol has not consumed yet, and the protocol appends replies to an output:
 *
 *     received      PING\r\nPING\r\nPI         receive() consumes 12 bytes, replies twice
 *     received      NG\r\n                     receive() is passed PING\r\n and consumes 6 bytes
 *
 * All callbacks run on the thread of the connection's loop.
 */
#ifndef RATION_SERVER_NET_PROTOCOL_H
#define RATION_SERVER_NET_PROTOCOL_H

#include <stdbool.h>
#include <stddef.h>

/* Why the server closed or refused a connection. Each reason has a counter. ----------------------- */

/* Name, text for logs and metrics, and whether the protocol may send a last reply (refuse()). */
#define RATION_CLOSE_REASON_MAP(X)                               \
    X(CLIENT, "client", no)                                      \
    X(RESET, "reset", no)                                        \
    X(PROTOCOL, "protocol", no)                                  \
    X(IDLE_TIMEOUT, "idle_timeout", no)                          \
    X(HEADER_TIMEOUT, "header_timeout", yes)                     \
    X(BODY_TIMEOUT, "body_timeout", yes)                         \
    X(WRITE_TIMEOUT, "write_timeout", no)                        \
    X(MAX_INPUT, "max_input", yes)                               \
    X(MAX_OUTPUT, "max_output", yes)                             \
    X(AUTH_TIMEOUT, "auth_timeout", yes)                         \
    X(MULTI_TIMEOUT, "multi_timeout", yes)                       \
    X(MAX_CONNECTION_MEMORY, "max_connection_memory", yes)       \
    X(EVICTED, "evicted", no)                                    \
    X(AUTH_FAILURES, "auth_failures", no)                        \
    X(SHUTDOWN, "shutdown", no)                                  \
    X(SHUTDOWN_TIMEOUT, "shutdown_timeout", no)                  \
    X(MAX_CONNECTIONS, "max_connections", yes)                   \
    X(MAX_CONNECTIONS_PER_PEER, "max_connections_per_peer", yes) \
    X(FILES, "files", no)                                        \
    X(MEMORY, "memory", no)

enum ration_close_reason {
    RATION_CLOSE_REASON_NONE,
#define RATION_CLOSE_REASON_ENUM(name, word, answered) RATION_CLOSE_REASON_##name,
    RATION_CLOSE_REASON_MAP(RATION_CLOSE_REASON_ENUM)
#undef RATION_CLOSE_REASON_ENUM
        RATION_CLOSE_REASON_COUNT
};

/* "header_timeout"; "none" for RATION_CLOSE_REASON_NONE. Static storage. */
static inline const char *ration_protocol_close_reason_name(enum ration_close_reason close_reason)
{
    static const char *const words[RATION_CLOSE_REASON_COUNT] = {
        "none",
#define CLOSE_REASON_NAME(name, word, answered) word,
        RATION_CLOSE_REASON_MAP(CLOSE_REASON_NAME)
#undef CLOSE_REASON_NAME
    };

    return words[close_reason];
}

struct ration_connection;

struct ration_protocol {
    const char *name;
    size_t state_size; /* bytes of state per connection, zeroed before open() */

    /*
     * false: a request begins with the first byte that receive() leaves and ends when receive() consumes
     * bytes; that selects the deadline. true: the protocol reports phases with ration_connection_phase(). A
     * protocol that consumes part of a request must do so.
     */
    bool reports_phases;

    /*
     * true: a client authenticates once, and until then the connection has auth_timeout_s in all. false:
     * each request carries its credential, and each request that an unauthenticated connection completes
     * gives it auth_timeout_s more.
     */
    bool authenticates_once;

    /* A connection was accepted; the protocol may append a greeting. May be NULL. */
    void (*open)(struct ration_connection *connection);

    /*
     * bytes are all bytes not consumed yet, contiguous and writable, borrowed for the call. Returns how many it
     * has consumed. It may stop between two requests when ration_connection_is_full(), and is called again
     * when the connection is no longer full.
     */
    size_t (*receive)(struct ration_connection *connection, char *bytes, size_t size);

    /*
     * Appends a last reply before the connection is closed for a reason that the client should know: those
     * with a yes in RATION_CLOSE_REASON_MAP. open() may not have been called. May be NULL.
     */
    void (*refuse)(struct ration_connection *connection, enum ration_close_reason close_reason);

    /* The connection is being closed; called once for each open(), whatever the reason. May be NULL. */
    void (*close)(struct ration_connection *connection, enum ration_close_reason close_reason);
};

#endif
