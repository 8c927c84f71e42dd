/*
 * rows: decisions as lines of text, run against anything that decides.
 *
 *     limit 5/s
 *     # at     call     answer  remaining  retry  reset  delay
 *     0ns      take 1   allow   4          0ns    200ms  0ns
 *     0ns      take 9   never   4          -      200ms  0ns
 *
 * One table of rows for every store and protocol (R9): each implements struct rows_target. A
 * line `limit TEXT` starts a new bucket, `change TEXT` changes its limit in place. Calls:
 *
 *     take N, peek N, upto N                     answered in all columns
 *     reserve N WAIT                             the same; makes reservation number 1, 2, ...
 *     refund N, force N, set N, block TIME       nothing is answered
 *     settle K N, cancel K                       nothing is answered
 *
 * "max" is 2^64 - 1 of either. "-" in a column is not compared. For upto, the answer is the count granted.
 */
#ifndef RATION_TESTS_ROWS_H
#define RATION_TESTS_ROWS_H

#include <stdbool.h>
#include <stdint.h>

#include "ration/ration.h"

enum rows_call {
    ROWS_TAKE,
    ROWS_PEEK,
    ROWS_UPTO,
    ROWS_RESERVE,
    ROWS_REFUND,
    ROWS_CHARGE,
    ROWS_SET,
    ROWS_BLOCK,
    ROWS_SETTLE,
    ROWS_CANCEL,
    ROWS_CALL_COUNT
};

/* What is asked of a target; unused fields are zero. */
struct rows_request {
    enum rows_call call;
    uint64_t now_ns;
    uint64_t tokens;
    uint64_t time_ns;     /* block: until; reserve: the longest wait */
    uint64_t reservation; /* settle, cancel: its number */
    int line_number;      /* where it stands in its file */
};

/* Rows that were not run, since the target does not know their call. */
struct rows_skips {
    int calls[ROWS_CALL_COUNT]; /* by call */
    int after_count;            /* others, whose answers depend on them */
};

/* Something that decides. open starts a new bucket; a target may refuse limits it cannot hold. */
struct rows_target {
    const char *name;
    bool (*open)(void *context, const struct ration_limit *limit);
    void (*change)(void *context, const struct ration_limit *limit, uint64_t now_ns);
    struct ration_decision (*call)(void *context, const struct rows_request *request,
                                   uint64_t *out_granted);
    void *context;

    /*
     * For targets that do not know every call; NULL: this one does. What is skipped is counted. Where it
     * would have changed the bucket, what follows is skipped too, up to a new bucket or a set.
     */
    bool (*knows)(void *context, const struct rows_request *request);
    struct rows_skips *skips;
};

/* "take", "peek", ... Static storage. */
const char *rows_call_name(enum rows_call call);

/*
 * Runs a file of rows. Returns the number of rows that were not answered as written, each
 * printed with its place; -1 if the file cannot be read as rows. *out_run counts the rows run.
 */
int rows_run(const char *path, const struct rows_target *target, int *out_run);

#endif
