/*
 * resp_limits: the default limits on a Redis protocol request of an authenticated client.
 */
#ifndef RATION_TESTS_RESP_LIMITS_H
#define RATION_TESTS_RESP_LIMITS_H

#include "codec/resp/resp_request.h"

static const struct ration_resp_limits resp_limits_default = {
    .arguments_max = RATION_RESP_ARGUMENTS_MAX,
    /* one more than the longest key, so that the command refuses it and the connection stays open */
    .argument_bytes_max = RATION_KEY_SIZE_MAX + 1,
    .request_bytes_max = 1024 * 1024,
    .inline_bytes_max = RATION_RESP_INLINE_BYTES_MAX,
};

#endif
