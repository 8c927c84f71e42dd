/*
 * batch: checks on their way to Redis and back, and what its parts share.
 *
 *     batch.c         made, filled, sent, told; and decided without Redis where that does not answer
 *     batch_near.c    decided here, by what is known of buckets in Redis; leases asked for
 */
#ifndef RATION_GATE_BATCH_H
#define RATION_GATE_BATCH_H

#include "gate/case.h"
#include "gate/link.h"

#define RATION_ENTRY_KEYS_INSIDE 192 /* bytes of keys that take no memory of their own */

/* One check, or one limit that came with a request. */
struct ration_gate_entry {
    struct ration_gate_batch *batch;
    struct ration_check check;
    struct ration_check_part parts[RATION_POLICY_MATCHES_MAX];
    struct ration_gate_prepared prepared;
    struct ration_limit limit; /* a throttle's */
    bool is_throttle;
    uint64_t owed[RATION_POLICY_MATCHES_MAX]; /* what it is told of with the ask */

    /* Of one that asks for a lease (batch_near.c): who waits for what it brings, of the same key. */
    struct ration_gate_entry *followers;
    struct ration_gate_entry **followers_end;
    uint64_t follower_count;
    uint64_t deadline_ns; /* of one that waits: it may have to ask after all. 0: it does not */
    uint64_t wanted;
    struct ration_gate_entry *next;        /* of those who wait, or will ask */
    struct ration_gate_entry *next_leader; /* of those who ask, of the link */

    char *keys; /* inside, or owned */
    char inside[RATION_ENTRY_KEYS_INSIDE];
};

struct ration_gate_batch {
    ration_gate_link *link;
    struct ration_visit guard;
    const struct ration_gate_plan *plan; /* the guard's */
    uint64_t now_ns;
    uint64_t deadline_ns; /* of all answers, by the link's loop; 0: as long as each may take */
    ration_gate_batch_done *done;
    void *context;
    size_t count;
    size_t room;
    size_t left; /* entries that Redis has not answered */
    bool is_sending;
    bool is_abandoned; /* released with some left: the last answer frees it */
    struct ration_gate_entry **entries;
};

/* By all limits of a check, as one script decides them; for its answer, or by the policy without one. */
void ration_gate_entry_ask(struct ration_gate_entry *entry);

/* What is to be decided of it. */
struct ration_gate_case ration_gate_entry_case(struct ration_gate_entry *entry);

/* Redis has answered, or not (told is NULL): it is told, and so are those who follow. */
void ration_gate_entry_answer(struct ration_gate_entry *entry, const struct ration_redis_told *told,
                              struct ration_redis_portion portion);

/* As the limits' on_backend_error says. */
void ration_gate_entry_decide_without(struct ration_gate_entry *entry);

/* Who waits lets Redis begin with the first while the others are written: index is how many were. */
void ration_gate_batch_look(ration_gate_batch *batch, size_t index);

/* One of a batch was answered: perhaps it was the last. */
void ration_gate_batch_complete(ration_gate_batch *batch);

/* Whether it was decided here. */
bool ration_gate_entry_decide_near(struct ration_gate_entry *entry);

/* Leases are asked for, and nobody waits for them. */
void ration_gate_link_draw(struct ration_gate_link *link, const struct ration_gate_case *c,
                           const struct ration_gate_draws *draws);

/* Whether its only limit has leases, and its cost can be had at all. */
bool ration_gate_entry_has_lease(struct ration_gate_entry *entry);

/*
 * Waits behind the one that asks for a lease of the same key, of this batch or of an earlier one; or will
 * ask itself, as one of *leaders. Then these are asked.
 */
void ration_gate_entry_join(struct ration_gate_entry *entry, struct ration_gate_entry **leaders);
void ration_gate_leaders_ask(struct ration_gate_entry *leaders);

/* Those who waited, once Redis has answered or not. */
void ration_gate_followers_serve(struct ration_gate_entry *leader, bool is_answered);

/* What Redis is to be told of with an ask about this limit; and if perhaps it was not, again later. */
uint64_t ration_gate_entry_collect(struct ration_gate_entry *entry, uint32_t part);
void ration_gate_entry_owe_again(struct ration_gate_entry *entry);

/* Redis has allowed it: leases of its limits, if it has several, and may be decided by them. */
void ration_gate_entry_draw_parts(struct ration_gate_entry *entry);

/* What Redis said is kept for the next time. */
void ration_gate_entry_learn(struct ration_gate_entry *entry, const struct ration_redis_told *told,
                             struct ration_redis_portion portion);

#endif
