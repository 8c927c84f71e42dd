/*
 * cl_throttle: inline limits of the Redis protocol.
 *
 *     CL.THROTTLE key max_burst count period [quantity]                     as in redis-cell
 *     GCRA key max_burst tokens_per_period period [TOKENS quantity]         as in Redis 8.8
 *
 * Both allow max_burst + 1 tokens and refill the given number of tokens per period, which is in
 * seconds. Both reply with five integers: limited (0 or 1), the capacity, the remaining tokens,
 * seconds until a retry would be allowed (-1 if it was allowed or never will be), and seconds until
 * the bucket is full. Seconds are rounded up, so that a client that waits as long as the reply says
 * is not too early, and a denial never says 0.
 *
 * The period of GCRA may have a fraction, and its quantity is at least 1.
 *
 * Not copied from redis-cell: negative quantities that create tokens, negative bursts, arithmetic
 * that wraps, keys that must be UTF-8.
 */
#ifndef RATION_CODEC_RESP_CL_THROTTLE_H
#define RATION_CODEC_RESP_CL_THROTTLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/output.h"
#include "codec/resp/resp_answer.h"
#include "ration/decision.h"
#include "ration/limit.h"
#include "ration/limiter.h"

/* Room for any error and the text that it quotes. */
#define RATION_CL_THROTTLE_ERROR_SIZE (RATION_ERROR_MESSAGE_MAX + 64)

struct ration_cl_throttle {
    struct ration_key key; /* points into the arguments */
    uint64_t tokens;       /* per period; at least 1, and at most 1 per ns */
    uint64_t period_ns;
    uint64_t burst; /* max_burst + 1 */
    uint64_t quantity;
    bool is_gcra; /* which of the two commands it was: their errors differ */
};

/*
 * Parses the arguments of a command; the first is its name. If they are invalid, returns false with
 * *out_throttle untouched and the complete error in out_error, for ration_resp_write_error().
 */
bool ration_cl_throttle_parse(const struct ration_key *arguments, size_t argument_count,
                              struct ration_cl_throttle *out_throttle,
                              char out_error[RATION_CL_THROTTLE_ERROR_SIZE]);
bool ration_cl_throttle_parse_gcra(const struct ration_key *arguments, size_t argument_count,
                                   struct ration_cl_throttle *out_throttle,
                                   char out_error[RATION_CL_THROTTLE_ERROR_SIZE]);

/*
 * Makes the limit. Returns false if it is not supported (a bucket that takes more than 16 years to
 * fill), with *out_limit untouched and out_error as above.
 */
bool ration_cl_throttle_make_limit(const struct ration_cl_throttle *throttle,
                                   struct ration_limit *out_limit,
                                   char out_error[RATION_CL_THROTTLE_ERROR_SIZE]);

/* Converts to whole seconds, rounded up. */
static inline uint64_t ration_cl_throttle_seconds(uint64_t ns)
{
    return ns / RATION_NS_PER_SECOND + (ns % RATION_NS_PER_SECOND != 0);
}

/* Writes the reply to both commands, which is the same in both versions of the protocol. */
void ration_cl_throttle_write(struct ration_output *output, const struct ration_decision *decision);

#endif
