/*
 * limit_bounds: which limits can be represented exactly.
 *
 * Two bounds come from the arithmetic (base/time.h): a token is worth at least 1 ns, so that its
 * rounding to 2^-20 ns is below one in a million; and a bucket fills within 16 years, so that every
 * time fits in its word. The counts of some states add a third bound. All other rejected specs are
 * invalid.
 */
#ifndef RATION_CORE_LIMIT_BOUNDS_H
#define RATION_CORE_LIMIT_BOUNDS_H

#include <stdbool.h>

#include "ration/limit.h"

/* One of the two rates of a spec, with its default burst filled in. */
struct ration_bare_rate {
    uint64_t tokens;
    uint64_t period_ns;
    uint64_t burst;
};

struct ration_bare_rate ration_limit_main_rate(const struct ration_limit_spec *spec);
struct ration_bare_rate ration_limit_reserve_rate(const struct ration_limit_spec *spec);

/* Returns the algorithm of a spec, with the default resolved. */
enum ration_algorithm ration_limit_algorithm(const struct ration_limit_spec *spec);

/* Returns whether an algorithm counts in windows, so that it has no separate burst. */
bool ration_limit_has_windows(enum ration_algorithm algorithm);

/*
 * Returns the time worth one token, rounded up: the only rounding of a limit. Not for rates that
 * are too fast.
 */
struct ration_time ration_limit_token_time(struct ration_bare_rate rate);

/* Returns the largest burst that fills within 16 years. Not for rates that are too fast. */
uint64_t ration_limit_burst_max(struct ration_bare_rate rate, const struct ration_limit_spec *spec);

/* Returns the largest number of tokens that the algorithm's state can count. */
uint64_t ration_limit_tokens_max(const struct ration_limit_spec *spec);

/* Returns whether the rate is above one token per nanosecond. */
bool ration_limit_is_too_fast(struct ration_bare_rate rate);

/* Returns whether the bucket takes more than 16 years to fill. Not for rates that are too fast. */
bool ration_limit_is_too_slow(struct ration_bare_rate rate, const struct ration_limit_spec *spec);

/*
 * Checks whether a limit can be made from a spec. Returns RATION_EINVAL or RATION_ERANGE, and the
 * reason in error (may be NULL).
 */
ration_status ration_limit_check(const struct ration_limit_spec *spec, struct ration_error *error);

/*
 * Returns whether a limit was made by ration_limit_make(): zero bytes and unknown algorithms were
 * not.
 */
bool ration_limit_is_made(const struct ration_limit *limit);

#endif
