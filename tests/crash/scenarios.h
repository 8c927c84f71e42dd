/*
 * scenarios: operations to die in, each with the state that it begins from.
 */
#ifndef RATION_TESTS_CRASH_SCENARIOS_H
#define RATION_TESTS_CRASH_SCENARIOS_H

#include "world.h"

#define ACCOUNTS_MAX 4

enum scenario_trait {
    SCENARIO_MAIN = 1,  /* died in at every instruction */
    SCENARIO_OFTEN = 2, /* died in by one process after the other */
    SCENARIO_ONCE = 4,  /* cannot be done twice */
    SCENARIO_SPLIT = 8, /* changes its limiters one after the other, not all at once */
};

struct scenario {
    const char *name;
    enum world_kind world;
    void (*prepare)(struct world *world);
    void (*act)(struct world *world, struct answer *out_answer);
    uint32_t accounts[ACCOUNTS_MAX]; /* keys that are looked at, in all limiters */
    uint32_t account_count;
    unsigned traits; /* enum scenario_trait */
};

static inline bool scenario_is(const struct scenario *scenario, enum scenario_trait trait)
{
    return (scenario->traits & (unsigned)trait) != 0;
}

/* Other limits for the first limiter, to and fro as the salt changes. */
void scenario_change_limits(struct world *world);

extern const struct scenario scenarios[];
extern const size_t scenario_count;

#endif
