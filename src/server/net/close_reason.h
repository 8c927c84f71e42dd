/*
 * close_reason: why the server closed or refused a connection. Each reason has a counter.
 */
#ifndef RATION_SERVER_NET_CLOSE_REASON_H
#define RATION_SERVER_NET_CLOSE_REASON_H

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
const char *ration_close_reason_name(enum ration_close_reason close_reason);

#endif
