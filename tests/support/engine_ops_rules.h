/*
 * engine_ops_rules: checks R1, R2 and R4, for engine_ops.
 */
#ifndef RATION_TESTS_ENGINE_OPS_RULES_H
#define RATION_TESTS_ENGINE_OPS_RULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "support/engine_ops.h"

/* Decides one check or peek; then calls the planted bug, if any. */
void engine_ops_check(ration_engine *engine, struct ration_check *check, uint64_t now_ns);

struct engine_ops_admission {
    uint64_t at_ns;
    uint64_t tokens;
};

/* R1, for the steady limit: whether more was admitted than allowed between one of the admissions and the last. */
bool engine_ops_is_too_much(const struct engine_ops_admission *admissions, size_t count);

/*
 * A check, after a peek that must have the same verdict and wait. R2: a denial leaves the bucket unchanged.
 * Writes the failed check to *out_error: static storage, untouched otherwise.
 */
struct ration_check engine_ops_take(ration_engine *engine,
                                    const struct ration_attribute *attributes,
                                    size_t attribute_count, uint64_t tokens, uint64_t now_ns,
                                    const char **out_error);

/*
 * R4: the same check passes retry_after_ns after now, and not a nanosecond earlier. Returns NULL, or the failed check.
 * R4 need not hold for
 *
 *     a now, or a bucket that is full, after 2^59 ns: no table holds later moments
 *     a key that is blocked for longer than stale_after, under a limit that does not start full:
 *     it is forgotten, and starts again as a new key
 */
const char *engine_ops_check_retry(ration_engine *engine, const struct ration_check *denied,
                                   uint64_t now_ns);

#endif
