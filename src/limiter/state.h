/*
 * state: the state of a bucket of any algorithm, and what may be done to it.
 *
 * core/algorithm.h speaks of those whose state is 16 bytes. Here are also the burst reserve, which
 * is two moments, and the log, which is a ring that lies elsewhere: its head and its newest moment
 * are here, the ring is read through a function, and what is to be written into it is told.
 *
 * In a table a state lies in one or two cells of 80 bits (table/slot.h):
 *
 *     token bucket, queue    tat
 *     burst reserve          tat | tat of the reserve
 *     interval               full_at, with spare in the fraction; or full_at | spare, if an
 *                            interval's tokens exceed 2^20
 *     fixed window           end * 2^20 + count: windows are aligned, so the end is what is a
 *                            multiple of the period, and the rest the count
 *     sliding window         the moment when neither count weighs | the counts
 *     log                    newest moment | index of the head                and the ring
 *
 * Cells count time from the table's epoch, states as the caller's clock does. Cells of zero bytes
 * are a full bucket.
 */
#ifndef RATION_LIMITER_STATE_H
#define RATION_LIMITER_STATE_H

#include "core/algorithm.h"
#include "core/reserve.h"

struct ration_log_head {
    uint64_t newest_ns;
    uint64_t head_index;
};

union ration_any_state {
    union ration_state one;
    struct ration_reserve reserve;
    struct ration_log_head log;
};

/* Reads a ring's cell, as nanoseconds of the caller's clock. */
struct ration_log_reader {
    uint64_t (*read)(const struct ration_log_reader *reader, uint64_t index);
    const void *context;
    const void *head;
    uint64_t epoch_ns;
};

/* What a step does to the ring: see table/seat.h. Moments are of the caller's clock; 0: long past. */
struct ration_log_write {
    uint64_t first_index;
    uint64_t older_count;
    uint64_t older_ns;
    uint64_t count;
    uint64_t moment_ns;
};

/* One bucket and what it is asked for. */
struct ration_any {
    const struct ration_limit *limit;
    union ration_any_state state;
    struct ration_log_reader reader; /* logs only */
    struct ration_log_write write;   /* logs only; zero: nothing */
};

struct ration_any_step {
    enum ration_verdict verdict;
    uint64_t wait_ns; /* as in struct ration_step */
    enum ration_reserve_part part;
    struct ration_any next;
};

/* How a limit's state lies in cells. */
struct ration_any_layout {
    uint32_t cell_count;
    uint32_t moment_mask;
    uint32_t ring_cells;
};

struct ration_any_layout ration_any_layout(const struct ration_limit *limit);

/* Whether of two states of the limit that whose moments are no later holds no less. */
bool ration_any_is_ordered(const struct ration_limit *limit);

/* Whether what was written under one limit can be read under the other without a conversion. */
bool ration_any_is_alike(const struct ration_limit *a, const struct ration_limit *b);

void ration_any_read(struct ration_any *any, const struct ration_time *cells, uint64_t epoch_ns);
void ration_any_write(const struct ration_any *any, struct ration_time *cells, uint64_t epoch_ns);

/* Cells of a bucket that carries no information after origin_ns (since the epoch). */
void ration_any_origin(const struct ration_limit *limit, struct ration_time *cells,
                       uint64_t origin_ns, uint64_t epoch_ns);

/*
 * Makes the cells of a bucket that is full at since_ns tell that it was so only then (a window: from
 * the beginning of the present one): what is remembered from its last touch on.
 */
void ration_any_remember(const struct ration_any *any, struct ration_time *cells, uint64_t since_ns,
                         uint64_t epoch_ns);

/* As the functions of core/algorithm.h with these names. */
struct ration_any_step ration_any_take(const struct ration_any *any, uint64_t cost_tokens,
                                       uint64_t max_wait_ns, uint64_t now_ns);
uint64_t ration_any_remaining(const struct ration_any *any, uint64_t now_ns);

/* The most that could be taken at once: of a reserve, what one of its parts has. */
uint64_t ration_any_most(const struct ration_any *any, uint64_t now_ns);

uint64_t ration_any_full_after_ns(const struct ration_any *any, uint64_t now_ns);
uint64_t ration_any_burst(const struct ration_limit *limit);
struct ration_any ration_any_refund(const struct ration_any *any, uint64_t tokens, uint64_t now_ns);
struct ration_any ration_any_force(const struct ration_any *any, uint64_t tokens, uint64_t now_ns);
struct ration_any ration_any_set(const struct ration_any *any, uint64_t tokens, uint64_t now_ns);
struct ration_any ration_any_start(const struct ration_any *any, uint64_t now_ns);
bool ration_any_can_block(const struct ration_limit *limit);
struct ration_any ration_any_block(const struct ration_any *any, uint64_t until_ns);

/* A reservation that ends. See core/gcra.h for the fields that are there, too. */
struct ration_any_release {
    union ration_any_state before; /* the bucket as the reservation found it */
    union ration_any_state mark;   /* and as it left it */
    enum ration_reserve_part part; /* that paid */
    uint64_t cost_tokens;
    uint64_t unused_tokens;
    uint64_t turn_ns;
    uint64_t returned_tokens;
    bool is_waited; /* as in core/state.h */
};

/*
 * The bucket after a reservation has ended; see core/algorithm.h. A log takes several steps: while
 * release->mark.log.newest_ns is not 0 afterwards, publish what is returned, and call it again.
 */
struct ration_any ration_any_release(const struct ration_any *any,
                                     struct ration_any_release *release, uint64_t now_ns);
bool ration_any_is_waited(const struct ration_any *any, uint64_t now_ns);
uint64_t ration_any_returned(const struct ration_any *before, const struct ration_any *after,
                             uint64_t now_ns);

/*
 * A state with at least the debt of each of two, which are of the same limit. What lies in a log's
 * ring cannot be joined with what lies in another's: then all of it is out until both are full.
 */
struct ration_any ration_any_join(const struct ration_any *any, const struct ration_any *other,
                                  uint64_t now_ns);

/* The state under another limit, tokens kept; see core/change.h. */
struct ration_any ration_any_change(const struct ration_any *any,
                                    const struct ration_limit *new_limit, uint64_t now_ns);

/*
 * The same for a change that was made at changed_ns, seen at now_ns. For a now that lies before it, stale or
 * of another clock, the bucket holds no more than it would if the change were made then.
 */
struct ration_any ration_any_change_at(const struct ration_any *any,
                                       const struct ration_limit *new_limit, uint64_t changed_ns,
                                       uint64_t now_ns);

#endif
