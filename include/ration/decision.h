/*
 * decision: the answer to "may this caller do this now?"
 *
 * Waits are rounded up and remaining is rounded down, so a caller can rely on both: if no other
 * caller takes tokens, a retry at now + retry_after_ns succeeds, and one nanosecond earlier fails.
 * (For a caller that could also wait in a queue, see ration_bucket_reserve(), it is the first time
 * at which it may proceed without waiting.)
 *
 *     10/s burst 20, empty, cost 1    DENY   limit 20   remaining 0   retry_after 100 ms   reset_after 2 s
 *     the same 100 ms later           ALLOW  limit 20   remaining 0   retry_after 0        reset_after 2 s
 *     the same, cost 21               NEVER  limit 20   remaining 0   retry_after FOREVER  reset_after 2 s
 */
#ifndef RATION_DECISION_H
#define RATION_DECISION_H

#include <stdint.h>

#include "ration/export.h"

RATION_C_BEGIN

enum ration_verdict {
    RATION_ALLOW = 0,
    RATION_DENY, /* not now: retry_after_ns says when */
    RATION_NEVER /* the cost exceeds the burst: waiting does not help */
};

/* Value of retry_after_ns where waiting does not help. */
#define RATION_FOREVER UINT64_MAX

struct ration_decision {
    enum ration_verdict verdict;
    uint32_t limit_index;    /* index of the limit that decided; 0 if there is only one */
    uint32_t limiter_index;  /* index of the limiter in a stack; 0 if there is only one */
    uint32_t reserved;       /* always 0 */
    uint64_t limit;          /* the limit's burst, in tokens */
    uint64_t remaining;      /* whole tokens available now */
    uint64_t retry_after_ns; /* 0 on ALLOW, RATION_FOREVER on NEVER */
    uint64_t reset_after_ns; /* until the bucket is full again */
    uint64_t delay_ns;       /* on ALLOW: proceed after this wait; 0 except for queues and
                                reservations */
};

/* Returns "allow", "deny" or "never". Static storage. */
RATION_API const char *ration_decision_verdict_name(enum ration_verdict verdict);

RATION_C_END

#endif
