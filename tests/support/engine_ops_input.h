/*
 * engine_ops_input: chooses the operations of engine_ops by the input's bytes. After the last byte all are zero.
 */
#ifndef RATION_TESTS_ENGINE_OPS_INPUT_H
#define RATION_TESTS_ENGINE_OPS_INPUT_H

#include <stddef.h>
#include <stdint.h>

#include "ration/ration.h"

#define ENGINE_OPS_START_NS    (1000 * RATION_NS_PER_SECOND)
#define ENGINE_OPS_POLICY_MAX  2048
#define ENGINE_OPS_PATH_COUNT  6
#define ENGINE_OPS_STEADY_PATH 5 /* the limit that no reload changes: 3/s burst 7 */

struct engine_ops_input {
    const uint8_t *data;
    size_t left;
};

uint8_t engine_ops_byte(struct engine_ops_input *input);

/* The text of a policy, in ENGINE_OPS_POLICY_MAX bytes: the steady limit, and up to six others of any algorithm. */
void engine_ops_policy(struct engine_ops_input *input, char *text);

/* Usually a few, sometimes none or more than exist. */
uint64_t engine_ops_tokens(struct engine_ops_input *input);

/* From nothing to a year. */
uint64_t engine_ops_time_ns(struct engine_ops_input *input);

/* Usually the clock's now; sometimes an older one, or one that no clock reports. */
uint64_t engine_ops_now_ns(struct engine_ops_input *input, uint64_t clock_ns);

/* Half of the durations are about as long as a block may be, or longer. */
uint64_t engine_ops_block_end_ns(struct engine_ops_input *input, uint64_t now_ns);

#endif
