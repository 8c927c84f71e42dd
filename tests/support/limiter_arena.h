/*
 * limiter_arena: a limiter or a stack, and the keys and times of one round played on it.
 *
 * A round has four keys that were never asked for. What the threads then meet at the keys' places
 * is the ground:
 *
 *     ROOMY     a large table: places that are empty, or hold keys of long ago
 *     IDLE      16 places for all keys together, each with a full bucket that must be reclaimed
 *     SKEWED    the same, some of them in debt; and every other thread's now is later, so that
 *               what is free differs from thread to thread
 *
 * Time advances from round to round by so much that all debt of the last one is paid.
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

/* Of a table as small as tables get. */
#define ARENA_PLACES 16

/* Longer than it takes to fill any bucket of an arena. */
#define ARENA_ROUND_NS (UINT64_C(1000) * 1000000000)

/* How much later than the others a thread may be: less than a token's time, more than a claim's. */
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
    struct ration_manual_clock clock; /* stands still: callers pass now */
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

/* The rules that texts say, NULL after the last. Returns how many. */
size_t arena_rules(const char *const *texts, struct ration_rule *out_rules);

/* Goes on to the next round: its time, its keys and its ground. */
void arena_next_round(struct arena *arena);

/* A key that was never asked for, its bytes in *number. */
struct ration_key arena_new_key(struct arena *arena, uint64_t *number);

/* Blocks keys never asked for until a time, so that so many places of each limiter are in debt. */
void arena_block_places(struct arena *arena, unsigned place_count, uint64_t until_ns);

/* A thread's now in this round. */
uint64_t arena_now(const struct arena *arena, unsigned thread_index);

/* The latest of them. */
uint64_t arena_last_now(const struct arena *arena);

/* What is left of a limit of a key, whole tokens, at the latest now. */
uint64_t arena_remaining(const struct arena *arena, unsigned limiter_index, unsigned rule_index,
                         unsigned key_index);

/* Whether so much is left of the first limit of each limiter. */
bool arena_is_left(const struct arena *arena, unsigned key_index, uint64_t tokens);

#endif
