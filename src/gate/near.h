/*
 * near: what is known here of buckets that live in Redis, so that it need not be asked each time.
 *
 * Of a key under a limit one note is kept: a moment, a count and a mark, in 16 bytes that change
 * together. After its moment a note may be forgotten. By the limit's mode it is
 *
 *     lease        a pocket: so many tokens, to be spent before the moment; the size of the last
 *                  lease; and whether there was less than wanted: then nothing more is asked for
 *                  before the moment. Or a mark says that Redis has denied until the moment
 *     local-first  a bucket of the node's own, which is full at the moment; it has the burst of the
 *                  limit and the node's share of its rate. The count is what was taken from it and
 *                  not told Redis yet. Another note says until when Redis has denied, and how much
 *
 * Notes are of a limit as it is: one that a reload has changed has none.
 *
 * What is known of a denial is believed for half a second: others may give back, or edit. Then Redis is asked
 * again. When that was is in a note of its own.
 *
 * Times are of the gate's clock. Any thread, without a lock.
 */
#ifndef RATION_GATE_NEAR_H
#define RATION_GATE_NEAR_H

#include "gate/gate.h"
#include "redis/draw.h"

#define RATION_NEAR_FILL_NS_MAX (UINT64_C(1) << 59) /* of a bucket of the node's own */

struct ration_near;

enum ration_near_answer {
    RATION_NEAR_TAKEN,  /* allowed, and charged here */
    RATION_NEAR_DENIED, /* it is known that there is nothing before a moment */
    RATION_NEAR_LACKS   /* Redis has to be asked */
};

/* One limit of one key. */
struct ration_near_ask {
    const struct ration_policy_limit *limit;
    const struct ration_hash *secret; /* the limit's, as for holds */
    const struct ration_key *key;
    uint64_t cost_tokens; /* at least 1 */
    uint64_t node_count;
};

/* What is told of an answer, and what is to be done about it. */
struct ration_near_result {
    struct ration_decision decision;
    uint64_t until_ns;     /* of the lease that paid */
    uint64_t lease_tokens; /* draw so many, ahead of need. 0: nothing */
};

/* Release: ration_near_free(). Returns RATION_ENOMEM. */
ration_status ration_near_create(const struct ration_clock *clock, uint32_t threads_max,
                                 struct ration_near **out_near, struct ration_error *error);
void ration_near_free(struct ration_near *near);

enum ration_near_answer ration_near_take(struct ration_near *near,
                                         const struct ration_near_ask *ask, uint64_t now_ns,
                                         struct ration_near_result *out_result);

/* Undoes what was taken here, since another limit has to be asked. */
void ration_near_put_back(struct ration_near *near, const struct ration_near_ask *ask,
                          const struct ration_near_result *result, uint64_t now_ns);

/* What Redis is yet to be told of: it is told now. Local-first only; others owe nothing. */
uint64_t ration_near_collect(struct ration_near *near, const struct ration_near_ask *ask,
                             uint64_t now_ns);

/* It could not be told after all. */
void ration_near_owe(struct ration_near *near, const struct ration_near_ask *ask, uint64_t tokens,
                     uint64_t now_ns);

/* What a lease brought. */
struct ration_near_drawn {
    struct ration_redis_portion portion;
    uint64_t wanted;
    uint64_t asked_ns; /* when it was asked for: it begins then */
};

/* What Redis has decided about this limit. */
void ration_near_learn(struct ration_near *near, const struct ration_near_ask *ask,
                       const struct ration_decision *decision,
                       const struct ration_near_drawn *drawn, uint64_t now_ns);

/*
 * How many tokens to draw with what is asked now: as many as the key has needed lately, or as others wait
 * for. 0: none.
 */
uint64_t ration_near_want(struct ration_near *near, const struct ration_near_ask *ask,
                          uint64_t waiting_count, uint64_t now_ns);

/*
 * The same of one limit among several that Redis was asked about: 0 also if there is something, or if somebody has
 * been told to draw it, less than so long ago.
 */
uint64_t ration_near_want_apart(struct ration_near *near, const struct ration_near_ask *ask,
                                uint64_t wait_ns, uint64_t now_ns);

/* How long a lease of a limit is. */
uint64_t ration_near_lease_ns(const struct ration_policy_limit *limit);

/*
 * What is left of a lease that has ended, or is too little for the cost: it is taken out of the pocket, to be given
 * back with the next draw.
 */
struct ration_near_back {
    uint64_t tokens;
    uint32_t number;
    uint64_t age_ns; /* since it was asked for, at most */
};

struct ration_near_back ration_near_leftover(struct ration_near *near,
                                             const struct ration_near_ask *ask, uint64_t now_ns);

/* Tokens were drawn ahead. */
void ration_near_fill(struct ration_near *near, const struct ration_near_ask *ask,
                      const struct ration_near_drawn *drawn, uint64_t now_ns);

/* The bucket in Redis was edited from here: what is known of it is old. */
void ration_near_edited(struct ration_near *near, const struct ration_near_ask *ask,
                        enum ration_gate_edit_kind kind, uint64_t now_ns);

#endif
