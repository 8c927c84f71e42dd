/*
 * libration: may this caller do this now?
 *
 *     #include <ration/ration.h>                                   cc app.c -lration
 *
 *     static struct ration_bucket bucket;                          // full
 *     struct ration_limit limit;
 *     ration_limit_parse("100/s burst 20", &limit, NULL);          // made once, checked
 *     if (ration_bucket_allow(&bucket, &limit)) { serve(); }       // any thread, no lock
 *
 * What to know before you rely on it:
 *
 *   - burst is the total capacity, never "extra". Without one it equals the tokens per period.
 *   - The time in a decision is the time you pass. Use one kind of clock for one bucket.
 *   - A denial costs nothing, so denied callers may be asked to retry as often as they like.
 *   - The library never logs, exits, reads the environment, allocates in a decision, or starts
 *     a thread. It stops the program only for a bug in the program: a limit that was never made.
 *
 * Each header says what it holds: limit.h (limits, and their text), decision.h (answers),
 * bucket.h (one bucket in 16 bytes), limiter.h (a bucket per key, several limits at once), policy.h
 * (a file that says which limits apply to whom), gate.h (a policy at work: requests matched, keyed and
 * decided, in memory or in Redis), redis.h (where Redis is), dump.h (keys listed, saved and loaded),
 * stats.h, clock.h, retry.h (coming back after a denial), status.h, version.h.
 */
#ifndef RATION_RATION_H
#define RATION_RATION_H

#include "ration/bucket.h"
#include "ration/clock.h"
#include "ration/decision.h"
#include "ration/dump.h"
#include "ration/export.h"
#include "ration/gate.h"
#include "ration/limit.h"
#include "ration/limiter.h"
#include "ration/policy.h"
#include "ration/retry.h"
#include "ration/stats.h"
#include "ration/status.h"
#include "ration/version.h"

#endif
