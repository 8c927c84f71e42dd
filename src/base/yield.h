/*
 * yield: a place between two atomic operations where a test may let other threads in.
 *
 * On a machine with fewer cores than threads, the moments in which one thread could slip
 * between another's load and its compare-and-swap are too rare for a test to meet. The build
 * for those tests defines RATION_YIELD_POINTS and decides by a seed where to yield. In every
 * other build this is nothing.
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
