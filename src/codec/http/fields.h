/*
 * fields: writes the rate limit header fields of a response.
 *
 *     RateLimit-Policy: "login";q=10;w=120        at most 10 at once, full again after 120 seconds
 *     RateLimit: "login";r=4;t=12                 4 are left, one more in 12 seconds
 *     Retry-After: 12
 *
 * The first two follow draft-ietf-httpapi-ratelimit-headers-08 to -11; many clients support
 * X-RateLimit-*. t is the time until more tokens are available than now: exact for token buckets,
 * leaky queues and fixed windows, and an upper bound for the others, whose decision does not
 * contain it. On a denial, t equals Retry-After: a larger t would contradict it.
 *
 * Seconds are rounded up, so that a client that waits this long is not too early.
 */
#ifndef RATION_CODEC_HTTP_FIELDS_H
#define RATION_CODEC_HTTP_FIELDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/output.h"
#include "ration/decision.h"
#include "ration/limit.h"

/*
 * Integers in structured fields have at most 15 digits (RFC 9651). Larger numbers are written as
 * this.
 */
#define RATION_FIELDS_NUMBER_MAX UINT64_C(999999999999999)

/* The name used for an inline limit without a name, in fields and elsewhere. */
#define RATION_FIELDS_NAME_DEFAULT "default"

/* "name" with every byte escaped, then ;q= and ;w= with a number each. */
#define RATION_FIELDS_POLICY_SIZE (2 * RATION_LIMIT_NAME_MAX + 2 + 2 * (3 + 15))

/* The parts that are the same in all responses about a limit; computed once. */
struct ration_fields_limit {
    uint16_t name_size; /* size of the quoted name at the start of policy */
    uint16_t policy_size;
    char policy[RATION_FIELDS_POLICY_SIZE]; /* "login";q=10;w=120 */
    uint64_t burst;
    uint64_t step_tokens; /* tokens refilled at a time; 0 if unknown */
    uint64_t step_ns;     /* time between two refills */
    uint64_t more_ns_max; /* more tokens are available after this time, unless the bucket is full */
};

/*
 * Copies name, up to RATION_LIMIT_NAME_MAX bytes. Without a name, uses RATION_FIELDS_NAME_DEFAULT.
 */
void ration_fields_limit_init(struct ration_fields_limit *fields, const char *name,
                              const struct ration_limit *limit);

/* Seconds in which the limit refills from empty, rounded up, at least 1. */
uint64_t ration_fields_window_seconds(const struct ration_limit *limit);

/* How Retry-After is computed. */
struct ration_fields_retry {
    uint64_t seconds_max; /* upper bound; 0: no bound */
    /* Then a random number up to this is added, so that clients do not retry all at once */
    uint64_t spread_seconds;
};

/*
 * Returns the value of Retry-After for a decision, at least 1, or 0 if it must not be sent because
 * the request was allowed or no wait helps. random is used for spread_seconds and may be any
 * number.
 */
uint64_t ration_fields_retry_seconds(const struct ration_decision *decision,
                                     const struct ration_fields_retry *retry, uint64_t random);

/* One limit that applied to a request, and its own decision. */
struct ration_fields_item {
    const struct ration_fields_limit *limit;
    struct ration_decision decision;
};

/* Each function writes whole header lines. Without items, nothing is written. */
void ration_fields_write_policy(struct ration_output *output,
                                const struct ration_fields_item *items, size_t item_count);

/* retry_seconds is the Retry-After of the response; 0 if there is none. */
void ration_fields_write_state(struct ration_output *output, const struct ration_fields_item *items,
                               size_t item_count, uint64_t retry_seconds);
void ration_fields_write_retry_after(struct ration_output *output, uint64_t retry_seconds);

enum ration_fields_reset {
    RATION_FIELDS_RESET_DELTA = 0, /* seconds from now, like Envoy */
    RATION_FIELDS_RESET_EPOCH      /* a Unix time, like GitHub; send Date too */
};

/* X-RateLimit-Limit, -Remaining and -Reset of the limit that decided. */
void ration_fields_write_x(struct ration_output *output, const struct ration_decision *decision,
                           enum ration_fields_reset reset, uint64_t epoch_seconds);

#endif
