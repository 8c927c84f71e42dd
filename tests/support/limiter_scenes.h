/*
 * limiter_scenes: the calls of the threads in an arena, and the expected results.
 *
 * In most scenes the four keys of a round are touched for the first time by all threads at once,
 * one after the other, and each has one token: exactly one caller gets it. One more would break R1,
 * none would break R3. A second thread that is late for the first key has caught up by the second,
 * because a denial is faster than a creation.
 */
#ifndef RATION_TESTS_SUPPORT_LIMITER_SCENES_H
#define RATION_TESTS_SUPPORT_LIMITER_SCENES_H

#include "support/limiter_arena.h"

/* From a scene's result: how often the key was admitted, summed over all threads (below 256). */
static inline uint64_t scene_admitted(unsigned key_index, uint64_t count)
{
    return count << (8 * key_index);
}

struct scene {
    const char *name;
    const char *rules[ARENA_LIMITERS_MAX][ARENA_RULES_MAX];
    bool is_stack;
    enum ration_overflow overflow;
    void (*prepare)(struct arena *arena); /* after the ground; may be NULL */
    uint64_t (*play)(struct arena *arena, unsigned thread_index); /* admissions, as above */
    bool (*holds)(struct arena *arena, uint64_t admitted);
};

struct scene_list {
    const struct scene *scenes;
    unsigned count;
};

extern const struct scene_list limiter_first_scenes; /* one token per key */
extern const struct scene_list limiter_spend_scenes; /* several, and denials beside takes */

extern const struct scene_list limiter_change_scenes;

/* On GROUND_IDLE, where no place is left; the second list with few threads. */
extern const struct scene_list limiter_overflow_scenes;
extern const struct scene_list limiter_overflow_beside_scenes;

/* The scene of either list that has the name. Stops the program if there is none. */
const struct scene *scene_named(const char *name);

/* Charges limiters one after the other and returns the tokens if one denies: a control. */
extern const struct scene limiter_scene_rollback;

/* Plays up to round_count rounds. */
struct totals scene_run(const struct scene *scene, enum ground ground, unsigned thread_count,
                        uint64_t round_count, uint64_t seed);

const char *ground_name(enum ground ground);

#endif
