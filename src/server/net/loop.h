/*
 * loop: one thread's event loop, for code that runs on it.
 *
 * A turn is one iteration of the event loop: wait for events, handle them, take steps of jobs.
 */
#ifndef RATION_SERVER_NET_LOOP_H
#define RATION_SERVER_NET_LOOP_H

#include <stdbool.h>
#include <stdint.h>

#include "server/net/protocol.h"

struct ration_loop;

/*
 * Counters of a loop. Only the loop thread writes them. Any thread may read a copy: each counter in it is
 * consistent, but the counters are not read at the same time.
 */
struct ration_loop_counters {
    uint64_t accepted;                         /* connections admitted */
    uint64_t open;                             /* of these, still open */
    uint64_t ended[RATION_CLOSE_REASON_COUNT]; /* closed or refused, by reason */
    uint64_t received_bytes;
    uint64_t sent_bytes;
    uint64_t turns;         /* times that the loop thread waited for events */
    uint64_t reads;         /* recv() calls that returned bytes */
    uint64_t steps;         /* steps of jobs */
    uint64_t units_max;     /* the most units that jobs used in one turn */
    uint64_t accept_pauses; /* times that accepting was paused: no file descriptors or memory */
};

/*
 * A job is long work that is done in steps, so that other connections need not wait for all of it. In each turn
 * the loop thread takes steps of the queued jobs, first come, first served. Each step is bounded and
 * returns its cost in units of at most 50 microseconds: one limit read, or one item decided.
 */
#define RATION_STEP_UNITS_MAX 64 /* of one step */
#define RATION_TURN_UNITS_MAX 64 /* of all steps in one turn; the last step may exceed it */

/*
 * Matching one request against many globs may cost as much as thousands of other requests, so matching is
 * measured in steps of about 1 ns (ration_check.match_steps). When requests have used RATION_TURN_MATCH_STEPS
 * in a turn, the remaining requests wait for the next turn. A request that has begun is finished: it adds
 * RATION_POLICY_STEPS_MAX at most. Each connection may use RATION_CONNECTION_MATCH_STEPS, however many the
 * others have used.
 */
#define RATION_TURN_MATCH_STEPS       ((uint64_t)1 << 20)
#define RATION_CONNECTION_MATCH_STEPS ((uint64_t)1 << 16)

struct ration_job {
    struct ration_job *before; /* NULL: not queued */
    struct ration_job *behind;
    unsigned (*step)(struct ration_job *job); /* returns the units it used */
};

/* Queues one step of the job, after the jobs that are queued already. On the loop's thread. */
void ration_loop_queue(struct ration_loop *loop, struct ration_job *job);

/* Removes the job from the queue, if it is queued. */
void ration_loop_cancel_job(struct ration_job *job);

/*
 * For work that cannot be split into steps: calls work(argument) on a thread of libuv's pool and then
 * done(argument) on the loop's thread. Both are called even if connections close meanwhile. On the loop's
 * thread. False: no memory, and nothing is called.
 */
bool ration_loop_run_beside(struct ration_loop *loop, void (*work)(void *argument),
                            void (*done)(void *argument), void *argument);

/* A pointer that the user attaches to each loop. Set before the loops run, or on the loop's thread. */
void *ration_loop_user(const struct ration_loop *loop);
void ration_loop_set_user(struct ration_loop *loop, void *user);

/* Sets the function that the loop thread calls when the loop shuts down, after its last connection is closed. */
void ration_loop_set_on_stop(struct ration_loop *loop, void (*function)(struct ration_loop *loop));

/*
 * The current time of the clock passed at creation. The clock is read at most once per turn, and again after
 * RATION_LOOP_READS_PER_NOW reads within a turn: libuv may handle 48 x 1024 events in one.
 * On the loop's thread.
 */
#define RATION_LOOP_READS_PER_NOW 256
uint64_t ration_loop_now(struct ration_loop *loop);

typedef void ration_loop_function(struct ration_loop *loop, void *argument);

/* A function call posted to a loop. The sender provides the memory, so posting cannot fail for lack of it. */
struct ration_loop_message {
    struct ration_loop_message *next; /* used by the loop */
    ration_loop_function *function;
    void *argument;
};

/*
 * Makes the loop thread call message->function(loop, message->argument), in the order in which one thread posts.
 * Any thread. The message is borrowed until the function is called, which may free it. False only if the
 * loop has shut down and all its connections are closed; nothing is called then.
 */
bool ration_loop_post(struct ration_loop *loop, struct ration_loop_message *message);

/*
 * Handles the deadlines that have expired. The loop's timer calls it; with an injected coarse clock (loops.h)
 * there is no timer, and tests post it. On the loop's thread.
 */
void ration_loop_tick(struct ration_loop *loop);

void ration_loop_counters(const struct ration_loop *loop,
                          struct ration_loop_counters *out_counters);

#endif
