#include "support/engine_ops_input.h"

#include <stdio.h>
#include <string.h>

#define SECOND         RATION_NS_PER_SECOND
#define LIMITS_CHANGED 5 /* limits of a policy that reloads change, each for a path of its own */

uint8_t engine_ops_byte(struct engine_ops_input *input)
{
    if (input->left == 0)
        return 0;
    input->left--;
    return *input->data++;
}

/*
 * Every algorithm, with rates that need rounding, the longest allowed times, and starts that are not full. All have the
 * same stale_after: with a shorter one the engine might still have a full bucket that is not saved.
 */
static const char *const limits[] = {
    "rate: 10/h",
    "rate: 3/s, burst: 7",
    "rate: 1/365d, burst: 16",
    "rate: 1000000000/s",
    "rate: 7/min, start: empty",
    "rate: 10/h, start: 3",
    "rate: 10/h, refill: interval",
    "rate: 3/d, burst: 8, refill: interval",
    "rate: 4000000/s, burst: 6000000, refill: interval",
    "rate: 1/365d, burst: 15, refill: interval",
    "rate: 4/s, burst: 9, algorithm: leaky_queue",
    "rate: 9/s, algorithm: fixed_window",
    "rate: 5/10d, algorithm: fixed_window, start: empty",
    "rate: 9/min, algorithm: sliding_window",
    "rate: 11/30d, algorithm: sliding_window, start: 2",
    "rate: 9/min, algorithm: sliding_log",
    "rate: 4/365d, algorithm: sliding_log",
    "rate: 6/h, algorithm: sliding_log, start: empty",
    "rate: 5/h, reserve: 3/d burst 5",
    "rate: 2/365d, burst: 8, reserve: 1/365d burst 15",
};

#define LIMIT_COUNT (sizeof(limits) / sizeof(limits[0]))

static const char *const extras[] = {
    "", "", "", ", shadow: true", ", overflow: deny", ", overflow: allow"};

void engine_ops_policy(struct engine_ops_input *input, char *text)
{
    int used = snprintf(text, ENGINE_OPS_POLICY_MAX,
                        "limits: [{name: steady, match: {path: /%d}, key: user, rate: 3/s, burst: "
                        "7, max_keys: 100}",
                        ENGINE_OPS_STEADY_PATH);

    for (int i = 0; i < LIMITS_CHANGED; i++) {
        uint8_t limit = engine_ops_byte(input);
        uint8_t extra = engine_ops_byte(input);

        if (extra >= 250)
            continue; /* a policy without this limit */
        used += snprintf(text + used, ENGINE_OPS_POLICY_MAX - (size_t)used,
                         ", {name: %c, match: {path: /%d}, key: user, max_keys: 100, %s%s}",
                         'a' + i, i, limits[limit % LIMIT_COUNT],
                         extras[extra % (sizeof(extras) / sizeof(extras[0]))]);
    }
    /* decided together with the limit of path 0, unless that is a queue */
    if (strstr(text, "leaky_queue") == NULL)
        used +=
            snprintf(text + used, ENGINE_OPS_POLICY_MAX - (size_t)used,
                     ", {name: both, match: {path: /0}, key: user, max_keys: 100, rate: 20/min}");
    snprintf(text + used, ENGINE_OPS_POLICY_MAX - (size_t)used, "]");
}

uint64_t engine_ops_tokens(struct engine_ops_input *input)
{
    static const uint64_t many[] = {0, 100, 5000000, UINT64_C(1) << 33, UINT64_MAX};
    uint8_t byte = engine_ops_byte(input);

    return byte < 240 ? UINT64_C(1) + byte % 12 : many[byte % (sizeof(many) / sizeof(many[0]))];
}

uint64_t engine_ops_time_ns(struct engine_ops_input *input)
{
    static const uint64_t times_ns[] = {
        0,
        1,
        SECOND / 3,
        SECOND,
        7 * SECOND,
        60 * SECOND,
        3600 * SECOND,
        5 * 3600 * SECOND,
        RATION_NS_PER_DAY,
        40 * RATION_NS_PER_DAY,
        RATION_NS_PER_YEAR,
    };

    return times_ns[engine_ops_byte(input) % (sizeof(times_ns) / sizeof(times_ns[0]))];
}

uint64_t engine_ops_now_ns(struct engine_ops_input *input, uint64_t clock_ns)
{
    static const uint64_t odd_ns[] = {0,
                                      1,
                                      ENGINE_OPS_START_NS - 1,
                                      ENGINE_OPS_START_NS + RATION_NS_PER_YEAR,
                                      UINT64_C(1) << 59,
                                      UINT64_C(1) << 60,
                                      UINT64_MAX >> 1,
                                      UINT64_MAX};
    uint8_t byte = engine_ops_byte(input);
    uint64_t now_ns = clock_ns;

    if (byte >= 250)
        now_ns = odd_ns[engine_ops_byte(input) % (sizeof(odd_ns) / sizeof(odd_ns[0]))];
    else if (byte >= 230)
        now_ns -= now_ns < (byte - 229) * SECOND ? now_ns : (byte - 229) * SECOND;
    return now_ns;
}

uint64_t engine_ops_block_end_ns(struct engine_ops_input *input, uint64_t now_ns)
{
    static const uint64_t lengths_ns[] = {
        RATION_BLOCK_NS_MAX - 1, RATION_BLOCK_NS_MAX, RATION_BLOCK_NS_MAX + 1, RATION_FILL_NS_MAX,
        UINT64_C(1) << 59,       UINT64_C(1) << 60,   UINT64_MAX >> 1,         UINT64_MAX};
    uint8_t byte = engine_ops_byte(input);
    uint64_t length_ns = byte < 128 ? engine_ops_time_ns(input) : lengths_ns[byte % 8];

    return now_ns < UINT64_MAX - length_ns ? now_ns + length_ns : UINT64_MAX;
}
