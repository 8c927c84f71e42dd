/*
 * program: calls that survivors make.
 *
 *     head        calls with the keys of the operation, at its time
 *     tail        days later, 48 more keys in every limiter, so that idle keys are reclaimed
 *     epilogue    peeks at all keys with tokens in use
 */
#ifndef RATION_TESTS_CRASH_PROGRAM_H
#define RATION_TESTS_CRASH_PROGRAM_H

#include "scenarios.h"

#define CALLS_MAX 460

enum call_kind { CALL_PEEK, CALL_TAKE, CALL_ALLOW, CALL_STACK };

struct call {
    enum call_kind kind;
    uint32_t limiter_index;
    uint32_t key;
    uint32_t cost;
    int64_t after_ns;
};

enum program_kind {
    PROGRAM_PEEK,    /* peek first, then take */
    PROGRAM_DRAIN,   /* take all tokens */
    PROGRAM_REVERSE, /* in reverse order; all limiters of a stack together */
    PROGRAM_FRESH,   /* other keys first: they may need the dead process's descriptor */
    PROGRAM_STALE,   /* peek with a now that runs backwards: never more than is correct (R6, R7) */
    PROGRAM_COUNT
};

struct program {
    enum program_kind kind;
    size_t head_count;
    size_t tail_end;
    size_t call_count;
    struct call calls[CALLS_MAX];
};

extern const char *const program_names[];

/* The program of this kind for a scenario and its world. */
void program_build(struct program *program, enum program_kind kind, const struct scenario *scenario,
                   const struct world *world);

/* Makes one of the program's calls. */
struct seen program_call(const struct program *program, size_t call_index, struct world *world);

#endif
