/*
 * fields: what a limit allows and what is left of it, as header fields.
 *
 *     RateLimit-Policy: "login";q=10;w=120        at most 10 at once, full again after 120 seconds
 *     RateLimit: "login";r=4;t=12                 4 are left, one more in 12 seconds
 *     Retry-After: 12
 *
 * The first two are those of draft-ietf-httpapi-ratelimit-headers-08 to -11; X-RateLimit-* is what
 * many clients know. t is the time until there are more tokens than now: exact for token buckets, leaky
 * queues and fixed windows, at the latest for the others, whose decision does not say it. On a denial t is
 * what Retry-After says: a later t would contradict it.
 *
 * Seconds are rounded up: who comes back then is let in.
 */
#ifndef RATION_PROTO_FIELDS_H
#define RATION_PROTO_FIELDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/output.h"
#include "ration/decision.h"
#include "ration/limit.h"

/* Integers of structured fields have 15 digits (RFC 9651). More is written as this. */
#define RATION_FIELDS_NUMBER_MAX UINT64_C(999999999999999)

/* What a limit without a name is called, in fields and elsewhere: one that came with a request. */
#define RATION_FIELDS_NAME_DEFAULT "default"

/* "name", with each byte of it escaped, and ;q= and ;w= with a number. */
#define RATION_FIELDS_POLICY_SIZE (2 * RATION_LIMIT_NAME_MAX + 2 + 2 * (3 + 15))

/* What is the same for all answers about a limit: made once. */
struct ration_fields_limit {
    uint16_t name_size; /* of the name in quotes, with which policy begins */
    uint16_t policy_size;
    char policy[RATION_FIELDS_POLICY_SIZE]; /* "login";q=10;w=120 */
    uint64_t burst;
    uint64_t step_tokens; /* that come back at a time; 0: that is not known ... */
    uint64_t step_ns;     /* ... and the time between two such */
    uint64_t more_ns_max; /* there are more tokens after this time, if any are missing */
};

/* name is copied, up to RATION_LIMIT_NAME_MAX bytes; without one: RATION_FIELDS_NAME_DEFAULT. */
void ration_fields_limit_init(struct ration_fields_limit *fields, const char *name,
                              const struct ration_limit *limit);

/* Seconds in which the limit fills from empty, rounded up, at least 1. */
uint64_t ration_fields_window_seconds(const struct ration_limit *limit);

/* How Retry-After is told. */
struct ration_fields_retry {
    uint64_t seconds_max; /* tell no more than this; 0: what it is */
    uint64_t
        spread_seconds; /* then add up to this many, so that clients do not come back at once */
};

/*
 * What Retry-After says for a decision: at least 1. random spreads; any number will do. 0: it is
 * not to be sent, since the request was allowed, or no wait helps.
 */
uint64_t ration_fields_retry_seconds(const struct ration_decision *decision,
                                     const struct ration_fields_retry *retry, uint64_t random);

/* One limit that a request was held to, and what it alone decided. */
struct ration_fields_item {
    const struct ration_fields_limit *limit;
    struct ration_decision decision;
};

/* Each writes whole lines. Without items nothing is written. */
void ration_fields_write_policy(struct ration_output *output,
                                const struct ration_fields_item *items, size_t item_count);

/* retry_seconds is that of the answer; 0 where there is none. */
void ration_fields_write_state(struct ration_output *output, const struct ration_fields_item *items,
                               size_t item_count, uint64_t retry_seconds);
void ration_fields_write_retry_after(struct ration_output *output, uint64_t retry_seconds);

enum ration_fields_reset {
    RATION_FIELDS_RESET_DELTA = 0, /* seconds from now, as Envoy */
    RATION_FIELDS_RESET_EPOCH      /* a time, as GitHub: send Date too */
};

/* X-RateLimit-Limit, -Remaining and -Reset of the limit that decided. */
void ration_fields_write_x(struct ration_output *output, const struct ration_decision *decision,
                           enum ration_fields_reset reset, uint64_t epoch_seconds);

#endif
