/*
 * bucket_state: the state of a bucket of any algorithm, and the operations on it.
 *
 * core/algorithm.h covers the algorithms whose state is 16 bytes. This module adds the burst reserve, whose
 * state is two times, and the log, whose ring lies elsewhere: the state here holds the ring's head and its
 * newest time, a function reads the ring, and each operation returns the writes to the ring instead of making
 * them.
 *
 * In a table a state occupies one or two cells of 80 bits (table/slot.h):
 *
 *     token bucket, queue    tat
 *     burst reserve          tat | tat of the reserve
 *     interval               full_at, with spare in the fraction; or full_at | spare, if an
 *                            interval's tokens exceed 2^20
 *     fixed window           end * 2^20 + count: windows are aligned, so the end is the multiple
 *                            of the period, and the remainder is the count
 *     sliding window         the time from which neither count weighs | the counts
 *     log                    newest time | index of the head                  and the ring
 *
 * Cells count time from the table's epoch, states by the caller's clock. Cells of zero bytes are a full bucket.
 */
#ifndef RATION_LIMITER_BUCKET_STATE_H
#define RATION_LIMITER_BUCKET_STATE_H

#include "core/algorithm.h"
#include "core/reserve.h"

struct ration_log_ring_head {
    uint64_t newest_ns;
    uint64_t head_index;
};

union ration_bucket_words {
    union ration_state one;
    struct ration_reserve reserve;
    struct ration_log_ring_head log;
};

/* Reads a cell of a ring: nanoseconds of the caller's clock. */
struct ration_log_ring_reader {
    uint64_t (*read)(const struct ration_log_ring_reader *reader, uint64_t index);
    const void *context;
    const void *head;
    uint64_t epoch_ns;
};

/* The writes of one step to the ring: see table/descriptor.h. Times are of the caller's clock; 0: long past. */
struct ration_log_ring_write {
    uint64_t first_index;
    uint64_t older_count;
    uint64_t older_ns;
    uint64_t count;
    uint64_t moment_ns;
};

/* One bucket: its limit, its state, and how to read and write its ring. */
struct ration_bucket_state {
    const struct ration_limit *limit;
    union ration_bucket_words state;
    struct ration_log_ring_reader reader; /* logs only */
    struct ration_log_ring_write write;   /* logs only; all zero: nothing to write */
};

struct ration_bucket_state_step {
    enum ration_verdict verdict;
    uint64_t wait_ns; /* as in struct ration_step */
    enum ration_reserve_part part;
    struct ration_bucket_state next;
};

/* How a limit's state is stored in cells. */
struct ration_bucket_state_layout {
    uint32_t cell_count;
    uint32_t expiry_mask;
    uint32_t ring_cells;
};

struct ration_bucket_state_layout ration_bucket_state_layout(const struct ration_limit *limit);

/*
 * Whether comparing times is enough to compare states: of two states of the limit, the one whose times are no
 * later holds at least as many tokens.
 */
bool ration_bucket_state_is_ordered(const struct ration_limit *limit);

/* Whether a state written under one limit can be read under the other without a conversion. */
bool ration_bucket_state_is_same_layout(const struct ration_limit *a, const struct ration_limit *b);

void ration_bucket_state_read(struct ration_bucket_state *bucket, const struct ration_time *cells,
                              uint64_t epoch_ns);
void ration_bucket_state_write(const struct ration_bucket_state *bucket, struct ration_time *cells,
                               uint64_t epoch_ns);

/* Writes the cells of a bucket that carries no information after watermark_ns (nanoseconds since the epoch). */
void ration_bucket_state_at_watermark(const struct ration_limit *limit, struct ration_time *cells,
                                      uint64_t watermark_ns, uint64_t epoch_ns);

/*
 * For a bucket that is full at since_ns: makes its cells say that it has been full only since then (a window:
 * since the start of the current one). The time for which the key is remembered counts from this last use.
 */
void ration_bucket_state_remember(const struct ration_bucket_state *bucket,
                                  struct ration_time *cells, uint64_t since_ns, uint64_t epoch_ns);

/* Same as the functions of core/algorithm.h with these names. */
struct ration_bucket_state_step ration_bucket_state_take(const struct ration_bucket_state *bucket,
                                                         uint64_t cost_tokens, uint64_t max_wait_ns,
                                                         uint64_t now_ns);
uint64_t ration_bucket_state_remaining(const struct ration_bucket_state *bucket, uint64_t now_ns);

/* The largest cost that would pass now. Of a burst reserve: the larger of what its two parts hold. */
uint64_t ration_bucket_state_max_take(const struct ration_bucket_state *bucket, uint64_t now_ns);

uint64_t ration_bucket_state_full_after_ns(const struct ration_bucket_state *bucket,
                                           uint64_t now_ns);
uint64_t ration_bucket_state_burst(const struct ration_limit *limit);
struct ration_bucket_state ration_bucket_state_refund(const struct ration_bucket_state *bucket,
                                                      uint64_t tokens, uint64_t now_ns);
struct ration_bucket_state ration_bucket_state_charge(const struct ration_bucket_state *bucket,
                                                      uint64_t tokens, uint64_t now_ns);
struct ration_bucket_state ration_bucket_state_set(const struct ration_bucket_state *bucket,
                                                   uint64_t tokens, uint64_t now_ns);
struct ration_bucket_state ration_bucket_state_start(const struct ration_bucket_state *bucket,
                                                     uint64_t now_ns);
bool ration_bucket_state_can_block(const struct ration_limit *limit);
struct ration_bucket_state ration_bucket_state_block(const struct ration_bucket_state *bucket,
                                                     uint64_t until_ns);

/* The end of a reservation. Fields that core/gcra.h has too are described there. */
struct ration_bucket_state_release {
    union ration_bucket_words before; /* the bucket before the reservation */
    union ration_bucket_words mark;   /* the bucket after the reservation */
    enum ration_reserve_part part;    /* the part that the reservation was charged to */
    uint64_t cost_tokens;
    uint64_t unused_tokens;
    uint64_t turn_ns;
    uint64_t returned_tokens;
    bool is_waited; /* as in core/state.h */
};

/*
 * Returns the bucket after a reservation has ended; see core/algorithm.h. A log takes several steps: while
 * release->mark.log.newest_ns is not 0 afterwards, the caller publishes the returned state and calls the
 * function again.
 */
struct ration_bucket_state ration_bucket_state_release(const struct ration_bucket_state *bucket,
                                                       struct ration_bucket_state_release *release,
                                                       uint64_t now_ns);
bool ration_bucket_state_is_waited(const struct ration_bucket_state *bucket, uint64_t now_ns);
uint64_t ration_bucket_state_returned(const struct ration_bucket_state *before,
                                      const struct ration_bucket_state *after, uint64_t now_ns);

/*
 * Returns a state with at least as many tokens in use as each of two states of the same limit has. Two logs'
 * rings cannot be joined: the result then has all tokens in use until both are full.
 */
struct ration_bucket_state ration_bucket_state_join(const struct ration_bucket_state *bucket,
                                                    const struct ration_bucket_state *other,
                                                    uint64_t now_ns);

/* Returns the state under another limit, with the same tokens; see core/change.h. */
struct ration_bucket_state ration_bucket_state_change(const struct ration_bucket_state *bucket,
                                                      const struct ration_limit *new_limit,
                                                      uint64_t now_ns);

/*
 * The same for a change made at changed_ns and seen at now_ns. If now_ns lies before changed_ns (a stale time,
 * or one of another clock), the bucket holds no more than if the change were made at now_ns.
 */
struct ration_bucket_state ration_bucket_state_change_at(const struct ration_bucket_state *bucket,
                                                         const struct ration_limit *new_limit,
                                                         uint64_t changed_ns, uint64_t now_ns);

#endif
