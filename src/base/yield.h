/*
 * yield: a point between two atomic operations where a test may let other threads run.
 *
 * On a machine with fewer cores than threads, one thread runs between another's load and its
 * compare-and-swap too rarely for a test to observe it. The build for those tests defines
 * RATION_YIELD_POINTS and decides by a seed where to yield. In every other build this does nothing.
 */
#ifndef RATION_BASE_YIELD_H
#define RATION_BASE_YIELD_H

#ifdef RATION_YIELD_POINTS
void ration_yield_point(void);
#else
static inline void ration_yield_point(void)
{
}
#endif

#endif
