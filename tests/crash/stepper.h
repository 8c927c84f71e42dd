/*
 * stepper: a child process that performs one operation, stopped after any instruction of it.
 *
 *     fork --- traced, stopped --- begin ====== the operation ====== done --- exit
 *                                    |  step  step  step ...
 *                                    step 0
 *
 * A trace is the list of addresses that the operation ran through. With it a later child, which
 * begins in the same state and so goes the same way, is brought to its n-th instruction quickly,
 * by a few breakpoints: each is set where the child comes for the first time from where it is.
 *
 * x86-64 only: elsewhere a single step between a load-linked and its store makes it fail forever.
 */
#ifndef RATION_TESTS_CRASH_STEPPER_H
#define RATION_TESTS_CRASH_STEPPER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define STEPS_MAX 60000

/* Lies in memory that parent and child share. */
struct stage {
    uint32_t is_done;
    char room[4000]; /* for what the operation has to tell */
};

struct stepper {
    pid_t pid;
    struct stage *stage;
    size_t step_count;
};

struct trace {
    size_t step_count;            /* until the operation was done */
    uint64_t at[STEPS_MAX + 1];   /* where the child was after so many steps */
    size_t from[STEPS_MAX + 1];   /* where to set out from to come here by one breakpoint, ... */
    size_t hops[STEPS_MAX + 1];   /* ... which makes so many from the beginning */
    size_t before[STEPS_MAX + 1]; /* when it was here before; TRACE_NEVER */
};

#define TRACE_NEVER SIZE_MAX

/* Whether an instruction begins after n steps; else one that repeats itself is still at it. */
static inline bool trace_is_boundary(const struct trace *trace, size_t n)
{
    return n == 0 || trace->at[n] != trace->at[n - 1];
}

/* A stage for all children of this process. */
struct stage *stage_create(void);

/* How many single steps were made by this process. */
uint64_t stepper_total(void);

/*
 * Forks a child that will call act(context), and stops it where that begins. False if this
 * process may not trace its children.
 */
bool stepper_start(struct stepper *stepper, struct stage *stage, void (*act)(void *context),
                   void *context);

/* One instruction more. False once the operation is done; then the child still has to be ended. */
bool stepper_step(struct stepper *stepper);

/* Where it is. */
uint64_t stepper_address(const struct stepper *stepper);

/* Completes a trace whose addresses are all in. */
void trace_close(struct trace *trace, size_t step_count);

/* From the beginning to where n steps lead, a boundary. False if the child does not go that way. */
bool stepper_forward(struct stepper *stepper, const struct trace *trace, size_t n);

/* Kills the child where it is. After this it is gone without a trace. */
void stepper_kill(struct stepper *stepper);

/* Kills it, and leaves it a zombie. */
void stepper_kill_unreaped(struct stepper *stepper);

/* Lets it run to its end. False if it does not come there, or crashes. */
bool stepper_finish(struct stepper *stepper);

#endif
