/* chance: random numbers, the same in every run unless RATION_TEST_SEED sets another seed. */
#ifndef RATION_TESTS_REDIS_CHANCE_H
#define RATION_TESTS_REDIS_CHANCE_H

#include <stdint.h>
#include <stdlib.h>

static uint64_t random_state = 1;

static inline void seed_chance(void)
{
    const char *seed = getenv("RATION_TEST_SEED");

    if (seed != NULL)
        random_state = strtoull(seed, NULL, 10) * 2654435761u + 88172645463325252u;
}

static inline uint64_t random_below(uint64_t below)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state % below;
}

#endif
