#include "support/limiter_yields.h"

#include <sched.h>

#include "base/random.h"
#include "base/yield.h"

#ifndef RATION_YIELD_POINTS
#error "build this, and the library, with RATION_YIELD_POINTS"
#endif

static uint64_t first_die;
static unsigned rarity; /* 0: never */
static unsigned
    reservations; /* number the threads, so that each one has a random sequence of its own */
static uint64_t count;

static _Thread_local uint64_t die;

void yields_start(uint64_t seed, unsigned one_in)
{
    first_die = seed;
    rarity = one_in;
    reservations = 0;
    __atomic_store_n(&count, 0, __ATOMIC_RELAXED);
}

uint64_t yields_count(void)
{
    return __atomic_load_n(&count, __ATOMIC_RELAXED);
}

void ration_yield_point(void)
{
    if (rarity == 0)
        return;
    if (die == 0)
        die =
            first_die + __atomic_add_fetch(&reservations, 1, __ATOMIC_RELAXED) * UINT64_C(0x10000);
    if (ration_random_up_to(&die, rarity - 1) != 0)
        return;
    __atomic_add_fetch(&count, 1, __ATOMIC_RELAXED);
    sched_yield();
}
