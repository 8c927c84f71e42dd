/*
 * greedy: a caller that takes a token whenever possible, and after a denial retries at the reported time.
 */
#ifndef RATION_TESTS_GREEDY_H
#define RATION_TESTS_GREEDY_H

#include <stdbool.h>
#include <stdint.h>

#include "subject.h"

struct greedy_result {
    uint64_t admitted_tokens;
    uint64_t last_ns; /* when the last one was admitted */
    uint64_t decisions;
    bool keeps_contract; /* R1 from the limit as written, over everything admitted */
};

/*
 * Starts with a full bucket at start_ns, takes the whole burst at once and then count single
 * tokens.
 */
struct greedy_result greedy_run(const struct subject *subject, const struct ration_limit *limit,
                                uint64_t start_ns, uint64_t count);

#endif
