/*
 * limiter_yields: lets the threads of a build with yield points give up their CPU at random, from a fixed seed.
 */
#ifndef RATION_TESTS_SUPPORT_LIMITER_YIELDS_H
#define RATION_TESTS_SUPPORT_LIMITER_YIELDS_H

#include <stdint.h>

/* Set by means of the controls: often enough for threads to interleave, not so often that they alternate. */
#ifndef YIELDS_ONE_IN
#define YIELDS_ONE_IN 16
#endif

/* Threads that start from now on yield at about one in one_in points, each with a random sequence of its own. */
void yields_start(uint64_t seed, unsigned one_in);

/* The number of yields since then. 0 means that the linked library has no yield points. */
uint64_t yields_count(void);

#endif
