/*
 * check_resp: a decision as RESP, in the words of check_answer's JSON.
 *
 *     verdict, limit, burst, remaining, retry_after_ns, reset_after_ns, delay_ns, banned, degraded
 *
 * A map in RESP3, names and values in RESP2. A wait that never ends is -1, as CL.THROTTLE has it. Where
 * no limit applied, limit is null, and so are burst, remaining and reset_after_ns. banned and degraded
 * are 1 or 0.
 */
#ifndef RATION_PROTO_CHECK_RESP_H
#define RATION_PROTO_CHECK_RESP_H

#include "proto/check_answer.h"
#include "proto/resp_answer.h"

/* The limits of the answer are not told. */
void ration_check_resp_write(struct ration_output *output, enum ration_resp_version version,
                             const struct ration_check_answer *answer);

#endif
