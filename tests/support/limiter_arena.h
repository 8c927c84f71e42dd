/*
 * limiter_arena: a limiter or a stack, and the keys and times of one round played on it.
 *
 * A round has four new keys. The ground is the state of the keys' places:
 *
 *     ROOMY     a large table: places that are empty, or have keys of earlier rounds
 *     IDLE      16 places for all keys together, each with a full bucket that must be reclaimed
 *     SKEWED    the same, some with tokens in use; and every other thread's now is later, so that the free places
 *               differ from thread to thread
 *
 * From round to round the time advances far enough that all buckets of the last round are full again.
 */
#ifndef RATION_TESTS_SUPPORT_LIMITER_ARENA_H
#define RATION_TESTS_SUPPORT_LIMITER_ARENA_H

#include <stdbool.h>
#include <stdint.h>

#include "ration/ration.h"
#include "support/threads.h"

#define ARENA_RULES_MAX    2
#define ARENA_LIMITERS_MAX 2
#define ARENA_KEYS         4

/* The places of the smallest table. */
#define ARENA_PLACES 16

/* Longer than any bucket of an arena takes to fill. */
#define ARENA_ROUND_NS (UINT64_C(1000) * 1000000000)

/* How much later a thread's now may be: less than the time of a token, more than the lifetime of a claim. */
#define ARENA_SKEW_NS_MAX (UINT64_C(4) * 1000000000)

enum ground { GROUND_ROOMY, GROUND_IDLE, GROUND_SKEWED };

struct arena_plan {
    /* Of each limiter the texts of its limits, tokens of more than ARENA_SKEW_NS_MAX. */
    const char *rules[ARENA_LIMITERS_MAX][ARENA_RULES_MAX];
    bool is_stack; /* of as many limiters as have rules */
    enum ground ground;
    enum ration_overflow overflow;
    unsigned thread_count;
    uint64_t seed;
};

struct arena {
    _Alignas(THREADS_LINE_BYTES) struct arena_plan plan;
    unsigned limiter_count;
    ration_stack *stack; /* or NULL */
    ration_limiter *limiters[ARENA_LIMITERS_MAX];
    struct ration_manual_clock clock; /* does not advance: callers pass now */
    uint64_t random;
    uint64_t next_number;
    uint64_t now_ns;
    uint64_t skew_ns;
    uint64_t numbers[ARENA_KEYS];
    struct ration_key keys[ARENA_KEYS];
};

/* Release: arena_done(). */
void arena_init(struct arena *arena, const struct arena_plan *plan);
void arena_done(struct arena *arena);

/* Parses the texts, which end with NULL, into rules. Returns how many. */
size_t arena_rules(const char *const *texts, struct ration_rule *out_rules);

/* Prepares the next round: its time, its keys and its ground. */
void arena_next_round(struct arena *arena);

/* A new key, its bytes in *number. */
struct ration_key arena_new_key(struct arena *arena, uint64_t *number);

/* Blocks new keys until a time, so that so many places of each limiter have tokens in use. */
void arena_block_places(struct arena *arena, unsigned place_count, uint64_t until_ns);

/* A thread's now in this round. */
uint64_t arena_now(const struct arena *arena, unsigned thread_index);

/* The latest now of all threads. */
uint64_t arena_last_now(const struct arena *arena);

/* The remaining whole tokens of a key's limit, at the latest now. */
uint64_t arena_remaining(const struct arena *arena, unsigned limiter_index, unsigned rule_index,
                         unsigned key_index);

/* Whether so much is left of the first limit of each limiter. */
bool arena_is_left(const struct arena *arena, unsigned key_index, uint64_t tokens);

#endif
