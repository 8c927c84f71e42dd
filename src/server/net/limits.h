/*
 * limits: the server's limits on what clients may use. 0 means the default; RATION_LIMIT_NONE means no limit,
 * where that is allowed.
 */
#ifndef RATION_SERVER_NET_LIMITS_H
#define RATION_SERVER_NET_LIMITS_H

#include <stdint.h>

#include "ration/status.h"

#define RATION_LIMIT_NONE UINT32_MAX

/* Name, default, min, max, and whether RATION_LIMIT_NONE is allowed (none) or not (never). */
#define RATION_SERVER_LIMIT_MAP(X)                                                                \
    /* Open connections of all loops; lowered to what RLIMIT_NOFILE allows. */                    \
    X(connections_max, 65536, 1, 1 << 24, never)                                                  \
    /* Open connections from one address (IPv6: from one /64). Does not apply to Unix sockets. */ \
    X(connections_per_peer_max, RATION_LIMIT_NONE, 1, 1 << 24, none)                              \
    /* Bytes of one connection that are received and not consumed. */                             \
    X(input_bytes_max, 1 << 20, 64, 1 << 30, never)                                               \
    /* Bytes of one reply, and of one client's buffered output, which may exceed it by one */     \
    /* reply. The metrics of the largest policy are 9 MiB. */                                     \
    X(output_bytes_max, 64 << 20, 4096, 1 << 30, never)                                           \
    /* Bytes of all connections together: partial requests, MULTI queues, buffered output. */     \
    X(connection_memory_max, 256u << 20, 1u << 20, 3u << 30, never)                               \
    /* From accept to authentication, where a credential is required; over HTTP also between */   \
    /* two requests without a credential. */                                                      \
    X(auth_timeout_s, 10, 1, 86400, never)                                                        \
    /* From MULTI to EXEC or DISCARD. */                                                          \
    X(multi_timeout_s, 60, 1, 86400, never)                                                       \
    /* From the first byte of a request to the end of its headers. */                             \
    X(header_timeout_ms, 10000, 1, 12 * 86400000, none)                                           \
    /* From the end of a request's headers to the end of its body. */                             \
    X(body_timeout_ms, 30000, 1, 12 * 86400000, none)                                             \
    /* From the end of a request to the first byte of the next one. */                            \
    X(idle_timeout_ms, RATION_LIMIT_NONE, 1, 12 * 86400000, none)                                 \
    /* From the first byte that could not be sent until the buffered output is sent. */           \
    X(write_timeout_ms, 30000, 1, 12 * 86400000, none)                                            \
    /* After the last reply: how long input is discarded before the socket is closed. */          \
    X(linger_timeout_ms, 2000, 1, 12 * 86400000, never)                                           \
    /* Length of the kernel's accept queue (the kernel lowers it to net.core.somaxconn). */       \
    X(accept_backlog, 4096, 1, 1 << 16, never)

struct ration_server_limits {
#define RATION_SERVER_LIMIT_FIELD(name, default_value, min, max, none) uint32_t name;
    RATION_SERVER_LIMIT_MAP(RATION_SERVER_LIMIT_FIELD)
#undef RATION_SERVER_LIMIT_FIELD
};

/*
 * Replaces each 0 in limits by its default. Returns RATION_EINVAL, with the name and the bounds in error (may be
 * NULL), if a limit is out of bounds; *out_limits is then untouched.
 */
ration_status ration_server_limits_complete(const struct ration_server_limits *limits,
                                            struct ration_server_limits *out_limits,
                                            struct ration_error *error);

#endif
