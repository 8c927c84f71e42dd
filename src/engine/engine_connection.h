/*
 * engine_connection: the connection of one event loop from an engine to Redis.
 */
#ifndef RATION_ENGINE_ENGINE_CONNECTION_H
#define RATION_ENGINE_ENGINE_CONNECTION_H

#include "engine/remote.h"
#include "redis/poll_loop.h"

#define RATION_ENGINE_BATCH_MAX    1024 /* checks in one batch of a caller without a loop */
#define RATION_ENGINE_LEADER_LISTS 64   /* hash buckets of leaders */

struct ration_pending_check;

struct ration_engine_connection {
    struct ration_engine_connection *next; /* in a list of the pool */
    ration_engine *engine;
    struct ration_redis_client *client;
    struct ration_poll_loop *poll_loop; /* owned; NULL: the caller has its own loop */
    uint64_t await_after_ns;            /* a wait for it timed out: no thread waits for it before */
    uint32_t lease_request_count;       /* unanswered requests for leases ahead of need */

    /* Checks that wait for a lease from Redis, by hash of their key: see pending_check_local.c. */
    struct ration_pending_check *leaders[RATION_ENGINE_LEADER_LISTS];
};

/* A connection with its own poll loop, for a thread without a loop. NULL without memory. */
struct ration_engine_connection *ration_engine_connection_open(ration_engine *engine);

#endif
