/*
 * limiter_step: one call of a limiter or a stack, and what was answered, as values.
 *
 * The limiter (limiter_subject.h), the model (limiter_expect.h) and a limiter with a bug all have the same interface, so
 * that answers can be compared field by field.
 */
#ifndef RATION_TESTS_LIMITER_STEP_H
#define RATION_TESTS_LIMITER_STEP_H

#include <stdbool.h>
#include <stdint.h>

#include "ration/limiter.h"

#define LIMITER_COUNT_MAX        3
#define LIMITER_RULES_MAX        4
#define LIMITER_KEYS_MAX         64
#define LIMITER_ASKS_MAX         48 /* a batch of more than one chunk */
#define LIMITER_RESERVATIONS_MAX 6
#define LIMITER_DETAILS_MAX      (LIMITER_COUNT_MAX * LIMITER_RULES_MAX)

enum limiter_call {
    LIMITER_TAKE,
    LIMITER_PEEK,
    LIMITER_ALLOW, /* yes or no, by the short way */
    LIMITER_UP_TO,
    LIMITER_BATCH, /* each ask by itself, in order */
    LIMITER_RESERVE,
    LIMITER_SETTLE,
    LIMITER_REFUND,
    LIMITER_CHARGE,
    LIMITER_RESET,
    LIMITER_BLOCK,
    LIMITER_CALL_COUNT
};

/* Which function is called. */
enum limiter_scope {
    LIMITER_ONE,  /* one limiter's, about the first ask */
    LIMITER_ALL,  /* the stack's, about one request: ask i is limiter i's, all of one cost */
    LIMITER_LIST, /* ration_stack_take_all(): any asks, also the same key twice */
};

struct limiter_ask {
    unsigned limiter;
    unsigned key;
    uint64_t tokens;
};

struct limiter_step {
    enum limiter_call call;
    enum limiter_scope scope;
    uint64_t now_ns;
    uint64_t max_wait_ns; /* RESERVE */
    uint64_t until_ns;    /* BLOCK */
    uint64_t used_tokens; /* SETTLE */
    unsigned reservation; /* RESERVE, SETTLE: its number */
    unsigned ask_count;
    struct limiter_ask asks[LIMITER_ASKS_MAX];
};

/* Fields that a call does not have are zero. */
struct limiter_answer {
    ration_status status;
    struct ration_decision decision;
    uint64_t granted;     /* UP_TO */
    uint64_t ready_at_ns; /* RESERVE that is allowed */
    unsigned detail_count;
    struct ration_decision details[LIMITER_DETAILS_MAX];
    enum ration_verdict verdicts[LIMITER_ASKS_MAX]; /* BATCH */
    uint64_t returned[LIMITER_DETAILS_MAX]; /* SETTLE: by others, as the table counts them for
                                                       each slip. Not compared: no decision reports it */
    uint64_t refunded[LIMITER_DETAILS_MAX]; /* likewise: of those, by no other reservation */
};

/* Answers steps; the first member of a larger struct. */
struct limiter_answerer {
    void (*answer)(struct limiter_answerer *self, const struct limiter_step *step,
                   struct limiter_answer *out);
};

/* One limiter as it is to be made. */
struct limiter_plan {
    struct ration_rule rules[LIMITER_RULES_MAX];
    unsigned rule_count;
    uint64_t keys_max;
    enum ration_overflow overflow;
};

/* All of them. */
struct limiter_setup {
    struct limiter_plan plans[LIMITER_COUNT_MAX];
    unsigned limiter_count;
    unsigned key_count;
    uint64_t clock_ns; /* of the manual clock when they are made */
    bool is_stack;
    bool has_key_func; /* each limiter has a key of its own in a request */
    bool is_stackable; /* entries, though there be one bucket */
    bool trusts_keys;  /* a trace is the same each time it is run */
};

/* How long a limiter remembers a key whose buckets are full; 0 if all its rules start full. */
uint64_t limiter_plan_stale_after_ns(const struct limiter_plan *plan);

/* The moments that a table made at clock_ns can tell apart: others count as the nearest. */
uint64_t limiter_setup_epoch_ns(const struct limiter_setup *setup);
uint64_t limiter_setup_clamp(const struct limiter_setup *setup, uint64_t now_ns);

bool limiter_answers_equal(const struct limiter_answer *a, const struct limiter_answer *b);

void limiter_print_setup(const struct limiter_setup *setup);
void limiter_print_step(const struct limiter_step *step);
void limiter_print_answer(const char *title, const struct limiter_answer *answer);

#endif
