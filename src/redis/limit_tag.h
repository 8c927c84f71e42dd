/*
 * limit_tag: names the limit a bucket was written under; the text of a bucket ends with it.
 *
 *     t10/60e9                     a token bucket: 10 tokens per 60 * 10^9 ns
 *     t10/60e9/20                  with a burst of 20
 *     i, q, f, s, l                interval refill, leaky queue, fixed window, sliding window, sliding log
 *     r3/1e9/2+100/3600e9/5        a burst reserve: the sustained part, and the reserve
 *     -                            an inline limit: the bucket is read under whatever limit the request brings
 *
 * If the bucket is blocked, the time it is blocked until precedes the tag, and a ! follows it
 * ("h1794846534 875380604 f10/60e9!").
 *
 * A bucket that was written under another limit is converted before a decision (see convert.h).
 */
#ifndef RATION_REDIS_LIMIT_TAG_H
#define RATION_REDIS_LIMIT_TAG_H

#include "base/output.h"
#include "ration/limit.h"

/* Writes a space and the tag. is_given: the limit is an inline limit. */
void ration_redis_limit_tag_write(const struct ration_limit *limit, bool is_given,
                                  struct ration_output *text);

/* Reads a tag without the space. False: it is not a tag, or it is that of inline limits. */
bool ration_redis_limit_tag_read(const char *text, size_t size, struct ration_limit *out_limit);

#endif
