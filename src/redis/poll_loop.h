/*
 * poll_loop: a loop for those who have none: a thread that waits for its own asks.
 *
 *     ration_redis_link_create(&place, &times, ration_poll_loop_hooks(poll_loop), &link);
 *     ration_redis_link_send(link, ..., done, &is_done);
 *     while (!is_done)
 *         ration_poll_loop_run(poll_loop);
 */
#ifndef RATION_REDIS_POLL_LOOP_H
#define RATION_REDIS_POLL_LOOP_H

#include "redis/link.h"

struct ration_poll_loop;

/* NULL: no memory. Release with ration_poll_loop_free(), after the links. */
struct ration_poll_loop *ration_poll_loop_create(void);
void ration_poll_loop_free(struct ration_poll_loop *loop);

/* For ration_redis_link_create(). */
const struct ration_redis_loop *ration_poll_loop_hooks(const struct ration_poll_loop *loop);

/* Waits until something happens or a deadline passes, and sees to it. */
void ration_poll_loop_run(struct ration_poll_loop *loop);

/* The same, until then at most: a moment of its clock. */
void ration_poll_loop_run_until(struct ration_poll_loop *loop, uint64_t latest_ns);

/* Sees to what has happened, without waiting. */
void ration_poll_loop_look(struct ration_poll_loop *loop);

#endif
