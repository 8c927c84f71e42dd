/*
 * limiter_yields: where threads of a build with yield points give up their CPU, by a seeded die.
 */
#ifndef RATION_TESTS_SUPPORT_LIMITER_YIELDS_H
#define RATION_TESTS_SUPPORT_LIMITER_YIELDS_H

#include <stdint.h>

/* Tuned by the controls: often enough to be let in between, not so often as to take turns. */
#ifndef YIELDS_ONE_IN
#define YIELDS_ONE_IN 16
#endif

/* Threads that start from now on yield about once in one_in points, each by a die of its own. */
void yields_start(uint64_t seed, unsigned one_in);

/* How often was yielded since then. 0 means that the library linked has no yield points. */
uint64_t yields_count(void);

#endif
