/* Whether two limits are equal in every field, derived ones included. */
#ifndef RATION_TESTS_LIMITS_EQUAL_H
#define RATION_TESTS_LIMITS_EQUAL_H

#include <stdbool.h>
#include <string.h>

#include "ration/limit.h"

static inline bool rates_equal(const struct ration_rate *a, const struct ration_rate *b)
{
    return a->token.ns == b->token.ns && a->token.frac == b->token.frac &&
           a->capacity.ns == b->capacity.ns && a->capacity.frac == b->capacity.frac &&
           a->burst == b->burst && a->span_tokens == b->span_tokens;
}

static inline bool limits_equal(const struct ration_limit *a, const struct ration_limit *b)
{
    return a->tokens == b->tokens && a->period_ns == b->period_ns && a->burst == b->burst &&
           a->algorithm == b->algorithm && a->refill == b->refill && a->start == b->start &&
           a->start_tokens == b->start_tokens && a->reserve_tokens == b->reserve_tokens &&
           a->reserve_period_ns == b->reserve_period_ns && a->reserve_burst == b->reserve_burst &&
           strcmp(a->name, b->name) == 0 && rates_equal(&a->rate, &b->rate) &&
           rates_equal(&a->reserve_rate, &b->reserve_rate);
}

#endif
