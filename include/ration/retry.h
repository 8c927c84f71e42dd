/*
 * retry: when a denied caller should come back.
 *
 * A thousand clients denied in the same millisecond are all told nearly the same wait. If they
 * obey it to the nanosecond they meet again. So each adds a random delay of its own, never
 * shorter than the told wait:
 *
 *     FULL          told + random(0 .. span)
 *     EQUAL         told + span / 2 + random(0 .. span / 2)
 *     DECORRELATED  told + random(base .. 3 x the last random part)
 *
 * span starts at base and doubles with each denial in a row; every random part is at most cap.
 *
 *     struct ration_retry retry;
 *     ration_retry_init(&retry, RATION_JITTER_FULL, 10 * RATION_NS_PER_MS,
 *                       5 * RATION_NS_PER_SECOND, seed);
 *     delay_ns = ration_retry_next(&retry, &decision);
 *
 * The same seed gives the same delays. One struct per caller; not for several threads at once.
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
    uint64_t last_ns; /* the last random part (DECORRELATED), or the span (the others) */
    uint64_t random_state;
};

/*
 * Returns RATION_EINVAL, with *out_retry untouched, unless 1 <= base_ns <= cap_ns and jitter is
 * one of the three.
 */
RATION_API ration_status ration_retry_init(struct ration_retry *out_retry,
                                           enum ration_jitter jitter, uint64_t base_ns,
                                           uint64_t cap_ns, uint64_t seed);

/*
 * How long to wait after this decision before trying again. After ALLOW it is the decision's
 * own delay (usually 0), and the count of denials starts anew. After NEVER it is
 * RATION_FOREVER: do not try again.
 */
RATION_API uint64_t ration_retry_next(struct ration_retry *retry,
                                      const struct ration_decision *decision);

RATION_C_END

#endif
