/*
 * scenarios: operations in which a process dies, each with its initial state.
 */
#ifndef RATION_TESTS_CRASH_SCENARIOS_H
#define RATION_TESTS_CRASH_SCENARIOS_H

#include "world.h"

#define ACCOUNTS_MAX 4

enum scenario_trait {
    SCENARIO_MAIN = 1,  /* processes die at every instruction */
    SCENARIO_OFTEN = 2, /* many processes die on one table */
    SCENARIO_ONCE = 4,  /* cannot be done twice */
    SCENARIO_SPLIT = 8, /* changes its limiters one after the other, not all at once */
};

struct scenario {
    const char *name;
    enum world_kind world;
    void (*prepare)(struct world *world);
    void (*act)(struct world *world, struct answer *out_answer);
    uint32_t accounts[ACCOUNTS_MAX]; /* keys whose buckets are compared, in all limiters */
    uint32_t account_count;
    unsigned traits; /* enum scenario_trait */
};

static inline bool scenario_is(const struct scenario *scenario, enum scenario_trait trait)
{
    return (scenario->traits & (unsigned)trait) != 0;
}

/* Other limits for the first limiter, alternating with the salt. */
void scenario_change_limits(struct world *world);

extern const struct scenario scenarios[];
extern const size_t scenario_count;

#endif
