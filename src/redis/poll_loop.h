/*
 * poll_loop: an event loop for callers that have none: a thread that waits for its own requests.
 *
 *     ration_redis_connection_create(&endpoint, &times, ration_poll_loop_hooks(poll_loop), &connection);
 *     ration_redis_connection_send(connection, ..., done, &is_done);
 *     while (!is_done)
 *         ration_poll_loop_run(poll_loop);
 */
#ifndef RATION_REDIS_POLL_LOOP_H
#define RATION_REDIS_POLL_LOOP_H

#include "redis/redis_connection.h"

struct ration_poll_loop;

/* NULL: no memory. Release with ration_poll_loop_free(), after the connections. */
struct ration_poll_loop *ration_poll_loop_create(void);
void ration_poll_loop_free(struct ration_poll_loop *loop);

/* For ration_redis_connection_create(). */
const struct ration_redis_loop *ration_poll_loop_hooks(const struct ration_poll_loop *loop);

/* Waits until a connection is ready or a timer fires, and handles it. */
void ration_poll_loop_run(struct ration_poll_loop *loop);

/* The same, but waits no longer than until latest_ns, a time of CLOCK_MONOTONIC. */
void ration_poll_loop_run_until(struct ration_poll_loop *loop, uint64_t latest_ns);

/* Handles what is ready, without waiting. */
void ration_poll_loop_poll(struct ration_poll_loop *loop);

#endif
