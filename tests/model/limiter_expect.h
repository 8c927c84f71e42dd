/*
 * limiter_expect: the correct answers of a limiter or a stack, from one model per key and rule.
 *
 * There is no table here: every key is remembered for ever. But for a limiter with a rule that does
 * not start full, a key never seen is not the same as one that is full. Such a key is seen from
 * its first take on, denied or not, and forgotten when all its buckets were full for stale_after.
 */
#ifndef RATION_TESTS_LIMITER_EXPECT_H
#define RATION_TESTS_LIMITER_EXPECT_H

#include "limiter_items.h"

/*
 * A window's count and the rest of an interval refill lie in the low bits of the moment from which
 * a slot carries no information: it may be kept so much longer than is reported.
 */
#define LIMITER_SLACK_NS 4096

struct limiter_expect_reservation {
    bool is_open;
    uint64_t ready_at_ns;
    unsigned count;
    struct {
        unsigned limiter;
        unsigned key;
        unsigned rule;
        uint64_t tokens;
        struct model_mark before;
        struct model_mark mark;
    } slips[LIMITER_DETAILS_MAX];
};

struct limiter_expect {
    struct limiter_answerer base;
    const struct limiter_setup *setup; /* borrowed */
    uint64_t epoch_ns;                 /* when it was made, however often it was loaded since */
    bool is_seen[LIMITER_COUNT_MAX][LIMITER_KEYS_MAX];
    struct limiter_expect_reservation reservations[LIMITER_RESERVATIONS_MAX];
    uint64_t returned[LIMITER_DETAILS_MAX]; /* set before a SETTLE, from who answered it */
    uint64_t refunded[LIMITER_DETAILS_MAX]; /* likewise */
    unsigned lost_count; /* keys that the current step finds forgotten, and their models */
    struct limiter_expect_lost {
        unsigned limiter;
        unsigned key;
        struct model models[LIMITER_RULES_MAX];
    } lost[LIMITER_DETAILS_MAX];
    struct model models[LIMITER_COUNT_MAX][LIMITER_KEYS_MAX][LIMITER_RULES_MAX];
};

/* All keys are new. e is large, and touched where it is used: keep it in static storage. */
void limiter_expect_init(struct limiter_expect *e, const struct limiter_setup *setup);

/* The models of the key as they are at now: started again if it is not seen, or forgotten. */
struct model *limiter_expect_open(struct limiter_expect *e, unsigned limiter, unsigned key,
                                  uint64_t now_ns);

/* Whether the key must have a place at now. */
bool limiter_expect_is_kept(const struct limiter_expect *e, unsigned limiter, unsigned key,
                            uint64_t now_ns);

/* Whether it may be remembered or not at now: within the slack of being forgotten. */
bool limiter_expect_is_unsure(const struct limiter_expect *e, unsigned limiter, unsigned key,
                              uint64_t now_ns);

#endif
