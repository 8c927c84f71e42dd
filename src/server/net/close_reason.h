/*
 * close_reason: why the server closed or refused a connection. Each reason has a counter.
 */
#ifndef RATION_SERVER_NET_CLOSE_REASON_H
#define RATION_SERVER_NET_CLOSE_REASON_H

/* Name, text for logs and metrics, and whether the protocol may send a last reply (refuse()). */
#define RATION_CLOSE_REASON_MAP(X)               \
    X(CLIENT, "client", no)                      \
    X(RESET, "reset", no)                        \
    X(PROTOCOL, "protocol", no)                  \
    X(IDLE_DEADLINE, "idle_deadline", no)        \
    X(HEAD_DEADLINE, "head_deadline", yes)       \
    X(BODY_DEADLINE, "body_deadline", yes)       \
    X(WRITE_DEADLINE, "write_deadline", no)      \
    X(INPUT_MAX, "input_max", yes)               \
    X(OUTPUT_MAX, "output_max", yes)             \
    X(AUTH_TIMEOUT, "auth_timeout", yes)         \
    X(MULTI_TIMEOUT, "multi_timeout", yes)       \
    X(MEMORY_MAX, "connection_memory_max", yes)  \
    X(EVICTED, "evicted", no)                    \
    X(AUTH_FAILURES, "auth_failures", no)        \
    X(DRAIN, "drain", no)                        \
    X(DRAIN_DEADLINE, "drain_deadline", no)      \
    X(CONNECTIONS_MAX, "connections_max", yes)   \
    X(PEER_MAX, "connections_per_peer_max", yes) \
    X(FILES, "files", no)                        \
    X(MEMORY, "memory", no)

enum ration_close_reason {
    RATION_CLOSE_REASON_NONE,
#define RATION_CLOSE_REASON_ENUM(name, word, answered) RATION_CLOSE_REASON_##name,
    RATION_CLOSE_REASON_MAP(RATION_CLOSE_REASON_ENUM)
#undef RATION_CLOSE_REASON_ENUM
        RATION_CLOSE_REASON_COUNT
};

/* "head_deadline"; "none" for RATION_CLOSE_REASON_NONE. Static storage. */
const char *ration_close_reason_name(enum ration_close_reason close_reason);

#endif
