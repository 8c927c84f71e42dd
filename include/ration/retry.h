/*
 * retry: when a denied client should try again.
 *
 * A thousand clients denied in the same millisecond all get nearly the same retry_after_ns. If each
 * waited exactly that long, they would collide again. So each adds a random delay of its own and
 * never waits less than retry_after_ns:
 *
 *     FULL          retry_after + random(0 .. span)
 *     EQUAL         retry_after + span / 2 + random(0 .. span / 2)
 *     DECORRELATED  retry_after + random(base .. 3 x the last random part)
 *
 * span starts at base and doubles with each consecutive denial; every random part is at most cap.
 *
 *     struct ration_retry retry;
 *     ration_retry_init(&retry, RATION_JITTER_FULL, 10 * RATION_NS_PER_MS,
 *                       5 * RATION_NS_PER_SECOND, seed);
 *     delay_ns = ration_retry_next(&retry, &decision);
 *
 * The same seed gives the same delays. Use one struct per client, and from one thread at a time.
 */
#ifndef RATION_RETRY_H
#define RATION_RETRY_H

#include <stdint.h>

#include "ration/decision.h"
#include "ration/export.h"
#include "ration/status.h"

RATION_C_BEGIN

enum ration_jitter { RATION_JITTER_FULL = 0, RATION_JITTER_EQUAL, RATION_JITTER_DECORRELATED };

struct ration_retry {
    enum ration_jitter jitter;
    uint64_t base_ns;
    uint64_t cap_ns;
    uint64_t last_ns; /* the last random part (DECORRELATED), or the span (FULL, EQUAL) */
    uint64_t random_state;
};

/*
 * Initialises *out_retry. Returns RATION_EINVAL, with *out_retry untouched, unless 1 <= base_ns <=
 * cap_ns and jitter is one of the three.
 */
RATION_API ration_status ration_retry_init(struct ration_retry *out_retry,
                                           enum ration_jitter jitter, uint64_t base_ns,
                                           uint64_t cap_ns, uint64_t seed);

/*
 * Returns how long to wait after this decision before the next try, in nanoseconds. After ALLOW it
 * is the decision's own delay_ns (usually 0), and the series of consecutive denials ends. After
 * NEVER it is RATION_FOREVER: do not retry.
 */
RATION_API uint64_t ration_retry_next(struct ration_retry *retry,
                                      const struct ration_decision *decision);

RATION_C_END

#endif
