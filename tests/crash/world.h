/*
 * world: a small table that processes share, and the calls on it.
 *
 * Every call passes its time, so the clock does not advance. Two sets of eight places: every key may use all of them, and
 * 16 keys (a crowd) fill the table. Keys are numbers combined with the world's salt, so that the same story can be played
 * again with other keys.
 */
#ifndef RATION_TESTS_CRASH_WORLD_H
#define RATION_TESTS_CRASH_WORLD_H

#include <stdbool.h>

#include "ration/ration.h"
#include "store/memory.h"

#define WORLD_LIMITERS_MAX 3
#define WORLD_PLACES       (2 * RATION_SET_SLOTS)
#define WORLD_BEGIN_NS     (1000 * RATION_NS_PER_DAY)
#define WORLD_CROWD        100 /* the first key of a crowd */
#define WORLD_CROWD_NS     (-10 * (int64_t)RATION_NS_PER_DAY)

enum world_kind {
    WORLD_PLAIN,   /* one rule: a slot per key */
    WORLD_ENTRY,   /* three rules */
    WORLD_RESERVE, /* a burst reserve: two cells */
    WORLD_LOG,     /* a sliding log: a ring */
    WORLD_EMPTY,   /* a limit that starts empty: stored at the first request, denied or not */
    WORLD_STACK_2, /* limiters of one rule and of three */
    WORLD_STACK_3
};

/* A key, and the bytes that it points to: not to be copied. */
struct world_key {
    uint32_t words[2];
    struct ration_key key;
};

struct world {
    enum world_kind kind;
    ration_stack *stack; /* or NULL */
    size_t limiter_count;
    ration_limiter *limiters[WORLD_LIMITERS_MAX];
    const struct ration_memory *memory;
    uint64_t now_ns;
    uint32_t salt;
    struct world_key subjects[2];          /* keys 0 and 1: see world_turn() */
    struct ration_reservation reservation; /* a reservation made in the initial state */
};

/* The whole reply of a call. In memory that processes share. */
struct answer {
    ration_status status;
    struct ration_decision decision;
    struct ration_decision details[RATION_CALL_RULES_MAX];
};

/* The part of a reply that is compared. */
#define SEEN_RULES_MAX 5

struct seen {
    ration_status status;
    enum ration_verdict verdict;
    struct {
        uint64_t remaining;
        uint64_t reset_ns;
    } rules[SEEN_RULES_MAX];
};

/* Creates a world with so many descriptors. Release: world_close(). */
void world_open(struct world *world, enum world_kind kind, uint32_t descriptor_count);
void world_close(struct world *world);

/* The block, which survives the death of a process. */
size_t world_size(const struct world *world);
void world_save(const struct world *world, void *image);
void world_restore(struct world *world, const void *image);
bool world_equals(const struct world *world, const void *image);

/* Continues with other keys and a later time. */
void world_turn(struct world *world, uint32_t salt, uint64_t now_ns);

void world_key(const struct world *world, uint32_t number, struct world_key *out_key);

/* Takes at now + after_ns and reports everything, or only the verdict. Cost 0 peeks for 1. */
struct seen world_take(struct world *world, uint32_t limiter_index, uint32_t key, uint64_t cost,
                       int64_t after_ns);
struct seen world_allow(struct world *world, uint32_t limiter_index, uint32_t key, uint64_t cost,
                        int64_t after_ns);

/* Takes of the same key in all limiters of the stack. */
struct seen world_take_stack(struct world *world, uint32_t key, uint64_t cost, int64_t after_ns);

struct seen seen_of(const struct answer *answer);

/* Fills every place of every section with keys from WORLD_CROWD on. */
void world_crowd(struct world *world, uint64_t cost, int64_t after_ns);

/* Puts claims of the key into so many empty places, as dead processes may leave them. */
void world_leave_claims(struct world *world, uint32_t limiter_index, uint32_t key, size_t count);

/* How often a key found no place in this process's calls. */
uint64_t world_overflow_count(const struct world *world);

/* The process that owns this descriptor; 0: none. */
uint64_t world_descriptor_owner(const struct world *world, uint32_t descriptor_index);

#endif
