/*
 * throttle: limits that come with the request.
 *
 *     CL.THROTTLE key max_burst count period [quantity]                     as redis-cell has it
 *     GCRA key max_burst tokens_per_period period [TOKENS quantity]         as Redis 8.8 had it
 *
 * Both hold max_burst + 1 tokens and restore so many per period, which is in seconds. Both answer
 * with five integers: limited (0 or 1), the capacity, what remains, seconds until it would pass (-1
 * if it did, and if it never will), seconds until the bucket is full. Seconds are rounded up, so that
 * a client that waits as long as the reply says is not too early, and a denial never says 0.
 *
 * The period of GCRA may have a fraction, and its quantity is at least 1.
 *
 * Not copied from redis-cell: negative quantities that mint tokens, negative bursts, arithmetic
 * that wraps, keys that must be UTF-8.
 */
#ifndef RATION_PROTO_THROTTLE_H
#define RATION_PROTO_THROTTLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/output.h"
#include "proto/resp_answer.h"
#include "ration/decision.h"
#include "ration/limit.h"
#include "ration/limiter.h"

/* Room for any error and what it repeats. */
#define RATION_THROTTLE_ERROR_SIZE (RATION_ERROR_MESSAGE_MAX + 64)

struct ration_throttle {
    struct ration_key key; /* as in the arguments */
    uint64_t tokens;       /* per period, at least 1 and at most 1 per ns */
    uint64_t period_ns;
    uint64_t burst; /* max_burst + 1 */
    uint64_t quantity;
    bool is_gcra; /* which of the two it was: their errors differ */
};

/*
 * Reads the arguments of a command; the first is its name. False if they are wrong, with
 * *out_throttle untouched and out_error the whole error, as ration_resp_write_error() takes it.
 */
bool ration_throttle_parse(const struct ration_key *arguments, size_t argument_count,
                           struct ration_throttle *out_throttle,
                           char out_error[RATION_THROTTLE_ERROR_SIZE]);
bool ration_throttle_parse_gcra(const struct ration_key *arguments, size_t argument_count,
                                struct ration_throttle *out_throttle,
                                char out_error[RATION_THROTTLE_ERROR_SIZE]);

/*
 * Makes the limit. False if it cannot be kept (a bucket that takes more than 16 years to fill),
 * with *out_limit untouched and out_error as above.
 */
bool ration_throttle_make_limit(const struct ration_throttle *throttle,
                                struct ration_limit *out_limit,
                                char out_error[RATION_THROTTLE_ERROR_SIZE]);

/* Whole seconds, rounded up. */
static inline uint64_t ration_throttle_seconds(uint64_t ns)
{
    return ns / RATION_NS_PER_SECOND + (ns % RATION_NS_PER_SECOND != 0);
}

/* The reply to both, the same in both versions of the protocol. */
void ration_throttle_write(struct ration_output *output, const struct ration_decision *decision);

#endif
