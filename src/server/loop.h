/*
 * loop: one thread's event loop, as seen by what runs on it.
 */
#ifndef RATION_SERVER_LOOP_H
#define RATION_SERVER_LOOP_H

#include <stdbool.h>
#include <stdint.h>

#include "server/ending.h"

struct ration_loop;

/*
 * What a loop counts. Written by its thread alone; any thread may read a copy, whose words are
 * each right but not of one moment.
 */
struct ration_loop_counters {
    uint64_t accepted;                   /* connections let in */
    uint64_t open;                       /* of these, still there */
    uint64_t ended[RATION_ENDING_COUNT]; /* closed or not let in, by reason */
    uint64_t received_bytes;
    uint64_t sent_bytes;
    uint64_t turns;         /* times that the loop went to wait */
    uint64_t reads;         /* system calls that received something */
    uint64_t steps;         /* of jobs */
    uint64_t units_max;     /* the most that jobs took between two looks at the sockets */
    uint64_t accept_pauses; /* times that accepting had to rest, for want of files or memory */
};

/*
 * A job is work that is done in steps, so that nobody waits for all of it: a loop that has jobs takes
 * steps of them, first come first served, between two looks at its sockets. Each step is bounded, and
 * says what it cost in units of at most 50 microseconds: a limit looked at, or an item decided.
 */
#define RATION_STEP_UNITS_MAX 64 /* of one step */
#define RATION_TURN_UNITS_MAX 64 /* of all steps between two looks; the last may exceed it */

/*
 * Comparing a request with many globs may cost as much as thousands of other requests, so it is counted by
 * what it did cost: in steps of about 1 ns (ration_check.match_steps). When requests have cost
 * RATION_TURN_MATCH_STEPS between two looks at the sockets, the rest of them waits for the next turn. One that
 * has begun is finished: it costs RATION_POLICY_STEPS_MAX more at most. Each connection has
 * RATION_CONNECTION_MATCH_STEPS whatever others have used.
 */
#define RATION_TURN_MATCH_STEPS       ((uint64_t)1 << 20)
#define RATION_CONNECTION_MATCH_STEPS ((uint64_t)1 << 16)

struct ration_job {
    struct ration_job *before; /* NULL while it does not wait in a queue */
    struct ration_job *behind;
    unsigned (*step)(struct ration_job *job); /* returns its units */
};

/* Has the loop take one step of the job, behind those that wait already. On the loop's thread. */
void ration_loop_queue(struct ration_loop *loop, struct ration_job *job);

/* Takes it out of the queue, if it waits. */
void ration_job_cancel(struct ration_job *job);

/*
 * For work that has no steps: calls work(argument) on a thread beside the loops and then, on the loop's
 * thread, done(argument). Both are called, whatever happens to the connections meanwhile. On the loop's
 * thread. False: no memory, and nothing is called.
 */
bool ration_loop_run_beside(struct ration_loop *loop, void (*work)(void *argument),
                            void (*done)(void *argument), void *argument);

unsigned ration_loop_index(const struct ration_loop *loop);

/* A pointer of the user's own for each loop. Set before the loops run, or on the loop's thread. */
void *ration_loop_user(const struct ration_loop *loop);
void ration_loop_set_user(struct ration_loop *loop, void *user);

/* Has function called when the loop has no more connections and ends, on its thread and from nothing else. */
void ration_loop_set_end(struct ration_loop *loop, void (*function)(struct ration_loop *loop));

/*
 * Now, by the clock given at creation. It is read at most once per turn of the loop, and again
 * after RATION_LOOP_READS_PER_NOW reads within a turn: libuv may handle 48 x 1024 in one.
 * On the loop's thread.
 */
#define RATION_LOOP_READS_PER_NOW 256
uint64_t ration_loop_now(struct ration_loop *loop);

typedef void ration_loop_function(struct ration_loop *loop, void *argument);

/* A call for a loop to make. It lies in memory of the sender's, so that sending it never lacks any. */
struct ration_loop_message {
    struct ration_loop_message *next; /* the loop's */
    ration_loop_function *function;
    void *argument;
};

/*
 * Has the loop call message->function(loop, message->argument) on its thread, soon and in the order of
 * the posts of one thread. Any thread. The message is borrowed until the function is called, which may
 * release it. false means one thing: the loop has ended with all of its connections, and nothing is
 * called.
 */
bool ration_loop_post(struct ration_loop *loop, struct ration_loop_message *message);

/*
 * Ends the connections whose deadline has passed. The loop's timer does it; with an injected
 * coarse clock (loops.h) there is no timer, and tests post it. On the loop's thread.
 */
void ration_loop_tick(struct ration_loop *loop);

void ration_loop_counters(const struct ration_loop *loop,
                          struct ration_loop_counters *out_counters);

#endif
