/*
 * check_resp: writes a decision as RESP, with the field names of check_answer's JSON.
 *
 *     verdict, limit, burst, remaining, retry_after_ns, reset_after_ns, delay_ns, banned, degraded
 *
 * It is a map in RESP3 and a flat array of names and values in RESP2. A wait that never ends is -1,
 * as in CL.THROTTLE. If no limit applied, limit is null, and so are burst, remaining and
 * reset_after_ns. banned and degraded are 1 or 0.
 */
#ifndef RATION_CODEC_RESP_CHECK_RESP_H
#define RATION_CODEC_RESP_CHECK_RESP_H

#include "codec/json/check_answer.h"
#include "codec/resp/resp_answer.h"

/* Ignores answer->limits. */
void ration_check_resp_write(struct ration_output *output, enum ration_resp_version version,
                             const struct ration_check_answer *answer);

#endif
