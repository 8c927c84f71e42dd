/*
 * limit_bounds: which limits can be kept.
 *
 * Two bounds come from the arithmetic (base/time.h): a token is worth at least 1 ns, so that its
 * rounding to 2^-20 ns is below one in a million; and a bucket fills within 16 years, so that
 * every moment fits its word. The counts of some states add a third. Everything else that is
 * refused makes no sense.
 */
#ifndef RATION_CORE_LIMIT_BOUNDS_H
#define RATION_CORE_LIMIT_BOUNDS_H

#include <stdbool.h>

#include "ration/limit.h"

/* One of the two rates that a spec may hold, with its default burst filled in. */
struct ration_bare_rate {
    uint64_t tokens;
    uint64_t period_ns;
    uint64_t burst;
};

struct ration_bare_rate ration_limit_main_rate(const struct ration_limit_spec *spec);
struct ration_bare_rate ration_limit_reserve_rate(const struct ration_limit_spec *spec);

/* The algorithm that a spec means. */
enum ration_algorithm ration_limit_algorithm(const struct ration_limit_spec *spec);

/* Whether an algorithm counts in windows, so that it has no burst of its own. */
bool ration_limit_has_windows(enum ration_algorithm algorithm);

/* Time worth one token, rounded up: the only rounding of a limit. The rate is not too fast. */
struct ration_time ration_limit_token_time(struct ration_bare_rate rate);

/* The most tokens a bucket may hold so that it fills within 16 years. Not for too fast rates. */
uint64_t ration_limit_burst_max(struct ration_bare_rate rate, const struct ration_limit_spec *spec);

/* The most tokens that the state of the algorithm can count. */
uint64_t ration_limit_tokens_max(const struct ration_limit_spec *spec);

/* More than a token per nanosecond. */
bool ration_limit_is_too_fast(struct ration_bare_rate rate);

/* Longer than 16 years to fill. Not for rates that are too fast. */
bool ration_limit_is_too_slow(struct ration_bare_rate rate, const struct ration_limit_spec *spec);

/*
 * Whether a limit can be made of a spec. Returns RATION_EINVAL or RATION_ERANGE, and the reason
 * in error (may be NULL).
 */
ration_status ration_limit_check(const struct ration_limit_spec *spec, struct ration_error *error);

/* Whether a limit was made by ration_limit_make(): zero bytes and unknown kinds were not. */
bool ration_limit_is_made(const struct ration_limit *limit);

#endif
