/*
 * stepper: a child process that performs one operation, stopped after any instruction of it.
 *
 *     fork --- traced, stopped --- begin ====== the operation ====== done --- exit
 *                                    |  step  step  step ...
 *                                    step 0
 *
 * A trace is the list of addresses that the operation executed. With it a later child, which begins in the same state and
 * so takes the same path, reaches its n-th instruction quickly by a few breakpoints: each is set at an address that the
 * child reaches for the first time after the previous breakpoint.
 *
 * x86-64 only: elsewhere a single step between a load-linked and its store makes the store fail for ever.
 */
#ifndef RATION_TESTS_CRASH_STEPPER_H
#define RATION_TESTS_CRASH_STEPPER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define STEPS_MAX 60000

/* In memory that parent and child share. */
struct stage {
    uint32_t is_done;
    char room[4000]; /* for the result of the operation */
};

struct stepper {
    pid_t pid;
    struct stage *stage;
    size_t step_count;
};

struct trace {
    size_t step_count;            /* until the operation was done */
    uint64_t at[STEPS_MAX + 1];   /* the child's address after so many steps */
    size_t from[STEPS_MAX + 1];   /* the step from which one breakpoint leads here */
    size_t hops[STEPS_MAX + 1];   /* breakpoints needed from the beginning */
    size_t before[STEPS_MAX + 1]; /* the previous step at this address; TRACE_NEVER */
};

#define TRACE_NEVER SIZE_MAX

/* Whether an instruction begins after n steps; false within a repeated (rep) instruction. */
static inline bool trace_is_boundary(const struct trace *trace, size_t n)
{
    return n == 0 || trace->at[n] != trace->at[n - 1];
}

/* A stage for all children of this process. */
struct stage *stage_create(void);

/* The number of single steps that this process has made. */
uint64_t stepper_total(void);

/*
 * Forks a child that will call act(context), and stops it at the beginning of the call. False if this process may not
 * trace its children.
 */
bool stepper_start(struct stepper *stepper, struct stage *stage, void (*act)(void *context),
                   void *context);

/* Steps one instruction. False once the operation is done; the caller must still end the child. */
bool stepper_step(struct stepper *stepper);

/* The child's current address. */
uint64_t stepper_address(const struct stepper *stepper);

/* Completes a trace whose addresses are recorded. */
void trace_close(struct trace *trace, size_t step_count);

/* Runs from the beginning to the state after n steps, a boundary. False if the child takes another path. */
bool stepper_forward(struct stepper *stepper, const struct trace *trace, size_t n);

/* Kills the child where it is, and reaps it. */
void stepper_kill(struct stepper *stepper);

/* Kills it, and leaves it a zombie. */
void stepper_kill_unreaped(struct stepper *stepper);

/* Lets the child run to its end. False if it does not reach the end, or crashes. */
bool stepper_finish(struct stepper *stepper);

#endif
