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
 * Before you use it:
 *
 *   - burst is the total capacity, never "extra". Without a burst it equals the tokens per period.
 *   - A decision is made for the time that the caller passes. Use one kind of clock for one bucket.
 *   - A denial takes no tokens, so denied callers may retry as often as they like.
 *   - The library never logs, exits, reads the environment, allocates in a decision, or starts
 *     a thread. It stops the program only for a bug in the program: a limit that was never made.
 *
 * This header includes all others:
 *
 *     limit.h      limits, and their text
 *     decision.h   the answer to a request
 *     bucket.h     one bucket in 16 bytes of the caller's memory
 *     limiter.h    a bucket per key, several limits per key
 *     stack.h      several limiters decided together
 *     policy.h     a file that says which limits apply to which requests
 *     engine.h     matches requests against a policy, builds keys and decides, in memory or in Redis
 *     redis.h      how to reach Redis
 *     dump.h       lists, saves and loads keys
 *     retry.h      when to try again after a denial
 *     stats.h      what a limiter has decided
 *     clock.h      where the time comes from
 *     status.h     why a call failed
 *     version.h    the version of the library
 */
#ifndef RATION_RATION_H
#define RATION_RATION_H

#include "ration/bucket.h"
#include "ration/clock.h"
#include "ration/decision.h"
#include "ration/dump.h"
#include "ration/engine.h"
#include "ration/export.h"
#include "ration/limit.h"
#include "ration/limiter.h"
#include "ration/policy.h"
#include "ration/retry.h"
#include "ration/stack.h"
#include "ration/stats.h"
#include "ration/status.h"
#include "ration/version.h"

#endif
