/*
 * engine_ops_rules: what R1, R2 and R4 say of checks, for engine_ops.
 */
#ifndef RATION_TESTS_ENGINE_OPS_RULES_H
#define RATION_TESTS_ENGINE_OPS_RULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "support/engine_ops.h"

/* Decides one check or peek; then calls the bug that is planted. */
void engine_ops_check(ration_engine *engine, struct ration_check *check, uint64_t now_ns);

struct engine_ops_admission {
    uint64_t at_ns;
    uint64_t tokens;
};

/* R1, of the steady limit: over an interval from one of them to the last, in order of time, more than is allowed. */
bool engine_ops_is_too_much(const struct engine_ops_admission *admissions, size_t count);

/*
 * A check, after a peek that must have its verdict and its wait. R2: what a denial leaves is what was there before.
 * Writes to *out_error what did not hold: static storage, untouched otherwise.
 */
struct ration_check engine_ops_take(ration_engine *engine,
                                    const struct ration_attribute *attributes,
                                    size_t attribute_count, uint64_t tokens, uint64_t now_ns,
                                    const char **out_error);

/*
 * R4: the same check passes retry_after_ns after now, and not a nanosecond earlier. Returns NULL, or what did not
 * hold. It need not hold for
 *
 *     a now, or a bucket that is full, after 2^59 ns: no table holds later moments
 *     a key that a block keeps away for longer than stale_after, of a limit that does not start full:
 *     it is forgotten, and starts again as a new one
 */
const char *engine_ops_check_retry(ration_engine *engine, const struct ration_check *denied,
                                   uint64_t now_ns);

#endif
