/*
 * limiter_scenes: what threads play in an arena, and what must have come out.
 *
 * In most scenes the four keys of a round are touched for the first time by all threads at once,
 * one after the other, and each has one token: exactly one caller gets it. One more would break R1,
 * none would break R3. A second thread that is late for the first key has caught up by the second,
 * since a denial is quicker than a creation.
 */
#ifndef RATION_TESTS_SUPPORT_LIMITER_SCENES_H
#define RATION_TESTS_SUPPORT_LIMITER_SCENES_H

#include "support/limiter_arena.h"

/* Of a scene's result: how often the key was admitted, added up over all threads (below 256). */
static inline uint64_t scene_admitted(unsigned key_index, uint64_t count)
{
    return count << (8 * key_index);
}

struct scene {
    const char *name;
    const char *rules[ARENA_LIMITERS_MAX][ARENA_RULES_MAX];
    bool is_stack;
    void (*prepare)(struct arena *arena); /* after the ground; may be NULL */
    uint64_t (*play)(struct arena *arena, unsigned thread_index); /* admissions, as above */
    bool (*holds)(struct arena *arena, uint64_t admitted);
};

/* First touches, and denials beside takes that must not notice. */
extern const struct scene limiter_scenes[];
extern const unsigned limiter_scene_count;

/* Keys of one limiter that are created by one call. */
extern const struct scene limiter_scene_pairs;

/* The scene of a name. Stops the program if there is none. */
const struct scene *scene_named(const char *name);

/* Charges limiters in turn and gives back what it took when one denies: a control. */
extern const struct scene limiter_scene_rollback;

/* Plays up to round_count rounds. */
struct tally scene_run(const struct scene *scene, enum ground ground, unsigned thread_count,
                       uint64_t round_count, uint64_t seed);

const char *ground_name(enum ground ground);

#endif
