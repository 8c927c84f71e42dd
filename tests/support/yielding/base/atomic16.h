/*
 * Stands in the way of base/atomic16.h in builds that yield: before every load and swap of 16
 * bytes, wherever it is, a thread may give up its CPU.
 */
#ifndef RATION_TESTS_YIELDING_ATOMIC16_H
#define RATION_TESTS_YIELDING_ATOMIC16_H

#include_next "base/atomic16.h"

#include "base/yield.h"

#define ration_atomic16_swap(...)     (ration_yield_point(), ration_atomic16_swap(__VA_ARGS__))
#define ration_atomic16_load(...)     (ration_yield_point(), ration_atomic16_load(__VA_ARGS__))
#define ration_atomic16_load_avx(...) (ration_yield_point(), ration_atomic16_load_avx(__VA_ARGS__))

#endif
