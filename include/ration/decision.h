/*
 * decision: the answer to "may this caller do this now?"
 *
 * Waits are rounded up and remaining is rounded down, so a caller who believes them is right:
 * retrying alone at now + retry_after_ns succeeds, one nanosecond earlier fails. (For one who
 * would also wait in line, see ration_bucket_reserve(), it is the moment to go without waiting.)
 */
#ifndef RATION_DECISION_H
#define RATION_DECISION_H

#include <stdint.h>

#include "ration/export.h"

RATION_C_BEGIN

enum ration_verdict {
    RATION_ALLOW = 0,
    RATION_DENY, /* not now: retry_after_ns says when */
    RATION_NEVER /* the cost exceeds the burst: no wait helps */
};

/* In retry_after_ns: no wait helps. */
#define RATION_FOREVER UINT64_MAX

struct ration_decision {
    enum ration_verdict verdict;
    uint32_t limit_index;    /* which of several limits decided; 0 where there is one */
    uint32_t limiter_index;  /* which limiter of a stack; 0 where there is one */
    uint32_t reserved;       /* 0 */
    uint64_t limit;          /* the burst */
    uint64_t remaining;      /* whole tokens that could be taken now */
    uint64_t retry_after_ns; /* 0 on ALLOW, RATION_FOREVER on NEVER */
    uint64_t reset_after_ns; /* until the bucket is full again */
    uint64_t delay_ns;       /* on ALLOW: go after this long; 0 but for queues and reservations */
};

/* "allow", "deny", "never". Static storage. */
RATION_API const char *ration_verdict_name(enum ration_verdict verdict);

RATION_C_END

#endif
