/*
 * engine_ops: runs any bytes as a sequence of operations on engines in memory, and checks the results.
 *
 * The bytes choose the limits of the policies (every algorithm), checks, charges, refunds, resets, blocks, inline
 * limits, clock steps (also back, and beyond what a table can hold), reloads, saves and loads. It checks that
 *
 *     a state that was saved loads, under the same policy and under another one
 *     the loaded engine then answers each key under each limit like the engine that was saved (or reloaded)
 *     a block longer than RATION_BLOCK_NS_MAX is an error, and no shorter one is
 *     a peek has the verdict and the wait of the check that follows
 *     R2: a denial leaves the next caller's answer as it was
 *     R4: a denied check passes retry_after_ns later, and not a nanosecond earlier
 *     R1: one limit that no reload changes admits each key at most burst + rate * t over any interval
 *
 * The program that uses it defines ration_wall_now() as engine_ops_wall_ns.
 */
#ifndef RATION_TESTS_ENGINE_OPS_H
#define RATION_TESTS_ENGINE_OPS_H

#include <stddef.h>
#include <stdint.h>

#include "ration/ration.h"

#define ENGINE_OPS_ERROR_MAX 512

extern uint64_t engine_ops_wall_ns;

/* A bug for a negative control: called between a save and the load. NULL: none. */
struct saved_bytes;
typedef void engine_ops_bug(struct saved_bytes *state);

/* Another bug for a negative control: called after each check and peek, with the engine that decided. NULL: none. */
typedef void engine_ops_check_bug(ration_engine *engine, struct ration_check *check,
                                  uint64_t now_ns);
extern engine_ops_check_bug *engine_ops_check_bug_planted;

/*
 * Runs the operations. Returns NULL, or the failed check (static storage, overwritten by the next call).
 */
const char *engine_ops_run(const uint8_t *data, size_t size, engine_ops_bug *bug);

/* The number of loads compared since the program started: a run without any proves nothing. */
extern uint64_t engine_ops_compared_count;

#endif
