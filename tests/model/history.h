/*
 * history: checks R1 over all admissions, by the limit as it was written.
 *
 * It does not use token times or their rounding. For tokens per period, every
 * closed interval from one admission to another, t ns long, must satisfy
 *
 *     admitted * period <= burst * period + tokens * t
 *
 * The interval with the largest excess that ends at the newest admission is kept up to date as
 * one number: what the best one had, less what t brought, or nothing, plus the new admission.
 */
#ifndef RATION_TESTS_HISTORY_H
#define RATION_TESTS_HISTORY_H

#include <stdbool.h>
#include <stdint.h>

#include "model.h"

/* Pairs of admissions further apart than this are not compared where all pairs are. */
#define HISTORY_COUNT_MAX 32

struct history_entry {
    uint64_t at_ns;
    uint64_t tokens;
};

struct history {
    const struct ration_limit *limit;
    model_units excess;
    uint64_t last_ns;
    uint64_t window_index; /* windows: aligned ones, counted */
    uint64_t window_tokens;
    uint64_t count; /* entries ever; the last HISTORY_COUNT_MAX are kept */
    struct history_entry entries[HISTORY_COUNT_MAX];
};

void history_init(struct history *h, const struct ration_limit *limit);

/*
 * Adds tokens that were admitted at a moment (for a queue: the moment of the turn), not before the last one
 * added. False if that breaks the algorithm's form of R1.
 */
bool history_admit(struct history *h, uint64_t tokens, uint64_t at_ns);

/*
 * Whether a caller that took one token whenever possible, from a full bucket at first_ns, got all
 * by the moment of its last token: less 1, and less 1 in 1e9 (1e6 above a million per second).
 * Only for token buckets; a burst of 1 loses up to 1 ns per token to the clock's grain.
 */
bool history_is_greedy_enough(const struct ration_limit *limit, uint64_t admitted_tokens,
                              uint64_t first_ns, uint64_t last_ns);

#endif
