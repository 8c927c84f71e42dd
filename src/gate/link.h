/*
 * link: one loop's way from a gate to Redis.
 */
#ifndef RATION_GATE_LINK_H
#define RATION_GATE_LINK_H

#include "gate/remote.h"
#include "redis/poll_loop.h"

#define RATION_GATE_BATCH_MAX    1024 /* checks of one that waits */
#define RATION_GATE_LEADER_LISTS 64

struct ration_gate_entry;

struct ration_gate_link {
    struct ration_gate_link *next; /* of those that nobody uses; the remote's */
    ration_gate *gate;
    struct ration_redis_client *client;
    struct ration_poll_loop *poll_loop; /* owned; NULL: the loop is somebody else's */
    uint64_t await_after_ns; /* its connection was waited for in vain: not again before */
    uint32_t draw_count;     /* leases that were asked for ahead of need, and have not come */

    /* Asks for leases that are under way, by key: see batch.c. */
    struct ration_gate_entry *leaders[RATION_GATE_LEADER_LISTS];
};

/* For a thread that waits. NULL: no memory. */
struct ration_gate_link *ration_gate_link_open(ration_gate *gate);

#endif
