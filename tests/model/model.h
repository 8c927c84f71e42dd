/*
 * model: the correct answers of every algorithm, computed in a slow and obvious way.
 *
 * Written from the rules, not from src/core, and on purpose in another form: where the code keeps
 * one moment, the model keeps tokens and refills them; where the code keeps a ring, the model
 * keeps a list. All arithmetic is exact, in 128-bit integers. Time worth of tokens is in units of
 * 2^-20 ns, with the limit's token time as rounded once when the limit was made.
 *
 *     token bucket     tokens available at a moment; refilled, clamped and spent
 *     interval bucket  tokens out at a grid point; the grid is walked
 *     burst reserve    two token buckets
 *     leaky queue      work waiting at a moment; it drains
 *     fixed window     number of the window, count in it
 *     sliding window   number of the window, counts of it and of the one before
 *     sliding log      list of (moment, tokens)
 *
 * A now that runs backwards: tokens refilled since then are not available yet, work done since then is still pending,
 * windows do not go back.
 */
#ifndef RATION_TESTS_MODEL_H
#define RATION_TESTS_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "ration/decision.h"
#include "ration/limit.h"

typedef __int128 model_units;

#define MODEL_UNITS_PER_NS ((model_units)1 << 20)
#define MODEL_NOW_MAX_NS   (UINT64_MAX >> 1)
#define MODEL_SPAN_NS      (UINT64_C(1) << 59)
#define MODEL_WAIT_NS_MAX  (2 * RATION_NS_PER_YEAR)

/* The most entries of a log. A longer history is a bug of the test. */
#define MODEL_LOG_COUNT_MAX 8192

/* available at the moment at_ns, clamped to the capacity only where it is used. */
struct model_tokens {
    model_units token;
    model_units burst;
    model_units available;
    uint64_t at_ns;
};

/* out_tokens at the grid point anchor_ns; each interval brings amount back. */
struct model_interval {
    uint64_t anchor_ns;
    model_units out_tokens;
};

struct model_queue {
    model_units backlog;
    uint64_t at_ns;
};

struct model_windows {
    uint64_t index;
    uint64_t current_tokens;
    uint64_t previous_tokens;
};

struct model_log_entry {
    uint64_t back_at_ns;
    uint64_t tokens;
};

struct model {
    const struct ration_limit *limit;
    struct model_tokens parts[2]; /* token bucket; with a reserve, both */
    int paid_part;                /* by the last take that was allowed */
    struct model_interval interval;
    struct model_queue queue;
    struct model_windows windows;
    uint64_t log_count;
    struct model_log_entry log[MODEL_LOG_COUNT_MAX]; /* oldest first */
};

/* The state of the model that a reservation stores: before it, or after. */
struct model_mark {
    int part; /* that paid, of the state after it */
    struct model_tokens parts[2];
    struct model_interval interval;
    struct model_queue queue;
    struct model_windows windows;
    uint64_t log_back_at_ns; /* of the newest tokens */
};

/* The release of a reservation. */
struct model_release {
    struct model_mark before;
    struct model_mark mark;
    uint64_t cost_tokens;
    uint64_t unused_tokens;
    uint64_t turn_ns;
    uint64_t returned_tokens; /* by others since then, as the bucket counts them */
    uint64_t
        refunded_tokens; /* of those, by refunds and by operations that replaced the state: they may have been
                                 the reservation's own, and come back only once */
    bool is_waited; /* a caller waits under another limit of the key */
};

/* A full bucket of limit, which is borrowed as long as the model is used. */
void model_init(struct model *m, const struct ration_limit *limit);

/* Copies the state, and of the log only what is used. */
void model_copy(struct model *to, const struct model *from);

/* The limit's initial fill. */
void model_start(struct model *m, uint64_t now_ns);

/* Decides, and takes on ALLOW. */
struct ration_decision model_take(struct model *m, uint64_t cost_tokens, uint64_t now_ns);

/* The same for a caller that is ready to wait for its turn. */
struct ration_decision model_reserve(struct model *m, uint64_t cost_tokens, uint64_t max_wait_ns,
                                     uint64_t now_ns);

struct ration_decision model_peek(const struct model *m, uint64_t cost_tokens, uint64_t now_ns);

uint64_t model_take_up_to(struct model *m, uint64_t cost_tokens_max, uint64_t now_ns,
                          struct ration_decision *out_decision);

uint64_t model_remaining(const struct model *m, uint64_t now_ns);
uint64_t model_full_after_ns(const struct model *m, uint64_t now_ns);

void model_refund(struct model *m, uint64_t tokens, uint64_t now_ns);
void model_charge(struct model *m, uint64_t tokens, uint64_t now_ns);
void model_set(struct model *m, uint64_t tokens, uint64_t now_ns);

/* Not for windows and logs. */
void model_block(struct model *m, uint64_t until_ns);

/* Whether a caller may be waiting for a turn. */
bool model_is_waited(const struct model *m, uint64_t now_ns);

/* Before and after an allowed take; and to return its unused tokens. */
struct model_mark model_mark(const struct model *m);
void model_release(struct model *m, const struct model_release *release, uint64_t now_ns);

#endif
