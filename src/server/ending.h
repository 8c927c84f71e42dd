/*
 * ending: why a connection was closed, or not let in. Each is counted.
 */
#ifndef RATION_SERVER_ENDING_H
#define RATION_SERVER_ENDING_H

/* Name, word for people and metrics, and whether the protocol may say a last word (refuse()). */
#define RATION_ENDING_MAP(X)                     \
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

enum ration_ending {
    RATION_ENDING_NONE,
#define RATION_ENDING_ENUM(name, word, answered) RATION_ENDING_##name,
    RATION_ENDING_MAP(RATION_ENDING_ENUM)
#undef RATION_ENDING_ENUM
        RATION_ENDING_COUNT
};

/* "head_deadline"; "none" for RATION_ENDING_NONE. Static storage. */
const char *ration_ending_word(enum ration_ending ending);

#endif
