/*
 * limits: the bounds that strangers meet. Each has a default; 0 means the default, and where no
 * bound is allowed, RATION_LIMIT_NONE says so.
 */
#ifndef RATION_SERVER_LIMITS_H
#define RATION_SERVER_LIMITS_H

#include <stdint.h>

#include "ration/status.h"

#define RATION_LIMIT_NONE UINT32_MAX

/* Name, default, least, most, and whether RATION_LIMIT_NONE is one of its values. */
#define RATION_SERVER_LIMIT_MAP(X)                                                                 \
    /* Open at once, on all loops; lowered to what RLIMIT_NOFILE leaves. */                        \
    X(connections_max, 65536, 1, 1 << 24, never)                                                   \
    /* Open at once from one address (IPv6: from one /64). Unix sockets have no address. */        \
    X(connections_per_peer_max, RATION_LIMIT_NONE, 1, 1 << 24, none)                               \
    /* Bytes received and not consumed, of one connection. */                                      \
    X(input_bytes_max, 1 << 20, 64, 1 << 30, never)                                                \
    /* Bytes of one reply, and of replies that one client has not taken yet; that may be one */    \
    /* reply more. Metrics of the largest policy are 9 MiB. */                                     \
    X(output_bytes_max, 64 << 20, 4096, 1 << 30, never)                                            \
    /* Buffers of all connections together: partial requests, MULTI queues, replies not taken. */  \
    X(connection_memory_max, 256u << 20, 1u << 20, 3u << 30, never)                                \
    /* From the start of a connection to its authentication, where a credential is needed; over */ \
    /* HTTP also between two requests without one. */                                              \
    X(auth_timeout_s, 10, 1, 86400, never)                                                         \
    /* From MULTI to EXEC or DISCARD. */                                                           \
    X(multi_timeout_s, 60, 1, 86400, never)                                                        \
    /* A request's head must be there so long after its first byte. */                             \
    X(head_deadline_ms, 10000, 1, 1 << 30, none)                                                   \
    /* A request's body must be there so long after its head. */                                   \
    X(body_deadline_ms, 30000, 1, 1 << 30, none)                                                   \
    /* The next request must begin so long after the one before. */                                \
    X(idle_deadline_ms, RATION_LIMIT_NONE, 1, 1 << 30, none)                                       \
    /* What was answered must be taken so long after the first byte that could not be sent. */     \
    X(write_deadline_ms, 30000, 1, 1 << 30, none)                                                  \
    /* After the last answer: for how long to hear the client out before the socket is closed. */  \
    X(linger_deadline_ms, 2000, 1, 1 << 30, never)                                                 \
    /* Connections that the system keeps waiting (it may take less: net.core.somaxconn). */        \
    X(accept_backlog, 4096, 1, 1 << 16, never)

struct ration_server_limits {
#define RATION_SERVER_LIMIT_FIELD(name, preset, least, most, none) uint32_t name;
    RATION_SERVER_LIMIT_MAP(RATION_SERVER_LIMIT_FIELD)
#undef RATION_SERVER_LIMIT_FIELD
};

/*
 * Puts defaults where limits has 0. Returns RATION_EINVAL, with the name and the bounds in error
 * (may be NULL), if a limit is out of its own; *out_limits is then untouched.
 */
ration_status ration_server_limits_complete(const struct ration_server_limits *limits,
                                            struct ration_server_limits *out_limits,
                                            struct ration_error *error);

#endif
